"""Whether a script is the one that ran before: a digest of what its memory depends on."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuconsole.errors import UsageError
from gpuconsole.preflight.scan import source

MOST_FILES = 500
CONFIG_SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")
CONFIG_BYTES = 256 * 1024
_BATCH_OPTION = re.compile(r"batch|^-bs?$|^--bs$", re.IGNORECASE)
BATCH = "{batch}"
"""Stands for the batch size among a script's arguments."""


def script_digest(script: Path, args: Sequence[str] = ()) -> str:
    """Return a digest of a script, the modules beside it that it imports, and the configuration
    files that it or its arguments name; "" when the script cannot be read.

    Other files of the project do not count: changing them does not make another script of it.
    """
    found = hashlib.sha256()
    try:
        script = script.resolve()
        root = script.parent
        for path in sorted(set(_parts(script, root, args))):
            content = path.read_bytes()
            found.update(f"{path.relative_to(root)}\0{len(content)}\0".encode())
            found.update(content)
    except (OSError, RuntimeError, ValueError):
        return ""
    return found.hexdigest()[:32]


def settings_of(args: Sequence[str], batch: int | None) -> tuple[str, ...]:
    """Return the arguments with the batch size taken out, so that runs which differ in nothing
    else are seen to be of one kind."""
    if batch is None:
        return tuple(args)
    made: list[str] = []
    option = ""
    for word in args:
        name, equals, value = word.partition("=")
        if equals and value == str(batch) and _BATCH_OPTION.search(name):
            word = f"{name}={BATCH}"
        elif word == str(batch) and _BATCH_OPTION.search(option):
            word = BATCH
        option = word if word.startswith("-") else ""
        made.append(word)
    return tuple(made)


def _parts(script: Path, root: Path, args: Sequence[str]) -> Iterator[Path]:
    """Give the script, the modules of its folder that it imports, and configuration files."""
    waiting, seen = [script], {script}
    while waiting:
        path = waiting.pop()
        yield path
        for other in _named(path, root):
            if other not in seen and len(seen) < MOST_FILES:
                seen.add(other)
                if other.suffix == ".py":
                    waiting.append(other)
                else:
                    yield other
    for word in args:
        config = _config(root, word.rpartition("=")[2])
        if config is not None:
            yield config


def _named(path: Path, root: Path) -> Iterator[Path]:
    """Give the files below `root` that a Python file imports, or names as its configuration."""
    if path.suffix != ".py":
        return
    try:
        tree = source.parse(path)
    except UsageError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(root, root, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = _base(path, root, node.level)
            name = node.module or ""
            for alias in node.names:
                yield from _modules(root, base, f"{name}.{alias.name}".lstrip("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            config = _config(root, node.value)
            if config is not None:
                yield config


def _base(path: Path, root: Path, level: int) -> Path:
    """Return the folder in which an import with so many leading dots begins."""
    if not level:
        return root
    return path.parents[min(level, len(path.parents)) - 1]


def _modules(root: Path, base: Path, name: str) -> Iterator[Path]:
    """Give the files that importing `a.b.c` runs, which are those of a and a.b too."""
    where = base
    for part in name.split("."):
        if not part.isidentifier():
            return
        where = where / part
        for path in (where / "__init__.py", where.with_name(f"{part}.py")):
            if _is_below(root, path):
                yield path


def _is_below(root: Path, path: Path) -> bool:
    """Tell whether a path is a file below `root`, links followed."""
    try:
        return path.is_file() and path.resolve().is_relative_to(root)
    except (OSError, RuntimeError, ValueError):
        return False


def _config(root: Path, name: str) -> Path | None:
    """Return the small configuration file below `root` that a word names."""
    if len(name) > 255 or not name.lower().endswith(CONFIG_SUFFIXES):
        return None
    path = root / name
    if not path.is_relative_to(root) or not _is_below(root, path):
        return None
    return path if path.stat().st_size <= CONFIG_BYTES else None

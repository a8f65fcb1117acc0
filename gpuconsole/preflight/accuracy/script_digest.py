"""Whether a script is the one that ran before: a digest of what its memory depends on."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.script_edits import BATCH, Edit
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import UsageError
from gpuconsole.preflight.interpreter.domain import syntax
from gpuconsole.preflight.interpreter.frontend import source

MOST_FILES = 500
CONFIG_SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")
CONFIG_BYTES = 256 * 1024
_CONFIG_SUFFIX = re.compile(
    f"(?:{'|'.join(map(re.escape, CONFIG_SUFFIXES))})['\"{{]".encode(), re.IGNORECASE
)
"""Such a suffix where a text ends, or a field of a formatted one begins."""
_BATCH_OPTION = re.compile(r"^(?!.*(val|test|pred|infer)).*batch|^--?bs?$", re.IGNORECASE)
"""Names of options for the batch that trains; that of an evaluation is a setting as any other."""


def script_digest(script: Path, args: Sequence[str] = (), project: Path | None = None) -> str:
    """Return a digest of a script, the modules of its project that it imports, and the
    configuration files that it or its arguments name; "" when the script cannot be read.

    Other files of the project do not count: changing them does not make another script of it.
    """
    digest = hashlib.sha256()
    try:
        script = script.resolve()
        above = script.parent if project is None else project.resolve()
        root = above if script.is_relative_to(above) else script.parent
        for path in sorted(set(_Files(script, root, source.Lookup(root)).all(args))):
            content = path.read_bytes()
            name = os.path.relpath(path, script.parent)
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
    except (OSError, RuntimeError, ValueError):
        return ""
    return digest.hexdigest()[:32]


def task_digest(task: Task) -> str:
    """Return a digest of a task's script and of what it runs in: variables, mounts and lines that
    are changed in its copy; "" when the script cannot be read.

    With none of these it is that of the script. Arguments and batch size are no part of it.
    """
    project = Path(task.project) if task.project else None
    digest = script_digest(Path(task.script), task.args, project)
    around = {
        "env": dict(task.env),
        "mounts": [[mount.source, mount.target] for mount in task.mounts],
        "edits": [[edit.file, edit.line, edit.new] for edit in lasting_edits(task)],
    }
    if not digest or not any(around.values()):
        return digest
    return hashlib.sha256(json.dumps([digest, around], sort_keys=True).encode()).hexdigest()[:32]


def lasting_edits(task: Task) -> tuple[Edit, ...]:
    """Return the lines that are changed in a task's copy, but for those of its batch size."""
    if task.batch_size is None:
        return task.edits
    return tuple(edit for edit in task.edits if edit.kind != BATCH)


def modules(script: Path, root: Path) -> tuple[Path, ...]:
    """Return a script and the modules below `root` that it imports, and these import."""
    return tuple(dict.fromkeys(_modules(script, root)))


def _modules(script: Path, root: Path) -> Iterator[Path]:
    root = root.resolve()
    files = _Files(script.resolve(), root, source.Lookup(root))
    return (path for path in files.all(()) if path.suffix == ".py")


def may_use_paddle(
    script: Path, project: Path | None = None, imported: Iterable[Path] = ()
) -> bool:
    """Tell whether a script, or a module of its project that it imports, names Paddle at all.

    `imported` are modules that reading came to; some lie in folders that only the script adds to
    `sys.path`.
    """
    try:
        # Most scripts name it themselves: their modules need not be looked for.
        files = chain(_modules(script, script.parent if project is None else project), imported)
        return any(b"paddle" in path.read_bytes().lower() for path in files)
    except (OSError, RuntimeError, ValueError):
        return True


def settings_of(args: Sequence[str], batch: int | None) -> tuple[str, ...]:
    """Return the arguments without the batch size, so that runs which differ in nothing else, or
    take it from the script's own default, are seen to be of one kind."""
    words: list[str] = []
    for word in args:
        name, equals, value = word.partition("=")
        if equals and value == str(batch) and _BATCH_OPTION.search(name):
            continue
        if word == str(batch) and words and _BATCH_OPTION.search(words[-1]):
            words.pop()
            continue
        words.append(word)
    return tuple(words)


@dataclass(frozen=True, slots=True)
class _Names:
    """What a Python file names."""

    modules: tuple[tuple[int, str], ...] = ()
    """How many folders up, and the name from there; 0 for a name that Python looks for."""
    configurations: tuple[str, ...] = ()


@lru_cache(maxsize=4 * MOST_FILES)
def _names(path: Path, changed: int, size: int) -> _Names:
    """Return what a file names; nothing where it cannot be read. It is parsed once for each state
    that it is in: time of change and size only key the cache."""
    try:
        tree = source.parse(path)
    except UsageError:
        return _Names()
    modules: dict[tuple[int, str], None] = {}
    for node in syntax.statements(tree.body):
        if isinstance(node, ast.Import):
            modules.update({(0, alias.name): None for alias in node.names})
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module or ''}.{alias.name}".lstrip(".")
                modules[node.level, name] = None
    return _Names(tuple(modules), _configurations(path, tree))


def _configurations(path: Path, tree: ast.Module) -> tuple[str, ...]:
    """Return the names of configuration files in a Python file. Its expressions are looked
    through only where its text has one of the suffixes: few files do."""
    try:
        if not _CONFIG_SUFFIX.search(path.read_bytes()):
            return ()
    except OSError:
        return ()
    constants = (node.value for node in syntax.nodes([tree]) if isinstance(node, ast.Constant))
    return tuple(dict.fromkeys(str(value) for value in constants if _is_configuration(value)))


def _is_configuration(word: object) -> bool:
    """Tell whether a word may be the name of a configuration file."""
    return isinstance(word, str) and len(word) <= 255 and word.lower().endswith(CONFIG_SUFFIXES)


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a project, below `root`, that a script is made of."""

    script: Path
    root: Path
    lookup: source.Lookup

    def all(self, args: Sequence[str]) -> Iterator[Path]:
        """Give the script, the modules of the project that it imports, and configuration files."""
        waiting, seen = [self.script], {self.script}
        while waiting:
            path = waiting.pop()
            yield path
            for other in self._named(path):
                if other not in seen and len(seen) < MOST_FILES:
                    seen.add(other)
                    waiting.append(other)
        for word in args:
            yield from self._config(word.rpartition("=")[2])

    def _named(self, path: Path) -> Iterator[Path]:
        """Give the files that a Python file imports, or names as its configuration."""
        if path.suffix != ".py":
            return
        status = path.stat()
        named = _names(path, status.st_mtime_ns, status.st_size)
        for level, name in named.modules:
            yield from self._modules(path, level, name)
        for name in named.configurations:
            yield from self._config(name)

    def _modules(self, path: Path, level: int, name: str) -> Iterator[Path]:
        """Give the files that importing `a.b.c` runs, which are those of a and a.b too."""
        if level:
            bases = {path.parents[min(level, len(path.parents)) - 1]}
        else:
            # Where Python looks first, and where projects put themselves on its path.
            bases = {self.script.parent, self.root}
        for base in bases:
            where = str(base)
            for part in name.split("."):
                if not part.isidentifier():
                    break
                yield from (module for module, _ in self.lookup.modules(where, part))
                where = os.path.join(where, part)

    def _config(self, name: str) -> Iterator[Path]:
        """Give the small configuration files that a word may name."""
        if not _is_configuration(name):
            return
        for base in {self.script.parent, self.root}:
            path = base / name
            if self._is_inside(path) and path.stat().st_size <= CONFIG_BYTES:
                yield path

    def _is_inside(self, path: Path) -> bool:
        """Tell whether a path is a file of the project, links followed."""
        try:
            return path.is_file() and path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError, ValueError):
            return False

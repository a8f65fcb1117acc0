"""The rule by which scripts are drawn from a repository, so that none is chosen by hand.

    python -m benchmarks.wild.drawing [--any-paddle] FOLDER [FOLDER ...]

prints what would be drawn, and what is left out with the names that Paddle lacks. A program is a
Python file and the files of its repository that it imports, followed. It is an entry where it runs
when started, imports paddle, and calls `backward` and `step` (or `minimize`), or `prepare` and
`fit`; where only the files that it imports do so, its own name must say that it trains. Each name
of Paddle that the program uses must exist in the installed Paddle (`names.py`), unless the program
checks whether it does: most of what was written for Paddle 1 and early 2 does not begin. The
batches up to `third-party-4` were drawn without this condition, as with `--any-paddle`.

The command line of an entry is the first one that a README gives for it, `data` in the place of
what a reader should fill in. Of each repository the first `MOST` entries are drawn, in the order of
the hashes of their paths. An official suite has one script and many configurations: these are drawn
in the same order, but for parts that others include.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.wild import names

MOST = 3
_LONGEST_PROGRAM = 400
_NAMED = re.compile(r"train|main|finetune|run|fit", re.IGNORECASE)
_OTHER = re.compile(
    r"test|eval|infer|predict|export|deploy|visual|demo|valid|profile|convert|setup", re.IGNORECASE
)
_PART = re.compile(r"/_base_|/datasets/|/slim/|quant|prune")
_OPTIMIZES = re.compile(
    r"^(?:Optimizer|optimizer|OptimizerBuilder|_BASE_|_base_)\s*:", re.MULTILINE
)
_PLACEHOLDER = re.compile(r"<[^<>]*>|\[[^\]]*\]|\$\{?\w+\}?|\([^)]*\)|</?code>|</?pre>")
_COMMAND = re.compile(r"python3?(?:\.\d+)?\s+(?P<rest>[^`\n#|&;]*)")


@dataclass(frozen=True, slots=True)
class Drawn:
    """An entry as it was found."""

    script: str
    workdir: str
    argv: tuple[str, ...]
    modules: tuple[str, ...]
    """The modules that the program imports and the repository lacks, first part only."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What was drawn from a repository."""

    entries: tuple[Drawn, ...]
    left_out: Mapping[str, tuple[str, ...]]
    """The scripts that use names that the installed Paddle lacks, and these names."""


@dataclass(frozen=True, slots=True)
class _File:
    """What is read in a file."""

    imports: tuple[str, ...] = ()
    """Relative ones with their dots."""
    calls: frozenset[str] = frozenset()
    """The names of the methods and functions that are called."""
    starts: bool = False
    """Whether it does something when started: a `__main__` block, training, a call of its own."""
    paddle: names.Names = field(default_factory=names.Names)


def draw(
    root: Path, *, absent: Callable[[Sequence[names.Names]], Sequence[str]] = names.absent
) -> Draw:
    """Draw from a repository's folder; all entries where there are fewer than `MOST`.

    `absent` returns the names of Paddle that a program's files use and the installed one lacks.
    """
    files = [path for path in sorted(root.rglob("*.py")) if path.is_file()]
    found = [path for path in files if _is_entry(path, root)]
    found.sort(key=lambda path: hashlib.sha256(_name(path, root).encode()).hexdigest())
    lacking = {path: absent([_file(one).paddle for one in program(path, root)]) for path in found}
    drawn = [path for path in found if not lacking[path]][:MOST]
    left_out = {_name(path, root): tuple(gone) for path, gone in lacking.items() if gone}
    return Draw(tuple(_drawn(path, root) for path in drawn), left_out)


def draw_configurations(root: Path, folder: str, most: int) -> list[str]:
    """Return the configurations of a suite that are drawn, relative to `root`."""
    found = [
        _name(path, root)
        for path in (root / folder).rglob("*.y*ml")
        if path.is_file() and not _PART.search(_name(path, root)) and _OPTIMIZES.search(_read(path))
    ]
    return sorted(found, key=lambda name: hashlib.sha256(name.encode()).hexdigest())[:most]


def program(path: Path, root: Path) -> list[Path]:
    """Return a file and the files of its repository that it imports, followed."""
    seen, waiting = [path], [path]
    while waiting and len(seen) < _LONGEST_PROGRAM:
        at = waiting.pop()
        for name in _file(at).imports:
            for module in _resolve(name, at, path, root):
                if module not in seen:
                    seen.append(module)
                    waiting.append(module)
    return seen


def _is_entry(path: Path, root: Path) -> bool:
    file = _file(path)
    own = _trains(file.calls)
    named = bool(_NAMED.search(path.stem)) and not _OTHER.search(path.stem)
    if not file.starts or not (own or named) or _of_torch(file):
        return False
    files = [_file(one) for one in program(path, root)]
    calls = frozenset[str]().union(*(one.calls for one in files))
    return _trains(calls) and any("paddle" in _tops(one.imports) for one in files)


def _trains(calls: frozenset[str]) -> bool:
    steps = "backward" in calls and bool(calls & {"step", "minimize"})
    return steps or {"prepare", "fit"} <= calls


def _of_torch(file: _File) -> bool:
    tops = _tops(file.imports)
    return "torch" in tops and "paddle" not in tops


def _tops(names: Sequence[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def _drawn(path: Path, root: Path) -> Drawn:
    files = program(path, root)
    workdir, argv = _command(path, root)
    modules = {
        name.split(".")[0]
        for one in files
        for name in _file(one).imports
        if not name.startswith(".") and not _resolve(name, one, path, root)
    }
    outside = tuple(sorted(modules - sys.stdlib_module_names - {"paddle", "__future__"}))
    return Drawn(_name(path, root), workdir, argv, outside)


def _command(path: Path, root: Path) -> tuple[str, tuple[str, ...]]:
    """Return working folder and arguments of the first command that a README gives."""
    for folder in (path.parent, *path.parent.parents):
        for readme in sorted(folder.glob("[Rr][Ee][Aa][Dd][Mm][Ee]*")):
            for line in re.sub(r"\\\s*\n", " ", _read(readme)).splitlines():
                found = _COMMAND.search(line)
                if found and (argv := _arguments(found["rest"], path, folder)) is not None:
                    return _name(folder, root), argv
        if folder == root:
            break
    return _name(path.parent, root), ()


def _arguments(rest: str, path: Path, folder: Path) -> tuple[str, ...] | None:
    """Return the arguments of a command that starts `path` from `folder`; None for another."""
    try:
        words = shlex.split(_PLACEHOLDER.sub(_filled, rest))
    except ValueError:
        return None
    for at, word in enumerate(words):
        if word.endswith(".py") and (folder / word).resolve() == path.resolve():
            argv = tuple(words[at + 1 :])
            return None if {"-h", "--help"} & set(argv) else argv
    return None


def _filled(placeholder: re.Match[str]) -> str:
    """Return what stands in a command where a reader should fill in a value."""
    is_of_option = placeholder.string[: placeholder.start()].endswith("=")
    return "data " if is_of_option else " data "


@functools.cache
def _file(path: Path) -> _File:
    try:
        tree = ast.parse(_read(path))
    except (SyntaxError, ValueError, RecursionError):
        return _File()
    calls = frozenset(_called(tree))
    plain = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
    top = [one for one in tree.body if not isinstance(one, plain)]
    own = {one.name for one in tree.body if isinstance(one, plain)}
    main = any(isinstance(one, ast.If) and "__main__" in ast.unparse(one.test) for one in top)
    at_once = frozenset[str]().union(*map(_called, top))
    imports = tuple(name for one in ast.walk(tree) for name in _imported(one))
    starts = bool(main or _trains(at_once) or at_once & own)
    return _File(imports, calls, starts, names.names_in(tree, "paddle"))


def _called(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement imports; relative ones with their dots."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = "." * node.level + (node.module or "")
        yield base
        for alias in node.names:
            yield f"{base}{'' if base.endswith('.') else '.'}{alias.name}"


def _resolve(name: str, at: Path, script: Path, root: Path) -> list[Path]:
    """Return the files of the repository that an import of `name` in file `at` runs."""
    level = len(name) - len(name.lstrip("."))
    bases = [script.parent, at.parent, root, script.parent.parent]
    if level:
        bases = [at.parents[min(level, len(at.parents)) - 1]]
    parts = [part for part in name.lstrip(".").split(".") if part]
    for base in dict.fromkeys(bases):
        found = [
            path
            for end in range(min(1, len(parts)), len(parts) + 1)
            for path in _module(base.joinpath(*parts[:end]))
            if path.is_relative_to(root)
        ]
        if found:
            return found
    return []


def _module(target: Path) -> Iterator[Path]:
    for path in (target / "__init__.py", target.parent / f"{target.name}.py"):
        if path.is_file():
            yield path


def _read(path: Path) -> str:
    return path.read_text("utf-8", errors="replace")


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def main() -> None:
    """Print what is drawn from the folders given, and what is left out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--any-paddle", action="store_true", help="whatever names it uses")
    options = parser.parse_args()
    absent = (lambda _: ()) if options.any_paddle else names.absent
    for folder in options.folders:
        found = draw(folder, absent=absent)
        for one in found.entries:
            print(f"{folder.name}\t{one}")
        for script, gone in found.left_out.items():
            print(f"{folder.name}\tleft out: {script}: {', '.join(gone)}")


if __name__ == "__main__":
    main()

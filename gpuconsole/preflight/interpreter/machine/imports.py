"""Importing: the project's own files, found as Python finds them, and modelled libraries."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Namespace,
    Native,
    Scope,
    Unknown,
    UserModule,
    Value,
)
from gpuconsole.preflight.interpreter.frontend import source
from gpuconsole.preflight.interpreter.libraries import unsupported
from gpuconsole.preflight.interpreter.machine.block_exits import BlockExit
from gpuconsole.preflight.interpreter.machine.run_state.progress import CYCLES
from gpuconsole.preflight.interpreter.paddle.source_modules import Written

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

BYTES_PER_STEP = 64
"""Source that is parsed in about the time of one step of a run."""
LAYOUTS = ("pyproject.toml", "setup.py", "setup.cfg")
"""Files that say where a project's packages lie."""
LAYOUT_BYTES = 2**16
_PACKAGES = re.compile(
    r"""(?:package[_-]dir\s*=\s*\{\s*(?:''|"")\s*[:=]\s*|find_packages\(\s*(?:where\s*=\s*)?"""
    r"""|\bwhere\s*=\s*\[?\s*|\bfrom\s*=\s*)["'](?P<quoted>[\w./-]{1,100})["']"""
    r"""|^[ \t]*(?:where[ \t]*)?=[ \t]*(?P<plain>[\w./-]{1,100})[ \t]*$""",
    re.M,
)
"""Folders of packages as setuptools and Poetry have them declared."""
MAX_UPWARD = 5
"""Folders above the project that are looked at for a missing module."""
NEVER_OWN = frozenset(["paddle", "numpy", "sys", "math", "time", "itertools"])
"""Modules that a file of the project does not stand in for: built in, or what is modelled."""


class Loaded(Native):
    """`sys.modules`."""

    label = "sys.modules"

    def __init__(self) -> None:
        super().__init__()
        self.by_name: dict[str, UserModule] = {}

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give a module of the project by name."""
        return self.by_name.get(key) or interp.run.unknown(msg("the module {key}", key=key))


class Importer:
    """Finds and runs the modules of a script. Nothing outside the project is ever read."""

    def __init__(
        self,
        interp: Interpreter,
        script: Path,
        project: Path,
        library: Callable[[str], Namespace | None],
        start: Path | None = None,
    ) -> None:
        self.interp = interp
        self.project = project.resolve()
        self.start = self.project if start is None else start.resolve()
        """The working folder: what relative names are relative to."""
        self.library = library
        self.loaded: dict[Path, UserModule] = {}
        self.files = source.Lookup(self.project)
        """Its files and folders."""
        self._folders: dict[tuple[str, str], Path | None] = {}
        """Folders of the project by what `sys.path` calls them."""
        self._starts: dict[str, tuple[Path, ...]] = {}
        """What `starts` returned, by the script's own folder."""
        self.names = Loaded()
        self.search: list[Value] = [str(script.parent)]
        self.frameworks: list[Unknown] = []
        self.paddle = False
        self.read: set[str] = set()
        """Files beside the script that were read."""
        system = library("sys")
        if system is not None:
            system.names.update(path=self.search, argv=[str(script), *interp.run.args],
                                modules=self.names)  # fmt: skip

    def run_script(self, script: source.Script) -> Scope:
        """Run the entry and return its names; the cells of a notebook share them."""
        module = UserModule("__main__", Scope(None, "module"))
        self.names.by_name["__main__"] = module
        for file, tree in script.parts:
            self.run_module(tree, file, module.scope, {"__name__": "__main__"})
        return module.scope

    def run_module(
        self, tree: ast.Module, file: str, scope: Scope, names: dict[str, Value]
    ) -> None:
        """Run a module's body in a scope."""
        scope.names.update({"__file__": file, "__doc__": None, **names})
        place = (self.interp.run.file, self.interp.run.line)
        self.interp.run.file = file
        try:
            self.interp.in_scope(scope, lambda: self.interp.exec_block(tree.body, scope))
        finally:
            self.interp.run.file, self.interp.run.line = place

    def conclude(self) -> None:
        """Name the other framework where the script is one of another framework alone."""
        run = self.interp.run
        if self.frameworks and not self.paddle and run.progress.cycles < CYCLES:
            run.findings.blocking = self.frameworks[0]
            run.findings.faults.clear()
        run.close_short_run()

    def module(self, name: str, level: int = 0) -> Value:
        """Return a module: a file of the project as Python would find it, or a library."""
        run = self.interp.run
        if level:
            base = Path(run.file).parent
            for _ in range(level - 1):
                base = base.parent
            module = self._below([base], name, spaces=True, package=self._package(base))
            return module or run.unknown(
                msg("{dots}{name} is not in the project folder", dots="." * level, name=name)
            )
        unsupported.refuse_gone(run, name)
        root = name.split(".")[0]
        self.paddle = self.paddle or root.startswith("paddle")
        own = root not in NEVER_OWN
        module = self._below(self._bases(), name) if own else None
        if module is None and own and root not in sys.stdlib_module_names:
            # What an installed project, or PYTHONPATH, would let it find.
            module = self._below(self._roots(), name)
        module = module or self.library(name)
        if module is None and own:
            places = [*self._bases(), *self._roots()]
            module = self._below(places, name, spaces=True)
        return module or self._absent(name)

    def _package(self, folder: Path) -> str:
        """Return the name by which the package of a folder was imported, "" if it was not."""
        package = self.files.folder(folder)
        module = self.loaded.get(package / "__init__.py") if package is not None else None
        return module.name if module is not None else ""

    def _absent(self, name: str) -> Unknown:
        run = self.interp.run
        other = unsupported.framework(run, name)
        if other is not None:
            self.frameworks.append(other)
            return other
        return unsupported.old(run, name) or run.unknown(
            msg(
                "module {name} is not known to the analysis{elsewhere_text}",
                name=name or ".",
                elsewhere_text=self._elsewhere(name),
            )
        )

    def _elsewhere(self, name: str) -> str:
        """Return how a missing module could be found, as the end of a sentence."""
        part = name.split(".")[0]
        for folder in [*self.project.parents][:MAX_UPWARD] if part.isidentifier() else ():
            inner = "/".join(name.split("."))
            names = (f"{part}.py", f"{part}/__init__.py", f"{inner}.py", f"{inner}/__init__.py")
            if any((folder / name).exists() for name in names):
                return msg(
                    "; it lies outside the project folder: give --project {folder}", folder=folder
                )
        outside = [
            entry for entry in self.search if isinstance(entry, str) and not self._inside(entry)
        ]
        if not outside:
            return ""
        return msg(
            "; sys.path names {folder}, outside the project: give its folder with --project",
            folder=outside[0],
        )

    def named(self, name: Value, package: Value = None) -> Value:
        """Stand for `importlib.import_module`."""
        if not isinstance(name, str):
            return name if isinstance(name, Unknown) else self.interp.run.unknown("a module's name")
        level = len(name) - len(name.lstrip("."))
        if not level or not isinstance(package, str) or not package:
            return self.module(name.lstrip("."), level)
        parts = package.split(".")
        return self.module(".".join([*parts[: len(parts) - level + 1], name[level:]]))

    def _bases(self) -> Iterator[Path]:
        """Give the folders of `sys.path` that lie inside the project."""
        for entry in self.search:
            folder = self._inside(entry) if isinstance(entry, str) else None
            if folder is not None:
                yield folder

    def _roots(self) -> Iterator[Path]:
        """Give folders that are on the path where a project is installed or run from its root.

        The project's own, its `src`, those that it declares for its packages, and the one above the
        script's package.
        """
        yield self.project
        for name in dict.fromkeys(["src", *self._declared]):
            folder = self.files.folder(self.project / name)
            if folder is not None:
                yield folder
        folder = Path(self.search_start).resolve()
        while (folder / "__init__.py").is_file() and folder != self.project:
            folder = folder.parent
        if folder.is_relative_to(self.project):
            yield folder

    @cached_property
    def _declared(self) -> tuple[str, ...]:
        """The folders in which the project's own files say that its packages lie."""
        names: list[str] = []
        for name in LAYOUTS:
            path = source.within(self.project, self.project / name)
            if path is None or not path.is_file():
                continue
            with suppress(OSError), open(path, "rb") as file:
                text = file.read(LAYOUT_BYTES).decode("utf-8", "replace")
                self.read.add(str(path))
                names += [match["quoted"] or match["plain"] for match in _PACKAGES.finditer(text)]
        return tuple(names)

    def _inside(self, name: str) -> Path | None:
        """Return a folder of `sys.path` that lies inside the project."""
        key = (name, self.search_start)
        if key not in self._folders:
            starts = self.starts()
            relative = not Path(name).is_absolute()
            tries = [start / name for start in starts] if relative else [Path(name)]
            inside = (candidate for candidate in tries if self.files.folder(candidate) is not None)
            self._folders[key] = next(inside, None)
        return self._folders[key]

    def starts(self) -> tuple[Path, ...]:
        """Return the folders that relative names may be relative to, the likeliest first.

        A job starts in the working folder; people often start a script in the project's folder or
        in its own.
        """
        own = self.search_start
        if own not in self._starts:
            self._starts[own] = tuple(dict.fromkeys((self.start, self.project, Path(own))))
        return self._starts[own]

    @property
    def search_start(self) -> str:
        """The script's own folder."""
        main = self.names.by_name.get("__main__")
        return os.path.dirname(str(main.scope.names.get("__file__", "."))) or "." if main else "."

    def inside(self, package: UserModule, name: str) -> Value:
        """Return a module of a package that lies in its folder, or None."""
        folder = Path(str(package.scope.names.get("__file__", ""))).parent
        return self._below([folder], name, package=package.name)

    def _below(
        self,
        bases: Iterator[Path] | Sequence[Path],
        name: str,
        *,
        spaces: bool = False,
        package: str = "",
    ) -> Value:
        """Return the module `name` of the first base that has its first part, or None.

        `spaces`: folders without `__init__.py` are packages too, as Python has it last of all.
        `package`: the name of the package that the bases are folders of.
        """
        parts = name.split(".") if name else [""]

        def full(count: int) -> str:
            return ".".join(filter(None, [package, *parts[:count]]))

        for base in bases:
            owner: Value = self._one(base, parts[0], full(1), spaces)
            if owner is None:
                continue
            folder = base
            for place, part in enumerate(parts[1:], 2):
                folder = folder / parts[place - 2]
                nested = self._one(folder, part, full(place), True)
                if nested is None:
                    return self._given(owner, part)
                if isinstance(owner, UserModule):
                    # A name that the package has bound since stays bound.
                    owner.scope.names.setdefault(part, nested)
                owner = nested
            return owner
        return None

    def _given(self, owner: Value, part: str) -> Value:
        """Return what a package calls `part` without its being a file, or an unknown."""
        return self.interp.get_attr(owner, part)

    def _one(self, folder: Path, part: str, name: str, spaces: bool) -> Value:
        for path, real_path in self.files.modules(folder, part):
            return self._load(path, real_path, name)
        if not spaces or not (part.isidentifier() or not part):
            return None
        where = folder / part if part else folder
        room = self.files.folder(where)
        if room is not None:
            module = self.loaded.get(room)
            if module is None:
                module = self.loaded[room] = UserModule(name, Scope(None, "module"))
                module.scope.names["__file__"] = str(where / "__init__.py")
            return module
        return None

    def _load(self, path: Path, real_path: Path, name: str) -> Value:
        loaded = self.loaded.get(real_path)
        if loaded is not None:
            return loaded
        try:
            tree = source.parse(path)
            self.interp.tick(path.stat().st_size // BYTES_PER_STEP)
        except UsageError as error:
            return self.interp.run.unknown(
                msg("module {name} cannot be read: {message}", name=name, message=error.message)
            )
        # Known before it has run, as in Python: modules may import each other.
        module = self.loaded[real_path] = UserModule(name, Scope(None, "module"))
        package = real_path.parent.parent if real_path.name == "__init__.py" else real_path.parent
        owner = self.loaded.get(package / "__init__.py")
        if owner is not None:
            part = real_path.parent.name if real_path.name == "__init__.py" else real_path.stem
            owner.scope.names[part] = module
        self.names.by_name[name] = module
        self.read.add(str(path))
        self.interp.depth += 1
        try:
            self.interp.check_depth()
            self.run_module(tree, str(path), module.scope, {"__name__": name})
        finally:
            self.interp.depth -= 1
        return module


def _import(interp: Interpreter, node: ast.Import, scope: Scope) -> None:
    for name in node.names:
        module = interp.imports.module(name.name)
        if name.asname is None and "." in name.name:
            root = name.name.split(".")[0]
            scope.names[root] = interp.imports.module(root)
        else:
            scope.names[name.asname or name.name] = module


def _import_from(interp: Interpreter, node: ast.ImportFrom, scope: Scope) -> None:
    if node.module == "__future__":
        return
    owner = interp.imports.module(node.module or "", node.level)
    for name in node.names:
        if name.name == "*":
            _import_all(interp, owner, scope)
            continue
        value = interp.get_attr(owner, name.name)
        if isinstance(value, Unknown) and not isinstance(owner, Unknown):
            inside = f"{node.module}.{name.name}" if node.module else name.name
            nested = interp.imports.module(inside, node.level)
            value = value if isinstance(nested, Unknown) else nested
        scope.names[name.asname or name.name] = value


def _import_all(interp: Interpreter, owner: Value, scope: Scope) -> None:
    if isinstance(owner, Unknown):
        interp.run.note_unknown(owner)
    if isinstance(owner, Namespace):
        all_names = owner.find("__dict__") if isinstance(owner, Written) else owner.names
        scope.names.update(all_names)
    if not isinstance(owner, UserModule):
        return
    names = owner.scope.names
    public = names.get("__all__", MISSING)
    if isinstance(public, (list, tuple)):
        chosen = [name for name in public if isinstance(name, str)]
    else:
        chosen = [name for name in names if not name.startswith("_")]
    for name in chosen:
        value = names[name] if name in names else interp.imports.inside(owner, name)
        if value is not None:
            scope.names[name] = value


STATEMENTS: dict[type[ast.stmt], Callable[..., BlockExit | None]] = {
    ast.Import: _import, ast.ImportFrom: _import_from,
}  # fmt: skip

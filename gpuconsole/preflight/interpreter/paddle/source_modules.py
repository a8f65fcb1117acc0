"""Library classes that are themselves Paddle programs: `data/paddle/*/*.py`.

Layers made of other layers, the vision models and the language models are written as Paddle
source and followed by the interpreter like a script's own classes. So their attributes, children,
subclasses and the lifetimes of what their forward passes name are right without further rules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from types import MappingProxyType

from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Namespace,
    Scope,
    UserModule,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

_DEFINED = re.compile(r"^(?:class|def) ([A-Za-z]\w*)|^([A-Za-z]\w*) = ", re.MULTILINE)


@lru_cache(maxsize=8)
def _texts(folder: str) -> Mapping[str, str]:
    """Return the sources of a folder by file stem."""
    files = resources.files("gpuconsole").joinpath(f"data/paddle/{folder}").iterdir()
    return {
        file.name.removesuffix(".py"): file.read_text("utf-8")
        for file in sorted(files, key=lambda file: file.name)
        if file.name.endswith(".py")
    }


@lru_cache(maxsize=8)
def _index(folder: str) -> Mapping[str, str]:
    """Return the source of each public name of a folder."""
    return {
        left or right: stem
        for stem, text in _texts(folder).items()
        for left, right in _DEFINED.findall(text)
    }


def names_of(folder: str) -> tuple[str, ...]:
    """Return the public names that stand in the sources of a folder."""
    return tuple(_index(folder))


def names_in(folder: str) -> frozenset[str]:
    """Return the public names that the sources of a folder define."""
    return frozenset(_index(folder))


@lru_cache(maxsize=64)
def _tree(folder: str, stem: str) -> ast.Module:
    """Parse a source; without line numbers, the script's own line stays the current one."""
    tree = ast.parse(_texts(folder)[stem])
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = 0
    return tree


class Written(Namespace):
    """A namespace with some names in sources, each read on first use."""

    __slots__ = ("folder", "modules", "run", "scopes")

    def __init__(
        self,
        run: Run,
        name: str,
        folder: str,
        names: dict[str, Value] | None = None,
        modules: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`modules`: the sources that stand for modules of other names."""
        super().__init__(name, names)
        self.modules = modules
        self.run = run
        self.folder = folder
        self.scopes: dict[str, Scope] = {}

    def find(self, name: str) -> Value:
        """Return the value of the name, or `MISSING`; a source's own name is its module."""
        if name == "__dict__":
            return {public_name: self.find(public_name) for public_name in self.public()}
        if name not in self.names:
            stem = _index(self.folder).get(name)
            if stem is not None:
                self.names[name] = self._scope(stem).names[name]
            elif self.modules.get(name, name) in _texts(self.folder):
                scope = self._scope(self.modules.get(name, name))
                self.names[name] = UserModule(f"{self.name}.{name}", scope)
        return self.names.get(name, MISSING)

    def _scope(self, stem: str) -> Scope:
        if stem not in self.scopes:
            scope = self.scopes[stem] = Scope(None, "module")
            names = {"__name__": f"{self.name}.{stem}"}
            self.run.interp.imports.run_module(_tree(self.folder, stem), "", scope, names)
        return self.scopes[stem]

    def public(self) -> list[str]:
        """Return all names, read or not."""
        return sorted({*self.names, *_index(self.folder)})

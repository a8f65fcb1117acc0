"""A module of a project with its syntax tree, and questions to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from gpuconsole.core.submission.script_edits import digest_of
from gpuconsole.errors import UsageError
from gpuconsole.preflight.interpreter.frontend import source

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
MOST_KEPT = 512
"""Files that are kept with what was found in them."""
_COMPOUND = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A Python file as it would be shipped."""

    path: Path
    lines: tuple[str, ...]
    tree: ast.Module
    sha256: str
    """Of the file as the user has it."""
    _parents: dict[ast.AST, ast.AST]
    """What each node stands in, found when that is first asked."""
    mentioned: dict[str, ast.AST]
    """By each name that is used, alone or behind a dot, or imported, where that is first."""
    called: dict[str, list[ast.Call]]
    """Calls of methods by their names."""
    keywords: dict[str, list[ast.keyword]]
    """Arguments of calls by their names."""
    loops_over: tuple[ast.For, ...]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return what a node stands in."""
        if not self._parents:
            for one in ast.walk(self.tree):
                self._parents.update((child, one) for child in ast.iter_child_nodes(one))
        return self._parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Give what a node stands in, from near to far."""
        found = self.parent(node)
        while found is not None:
            yield found
            found = self.parent(found)

    def scope(self, node: ast.AST) -> ast.AST:
        """Return the function that a node stands in, else the module."""
        return next((one for one in self.above(node) if isinstance(one, Function)), self.tree)

    def loops(self, node: ast.AST) -> list[ast.AST]:
        """Return the loops of the same function that a node stands in, from near to far."""
        found: list[ast.AST] = []
        for one in self.above(node):
            if isinstance(one, Function):
                break
            if isinstance(one, _COMPOUND):
                found.append(one)
        return found

    def names(self) -> frozenset[str]:
        """Return all names that are used anywhere."""
        found = {one.id for one in ast.walk(self.tree) if isinstance(one, ast.Name)}
        found |= {one.arg for one in ast.walk(self.tree) if isinstance(one, ast.arg)}
        return frozenset(found)

    def paddle(self) -> str:
        """Return the name under which the module has Paddle, "" where that is not certain."""
        found = ""
        for one in self.tree.body:
            if isinstance(one, ast.Import):
                for name in one.names:
                    if name.name == "paddle" or (name.name.startswith("paddle.")
                                                 and not name.asname):  # fmt: skip
                        found = name.asname or "paddle"
        stored = {
            one.id
            for one in ast.walk(self.tree)
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
        }
        return "" if found in stored else found

    def indent(self, statement: ast.stmt) -> str:
        """Return the white space before a statement."""
        return self.lines[statement.lineno - 1][: column(self, statement.lineno,
                                                         statement.col_offset)]  # fmt: skip


def load(path: Path) -> Source | None:
    """Return a file; None where it cannot be read, or Python counts its lines otherwise."""
    if path.suffix != ".py":
        return None
    try:
        text = source.text_of(path)
        tree = source.parse(path)
        own = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError, UsageError):
        return None
    lines = tuple(text.splitlines())
    if "\t" not in text and lines != tuple(text.split("\n")[: len(lines)]):
        return None
    if len(lines) < max((one.end_lineno or 0 for one in tree.body), default=0):
        return None
    return _source(path, lines, tree, digest_of(own))


@lru_cache(maxsize=MOST_KEPT)
def _source(path: Path, lines: tuple[str, ...], tree: ast.Module, sha256: str) -> Source:
    """Return a file with what is asked about it, found in one walk: it is asked several times."""
    found = Source(path, lines, tree, sha256, {}, {}, {}, {}, ())
    loops: list[ast.For] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            found.mentioned.setdefault(last_name(node), node)
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                found.mentioned.setdefault(one.name, node)
        elif isinstance(node, ast.keyword) and node.arg:
            found.keywords.setdefault(node.arg, []).append(node)
            found.mentioned.setdefault(node.arg, node.value)
        elif isinstance(node, ast.For):
            loops.append(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found.called.setdefault(node.func.attr, []).append(node)
    return replace(found, loops_over=tuple(loops))


def column(found: Source, line: int, offset: int) -> int:
    """Return a place in a line as characters; Python counts bytes of UTF-8."""
    return len(found.lines[line - 1].encode()[:offset].decode("utf-8", "ignore"))


def calls(sources: tuple[Source, ...], method: str) -> list[tuple[Source, ast.Call]]:
    """Return all calls of a method of this name."""
    return [(one, node) for one in sources for node in one.called.get(method, ())]


def last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name; "" where it is none."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def mentions(sources: tuple[Source, ...], *names: str) -> tuple[Source, ast.AST] | None:
    """Return a place at which one of the names is used, alone or behind a dot."""
    for one in sources:
        for name in names:
            if name in one.mentioned:
                return one, one.mentioned[name]
    return None

"""A module of a project with its syntax tree, and questions to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gpuconsole.core.submission.script_edits import digest_of
from gpuconsole.core.util.lazy_dataclass import dataclass
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
    """The parent of each node, computed on first use."""
    mentioned: dict[str, ast.AST]
    """By each name that is used, alone or behind a dot, or imported, where that is first."""
    called: dict[str, list[ast.Call]]
    """Calls of methods by their names."""
    keywords: dict[str, list[ast.keyword]]
    """Arguments of calls by their names."""
    loops_over: tuple[ast.For, ...]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the parent of a node."""
        if not self._parents:
            for parent in ast.walk(self.tree):
                self._parents.update((child, parent) for child in ast.iter_child_nodes(parent))
        return self._parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the ancestors of a node, from near to far."""
        ancestor = self.parent(node)
        while ancestor is not None:
            yield ancestor
            ancestor = self.parent(ancestor)

    def scope(self, node: ast.AST) -> ast.AST:
        """Return the function that contains a node, else the module."""
        return next(
            (ancestor for ancestor in self.above(node) if isinstance(ancestor, Function)), self.tree
        )

    def loops(self, node: ast.AST) -> list[ast.AST]:
        """Return the loops of the same function that contain a node, from near to far."""
        loops: list[ast.AST] = []
        for ancestor in self.above(node):
            if isinstance(ancestor, Function):
                break
            if isinstance(ancestor, _COMPOUND):
                loops.append(ancestor)
        return loops

    def names(self) -> frozenset[str]:
        """Return all names that are used anywhere."""
        names = {name.id for name in ast.walk(self.tree) if isinstance(name, ast.Name)}
        names |= {name.arg for name in ast.walk(self.tree) if isinstance(name, ast.arg)}
        return frozenset(names)

    def paddle(self) -> str:
        """Return the name under which the module has Paddle, "" where that is not certain."""
        paddle_name = ""
        for statement in self.tree.body:
            if isinstance(statement, ast.Import):
                for name in statement.names:
                    if name.name == "paddle" or (name.name.startswith("paddle.")
                                                 and not name.asname):  # fmt: skip
                        paddle_name = name.asname or "paddle"
        stored = {
            name_node.id
            for name_node in ast.walk(self.tree)
            if isinstance(name_node, ast.Name) and not isinstance(name_node.ctx, ast.Load)
        }
        return "" if paddle_name in stored else paddle_name

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
    if len(lines) < max((statement.end_lineno or 0 for statement in tree.body), default=0):
        return None
    return _source(path, lines, tree, digest_of(own))


@lru_cache(maxsize=MOST_KEPT)
def _source(path: Path, lines: tuple[str, ...], tree: ast.Module, sha256: str) -> Source:
    """Return a file with what is asked about it, found in one walk: it is asked several times."""
    source = Source(path, lines, tree, sha256, {}, {}, {}, {}, ())
    loops: list[ast.For] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            source.mentioned.setdefault(last_name(node), node)
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                source.mentioned.setdefault(name.name, node)
        elif isinstance(node, ast.keyword) and node.arg:
            source.keywords.setdefault(node.arg, []).append(node)
            source.mentioned.setdefault(node.arg, node.value)
        elif isinstance(node, ast.For):
            loops.append(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            source.called.setdefault(node.func.attr, []).append(node)
    return replace(source, loops_over=tuple(loops))


def column(source: Source, line: int, offset: int) -> int:
    """Return a place in a line as characters; Python counts bytes of UTF-8."""
    return len(source.lines[line - 1].encode()[:offset].decode("utf-8", "ignore"))


def calls(sources: tuple[Source, ...], method: str) -> list[tuple[Source, ast.Call]]:
    """Return all calls of a method of this name."""
    return [(source, node) for source in sources for node in source.called.get(method, ())]


def last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name; "" where it is none."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def mentions(sources: tuple[Source, ...], *names: str) -> tuple[Source, ast.AST] | None:
    """Return a place at which one of the names is used, alone or behind a dot."""
    for candidate in sources:
        for name in names:
            if name in candidate.mentioned:
                return candidate, candidate.mentioned[name]
    return None

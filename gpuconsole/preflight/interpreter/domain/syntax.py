"""Walks over syntax trees, as fast as plain Python allows: every answer does many."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Answer = TypeVar("Answer")

_HOLDERS: tuple[type[ast.AST], ...] = (
    *ast.stmt.__subclasses__(), *ast.excepthandler.__subclasses__(), ast.match_case,
)  # fmt: skip
_BLOCK_FIELDS = ("body", "handlers", "cases", "orelse", "finalbody")
_BLOCKS = {kind: tuple(name for name in kind._fields if name in _BLOCK_FIELDS) for kind in _HOLDERS}
"""The fields of each that hold statements, handlers or cases."""
_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ClassDef)


def nodes(roots: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Give the nodes of trees, in no particular order."""
    pending = list(roots)
    while pending:
        node = pending.pop()
        yield node
        _extend(pending, node)


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Give the statements of a body and of the blocks in them, without looking into expressions, in
    no particular order."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        for block in _BLOCKS.get(type(node), ()):
            pending += getattr(node, block)


def yields(body: Sequence[ast.AST]) -> bool:
    """Whether a function body itself yields (nested functions do not count)."""
    return _remembered(body, "yields?", _yields)


def names(body: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that a function body reads or binds, also in nested functions."""
    return _remembered(body, "names?", _names)


def _remembered(
    body: Sequence[ast.AST], what: str, ask: Callable[[Sequence[ast.AST]], Answer]
) -> Answer:
    """Return what is asked of a body, which is looked through once: its first node remembers it.

    A function is made each time that its `def` or `lambda` is run, of the same tree in each run.
    """
    first: ast.AST = body[0]
    if isinstance(first, ast.Expr):
        # That of a lambda is new each time, its expression is not.
        first = first.value
    notes = first.__dict__
    answer: tuple[int, Answer] | None = notes.get(what)
    if answer is None or answer[0] != len(body):
        answer = notes[what] = len(body), ask(body)
    return answer[1]


def _names(body: Sequence[ast.AST]) -> frozenset[str]:
    return frozenset(node.id for node in nodes(body) if isinstance(node, ast.Name))


def _yields(body: Sequence[ast.AST]) -> bool:
    pending = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, _SCOPES):
            _extend(pending, node)
    return False


def _extend(pending: list[ast.AST], node: ast.AST) -> None:
    for value in node.__dict__.values():
        if isinstance(value, ast.AST):
            pending.append(value)
        elif type(value) is list:
            pending += [child for child in value if isinstance(child, ast.AST)]

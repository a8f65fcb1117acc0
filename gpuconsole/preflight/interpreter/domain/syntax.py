"""Walks over syntax trees, as fast as plain Python allows: every answer does many."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ClassDef)


def nodes(roots: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Give the nodes of trees, in no particular order."""
    pending = list(roots)
    while pending:
        node = pending.pop()
        yield node
        _extend(pending, node)


def yields(body: Iterable[ast.AST]) -> bool:
    """Whether a function body itself yields (nested functions do not count)."""
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

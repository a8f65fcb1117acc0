"""What the code that asks for a file or a module does when there is none: read from its source."""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from types import FrameType

ANY = ("Exception", "BaseException")
MOST_FRAMES = 1000
_RUNNER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "run.py")
"""Runs the script: its own handlers are not the script's."""
_TRIES: dict[str, list[tuple[int, int, set[str]]]] = {}
_LEAVING = ("exit", "_exit", "abort")


def is_caught(frame: FrameType | None, names: Sequence[str]) -> bool:
    """Tell whether one of these exceptions, raised at a frame, is handled by it or a caller.

    A handler that ends by raising, or leaves the program, does not handle it.
    """
    for _ in range(MOST_FRAMES):
        if frame is None or frame.f_code.co_filename == _RUNNER:
            return False
        line = frame.f_lineno
        for first, last, kinds in _tries(frame.f_code.co_filename):
            if first <= line <= last and (not kinds or kinds & {*names, *ANY}):
                return True
        frame = frame.f_back
    return False


def _tries(file: str) -> list[tuple[int, int, set[str]]]:
    """Return the lines of each `try` of a file that goes on after an exception, with the names of
    the exceptions; no names stand for all."""
    if file not in _TRIES:
        _TRIES[file] = tries = []
        for node in _nodes(file):
            if not isinstance(node, ast.Try) or not node.body:
                continue
            for handler in node.handlers:
                if not _leaves(handler.body[-1]):
                    last = node.body[-1]
                    end = last.end_lineno or last.lineno
                    tries.append((node.body[0].lineno, end, _names(handler.type)))
    return _TRIES[file]


def _nodes(file: str) -> Iterable[ast.AST]:
    if file.startswith("<frozen"):
        return ()
    try:
        return ast.walk(ast.parse("".join(linecache.getlines(file))))
    except (SyntaxError, ValueError, RecursionError):
        return ()


def _names(kind: ast.expr | None) -> set[str]:
    """Return the last words of the names of what an `except` takes."""
    nodes = kind.elts if isinstance(kind, ast.Tuple) else [kind] if kind is not None else []
    return {_last_word(node) for node in nodes}


def _last_word(name: ast.expr) -> str:
    """Return the last word of a dotted name; "" of anything else."""
    if isinstance(name, ast.Attribute):
        return name.attr
    return name.id if isinstance(name, ast.Name) else ""


def _leaves(last: ast.stmt) -> bool:
    """Tell whether a statement that ends a block is the end of the program, as far as is known."""
    if isinstance(last, ast.Raise):
        return True
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
        return False
    return _last_word(last.value.func) in _LEAVING


def is_required(frame: FrameType | None) -> bool:
    """Tell whether the statement at a frame ends the program where what it asks for is missing:
    an `assert`, or an `if` with a block that raises."""
    if frame is None:
        return False
    line = frame.f_lineno
    for node in _nodes_at(frame.f_code.co_filename, line):
        if isinstance(node, ast.Assert):
            return not any(isinstance(part, ast.Not) for part in ast.walk(node.test))
        if isinstance(node, ast.If) and node.test.lineno <= line <= (node.test.end_lineno or line):
            negated = any(isinstance(part, ast.Not) for part in ast.walk(node.test))
            return _leaves((node.body if negated else node.orelse or node.body[:1])[-1])
    return False


_STATEMENTS: dict[str, list[ast.Assert | ast.If]] = {}


def _nodes_at(file: str, line: int) -> list[ast.Assert | ast.If]:
    """Return the asserts and tests that a line is in."""
    if file not in _STATEMENTS:
        _STATEMENTS[file] = [
            node for node in _nodes(file) if isinstance(node, (ast.Assert, ast.If))
        ]
    return [
        statement
        for statement in _STATEMENTS[file]
        if statement.lineno <= line <= (statement.end_lineno or line)
    ]


def suffixes(frame: FrameType | None) -> list[str]:
    """Return the endings of files' names that the function at a frame tests for, in their order."""
    if frame is None:
        return []
    file, line = frame.f_code.co_filename, frame.f_lineno
    around = [
        function
        for function in _functions(file)
        if function.lineno <= line <= (function.end_lineno or line)
    ]
    tests = (
        node
        for node in (ast.walk(max(around, key=lambda function: function.lineno)) if around else ())
        if isinstance(node, ast.Compare) or getattr(_called(node), "attr", "") == "endswith"
    )
    words = (
        part.value
        for test in tests
        for part in ast.walk(test)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )
    endings = (re.search(r"\.?[A-Za-z][A-Za-z0-9]{1,4}$", word) for word in words)
    return [f".{ending.group().lower().lstrip('.')}" for ending in endings if ending]


def _called(node: ast.AST) -> ast.expr | None:
    """Return what a call calls, None of anything else."""
    return node.func if isinstance(node, ast.Call) else None


_FUNCTIONS: dict[str, list[ast.FunctionDef]] = {}


def _functions(file: str) -> list[ast.FunctionDef]:
    """Return the functions and methods of a file."""
    if file not in _FUNCTIONS:
        _FUNCTIONS[file] = [node for node in _nodes(file) if isinstance(node, ast.FunctionDef)]
    return _FUNCTIONS[file]


def caller(skipped: Collection[str]) -> FrameType | None:
    """Return the innermost frame that is not in one of these files."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in skipped:
        frame = frame.f_back
    return frame

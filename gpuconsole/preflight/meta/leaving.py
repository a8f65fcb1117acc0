"""Tests of unknown data that leave a loop early: the loop is taken to go on, which holds more.

`for i in range(16): x = step(x); if error(x) <= limit: break` runs as often as it may. Only loops
that end by themselves are taken so, and each for so many tests.
"""

from __future__ import annotations

import ast
import functools
import sys
from typing import Any

MOST = 100
"""Tests at one line that are taken so: loops of very many turns take too long."""

_TESTS: dict[Any, int] = {}


def stays(file: Any, line: Any) -> Any:
    """Return which answer to a test at a line of a script stays in its loop, None for any other
    test."""
    answer = _answers(file).get(line)
    if answer is None or _TESTS.get((file, line), 0) >= MOST:
        return None
    _TESTS[file, line] = _TESTS.get((file, line), 0) + 1
    return answer


def here(inside: Any) -> Any:
    """Return `stays` for the line that is running of the code below a folder."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(inside) and "site-packages" not in file:
            return stays(file, frame.f_lineno)
        frame = frame.f_back
    return None


@functools.cache
def _answers(file: Any) -> dict[int, bool]:
    try:
        with open(file, encoding="utf-8") as text:
            tree = ast.parse(text.read())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return {}
    found: dict[int, bool] = {}
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For):
            _collect(loop.body, found)
    return found


def _collect(body: Any, found: dict[int, bool]) -> None:
    """Note the lines of tests that do nothing but leave the loop with this body."""
    for statement in body:
        if not isinstance(statement, ast.If):
            continue
        test, answer = statement.test, False
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, answer = test.operand, True
        negated = any(isinstance(one, ast.Not) for one in ast.walk(test))
        if isinstance(statement.body[-1], ast.Break) and not negated:
            for line in range(test.lineno, (test.end_lineno or test.lineno) + 1):
                found[line] = answer
        _collect(statement.body, found)
        _collect(statement.orelse, found)

"""Tests of unknown data that leave a loop early: the loop is taken to go on, which holds more.

`for i in range(16): x = step(x); if error(x) <= limit: break` runs as often as it may. Only loops
that end by themselves are taken so, and each for so many tests. `while loss > limit: train()` is
entered, and goes on for so many tests, where its body trains: else nothing would be seen of that.
Paddle's own L-BFGS is taken never to be done before its last iteration.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from types import FrameType

MOST = 100
"""Tests at one line that are taken so: loops of very many turns take too long."""

LBFGS = os.path.join("paddle", "optimizer", "lbfgs.py")
"""Paddle's file of it; the tests of its `step` alone are meant."""

_TESTS: dict[tuple[str, int], int] = {}


def stays(file: str, line: int) -> bool | None:
    """Return which answer to a test at a line of a script stays in its loop, None for any other
    test."""
    answer = _answers(file).get(line)
    if file.endswith(LBFGS):
        return answer
    if answer is None or _TESTS.get((file, line), 0) >= MOST:
        return None
    _TESTS[file, line] = _TESTS.get((file, line), 0) + 1
    return answer


def here(inside: str) -> bool | None:
    """Return `stays` for the line that is running of the code below a folder."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        own = file.startswith(inside) and "site-packages" not in file
        if own or file.endswith(LBFGS):
            return stays(file, frame.f_lineno)
        frame = frame.f_back
    return None


@functools.cache
def _answers(file: str) -> dict[int, bool]:
    try:
        with open(file, encoding="utf-8") as text:
            tree = ast.parse(text.read())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return {}
    answers: dict[int, bool] = {}
    if file.endswith(LBFGS):
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and function.name == "step":
                _note_ends(function, answers)
        return answers
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For):
            _collect(loop.body, answers)
        if isinstance(loop, ast.While) and any(map(_trains, loop.body)):
            _note(loop.test, answers, stays=True)
    return answers


def _note_ends(function: ast.FunctionDef, answers: dict[int, bool]) -> None:
    """Note the lines of all tests that end a loop, or the function."""
    for statement in ast.walk(function):
        if isinstance(statement, ast.If) and isinstance(
            statement.body[-1], (ast.Break, ast.Return)
        ):
            _note(statement.test, answers, stays=False)


TRAINING = ("backward", "step", "minimize")


def _trains(statement: ast.stmt) -> bool:
    calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return any(isinstance(call, ast.Attribute) and call.attr in TRAINING for call in calls)


def _note(test: ast.expr, answers: dict[int, bool], *, stays: bool) -> None:
    """Note the answer to a test that stays in its loop: `stays`, or its opposite behind a `not`. A
    test with another `not` within has none."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, stays = test.operand, not stays
    if not any(isinstance(node, ast.Not) for node in ast.walk(test)):
        for line in range(test.lineno, (test.end_lineno or test.lineno) + 1):
            answers[line] = stays


def _collect(body: list[ast.stmt], answers: dict[int, bool]) -> None:
    """Note the lines of tests that do nothing but leave the loop with this body."""
    for statement in body:
        if not isinstance(statement, ast.If):
            continue
        if isinstance(statement.body[-1], ast.Break):
            _note(statement.test, answers, stays=False)
        _collect(statement.body, answers)
        _collect(statement.orelse, answers)

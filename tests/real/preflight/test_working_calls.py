"""The odd calls that reading must not call wrong do work in real Paddle, with these shapes."""

from __future__ import annotations

import importlib.util

import pytest

from tests.real.preflight.working_cases import CASES, script

pytestmark = [
    pytest.mark.real,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]


@pytest.mark.parametrize(("call", "shape"), CASES, ids=[call for call, _ in CASES])
def test_the_call_works(call: str, shape: list[int]) -> None:
    exec(compile(script(call, shape), "odd.py", "exec"), {})

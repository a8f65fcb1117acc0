"""The order of a program's operators, what lies in what, and when it goes: without Paddle."""

from __future__ import annotations

from typing import Any

import pytest

from gpuconsole.preflight.meta.program import order as program_order
from gpuconsole.preflight.meta.program.order import Operator, Value


def _op(name: str, inputs: Any, outputs: Any, **more: Any) -> Operator:
    one = Operator(name, inputs, outputs)
    for key, value in more.items():
        setattr(one, key, value)
    return one


def _values(count: int, shape: tuple[int, ...] = (-1, 4), lasting: Any = ()) -> list[Value]:
    return [Value(shape, "float32", number in lasting) for number in range(count)]


IN_PLACE = {0: 0}


def test_the_last_reader_writes_over_what_it_reads() -> None:
    # 1 = matmul(0); 2 = relu(1); 3 = exp(2); 4 = add(2, 3)
    operators = [
        _op("matmul", [0], [1]),
        _op("relu", [1], [2], form=IN_PLACE),
        _op("exp", [2], [3], form=IN_PLACE),
        _op("add", [2, 3], [4], form=IN_PLACE),
    ]
    assert program_order.placed(operators, _values(5), ()) == [{}, {2: 1}, {}, {4: 2}]


def test_what_is_fed_fetched_or_lasts_is_not_written_over() -> None:
    operators = [_op("relu", [0], [1], form=IN_PLACE), _op("exp", [1], [2], form=IN_PLACE)]
    values = _values(3)
    assert program_order.placed(operators, values, {0}) == [{}, {2: 1}]
    assert program_order.placed(operators, values, {0, 1}) == [{}, {}]
    assert program_order.placed(operators, _values(3, lasting={0}), {0}) == [{}, {2: 1}]


def test_memory_that_is_still_read_under_another_number_is_left_alone() -> None:
    # 2 lies in 1, with memory that is read again as 1 by the last operator.
    operators = [
        _op("matmul", [0], [1]),
        _op("update_", [1], [2], within=IN_PLACE),
        _op("relu", [2], [3], form=IN_PLACE),
        _op("exp", [1], [4]),
    ]
    assert program_order.placed(operators, _values(5), ())[2] == {}


@pytest.mark.parametrize(
    ("name", "x", "out", "fits"),
    [
        ("relu", (-1, 4), (-1, 4), True),
        ("relu", (-1, 4), (-1, 5), False),
        ("relu", (-1,), (-1,), False),
        ("relu", (3, -1), (3, -1), False),
        ("reshape", (3, -1), (-1, 5), True),
        ("reshape_grad", (3, -1), (-1, 3), True),
        ("add_grad", (3, -1), (3, -1), True),
    ],
)
def test_open_shapes_are_compared_as_paddle_does(
    name: str, x: tuple[int, ...], out: tuple[int, ...], fits: bool
) -> None:
    assert program_order.alike(name, Value(x, "float32"), Value(out, "float32")) is fits
    assert not program_order.alike(name, Value(x, "float32"), Value(out, "float16"))


def test_a_variable_goes_after_the_last_that_reads_its_memory() -> None:
    operators = [
        _op("matmul", [0], [1]),
        _op("stack", [(1, 1)], [2]),
        _op("shape", [1], [3], unneeded=frozenset({1})),
        _op("sgd_", [4, 2], [5], within=IN_PLACE),
    ]
    values = _values(6, lasting={4, 5})
    gone = program_order.releases(operators, range(4), values, {0})
    assert [sorted(one) for one in gone] == [[], [1], [3], [2]]


def test_updates_run_as_soon_as_they_are_ready_and_constants_first() -> None:
    # 0 is fed, 1 and 2 are parameters.
    operators = [
        _op("matmul", [0, 1], [3]),
        _op("matmul", [3, 2], [4]),
        _op("matmul_grad", [3, 2, 4], [5, 6]),
        _op("matmul_grad", [0, 1, 5], [7, 8]),
        _op("scale", [2], [9]),
        _op("sgd_", [2, 6, 9], [10], within=IN_PLACE),
        _op("sgd_", [1, 8], [11], within=IN_PLACE),
    ]
    inside = [{}, {}, {}, {}, {}, {10: 2}, {11: 1}]
    assert program_order.as_ready(operators, inside, {0}) == [4, 0, 1, 2, 5, 3, 6]


def test_what_is_written_over_waits_for_all_that_read_it() -> None:
    # 2 is written into 1, which the second operator reads too.
    operators = [
        _op("exp", [0], [1]),
        _op("log", [1], [3]),
        _op("relu_", [1], [2], within=IN_PLACE),
        _op("sin", [2], [4]),
    ]
    order = program_order.as_ready(operators, [{}, {}, {2: 1}, {}], {0})
    assert order.index(2) > order.index(1)
    assert order.index(3) > order.index(2)

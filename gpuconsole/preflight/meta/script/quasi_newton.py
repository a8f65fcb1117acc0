"""Iterations that only data ends: of L-BFGS, and of Paddle's own loops over tensors.

L-BFGS goes on until what it minimises changes no more. It is taken to make all iterations that it
may; a few are run, the last ones with a history as long as it gets: the others do the same.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Protocol

from ...probe.training.hooks import nbytes
from ..state import STATE
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import TypeAlias

    Step: TypeAlias = Callable[["Lbfgs", Callable[[], Tensor]], Tensor]

ITERATIONS = 2
"""Iterations of L-BFGS that are run before its history is lengthened, and after that."""
TURNS = 3
"""Turns of `paddle.static.nn.while_loop` that are run where unknown data decides on its end."""
NEVER = -1.0
"""A change by less than this ends no iterations."""


class Lbfgs(Protocol):
    """Paddle's optimizer."""

    max_iter: int
    history_size: int
    tolerance_change: float
    state: dict[str, list[Tensor]]


def install(paddle: ModuleType) -> None:
    """Run few iterations from now on."""
    optimizer = getattr(paddle.optimizer, "LBFGS", None)
    if optimizer is not None:
        optimizer.step = few_iterations(optimizer.step)
    loops = paddle.static.nn
    loops.while_loop = few_turns(loops.while_loop)


def few_iterations(step: Step) -> Step:
    """Return a function that makes a step of L-BFGS in few iterations."""

    @functools.wraps(step)
    def stepped(self: Lbfgs, closure: Callable[[], Tensor]) -> Tensor:
        most, change = self.max_iter, self.tolerance_change
        self.tolerance_change = NEVER
        try:
            self.max_iter = min(most, ITERATIONS)
            result = step(self, closure)
            if most > ITERATIONS:
                lengthen(self, most - ITERATIONS)
                self.max_iter = min(most - ITERATIONS, ITERATIONS)
                step(self, closure)
        finally:
            self.max_iter, self.tolerance_change = most, change
        return result

    return stepped


def lengthen(optimizer: Lbfgs, iterations: int) -> None:
    """Make the history as long as after so many further iterations, which data may end before."""
    state = optimizer.state
    steps = state.get("old_yk", [])
    most = min(optimizer.history_size, len(steps) + iterations)
    for name in ("old_yk", "old_sk", "ro"):
        rows = state.get(name, [])
        while rows and len(rows) < most:
            rows.append(STATE.paddle.empty_like(rows[-1]))
            STATE.unfilled += nbytes(rows[-1])


def few_turns(loop: Callable[..., object]) -> Callable[..., object]:
    """Return a function that loops while a tensor is true, and ends soon where that is unknown."""

    @functools.wraps(loop)
    def looped(cond: Callable[..., object], *args: object, **kwargs: object) -> object:
        asked = 0

        def goes_on(*values: object) -> object:
            nonlocal asked
            test = cond(*values)
            if not STATE.dynamic() or not isinstance(test, Tensor) or test.m_known is not None:
                return test
            asked += 1
            return test if asked <= TURNS else STATE.paddle.zeros_like(test)

        return loop(goes_on, *args, **kwargs)

    return looped

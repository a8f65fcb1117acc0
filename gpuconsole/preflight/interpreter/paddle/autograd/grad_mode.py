"""Whether operators write down how to go backward: `no_grad` and its kin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import Function, Native, Value, Wrapped
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


class NoGrad(Native):
    """`paddle.no_grad()`, as a context, a decorator, or around a function.

    As in Paddle the object itself holds what was before: one that is entered twice at a time
    forgets the outer state.
    """

    label = "no_grad"
    enabled = False
    before = True

    def init(self, run: Run, *_: Value) -> None:
        """Take no notice of arguments."""

    def enter(self, run: Run) -> Callable[[], None]:
        """Switch gradients off until left."""
        self.do___enter__(run)
        return partial(self.do___exit__, run)

    @exposed.method("__enter__")
    def do___enter__(self, run: Run) -> None:
        """Switch, and keep what was before."""
        self.before = run.mode.grad_enabled
        run.mode.grad_enabled = self.enabled

    @exposed.method("__exit__")
    def do___exit__(self, run: Run, *_: Value) -> None:
        """Switch back to what was before."""
        run.mode.grad_enabled = self.before

    def call(self, interp: Interpreter, function: Value) -> Value:
        """`paddle.no_grad()(function)`."""
        return Wrapped(function, self)


class EnableGrad(NoGrad):
    """`paddle.enable_grad`."""

    enabled = True


class SetGradEnabled(NoGrad):
    """`paddle.set_grad_enabled(mode)`: a context that also acts at once."""

    def init(self, run: Run, mode: Value = True, *_: Value) -> None:
        """Switch."""
        self.enabled = mode is not False
        super().do___enter__(run)

    @exposed.method("__enter__")
    def do___enter__(self, run: Run) -> None:
        """Stay as switched."""


def innermost(value: Value) -> Value:
    """Return what is inside the contexts around a function."""
    while isinstance(value, Wrapped):
        value = value.function
    return value


def within(
    interp: Interpreter, target: Wrapped, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Call a function in its context; a generator is in it from its first item to its end."""
    inside = innermost(target.function)
    function = getattr(inside, "function", inside)  # a method's
    if isinstance(function, Function) and function.generator:
        result = interp.call(target.function, args, kwargs)
        if hasattr(result, "walk"):
            result.walk = _kept(interp, target.context, result.walk)
        return result
    leave = interp.enter(target.context)
    try:
        return interp.call(target.function, args, kwargs)
    finally:
        leave()


def _kept(interp: Interpreter, context: Native, walk: Iterator[Value]) -> Iterator[Value]:
    leave = interp.enter(context)
    try:
        yield from walk
    finally:
        leave()

"""`concurrent.futures`: what threads are asked to do is done at once, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run


class Future(Native):
    """What a call in a thread has given."""

    label = "Future"
    given: Value = None

    @exposed.method("result")
    def do_result(self, run: Run, *_: Value, **__: Value) -> Value:
        """Give it."""
        return self.given

    @exposed.method("done")
    def do_done(self, run: Run) -> Value:
        """Tell that the call has ended."""
        return True

    @exposed.method("exception")
    def do_exception(self, run: Run, *_: Value) -> Value:
        """Give what the call has raised: nothing."""
        return None

    @exposed.method("add_done_callback")
    def do_add_done_callback(self, run: Run, function: Value) -> None:
        """Call a function with this once the call has ended."""
        run.interp.call(function, [self], {})


class Threads(Native):
    """`ThreadPoolExecutor`."""

    label = "ThreadPoolExecutor"

    def enter(self, run: Run) -> Callable[[], None]:
        """Wait for all calls at the end of the block: they have ended."""
        return lambda: None

    @exposed.method("submit")
    def do_submit(self, run: Run, function: Value, *args: Value, **kwargs: Value) -> Value:
        """Call a function."""
        future = Future()
        future.given = run.interp.call(function, list(args), kwargs)
        return future

    @exposed.method("map")
    def do_map(self, run: Run, function: Value, *items: Value, **_: Value) -> Value:
        """Call a function with each item, and keep the results until they are wanted."""
        mapped = run.interp.call(run.interp.builtins["map"], [function, *items], {})
        return list(run.interp.iterate(mapped))

    @exposed.method("shutdown")
    def do_shutdown(self, run: Run, *_: Value, **__: Value) -> None:
        """Wait for all calls: they have ended."""


def concurrent() -> Namespace:
    """Return `concurrent`; what other processes do is unknown."""
    names: dict[str, Value] = {
        "ThreadPoolExecutor": NativeClass(Threads, "ThreadPoolExecutor"),
        "as_completed": NativeFunction(lambda run, futures, *_, **__: futures, "as_completed"),
        "wait": NativeFunction(lambda run, futures, *_, **__: (futures, []), "wait"),
    }
    return Namespace("concurrent", {"futures": Namespace("concurrent.futures", names)})

"""Functions of Paddle that are written as Paddle source: `data/paddle/functional`, `tensor`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from gpuconsole.preflight.interpreter.domain.values import Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.source_modules import Written, names_of

_HOMES = {"functional": "paddle.nn.functional", "tensor": "paddle"}


def sourced(folder: str, name: str) -> Callable[..., Value]:
    """Return the function `name` of a folder of sources, read when it is first called."""

    def call(run: Run, *args: Value, **kwargs: Value) -> Value:
        module = run.sources.get(folder)
        if module is None:
            module = run.sources[folder] = Written(run, _HOMES[folder], folder)
        return run.interp.call(module.find(name), list(args), kwargs)

    return call


@lru_cache(maxsize=4)
def all_sourced(folder: str) -> dict[str, Callable[..., Value]]:
    """Return all functions of a folder of sources by name."""
    return {name: sourced(folder, name) for name in names_of(folder)}

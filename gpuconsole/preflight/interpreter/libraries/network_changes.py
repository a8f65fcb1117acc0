"""Libraries that change networks: they prune them, or put quantizers in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import Namespace, Value
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.stdlib.no_effect import Silent

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

CHANGING = frozenset(["paddleslim"])
"""Roots of modules that change the networks they are given."""


class Changer(Silent):
    """Anything of such a module: without effect until it is given a network."""

    label = "what changes networks"

    def anything(self, run: Run, name: str) -> Value:
        """Give whatever is asked for."""
        return Changer()

    def call(self, interp: Interpreter, *args: Value, **kwargs: Value) -> Value:
        """Return another; the memory of a network among its arguments is unknown."""
        if not _networks((*args, *kwargs.values())):
            return Changer()
        why = interp.run.gap("a network is pruned or quantized, which the analysis does not follow")
        interp.run.block(why)
        return why


class Module(Namespace):
    """The module itself."""

    def find(self, name: str) -> Value:
        """Return whatever is asked for."""
        return Changer()


def _networks(values: Iterable[Value]) -> bool:
    return any(isinstance(value, Layer) for value in values)

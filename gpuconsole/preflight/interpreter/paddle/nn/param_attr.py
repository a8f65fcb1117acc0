"""What says how a parameter begins: attributes, initialisers, regularisers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import Native, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


class Attr(Native):
    """`paddle.ParamAttr`, initialisers, regularisers: whether it trains, and its name."""

    label = "ParamAttr"

    def init(self, run: Run, *first: Value, name: Value = None, trainable: Value = True,
             **_: Value) -> None:  # fmt: skip
        """Keep what the parameter is called, and whether it is trained."""
        self.frozen = trainable is False
        self.name = name if name is not None else next((x for x in first if isinstance(x, str)), "")

    def call(self, interp: Interpreter, *_: Value) -> None:
        """Initialisers can be called on a parameter."""

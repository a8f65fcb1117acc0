"""What says how a parameter begins: attributes, initialisers, regularisers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import Native, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


class Attr(Native):
    """`paddle.ParamAttr`, initialisers, regularisers: only `trainable=False` matters."""

    label = "ParamAttr"

    def init(self, run: Run, *_: Value, trainable: Value = True, **__: Value) -> None:
        """Keep whether the parameter is trained."""
        self.frozen = trainable is False

    def call(self, interp: Interpreter, *_: Value) -> None:
        """Initialisers can be called on a parameter."""

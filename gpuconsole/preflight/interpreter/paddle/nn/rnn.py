"""Recurrent nets that run as one operator: LSTM, GRU, SimpleRNN."""

from __future__ import annotations

from typing import NamedTuple

from gpuconsole.preflight.interpreter.domain.values import ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES, Tensor

_CELLS = "cells"
_ATTRS = ("weight_ih_attr", "weight_hh_attr", "bias_ih_attr", "bias_hh_attr")


class Room(NamedTuple):
    """Bytes of one run over a sequence: kept for backward, and needed for a moment."""

    reserve: int
    dropped: int
    forward: int
    backward: int


class Recurrent(Layer):
    """`nn.LSTM`, `nn.GRU`, `nn.SimpleRNN`.

    Beside input and output the CPU kernel keeps a reserve of (7L-1), (5L-1) or (2L-1) times
    direction x time x batch x hidden floats for L layers, and one byte each for dropout. `work`
    (in such units) and `recurred` (in batch x hidden) are what backward needs, `square` what
    forward needs in hidden x hidden.
    """

    label = "RNN"
    gates = 1
    reserve = 2
    states = 1
    work = 1
    recurred = 2
    square = 0

    def init(self, run: Run, input_size: int, hidden_size: int, num_layers: int = 1,
             direction: str = "forward", time_major: Value = False, dropout: Value = 0.0,
             *_: Value, proj_size: Value = 0, **others: Value) -> None:  # fmt: skip
        """Make the weights of every layer and direction."""
        attrs = {name: option for name, option in others.items() if name in _ATTRS}
        if proj_size:
            sides = 2 if direction in ("bidirect", "bidirectional") else 1
            sizes = (input_size, hidden_size, num_layers, sides, time_major, dropout)
            self._by_cells(run, sizes, proj_size, attrs)
            return
        self.lacking = [name for name, option in attrs.items() if option is False]
        self.input, self.hidden, self.count_layers = input_size, hidden_size, num_layers
        self.directions = 2 if direction in ("bidirect", "bidirectional") else 1
        self.time_major = time_major is True
        width = input_size
        for layer in range(num_layers):
            for side in range(self.directions):
                rows = self.gates * hidden_size
                tail = f"{layer}{'_reverse' if side else ''}"
                shapes = ((rows, width), (rows, hidden_size), (rows,), (rows,))
                for kind, shape in zip(_ATTRS, shapes, strict=True):
                    name = f"{kind.removesuffix('attr')}l{tail}"
                    weight = self.weight(run, name, shape, attrs.get(kind) or None)
                    if weight is not None and kind in self.lacking:
                        # Paddle keeps it as zeros that are not trained.
                        weight.stop_gradient = True
            width = hidden_size * self.directions
        self._side_by_side(run)

    def _side_by_side(self, run: Run) -> None:
        """Lay all weights side by side, in a block beside their own, which a program keeps."""
        weights = [parameter for _, parameter in self.parameters()]
        if run.program.drafting is not None:
            run.parameter((sum(weight.size for weight in weights),), trainable=False)
        else:
            run.scratch(sum(weight.nbytes for weight in weights))

    def forward(self, run: Run, x: Tensor, initial_states: Value = None,
                sequence_length: Value = None) -> Value:  # fmt: skip
        """Run over the sequence; returns (output, final states)."""
        if _CELLS in self.attrs:
            given = [x, initial_states, sequence_length]
            return run.interp.call(self.attrs[_CELLS], given, {})
        if self.lacking and run.on_cpu:
            run.fault(
                f"{self.label} with {self.lacking[0]}=False: its kernel on the CPU fails for "
                "weights that are not there (Paddle 3.3.1)"
            )
        if len(x.shape) != 3 or x.shape[-1] != self.input:
            raise ShapeFault(
                f"{self.label} expects [*, *, {self.input}], {list(x.shape)} arrives", x.shape
            )
        major = x if self.time_major else ops.transpose(run, x, (1, 0, 2))
        steps, batch = major.shape[:2]
        start = self._start(run, initial_states, batch)
        lengths = [sequence_length] if isinstance(sequence_length, Tensor) else []
        room = self._room(x, steps, batch, bool(lengths))
        saved = [run.storage(major.nbytes)] if major.strided else [major.storage]
        out = run.tensor((steps, batch, self.directions * self.hidden), x.dtype)
        states = [run.tensor(state.shape) for state in start]
        saved.append(run.storage(room.reserve))
        saved.append(run.storage(room.dropped))
        if run.on_cpu:
            run.scratch(room.forward)
        run.tape.flops += self._flops(steps * batch)
        if run.mode.grad_enabled:
            saved += [tensor.storage for tensor in (out, *start, *lengths)]
            weights = [parameter for _, parameter in self.parameters()]
            work = room.backward if run.on_cpu else 0
            ops.attach(run, [major, *start, *weights], [out, *states], saved, "fill", work)
            del weights
        del start
        if not self.time_major:
            out = ops.transpose(run, out, (1, 0, 2))
        return (out, tuple(states) if self.states > 1 else states[0])

    def _by_cells(
        self, run: Run, sizes: tuple[Value, ...], proj_size: Value, attrs: dict[str, Value]
    ) -> None:
        """Run cell by cell, as Paddle does with a projection, which its kernel does not know."""
        interp = run.interp
        space = interp.imports.module("paddle.nn")
        cell = interp.get_attr(space, f"{self.label}Cell")
        options = {**attrs, **({"proj_size": proj_size} if proj_size else {})}
        cell_args = [cell, *sizes, self.states, proj_size, options]
        self.attrs[_CELLS] = interp.call(interp.get_attr(space, "CellByCell"), cell_args, {})

    def _start(self, run: Run, given: Value, batch: int) -> list[Tensor]:
        """Return the states before the first step: those given, or zeros."""
        if isinstance(given, Tensor):
            return [given]
        if isinstance(given, (list, tuple)):
            return list(given)
        shape = (self.count_layers * self.directions, batch, self.hidden)
        return [run.tensor(shape) for _ in range(self.states)]

    def _flops(self, rows: int) -> float:
        wide = self.hidden * self.directions
        width = self.input + (self.count_layers - 1) * wide + self.count_layers * self.hidden
        return 2.0 * self.gates * wide * rows * width

    def _room(self, x: Tensor, steps: int, batch: int, masked: bool) -> Room:
        """Return what the kernel keeps and needs; exact on Paddle's CPU for all sizes tried."""
        item = ITEM_BYTES[x.dtype]
        layers, sides = self.count_layers, self.directions
        state = batch * self.hidden * item
        cell = steps * state
        mask = steps * batch * item if masked else 0
        between = (layers > 1) + (sides > 1)
        forward = state + between * sides * cell + self.square * self.hidden**2 * item
        backward = self.work * sides + 4 * (sides > 1)
        backward += min(layers, 3) * sides if layers > 1 else 0
        # The first layer comes last. With up to two layers the input's gradient is there twice by
        # then; once it is made even if it is not needed.
        last = (0, x.nbytes, x.nbytes + sides * cell)[layers] if layers < 3 else 0
        unneeded = x.nbytes if not x.needs_grad else 0
        return Room(
            reserve=(self.reserve * layers - 1) * sides * cell,
            dropped=sides * cell // item,
            forward=forward + mask,
            backward=unneeded
            + max(
                backward * cell + self.recurred * state + mask + self.states * state * masked, last
            ),
        )


class LSTM(Recurrent):
    """`nn.LSTM`."""

    label = "LSTM"
    gates, reserve, states, work, recurred = 4, 7, 2, 4, 4


class GRU(Recurrent):
    """`nn.GRU`."""

    label = "GRU"
    gates, reserve, states, work, recurred, square = 3, 5, 1, 3, 3, 3


class SimpleRNN(Recurrent):
    """`nn.SimpleRNN`."""

    label = "SimpleRNN"

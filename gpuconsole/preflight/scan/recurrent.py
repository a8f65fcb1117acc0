"""Recurrent nets that run as one operator: LSTM, GRU, SimpleRNN."""

from __future__ import annotations

from typing import NamedTuple

from gpuconsole.preflight.scan import ops
from gpuconsole.preflight.scan.layers import Layer
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.tensors import ITEM_BYTES, Tensor
from gpuconsole.preflight.scan.values import ShapeFault, Value

_CELLS = "cells"


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
             *_: Value, proj_size: Value = 0, **__: Value) -> None:  # fmt: skip
        """Make the weights of every layer and direction."""
        if proj_size:
            sides = 2 if direction in ("bidirect", "bidirectional") else 1
            sizes = (input_size, hidden_size, num_layers, sides, time_major, dropout)
            self._by_cells(run, sizes, proj_size)
            return
        self.input, self.hidden, self.count_layers = input_size, hidden_size, num_layers
        self.directions = 2 if direction in ("bidirect", "bidirectional") else 1
        self.time_major = time_major is True
        width = input_size
        for layer in range(num_layers):
            for side in range(self.directions):
                rows = self.gates * hidden_size
                tail = f"{layer}{'_reverse' if side else ''}"
                self.weight(run, f"weight_ih_l{tail}", (rows, width))
                self.weight(run, f"weight_hh_l{tail}", (rows, hidden_size))
                self.weight(run, f"bias_ih_l{tail}", (rows,))
                self.weight(run, f"bias_hh_l{tail}", (rows,))
            width = hidden_size * self.directions
        # All weights are laid side by side once, in a block beside their own.
        run.scratch(sum(one.nbytes for _, one in self.parameters()))

    def forward(self, run: Run, x: Tensor, initial_states: Value = None,
                sequence_length: Value = None) -> Value:  # fmt: skip
        """Run over the sequence; gives (output, final states)."""
        if _CELLS in self.attrs:
            given = [x, initial_states, sequence_length]
            return run.calls.call(self.attrs[_CELLS], given, {})
        if len(x.shape) != 3 or x.shape[-1] != self.input:
            raise ShapeFault(
                f"{self.label} expects [*, *, {self.input}], {list(x.shape)} arrives", x.shape
            )
        major = x if self.time_major else ops.transpose(run, x, (1, 0, 2))
        steps, batch = major.shape[:2]
        start = self._start(run, initial_states, batch)
        lengths = [sequence_length] if isinstance(sequence_length, Tensor) else []
        room = self._room(x, steps, batch, bool(lengths))
        kept = [run.storage(major.nbytes)] if major.strided else [major.storage]
        out = run.tensor((steps, batch, self.directions * self.hidden), x.dtype)
        states = [run.tensor(one.shape) for one in start]
        kept.append(run.storage(room.reserve))
        kept.append(run.storage(room.dropped))
        if run.on_cpu:
            run.scratch(room.forward)
        run.flops += self._flops(steps * batch)
        if run.grad_enabled:
            kept += [one.storage for one in (out, *start, *lengths)]
            weights = [one for _, one in self.parameters()]
            work = room.backward if run.on_cpu else 0
            ops.attach(run, [major, *start, *weights], [out, *states], kept, "fill", work)
            del weights
        del start
        if not self.time_major:
            out = ops.transpose(run, out, (1, 0, 2))
        return (out, tuple(states) if self.states > 1 else states[0])

    def _by_cells(self, run: Run, sizes: tuple[Value, ...], proj_size: Value) -> None:
        """Run cell by cell, as Paddle does with a projection, which its kernel does not know."""
        calls = run.calls
        space = calls.module("paddle.nn")
        cell = calls.get_attr(space, f"{self.label}Cell")
        made = [cell, *sizes, self.states, proj_size, {"proj_size": proj_size}]
        self.attrs[_CELLS] = calls.call(calls.get_attr(space, "CellByCell"), made, {})

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
        backward = self.work * sides + 4 * (sides > 1) + (layers * sides if layers > 1 else 0)
        return Room(
            reserve=(self.reserve * layers - 1) * sides * cell,
            dropped=sides * cell // item,
            forward=forward + mask,
            backward=backward * cell + self.recurred * state + mask + self.states * state * masked,
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

"""Recurrent nets that run as one operator: LSTM, GRU, SimpleRNN."""

from __future__ import annotations

from gpuconsole.preflight.scan import ops
from gpuconsole.preflight.scan.layers import Layer
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.tensors import ITEM_BYTES, Tensor
from gpuconsole.preflight.scan.values import ShapeFault, Value


class Recurrent(Layer):
    """`nn.LSTM`, `nn.GRU`, `nn.SimpleRNN`.

    Beside input and output the CPU kernel keeps a reserve of (7L-1), (5L-1) or (2L-1) times
    direction x time x batch x hidden floats for L layers, and one byte each for dropout.
    """

    label = "RNN"
    gates = 1
    reserve = 2
    states = 1
    work_factor = 1.0

    def init(self, run: Run, input_size: int, hidden_size: int, num_layers: int = 1,
             direction: str = "forward", time_major: Value = False, dropout: Value = 0.0,
             *_: Value, **__: Value) -> None:  # fmt: skip
        """Make the weights of every layer and direction."""
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

    def forward(self, run: Run, x: Tensor, initial_states: Value = None,
                sequence_length: Value = None) -> Value:  # fmt: skip
        """Run over the sequence; gives (output, final states)."""
        if len(x.shape) != 3 or x.shape[-1] != self.input:
            raise ShapeFault(
                f"{self.label} expects [*, *, {self.input}], {list(x.shape)} arrives", x.shape
            )
        weights = [one for _, one in self.parameters()]
        major = x if self.time_major else ops.transpose(run, x, (1, 0, 2))
        steps, batch = major.shape[:2]
        cell = self.directions * steps * batch * self.hidden
        item = ITEM_BYTES[x.dtype]
        final = (self.count_layers * self.directions, batch, self.hidden)
        start = [run.tensor(final) for _ in range(self.states)]
        kept = [run.storage(major.nbytes)] if major.strided else [major.storage]
        out = run.tensor((steps, batch, self.directions * self.hidden), x.dtype)
        states = [run.tensor(final) for _ in range(self.states)]
        kept.append(run.storage((self.reserve * self.count_layers - 1) * cell * item))
        kept.append(run.storage(cell))
        if run.on_cpu and (self.directions > 1 or self.count_layers > 1):
            run.scratch(out.nbytes)
        gates = 2.0 * self.gates * self.hidden
        width = self.input + (self.count_layers - 1) * self.hidden * self.directions
        run.flops += gates * cell / self.hidden * (width + self.count_layers * self.hidden)
        if run.grad_enabled:
            kept += [out.storage, *(one.storage for one in start)]
            work = self._work() * cell / self.directions * item if run.on_cpu else 0.0
            ops.attach(run, [major, *weights], [out, *states], kept, "fill", work)
        if not self.time_major:
            out = ops.transpose(run, out, (1, 0, 2))
        return (out, tuple(states) if self.states > 1 else states[0])

    def _work(self) -> float:
        """Return what the CPU's backward kernel needs, in units of time x batch x hidden floats.

        Measured for one to three layers and both directions.
        """
        more = self.count_layers * self.directions if self.count_layers > 1 else 0
        return self.work_factor * self.directions + (4 if self.directions > 1 else 0) + more


class LSTM(Recurrent):
    """`nn.LSTM`."""

    label = "LSTM"
    gates, reserve, states, work_factor = 4, 7, 2, 4.0


class GRU(Recurrent):
    """`nn.GRU`."""

    label = "GRU"
    gates, reserve, states, work_factor = 3, 5, 1, 3.0


class SimpleRNN(Recurrent):
    """`nn.SimpleRNN`."""

    label = "SimpleRNN"

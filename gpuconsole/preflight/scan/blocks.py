"""Composite layers of `paddle.nn`: recurrent nets, attention, transformer encoders."""

from __future__ import annotations

from gpuconsole.preflight.scan import functional, kernels, ops
from gpuconsole.preflight.scan.layers import Layer, LayerList
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.tensors import ITEM_BYTES, Tensor
from gpuconsole.preflight.scan.values import ShapeFault, Value
from gpuconsole.preflight.scan.weighted import LayerNorm, Linear

LONG_SEQUENCE = 512
"""Beyond this length a TransformerEncoder is flagged: attention grows with its square."""


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
        self.state = run.tensor((1,), "uint8", "parameters")

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


class MultiHeadAttention(Layer):
    """`nn.MultiHeadAttention`: explicit score matrices, as Paddle 3.3.1 computes them."""

    label = "MultiHeadAttention"

    def init(self, run: Run, embed_dim: int, num_heads: int, dropout: Value = 0.0,
             kdim: Value = None, vdim: Value = None, need_weights: Value = False, *_: Value,
             **__: Value) -> None:  # fmt: skip
        """Make the four projections."""
        if embed_dim % num_heads:
            raise ShapeFault(f"{embed_dim} features do not divide by {num_heads} heads")
        self.heads, self.dropout = num_heads, dropout
        for name, width in (("q_proj", embed_dim), ("k_proj", kdim or embed_dim),
                            ("v_proj", vdim or embed_dim), ("out_proj", embed_dim)):  # fmt: skip
            layer = Linear()
            layer.init(run, width, embed_dim)
            self.attrs[name] = layer

    def _project(self, run: Run, name: str, x: Tensor) -> Tensor:
        layer: Linear = self.attrs[name]
        y = layer.forward(run, x)
        shape = [y.shape[0], y.shape[1], self.heads, y.shape[2] // self.heads]
        return ops.transpose(run, ops.reshape(run, y, shape), (0, 2, 1, 3))

    def forward(self, run: Run, query: Tensor, key: Value = None, value: Value = None,
                attn_mask: Value = None, cache: Value = None) -> Value:  # fmt: skip
        """Attend; query, key and value are [batch, sequence, features]."""
        key = query if key is None else key
        value = key if value is None else value
        q = self._project(run, "q_proj", query)
        k, v = self._project(run, "k_proj", key), self._project(run, "v_proj", value)
        product = ops.matmul(run, ops.unary(run, "scale", q), k, transpose_y=True)
        if isinstance(attn_mask, Tensor):
            product = ops.binary(run, "add", product, attn_mask)
        weights = ops.unary(run, "softmax", product)
        if self.dropout:
            weights = kernels.dropout(run, weights, self.dropout, self.training)
        out = ops.matmul(run, weights, v)
        out = ops.transpose(run, out, (0, 2, 1, 3))
        out = ops.reshape(run, out, [out.shape[0], out.shape[1], out.shape[2] * out.shape[3]])
        projection: Linear = self.attrs["out_proj"]
        return projection.forward(run, out)


class TransformerEncoderLayer(Layer):
    """`nn.TransformerEncoderLayer`."""

    label = "TransformerEncoderLayer"

    def init(self, run: Run, d_model: int, nhead: int, dim_feedforward: int, dropout: Value = 0.1,
             activation: str = "relu", attn_dropout: Value = None, act_dropout: Value = None,
             normalize_before: Value = False, *_: Value, **__: Value) -> None:  # fmt: skip
        """Make attention, the two linear layers and the two norms."""
        self.before = normalize_before is True
        self.activation = activation
        self.dropout = dropout
        self.act_dropout = dropout if act_dropout is None else act_dropout
        attention = MultiHeadAttention()
        attention.init(run, d_model, nhead, dropout if attn_dropout is None else attn_dropout)
        self.attrs["self_attn"] = attention
        for name, sizes in (("linear1", (d_model, dim_feedforward)),
                            ("linear2", (dim_feedforward, d_model))):  # fmt: skip
            layer = Linear()
            layer.init(run, *sizes)
            self.attrs[name] = layer
        for name in ("norm1", "norm2"):
            norm = LayerNorm()
            norm.init(run, d_model)
            self.attrs[name] = norm

    def forward(self, run: Run, src: Tensor, src_mask: Value = None, cache: Value = None) -> Value:
        """Attend and feed forward, each with a residual."""
        drop = self.training
        residual = src
        if self.before:
            src = self.attrs["norm1"].forward(run, src)
        src = self.attrs["self_attn"].forward(run, src, src, src, src_mask)
        src = ops.binary(run, "add", residual, kernels.dropout(run, src, self.dropout, drop))
        if not self.before:
            src = self.attrs["norm1"].forward(run, src)
        residual = src
        if self.before:
            src = self.attrs["norm2"].forward(run, src)
        hidden = functional.FUNCTIONS[self.activation](run, self.attrs["linear1"].forward(run, src))
        hidden = kernels.dropout(run, hidden, self.act_dropout, drop)
        src = self.attrs["linear2"].forward(run, hidden)
        del hidden
        src = ops.binary(run, "add", residual, kernels.dropout(run, src, self.dropout, drop))
        if not self.before:
            src = self.attrs["norm2"].forward(run, src)
        return src


class TransformerEncoder(Layer):
    """`nn.TransformerEncoder`: the given layer and copies of it."""

    label = "TransformerEncoder"

    def init(self, run: Run, encoder_layer: Layer, num_layers: int, norm: Value = None) -> None:
        """Copy the layer."""
        layers = LayerList()
        layers.init(run, [
            encoder_layer if place == 0 else encoder_layer.clone(run)
            for place in range(num_layers)
        ])  # fmt: skip
        self.attrs["layers"] = layers
        self.attrs["norm"] = norm

    def call(self, calls: Value, *args: Value, **kwargs: Value) -> Value:
        """Run the layers; sequences beyond `LONG_SEQUENCE` raise a flag."""
        run: Run = calls.run
        x = args[0] if args else None
        if isinstance(x, Tensor) and len(x.shape) == 3 and x.shape[1] > LONG_SEQUENCE:
            run.flags.add("long-sequence")
        self.calls = calls
        return super().call(calls, *args, **kwargs)

    def forward(self, run: Run, src: Tensor, src_mask: Value = None, cache: Value = None) -> Value:
        """Run the layers one after the other."""
        for layer in self.attrs["layers"].attrs.values():
            src = self.calls.call(layer, [src, src_mask], {})
        norm = self.attrs["norm"]
        return self.calls.call(norm, [src], {}) if norm is not None else src

"""Networks drawn at random: pictures, sequences, tables, graphs.

Each function draws one and returns it with what makes a batch of it and what its output is like.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Draw = random.Random
ACTIVATIONS = ("ReLU", "GELU", "Silu", "Hardswish", "Sigmoid", "Tanh", "LeakyReLU", "ELU", "Mish",
               "Softplus", "ReLU6", "PReLU", "Swish", "Hardsigmoid", "SELU", "Softsign",
               "LogSigmoid", "Hardtanh")  # fmt: skip
SMOOTH = ("Silu", "Sigmoid", "Tanh", "Softplus")
"""Activations that have derivatives of second and third order."""

PICKS = ("split", "strided", "gather", "sort", "roll", "write", "where", "topk", "cumsum", "pad",
         "tile", "outer", "norm", "clip", "flip", "unfold")  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A network with its data."""

    net: Any
    batch: Callable[[int], Any]
    """Makes the inputs of so many samples."""
    size: int
    """Samples of a batch."""
    smooth: bool = False
    """Whether it can be differentiated again."""


def activation(draw: Draw, paddle: Any, names: tuple[str, ...] = ACTIVATIONS) -> Any:
    """Return an activation."""
    return getattr(paddle.nn, draw.choice(names))()


def convolutions(draw: Draw, paddle: Any) -> Drawn:
    """Blocks of convolutions, norms, activations, pools and additions over pictures."""
    nn, size = paddle.nn, draw.choice([16, 24, 32])
    wide = draw.choice([4, 8, 12])
    layers: list[Any] = [nn.Conv2D(3, wide, draw.choice([3, 5, 7]), padding=1)]
    for _ in range(draw.randint(2, 5)):
        out = wide * draw.choice([1, 1, 2])
        layers.append(_convolution(draw, nn, wide, out))
        wide = out
        layers.append(_norm_2d(draw, nn, wide))
        layers.append(activation(draw, paddle))
        layers.append(draw.choice([
            lambda wide=wide: Residual(paddle, nn.Sequential(
                nn.Conv2D(wide, wide, 3, padding=1, bias_attr=False), _norm_2d(draw, nn, wide),
                activation(draw, paddle))),
            lambda wide=wide: Gate(paddle, wide),
            lambda: nn.MaxPool2D(2, 2, padding=1), lambda: nn.AvgPool2D(3, 1, padding=1),
            lambda: nn.Upsample(scale_factor=2, mode=draw.choice(["nearest", "bilinear"])),
            lambda: nn.Dropout2D(0.2), lambda: nn.Dropout(0.2), nn.Identity,
            lambda: nn.Pad2D(1), lambda: nn.AdaptiveAvgPool2D(8),
        ])())  # fmt: skip
    layers += [draw.choice([nn.AdaptiveAvgPool2D, nn.AdaptiveMaxPool2D])(2), nn.Flatten(),
               nn.Linear(4 * wide, 10)]  # fmt: skip
    net = nn.Sequential(*layers)
    return Drawn(net, lambda n: [paddle.rand([n, 3, size, size])], draw.choice([2, 5, 8, 16]))


def _convolution(draw: Draw, nn: Any, wide: int, out: int) -> Any:
    return draw.choice([
        lambda: nn.Conv2D(wide, out, 3, padding=1),
        lambda: nn.Conv2D(wide, out, 3, padding=2, dilation=2, bias_attr=False),
        lambda: nn.Conv2D(wide, out, 1), lambda: nn.Conv2D(wide, out, 3, stride=2, padding=1),
        lambda: nn.Conv2D(wide, out, 3, padding=1, groups=wide),
        lambda: nn.Conv2D(wide, out, 3, padding=1, groups=2),
        lambda: nn.Conv2DTranspose(wide, out, 4, stride=2, padding=1),
        lambda: nn.Conv2D(wide, out, (1, 5), padding=(0, 2)),
    ])()  # fmt: skip


def _norm_2d(draw: Draw, nn: Any, wide: int) -> Any:
    return draw.choice([
        lambda: nn.BatchNorm2D(wide), lambda: nn.BatchNorm(wide), nn.Identity,
        lambda: nn.GroupNorm(2, wide), lambda: nn.InstanceNorm2D(wide),
        lambda: nn.BatchNorm2D(wide, use_global_stats=True),
    ])()  # fmt: skip


def Residual(paddle: Any, inner: Any) -> Any:  # noqa: N802 - makes a layer
    """Return a layer that adds what it was given to what is inside it."""

    class Added(paddle.nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return x + self.inner(x)

    return Added()


def Gate(paddle: Any, wide: int) -> Any:  # noqa: N802 - makes a layer
    """Return a layer that weighs channels."""
    nn = paddle.nn

    class Gated(nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.AdaptiveAvgPool2D(1), nn.Conv2D(wide, 2, 1), nn.ReLU(),
                                       nn.Conv2D(2, wide, 1), nn.Sigmoid())  # fmt: skip

        def forward(self, x: Any) -> Any:
            return x * self.inner(x)

    return Gated()


def ready_made(draw: Draw, paddle: Any) -> Drawn:
    """A network of `paddle.vision.models`."""
    models = paddle.vision.models
    name = draw.choice(["resnet18", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_25",
                        "squeezenet1_1", "resnet50", "densenet121", "mobilenet_v1"])  # fmt: skip
    size = draw.choice([64, 96])
    net = getattr(models, name)(num_classes=10)
    return Drawn(net, lambda n: [paddle.rand([n, 3, size, size])], draw.choice([2, 4]))


def dense(draw: Draw, paddle: Any, *, names: tuple[str, ...] = ACTIVATIONS) -> Drawn:
    """Linear layers over rows."""
    nn, width = paddle.nn, draw.choice([16, 40, 100])
    smooth = names == SMOOTH
    layers: list[Any] = []
    wide = width
    for _ in range(draw.randint(2, 6)):
        out = draw.choice([32, 64, 200])
        linear = nn.Linear(wide, out, bias_attr=draw.choice([None, False]))
        if not smooth and draw.random() < 0.15:
            linear = draw.choice([nn.utils.weight_norm, nn.utils.spectral_norm])(linear)
        layers.append(linear)
        if not smooth and draw.random() < 0.5:
            layers.append(draw.choice([
                lambda out=out: nn.BatchNorm1D(out), lambda out=out: nn.LayerNorm(out),
                lambda: nn.Dropout(0.3), nn.Identity,
            ])())  # fmt: skip
        layers.append(activation(draw, paddle, names))
        wide = out
    layers.append(nn.Linear(wide, 10))
    size = draw.choice([7, 64, 256])
    return Drawn(nn.Sequential(*layers), lambda n: [paddle.rand([n, width])], size, smooth)


@dataclass(frozen=True)
class Attending:
    """How a network of attention is drawn."""

    way: str
    """Who computes attention: a layer of Paddle's, a fused function, or products by hand."""
    heads: int
    wide: int
    long: int
    """Tokens of a sample."""
    causal: bool
    dropout: float


def attention(draw: Draw, paddle: Any) -> Drawn:
    """Blocks of attention over token ids."""
    nn, heads = paddle.nn, draw.choice([2, 4])
    wide, long = heads * draw.choice([8, 16]), draw.choice([12, 40, 64])
    way = draw.choice(["layer", "multihead", "einsum", "matmul", "fused", "paddle"])
    sparse, causal = draw.random() < 0.3, draw.random() < 0.5
    act = draw.choice(("relu", "gelu", "silu") if way == "layer" else ("gelu",))
    before = draw.random() < 0.5
    dropout, depth = draw.choice([0.0, 0.1]), draw.randint(1, 3)
    how = Attending(way, heads, wide, long, causal, dropout)

    class Net(nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(500, wide, sparse=sparse)
            self.places = self.create_parameter([long, wide])
            if way == "layer":
                layer = nn.TransformerEncoderLayer(
                    wide, heads, 2 * wide, dropout=dropout, activation=act, normalize_before=before
                )
                self.blocks = nn.LayerList([nn.TransformerEncoder(layer, depth)])
            else:
                self.blocks = nn.LayerList([AttentionBlock(paddle, how) for _ in range(depth)])
            self.head = nn.Linear(wide, 10)

        def forward(self, ids: Any) -> Any:
            x = self.words(ids) + self.places
            for block in self.blocks:
                x = block(x)
            return self.head(x.mean(axis=1))

    size = draw.choice([2, 6, 16])
    return Drawn(Net(), lambda n: [paddle.randint(0, 500, [n, long])], size)


def AttentionBlock(paddle: Any, how: Attending) -> Any:  # noqa: N802 - makes a layer
    """Return a layer of attention and two linear layers, each added to what it was given."""
    nn, wide, long = paddle.nn, how.wide, how.long

    class Block(nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.out = nn.LayerNorm(wide), nn.Linear(wide, wide)
            self.qkv = nn.Linear(wide, 3 * wide)
            several = how.way == "multihead"
            self.inner = nn.MultiHeadAttention(wide, how.heads, how.dropout) if several else None
            self.tail = nn.Sequential(
                nn.LayerNorm(wide), nn.Linear(wide, 2 * wide), nn.GELU(), nn.Dropout(how.dropout),
                nn.Linear(2 * wide, wide),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            h = self.norm(x)
            mask = paddle.tril(paddle.ones([long, long])) if how.causal else None
            if self.inner is not None:
                bias = None if mask is None else (1.0 - mask) * -1e4
                h = self.inner(h, h, h, bias)
            else:
                h = self.out(_attended(paddle, how, self.qkv(h), mask))
            x = x + h
            return x + self.tail(x)

    return Block()


def _attended(paddle: Any, how: Attending, qkv: Any, mask: Any) -> Any:
    """Return the values of all heads, each weighed by its scores."""
    functional, wide, long = paddle.nn.functional, how.wide, how.long
    n, rate = qkv.shape[0], 1.0 / (wide // how.heads) ** 0.5
    q, k, v = qkv.reshape([n, long, 3, how.heads, wide // how.heads]).unbind(2)
    if how.way == "fused":
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=how.causal)
        return out.reshape([n, long, wide])
    if how.way == "einsum":
        scores = paddle.einsum("bqhd,bkhd->bhqk", q, k) * rate
    else:
        q, k = q.transpose([0, 2, 1, 3]), k.transpose([0, 2, 3, 1])
        scores = paddle.matmul(q * rate, k)
    if mask is not None:
        scores = paddle.where(mask > 0, scores, paddle.full_like(scores, -1e4))
    weights = functional.dropout(functional.softmax(scores, axis=-1), how.dropout)
    if how.way == "einsum":
        return paddle.einsum("bhqk,bkhd->bqhd", weights, v).reshape([n, long, wide])
    out = paddle.matmul(weights, v.transpose([0, 2, 1, 3]))
    return out.transpose([0, 2, 1, 3]).reshape([n, long, wide])


def recurrent(draw: Draw, paddle: Any) -> Drawn:
    """Recurrent layers or cells over sequences."""
    nn, wide, long = paddle.nn, draw.choice([12, 32]), draw.choice([5, 20])
    hidden, kind = draw.choice([16, 48]), draw.choice(["LSTM", "GRU", "SimpleRNN"])
    cells = draw.random() < 0.3
    both, deep = draw.choice(["forward", "bidirect"]), draw.randint(1, 3)
    pick = draw.choice(["last", "mean", "max"])

    class Net(nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            sides = 2 if both == "bidirect" and not cells else 1
            if cells:
                self.inner = nn.RNN(getattr(nn, f"{kind}Cell")(wide, hidden))
            else:
                self.inner = getattr(nn, kind)(wide, hidden, num_layers=deep, direction=both,
                                               dropout=0.1 if deep > 1 else 0.0)  # fmt: skip
            self.head = nn.Linear(sides * hidden, 10)

        def forward(self, x: Any) -> Any:
            out, _ = self.inner(x)
            if pick == "last":
                return self.head(out[:, -1])
            return self.head(out.mean(axis=1) if pick == "mean" else out.max(axis=1))

    size = draw.choice([3, 16])
    return Drawn(Net(), lambda n: [paddle.rand([n, long, wide])], size)


def waves(draw: Draw, paddle: Any) -> Drawn:
    """Convolutions in one or three dimensions."""
    nn, three = paddle.nn, draw.random() < 0.4
    conv = nn.Conv3D if three else nn.Conv1D
    norm = nn.BatchNorm3D if three else nn.BatchNorm1D
    pool = nn.AdaptiveAvgPool3D if three else nn.AdaptiveAvgPool1D
    wide, layers = 2, []
    for _ in range(draw.randint(1, 3)):
        out = draw.choice([4, 8])
        layers += [conv(wide, out, 3, padding=1, stride=draw.choice([1, 2])),
                   draw.choice([norm(out), nn.Identity()]), activation(draw, paddle)]  # fmt: skip
        wide = out
    net = nn.Sequential(*layers, pool(1), nn.Flatten(), nn.Linear(wide, 10))
    shape = [2, 8, 12, 12] if three else [2, 400]
    return Drawn(net, lambda n: [paddle.rand([n, *shape])], draw.choice([2, 6]))


def graphs(draw: Draw, paddle: Any) -> Drawn:
    """Messages along edges, gathered by node."""
    nn, wide = paddle.nn, draw.choice([16, 32])
    nodes, edges = 60, 200
    way = draw.choice(["scatter", "send", "index_add", "one_hot", "put_along"])

    class Net(nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(wide, wide), nn.Linear(2 * wide, wide)
            self.head = nn.Linear(wide, 10)

        def forward(self, x: Any, start: Any, end: Any) -> Any:
            h = paddle.nn.functional.relu(self.first(x))
            sent = paddle.gather(h, start)
            if way == "scatter":
                got = paddle.scatter(paddle.zeros_like(h), end, sent, overwrite=False)
            elif way == "send":
                got = paddle.geometric.send_u_recv(h, start, end, reduce_op="mean")
            elif way == "index_add":
                got = paddle.index_add(paddle.zeros_like(h), end, 0, sent)
            elif way == "one_hot":
                wanted = paddle.nn.functional.one_hot(end, x.shape[0])
                got = paddle.matmul(wanted, sent, transpose_x=True)
            else:
                got = paddle.put_along_axis(paddle.zeros_like(h), end.unsqueeze(1).expand_as(sent),
                                            sent, 0, reduce="add")  # fmt: skip
            return self.head(self.second(paddle.concat([h, got], axis=1)))

    def batch(n: int) -> Any:
        return [paddle.rand([n * nodes, wide]), *(paddle.randint(0, n * nodes, [n * edges])
                                                  for _ in range(2))]  # fmt: skip

    return Drawn(Net(), batch, draw.choice([1, 4]))


def picked(draw: Draw, paddle: Any) -> Drawn:
    """Subscripts, joins, sorts and writes between linear layers."""
    nn, wide = paddle.nn, draw.choice([24, 48])
    ways = draw.sample(PICKS, 4)

    class Net(nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.LayerList([nn.Linear(wide, wide) for _ in ways])
            self.head = nn.Linear(wide, 10)

        def forward(self, x: Any) -> Any:
            for way, layer in zip(ways, self.layers, strict=True):
                x = turned(way, layer(x))
            return self.head(x)

    def turned(way: str, x: Any) -> Any:
        half = wide // 2
        made = {
            "split": lambda: paddle.concat(paddle.split(x, 3, axis=1)[::-1], axis=1),
            "strided": lambda: paddle.concat([x[:, ::2], x[:, 1::2]], axis=1),
            "gather": lambda: x[:, paddle.arange(wide - 1, -1, -1)],
            "sort": lambda: paddle.sort(x, axis=1) + x,
            "roll": lambda: paddle.roll(x, 1, 1) * x,
            "write": lambda: _written(paddle, x, half),
            "where": lambda: paddle.where(x > 0, x, x * 0.1),
            "topk": lambda: x - paddle.topk(x, 3, axis=1)[0].mean(axis=1, keepdim=True),
            "cumsum": lambda: paddle.cumsum(x, axis=1) / wide,
            "pad": lambda: paddle.nn.functional.pad(x, [0, 0, 1, 0])[:, :wide],
            "tile": lambda: paddle.tile(x[:, :half], [1, 2]),
            "outer": lambda: paddle.bmm(x.unsqueeze(2), x.unsqueeze(1)).mean(axis=2),
            "norm": lambda: paddle.nn.functional.normalize(x, axis=1),
            "clip": lambda: paddle.clip(x, -1, 1),
            "flip": lambda: paddle.flip(x, [1]).exp().log1p(),
            "unfold": lambda: x.reshape([-1, half, 2]).transpose([0, 2, 1]).reshape([-1, wide]),
        }[way]()  # fmt: skip
        return made

    return Drawn(Net(), lambda n: [paddle.rand([n, wide])], draw.choice([32, 200]))


def _written(paddle: Any, x: Any, half: int) -> Any:
    made = paddle.zeros_like(x)
    made[:, :half] = x[:, half:]
    return made + x


def differentiable(draw: Draw, paddle: Any) -> Drawn:
    """Linear layers that have derivatives of higher order."""
    return dense(draw, paddle, names=SMOOTH)


NETWORKS = (convolutions, convolutions, convolutions, ready_made, dense, dense, attention,
            attention, attention, recurrent, waves, graphs, picked, picked, differentiable,
            differentiable)  # fmt: skip

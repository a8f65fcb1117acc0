"""Training loops whose memory the meta tier is held against Paddle's own allocator.

Each function trains three steps and calls `step()` at the end of each. This file runs beside
Paddle: `python meta_cases.py real|meta` prints, for each case, the peak of each step in bytes.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import numpy

CASES: list[Any] = []


def case(function: Any) -> Any:
    """Register a case."""
    CASES.append(function)
    return function


def train(paddle: Any, net: Any, optimizer: Any, batch: Any, loss_of: Any, step: Any) -> None:
    """Train three steps."""
    for _ in range(3):
        loss = loss_of(net, *batch())
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        step()


@case
def convolutions(paddle: Any, step: Any) -> None:
    nn = paddle.nn
    net = nn.Sequential(
        nn.Conv2D(3, 16, 3, padding=1), nn.BatchNorm2D(16), nn.ReLU(), nn.MaxPool2D(2),
        nn.Conv2D(16, 32, 3, padding=1, bias_attr=False), nn.BatchNorm2D(32), nn.Hardswish(),
        nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = paddle.optimizer.Momentum(parameters=net.parameters(), weight_decay=1e-4)
    train(paddle, net, optimizer, lambda: (paddle.rand([8, 3, 32, 32]), paddle.randint(0, 10, [8])),
          lambda net, x, y: paddle.nn.functional.cross_entropy(net(x), y), step)  # fmt: skip


@case
def rows_clipped_and_decayed(paddle: Any, step: Any) -> None:
    """Gradients of rows that are scaled down and then added to a dense decay."""
    nn = paddle.nn
    net = nn.Sequential(nn.Embedding(500, 32, sparse=True), nn.Flatten(), nn.Linear(8 * 32, 4))
    optimizer = paddle.optimizer.Momentum(
        parameters=net.parameters(), weight_decay=paddle.regularizer.L2Decay(1e-4),
        grad_clip=nn.ClipGradByGlobalNorm(1.0),
    )  # fmt: skip
    train(paddle, net, optimizer, lambda: (paddle.arange(48).reshape([6, 8]),),
          lambda net, x: net(x).mean(), step)  # fmt: skip


@case
def evaluated_over_sequences(paddle: Any, step: Any) -> None:
    """Recurrent nets in evaluation keep nothing, with a graph or without."""
    nn = paddle.nn
    for kind, sides in ((nn.LSTM, "forward"), (nn.GRU, "bidirect"), (nn.SimpleRNN, "bidirect")):
        net = kind(40, 24, num_layers=2, direction=sides, dropout=0.3)
        net(paddle.rand([6, 11, 40]))[0].mean().backward()
        net.eval()
        out = net(paddle.rand([16, 11, 40]))
        with paddle.no_grad():
            more = net(paddle.rand([32, 9, 40]))
        del out, more
        step()


@case
def written_into_and_retained(paddle: Any, step: Any) -> None:
    """A graph that stays holds the gradient of a tensor that was written into and is gone."""
    net = paddle.nn.LayerList([paddle.nn.Linear(48, 48) for _ in range(2)])

    def shifted(x: Any) -> Any:
        made = paddle.zeros_like(x)
        made[:, :24] = x[:, 24:]
        return made + x

    for _ in range(3):
        out = net[1](shifted(net[0](paddle.rand([32, 48]))))
        first, second = out.mean(), out.square().mean()
        first.backward(retain_graph=True)
        step()
        second.backward()
        for one in net.parameters():
            one.clear_grad()


@case
def sparse_batches(paddle: Any, step: Any) -> None:
    """Batches of few values, which are made dense before the first layer."""
    nn = paddle.nn
    net = nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 512))

    def batch() -> Any:
        indices = paddle.to_tensor([list(range(64)) * 8, list(range(512))], "int64")
        values = paddle.to_tensor([1.0] * 512)
        few = paddle.sparse.sparse_coo_tensor(indices, values, shape=[64, 512])
        assert few.is_sparse()
        assert few.values().shape == [512]
        return few, few.to_dense()

    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    train(paddle, net, optimizer, batch, lambda net, few, x: (net(x) - x).square().mean(), step)


@case
def activated_norms(paddle: Any, step: Any) -> None:
    """Layers that call an activation among the older operators."""
    nn = paddle.nn
    acts = ("relu", "sigmoid", "tanh", "gelu", "softmax", "relu6", "swish", "silu", "hard_swish",
            "hard_sigmoid")  # fmt: skip
    net = nn.Sequential(
        *(one for act in acts for one in (nn.Conv2D(4, 4, 3), nn.BatchNorm(4, act=act))),
        nn.Flatten(), nn.Linear(4 * 144, 10),
    )  # fmt: skip
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([4, 4, 32, 32]),),
          lambda net, x: net(x).mean(), step)  # fmt: skip


@case
def gradients_in_one_block(paddle: Any, step: Any) -> None:
    """Gradients that are joined and parted again, as ranks do that share them."""
    from paddle.distributed import parallel

    nn = paddle.nn
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = paddle.optimizer.Momentum(parameters=net.parameters())
    for _ in range(3):
        net(paddle.rand([16, 64])).mean().backward()
        with paddle.no_grad():
            gradients = [parameter.grad for parameter in net.parameters()]
            joined = parallel._coalesce_tensors({0: gradients})
            del gradients
            parallel._split_tensors(joined)
            del joined
        optimizer.step()
        optimizer.clear_grad()
        step()


@case
def residual(paddle: Any, step: Any) -> None:
    net = paddle.vision.models.resnet18(num_classes=10)
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([4, 3, 64, 64]), paddle.randint(0, 10, [4])),
          lambda net, x, y: paddle.nn.functional.cross_entropy(net(x), y), step)  # fmt: skip


@case
def attention(paddle: Any, step: Any) -> None:
    layer = paddle.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, activation="gelu")
    net = paddle.nn.TransformerEncoder(layer, 2)
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    optimizer = paddle.optimizer.AdamW(parameters=net.parameters(), grad_clip=clip)
    train(paddle, net, optimizer, lambda: (paddle.rand([4, 48, 64]),),
          lambda net, x: net(x).mean(), step)  # fmt: skip


@case
def recurrent(paddle: Any, step: Any) -> None:
    net = paddle.nn.LSTM(32, 64, num_layers=2, direction="bidirect")
    head = paddle.nn.Linear(128, 5)
    both = [*net.parameters(), *head.parameters()]
    optimizer = paddle.optimizer.RMSProp(0.01, parameters=both)
    train(paddle, net, optimizer, lambda: (paddle.rand([6, 40, 32]),),
          lambda net, x: head(net(x)[0][:, -1]).square().sum(), step)  # fmt: skip


@case
def recomputed(paddle: Any, step: Any) -> None:
    from paddle.distributed.fleet.utils import recompute

    blocks = [paddle.nn.Sequential(paddle.nn.Linear(96, 96), paddle.nn.GELU()) for _ in range(4)]
    net = paddle.nn.LayerList(blocks)

    def loss_of(net: Any, x: Any) -> Any:
        x = x * 2.0
        x.stop_gradient = False
        for block in net:
            x = recompute(block, x)
        return x.mean()

    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([256, 96]),), loss_of, step)


@case
def adversarial(paddle: Any, step: Any) -> None:
    nn = paddle.nn
    maker = nn.Sequential(nn.Linear(16, 128), nn.BatchNorm1D(128), nn.ReLU(), nn.Linear(128, 200))
    judge = nn.Sequential(nn.Linear(200, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    first = paddle.optimizer.Adam(parameters=maker.parameters())
    second = paddle.optimizer.Adam(parameters=judge.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(3):
        real, noise = paddle.rand([64, 200]), paddle.randn([64, 16])
        fake = maker(noise)
        loss = criterion(judge(real), paddle.ones([64, 1]))
        loss = loss + criterion(judge(fake.detach()), paddle.zeros([64, 1]))
        loss.backward()
        second.step()
        second.clear_grad()
        made = criterion(judge(fake), paddle.ones([64, 1]))
        made.backward()
        first.step()
        first.clear_grad()
        second.clear_grad()
        step()


@case
def sparse_embedding(paddle: Any, step: Any) -> None:
    nn = paddle.nn
    table, head = nn.Embedding(5000, 32, sparse=True), nn.Linear(32, 2)
    optimizer = paddle.optimizer.SGD(parameters=[*table.parameters(), *head.parameters()])
    train(paddle, table, optimizer, lambda: (paddle.randint(0, 5000, [32, 20]),),
          lambda table, ids: head(table(ids).mean(axis=1)).sum(), step)  # fmt: skip


@case
def accumulated(paddle: Any, step: Any) -> None:
    net = paddle.nn.Sequential(
        paddle.nn.Linear(64, 256), paddle.nn.Tanh(), paddle.nn.Linear(256, 8)
    )
    optimizer = paddle.optimizer.Lamb(parameters=net.parameters())
    for _ in range(3):
        for _ in range(4):
            (net(paddle.rand([32, 64])).square().mean() / 4).backward()
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)
        step()


@case
def own_backward(paddle: Any, step: Any) -> None:
    class Cube(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensor()
            return grad * 3.0 * x * x

    net = paddle.nn.Linear(128, 128)
    optimizer = paddle.optimizer.Adagrad(0.1, parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([64, 128]),),
          lambda net, x: Cube.apply(net(x)).mean(), step)  # fmt: skip


@case
def penalised(paddle: Any, step: Any) -> None:
    nn = paddle.nn
    net = nn.Sequential(nn.Linear(20, 200), nn.Tanh(), nn.Linear(200, 200), nn.Tanh(),
                        nn.Linear(200, 1))  # fmt: skip
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())

    def loss_of(net: Any, x: Any) -> Any:
        x.stop_gradient = False
        out = net(x)
        (slope,) = paddle.grad(out.sum(), x, create_graph=True)
        return out.mean() + (slope.square().sum(axis=1).sqrt() - 1.0).square().mean()

    train(paddle, net, optimizer, lambda: (paddle.rand([256, 20]),), loss_of, step)


@case
def subscripts(paddle: Any, step: Any) -> None:
    net = paddle.nn.Linear(64, 64)
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())

    def loss_of(net: Any, x: Any) -> Any:
        h = net(x)
        parts = h[:, ::2], h[1:-1, :32], h[:, paddle.to_tensor([0, 3, 5])], h.transpose([1, 0])[:8]
        whole = paddle.zeros([40, 64])
        whole[:, :32] = h[:, 32:]
        moved = paddle.concat([one.flatten() for one in parts])
        return moved.sum() + whole.square().mean() + h.chunk(4, axis=1)[1].exp().mean()

    train(paddle, net, optimizer, lambda: (paddle.rand([40, 64]),), loss_of, step)


@case
def parts_of_complex_numbers(paddle: Any, step: Any) -> None:
    """They are looked at in place, and keep the whole alive."""
    net = paddle.nn.Linear(64, 64)
    turned = paddle.complex(paddle.ones([40, 64]), paddle.ones([40, 64]))

    def loss_of(net: Any, x: Any) -> Any:
        return (net(x) * turned).real().square().mean()

    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([40, 64]),), loss_of, step)


@case
def turned_views(paddle: Any, step: Any) -> None:
    """Kernels on views in another order: some keep the view for backward, others a copy."""
    functional, net = paddle.nn.functional, paddle.nn.Linear(64, 64)
    keeping = (
        paddle.abs, paddle.log1p, paddle.square, functional.silu, functional.elu,
        lambda y: y * y, lambda y: paddle.minimum(y, y * 0.5), lambda y: y.max(axis=1),
    )  # fmt: skip
    copying = (
        paddle.erf, functional.swish, functional.hardswish, paddle.digamma, paddle.stanh,
        lambda y: paddle.linalg.norm(y, axis=1), lambda y: y.cumsum(1), lambda y: y**3,
        lambda y: functional.layer_norm(y, 40), lambda y: paddle.atan2(y, y * 2),
        lambda y: paddle.topk(y, 2)[0], lambda y: paddle.mv(y, y[0]),
    )  # fmt: skip

    def loss_of(net: Any, x: Any) -> Any:
        h = paddle.nn.functional.sigmoid(net(x))
        return sum(function(h.t()).sum() for function in (*keeping, *copying))

    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([40, 64]),), loss_of, step)


@case
def numbers_and_tensors(paddle: Any, step: Any) -> None:
    """Numbers that fill a tensor before they meet one, NumPy's too, and casts to the own type."""
    net = paddle.nn.Linear(64, 64)

    def loss_of(net: Any, x: Any) -> Any:
        h = net(x).exp() + 1
        mask = paddle.cast((h > 1.5) & (h != 2), "bool")
        made = [1 / h, 2**h, h % 3, h * numpy.float32(2), 3 - h, paddle.cast(h, "float32"),
                h.astype("float32"), paddle.masked_fill(h, mask, 0.0), h // 2]  # fmt: skip
        return sum(one.sum() for one in made)

    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([40, 64]),), loss_of, step)


@case
def sorted_along_axes(paddle: Any, step: Any) -> None:
    net = paddle.nn.Linear(64, 64)

    def loss_of(net: Any, x: Any) -> Any:
        h = net(x)
        made = paddle.sort(h, axis=1).sum() + paddle.kthvalue(h, 3, axis=0)[0].sum()
        return made + paddle.topk(h, 9, axis=0)[0].sum() + paddle.sort(h, axis=0).square().sum()

    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([400, 64]),), loss_of, step)


@case
def recomputed_inputs(paddle: Any, step: Any) -> None:
    """A leaf that is recomputed from gets a gradient of its own."""
    from paddle.distributed.fleet.utils import recompute

    net = paddle.nn.Sequential(paddle.nn.Linear(512, 32), paddle.nn.Tanh())

    def loss_of(net: Any, x: Any) -> Any:
        x.stop_gradient = False
        return recompute(net, x).mean()

    batch = paddle.rand([300, 512])
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (batch,), loss_of, step)


@case
def normed_by_spectrum(paddle: Any, step: Any) -> None:
    nn = paddle.nn
    net = nn.Sequential(nn.utils.spectral_norm(nn.Linear(200, 100)), nn.ReLU(),
                        nn.utils.weight_norm(nn.Linear(100, 10)))  # fmt: skip
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([16, 200]),),
          lambda net, x: net(x).square().mean(), step)  # fmt: skip


@case
def summed_products(paddle: Any, step: Any) -> None:
    """`einsum` with operands and products in the kernel's order and in others."""
    net = paddle.nn.Linear(64, 96)

    def loss_of(net: Any, x: Any) -> Any:
        q, k, _ = net(x).reshape([2, 60, 3, 4, 8]).unbind(2)
        return paddle.einsum("bqhd,bkhd->bhqk", q, k).sum()

    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([120, 64]),), loss_of, step)


@case
def product_by_matrix(paddle: Any, step: Any) -> None:
    net = paddle.nn.Linear(64, 64)

    def loss_of(net: Any, x: Any) -> Any:
        return paddle.einsum("bij,jk->bki", net(x).reshape([4, 30, 64]), net.weight).sum()

    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([120, 64]),), loss_of, step)


@case
def clipped_rows(paddle: Any, step: Any) -> None:
    """Gradients of rows that are clipped and decayed: merged, made dense, added to dense ones."""
    nn, optimizers = paddle.nn, paddle.optimizer
    for clip, decay in ((nn.ClipGradByGlobalNorm(1.0), None), (nn.ClipGradByNorm(1.0), None),
                        (None, 1e-4)):  # fmt: skip
        table = nn.Embedding(500, 256, sparse=True)
        optimizer = optimizers.SGD(
            parameters=table.parameters(), grad_clip=clip, weight_decay=decay
        )
        table(paddle.arange(400)).square().sum().backward()
        optimizer.step()
        del table, optimizer
        step()


@case
def curved(paddle: Any, step: Any) -> None:
    """Second derivatives of products by both factors."""
    nn = paddle.nn
    net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Softplus(),
                        nn.Linear(64, 4))  # fmt: skip
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())

    def loss_of(net: Any, x: Any) -> Any:
        loss = net(x).square().sum()
        slopes = paddle.grad(loss, net.parameters(), create_graph=True)
        return loss + sum(one.square().sum() for one in slopes)

    train(paddle, net, optimizer, lambda: (paddle.rand([100, 16]),), loss_of, step)


@case
def curved_by_parts(paddle: Any, step: Any) -> None:
    """Second derivatives that Paddle makes of other operators."""
    nn = paddle.nn
    net = nn.Sequential(nn.Linear(40, 64, bias_attr=False), nn.Silu(), nn.Linear(64, 10))
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())

    def loss_of(net: Any, x: Any) -> Any:
        x.stop_gradient = False
        out = net(x)
        (slope,) = paddle.grad((out * out).sum(), x, create_graph=True)
        return slope.square().mean()

    train(paddle, net, optimizer, lambda: (paddle.rand([256, 40]),), loss_of, step)


@case
def curved_pictures(paddle: Any, step: Any) -> None:
    nn = paddle.nn
    net = nn.Sequential(nn.Conv2D(3, 8, 3, padding=1), nn.LeakyReLU(), nn.Conv2D(8, 4, 3))
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())

    def loss_of(net: Any, x: Any) -> Any:
        x.stop_gradient = False
        loss = net(x).square().sum()
        (slope,) = paddle.grad(loss, [x], create_graph=True)
        return loss + slope.square().sum()

    train(paddle, net, optimizer, lambda: (paddle.rand([4, 3, 16, 16]),), loss_of, step)


@case
def without_gradients(paddle: Any, step: Any) -> None:
    net = paddle.vision.models.mobilenet_v2(num_classes=10)
    net.eval()
    for _ in range(3):
        with paddle.no_grad():
            net(paddle.rand([2, 3, 64, 64])).argmax(axis=1)
        step()


@case
def slopes_of_one_operand(paddle: Any, step: Any) -> None:
    """Slopes by one operand alone of sums and differences that are broadcast, the last operators of
    a critic of pictures: what is made of no other operand takes nothing."""
    nn = paddle.nn
    net = nn.Conv2D(3, 32, 4, stride=2, padding=1)
    scale = paddle.create_parameter([32, 1, 1], "float32")
    optimizer = paddle.optimizer.SGD(parameters=[*net.parameters(), scale])

    def loss_of(net: Any, x: Any) -> Any:
        x.stop_gradient = False
        out = net(x)
        loss = (out - scale).sum() + paddle.nn.functional.leaky_relu(out).sum()
        (slope,) = paddle.grad(loss, [x], create_graph=True)
        return loss + (slope * slope).sum()

    train(paddle, net, optimizer, lambda: (paddle.rand([8, 3, 32, 32]),), loss_of, step)


@case
def slopes_of_slopes_by_what_they_began_with(paddle: Any, step: Any) -> None:
    """Slopes forwards, made of two backwards: the second is by the gradient that the first began
    with, a leaf of its own."""
    scale = paddle.create_parameter([64, 1, 64], "float32")
    optimizer = paddle.optimizer.SGD(parameters=[scale])

    def loss_of(scale: Any, x: Any) -> Any:
        x.stop_gradient = False
        _, whole = paddle.incubate.autograd.jvp(lambda x: x * scale, x)
        out = (x * scale).sum(-1, keepdim=True)
        start = paddle.zeros_like(out)
        start.stop_gradient = False
        (slope,) = paddle.grad(out, x, start, create_graph=True)
        (forwards,) = paddle.grad(slope, start, paddle.ones_like(slope), create_graph=True)
        return whole.sum() + (forwards * forwards).sum()

    train(paddle, scale, optimizer, lambda: (paddle.rand([1, 64, 64]),), loss_of, step)


@case
def bent_three_times(paddle: Any, step: Any) -> None:
    """Third derivatives of `tanh`, as the equations of physics have them."""
    nn = paddle.nn
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    places = paddle.rand([2000, 2])
    for _ in range(3):
        x, y = places[:, 0:1], places[:, 1:2]
        x.stop_gradient = y.stop_gradient = False
        out = net(paddle.concat([x, y], 1))
        by_x = paddle.grad(out, x, create_graph=True)[0]
        by_y = paddle.grad(out, y, create_graph=True)[0]
        twice = paddle.grad(by_x, x, create_graph=True)[0]
        other = paddle.grad(by_y, y, create_graph=True)[0]
        ((twice + other - out * by_x) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
        step()


def bent(paddle: Any, step: Any, act: Any, times: int) -> None:
    """Train a network by so many derivatives of it, one of another."""
    nn = paddle.nn
    lines = nn.LayerList([nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 1)])
    optimizer = paddle.optimizer.Adam(parameters=lines.parameters())
    for _ in range(3):
        x = paddle.rand([2000, 2])
        x.stop_gradient = False
        out = lines[2](act(lines[1](act(lines[0](x)))))
        for _ in range(times):
            out = paddle.grad(out, x, create_graph=True)[0][:, 0:1]
        (out**2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
        step()


@case
def sums_that_are_bent_three_times(paddle: Any, step: Any) -> None:
    """Third derivatives of sums, of a row of numbers among them, as in a linear layer."""
    bent(paddle, step, lambda x: x * x + x, 3)


@case
def differences_that_are_bent_three_times(paddle: Any, step: Any) -> None:
    """The same of differences."""
    bent(paddle, step, lambda x: x * x - x, 3)


@case
def powers_of_e_that_are_bent(paddle: Any, step: Any) -> None:
    """Second derivatives of `exp`."""
    bent(paddle, step, lambda x: paddle.exp(-x), 2)


@case
def sigmoids_that_are_bent(paddle: Any, step: Any) -> None:
    """Third derivatives of `sigmoid`."""
    bent(paddle, step, paddle.nn.functional.sigmoid, 2)


@case
def slopes_of_slopes(paddle: Any, step: Any) -> None:
    """A third derivative to which both results of the second one lead, and one made in place."""
    nn = paddle.nn
    net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1))
    places = paddle.rand([2000, 2])
    places.stop_gradient = False
    for _ in range(3):
        (slope,) = paddle.grad(net(places), places, create_graph=True)
        found = paddle.grad((slope**2).sum(), net.parameters(), create_graph=True,
                            allow_unused=True)  # fmt: skip
        sum((one**2).sum() for one in found if one is not None).backward()
        places.clear_grad()
        net.clear_gradients()
        step()


@case
def bent_in_place(paddle: Any, step: Any) -> None:
    """A second derivative of `tanh` whose last result lies where its gradient arrived."""
    x = paddle.rand([2000, 64])
    x.stop_gradient = False
    for _ in range(3):
        out = paddle.tanh(x)
        paddle.grad(out.sum(), x, create_graph=True)[0].sum().backward()
        x.clear_grad()
        step()


@case
def penalised_through_norms(paddle: Any, step: Any) -> None:
    """Second derivatives of norms, as where the slope of a judge of pictures is held near one."""
    nn = paddle.nn
    net = nn.Sequential(
        nn.Conv2D(3, 8, 3, padding=1), nn.InstanceNorm2D(8), nn.LeakyReLU(0.2),
        nn.Conv2D(8, 16, 3, padding=1), nn.BatchNorm2D(16), nn.LeakyReLU(0.2),
        nn.InstanceNorm2D(16, weight_attr=False, bias_attr=False),
    )  # fmt: skip
    last = nn.Sequential(nn.BatchNorm1D(16 * 256), nn.Linear(16 * 256, 1))
    optimizer = paddle.optimizer.Adam(parameters=[*net.parameters(), *last.parameters()])
    for _ in range(3):
        x = paddle.rand([6, 3, 16, 16])
        x.stop_gradient = False
        out = last(net(x).reshape([6, -1]))
        (slope,) = paddle.grad(out.sum(), x, create_graph=True)
        (out.mean() + ((slope.reshape([6, -1]).norm(2, 1) - 1) ** 2).mean()).backward()
        optimizer.step()
        optimizer.clear_grad()
        step()


@case
def bent_norms(paddle: Any, step: Any) -> None:
    """Second derivatives of norms by all they read: in place where nothing else holds what the
    first was given, with channels last, with statistics of before."""
    nn = paddle.nn
    norms = [
        (nn.BatchNorm2D(4), [2, 4, 40, 40]),
        (nn.BatchNorm2D(4, data_format="NHWC"), [2, 40, 40, 4]),
        (nn.BatchNorm2D(4, use_global_stats=True), [2, 4, 40, 40]),
    ]
    for norm, shape in norms:
        x = paddle.rand(shape)
        x.stop_gradient = False
        out = norm(x)
        paddle.grad(out.square().sum(), x, create_graph=True)[0].square().sum().backward()
        x.clear_grad()
        out = norm(x)
        held = paddle.grad(out.square().sum(), [x, out], create_graph=True)
        held[0].square().sum().backward()
        del held, out, x
        step()


@case
def looked_at(paddle: Any, step: Any) -> None:
    """Arrays, numbers and texts of tensors: copies that Paddle makes in its own memory."""
    net = paddle.nn.Linear(64, 512)
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    held, seen = [], []
    for _ in range(3):
        out = net(paddle.rand([500, 64]))
        loss = out.square().mean()
        loss.backward()
        held.append(out.numpy()[:10])
        seen += [float(loss), str(out)[:5], numpy.asarray(out[0]).sum(), out.detach().tolist()[0]]
        optimizer.step()
        optimizer.clear_grad()
        step()


@case
def saved(paddle: Any, step: Any) -> None:
    """A network and its optimizer are written to a file while gradients are held."""
    net = paddle.nn.Sequential(paddle.nn.Linear(256, 512), paddle.nn.Linear(512, 8))
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    for turn in range(3):
        net(paddle.rand([4, 256])).square().mean().backward()
        optimizer.step()
        states = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
        paddle.save(net.state_dict() if turn == 1 else states, "/dev/null")
        optimizer.clear_grad()
        step()


@case
def channels_last(paddle: Any, step: Any) -> None:
    nn = paddle.nn
    net = nn.Sequential(
        nn.Conv2D(3, 24, 5, stride=2, data_format="NHWC"), nn.ELU(),
        nn.Conv2D(24, 36, 3, data_format="NHWC"), nn.ELU(), nn.Flatten(),
        nn.Linear(36 * 12 * 12, 4),
    )  # fmt: skip
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    train(paddle, net, optimizer, lambda: (paddle.rand([8, 31, 31, 3]),),
          lambda net, x: net(x).square().mean(), step)  # fmt: skip


@case
def counted_and_compared(paddle: Any, step: Any) -> None:
    """Sums and means of numbers that are no floats, which kernels turn into others first."""
    net = paddle.nn.Conv2D(3, 5, 3, padding=1)
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    for _ in range(3):
        out = net(paddle.rand([2, 3, 80, 80]))
        labels = paddle.randint(0, 5, [2, 80, 80])
        loss = paddle.nn.functional.cross_entropy(out.transpose([0, 2, 3, 1]), labels)
        loss.backward()
        right = out.argmax(1) == labels
        (right.sum(), (labels > 0).any(), labels.sum(), labels.mean(), (right == 1).sum(0))
        optimizer.step()
        optimizer.clear_grad()
        step()


@case
def written_into(paddle: Any, step: Any) -> None:
    """Numbers and tensors that are spread over the part that they are written into; masks."""
    net = paddle.nn.Linear(64, 64)
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    for _ in range(3):
        x = paddle.rand([400, 30, 64])
        x[:, :20] = 0.0
        x[:100] = paddle.rand([30, 64])
        x[3] = numpy.ones([30, 64], "float32")
        x[paddle.rand([400, 30]) >= 0.0] = 1.0
        out = net(x)
        loss = out[paddle.arange(100)].mean() + net.weight[paddle.arange(5)].sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        step()


@case
def picked_by_constants(paddle: Any, step: Any) -> None:
    """What masks and tables of places pick that are made of constants, also of large ones."""
    nn = paddle.nn
    net = nn.Linear(6, 8)
    optimizer = paddle.optimizer.SGD(parameters=net.parameters())
    many = 70

    def loss_of(net: Any, x: Any) -> Any:
        out = net(x)
        products = paddle.bmm(out, out.transpose([0, 2, 1]))
        upper = paddle.triu(paddle.ones([20, many, many], "int32"), 1).cast("bool")
        pairs = paddle.masked_select(products, upper).reshape([20, -1])
        near = paddle.triu(paddle.ones_like(products), 3) > 0
        places = paddle.arange(many)
        band = (places.unsqueeze(0) - places.unsqueeze(1)).abs() < 5
        lower = paddle.nonzero(paddle.tril(paddle.ones([many, many]), -1))
        off = paddle.ones([many, many], "int32").fill_diagonal_(0) > 0
        return (pairs.mean() + products[near].mean() + products[0][band].square().sum()
                + products.transpose([1, 2, 0]).gather_nd(lower).mean()
                + paddle.masked_select(products[1], off).mean())  # fmt: skip

    train(paddle, net, optimizer, lambda: (paddle.rand([20, many, 6]),), loss_of, step)


def main() -> None:
    """Run every case and print its peaks above what was held before, in bytes."""
    if sys.argv[1] == "meta":
        from gpuconsole.preflight.meta import hook
        from gpuconsole.preflight.meta.state import STATE
        from gpuconsole.preflight.tiers.probe_request import operators

        hook.install()
        import paddle

        hook.ready(paddle, operators(), "cpu")
        ledger = STATE.ledger

        def held() -> int:
            return int(ledger.live)

        def peak() -> int:
            return int(ledger.peak)

        def reset() -> None:
            ledger.peak = ledger.live
    else:
        import paddle

        core: Any = paddle.base.core

        def held() -> int:
            return int(core.host_memory_stat_current_value("Allocated", 0))

        def peak() -> int:
            return int(core.host_memory_stat_peak_value("Allocated", 0))

        def reset() -> None:
            core.host_memory_stat_reset_peak_value("Allocated", 0)

    wanted = sys.argv[2:]
    found: dict[str, Any] = {}
    for run in CASES:
        if wanted and run.__name__ not in wanted:
            continue
        gc.collect()
        paddle.seed(1)
        before, peaks = held(), []
        reset()

        def step(before: int = before, peaks: Any = peaks) -> None:
            peaks.append(peak() - before)
            reset()

        run(paddle, step)
        found[run.__name__] = peaks
    print(json.dumps(found))


if __name__ == "__main__":
    main()

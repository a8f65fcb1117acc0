"""Training loops drawn at random around a drawn network."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from benchmarks.meta_loops.networks import NETWORKS, Draw, Drawn

STEPS = 5
OPTIMIZERS = ("SGD", "Momentum", "Adam", "AdamW", "RMSProp", "Adagrad", "Lamb", "Adamax",
              "Adadelta", "NAdam", "RAdam")  # fmt: skip
SMOOTH_WAYS = ("plain", "penalty", "third", "hessian")
WAYS = ("plain", "plain", "plain", "accumulated", "amp", "amp2", "recomputed", "validated",
        "average", "held", "bank", "teacher", "parallel", "minimized", "hooked", "unfrozen",
        "own", "twice", "gan", "graph")  # fmt: skip
"""What a loop does beside training."""


def run(draw: Draw, paddle: Any, step: Callable[[], None], samples: int = 0) -> str:
    """Train by the loop of a draw, calling `step` at the end of each step; returns its name.

    Batches have `samples`; as many as are drawn for 0.
    """
    network = draw.choice(NETWORKS)
    drawn = network(draw, paddle)
    if samples:
        drawn = Drawn(drawn.net, drawn.batch, samples, drawn.smooth)
    way = draw.choice(SMOOTH_WAYS if drawn.smooth else WAYS)
    loss_of = drawn_loss(draw, paddle)
    Loop(draw, paddle, drawn, loss_of, step).run(way)
    return f"{network.__name__} {way}"


def drawn_loss(draw: Draw, paddle: Any) -> Any:
    """Return a loss of ten outputs, with targets of its own."""
    functional = paddle.nn.functional
    kind = draw.choice(["cross", "smooth", "mse", "l1", "huber", "bce", "kl", "soft", "focal",
                        "cosine", "margin"])  # fmt: skip

    def loss(out: Any) -> Any:
        rows = out.shape[0]
        labels = paddle.randint(0, 10, [rows])
        if kind == "cross":
            return functional.cross_entropy(out, labels)
        if kind == "smooth":
            soft = functional.label_smooth(functional.one_hot(labels, 10))
            return functional.cross_entropy(out, soft, soft_label=True)
        if kind == "kl":
            target = functional.softmax(paddle.rand([rows, 10]))
            return functional.kl_div(functional.log_softmax(out), target, reduction="batchmean")
        if kind == "soft":
            return -(functional.log_softmax(out) * paddle.rand([rows, 10])).sum(1).mean()
        if kind == "focal":
            wanted = functional.one_hot(labels, 10)
            return functional.sigmoid_focal_loss(out, wanted)
        if kind == "cosine":
            return 1 - functional.cosine_similarity(out, paddle.rand([rows, 10])).mean()
        if kind == "margin":
            return functional.relu(1.0 - out[:, 0] * paddle.sign(out[:, 1])).mean()
        names = {"mse": "mse_loss", "l1": "l1_loss", "huber": "smooth_l1_loss",
                 "bce": "binary_cross_entropy_with_logits"}  # fmt: skip
        return getattr(functional, names[kind])(out, paddle.rand([rows, 10]))

    return loss


class Loop:
    """One loop: a network, an optimizer, and a way of training."""

    def __init__(self, draw: Draw, paddle: Any, drawn: Drawn, loss_of: Any, step: Any) -> None:
        self.draw, self.paddle, self.drawn = draw, paddle, drawn
        self.net, self.loss_of, self.step = drawn.net, loss_of, step
        self.optimizer = self.optimizer_for(drawn.net.parameters())
        self.zeroed = draw.random() < 0.3

    def optimizer_for(self, parameters: Any) -> Any:
        """Return an optimizer with decay, clipping and a schedule."""
        draw, paddle = self.draw, self.paddle
        nn, lr = paddle.nn, paddle.optimizer.lr
        rate = draw.choice([0.001, 0.001, lr.CosineAnnealingDecay(0.001, 10),
                            lr.LinearWarmup(0.001, 2, 0.0, 0.001)])  # fmt: skip
        clip = draw.choice([None, None, nn.ClipGradByGlobalNorm(1.0), nn.ClipGradByNorm(1.0),
                            nn.ClipGradByValue(1.0)])  # fmt: skip
        name = draw.choice(OPTIMIZERS)
        given: dict[str, Any] = {"learning_rate": rate, "parameters": parameters,
                                 "grad_clip": clip}  # fmt: skip
        if name == "Lamb":
            given["lamb_weight_decay"] = 0.01
        elif name != "AdamW":
            regular = paddle.regularizer
            given["weight_decay"] = draw.choice(
                [None, None, 1e-4, regular.L2Decay(1e-4), regular.L1Decay(1e-4)]
            )
        if name in ("Adam", "AdamW", "Momentum", "SGD", "Lamb"):
            given["multi_precision"] = draw.random() < 0.5
        return getattr(paddle.optimizer, name)(**given)

    def run(self, way: str) -> None:
        """Train in a way."""
        method = getattr(self, f"train_{way}", None)
        if method is not None:
            method()
            return
        for _ in range(STEPS):
            self.loss(self.batch()).backward()
            self.update()

    def batch(self, times: int = 1) -> Any:
        """Return the inputs of a batch."""
        return self.drawn.batch(self.drawn.size * times)

    def loss(self, batch: Any) -> Any:
        """Return the loss of a batch."""
        return self.loss_of(self.net(*batch))

    def update(self) -> None:
        """Step, and clear gradients."""
        self.optimizer.step()
        self.optimizer.clear_grad(set_to_zero=self.zeroed)
        self.step()

    def train_accumulated(self) -> None:
        """Add up the gradients of three batches."""
        for _ in range(STEPS):
            for _ in range(3):
                (self.loss(self.batch()) / 3).backward()
            self.update()

    def train_amp(self, level: str = "O1") -> None:
        """Train in mixed precision."""
        amp = self.paddle.amp
        if level == "O2":
            self.net, self.optimizer = amp.decorate(self.net, self.optimizer, level="O2")
        scaler = amp.GradScaler(init_loss_scaling=1024)
        for _ in range(STEPS):
            with amp.auto_cast(level=level):
                loss = self.loss(self.batch())
            scaler.scale(loss).backward()
            scaler.step(self.optimizer)
            scaler.update()
            self.optimizer.clear_grad()
            self.step()

    def train_amp2(self) -> None:
        """Train in half precision."""
        self.train_amp("O2")

    def train_recomputed(self) -> None:
        """Run the network again in the backward pass."""
        from paddle.distributed.fleet.utils import recompute

        for _ in range(STEPS):
            batch = self.batch()
            if "float" in str(batch[0].dtype):
                batch[0].stop_gradient = False
            self.loss_of(recompute(self.net, *batch)).backward()
            self.update()

    def train_validated(self) -> None:
        """Evaluate with a larger batch after every second step."""
        for at in range(STEPS):
            self.loss(self.batch()).backward()
            if at % 2:
                self.net.eval()
                with self.paddle.no_grad():
                    float(self.loss(self.batch(self.draw.choice([2, 8]))))
                self.net.train()
            self.update()

    def train_average(self) -> None:
        """Hold a moving average of the parameters."""
        shadow = {name: one.clone().detach() for name, one in self.net.state_dict().items()}
        for _ in range(STEPS):
            self.loss(self.batch()).backward()
            for name, one in self.net.state_dict().items():
                if "float" in str(one.dtype):
                    shadow[name] = shadow[name] * 0.9 + one.detach() * 0.1
            self.update()

    def train_held(self) -> None:
        """Hold every loss with its graph, or without."""
        losses, alone = [], self.draw.random() < 0.5
        for _ in range(STEPS):
            loss = self.loss(self.batch())
            loss.backward()
            losses.append(loss.detach() if alone else loss)
            self.update()

    def train_bank(self) -> None:
        """Hold the outputs of the last batches."""
        bank: list[Any] = []
        for _ in range(STEPS):
            out = self.net(*self.batch())
            bank = [*bank[-3:], out.detach()]
            (self.loss_of(out) + self.paddle.concat(bank).mean()).backward()
            self.update()

    def train_teacher(self) -> None:
        """Learn from a network that is not trained."""
        teacher = copy.deepcopy(self.net)
        teacher.eval()
        for _ in range(STEPS):
            batch = self.batch()
            with self.paddle.no_grad():
                wanted = teacher(*batch)
            out = self.net(*batch)
            (self.loss_of(out) + (out - wanted).square().mean()).backward()
            self.update()

    def train_parallel(self) -> None:
        """Train as the only rank of several."""
        self.net = self.paddle.DataParallel(self.net)
        self.run("plain")

    def train_minimized(self) -> None:
        """Let the optimizer go back by itself."""
        for _ in range(STEPS):
            loss = self.loss(self.batch())
            loss.backward()
            self.optimizer.minimize(loss)
            self.optimizer.clear_grad()
            self.step()

    def train_hooked(self) -> None:
        """Change gradients on their way."""
        for one in self.net.parameters():
            if not one.stop_gradient:
                one.register_hook(lambda grad: grad * 0.5)
        self.run("plain")

    def train_unfrozen(self) -> None:
        """Train only the last layers at first."""
        parameters = self.net.parameters()
        frozen = [one for one in parameters[: len(parameters) // 2] if not one.stop_gradient]
        for at in range(STEPS):
            for one in frozen:
                one.stop_gradient = at < 3
            self.loss(self.batch()).backward()
            self.update()

    def train_own(self) -> None:
        """Go through an operator with a backward of its own."""
        paddle = self.paddle

        class Scaled(paddle.autograd.PyLayer):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = paddle.tanh(x)
                ctx.save_for_backward(y)
                return y * 2

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                (y,) = ctx.saved_tensor()
                return grad * 2 * (1 - y * y)

        for _ in range(STEPS):
            self.loss_of(Scaled.apply(self.net(*self.batch()))).backward()
            self.update()

    def train_twice(self) -> None:
        """Go back twice through one graph."""
        for _ in range(STEPS):
            out = self.net(*self.batch())
            first, second = self.loss_of(out), out.square().mean()
            first.backward(retain_graph=True)
            second.backward()
            self.update()

    def train_graph(self) -> None:
        """Ask for the gradients of some parameters by name."""
        paddle = self.paddle
        wanted = [one for one in self.net.parameters() if not one.stop_gradient]
        for _ in range(STEPS):
            loss = self.loss(self.batch())
            found = paddle.grad(loss, wanted, allow_unused=True)
            with paddle.no_grad():
                for one, grad in zip(wanted, found, strict=True):
                    if grad is not None:
                        one.set_value(one - grad * 0.01)
            del loss, found
            self.step()

    def train_gan(self) -> None:
        """Train a judge of the network's outputs beside it."""
        paddle = self.paddle
        nn = paddle.nn
        judge = nn.Sequential(nn.Linear(10, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
        second = self.optimizer_for(judge.parameters())
        criterion = nn.BCEWithLogitsLoss()
        for _ in range(STEPS):
            made = self.net(*self.batch())
            rows = made.shape[0]
            loss = criterion(judge(paddle.rand([rows, 10])), paddle.ones([rows, 1]))
            loss = loss + criterion(judge(made.detach()), paddle.zeros([rows, 1]))
            loss.backward()
            second.step()
            second.clear_grad()
            criterion(judge(made), paddle.ones([rows, 1])).backward()
            second.clear_grad()
            self.update()

    def train_penalty(self) -> None:
        """Train on the slope of the output."""
        for _ in range(STEPS):
            self.slope(1)
            self.update()

    def slope(self, order: int) -> None:
        """Go back through derivatives of an order by the input."""
        paddle = self.paddle
        (x,) = self.batch()
        x.stop_gradient = False
        out = self.net(x)
        total, found = self.loss_of(out), out.sum()
        for _ in range(order):
            (grad,) = paddle.grad(found, x, create_graph=True)
            total = total + grad.square().mean()
            found = grad.sum()
        total.backward()

    def train_third(self) -> None:
        """Train on derivatives of the second order, which makes those of the third."""
        for _ in range(STEPS):
            self.slope(2)
            self.update()

    def train_hessian(self) -> None:
        """Train on the product of a gradient's slope with a vector."""
        paddle = self.paddle
        wanted = [one for one in self.net.parameters() if not one.stop_gradient]
        for _ in range(STEPS):
            loss = self.net(*self.batch()).square().sum()
            found = paddle.grad(loss, wanted, create_graph=True, allow_unused=True)
            norm = sum((one.square().sum() for one in found if one is not None), loss * 0)
            (loss + 0.1 * norm).backward()
            del found, norm, loss
            self.update()

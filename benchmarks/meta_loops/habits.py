"""What training scripts do beside training: they look at tensors, save, evaluate and average."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from benchmarks.meta_loops.loops import STEPS, Loop, drawn_loss
from benchmarks.meta_loops.networks import NETWORKS, Draw, Drawn

HABITS = ("network_saved", "all_saved", "losses_kept", "outputs_kept", "printed", "right_counted",
          "right_averaged", "metric", "averaged", "norms", "evaluated", "evaluated_with_graphs",
          "masked", "scheduled", "clamped", "best_copied")  # fmt: skip
NOWHERE = "/dev/null"


def habitual(draw: Draw, paddle: Any, step: Callable[[], None], samples: int = 0) -> str:
    """Train by a drawn loop with drawn habits, calling `step` at the end of each step; in batches
    of `samples`, or of as many as are drawn for 0."""
    network = draw.choice(NETWORKS)
    drawn = network(draw, paddle)
    if samples:
        drawn = Drawn(drawn.net, drawn.batch, samples, drawn.smooth)
    loop = Habitual(draw, paddle, drawn, drawn_loss(draw, paddle), step)
    chosen = draw.sample(HABITS, draw.randint(1, 3))
    loop.run_with(chosen)
    return f"{network.__name__} {' '.join(chosen)}"


class Habitual(Loop):
    """A loop that does some things after each step, or after some."""

    def run_with(self, habits: Any) -> None:
        """Train with these habits."""
        self.kept: list[Any] = []
        self.shadow: Any = None
        every = [self.draw.choice([1, 2, 3]) for _ in habits]
        before = [self.draw.random() < 0.5 for _ in habits]
        for at in range(STEPS):
            batch = self.batch()
            out = self.net(*batch)
            loss = self.loss_of(out)
            loss.backward()
            for habit, turns, early in zip(habits, every, before):  # noqa: B905
                if early and at % turns == turns - 1:
                    getattr(self, f"do_{habit}")(out, loss)
            self.optimizer.step()
            self.optimizer.clear_grad(set_to_zero=self.zeroed)
            for habit, turns, early in zip(habits, every, before):  # noqa: B905
                if not early and at % turns == turns - 1:
                    getattr(self, f"do_{habit}")(out, loss)
            self.step()

    def do_network_saved(self, out: Any, loss: Any) -> None:
        """Save the network."""
        self.paddle.save(self.net.state_dict(), NOWHERE)

    def do_all_saved(self, out: Any, loss: Any) -> None:
        """Save network, optimizer and a number in one file."""
        states = {"net": self.net.state_dict(), "opt": self.optimizer.state_dict(), "at": 3}
        self.paddle.save(states, NOWHERE)

    def do_losses_kept(self, out: Any, loss: Any) -> None:
        """Keep losses as arrays and numbers."""
        self.kept.append((loss.numpy(), loss.item(), float(loss)))

    def do_outputs_kept(self, out: Any, loss: Any) -> None:
        """Keep outputs as arrays."""
        self.kept.append(out.detach().numpy())

    def do_printed(self, out: Any, loss: Any) -> None:
        """Print outputs and the loss."""
        self.kept.append(len(f"{str(out)[:1]} {float(loss):.3f}"))

    def do_right_counted(self, out: Any, loss: Any) -> None:
        """Count what is right."""
        labels = self.paddle.randint(0, 10, [out.shape[0]])
        self.kept.append((out.argmax(1) == labels).sum().item())

    def do_right_averaged(self, out: Any, loss: Any) -> None:
        """Take the share of what is right."""
        labels = self.paddle.randint(0, 10, [out.shape[0]])
        right = self.paddle.equal(self.paddle.argmax(out, axis=1), labels)
        self.kept.append(float(right.astype("float32").mean()))

    def do_metric(self, out: Any, loss: Any) -> None:
        """Feed a metric of Paddle's."""
        metric = self.paddle.metric.Accuracy()
        labels = self.paddle.randint(0, 10, [out.shape[0], 1])
        metric.update(metric.compute(out, labels))
        self.kept.append(metric.accumulate())

    def do_averaged(self, out: Any, loss: Any) -> None:
        """Move an averaged network along."""
        if self.shadow is None:
            self.shadow = copy.deepcopy(self.net)
        with self.paddle.no_grad():
            for one, other in zip(self.shadow.parameters(), self.net.parameters()):  # noqa: B905
                one.set_value(one * 0.9 + other * 0.1)

    def do_norms(self, out: Any, loss: Any) -> None:
        """Look at the sizes of the parameters, and of gradients where there are any."""
        for one in self.net.parameters():
            self.kept.append(float(one.norm()))
            if one.grad is not None and one.grad.is_dense():
                self.kept.append(float((one.grad**2).sum()))

    def do_evaluated(self, out: Any, loss: Any) -> None:
        """Evaluate two batches without gradients and keep what comes out."""
        self.net.eval()
        with self.paddle.no_grad():
            found = [self.net(*self.batch(2)).numpy() for _ in range(2)]
        self.kept.append(found[0].shape)
        self.net.train()

    def do_evaluated_with_graphs(self, out: Any, loss: Any) -> None:
        """Evaluate two batches whose graphs are held until the next."""
        self.net.eval()
        total = 0.0
        for _ in range(2):
            made = self.net(*self.batch(2))
            total += self.loss_of(made)
        self.kept.append(float(total))
        self.net.train()

    def do_masked(self, out: Any, loss: Any) -> None:
        """Write into a copy of what comes out."""
        copied = out.detach().clone()
        copied[:, :4] = 0.0
        copied[0] = 1.0
        self.kept.append(float(copied.sum()))

    def do_scheduled(self, out: Any, loss: Any) -> None:
        """Step a schedule."""
        schedule = self.paddle.optimizer.lr.StepDecay(0.1, 2)
        schedule.step()
        self.kept.append(schedule.get_lr())

    def do_clamped(self, out: Any, loss: Any) -> None:
        """Keep parameters within bounds."""
        with self.paddle.no_grad():
            for one in self.net.parameters():
                one.set_value(one.clip(-1.0, 1.0))

    def do_best_copied(self, out: Any, loss: Any) -> None:
        """Keep the best state as arrays."""
        self.shadow_state = {name: one.numpy() for name, one in self.net.state_dict().items()}

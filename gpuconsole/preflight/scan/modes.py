"""Whether operators write down how to go backward: `no_grad` and its kin."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.values import Native, Value


class NoGrad(Native):
    """`paddle.no_grad`, as a context, a decorator, or a decorator called first."""

    label = "no_grad"
    enabled = False

    def init(self, run: Run, *_: Value) -> None:
        """Take no notice of arguments."""

    def enter(self, run: Run) -> Callable[[], None]:
        """Switch gradients off until left."""
        before = run.grad_enabled
        run.grad_enabled = self.enabled

        def leave() -> None:
            run.grad_enabled = before

        return leave


class EnableGrad(NoGrad):
    """`paddle.enable_grad`."""

    enabled = True


class SetGradEnabled(NoGrad):
    """`paddle.set_grad_enabled(mode)`: a context that also acts at once."""

    def init(self, run: Run, mode: Value = True, *_: Value) -> None:
        """Switch."""
        self.enabled = mode is not False
        self.before = run.grad_enabled
        run.grad_enabled = self.enabled

    def enter(self, run: Run) -> Callable[[], None]:
        """Stay switched until left."""
        before = self.before

        def leave() -> None:
            run.grad_enabled = before

        return leave

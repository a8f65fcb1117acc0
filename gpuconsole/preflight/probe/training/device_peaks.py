"""The script's own training steps on a device: the peaks that its allocator counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import hooks

if TYPE_CHECKING:
    from types import ModuleType

    from ..documents import Request, Run
    from ..run import Channel


class Session:
    """One run: counts optimizer steps, and reports the peaks after enough of them."""

    def __init__(self, paddle: ModuleType, request: Request, channel: Channel) -> None:
        self.paddle = paddle
        self.request = request
        self.channel = channel
        self.steps = 0
        self.inside = False

    def install(self) -> None:
        """Count the steps of every optimizer."""
        device = str(self.paddle.device.get_device())
        if device.startswith("cpu"):
            self.channel.fail("paddle", "Paddle computes on the processor here: it sees no device.")
        for cls in hooks.subclasses(self.paddle.optimizer.Optimizer):
            for name in ("step", "minimize"):
                if name in cls.__dict__:
                    self.wrap(cls, name)

    def wrap(self, cls: type, name: str) -> None:
        """Count the calls of a method; one within another counts once."""
        session, old = self, cls.__dict__[name]

        def step(this: object, *args: object, **kwargs: object) -> object:
            if session.inside:
                return old(this, *args, **kwargs)
            session.inside = True
            try:
                result = old(this, *args, **kwargs)
            finally:
                session.inside = False
            session.stepped()
            return result

        setattr(cls, name, step)

    def stepped(self) -> None:
        """Count a step; after the last one the run ends."""
        self.steps += 1
        wanted = self.request["steps"]
        stage = f"step {self.steps} of {wanted}"
        self.channel.progress(min(0.95, 0.1 + 0.85 * self.steps / wanted), stage)
        if self.steps >= wanted:
            self.finish()

    def ended(self) -> None:
        """The script came to its end by itself."""
        if not self.steps:
            self.channel.fail("no-step", "The script ended and made no optimizer step.")
        self.finish()

    def broke(self, why: object) -> None:
        """The script broke off: what was seen before is not enough."""

    def finish(self) -> None:
        """Send the peaks and leave."""
        device = str(self.paddle.device.get_device())
        gpu = device.startswith("gpu")
        ask: ModuleType = self.paddle.device.cuda if gpu else self.paddle.device
        given = () if gpu else (device,)
        name = str(ask.get_device_name()) if gpu else device
        answer: Run = {
            "batch": self.request["size"] or 0,
            "paddle": str(self.paddle.__version__),
            "steps": self.steps,
            "name": name,
            "allocated": int(ask.max_memory_allocated(*given)),
            "reserved": int(ask.max_memory_reserved(*given)),
        }
        self.channel.end({"run": answer})

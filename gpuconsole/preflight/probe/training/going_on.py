"""A run that goes on after its first steps, for what only comes later: an evaluation, copies of
what is saved, a training of something else.

The first steps are an answer at once. How far the run goes on is that of `run_length`; loops that
train are ended by `watched_loops`, epochs here. What is done and held comes from the tier.
"""

from __future__ import annotations

import threading
import time
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ..notes import GROWS
from . import batch_size, hooks, watched_loops
from .run_length import AWAITED, PASSED, STEP, Onward

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from paddle import Model
    from paddle.optimizer import Optimizer

    from ..documents import Request, Run
    from ..run import Channel

SERIAL = "gpuconsole_serial"
"""What an optimizer has for its number."""
WAITED = "/proc/self/schedstat"
"""How long the process ran and waited for a processor, in nanoseconds, as Linux counts it for the
thread that runs the script."""


def waited_s() -> float:
    """Return the seconds that this process has waited for a processor; 0 where nothing counts."""
    try:
        with open(WAITED, encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class OwnTime:
    """The time since it was made, without what the process waited for a processor: on a machine
    that does much else a run is followed as far as anywhere."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        waited: Callable[[], float] = waited_s,
    ) -> None:
        self._clock, self._waited = clock, waited
        self._began, self._had_waited = clock(), waited()

    @property
    def all_s(self) -> float:
        """All seconds that have passed."""
        return self._clock() - self._began

    @property
    def own_s(self) -> float:
        """Those in which the process ran, or waited for anything but a processor."""
        waited = self._waited() - self._had_waited
        return max(0.0, self.all_s - max(0.0, waited))


class Session(hooks.Session, ABC):
    """One run of the script."""

    def __init__(self, paddle: ModuleType, request: Request, channel: Channel) -> None:
        super().__init__(paddle, request, channel)
        self.onward: Onward | None = None
        self.first: Run = {}
        """The answer of the first steps."""
        self.early: set[int] = set()
        """Readers that gave batches in the first steps."""
        self.known: set[int] = set()
        """Optimizers that have stepped, counted as they were made from 1."""
        self.answered_at = 0.0
        self.walked: set[tuple[int, ...]] = set()
        """Readers that were trained on, an epoch each."""
        self.walked_over: dict[int, None] = {}
        """Readers, in the order in which they were first asked for a batch."""
        self.evaluations = 0
        """Networks that were run to evaluate them, once something was trained."""
        self.saved = False
        """Whether anything was saved once something was trained."""
        self.at_end = False
        """Whether the script came to its end."""
        self.by_itself = False
        """Whether it came to its end, or broke off: the run was not cut short."""
        self.fitted: weakref.WeakSet[Model] = weakref.WeakSet()
        """What trains by `paddle.Model.fit`."""

    # -- what a tier tells

    @abstractmethod
    def work(self) -> int:
        """Return how much was done since the run began, in the units of `run_length`."""

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Return the most bytes that were held until now, and those that are."""

    @abstractmethod
    def answer(self) -> Run:
        """Return what was recorded so far."""

    @abstractmethod
    def goes_on(self, onward: Onward) -> None:
        """The first steps are answered, and the run goes on."""

    @abstractmethod
    def watch_time(self, passed: OwnTime) -> None:
        """End the run once its time is over; in a thread of its own."""

    @abstractmethod
    def is_spent(self, onward: Onward) -> bool:
        """Tell whether the run may not go on."""

    @abstractmethod
    def finish(self, until: int | None = None) -> None:
        """Send what was recorded and leave; `until`: the cycle with which the run ends. Without one
        the script itself has ended, within the cycle after the last."""

    @property
    def is_slow(self) -> bool:
        """Whether a step takes so much that none is gone through after the first ones."""
        return self.work() > STEP * self.cycles.seen

    @property
    def passed_already(self) -> int:
        """Work that counts as done for epochs which are passed."""
        return 0

    def closes(self) -> bool:
        """Tell whether a cycle that ends may be the last of the first steps."""
        return True

    # -- what happens

    def install(self) -> None:
        """Hook Paddle and begin to record."""
        super().install()
        self._fits()
        self._saves()
        watch = watched_loops.WATCH
        watch.on_left, watch.on_repeated, watch.now = self.loop_left, self.loop_repeats, self.now

    def asked(self, reader: int) -> bool:
        """A reader is asked for a batch; an epoch that trains ends once its peak rises no more,
        one that evaluates after a few batches unless it keeps what it makes of each. One that
        another loop counts the batches of is not ended: that would begin another."""
        self.walked_over.setdefault(reader)
        goes_on = super().asked(reader)
        epoch = self.cycles.readers.get(reader)
        if not goes_on:
            return self.keeps(reader)
        if self.onward is None or epoch is None or reader not in self.walked_readers:
            return goes_on
        return goes_on and not self.onward.cuts(epoch.batches - 1, self.cycles.seen)

    @abstractmethod
    def keeps(self, reader: int) -> bool:
        """Tell whether an epoch that evaluates keeps something of each batch, and so goes on."""

    @property
    def walked_readers(self) -> list[int]:
        """Readers that are trained on, and with epochs that may be ended."""
        return [reader for reader in self.cycles.training if reader not in self.by_hand]

    def batches_of(self, reader: int) -> int | None:
        """Return how many batches a reader has; None where that is unknown."""
        return self.readers[reader]["batches"] if reader in self.readers else None

    def has_no_batches(self) -> None:
        """No batches come any more: what was seen before is an answer."""
        if self.onward is not None:
            self.finish(self.cycles.seen)
        super().has_no_batches()

    def optimizer_made(self, optimizer: Optimizer) -> None:
        """An optimizer is made: loops that begin from now on may train with it."""
        super().optimizer_made(optimizer)
        watched_loops.WATCH.made += 1
        optimizer.__dict__[SERIAL] = watched_loops.WATCH.made

    def step_begins(self, optimizer: Optimizer) -> None:
        """An optimizer steps; one that has not done so trains something else from here on."""
        if not self.paddle.in_dynamic_mode():
            super().step_begins(optimizer)
            return
        watch, serial = watched_loops.WATCH, optimizer.__dict__.get(SERIAL, 0)
        if self.onward is not None and serial not in self.known and self.onward.begins_another():
            watch.leaving = False
        self.known.add(serial)
        super().step_begins(optimizer)
        watch.steps += 1
        watch.latest = serial

    def called(self, training: bool, bare: bool = False) -> None:
        """A layer outside any other was run: a network that is evaluated is noted."""
        evaluates = not bare and not (training and self.paddle.is_grad_enabled())
        if evaluates and self.cycles.all_steps:
            self.evaluations += 1
        super().called(training, bare)

    def went_back(self) -> None:
        """A backward pass is made: loops are notified."""
        super().went_back()
        watched_loops.WATCH.backwards += 1

    def gathers(self) -> None:
        """A backward pass is made that adds up gradients: loops are notified."""
        super().gathers()
        watched_loops.WATCH.gathered += 1

    def ended(self) -> None:
        """The script came to its end by itself."""
        self.at_end = self.by_itself = True
        super().ended()

    def broke(self, why: str) -> None:
        """The script broke off: what was seen before may be enough."""
        self.by_itself = True
        if self.onward is not None:
            self.finish()
        super().broke(why)

    # -- after the first steps

    def complete(self) -> None:
        """The first steps were seen: answer, and go on for what comes later."""
        if not self.cycles.all_steps and not self.closes():
            return
        self.walked.add(tuple(self.cycles.training))
        onward = self.onward or self.begin_onward()
        onward.cycle(*self.memory())
        if onward.over(self.cycles.seen) or self.is_spent(onward):
            self.finish(self.cycles.seen)
        if onward.leaves(self.cycles.seen, self.walked_readers):
            self.fail_where_it_grows(onward)
            watched_loops.WATCH.leaving = True
            for model in self.fitted:
                model.stop_training = True
        if onward.leaving:
            passes = onward.passes(self.cycles.seen, self.awaited - self.passed_already)
            watched_loops.WATCH.passing = passes

    def begin_onward(self) -> Onward:
        """Answer for the first steps; whatever becomes of the rest of the run, that is final."""
        if not self.cycles.all_steps:
            self.finish()
        until, is_slow = self.request.get("until"), self.is_slow
        self.first = self.answer()
        self.early = set(self.shapes)
        if until == 0:
            # It is held against a run that reported its first steps alone.
            self.channel.end({"run": self.first})
        self.first.update({"awaits": self.awaits, "unsaved": self.unsaved})
        self.channel.say({"run": {**self.first, "goes_on": True}})
        onward = self.onward = Onward(self.work, until, self.request.get("way"))
        self.answered_at = time.process_time()
        if is_slow:
            self.finish(self.cycles.seen)
        self.goes_on(onward)
        threading.Thread(target=self.watch_time, args=(OwnTime(),), daemon=True).start()
        return onward

    def fail_where_it_grows(self, onward: Onward) -> None:
        """End without an answer where each of the last steps held more than the one before."""
        growth, steps = onward.growth, self.cycles.seen
        if growth:
            self.channel.fail("unsupported", (
                f"Unsupported: {GROWS} {steps}, by {growth / 2**20:.2f} MiB a step: how much it "
                "takes depends on how long it runs"
            ))  # fmt: skip

    def loop_left(self) -> None:
        """A loop that trains is left: its readers are where its end would have left them."""
        for item in self.cycles.training:
            reader = self.open_readers.get(item)
            if reader is not None:
                reader.drained()

    def loop_repeats(self, before: int) -> None:
        """A loop that does the same in each turn is ended, and so are the epochs that began in it:
        the readers first asked for a batch since so many had been."""
        for item in list(self.walked_over)[before:]:
            reader = self.open_readers.get(item)
            if reader is not None:
                reader.drained()

    def now(self) -> watched_loops.Now:
        """Return what the run has come to."""
        return watched_loops.Now(self.work(), *self.memory(), len(self.walked_over))

    # -- how far it went

    @property
    def reached(self) -> str:
        """How far the script was followed: to its `end`, through an `epoch` with what follows it,
        or for some `steps`."""
        if self.at_end:
            return "end"
        # What comes after a training is no further epoch of it.
        cut = self.onward is not None and self.onward.is_after and self.onward.spent
        return "epoch" if len(self.walked) > 1 and not cut else "steps"

    @property
    def awaited(self) -> int:
        """The work that may be done for later epochs, because an evaluation may come in one."""
        if self.unread:
            return AWAITED
        return PASSED if watched_loops.WATCH.evaluates and not self.evaluations else 0

    @property
    def is_whole(self) -> bool:
        """Whether the script came to its end and no epoch of it was cut."""
        return self.at_end and not (self.onward is not None and self.onward.way)

    @property
    def unsaved(self) -> bool:
        """Whether something may be saved that was not reached."""
        return watched_loops.WATCH.saves and not self.saved and not self.is_whole

    @property
    def awaits(self) -> int | None:
        """The samples of a batch of an evaluation that may come and was not reached, 0 where
        nothing tells them; None where there is nothing to come."""
        if self.is_whole:
            return None
        sizes = [batch_size.size_of(shape) for shape in self.unread]
        return max(sizes) if sizes else None if not self.awaited else 0

    # -- hooks

    def _fits(self) -> None:
        """Note what trains by `paddle.Model.fit`, which has a word of its own to end its epochs."""
        fit, fitted = self.paddle.Model.fit, self.fitted

        def fits(model: Model, *args: object, **kwargs: object) -> object:
            model.stop_training = False
            fitted.add(model)
            return fit(model, *args, **kwargs)

        self.paddle.Model.fit = fits

    def _saves(self) -> None:
        """Note whether the script saves what it trains."""
        save = self.paddle.save

        def saved(*args: object, **kwargs: object) -> object:
            self.saved = self.saved or bool(self.cycles.all_steps)
            return save(*args, **kwargs)

        setattr(self.paddle, "save", saved)  # noqa: B010

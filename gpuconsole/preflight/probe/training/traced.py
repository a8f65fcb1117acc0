"""A run of the script with its data: each allocation of its first steps is recorded; of what comes
later Paddle's own counter tells the most that is held."""

from __future__ import annotations

import gc
import threading
import time
from typing import TYPE_CHECKING

from . import allocator_events, going_on, hooks, watched_loops
from .run_length import LEAST, rises

if TYPE_CHECKING:
    from types import ModuleType

    from ..documents import Request, Run
    from ..run import Channel
    from .run_length import Onward

LATER_S = 15.0
"""Time after the first steps in which a run goes on."""
LOOKED_S = 0.1
"""How often that is looked at, in seconds."""
WORK_S = 40_000
"""What a second of a processor counts as, in the units of `run_length`."""


class Counter:
    """What Paddle's allocator for the processor counts of tensors, in bytes."""

    def __init__(self, paddle: ModuleType) -> None:
        core = paddle.base.core
        self._now = getattr(core, "host_memory_stat_current_value", None)
        self._peak = getattr(core, "host_memory_stat_peak_value", None)
        self._reset = getattr(core, "host_memory_stat_reset_peak_value", None)

    @property
    def is_there(self) -> bool:
        """Whether this Paddle counts."""
        return None not in (self._now, self._peak, self._reset)

    @property
    def held(self) -> int:
        """Bytes that are held; 0 where nothing counts."""
        return 0 if self._now is None else int(self._now("Allocated", 0))

    @property
    def peak(self) -> int:
        """The most bytes since the count began; 0 where nothing counts."""
        return 0 if self._peak is None else int(self._peak("Allocated", 0))

    def begin_again(self) -> None:
        """Count the most from now on."""
        if self._reset is not None:
            self._reset("Allocated", 0)


class Session(going_on.Session):
    """One run of the script."""

    def __init__(self, paddle: ModuleType, request: Request, channel: Channel) -> None:
        super().__init__(paddle, request, channel)
        self.counter = Counter(paddle)
        self.began_s = time.process_time()
        self.first_peak = 0
        """The most bytes of the first steps."""
        self.later_began = 0.0
        self.held_at: dict[int, int] = {}
        """Bytes that were held when a reader was last asked for a batch."""
        self.ending = threading.RLock()
        """Held by what ends the run, for good."""

    def work(self) -> int:
        """Return how much was done since the run began, by the time of the processor."""
        return int(WORK_S * (time.process_time() - self.began_s))

    def memory(self) -> tuple[int, int]:
        """Return the most bytes that were held until now, and those that are."""
        return max(self.first_peak, self.counter.peak), self.counter.held

    def answer(self) -> Run:
        """Return what was recorded of the first steps."""
        self.name_blocks()
        waiting = {reader: self.waiting_of(reader) for reader in self.readers}
        recorded = allocator_events.blocks(self.allocations, waiting)
        # Nothing of the recording is left to be collected; what the script leaves is.
        gc.enable()
        blocks = allocator_events.as_json(recorded)
        return {**blocks, **self.facts(), "reached": self.reached}

    def goes_on(self, onward: Onward) -> None:
        """The first steps are answered, and the run goes on: another peak is counted."""
        self.later_began = time.monotonic()
        self.first_peak = self.counter.peak
        self.counter.begin_again()
        if not self.counter.is_there:
            self.finish(self.cycles.seen)

    def watch_time(self, passed: going_on.OwnTime) -> None:
        """End the run once its time is over, or its work is done."""
        most_s, pause = self.request.get("later_s", LATER_S), threading.Event()
        while passed.all_s < most_s and not (self.onward is not None and self.onward.spent):
            # `time.sleep` is shortened for scripts.
            pause.wait(LOOKED_S)
        self.finish(self.cycles.seen)

    def is_spent(self, onward: Onward) -> bool:
        """Tell whether the run may not go on."""
        return onward.spent

    def keeps(self, reader: int) -> bool:
        """Tell whether more is held than when this reader was last asked for a batch."""
        held = self.counter.held
        before, self.held_at[reader] = self.held_at.get(reader, held), held
        return self.onward is not None and held - before > LEAST * self.first_peak

    def program_ran(self) -> None:
        """A program was fed, or run for a result."""
        watch = watched_loops.WATCH
        if hooks.PROGRAM in self.cycles.steps:
            watch.steps += 1
            watch.backwards += 1
            watch.latest = watch.made
        super().program_ran()

    def fail_where_it_grows(self, onward: Onward) -> None:
        """End without an answer where each of the last steps held more than the one before, and
        Python's collector finds nothing of it."""
        if not onward.growth:
            return
        before = self.counter.held
        gc.collect()
        if self.counter.held > before - onward.growth:
            super().fail_where_it_grows(onward)

    def finish(self, until: int | None = None) -> None:
        """Send what was recorded, and by how much the peak of what came later is higher."""
        self.ending.acquire()
        onward = self.onward
        if onward is None:
            self.channel.end({"run": self.answer()})
            return
        run: Run = {**self.first, "awaits": self.awaits, "unsaved": self.unsaved}
        if self.later_began:
            run |= self.later(onward, until or self.cycles.seen + 1)
        self.channel.end({"run": run})

    def later(self, onward: Onward, until: int) -> Run:
        """Return what the run reports of what came after the first steps, until a cycle."""
        self.fail_where_it_grows(onward)
        rise = self.counter.peak - self.first_peak
        run: Run = {
            "reached": self.reached,
            "by_itself": self.by_itself,
            "rise": rise,
            "later_s": time.monotonic() - self.later_began,
        }
        if onward.until is not None or rises(self.first_peak + rise, self.first_peak):
            run |= {"followed": until, "way": onward.way}
        return run

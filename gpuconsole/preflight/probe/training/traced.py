"""A run of the script with its data: each allocation of its first steps is recorded; of what comes
later Paddle's own counter tells the most that is held."""

from __future__ import annotations

import gc
import os
import threading
import time
from typing import TYPE_CHECKING

from ..notes import LATER_MEMORY, UNENDING
from ..runs import budget
from . import allocator_events, going_on, hooks, watched_loops
from .run_length import LEAST, STEP, rises

if TYPE_CHECKING:
    from types import ModuleType

    from ..documents import Request, Run
    from ..run import Channel
    from .run_length import Onward

LOOKED_S = 0.1
"""How often that is looked at, in seconds."""
WORK_S = 40_000
"""What a second of a processor counts as, in the units of `run_length`."""
TURN = 1000
"""What a batch, or a network that is run, counts as in a loop that may repeat itself."""

# A script may replace them.
_processor_s, _clock_s, _pause = time.process_time, time.monotonic, threading.Event


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
        self.began_s = _processor_s()
        self.first_cycle = 0
        """The work that was done when the first cycle had ended."""
        self.first_peak = 0
        """The most bytes of the first steps."""
        self.later_peaks = [0, 0]
        """The most bytes after them: of training, and of anything else."""
        self.other = False
        """Whether the script does something else than train."""
        self.later_began = 0.0
        self.held_at: dict[int, int] = {}
        """Bytes that were held when a reader was last asked for a batch."""
        self.kept_of: dict[int, int] = {}
        """Bytes that an evaluation keeps of each batch, by its reader."""
        self.broken = False
        """Whether the script broke off after the first steps."""
        self.ending = threading.RLock()
        """Held by what ends the run, for good."""

    def work(self) -> int:
        """Return how much was done since the run began, by the time of the processor."""
        return int(WORK_S * (_processor_s() - self.began_s))

    def memory(self) -> tuple[int, int]:
        """Return the most bytes that were held until now, and those that are."""
        return max(self.first_peak, *self.later_peaks, self.counter.peak), self.counter.held

    def now(self) -> watched_loops.Now:
        """Return what the run has come to: loops that run no network are never ended early, and
        none is during the first steps."""
        if self.onward is None:
            return watched_loops.Now()
        work = TURN * (self.cycles.calls + self.cycles.fetches)
        return watched_loops.Now(work, *self.memory(), len(self.walked_over))

    def answer(self) -> Run:
        """Return what was recorded of the first steps."""
        self.name_blocks()
        waiting = {reader: self.waiting_of(reader) for reader in self.readers}
        collects = gc.isenabled()
        recorded = allocator_events.blocks(self.allocations, waiting)
        if collects:
            # Nothing of the recording is left to be collected; what the script leaves is.
            gc.enable()
        blocks = allocator_events.as_json(recorded)
        return {**blocks, **self.facts(), "reached": self.reached}

    # -- after the first steps

    @property
    def is_slow(self) -> bool:
        """Whether a step takes so much that none is gone through after the first ones."""
        return self.work() - self.first_cycle > STEP * max(1, self.cycles.seen - 1)

    def closed_if(self, ended: bool) -> None:
        """A cycle may have ended; what a script prepares before its steps is none of their work."""
        if ended and not self.first_cycle:
            self.first_cycle = self.work()
        super().closed_if(ended)

    def goes_on(self, onward: Onward) -> None:
        """The first steps are answered, and the run goes on: another peak is counted."""
        self.later_began = _clock_s()
        self.first_peak = self.counter.peak
        self.counter.begin_again()
        if not self.counter.is_there:
            self.finish(self.cycles.seen)

    def watch_time(self, passed: going_on.OwnTime) -> None:
        """End the run once its time is over, or its work is done."""
        try:
            most_s, pause = self.request.get("later_s", budget.LATER_S), _pause()
            while passed.all_s < most_s and not (self.onward and self.is_spent(self.onward)):
                pause.wait(LOOKED_S)
            self.finish()
        except BaseException:
            # The first steps are answered.
            os._exit(0)

    def is_spent(self, onward: Onward) -> bool:
        """Tell whether the run may not go on."""
        return onward.spent

    def asked(self, reader: int) -> bool:
        """A reader is asked for a batch: one that trains, or another."""
        if self.onward is not None:
            self.does(reader not in self.cycles.training)
        held = self.counter.held
        before = self.held_at.get(reader)
        self.held_at[reader] = held
        grown = 0 if before is None else held - before
        self.kept_of[reader] = grown if grown > LEAST * self.first_peak else 0
        return super().asked(reader)

    def left(self, reader: int) -> None:
        """A reader's epoch has ended."""
        self.held_at.pop(reader, None)
        self.kept_of.pop(reader, None)
        super().left(reader)

    def does(self, other: bool) -> None:
        """The script trains from now on, or does something else: each has a peak of its own."""
        if other != self.other:
            self.later_peaks[self.other] = max(self.later_peaks[self.other], self.counter.peak)
            self.counter.begin_again()
            self.other = other

    def keeps(self, reader: int) -> bool:
        """Tell whether more is held than when this reader was last asked for a batch."""
        return self.onward is not None and self.kept_of.get(reader, 0) > 0

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
        if gc.isenabled():
            gc.collect()
        if self.counter.held > before - onward.growth:
            super().fail_where_it_grows(onward)

    # -- its end

    def broke(self, why: str) -> None:
        """The script broke off: what was seen before may be enough."""
        if self.onward is not None:
            self.broken = True
            if why == hooks.NO_MEMORY or hooks.EXHAUSTED in why:
                self.channel.fail("memory", LATER_MEMORY)
            self.first["notes"].append(hooks.BROKEN.format(self.cycles.seen, why))
        super().broke(why)

    def finish(self, until: int | None = None) -> None:
        """Send what was recorded, and the peaks of what came later."""
        self.ending.acquire()  # for good: the process ends with it
        onward = self.onward
        if onward is None:
            self.channel.end({"run": self.answer()})
            return
        run: Run = {**self.first, "awaits": self.awaits, "unsaved": self.unsaved}
        if self.later_began:
            run.update(self.later(onward, until or self.cycles.seen + 1))
        self.channel.end({"run": run})

    def later(self, onward: Onward, until: int) -> Run:
        """Return what the run reports of what came after the first steps, until a cycle."""
        self.fail_where_it_grows(onward)
        train, other = self.later_peaks
        if self.other:
            other = max(other, self.counter.peak + self.left_out())
        else:
            train = max(train, self.counter.peak)
        run: Run = {
            "reached": "steps" if self.broken else self.reached,
            "by_itself": self.by_itself,
            "peaks": [self.first_peak, train, other],
            "later_s": _clock_s() - self.later_began,
            "own_sizes": sorted({reader["own"] or 0 for reader in list(self.readers.values())}),
        }
        higher = rises(max(train, other), self.first_peak)
        if onward.until is not None or higher or other or self.saved or onward.trainings > 1:
            run.update({"followed": until, "way": onward.way})
        return run

    def left_out(self) -> int:
        """Return the bytes that evaluations would keep of the batches that were not reached."""
        total = 0
        for reader, size in list(self.kept_of.items()):
            epoch, batches = self.cycles.readers.get(reader), self.batches_of(reader)
            if not size or epoch is None or reader in self.cycles.training:
                continue
            if batches is None:
                self.channel.fail("unsupported", UNENDING.format(size / 2**20))
                continue
            total += size * max(0, batches - epoch.batches)
        return total

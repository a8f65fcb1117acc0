"""A run of the script under the probe: cycles, readers and kinds, recorded in the ledger.

What a training step is, when a cycle ends and which tensors are what is the same for all measured
tiers (`hooks.Session`); only the recorder is another.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

from ...probe.notes import GROWS
from ...probe.runs import linearity
from ...probe.training import batch_size, collation, hooks, loaders, watched_loops
from ..ledger import Block, Ledger
from ..state import REFUSED, STATE, Unsupported
from . import quasi_newton
from .answers import MOST_PLACES, chosen
from .copied_batches import CopiedTensors
from .kept import Keeping
from .run_length import AWAITED, EPOCHS, LONG, PASSED, STEP, Onward, rises

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from paddle import Model
    from paddle.io import DataLoader
    from paddle.optimizer import Optimizer

    from ...probe.documents import Request, Run
    from ...probe.run import Channel

SOON_S, LAST_S = 60.0, 90.0
"""When a run is to end after its answer, at the next operator, and when it ends in any case, of the
time that it takes itself: far beyond what its steps take anywhere."""
LONGEST_S = 150.0
"""When it ends in any case on a machine that does much else."""
LOOKED_S = 1.0
"""How often that is looked at."""
MOST_S = 40.0
"""Processor time after the answer in which a run goes on: scripts that prepare data for long do
little that is counted."""
BATCH = 1000
"""Work of a batch that is asked for: samples are made in code that nothing here counts."""
SAMPLED = 25
"""Work of a run that so much work for samples counts as, where epochs are passed."""
USED = 128
"""Used batches of bare arrays that Python's collector lets come, at most: Paddle's reader leaves
each in a cycle of five objects, and it looks for such after 700 (Paddle 3.3.1: 127 measured)."""
FURTHER = 1.25
"""How much more work was done where a run is held against another again."""
CHECKED = 500
"""Operators after which it is checked that a run may go on."""
COUNTED = "gpuconsole_used"
"""What a loader has once its used batches were counted."""
SERIAL = "gpuconsole_serial"
"""What an optimizer has for its number."""
WAITED = "/proc/self/schedstat"
"""How long the process ran and waited for a processor, in nanoseconds, as Linux counts it for the
thread that runs the script."""
UNFOLLOWED = "What comes after its step {} was not followed: {}."


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


def _leave() -> None:
    os._exit(0)


class Recorder:
    """Puts what the session notes into the ledger."""

    def __init__(self, _: object = None) -> None:
        self.count = 0
        self.readers: dict[int, Block] = {}

    def start(self) -> None:
        """Begin: nothing to do, events are recorded from the import on."""

    def mark(self, what: str, key: int = 0) -> int:
        """Note a moment and return its number."""
        self.count += 1
        ledger = STATE.ledger
        if what == "cycle":
            ledger.cycle()
        elif what in ("fetch", "fetched"):
            ledger.fetching(key if what == "fetch" else 0)
        elif what == "open":
            self.readers[key] = Block(ledger, 0, "reader")
            ledger.kinds[self.readers[key].index] = "waiting"
        elif what == "close":
            self.readers.pop(key, None)
        return self.count

    def tag(self, addresses: Sequence[int], kind: str) -> None:
        """Say of what kind the blocks at some addresses are."""
        STATE.ledger.tag([address - 1 for address in addresses if address], kind)


def most(run: Run) -> int:
    """Return the most bytes of a run that are alive at once, kernels' own only on a CPU."""
    sizes, inside = list(run["sizes"]), () if STATE.backend == "cpu" else run["inside"]
    for block in inside:
        sizes[block] = 0
    return int(linearity.peak(run, sizes))


class Session(hooks.Session):
    """One run of the script."""

    sparing = True
    compared = 0
    """The work after which the run was last held against another that it is to be like."""
    past_half = False
    """Whether an epoch that trains gave more batches than it has of twice the samples: with those
    it ends sooner."""

    def __init__(self, paddle: ModuleType, request: Request, channel: Channel) -> None:
        super().__init__(paddle, request, channel)
        self.record = Recorder()
        self.keeping = Keeping(STATE.ledger, self.work, self.refuse)
        self.keeping.lengthened.install()
        self.onward: Onward | None = None
        self.first: Run = {}
        """The answer of the first steps."""
        self.fetched: set[bool] = set()
        """Whether batches were fetched whole."""
        self.drawn = collation.Drawn()
        self.asked_for = 0
        """Batches that were asked for."""
        self.sampled = [0]
        """Work for the samples of all loaders."""
        self.late = False
        """Whether the time is over in which a run may go on."""
        self.known: set[int] = set()
        """Optimizers that have stepped, counted as they were made from 1."""
        self.answered_at = 0.0
        self.walked: set[tuple[int, ...]] = set()
        """Readers that were trained on, an epoch each."""
        self.early: set[int] = set()
        """Readers that gave batches in the first steps."""
        self.evaluations = 0
        """Networks that were run to evaluate them, once something was trained."""
        self.used = 0
        """Used batches that are counted as left to Python's collector."""
        self.used_blocks: list[Block] = []
        """Their memory, for each loader that leaves such."""
        self.used_most = 0
        """Bytes of the largest of these batches."""
        self.used_seen = 0
        """How many there were."""
        self.walked_over: dict[int, None] = {}
        """Readers, in the order in which they were first asked for a batch."""
        self.unasked: dict[int, Block] = {}
        """The first batch of each reader that was asked for none, beside those that wait."""
        self.first_batches: dict[int, int] = {}
        """The blocks of these."""
        self.saved = False
        """Whether anything was saved once something was trained."""
        self.at_end = False
        """Whether the script came to its end."""
        self.by_itself = False
        """Whether it came to its end, or broke off: the run was not cut short."""
        self.fitted: weakref.WeakSet[Model] = weakref.WeakSet()
        """What trains by `paddle.Model.fit`."""

    def install(self) -> None:
        """Hook Paddle and begin to record."""
        quasi_newton.install(self.paddle)
        super().install()
        self._fits()
        self._saves()
        watched_loops.ASSERTIONS.given = lambda: STATE.made_up
        watch = watched_loops.WATCH
        watch.on_left, watch.on_repeated, watch.now = self.loop_left, self.loop_repeats, self.now

    def work(self) -> int:
        """Return how much was done since the run began."""
        return len(STATE.ledger.events) + STATE.ledger.spared + BATCH * self.asked_for

    def fetching(self) -> loaders.Fetching:
        """Return what decides whether the batches of a loader are fetched whole."""
        # Not known before this process has divided.
        self.drawn.given = self.request.get("drawn") or []
        whole = self.request.get("whole")
        templates = collation.Templates(CopiedTensors())
        return loaders.Fetching(whole, self.fetched, self.drawn, self.sampled, templates)

    def asked(self, reader: int) -> bool:
        """A reader is asked for a batch; an epoch that trains ends once its peak rises no more,
        one that evaluates after a few batches unless it keeps what it makes of each."""
        self.asked_for += 1
        self.walked_over.setdefault(reader)
        self.unasked.pop(reader, None)
        self.keeping.asked(reader)
        goes_on = super().asked(reader)
        epoch = self.cycles.readers.get(reader)
        if not goes_on:
            return self.keeping.goes_on(reader, self.batches_of(reader))
        if self.onward is None or epoch is None or reader not in self.cycles.training:
            return goes_on
        return goes_on and not self.onward.cuts(epoch.batches - 1, self.cycles.seen)

    def batch(self, reader: int, batch: object) -> object:
        """A loader gave a batch: note whether it would have had it of twice as many samples."""
        epoch, batches = self.cycles.readers.get(reader), self.batches_of(reader) or 0
        if epoch is not None and reader in self.cycles.training and batches > 1:
            self.past_half = self.past_half or epoch.batches > (batches + 1) // 2
        return super().batch(reader, batch)

    def begun(self, reader: int, ready: int) -> None:
        """A reader is made: where its epoch is as short as what it holds ready, the first batch is
        held beside those that wait for the next ones."""
        if (self.batches_of(reader) or ready + 1) > ready:
            return
        self.unasked[reader] = first = Block(STATE.ledger, 0, "first batch")
        self.first_batches[reader] = first.index
        STATE.ledger.tag([first.index], "inputs")

    def batches_of(self, reader: int) -> int | None:
        """Return how many batches a reader has; None where that is unknown."""
        return self.readers[reader]["batches"] if reader in self.readers else None

    def refuse(self, words: str) -> None:
        """End without an answer: what comes later takes back that of the first steps."""
        self.channel.fail("unsupported", words)

    def left(self, reader: int) -> None:
        """A reader's epoch has ended."""
        self.keeping.closed(reader)
        super().left(reader)

    def has_no_batches(self) -> None:
        """No batches come any more: what was seen before is an answer."""
        if self.onward is not None:
            self.finish(self.cycles.seen)
        super().has_no_batches()

    def leaves_used(
        self, loader: DataLoader, batch: object, batches: int | None, ready: int
    ) -> None:
        """Count what the first epochs of a loader leave to Python's collector, but for the last
        used batch, which stays by itself. Later ones leave as much, up to a bound."""
        self.used_seen += 1
        size = sum(hooks.nbytes(tensor) for tensor in hooks.tensors(batch))
        self.used_most = max(self.used_most, size)
        if loader is None or COUNTED in vars(loader):
            return
        vars(loader)[COUNTED] = True
        # While most of them are used others wait, which are counted by themselves.
        last = max(0, (batches or 0) - ready - 1)
        more = max(0, min(USED - 1 - self.used, (EPOCHS - 1) * (batches or 0) + last - 1))
        self.used += more
        self.used_blocks.append(Block(STATE.ledger, more * size, "used batches"))
        STATE.ledger.tag([self.used_blocks[-1].index], "inputs")

    @property
    def uncollected(self) -> list[int] | None:
        """Bytes of used batches that are counted though the collector may have found them, and of
        those that a longer run may leave to it beside these; None without any."""
        if not self.used_seen:
            return None
        most = min(USED, self.used_seen) if self.is_whole else USED
        counted = sum(block.nbytes for block in self.used_blocks)
        return [counted, max(0, most - 1 - self.used) * self.used_most]

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
        self.keeping.stepped()
        watch, serial = watched_loops.WATCH, optimizer.__dict__.get(SERIAL, 0)
        if self.onward is not None and serial not in self.known and self.onward.anew():
            watch.leaving = False
        self.known.add(serial)
        super().step_begins(optimizer)
        watch.steps += 1
        watch.latest = serial

    def program_ran(self) -> None:
        """A program was run: it trains where it updates something, else it is evaluated."""
        watch, steps = watched_loops.WATCH, self.cycles.steps
        if STATE.ran is None or not STATE.ran.trains:
            if self.cycles.all_steps:
                self.evaluations += 1
            self.cycles.called(True)
            return
        steps.setdefault(hooks.PROGRAM, 0)
        watch.steps += 1
        watch.backwards += 1
        watch.latest = watch.made
        super().program_ran()

    def is_long(self) -> bool:
        """Tell whether the first steps did so much that two with all states are enough."""
        return bool(self.cycles.repeated and self.work() > LONG)

    def complete(self) -> None:
        """The first steps were seen: answer, and go on for what comes later."""
        ledger = STATE.ledger
        if not self.cycles.all_steps and self.keeping.is_open:
            return
        self.walked.add(tuple(self.cycles.training))
        onward = self.onward or self.begin_onward()
        self.compare(ledger)
        onward.cycle(ledger.peak, ledger.live)
        if onward.over(self.cycles.seen) or self.is_spent(onward):
            self.finish(self.cycles.seen)
        if onward.leaves(self.cycles.seen, self.cycles.training):
            self.fail_where_it_grows(onward)
            watched_loops.WATCH.leaving = True
            for model in self.fitted:
                model.stop_training = True
        if onward.leaving:
            most = self.awaited - self.sampled[0] // SAMPLED
            passes = onward.passes(self.cycles.seen, most)
            watched_loops.WATCH.passing = passes

    def compare(self, ledger: Ledger) -> None:
        """Let a run that is to do the same as another be held against that now and then."""
        if self.channel.grows is not None and self.work() > FURTHER * self.compared:
            self.compared = self.work()
            self.channel.say({"run": ledger.as_json()})

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
        ledger = STATE.ledger
        return watched_loops.Now(self.work(), ledger.peak, ledger.live, len(self.walked_over))

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

    def begin_onward(self) -> Onward:
        """Answer for the first steps; whatever becomes of the rest of the run, that is final."""
        if REFUSED or not self.cycles.all_steps:
            self.finish()
        ledger, until = STATE.ledger, self.request.get("until")
        self.first = self.answer()
        self.early = set(self.shapes)
        if until == 0:
            # It is held against a run that reported its first steps alone.
            self.channel.end({"run": self.first})
        self.first.update({"awaits": self.awaits, "unsaved": self.unsaved})
        self.channel.say({"run": self.first})
        onward = self.onward = Onward(self.work, until, self.request.get("way"))
        self.answered_at = time.process_time()
        if self.work() > STEP * self.cycles.seen:
            self.finish(self.cycles.seen)
        # States come with the first step, their full peak with the second.
        for peak, held in ledger.held[1:-1]:
            onward.cycle(peak, held)
        threading.Thread(target=self.watch_time, args=(OwnTime(),), daemon=True).start()
        STATE.pause, STATE.paused = ledger.calls + CHECKED, self.paused
        return onward

    def watch_time(self, passed: OwnTime) -> None:
        """End the run once its time is over: with its next operator, or in any case."""
        while passed.own_s < LAST_S and passed.all_s < LONGEST_S:
            if passed.own_s >= SOON_S and not self.late:
                self.late = True
                STATE.pause = 0
            time.sleep(LOOKED_S)
        _leave()

    def is_spent(self, onward: Onward) -> bool:
        """Tell whether the run may not go on."""
        spent = time.process_time() - self.answered_at > MOST_S
        return self.late or spent or onward.spent

    def paused(self) -> None:
        """Some operators were run since this was last checked."""
        STATE.pause = STATE.ledger.calls + CHECKED
        if self.onward is not None and self.is_spent(self.onward):
            self.finish()

    def ended(self) -> None:
        """The script came to its end by itself."""
        self.at_end = self.by_itself = True
        super().ended()

    @property
    def reached(self) -> str:
        """How far the script was followed: to its `end`, through an `epoch` with what follows it,
        or for some `steps`."""
        if self.at_end:
            return "end"
        return "epoch" if len(self.walked) > 1 else "steps"

    @property
    def evaluated(self) -> bool:
        """Whether something went through batches after the first steps that nothing trains on.
        Where they have a size of their own, they may be the peak of smaller batches that train."""
        trained = {reader for epoch in self.walked for reader in epoch}
        return bool(self.shapes.keys() - self.early - trained - set(self.cycles.training))

    @property
    def has_other_work(self) -> bool:
        """Whether something else than the first steps was done after them, which may be the peak of
        smaller batches: an evaluation, a training of something else, or copies of what is saved,
        which take a host's memory."""
        trainings = 0 if self.onward is None else self.onward.trainings
        return self.evaluated or trainings > 1 or (self.saved and STATE.backend == "cpu")

    def broke(self, why: str) -> None:
        """The script broke off: what was seen before may be enough."""
        self.by_itself = True
        if self.onward is not None:
            self.finish()
        super().broke(why)

    def finish(self, until: int | None = None) -> None:
        """Send what was recorded and leave; `until`: the cycle with which the run ends. Without one
        the script itself has ended, within the cycle after the last."""
        if self.onward is not None:
            self.finish_late(self.onward, until or self.cycles.seen + 1)
        if REFUSED:
            self.channel.fail("unsupported", f"Unsupported: {REFUSED[0]}")
        self.channel.end({"run": self.answer()})

    def finish_late(self, onward: Onward, until: int) -> None:
        """Leave after the answer, or say another where the later part of the run is unlike it."""
        self.fail_where_it_grows(onward)
        for reader in list(self.cycles.readers):
            if self.cycles.cut(reader):
                self.keeping.broken_off(reader, self.batches_of(reader))
        steps = self.cycles.seen
        run = self.answer()
        later = rises(most(run), most(self.first)) or self.has_other_work
        if later or onward.until is not None:
            early = self.first["cycles_seen"]
            run.update({"until": until, "early": early, "way": onward.way})
        else:
            run = {**self.first, "reached": run["reached"], "uncollected": run["uncollected"]}
        run.update({"awaits": self.awaits, "unsaved": self.unsaved})
        if REFUSED:
            run["notes"].append(UNFOLLOWED.format(steps, REFUSED[0]))
        self.channel.end({"run": run})

    def fail_where_it_grows(self, onward: Onward) -> None:
        """End without an answer where each of the last steps held more than the one before."""
        growth, steps = onward.growth, self.cycles.seen
        if growth:
            self.channel.fail("unsupported", (
                f"Unsupported: {GROWS} {steps}, by {growth / 2**20:.2f} MiB a step: how much it "
                "takes depends on how long it runs"
            ))  # fmt: skip

    def answer(self) -> Run:
        """Return what was recorded so far."""
        self.name_blocks()
        ledger = STATE.ledger
        waiting = [place for place, kind in enumerate(ledger.kinds) if kind == "waiting"]
        # Both in the order in which readers begin, which is not that in which they are made.
        for place, key in zip(waiting, self.readers):
            ledger.sizes[place] = self.waiting_of(key)
        for reader, index in self.first_batches.items():
            ledger.sizes[index] = self.waiting_of(reader)
        facts = self.facts()
        return {
            **ledger.as_json(),
            **facts,
            "flags": sorted(self.flags | STATE.flags),
            "widest_conv": STATE.widest_conv,
            "choices": dict(sorted(STATE.choices.items())),
            "counted": STATE.counted,
            "numbers_at": list(STATE.numbers_at)[:MOST_PLACES],
            "notes": [*facts["notes"], *chosen()],
            "drawn": list(self.drawn.found),
            "whole": next(iter(self.fetched)) if len(self.fetched) == 1 else None,
            "reached": self.reached,
            "uncollected": self.uncollected,
            "unfilled": STATE.unfilled,
            "by_itself": self.by_itself,
            "past_half": self.past_half,
        }

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

    def _predictor(self) -> None:
        """Refuse inference engines, which run a saved network outside all that is watched here."""

        def run(*_: object) -> None:
            raise Unsupported("an inference engine computes what it runs")

        self.paddle.inference.Predictor.run = run

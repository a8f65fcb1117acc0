"""A run of the script under the probe: cycles, readers and kinds, recorded in the ledger.

What a training step is, when a cycle ends and which tensors are what is the same for all measured
tiers (`hooks.Session`), and so is how far a run goes on (`going_on.Session`).
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ...probe.runs import linearity
from ...probe.training import collation, going_on, hooks, loaders, watched_loops
from ...probe.training.run_length import EPOCHS, LONG, Onward, rises
from ..ledger import Block, Ledger
from ..state import REFUSED, STATE, Unsupported
from . import quasi_newton
from .answers import MOST_PLACES, chosen
from .collector import Collector
from .copied_batches import CopiedTensors
from .kept import Keeping

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

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
UNFOLLOWED = "What comes after its step {} was not followed: {}."


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


class Session(going_on.Session):
    """One run of the script."""

    sparing = True
    compared = 0
    """The work after which the run was last held against another that it is to be like."""
    past_half = False
    """Whether an epoch that trains had more batches than it has of twice the samples: with those
    it ends sooner."""

    def __init__(self, paddle: ModuleType, request: Request, channel: Channel) -> None:
        super().__init__(paddle, request, channel)
        self.record = Recorder()
        self.collector = Collector()
        self.keeping = Keeping(STATE.ledger, self.work, self.refuse)
        self.keeping.lengthened.install()
        self.fetched: set[bool] = set()
        """Whether batches were fetched whole."""
        self.drawn = collation.Drawn()
        self.asked_for = 0
        """Batches that were asked for."""
        self.sampled = [0]
        """Work for the samples of all loaders."""
        self.late = False
        """Whether the time is over in which a run may go on."""
        self.used = 0
        """Used batches that are counted as left to Python's collector."""
        self.used_blocks: list[Block] = []
        """Their memory, for each loader that leaves such."""
        self.used_most = 0
        """Bytes of the largest of these batches."""
        self.used_seen = 0
        """How many there were."""
        self.never_asked: dict[int, Block] = {}
        """The first batch of each reader that was asked for none, beside those that wait."""
        self.first_batches: dict[int, int] = {}
        """The blocks of these."""

    def install(self) -> None:
        """Hook Paddle and begin to record."""
        quasi_newton.install(self.paddle)
        super().install()
        watched_loops.ASSERTIONS.given = lambda: STATE.made_up
        self.collector.install()

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
        """A reader is asked for a batch: what it was made with is no longer all that it holds."""
        self.asked_for += 1
        self.never_asked.pop(reader, None)
        self.keeping.asked(reader)
        return super().asked(reader)

    def keeps(self, reader: int) -> bool:
        """Tell whether an epoch that evaluates keeps something of each batch, and so goes on."""
        return self.keeping.goes_on(reader, self.batches_of(reader))

    def keeps_batches(self, family: int) -> bool:
        """Tell whether an epoch of a loader keeps something of each batch."""
        return any(
            self.keeping.matters(walk, self.batches_of(reader))
            for reader, walk in self.keeping.walks.items()
            if self.family.get(reader) == family
        )

    def closes(self) -> bool:
        """Tell whether a cycle that ends may be the last of the first steps."""
        return not self.keeping.is_open

    def memory(self) -> tuple[int, int]:
        """Return the most bytes that were held until now, and those that are."""
        return STATE.ledger.peak, STATE.ledger.live

    def goes_on(self, onward: Onward) -> None:
        """The first steps are answered, and the run goes on."""
        # States come with the first step, their full peak with the second.
        for peak, held in STATE.ledger.held[1:-1]:
            onward.cycle(peak, held)
        STATE.pause, STATE.paused = STATE.ledger.calls + CHECKED, self.paused

    @property
    def passed_already(self) -> int:
        """Work for samples, as that for epochs which are passed."""
        return self.sampled[0] // SAMPLED

    def begin_onward(self) -> Onward:
        """Answer for the first steps, unless something in them could not be followed."""
        if REFUSED:
            self.finish()
        return super().begin_onward()

    def complete(self) -> None:
        """The first steps, or one after them, were seen; a run that is to do the same as another
        is held against that."""
        if self.onward is not None:
            self.compare(STATE.ledger)
        super().complete()

    def batch(self, reader: int, batch: object) -> object:
        """A loader returned a batch: note whether it would have had it of twice as many samples."""
        epoch, batches = self.cycles.readers.get(reader), self.batches_of(reader) or 0
        if epoch is not None and reader in self.cycles.training and batches > 1:
            self.past_half = self.past_half or epoch.batches > (batches + 1) // 2
        return super().batch(reader, batch)

    def begun(self, reader: int, ready: int) -> None:
        """A reader is made: where its epoch is as short as what it holds ready, the first batch is
        held beside those that wait for the next ones."""
        if (self.batches_of(reader) or ready + 1) > ready:
            return
        self.never_asked[reader] = first = Block(STATE.ledger, 0, "first batch")
        self.first_batches[reader] = first.index
        STATE.ledger.tag([first.index], "inputs")

    def refuse(self, words: str) -> None:
        """End without an answer: what comes later takes back that of the first steps."""
        self.channel.fail("unsupported", words)

    def left(self, reader: int) -> None:
        """A reader's epoch has ended."""
        self.keeping.closed(reader)
        super().left(reader)

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
        """An optimizer is made: what was born before the one before it may be of no use now."""
        self.collector.training_begins()
        super().optimizer_made(optimizer)

    def step_begins(self, optimizer: Optimizer) -> None:
        """An optimizer steps; one that has not done so trains something else from here on."""
        if self.paddle.in_dynamic_mode():
            self.keeping.stepped()
        self.collector.stepped = True
        super().step_begins(optimizer)

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

    def compare(self, ledger: Ledger) -> None:
        """Let a run that is to do the same as another be held against that now and then."""
        if self.channel.grows is not None and self.work() > FURTHER * self.compared:
            self.compared = self.work()
            self.channel.say({"run": ledger.as_json()})

    def watch_time(self, passed: going_on.OwnTime) -> None:
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

    def finish(self, until: int | None = None) -> None:
        """Send what was recorded and leave; `until`: the cycle with which the run ends. Without one
        the script itself has ended, within the cycle after the last."""
        if self.onward is not None:
            self.finish_late(self.onward, until or self.cycles.seen + 1)
        if REFUSED:
            self.channel.fail("unsupported", f"Unsupported: {REFUSED[0]}")
        run = self.answer()
        self.channel.end({"run": {**run, "in_cycles": self.collector.end()}})

    def finish_late(self, onward: Onward, until: int) -> None:
        """Leave after the answer, or say another where the later part of the run is unlike it."""
        self.fail_where_it_grows(onward)
        for reader in list(self.cycles.readers):
            if self.cycles.cut(reader):
                self.keeping.broken_off(reader, self.batches_of(reader))
        steps = self.cycles.seen
        run = self.answer()
        in_cycles = self.collector.end()
        later = rises(most(run), most(self.first)) or self.has_other_work
        if later or onward.until is not None:
            early = self.first["cycles_seen"]
            run.update({"until": until, "early": early, "way": onward.way})
        else:
            run = {**self.first, "reached": run["reached"], "uncollected": run["uncollected"]}
        run.update({"awaits": self.awaits, "unsaved": self.unsaved, "in_cycles": in_cycles})
        if REFUSED:
            run["notes"].append(UNFOLLOWED.format(steps, REFUSED[0]))
        self.channel.end({"run": run})

    def answer(self) -> Run:
        """Return what was recorded so far."""
        self.name_blocks()
        ledger = STATE.ledger
        waiting = [place for place, kind in enumerate(ledger.kinds) if kind == "waiting"]
        waits = list(zip(waiting, self.waits))
        for place, (reader, _) in waits:
            ledger.sizes[place] = self.waiting_of(reader)
        for reader, index in self.first_batches.items():
            ledger.sizes[index] = self.waiting_of(reader)
        facts = self.facts()
        return {
            **ledger.as_json(),
            **facts,
            "waits": self.waits_of([wait for at, wait in waits if at not in ledger.dropped]),
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

    def _predictor(self) -> None:
        """Refuse inference engines, which run a saved network outside all that is watched here."""

        def run(*_: object) -> None:
            raise Unsupported("an inference engine computes what it runs")

        self.paddle.inference.Predictor.run = run

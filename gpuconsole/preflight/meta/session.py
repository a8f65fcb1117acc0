"""A run of the script under the probe: cycles, readers and kinds, told to the ledger.

What a training step is, when a cycle ends and which tensors are what is the same for all measured
tiers (`probe_hooks.Session`); only the recorder is another.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import probe_collate
import probe_hooks
import probe_line
import probe_loader

from .ledger import Block
from .onward import Onward, rises
from .state import REFUSED, STATE, Unsupported
from .values import MOST_PLACES, chosen

LAST_S = 60.0
"""When a run ends that hangs after its answer: far beyond what its steps take anywhere."""
UNFOLLOWED = "What comes after its step {} was not followed: {}."


class Recorder:
    """Puts what the session notes into the ledger."""

    def __init__(self, _: Any = None) -> None:
        self.count = 0
        self.readers: dict[Any, Any] = {}

    def start(self) -> None:
        """Begin: nothing to do, events are recorded from the import on."""

    def mark(self, what: Any, key: Any = 0) -> Any:
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

    def tag(self, addresses: Any, kind: Any) -> None:
        """Say of what kind the blocks at some addresses are."""
        STATE.ledger.tag([one - 1 for one in addresses if one], kind)


def most(run: Any) -> Any:
    """Return the most bytes of a run that are alive at once, kernels' own only on a CPU."""
    sizes, inside = list(run["sizes"]), () if STATE.backend == "cpu" else run["inside"]
    for block in inside:
        sizes[block] = 0
    return probe_line.peak(run, sizes)


class Session(probe_hooks.Session):  # type: ignore[misc]
    """One run of the script."""

    sparing = True

    def __init__(self, paddle: Any, request: Any, channel: Any) -> None:
        super().__init__(paddle, request, channel)
        self.record = Recorder()
        self.onward: Any = None
        self.first: Any = None
        """The answer of the first steps."""
        self.fetched: set[Any] = set()
        """Whether batches were fetched whole."""
        self.drawn = probe_collate.Drawn()

    def fetching(self) -> Any:
        """Return what decides whether the batches of a loader are fetched whole."""
        # Not known before this process has divided.
        self.drawn.given = self.request.get("drawn") or []
        return probe_loader.Fetching(self.request.get("whole"), self.fetched, self.drawn)

    def asked(self, reader: Any) -> Any:
        """A reader is asked for a batch; an epoch that trains ends early once its peak stands."""
        goes_on = super().asked(reader)
        epoch = self.cycles.readers.get(reader)
        if self.onward is None or epoch is None or reader not in self.cycles.training:
            return goes_on
        return goes_on and not self.onward.cuts(epoch.batches - 1)

    def complete(self) -> None:
        """The first steps were seen: answer, and go on for what comes later."""
        ledger = STATE.ledger
        if self.onward is None:
            if REFUSED or not self.cycles.all_steps:
                self.finish()
            self.first = self.answer()
            if self.request.get("until") == 0:
                # It is held against a run that told of its first steps alone.
                self.channel.end({"run": self.first})
            # Whatever becomes of the rest of the run, this stands.
            self.channel.say({"run": self.first})
            self.onward = Onward(self.request.get("until"))
            # States come with the first step, their full peak with the second.
            for peak, held in ledger.held[1:-1]:
                self.onward.cycle(peak, held)
            last = threading.Timer(LAST_S, os._exit, (0,))
            last.daemon = True
            last.start()
        self.onward.cycle(ledger.peak, ledger.live)
        if self.onward.over(self.cycles.seen, self.cycles.training):
            self.finish(self.cycles.seen)

    def broke(self, why: Any) -> None:
        """The script broke off: what was seen before may be enough."""
        if self.onward is not None:
            self.finish()
        super().broke(why)

    def finish(self, until: Any = None) -> None:
        """Send what was recorded and leave; `until`: the cycle with which the run ends. Without one
        the script itself has ended, within the cycle after the last."""
        if self.onward is not None:
            self.finish_late(until or self.cycles.seen + 1)
        if REFUSED:
            self.channel.fail("unsupported", f"Unsupported: {REFUSED[0]}")
        self.channel.end({"run": self.answer()})

    def finish_late(self, until: Any) -> None:
        """Leave after the answer, or say another where the later part of the run is unlike it."""
        growth, steps = self.onward.growth, self.cycles.seen
        if growth:
            self.channel.fail("unsupported", (
                f"Unsupported: memory still grows at step {steps}, by {growth / 2**20:.2f} MiB a "
                "step: how much it takes depends on how long it runs"
            ))  # fmt: skip
        run = self.answer()
        if rises(most(run), most(self.first)) or self.onward.until is not None:
            run.update(until=until, early=self.first["cycles_seen"])
        elif REFUSED:
            run = self.first
        else:
            os._exit(0)
        if REFUSED:
            run["notes"].append(UNFOLLOWED.format(steps, REFUSED[0]))
        self.channel.end({"run": run})

    def answer(self) -> Any:
        """Return what was recorded so far."""
        self.name_blocks()
        ledger = STATE.ledger
        waiting = [place for place, kind in enumerate(ledger.kinds) if kind == "waiting"]
        for place, key in zip(waiting, sorted(self.waiting)):
            ledger.sizes[place] = self.waiting[key]
        answer = {**ledger.as_json(), **self.facts()}
        answer.update(
            flags=sorted(self.flags | STATE.flags),
            widest_conv=STATE.widest_conv,
            choices=dict(sorted(STATE.choices.items())),
            counted=STATE.counted,
            numbers_at=list(STATE.numbers_at)[:MOST_PLACES],
            notes=[*answer["notes"], *chosen()],
            drawn=list(self.drawn.found),
            whole=next(iter(self.fetched)) if len(self.fetched) == 1 else None,
        )
        return answer

    def _predictor(self) -> None:
        """Refuse inference engines, which run a saved network outside all that is watched here."""

        def run(*_: Any) -> None:
            raise Unsupported("an inference engine computes what it runs")

        self.paddle.inference.Predictor.run = run

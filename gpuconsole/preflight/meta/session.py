"""A run of the script under the probe: cycles, readers and kinds, told to the ledger.

What a training step is, when a cycle ends and which tensors are what is the same for all measured
tiers (`probe_hooks.Session`); only the recorder is another.
"""

from __future__ import annotations

from typing import Any

import probe_hooks

from .ledger import Block
from .state import REFUSED, STATE, Unsupported
from .values import chosen

MOST_PLACES = 8
"""Places that are named at which numbers of unknown data were asked for."""


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


class Session(probe_hooks.Session):  # type: ignore[misc]
    """One run of the script."""

    sparing = True

    def __init__(self, paddle: Any, request: Any, channel: Any) -> None:
        super().__init__(paddle, request, channel)
        self.record = Recorder()

    def finish(self) -> None:
        """Send what was recorded and leave."""
        if REFUSED:
            self.channel.fail("unsupported", f"Unsupported: {REFUSED[0]}")
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
            numbers_at=list(STATE.numbers_at)[:MOST_PLACES],
            notes=[*answer["notes"], *chosen()],
        )
        self.channel.end({"run": answer})

    def _predictor(self) -> None:
        """Refuse inference engines, which run a saved network outside all that is watched here."""

        def run(*_: Any) -> None:
            raise Unsupported("an inference engine computes what it runs")

        self.paddle.inference.Predictor.run = run

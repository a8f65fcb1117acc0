"""Python's collector of cycles, run as often as in a run of the script itself.

What a network holds may be left in a cycle of objects, and is released when Python's collector
comes by: once 700 objects more were made than went. The tier makes many objects where Paddle makes
none, so that the collector would come by sooner than with real tensors. Here the tier runs it, and
counts what is made between its operators alone. Of the oldest objects it collects none unless the
script asks for it: that takes a quarter more objects than Paddle's import leaves.
"""

from __future__ import annotations

import functools
import gc
from typing import TYPE_CHECKING, TypeVar

from ..operators import dispatch
from ..state import STATE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec

    P = ParamSpec("P")
    R = TypeVar("R")

PATIENCE = 3
"""How many times as much may be made before it runs as Python waits for: when it runs hangs on
what only the script's own Python and libraries make, and a run that holds more is the worse one."""
MOST = 1_000_000
"""Objects after which the collector runs in any case: those of the tier take memory too."""


class Collector:
    """Counts the objects that are made outside the tier, and collects."""

    def __init__(self) -> None:
        self.runs = gc.isenabled()
        self.collect, self.count, self.thresholds = gc.collect, gc.get_count, gc.get_threshold
        self.young, self.older, _ = gc.get_count()
        """Objects since the collector ran, and how often it did since it looked at older ones."""
        self.left = 0
        """Python's own count when the tier was left last."""
        self.depth = 0
        self.trainings: list[int] = []
        """Blocks that there were when each training began."""
        self.stepped = False
        """Whether an optimizer has stepped since the last one was made."""

    def install(self) -> None:
        """Take over from Python's collector; a script that stops and starts it stops this one."""
        gc.disable()
        self.left = self.count()[0]
        STATE.run = self.outside(STATE.run)
        vars(dispatch)["call"] = STATE.run
        eager = STATE.core.eager
        for name in ("run_backward", "run_partial_grad"):
            setattr(eager, name, self.outside(getattr(eager, name)))
        functions = vars(gc)
        functions["enable"] = functools.partial(self._turn, on=True)
        functions["disable"] = functools.partial(self._turn, on=False)
        functions["isenabled"] = lambda: self.runs

    def outside(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function of the tier that counts for nothing of the script's own."""

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            if not self.depth:
                self._look()
            self.depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.depth -= 1
                if not self.depth:
                    self.left = self.count()[0]

        return called

    def _turn(self, *, on: bool) -> None:
        self.runs = on

    def _look(self) -> None:
        """Collect if enough was made since the collector ran."""
        objects = self.count()[0]
        # Python counts from 0 again where the script has it collect, and so does this.
        self.young = max(0, self.young + objects - self.left)
        # A script may set them at any time; with 0 Python never collects.
        threshold, rounds, _ = self.thresholds()
        runs = self.runs and threshold > 0
        if (runs and self.young > PATIENCE * threshold) or objects > MOST:
            self.young = 0
            self.older += 1
            looks_further = self.older > rounds
            self.older = 0 if looks_further else self.older
            self._collect(1 if looks_further else 0)

    def training_begins(self) -> None:
        """Note how many blocks there are; optimizers without a step in between train together."""
        if self.stepped or not self.trainings:
            self.trainings.append(len(STATE.ledger.sizes))
        self.stepped = False

    def end(self) -> list[int] | None:
        """Collect all that the run has left; return the bytes at the peak that trainings which were
        over had left, and by how many it would be higher had nothing been collected."""
        self._collect(2)
        left = list(STATE.ledger.left_to_collector(self.trainings))
        return left if any(left) else None

    def _collect(self, generation: int) -> None:
        STATE.ledger.collecting = True
        self.collect(generation)
        STATE.ledger.collecting = False

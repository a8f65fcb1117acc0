"""Run drawn loops in one way: `python -m benchmarks.meta_loops.child real|meta ASKED…`.

What is asked for is `SEED`, `habits:SEED`, or either with `@SAMPLES`, the size of its batches.

Prints a JSON line for each seed: its name and the peak of each step in bytes, above what was held
before, or why it broke off.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.meta_loops import habits, loops
from benchmarks.meta_loops.script import Recorded

HABITS = "habits:"


class Gauge(NamedTuple):
    """How bytes are counted."""

    held: Callable[[], int]
    peak: Callable[[], int]
    reset: Callable[[], None]


def without_data() -> tuple[Any, Gauge]:
    """Return Paddle on tensors without data, and its ledger."""
    from gpuconsole.preflight.meta import hook
    from gpuconsole.preflight.meta.script import answers
    from gpuconsole.preflight.meta.state import STATE
    from gpuconsole.preflight.tiers.probe_request import operators

    hook.install()
    import paddle

    hook.ready(paddle, operators(), "cpu")
    answers.install(str(Path(__file__).parent))
    ledger = STATE.ledger

    def reset() -> None:
        ledger.peak = ledger.live

    return paddle, Gauge(lambda: int(ledger.live), lambda: int(ledger.peak), reset)


def with_data() -> tuple[Any, Gauge]:
    """Return Paddle as it is, and the statistics of its allocator."""
    import paddle

    core: Any = paddle.base.core
    return paddle, Gauge(
        lambda: int(core.host_memory_stat_current_value("Allocated", 0)),
        lambda: int(core.host_memory_stat_peak_value("Allocated", 0)),
        lambda: core.host_memory_stat_reset_peak_value("Allocated", 0),
    )


def measured(asked: str, paddle: Any, gauge: Gauge) -> dict[str, Any]:
    """Return what a loop holds at most in each step; `asked` says which and how."""
    first, _, samples = asked.partition("@")
    habitual, seed = first.startswith(HABITS), int(first.removeprefix(HABITS))
    gc.collect()
    paddle.seed(seed)
    before = gauge.held()
    peaks: list[int] = []
    gauge.reset()

    def step() -> None:
        peaks.append(gauge.peak() - before)
        gauge.reset()

    name, why, draw = "", "", Recorded(seed)
    try:
        run = habits.habitual if habitual else loops.run
        name = run(draw, paddle, step, int(samples or 0))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        why = f"{type(error).__name__}: {str(error).strip()[-300:]}"
    return {
        "asked": asked,
        "seed": seed,
        "name": name,
        "peaks": peaks,
        "why": why,
        "drawn": draw.drawn,
    }


def main() -> None:
    """Run the loops of the seeds that are named, up to one that breaks off."""
    paddle, gauge = without_data() if sys.argv[1] == "meta" else with_data()
    for asked in sys.argv[2:]:
        found = measured(asked, paddle, gauge)
        print(json.dumps(found), flush=True)
        if found["why"]:
            # What a loop that broke off still holds would be freed in the next.
            return


if __name__ == "__main__":
    main()

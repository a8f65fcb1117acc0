"""Preflight beside the event loop, remembered while neither script nor question changes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from gpuconsole import preflight
from gpuconsole.config import LabSettings
from gpuconsole.core.estimate import Report
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Task
from gpuconsole.errors import RefusedError
from gpuconsole.state.codec import dump_task

REMEMBERED = 64
Estimator = Callable[[Task, FleetSnapshot, float], Report]
"""Answers for a task on a fleet with a memory threshold; pure but for reading the script."""


def estimated(task: Task, snapshot: FleetSnapshot, threshold: float) -> Report:
    """Return what the static tier (or the formula, without a script) says."""
    cards = preflight.cards(snapshot, min(threshold, task.memory_threshold))
    return preflight.report(task, cards, backend=task.backend)


class Preflights:
    """Reports by question; the oldest question is forgotten first."""

    def __init__(self, estimate: Estimator = estimated) -> None:
        self._estimate = estimate
        self._known: OrderedDict[tuple[object, ...], Report] = OrderedDict()

    async def report(
        self, task: Task, snapshot: FleetSnapshot, settings: LabSettings, tier: str
    ) -> Report:
        """Return the report of a task. RefusedError for a tier that is not to be had here."""
        if tier not in ("", "static", "formula"):
            raise RefusedError(
                "Tier is not available",
                f"The {tier} tier runs the script in a sandbox, which is not built in here.",
                "Leave out --tier: the static tier answers.",
            )
        key = (dump_task(task), *_stamp(task), snapshot.revision, tier)
        known = self._known.get(key)
        if known is None:
            known = await asyncio.to_thread(
                self._estimate, task, snapshot, settings.memory_threshold
            )
            self._known[key] = known
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return known


def _stamp(task: Task) -> tuple[object, ...]:
    """Return what changes when the script does."""
    try:
        status = Path(task.script).stat()
    except OSError:
        return ("",)
    return (status.st_mtime_ns, status.st_size)

"""Estimates of a session: asked of the fleet as it is, with answers, history and measurements."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from gpuconsole import preflight
from gpuconsole.core.estimate import Report
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.preflight.changes import Change
from gpuconsole.preflight.flags import Options
from gpuconsole.session.history import History
from gpuconsole.session.measurements import Measurements, choose_host
from gpuconsole.session.measuring import Progress
from gpuconsole.session.parts import Parts
from gpuconsole.session.preflights import Preflights
from gpuconsole.session.reading.beside import AsyncReader
from gpuconsole.session.reading.questions import Declaring, Rebatching
from gpuconsole.session.reading.recordings import Mode
from gpuconsole.session.submission import completed
from gpuconsole.state import Assumptions


class Estimating:
    """What a session knows of scripts, and how it comes to know more."""

    def __init__(self, parts: Parts) -> None:
        folder = parts.journal.folder
        self._parts = parts
        self._history = History(parts.journal)
        self._reader = AsyncReader()
        self._measurements = Measurements(folder, self._reader)
        self._preflights = parts.preflights or Preflights(self._reader, folder)
        self._assumptions = Assumptions(folder)

    async def report(
        self,
        task: Task,
        tier: str = "",
        *,
        empty: bool = False,
        fleet: FleetSnapshot | None = None,
    ) -> Report:
        """Estimate a task and hold it against the fleet, or a part of it; with `empty` as if
        nobody used it."""
        return await self._preflights.report(
            task,
            self._snapshot() if fleet is None else fleet,
            self._parts.settings,
            tier,
            empty=empty,
            remembered=self.assumptions(task.script) if task.script else {},
            calibration=self._history.calibration(),
        )

    async def expect(self) -> None:
        """Get ready to read scripts, so that the first answer comes sooner."""
        await asyncio.to_thread(self._reader.warm)

    async def rebatched(self, task: Task, size: int) -> Change:
        """Return how another batch size is put into a task; UsageError for no readable script."""
        return await self._reader.asked(Rebatching(task, size))

    async def options(self, script: Path) -> Options:
        """Return the options that a script declares; of one that cannot be read none."""
        return await self._reader.asked(Declaring(script))

    async def close(self) -> None:
        """End what reads scripts."""
        await asyncio.to_thread(self._reader.close)

    def assume(self, script: str | Path, given: Mapping[str, str]) -> dict[str, str]:
        """Keep answers about a script, an empty value forgets one; returns all for it.

        UsageError for one that cannot be read.
        """
        for name, value in given.items():
            if value.strip():
                preflight.read_assumption(name, value)
        return self._assumptions.remember(script, given)

    def assumptions(self, script: str | Path) -> dict[str, str]:
        """Return the remembered answers for a script: name to value."""
        return self._assumptions.of(script)

    def can_measure(self, task: Task) -> bool:
        """Tell whether a host is there to measure on."""
        if self._parts.simulated:
            return False
        try:
            self._place(task, "")
        except UsageError:
            return False
        return True

    async def measure(
        self, task: Task, mode: Mode, progress: Progress, *, host: str, local: bool
    ) -> None:
        """Measure a script on a host, or with `local` on this machine, and keep the recording.

        RefusedError when the script cannot be measured, UsageError without a host.
        """
        task = completed(task)
        if local:
            await self._measurements.here(task, mode, progress)
            return
        parts = self._parts
        if parts.simulated:
            raise RefusedError(
                "The simulated lab measures nothing",
                "Its hosts run no containers.",
                "`gpuconsole preflight SCRIPT --tier traced --local` measures on this machine.",
            )
        chosen, image = self._place(task, host)
        await self._measurements.on_host(
            task, mode, progress, hosts=parts.hosts, host=chosen, image=image,
            journal=parts.journal.id, pack=parts.pack, limit_mib=parts.settings.code_size_limit,
        )  # fmt: skip

    def _place(self, task: Task, host: str) -> tuple[str, str]:
        image_of = self._parts.default_image
        return choose_host(self._snapshot(), host, lambda one: task.image or image_of(one))

    def _snapshot(self) -> FleetSnapshot:
        return self._parts.hosts.snapshot()

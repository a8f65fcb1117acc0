"""Estimates of a session: asked of the fleet as it is, with answers, history and measurements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from gpuconsole import preflight
from gpuconsole.core.estimate import Measure, MeasuredTier, Report, Trial
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.preflight.changes import Change
from gpuconsole.preflight.flags import Options
from gpuconsole.preflight.ladder import Means, Site, is_settled
from gpuconsole.session.bench import bench_of
from gpuconsole.session.climbing import Climb, Effects, Watching
from gpuconsole.session.history import History
from gpuconsole.session.measurements import Measurements, choose_host
from gpuconsole.session.measuring import Progress
from gpuconsole.session.parts import Parts
from gpuconsole.session.preflights import Preflights
from gpuconsole.session.reading.beside import AsyncReader
from gpuconsole.session.reading.questions import Declaring, Rebatching
from gpuconsole.session.reading.recordings import Mode
from gpuconsole.session.sites import host_sites, joined, local_sites
from gpuconsole.session.submission import completed
from gpuconsole.state import Assumptions
from gpuconsole.state.consent import LocalConsent


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
        self.consent = LocalConsent(folder)
        self._climbing = asyncio.Lock()
        self._climbs: set[Climb] = set()
        self._failed: dict[object, tuple[Trial, ...]] = {}
        """Measured tiers that did not answer, by script and settings."""

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

    async def climb(
        self,
        task: Task,
        ask: Callable[[str], Awaitable[Report]],
        user: Watching,
        *,
        report: Report | None = None,
        insist: bool = False,
        limit_s: float | None = None,
    ) -> Report:
        """Return what is known of a task, after measuring it where that is needed and allowed.

        Args:
            ask: Estimates the task by a tier, or with "" by the best that is known.
            user: Hears how measuring goes on, and is asked where a script runs only with consent.
            report: What is known already, where it was asked for.
            insist: Measure also where the memory is known, or measuring failed before.
            limit_s: Longest time for measuring; None means the lab's.
        """
        begun = time.monotonic()
        known = report or await ask("")
        seconds = 0.0 if report is not None else round(time.monotonic() - begun, 3)
        most = self._parts.settings.measure_limit if limit_s is None else limit_s
        means = await self._means(
            task, known, Means(self._allowed(task), limit_s=most, insist=insist)
        )
        key = (known.estimate.digest, task.args, task.image, task.mounts, task.backend)

        async def measure(tier: MeasuredTier, site: Site, told: Progress) -> None:
            await self.measure(task, tier, told, host=site.host, local=not site.host)

        climb = Climb(Effects(measure, ask, time.monotonic), means)
        if not means.sites:
            return await climb.run(known, user, seconds=seconds)
        self._climbs.add(climb)
        try:
            waits = self._climbing.locked()
            async with self._climbing:
                # What was measured meanwhile may be the answer.
                known = await ask("") if waits else known
                tried = () if insist else self._failed.get(key, ())
                found = await climb.run(known, user, tried=tried, seconds=seconds)
                self._failed[key] = climb.failed(found.trials)
                return found
        finally:
            self._climbs.discard(climb)

    def stop_measuring(self) -> None:
        """Cancel measurements under way; what is known without them is the answer."""
        for climb in self._climbs:
            climb.skip()

    def _allowed(self, task: Task) -> Measure:
        parts = self._parts
        return parts.settings.allowed_measure(task.measure, read_only=parts.read_only)

    async def _means(self, task: Task, report: Report, means: Means) -> Means:
        """Return the means with the places there are, looked for where they are needed."""
        if means.measure == "never" or (is_settled(report) and not means.insist):
            return means
        if self._parts.simulated:
            return replace(means, absent="the simulated lab measures nothing")
        try:
            task = completed(task)
        except UsageError as error:
            return replace(means, absent=error.message.rstrip("."))
        image_of = self._parts.default_image
        hosts, no_host = await host_sites(
            task, self._parts.hosts, self._snapshot(), lambda one: task.image or image_of(one)
        )
        here, not_here = local_sites(consent=self.consent.given)
        if self._parts.settings.measure_on_device and task.backend != "cpu":
            means = replace(means, tiers=(*means.tiers, "device"))
        return replace(means, sites=(*hosts, *here), absent=joined((no_host, not_here)))

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
        if mode == "device" and not host:
            host = await self._idlest(task)
        chosen, image = self._place(task, host)
        if mode == "device":
            there = self._snapshot().host(chosen)
            assert there is not None
            await self._measurements.on_device(
                task, progress, bench=bench_of(parts, parts.hosts), host=there, image=image,
                pack=parts.pack,
            )  # fmt: skip
            return
        await self._measurements.on_host(
            task, mode, progress, hosts=parts.hosts, host=chosen, image=image,
            journal=parts.journal.id, pack=parts.pack, limit_mib=parts.settings.code_size_limit,
        )  # fmt: skip

    async def _idlest(self, task: Task) -> str:
        """Return the host on which a device is taken; UsageError without one."""
        image_of = self._parts.default_image
        found, why = await host_sites(
            task, self._parts.hosts, self._snapshot(), lambda one: task.image or image_of(one)
        )
        if not found:
            raise UsageError("No device to measure on", f"{why}.", "Name a host with --host.")
        return found[0].host

    def _place(self, task: Task, host: str) -> tuple[str, str]:
        image_of = self._parts.default_image
        return choose_host(self._snapshot(), host, lambda one: task.image or image_of(one))

    def _snapshot(self) -> FleetSnapshot:
        return self._parts.hosts.snapshot()

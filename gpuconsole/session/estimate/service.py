"""Estimates of a session: asked of the fleet as it is, with answers, history and measurements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gpuconsole import preflight
from gpuconsole.core.estimate import Estimate, Isolation, Measure, Report, Trial
from gpuconsole.core.fleet import FleetSnapshot, Host
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.script_edits import EditKind
from gpuconsole.core.wording import msg
from gpuconsole.errors import HostBusyError, NotHereError, RefusedError, UsageError
from gpuconsole.preflight.accuracy.calibration import Calibration
from gpuconsole.preflight.option_spellings import Options
from gpuconsole.preflight.suggestion_edits import Change, applied
from gpuconsole.preflight.tiers.ladder import NO_LIMIT_S, Means, Run, Site, is_settled
from gpuconsole.session.context import Context
from gpuconsole.session.estimate.applying import question, steps_open, suggested_steps
from gpuconsole.session.estimate.history import History
from gpuconsole.session.estimate.idle_devices import SpareDevices
from gpuconsole.session.estimate.measurement_run import Progress
from gpuconsole.session.estimate.measurement_sites import (
    host_sites,
    joined,
    local_sites,
    with_image,
)
from gpuconsole.session.estimate.measurement_store import Measurements, Spot, choose_host
from gpuconsole.session.estimate.preflight_runner import Preflights
from gpuconsole.session.estimate.tier_ladder import UNWATCHED, Climb, Effects, Watching
from gpuconsole.session.images.service import with_pin
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.reading.questions import Declaring, Rebatching
from gpuconsole.session.reading.recordings import Mode
from gpuconsole.session.submit.validate import completed
from gpuconsole.state import Assumptions
from gpuconsole.state.files.consent import LocalConsent
from gpuconsole.state.files.images import ImageNotes


class Preflight:
    """What a session knows of scripts, and how it comes to know more."""

    def __init__(self, context: Context, spare: SpareDevices) -> None:
        folder = context.scripts
        self._context = context
        self.spare = spare
        self._history = History(context.journal)
        self._reader = AsyncReader()
        self._measurements = Measurements(folder, self._reader)
        self._preflights = context.preflights or Preflights(self._reader, folder)
        self._assumptions = Assumptions(folder)
        self._notes = ImageNotes(folder)
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
        """Estimate a task and hold it against the fleet, or a part of it; with `empty` as if it
        were unused."""
        return await self._preflights.report(
            task,
            self._fleet() if fleet is None else fleet,
            self._context.settings,
            tier,
            empty=empty,
            remembered=self.assumptions(task.script) if task.script else {},
            calibration=self._history.calibration(),
            images=self._images(task),
        )

    def calibration(self) -> Calibration:
        """Return what was seen of runs and cards, by which estimates are corrected."""
        return self._history.calibration()

    async def expect(self) -> None:
        """Get ready to read scripts, so that the first answer comes sooner."""
        await asyncio.to_thread(self._reader.warm)

    async def rebatched(self, task: Task, size: int) -> Change:
        """Return how another batch size is put into a task; UsageError for no readable script."""
        return await self._reader.asked(Rebatching(task, size))

    async def applied(self, task: Task, kind: EditKind, steps: int = 0) -> Task:
        """Return a task with a change made in its shipped copy.

        `steps` is over how many batches gradients are accumulated; 0 takes what preflight suggests.
        UsageError for no readable script, for a change that the task forbids and where nothing is
        suggested; RefusedError with what to write by hand where its shape leaves doubt.
        """
        if steps_open(kind, steps):
            steps = suggested_steps(await self.report(task))
        asked = question(task, kind, steps, self.assumptions(task.script))
        return applied(task, await self._reader.asked(asked))

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
        self._context.require_writable("Answering")
        for name, value in given.items():
            if value.strip():
                preflight.read_assumption(name, value)
        return self._assumptions.remember(script, given)

    def assumptions(self, script: str | Path) -> dict[str, str]:
        """Return the remembered answers for a script: name to value."""
        return self._assumptions.of(script)

    @property
    def isolation(self) -> str:
        """What keeps a script in that is measured on this machine, as a sentence."""
        # Imported with the first question: most sessions measure nothing here.
        from gpuconsole.remote.isolation.sandbox import Sandbox

        return Sandbox().isolation

    async def climb(
        self,
        task: Task,
        user: Watching = UNWATCHED,
        *,
        ask: Callable[[str], Awaitable[Report]] | None = None,
        report: Report | None = None,
        insist: bool = False,
        limit_s: float | None = None,
    ) -> Report:
        """Return what is known of a task, after measuring it where that is needed and allowed.

        Args:
            user: Hears how measuring goes on, and is asked where a script runs only with consent.
            ask: Estimates the task by a tier, or with "" by the best that is known; `report` if
                None.
            report: What is known already, where it was asked for.
            insist: Measure also where the memory is known, or measuring failed before.
            limit_s: Longest time for measuring; None means the lab's.

        The report tells which tiers were tried and how each ended; what fails is a trial, not an
        error.
        """
        ask = ask or partial(self.report, task)
        begun = time.monotonic()
        first_report = report or await ask("")
        seconds = 0.0 if report is not None else round(time.monotonic() - begun, 3)
        most = self._context.settings.measure_limit if limit_s is None else limit_s
        means = await self._means(
            task, first_report, Means(self._allowed(task), limit_s=most, insist=insist)
        )
        key = _subject(task, first_report)

        async def measure(run: Run, progress: Progress) -> None:
            # Where there is another host, this one need not be waited for.
            site = run.site
            patient = site == _last(means.devices if run.tier == "device" else means.sites)
            await self.measure(
                task, run.tier, progress, host=site.host, local=not site.host, patient=patient,
                agreed=site.isolation, limit_s=run.limit_s,
            )  # fmt: skip

        climb = Climb(Effects(measure, ask, time.monotonic), means)
        if not (means.sites or means.devices):
            return await climb.run(first_report, user, seconds=seconds)
        self._climbs.add(climb)
        try:
            waits = self._climbing.locked()
            async with self._climbing:
                # What was measured meanwhile may be the answer.
                first_report = await ask("") if waits else first_report
                tried = () if insist else self._failed.get(key, ())
                climbed = await climb.run(first_report, user, tried=tried, seconds=seconds)
                self._failed[key] = climb.failed(climbed.trials)
                return climbed
        finally:
            self._climbs.discard(climb)

    def stop_measuring(self) -> None:
        """Cancel measurements under way; what is known without them is the answer."""
        for climb in self._climbs:
            climb.skip()

    def _allowed(self, task: Task) -> Measure:
        context = self._context
        return context.settings.allowed_measure(task.measure, read_only=context.read_only)

    async def _means(self, task: Task, report: Report, means: Means) -> Means:
        """Return the means with the places there are, looked for where they are needed."""
        if means.measure == "never" or (is_settled(report) and not means.insist):
            return means
        if self._context.simulated:
            return replace(means, absent="the simulated lab measures nothing")
        try:
            task = completed(task)
        except UsageError as error:
            return replace(means, absent=error.message.rstrip("."))
        image_of = self._image_of(task)
        hosts, no_host = await host_sites(task, self._context.hosts, self._fleet(), image_of)
        here, not_here = await asyncio.to_thread(local_sites, self.consent.covers)
        if self._context.settings.measure_on_device and task.backend != "cpu":
            spare = await self.spare.find(task, report.estimate)
            devices = await with_image(
                self._context.hosts, list({each.host.name: each.host for each in spare}.values()),
                image_of,
            )  # fmt: skip
            means = replace(means, tiers=(*means.tiers, "device"), devices=devices)
        return replace(means, sites=(*hosts, *here), absent=joined((no_host, not_here)))

    async def measure(
        self,
        task: Task,
        mode: Mode,
        progress: Progress,
        *,
        host: str = "",
        local: bool = False,
        patient: bool = True,
        agreed: Isolation = "bubblewrap",
        limit_s: float = NO_LIMIT_S,
    ) -> None:
        """Measure a script on a host, or with `local` on this machine, and keep the recording.

        `patient` tells whether to wait while the host measures for others, `agreed` what the user
        agreed to that holds the script on this machine; `limit_s` is the longest time that runs
        are planned for. RefusedError when the script cannot be
        measured, HostBusyError where the host measures and is not waited for, UsageError without
        a host.
        """
        self._context.require_writable("Measuring")
        task = with_pin(completed(task), self._notes)
        if local:
            await self._measurements.here(task, mode, progress, agreed, limit_s=limit_s)
            return
        if self._context.simulated:
            raise RefusedError(
                "The simulated lab measures nothing",
                "Its hosts run no containers.",
                "`gpuconsole preflight SCRIPT --tier traced --local` measures on this machine.",
            )
        estimate = (await self.report(task)).estimate if mode == "device" else None
        names = (host,) if host else await self._hosts_for(task, mode, estimate)
        for name in names:
            try:
                waits = patient and name == names[-1]
                spot = await self._spot(task, mode, name, estimate, patient=waits)
                await self._measurements.on_host(
                    completed(task), mode, progress, context=self._context, at=spot, limit_s=limit_s
                )
                return
            except HostBusyError:
                if name == names[-1]:
                    raise

    async def _hosts_for(
        self, task: Task, mode: Mode, estimate: Estimate | None
    ) -> tuple[str, ...]:
        """Return the hosts to try a measurement on if none is named; "" means the first that can
        measure at all."""
        if mode == "device" and estimate is not None:
            spare = await self.spare.find(task, estimate)
            if not spare:
                raise _no_device()
            return tuple({each.host.name: None for each in spare})
        sites, _ = await host_sites(task, self._context.hosts, self._fleet(), self._image_of(task))
        return tuple(site.host for site in sites) or ("",)

    async def _spot(
        self, task: Task, mode: Mode, host: str, estimate: Estimate | None, *, patient: bool
    ) -> Spot:
        """Return where to measure on a host. RefusedError if none of its devices is idle."""
        name, image = choose_host(self._fleet(), host, self._image_of(task))
        spot = Spot(self._host(name), image, patient=patient)
        if mode == "device" and estimate is not None:
            spare = await self.spare.find(task, estimate, name)
            if not spare:
                raise _no_device(name)
            spot = replace(spot, device=spare[0].device)
        return spot

    def _host(self, name: str) -> Host:
        host_ = self._fleet().host(name)
        assert host_ is not None
        return host_

    def _image_of(self, task: Task) -> Callable[[str], str]:
        return lambda host: task.image or self._context.default_image(host)

    def _fleet(self) -> FleetSnapshot:
        """Return the fleet with what people and faults have put aside."""
        return self._context.hosts.snapshot()

    def _images(self, task: Task) -> frozenset[str] | None:
        """Return the images that a task may run in; None where no host is known that has one."""
        if task.image:
            return frozenset({self._notes.resolved(task.image)})
        hosts = [host.name for host in self._fleet().hosts if not host.cluster]
        return frozenset(map(self._context.default_image, hosts)) or None


def _subject(task: Task, report: Report) -> object:
    """Return what decides whether a tier that failed would fail again."""
    return (report.estimate.digest or task.script, task.args, task.edits, task.image, task.mounts,
            task.backend, task.folder, Path.cwd(), tuple(sorted(task.env.items())))  # fmt: skip


def _last(sites: Sequence[Site]) -> Site | None:
    """Return the host that is tried last."""
    return next((site for site in reversed(sites) if site.host), None)


def _no_device(host: str = "") -> NotHereError:
    return NotHereError(
        "No device is idle",
        msg(
            "{value} has no device on which this job would start now and that is empty, not "
            "leased and not wanted by a job that is about to start.",
            value=host or "The lab",
        ),
        "Wait until one is idle, or measure without a device (--tier traced).",
    )

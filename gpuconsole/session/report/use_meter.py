"""Measures use and energy of running attempts while this session dispatches.

Of each attempt four sums are kept for each model on each host, however long it runs; they are
written into the journal each minute and at its end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import field

from gpuconsole.core.devices.device_use import DeviceUse
from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.jobs import Attempt, Job
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import JournalError
from gpuconsole.session.context import Context

WRITE_EVERY_S = 60.0
LONGEST_GAP_S = 90.0
"""Between two samples of a device; a longer time was not measured. A vendor's tool that is slow to
answer is asked once a minute."""
LONGEST_MODEL = 80
_Mark = tuple[str, int, float]
"""An attempt: numbers of those that never started are given again."""

_Holders = dict[tuple[str, str], list[str]]
"""The containers of the attempts that hold a device, by host and UUID; "" before there is one."""


@dataclass(slots=True)
class _Sums:
    """What was measured on the devices of one model of one host."""

    devices: int
    used_s: float = 0.0
    use_known_s: float = 0.0
    energy_j: float = 0.0
    energy_known_s: float = 0.0
    seen_at: float = 0.0
    busy_at: float | None = None
    written: bool = False


@dataclass(slots=True)
class _Run:
    """An attempt that runs."""

    sums: dict[tuple[str, str], _Sums] = field(default_factory=dict)
    """By host and model."""
    sampled: dict[tuple[str, str], float] = field(default_factory=dict)
    """When each device, by host and UUID, was last read."""
    frames: dict[str, float] = field(default_factory=dict)
    """The last frame of each host."""


class UseMeter:
    """Reads the fleet's samples of devices that attempts hold, and adds them up."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._idle_percent = context.settings.triage.limits.idle_utilization
        self._runs: dict[_Mark, _Run] = {}
        self._ended: dict[_Mark, _Run] = {}
        self._written_at = 0.0
        self._epoch: int | None = None

    def look(self, epoch: int) -> None:
        """Take in new samples; called each second by the session that dispatches."""
        if epoch != self._epoch:
            # Another one may have measured meanwhile: what it has written counts.
            self._epoch, self._runs, self._ended = epoch, {}, {}
        active = [job for job in self._context.journal.jobs() if job.state.active]
        hosts = {host.name: host for host in self._context.hosts.snapshot().hosts}
        holders = _holders(active)
        runs: dict[_Mark, _Run] = {}
        for job in active:
            if job.attempt is not None:
                mark = (job.id, job.attempt.number, job.attempt.created_at)
                run = runs[mark] = self._runs.get(mark) or self._begun(job, mark)
                for part in job.attempt.parts:
                    host = hosts.get(part.host)
                    if host is not None and host.state is HostState.UP:
                        self._take(run, part, host, holders)
        self._ended |= {mark: run for mark, run in self._runs.items() if mark not in runs}
        self._runs = runs
        self._write(epoch)

    def close(self) -> None:
        """Write what is not written yet."""
        with contextlib.suppress(JournalError):
            self._save([*self._ended.items(), *self._runs.items()], None)

    def _begun(self, job: Job, mark: _Mark) -> _Run:
        """Return an attempt with what was measured of it before this session."""
        run = _Run()
        for use in self._context.journal.measured_use(job.id):
            if (use.job, use.attempt, use.created_at) == mark:
                run.sums[use.host, use.model] = _Sums(
                    use.devices, use.used_s, use.use_known_s, use.energy_j, use.energy_known_s,
                    use.seen_at, use.busy_at, written=True,
                )  # fmt: skip
        return run

    def _take(self, run: _Run, part: Attempt, host: Host, holders: _Holders) -> None:
        if host.sampled_at is None or run.frames.get(host.name) == host.sampled_at:
            return
        run.frames[host.name] = host.sampled_at
        models: dict[str, list[Device]] = {}
        for device in host.devices:
            if device.uuid in part.device_uuids:
                models.setdefault(clean(device.model, LONGEST_MODEL), []).append(device)
        for model, devices in models.items():
            sums = run.sums.setdefault((host.name, model), _Sums(len(devices)))
            sums.devices = len(devices)
            uses = [
                self._add(run, sums, host, device, holders[host.name, device.uuid])
                for device in devices
            ]
            if None not in uses:
                sums.seen_at = host.sampled_at
            if any(use is not None and use > self._idle_percent for use in uses):
                sums.busy_at = host.sampled_at

    def _add(
        self, run: _Run, sums: _Sums, host: Host, device: Device, containers: list[str]
    ) -> float | None:
        """Add a sample of a device to the sums, and return its use (percent); None where it cannot
        be read, or others than these containers work there."""
        key = host.name, device.uuid
        at = device.sampled_at if device.sampled_at is not None else host.sampled_at
        assert at is not None
        passed_s = at - run.sampled.get(key, at)
        run.sampled[key] = at
        strangers = any(
            not process.container_id or process.container_id not in containers
            for process in device.processes
        )
        if device.utilization is None or strangers:
            return None
        use = min(max(device.utilization, 0.0), 100.0)
        if 0.0 < passed_s <= LONGEST_GAP_S:
            # What two jobs on one device use is split evenly.
            time_s = passed_s / len(containers)
            sums.used_s += use / 100.0 * time_s
            sums.use_known_s += time_s
            if device.power_w is not None and device.power_w >= 0.0:
                sums.energy_j += device.power_w * time_s
                sums.energy_known_s += time_s
            sums.written = False
        return use

    def _write(self, epoch: int) -> None:
        now = self._context.clock.now()
        due = not 0.0 <= now - self._written_at < WRITE_EVERY_S
        if not due and not self._ended:
            return
        self._save([*self._ended.items(), *(self._runs.items() if due else ())], epoch)
        self._ended = {}
        if due:
            self._written_at = now

    def _save(self, runs: Sequence[tuple[_Mark, _Run]], epoch: int | None) -> None:
        unwritten = [
            (mark, key, sums)
            for mark, run in runs
            for key, sums in run.sums.items()
            if not sums.written
        ]
        if not unwritten:
            return
        self._context.journal.measure_use([_use(*entry) for entry in unwritten], epoch=epoch)
        for _, _, sums in unwritten:
            sums.written = True


def _holders(active: Sequence[Job]) -> _Holders:
    holders: _Holders = {}
    for job in active:
        for part in job.attempt.parts if job.attempt is not None else ():
            for uuid in part.device_uuids:
                holders.setdefault((part.host, uuid), []).append(part.container_id)
    return holders


def _use(mark: _Mark, key: tuple[str, str], sums: _Sums) -> DeviceUse:
    job, attempt, created_at = mark
    return DeviceUse(
        job, attempt, created_at, *key, sums.devices, sums.used_s, sums.use_known_s,
        sums.energy_j, sums.energy_known_s, sums.seen_at, sums.busy_at,
    )  # fmt: skip

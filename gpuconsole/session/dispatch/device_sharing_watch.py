"""Watches devices that two jobs share: when it does not go well, the later one has to make room.

The driver says how full a device is, in every frame. How long the first job's steps take is read
from its reporter now and then: beside another, against alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import Device, FleetSnapshot, Host
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.remote.injected import REPORTS
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.observation import SURE_STEPS, Reported, read_reports
from gpuconsole.session.dispatch.device_sharing import Pair, Seat, pairs, willing

MOST_MEMORY = 0.92
"""Share of a device's memory above which one of two jobs has to go."""
MOST_STRETCH = 1.15
"""The first job's steps may take so many times as long as alone."""
READ_EVERY_S = 15.0
"""How often step times are read; the reporter writes them every ten seconds."""
SURE_READINGS = 2
"""So many in a row have to be too slow: another's first steps are not like its later ones."""
SHARES = "It shares its device with "
"""How every sentence about a shared device begins."""


@dataclass(slots=True)
class Pace:
    """How long an attempt's steps take, alone and beside another."""

    attempt: int
    solo_s: float | None = None
    together_s: float | None = None
    slow: int = 0
    """Readings in a row that were too slow."""
    read_at: float = float("-inf")
    _steps: int | None = None
    """Steps it had made when it was first read since the other came or went; None before that."""
    _other: str = ""
    _pure: bool = True
    """Whether it has been alone all the time."""

    def note(self, said: Reported, other: str) -> None:
        """Take in a reading; `other` is the job beside it, "" when it is alone."""
        if other != self._other:
            self._other, self._steps, self._pure = other, None, False
            self.together_s, self.slow = None, 0
        if said.recent_s is None:
            return
        if self._pure:
            self.solo_s = said.step_s
        elif self._steps is None:
            self._steps = said.steps
        elif said.steps >= self._steps + SURE_STEPS:
            # Only now all the latest steps were made since then.
            self._settled(said.recent_s)

    def _settled(self, recent_s: float) -> None:
        if not self._other:
            self.solo_s = recent_s
            return
        self.together_s = recent_s
        self.slow = self.slow + 1 if (self.stretch or 0.0) > MOST_STRETCH else 0

    @property
    def stretch(self) -> float | None:
        """How many times as long as alone a step takes beside the other; None when not known."""
        if not self.solo_s or self.together_s is None:
            return None
        return self.together_s / self.solo_s


class Crowding:
    """Looks after shared devices while this console dispatches."""

    def __init__(
        self, context: Context, others: Callable[[str], Mapping[str, Sequence[Lease]]]
    ) -> None:
        """`others` returns the leases of journals other than the one named, by host."""
        self._context = context
        self._others = others
        self._paces: dict[str, Pace] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._pairs: tuple[Pair, ...] = ()
        self._made_for: tuple[object, object] = (None, None)
        self._looked: dict[str, Host] = {}

    async def close(self) -> None:
        """Stop reading."""
        reading, self._reading = self._reading, {}
        await cancel_all(reading.values())

    def look(self, jobs: Sequence[Job]) -> list[tuple[str, str]]:
        """Return the jobs that have to make room now, and why."""
        by_id = {job.id: job for job in jobs if job.state.active}
        if not self._context.settings.sharing and not any(
            job.attempt is not None and job.attempt.shared for job in by_id.values()
        ):
            # No job was admitted beside another while the lab allowed it, and none will be.
            self._made_for, self._pairs = (None, None), ()
            return []
        self._pair(jobs)
        self._read(by_id)
        snapshot = self._context.hosts.snapshot()
        causes = []
        for pair in self._pairs:
            later = by_id.get(pair.later.job)
            if later is None or later.attempt is None or later.attempt.ended_by:
                continue
            cause = self._full(pair, snapshot) or self._slow(pair)
            if cause:
                causes.append((later.id, cause))
        return causes

    def with_details(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the running jobs with a new detail."""
        beside = {
            seat.job: self._sentence(pair, seat)
            for pair in self._pairs
            for seat in (pair.first, pair.later)
            if seat.own
        }
        changed = []
        for job in jobs:
            if job.state is JobState.RUNNING and (not job.detail or job.detail.startswith(SHARES)):
                detail = beside.get(job.id, "")
                if detail != job.detail:
                    changed.append(replace(job, detail=detail))
        return changed

    def _pair(self, jobs: Sequence[Job]) -> None:
        others = self._others(self._context.journal.id)
        if self._made_for[0] is not jobs or self._made_for[1] != others:
            self._made_for = (jobs, others)
            self._pairs = pairs(jobs, others)
            self._looked.clear()

    def _full(self, pair: Pair, snapshot: FleetSnapshot) -> str:
        host = snapshot.host(pair.host)
        if host is None or self._looked.get(pair.uuid) is host:
            return ""
        self._looked[pair.uuid] = host
        device: Device | None = next((d for d in host.devices if d.uuid == pair.uuid), None)
        total = None if device is None else device.memory_total_mib
        used = None if device is None else device.memory_used_mib
        if total is None or used is None or used <= MOST_MEMORY * total:
            return ""
        return (
            f"It made room for {_who(pair.first)}, with which it shared a device:"
            f" {format_mib(used)} of {format_mib(total)} were in use, above {MOST_MEMORY:.0%}."
        )

    def _slow(self, pair: Pair) -> str:
        pace = self._paces.get(pair.first.job)
        if pace is None or pace.slow < SURE_READINGS:
            return ""
        return (
            f"It made room for {_who(pair.first)}, with which it shared a device: a step of that"
            f" took {pace.stretch or 0.0:.2f} times as long as alone, above {MOST_STRETCH:.2f}."
        )

    def _sentence(self, pair: Pair, seat: Seat) -> str:
        other = pair.beside(seat.job)
        measured = self._measured(pair, "its" if seat is pair.first else "the other's")
        return msg(f"{SHARES}{{name}} ({{job}}){measured}", name=other.name, job=other.job)

    def _measured(self, pair: Pair, owner: str) -> str:
        pace = self._paces.get(pair.first.job)
        if not pair.first.own:
            return "; what that costs is measured by the other's console."
        if pace is None or pace.solo_s is None:
            return "; what that costs cannot be measured: no steps were seen while one ran alone."
        if pace.stretch is None:
            return "; what that costs is being measured."
        return f"; {owner} steps take {pace.stretch:.2f} times as long as alone."

    def _read(self, active: Mapping[str, Job]) -> None:
        """Begin to read the step times of jobs that let, or may let, another beside them."""
        self._reading = {job: task for job, task in self._reading.items() if not task.done()}
        self._paces = {job: pace for job, pace in self._paces.items() if job in active}
        beside = {pair.first.job: pair.later.job for pair in self._pairs}
        later = {pair.later.job for pair in self._pairs}
        now = self._context.clock.now()
        for job in active.values():
            attempt = job.attempt
            if attempt is None or job.state is not JobState.RUNNING or job.id in later:
                continue
            may = self._context.settings.sharing and willing(job)
            if job.id not in beside and not may:
                continue
            pace = self._paces.get(job.id)
            if pace is None or pace.attempt != attempt.number:
                pace = self._paces[job.id] = Pace(attempt.number)
            if now - pace.read_at >= READ_EVERY_S and job.id not in self._reading:
                pace.read_at = now
                reading = self._note(pace, job, beside.get(job.id, ""))
                self._reading[job.id] = asyncio.ensure_future(reading)

    async def _note(self, pace: Pace, job: Job, other: str) -> None:
        assert job.attempt is not None
        try:
            engine = await self._context.hosts.engine(job.attempt.host)
            files = await engine.read_files(job.attempt.container_name, REPORTS)
        except ConsoleError:
            # Its host or engine is away for now: the next reading tells.
            return
        pace.note(read_reports(files), other)


def _who(seat: Seat) -> str:
    return f"{seat.name} ({seat.job})"

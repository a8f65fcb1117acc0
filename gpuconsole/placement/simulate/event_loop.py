"""The clock of a simulation: jobs come, start where the engine says, end; hosts fail and return.

All decisions are the engine's. Jobs are never stopped for others. A failed host ends the attempts
that use it; their jobs queue again and begin again, for a trace tells of no checkpoints.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Literal

from gpuconsole.core.jobs import Task
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.engine import queue_pass
from gpuconsole.placement.engine.board import Board
from gpuconsole.placement.model import Holder, Policy, Request
from gpuconsole.placement.rules.fair_share import Usage
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.metrics import Busy, Outcome, Ran
from gpuconsole.placement.simulate.pending_queue import Line
from gpuconsole.placement.simulate.trace_readers import DAY, Dice
from gpuconsole.placement.simulate.workload import SimJob, Workload

SHARED_SPEED = ((60.0, 0.96), (100.0, 0.93), (130.0, 0.87), (160.0, 0.76))
"""Speed that is left to each of two jobs on one device, by the sum of what they keep busy alone
(percent): measured means of the slower of two (Lucid, ASPLOS 2023, 1,388 pairs)."""
SHARED_LEAST = 0.64
_REPORTS = 200
"""Approximate number of progress reports."""
_Kind = Literal["end", "repaired", "arrival", "failure"]
_AT_ONCE: dict[_Kind, int] = {"end": 0, "repaired": 1, "failure": 2, "arrival": 3}
"""Order of what happens at one moment: devices come free before they are asked for."""


def shared_speed(busy: float) -> float:
    """Return the speed that is left where jobs on one device keep it so busy in sum (percent)."""
    return next((speed for most, speed in SHARED_SPEED if busy <= most), SHARED_LEAST)


def simulate(
    lab: Lab,
    workload: Workload,
    policy: Policy,
    dice: Dice,
    progress: Callable[[float], None] = lambda share: None,
) -> Outcome:
    """Play a workload under one policy; equal arguments give an equal outcome.

    `dice` decide when hosts fail. `progress` hears the share of jobs that have ended.
    """
    run = _Run(lab, workload, policy, dice)
    run.play(progress)
    return run.outcome()


@dataclass(slots=True)
class _Record:
    """What has happened to a job."""

    job: SimJob
    started_s: float | None = None
    ended_s: float | None = None
    held_s: float = 0.0
    restarts: int = 0


@dataclass(slots=True)
class _Running:
    """An attempt under way."""

    record: _Record
    request: Request
    hosts: tuple[str, ...]
    speed: float
    """On these devices, alone."""
    left_s: float
    """Of its run time on the reference device, as of `since`."""
    since: float
    partner: _Running | None = None
    rate: float = 1.0
    """Speed that sharing leaves."""
    version: int = 0
    """Changes when its end moves; any other end in the calendar is void."""


class _Run:
    """One simulation under way."""

    def __init__(self, lab: Lab, workload: Workload, policy: Policy, dice: Dice) -> None:
        self.lab = lab
        self.workload = workload
        self.policy = policy
        self.dice = dice
        self.board = Board.of(lab.snapshot())
        self.usage = Usage()
        self.line = Line(self.board, policy, self.usage)
        self.records = [_Record(job) for job in workload.jobs]
        self.running: dict[str, _Running] = {}
        self.busy: list[Busy] = [Busy(0.0, 0, 0.0)]
        self.ended = 0
        self._held = 0
        self._working = 0.0
        self._mending: set[str] = set()
        self._calendar: list[tuple[float, int, int, _Kind, str, int]] = []
        self._serial = 0
        self._requests: dict[str, tuple[_Record, Request]] = {}
        self._rates: dict[tuple[str, tuple[str, ...]], dict[str, float]] = {}

    def play(self, progress: Callable[[float], None]) -> None:
        """Run from the first arrival until nothing more can happen."""
        arrivals = iter(self.records)
        pending = next(arrivals, None)
        if pending is not None:
            self._plan(pending.job.submitted_s, "arrival", "")
        if self.lab.failures is not None:
            for host in self.lab.hosts:
                self._plan_failure(0.0, host.name)
        total = max(1, len(self.records))
        step, reported = max(1, total // _REPORTS), 0
        while self._calendar and self.ended < total:
            now, _, _, kind, name, version = heapq.heappop(self._calendar)
            if kind == "arrival":
                assert pending is not None
                self._arrive(pending, now)
                pending = next(arrivals, None)
                if pending is not None:
                    self._plan(pending.job.submitted_s, "arrival", "")
            elif kind == "end":
                self._end(name, version, now)
            elif kind == "failure":
                self._fail(name, now)
            else:
                self._mend(name, now)
            if self._calendar and self._calendar[0][0] == now:
                continue
            self._start(now)
            if pending is None and not self.running and not self._mending:
                break  # what still waits finds no place even in an idle lab
            if self.ended - reported >= step:
                reported = self.ended
                progress(reported / total)
        progress(1.0)

    def outcome(self) -> Outcome:
        """Return what came of it."""
        return Outcome(
            self.policy.name,
            self.lab.devices,
            tuple(
                Ran(
                    record.job,
                    record.started_s,
                    record.ended_s,
                    record.held_s,
                    record.restarts,
                )
                for record in self.records
            ),
            tuple(self.busy),
            self.workload.counted_from,
            self.workload.last_arrival,
        )

    def _plan(self, when: float, kind: _Kind, name: str, version: int = 0) -> None:
        self._serial += 1
        entry = (when, _AT_ONCE[kind], self._serial, kind, name, version)
        heapq.heappush(self._calendar, entry)

    # --- jobs -----------------------------------------------------------------------------------

    def _arrive(self, record: _Record, now: float) -> None:
        job = record.job
        key = (job.job_class, job.backends)
        if key not in self._rates:
            self._rates[key] = self.lab.rates(*key)
        hosts = self.lab.hosts_for(job.devices)
        task = Task(job.user, devices=job.devices, hosts=hosts, share=self.policy.sharing)
        request = Request(
            job.id,
            task,
            job.need_mib,
            job.devices,
            job.submitted_s,
            user=job.user,
            run_time_s=job.predicted_s,
            rates=self._rates[key],
            utilization=job.utilization,
        )
        self._requests[job.id] = (record, request)
        self.line.add(request, now)

    def _start(self, now: float) -> None:
        """Let the engine pass over the line, and start what it says."""
        if not len(self.line) or not self.line.has_chance(now):
            return
        outcome = queue_pass.run(
            self.board, self.line, self.policy, now, profiles=self.line.profile
        )
        for start in outcome.started:
            self._begin(start, now)
        if outcome.started:
            self._note(now)

    def _begin(self, start: queue_pass.Start, now: float) -> None:
        record, request = self._requests[start.request.job]
        job, pick = record.job, start.pick
        hosts = tuple(dict.fromkeys(cell.site.host.name for cell, _ in pick.chosen))
        speed = self.lab.speed(job.job_class, hosts, job.devices)
        running = _Running(record, request, hosts, speed, job.run_time_s, now)
        self.running[job.id] = running
        record.started_s = now
        self.usage.begin(job.id, job.user, "", job.devices, now)
        self._working += job.devices * job.utilization / 100.0
        if pick.shared:
            holder = pick.chosen[0][0].holder
            assert holder is not None
            self._pair(running, self.running[holder.job], now)
        else:
            self._held += job.devices
            self._plan_end(running)

    def _pair(self, guest: _Running, host: _Running, now: float) -> None:
        speed = shared_speed(guest.record.job.utilization + host.record.job.utilization)
        guest.partner, host.partner = host, guest
        for run in (guest, host):
            self._change(run, speed, now)

    def _change(self, running: _Running, rate: float, now: float) -> None:
        """Go on at another speed from now."""
        self._settle(running, now)
        running.rate = rate
        self._plan_end(running)

    def _settle(self, running: _Running, now: float) -> None:
        passed = now - running.since
        running.left_s = max(0.0, running.left_s - passed * running.speed * running.rate)
        running.record.held_s += passed * running.record.job.devices
        running.since = now

    def _plan_end(self, running: _Running) -> None:
        # Unlike that of any other attempt, also of the same job.
        running.version = self._serial
        when = running.since + running.left_s / (running.speed * running.rate)
        self._plan(when, "end", running.record.job.id, running.version)

    def _end(self, name: str, version: int, now: float) -> None:
        running = self.running.get(name)
        if running is None or running.version != version:
            return
        running.record.ended_s = now
        self.ended += 1
        self._release(running, now)

    def _release(self, running: _Running, now: float) -> None:
        """Give back what an attempt held; who shared with it has the device alone."""
        job, partner = running.record.job, running.partner
        self._settle(running, now)
        del self.running[job.id]
        self.board.release(job.id)
        self.line.came_free()
        self.usage.end(job.id, now)
        self._working -= job.devices * job.utilization / 100.0
        if partner is None:
            self._held -= job.devices
        else:
            # Settled first, while it still counts as shared.
            self._change(partner, 1.0, now)
            partner.partner = None
        self._note(now)

    def _note(self, now: float) -> None:
        if self.busy[-1].at_s == now:
            self.busy.pop()
        self.busy.append(Busy(now, self._held, self._working))

    # --- hosts ----------------------------------------------------------------------------------

    def _plan_failure(self, now: float, host: str) -> None:
        assert self.lab.failures is not None
        mean = self.lab.failures.mean_days_between * DAY
        self._plan(now + self.dice.expovariate(1.0 / mean), "failure", host)

    def _fail(self, host: str, now: float) -> None:
        assert self.lab.failures is not None
        hit = [run for run in self.running.values() if host in run.hosts]
        for running in hit:
            self._release(running, now)
            record, request = running.record, running.request
            record.started_s = None
            record.restarts += 1
            self.line.add(request, now)
        until = now + self.lab.failures.repair_hours * 3600.0
        holder = Holder(f"repair of {host}", host, "", now, until)
        site = self.board.site(host)
        assert site is not None
        self.board.take([(cell, tuple(cell.spots)) for cell in site.cells.values()], holder)
        self.line.came_free()
        self._mending.add(host)
        self._plan(until, "repaired", host)

    def _mend(self, host: str, now: float) -> None:
        self.board.release(f"repair of {host}")
        self.line.came_free()
        self._mending.discard(host)
        self._plan_failure(now, host)

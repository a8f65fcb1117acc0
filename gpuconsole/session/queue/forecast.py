"""Looking ahead: when waiting jobs should start, and what would change if the lab did."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuconsole.core.devices.host_faults import PAUSES_S
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.placement.engine.device_state import host_fault
from gpuconsole.placement.forecast.free_capacity import Answer, Ask, where
from gpuconsole.placement.forecast.start_times import Expected, forecast
from gpuconsole.placement.model import Holder
from gpuconsole.session.context import Context
from gpuconsole.session.fleet.leases import LeaseBoard, marked
from gpuconsole.session.queue import commands as queue
from gpuconsole.session.queue.placement_adapter import Placer, Standing
from gpuconsole.session.queue.planner import Situation
from gpuconsole.waiting import within

if TYPE_CHECKING:
    from gpuconsole.placement.forecast.what_if import Comparison

FRESH_S = 10.0
"""A forecast is made again at most so often while only figures of the fleet move."""
FELT_S = 0.1
"""Processor time of a forecast below which it is made whenever the queue changes."""
REST = 19.0
"""After a longer one no other is made for so many times as long: looking ahead in a queue of
thousands costs a twentieth of a core."""
MOST_DEVICES = 4096
PATIENCE_S = 2.0
"""How long a question about free devices waits for the hosts to tell who holds them."""
_ADD = re.compile(r"(\d+)\s*[x×]?\s+(.+)", re.IGNORECASE)
Gather = Callable[[], tuple[Standing, FleetSnapshot]]
FORMS = "drain HOST, add COUNT MODEL, priority JOB NUMBER"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that could be done to the lab or its queue."""

    verb: str
    """drain, add or priority."""
    subject: str
    """The host, the model, or the job's id."""
    number: int = 0
    """How many devices, or the priority."""

    @property
    def text(self) -> str:
        """The change as a person would write it."""
        if self.verb == "drain":
            return msg("drain {host}", host=self.subject)
        order = (self.number, self.subject) if self.verb == "add" else (self.subject, self.number)
        return f"{self.verb} {order[0]} {order[1]}"


def parse_change(text: str) -> Change:
    """Read `drain HOST`, `add COUNT MODEL` or `priority JOB NUMBER`. UsageError else."""
    verb, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    if verb == "drain" and rest and " " not in rest:
        return Change("drain", rest)
    if verb == "add" and (match := _ADD.fullmatch(rest)):
        count = int(match.group(1)) if len(match.group(1)) <= 6 else 0
        if not 0 < count <= MOST_DEVICES:
            raise UsageError(
                "Wrong number",
                msg("{n} devices: 1 to {limit} can.", n=match.group(1), limit=MOST_DEVICES),
            )
        return Change("add", match.group(2).strip(), count)
    if verb == "priority":
        job, _, number = rest.rpartition(" ")
        if job.strip() and re.fullmatch(r"[+-]?\d{1,4}", number):
            return Change("priority", job.strip(), int(number))
    raise UsageError(
        "What if what?",
        msg("{text} is not a change.", text=f"{clean(text, 100)!r}"),
        msg("Say one of: {forms}.", forms=FORMS),
    )


class Foresight:
    """Runs the engine forward on a copy of the present state, beside the event loop."""

    def __init__(self, context: Context, placer: Placer, leases: LeaseBoard) -> None:
        self._context = context
        self._placer = placer
        self._leases = leases
        self._known: Mapping[str, Expected] = {}
        self._made_for: object = None
        self._made_at = float("-inf")
        self._rest_until = float("-inf")
        self._making = asyncio.Lock()

    @property
    def known(self) -> Mapping[str, Expected]:
        """The latest expected starts by job, as `renew` left them."""
        return self._known

    async def renew(self) -> Mapping[str, Expected]:
        """Return the expected start of each waiting job that has one; of a long queue as it was
        foreseen a while ago."""
        async with self._making:
            now, jobs = self._context.clock.now(), self._context.journal.jobs()
            is_current = jobs is self._made_for and 0 <= now - self._made_at < FRESH_S
            if is_current or time.monotonic() < self._rest_until:
                return self._known
            # Of a long queue even gathering what is to be foreseen takes a while.
            self._known, cost = await asyncio.to_thread(_looked_ahead, self._gatherer(), now)
            self._made_for, self._made_at = jobs, now
            self._rest_until = time.monotonic() + (REST * cost if cost > FELT_S else 0.0)
            return self._known

    async def what_if(self, change: Change) -> Comparison:
        """Return what a change would do to the starts of the waiting jobs.

        UsageError when its host, model or job is not known. Nothing is changed.
        """
        if change.verb == "priority":
            jobs = self._context.journal.jobs()
            change = replace(change, subject=queue.find(jobs, change.subject).id)
        standing, snapshot = await asyncio.to_thread(self._gatherer())
        now = self._context.clock.now()
        changed = _changed(standing, snapshot, change)
        comparison = await asyncio.to_thread(_compared, (standing, snapshot), changed, now)
        return _with_labels(comparison, standing) if change.verb == "add" else comparison

    async def where(self, ask: Ask) -> Answer:
        """Return where so many devices with so much memory are free now."""
        with contextlib.suppress(asyncio.TimeoutError):
            await within(PATIENCE_S, self._leases.refresh())
        standing, snapshot = await asyncio.to_thread(self._gatherer())
        held = {uuid: holder.user for uuid, holder in standing.holders.items()}
        return where(ask, snapshot, held)

    def _gatherer(self) -> Gather:
        """Return what gathers the queue as it is now; may be called in a thread."""
        journal = self._context.journal
        snapshot = marked(self._context.hosts.snapshot(), self._leases.silent())
        jobs, others = journal.jobs(), self._leases.others(journal.id)
        situation = Situation(jobs, snapshot, self._context.clock.now(), leases=others)
        return lambda: (self._placer.standing(situation), snapshot)


def _changed(
    standing: Standing, snapshot: FleetSnapshot, change: Change
) -> tuple[Standing, FleetSnapshot]:
    from gpuconsole.placement.forecast.what_if import (
        wanted_labels,
        with_devices,
        with_priority,
        without_host,
    )

    try:
        if change.verb == "drain":
            return standing, without_host(snapshot, change.subject)
        if change.verb == "add":
            labels = wanted_labels(standing.requests)
            return standing, with_devices(snapshot, change.number, change.subject, labels)
        requests = with_priority(standing.requests, change.subject, change.number)
        return replace(standing, requests=requests), snapshot
    except KeyError:
        raise UsageError(_UNKNOWN[change.verb], _unknown_text(change)) from None


def _with_labels(comparison: Comparison, standing: Standing) -> Comparison:
    from gpuconsole.placement.forecast.what_if import wanted_labels, with_labels_named

    return with_labels_named(comparison, wanted_labels(standing.requests), standing.requests)


_UNKNOWN = {"drain": "No such host", "add": "No such model", "priority": "It does not wait"}


def _unknown_text(change: Change) -> str:
    name = clean(change.subject, 100)
    return {
        "drain": msg("{name} is not in the inventory.", name=name),
        "add": msg("Neither the fleet nor the catalogue knows {name}.", name=name),
        "priority": msg("Job {name} is not one that waits for a place.", name=name),
    }[change.verb]


def _compared(
    before: tuple[Standing, FleetSnapshot], after: tuple[Standing, FleetSnapshot], now: float
) -> Comparison:
    from gpuconsole.placement.forecast.what_if import compare

    seen = any(host.devices for host in before[1].hosts)
    forecasts = (_expected(*before, now), _expected(*after, now))
    return compare(before[0].requests, *forecasts, now, seen=seen)


def _looked_ahead(gather: Gather, now: float) -> tuple[dict[str, Expected], float]:
    """Return when waiting jobs should start, and the processor time that it took to tell."""
    began = time.thread_time()
    expected = _expected(*gather(), now)
    return expected, time.thread_time() - began


def _with_pauses(
    snapshot: FleetSnapshot, holders: Mapping[str, Holder], now: float
) -> tuple[FleetSnapshot, Mapping[str, Holder]]:
    """Return the fleet in which hosts that are set aside are held until their pause ends: they are
    expected back then."""
    paused = {host.name: host for host in snapshot.hosts if host_fault(host) == "aside"}
    if not paused:
        return snapshot, holders
    held = dict(holders)
    for host in paused.values():
        until = max(host.aside.until if host.aside else now, now + PAUSES_S[0])
        pause = Holder(f"pause of {host.name}", host.name, "", now, until)
        for device in host.devices:
            holder = held.get(device.uuid, pause)
            ends_at = None if holder.ends_at is None else max(holder.ends_at, until)
            held[device.uuid] = replace(holder, ends_at=ends_at)
    hosts = tuple(
        replace(host, drained="") if host.name in paused else host for host in snapshot.hosts
    )
    return replace(snapshot, hosts=hosts), held


def _expected(standing: Standing, snapshot: FleetSnapshot, now: float) -> dict[str, Expected]:
    snapshot, holders = _with_pauses(snapshot, standing.holders, now)
    return forecast(
        standing.requests,
        snapshot,
        holders,
        standing.policies,
        now,
        standing.rules,
        lab=standing.lab,
        usage=standing.usage,
    )

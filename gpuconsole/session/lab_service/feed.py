"""Pictures for consoles: made once each beat, however many look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from gpuconsole.core.containers import Lease
from gpuconsole.core.devices.host_faults import FaultStreak
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.session.fleet.changes import changes
from gpuconsole.session.lab_service.protocol import (
    Dispatching,
    Message,
    Own,
    Picture,
    packed,
)
from gpuconsole.session.lab_service.views import (
    is_public,
    public,
    public_host,
    public_incident,
    without_estimate,
)
from gpuconsole.session.triage.own_marks import OwnMarks
from gpuconsole.state import Drain

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

MOST_OBSERVATIONS = 2000
"""Runs that a console learns from; the latest."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that pictures are made of, at one beat."""

    fleet: FleetSnapshot
    leases: Mapping[str, tuple[Lease, ...]]
    jobs: tuple[Job, ...]
    drains: tuple[Drain, ...]
    streaks: tuple[FaultStreak, ...]
    incidents: tuple[Incident, ...]
    dispatching: Dispatching
    event: int
    """The number of the latest event."""


EMPTY = Scene(FleetSnapshot(), {}, (), (), (), (), Dispatching("", 0.0), 0)


class Told:
    """A picture as it is sent: to operators all of it, to others what is everybody's. Each of the
    two is packed once, when the first console wants it."""

    def __init__(self, picture: Picture | None) -> None:
        self._picture = picture
        self._packed: dict[bool, bytes] = {}

    def message(self, *, everything: bool) -> bytes:
        """Return the message; empty where there is nothing to tell."""
        if self._picture is None:
            return b""
        if everything not in self._packed:
            picture = self._picture if everything else _public_picture(self._picture)
            self._packed[everything] = packed(Message(picture=picture))
        return self._packed[everything]


def _public_picture(picture: Picture) -> Picture:
    fleet = replace(picture.fleet, changed=tuple(map(public_host, picture.fleet.changed)))
    incidents = tuple(map(public_incident, picture.incidents))
    return replace(picture, fleet=fleet, incidents=incidents)


@dataclass(slots=True)
class Beat:
    """One look at the session: its number, what was seen, and the messages that tell of it."""

    number: int
    scene: Scene
    events: list[tuple[int, Event]] = field(default_factory=list)
    """Those that are new since the beat before."""
    changes: Told = field(default_factory=lambda: Told(None))
    """What a console lacks that has the beat before; nothing where nothing changed."""
    changed: tuple[Job, ...] = ()
    """Jobs that changed since the beat before."""
    marked: bool = False
    """Whether incidents changed, or what users have said of them."""


class Feed:
    """Looks at a session once a beat and serves what consoles lack."""

    def __init__(self, session: Session, now: Callable[[], float], marks: OwnMarks) -> None:
        self._session = session
        self._marks = marks
        self._now = now
        self._public: dict[str, tuple[int, Job]] = {}
        self._whole: tuple[int, Told] = (-1, Told(None))
        self._beaten = asyncio.Event()
        self._version: object = None
        self.beat = Beat(0, EMPTY)

    def look(self) -> None:
        """Take a beat: see what is new, and wake those who wait for it."""
        before = self.beat.scene
        journal = self._session._journal
        events = journal.events_after(before.event) if before.event else []
        scene = self._seen(events[-1][0] if events else before.event or journal.last_event())
        old = {job.id: job for job in before.jobs} if scene.jobs is not before.jobs else {}
        changed: tuple[Job, ...] = ()
        if scene.jobs is not before.jobs:
            changed = tuple(job for job in scene.jobs if old.get(job.id) is not job)
        picture = self._changes(before, scene, changed, events)
        marked = scene.incidents is not before.incidents or self._marks.version != self._version
        self._version = self._marks.version
        self.beat = Beat(self.beat.number + 1, scene, events, Told(picture), changed, marked)
        beaten, self._beaten = self._beaten, asyncio.Event()
        beaten.set()

    async def next(self) -> None:
        """Wait for the next beat."""
        await self._beaten.wait()

    def whole(self) -> Told:
        """Return what tells of everything; made once a beat."""
        number, message = self._whole
        if number != self.beat.number:
            scene = self.beat.scene
            picture = Picture(
                whole=True,
                fleet=changes(None, scene.fleet, scene.leases),
                jobs=self._all_public(scene.jobs),
                order=tuple(job.id for job in scene.jobs),
                events=((scene.event, _SILENT),) if scene.event else (),
                drains=scene.drains,
                streaks=scene.streaks,
                incidents=scene.incidents,
                dispatching=scene.dispatching,
            )
            message = Told(picture)
            self._whole = (self.beat.number, message)
        return message

    def own(self, user: str, may_see: Callable[[Job], bool], *, everything: bool) -> bytes:
        """Return the message that tells a user all that is theirs; an operator sees everything."""
        jobs = tuple(without_estimate(job) for job in self.beat.scene.jobs if may_see(job))
        journal = self._session._journal
        ids = {job.id for job in jobs}
        seen = tuple(
            observation for observation in journal.observations() if observation.job in ids
        )[-MOST_OBSERVATIONS:]
        marked = self._marked(user, everything=everything)
        own = Own(jobs, (), seen, journal.calibrations(), incidents=marked)
        return packed(Message(own=own))

    def own_changes(self, user: str, may_see: Callable[[Job], bool], *, everything: bool) -> bytes:
        """Return what of a user's own changed at this beat; empty where nothing did."""
        jobs = tuple(without_estimate(job) for job in self.beat.changed if may_see(job))
        private = [(number, event) for number, event in self.beat.events if not is_public(event)]
        by_id = {job.id: job for job in self.beat.scene.jobs} if private else {}
        events = tuple(
            (number, event)
            for number, event in private
            if event.subject in by_id and may_see(by_id[event.subject])
        )
        marked = None
        if self.beat.marked:
            marked = self._marked(user, everything=everything)
        if not (jobs or events or marked is not None):
            return b""
        return packed(Message(own=Own(jobs, events, incidents=marked)))

    def _marked(self, user: str, *, everything: bool) -> tuple[Incident, ...]:
        incidents = self._marks.seen_by(user, self.beat.scene.incidents)
        return incidents if everything else tuple(map(public_incident, incidents))

    def _seen(self, event: int) -> Scene:
        session, journal = self._session, self._session._journal
        role, now = journal.role(), self._now()
        alive = role.alive(now)
        return Scene(
            fleet=session.hosts.snapshot(),
            leases=session._leases.seen(),
            jobs=journal.jobs(),
            drains=tuple(journal.drains().values()),
            streaks=tuple(journal.streaks().values()),
            incidents=self._marks.shared(journal.incidents()),
            dispatching=Dispatching(role.owner if alive else "", max(0.0, now - role.heartbeat)),
            event=event,
        )

    def _changes(
        self,
        before: Scene,
        scene: Scene,
        changed: tuple[Job, ...],
        events: Sequence[tuple[int, Event]],
    ) -> Picture | None:
        fleet = changes(before.fleet, scene.fleet, scene.leases)
        order = None
        if scene.jobs is not before.jobs and not _same_order(before.jobs, scene.jobs):
            order = tuple(job.id for job in scene.jobs)
        public_events = tuple((number, event) for number, event in events if is_public(event))
        same = (
            not (fleet.changed or changed or public_events)
            and order is None
            and fleet.names == tuple(host.name for host in before.fleet.hosts)
            and scene.leases == before.leases
            and (scene.drains, scene.streaks) == (before.drains, before.streaks)
            and scene.incidents is before.incidents
            and scene.dispatching.owner == before.dispatching.owner
        )
        if same:
            return None
        return Picture(
            whole=False,
            fleet=fleet,
            jobs=self._all_public(changed),
            order=order,
            events=public_events,
            drains=scene.drains,
            streaks=scene.streaks,
            incidents=scene.incidents,
            dispatching=scene.dispatching,
        )

    def _all_public(self, jobs: Sequence[Job]) -> tuple[Job, ...]:
        public_jobs = []
        for job in jobs:
            cached = self._public.get(job.id)
            if cached is None or cached[0] != job.revision:
                cached = self._public[job.id] = (job.revision, public(job))
            public_jobs.append(cached[1])
        return tuple(public_jobs)


_SILENT = Event("", "", "", 0.0)
"""Replaces events from before a console connected."""


def _same_order(before: Sequence[Job], after: Sequence[Job]) -> bool:
    return len(before) == len(after) and all(
        first.id == other.id for first, other in zip(before, after, strict=True)
    )

"""The lab's fleet and queue as the service tells of them, in the places of a session's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gpuconsole.core.containers import ByteStream, Engine, ImageFacts, Lease, ResultFile
from gpuconsole.core.devices.host_faults import Streaks
from gpuconsole.core.devices.run_history import HostCalibration, Observation
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot
from gpuconsole.core.images import ImageRecord
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job
from gpuconsole.core.lab_service.audit import Act
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError, RefusedError, UnreachableError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.fleet.changes import applied
from gpuconsole.session.lab_service.console.client import LabClient
from gpuconsole.session.lab_service.protocol import Dispatching, Hello, Message, Own, Picture
from gpuconsole.session.shown_journal import ShownJournal
from gpuconsole.state import Drain
from gpuconsole.state.tables.dispatcher_lease import NO_DISPATCHER, Role

if TYPE_CHECKING:
    import sqlite3

KEPT_EVENTS = 1000


class Mirror:
    """All that the service has sent, updated by its messages."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.hello: Hello | None = None
        self.complete = asyncio.Event()
        """Set once a whole picture, and the user's own, were heard."""
        self.fleet = FleetSnapshot()
        self.leases: Mapping[str, tuple[Lease, ...]] = {}
        self.drains: Mapping[str, Drain] = {}
        self.streaks: Streaks = {}
        self.incidents: tuple[Incident, ...] = ()
        """As this user sees them."""
        self._incidents: tuple[Incident, ...] = ()
        self._marked: Mapping[tuple[str, float], Incident] = {}
        self.observations: tuple[Observation, ...] = ()
        self.calibrations: tuple[HostCalibration, ...] = ()
        self.events: list[tuple[int, Event]] = []
        self._public: dict[str, Job] = {}
        self._own: dict[str, Job] = {}
        self._order: tuple[str, ...] = ()
        self._jobs: tuple[Job, ...] | None = ()
        self._dispatching: tuple[float, Dispatching] = 0.0, Dispatching("", 0.0)
        self._observed = 0

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All jobs in their order; the same tuple while nothing changed."""
        if self._jobs is None:
            merged = (self._job(job_id) for job_id in self._order)
            self._jobs = tuple(job for job in merged if job is not None)
        return self._jobs

    @property
    def role(self) -> Role:
        """Who starts jobs, by this console's clock."""
        heard, role = self._dispatching
        if not role.owner:
            return NO_DISPATCHER
        return Role(0, role.owner, 0, "the lab's service", heard - role.quiet_s)

    @property
    def version(self) -> tuple[int, int]:
        """Numbers that change with what was learned from runs."""
        return self._observed, len(self.calibrations)

    def require_offer(self, name: str, doing: str) -> None:
        """Raise RefusedError for what a service of before does not do."""
        if self.hello is not None and name not in self.hello.offers:
            raise RefusedError(
                "The lab's service is older",
                msg(
                    "{doing} is more than the service of this lab does for its users.", doing=doing
                ),
                "Update gpuconsole where the service runs, or ask an operator to do it there.",
            )

    def is_own(self, job: Job) -> bool:
        """Tell whether this user may see what a job runs."""
        return job.id in self._own

    def learn(self, calibration: HostCalibration) -> None:
        """Learn what was measured on a card, ahead of the next picture."""
        self.calibrations = (*self.calibrations, calibration)

    def take(self, message: Message) -> None:
        """Learn what a message tells."""
        if message.hello is not None:
            self.hello = message.hello
        if message.picture is not None:
            self._take_picture(message.picture)
        if message.own is not None:
            self._take_own(message.own)
            self.complete.set()

    def put(self, jobs: tuple[Job, ...]) -> None:
        """Learn what became of the user's own jobs, ahead of the next picture."""
        for job in jobs:
            self._own[job.id] = job
            if job.id not in self._public:
                self._order = (*self._order, job.id)
                self._public[job.id] = job
        self._jobs = None

    def _job(self, job_id: str) -> Job | None:
        public, own = self._public.get(job_id), self._own.get(job_id)
        if own is None or public is None:
            return own or public
        # Where the user's own has not come yet, what everybody sees is newer.
        return own if own.revision >= public.revision else public

    def _take_picture(self, picture: Picture) -> None:
        if picture.whole:
            self._public, self.events = {}, []
        self.fleet = applied(FleetSnapshot() if picture.whole else self.fleet, picture.fleet)
        self.leases = picture.fleet.leases
        if {drain.host: drain for drain in picture.drains} != self.drains:
            self.drains = {drain.host: drain for drain in picture.drains}
        streaks = {(streak.host, streak.image): streak for streak in picture.streaks}
        if streaks != self.streaks:
            self.streaks = streaks
        if picture.incidents != self._incidents:
            self._incidents = picture.incidents
            self._show_incidents()
        self._public.update({job.id: job for job in picture.jobs})
        if picture.order is not None:
            self._order = picture.order
            self._own = {job_id: job for job_id, job in self._own.items() if job_id in self._public}
        if picture.jobs or picture.order is not None:
            self._jobs = None
        self._dispatching = self._now(), picture.dispatching
        self._add_events(picture.events)

    def _take_own(self, own: Own) -> None:
        self._own.update({job.id: job for job in own.jobs})
        if own.observations:
            self.observations = own.observations
            self._observed += 1
        if own.calibrations:
            self.calibrations = own.calibrations
        if own.jobs:
            self._jobs = None
        if own.incidents is not None:
            self._marked = {(incident.id, incident.since): incident for incident in own.incidents}
            self._show_incidents()
        self._add_events(own.events)

    def _show_incidents(self) -> None:
        """Put the user's own marks on what everybody sees."""
        self.incidents = tuple(
            _with_mark_of(incident, self._marked.get((incident.id, incident.since)))
            for incident in self._incidents
        )

    def _add_events(self, events: tuple[tuple[int, Event], ...]) -> None:
        if events:
            self.events = sorted((*self.events, *events), key=lambda entry: entry[0])[-KEPT_EVENTS:]


def _with_mark_of(incident: Incident, own: Incident | None) -> Incident:
    """Return an incident with the mark that its user sees."""
    if own is None or incident.ended_at is not None:
        return incident
    return replace(
        incident,
        marked=own.marked,
        marked_by=own.marked_by,
        marked_at=own.marked_at,
        until=own.until,
    )


class LabHosts:
    """The fleet as the service sees it. Implements `core.containers.Hosts`."""

    def __init__(self, client: LabClient, mirror: Mirror) -> None:
        self._client = client
        self._mirror = mirror
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to watch."""
        self._tasks = [asyncio.ensure_future(self._client.watch(self._mirror.take))]

    async def close(self) -> None:
        """Stop watching."""
        await cancel_all(self._tasks)
        await self._client.close()

    def snapshot(self) -> FleetSnapshot:
        """Return the last picture; it grows old while the service is away."""
        return self._mirror.fleet

    async def engine(self, host: str) -> Engine:
        """Return what the service lets its users do with a host's engine."""
        return LabEngine(host, self._client, self._mirror)

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """Refuse: only the service has a link to its hosts."""
        _refuse(host)


class LabEngine:
    """An engine behind the service: leases, images and results, and nothing else."""

    def __init__(self, host: str, client: LabClient, mirror: Mirror) -> None:
        self._host = host
        self._client = client
        self._mirror = mirror

    async def leases(self) -> tuple[Lease, ...]:
        """Return the leases as the service has last seen them."""
        return self._mirror.leases.get(self._host, ())

    async def list_results(self, job_id: str) -> tuple[ResultFile, ...]:
        """List what a job has left on this host."""
        return await self._client.files(job_id, self._host)

    def results(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the job's results folder as a tar."""
        return self._client.results(job_id, self._host, "results")

    def records(self, job_id: str) -> AsyncIterator[bytes]:
        """Give VisualDL's record files among the job's results as a tar."""
        self._mirror.require_offer("records", "Reading VisualDL's scalars")
        return self._client.results(job_id, self._host, "records")

    def checkpoint(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the job's checkpoint as a tar."""
        return self._client.results(job_id, self._host, "checkpoint")

    async def connect(self, container: str, target: str) -> ByteStream:
        """Connect to a port inside a container of one's own job."""
        self._mirror.require_offer("inside", "Connecting to a port of a job")
        return await self._client.connect(self._host, container, target)

    async def image_facts(self, image: str) -> ImageFacts | None:
        """Return what is known of an image here; None where the host has it not."""
        return await self._client.image(self._host, image)

    @property
    def images(self) -> LabStore:
        """The images here, as far as the service shows them."""
        self._mirror.require_offer("operation", "Looking at images")
        return LabStore(self._host, self._client)

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(self._host)


class LabStore:
    """The images of a host behind the service, to look at. Implements `core.images.ImageStore`."""

    def __init__(self, host: str, client: LabClient) -> None:
        self._host = host
        self._client = client

    @property
    def road(self) -> str:
        """The host itself: the service knows the roads to its hosts."""
        return self._host

    async def list(self) -> tuple[ImageRecord, ...]:
        """List the images that this user may see, the largest first."""
        return await self._client.images(self._host)

    async def find(self, image: str) -> ImageRecord | None:
        """Look at one image by name, digest or id; None where the host does not have it."""
        return next(iter(await self._client.images(self._host, image)), None)

    async def registry_digest(self, image: str) -> str:
        """Ask the image's registry, over the host, which digest a name has there."""
        return await self._client.digest(self._host, image)

    def save(self, image: str) -> AsyncIterator[bytes]:
        """Refuse: the service copies images itself."""
        _refuse(self._host)

    async def load(self, chunks: AsyncIterator[bytes]) -> None:
        """Refuse: the service copies images itself."""
        _refuse(self._host)

    async def tag(self, image: str, name: str) -> None:
        """Refuse: a name on a host is everybody's."""
        _refuse(self._host)


class LabJournal(ShownJournal):
    """The lab's queue as the service tells of it. Has no file: the service alone writes it."""

    def __init__(self, mirror: Mirror, folder: Path) -> None:
        super().__init__(folder)
        self._mirror = mirror

    @property
    def id(self) -> str:  # type: ignore[override]
        """The id of the lab's journal."""
        return self._mirror.hello.journal if self._mirror.hello is not None else ""

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs, oldest first; the same tuple while nothing changed."""
        return self._mirror.jobs

    def job(self, job_id: str) -> Job | None:
        """Return the job of an exact id as it was received last."""
        return self._mirror._job(job_id)

    def incidents(self) -> tuple[Incident, ...]:
        """Return the incidents as the service has noted them."""
        return self._mirror.incidents

    def last_event(self) -> int:
        """Return the number of the latest event."""
        return self._mirror.events[-1][0] if self._mirror.events else 0

    def events_after(self, number: int) -> list[tuple[int, Event]]:
        """Return the events after that number that this user may see, oldest first."""
        return [event for event in self._mirror.events if event[0] > number and event[1].kind]

    def observations(self) -> tuple[Observation, ...]:
        """Return what was seen of the user's own runs, oldest first."""
        return self._mirror.observations

    def history_version(self) -> tuple[int, int]:
        """Return numbers that change when something was learned."""
        return self._mirror.version

    def calibrations(self) -> tuple[HostCalibration, ...]:
        """Return what was measured on cards."""
        return self._mirror.calibrations

    def drains(self) -> Mapping[str, Drain]:
        """Return the hosts that were drained, by name."""
        return self._mirror.drains

    def streaks(self) -> Streaks:
        """Return the streaks of faults, by host and image."""
        return self._mirror.streaks

    def role(self) -> Role:
        """Return who starts jobs."""
        return self._mirror.role

    def acts(self, limit: int, user: str = "") -> tuple[Act, ...]:
        """Refuse: they are asked for from the service."""
        raise _written_there()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Refuse: the service alone writes."""
        raise _written_there()

    @contextmanager
    def _writing(self, epoch: int | None = None) -> Iterator[tuple[sqlite3.Connection, int]]:
        raise _written_there()


def _written_there() -> JournalError:
    return JournalError(
        "The lab's service alone writes its queue",
        "This console only shows it.",
        "Do it on the service's host.",
    )


def _refuse(host: str) -> NoReturn:
    raise UnreachableError(
        "Not through the lab's queue",
        msg(
            "{host} is reached by the lab's service, which does no such thing for its users.",
            host=host,
        ),
        "Ask an operator of the lab.",
    )

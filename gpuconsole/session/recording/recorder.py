"""The session's own recording: what it sees, written beside the event loop."""

from __future__ import annotations

import asyncio
import os
from array import array
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from gpuconsole import __version__
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import FleetSnapshot, Host, HostState
from gpuconsole.core.history import sampling_s
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job
from gpuconsole.core.roll import roll_of
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError, UsageError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.clock import Clock, WallClock
from gpuconsole.session.context import Context
from gpuconsole.session.events import News
from gpuconsole.state.recording import frames
from gpuconsole.state.recording.file_format import Header
from gpuconsole.state.recording.writer import Batch, FileWriter, RingWriter, new_session_name
from gpuconsole.waiting import within

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

LOOK_EVERY_S = 1.0
BLOCK_S = 60.0
"""A block covers so long: a crash loses no more, and opening a moment reads no more."""
DETAILS_EVERY_S = 60.0
"""How often (s) it is written that an incident is still open, or how much memory a job has used."""
READY_AFTER_S = 5.0
"""So long after the start, when the screens stand, what reads recordings is made ready."""
WORTH_S = 30.0
"""A session that ends sooner, as a command does, leaves no recording."""
FOLDER = "recording"
"""The folder of recordings in the state folder."""

Item = TypeVar("Item", Job, Incident)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Watched:
    """The sources of a recorder. Each function returns the same object while nothing changed."""

    user: str
    simulated: bool
    snapshot: Callable[[], FleetSnapshot]
    jobs: Callable[[], tuple[Job, ...]]
    incidents: Callable[[], tuple[Incident, ...]]


class Sink(Protocol):
    """Where blocks go; called from one thread."""

    def write(self, batch: Batch) -> None:
        """Add a block; OSError when that cannot be."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class Recorder:
    """Collects what is new once a second, and writes a block a minute."""

    def __init__(
        self,
        watched: Watched,
        clock: Clock,
        sink: Sink | None,
        *,
        name: str = "",
        folder: Path | None = None,
        tell: Callable[[Event], None] = lambda event: None,
    ) -> None:
        """Record into `sink`; nothing without one. `folder` is the ring's, to read back."""
        self.name = name
        self.folder = folder
        self._watched = watched
        self._clock = clock
        self._sink = sink
        self._tell = tell
        self._batch: Batch | None = None
        self._began = clock.now()
        self._written = 0
        self._names: tuple[str, ...] = ()
        self._hosts: list[Host | None] = []
        """What was taken last of the host at each place of the fleet."""
        self._states: list[HostState | None] = []
        """In which state it was then."""
        self._times = array("d")
        """When that was."""
        self._jobs = _Changes[Job](lambda job: job.id, _essence_of_job)
        self._incidents = _Changes[Incident](
            lambda incident: (incident.id, incident.since), _essence_of_incident
        )
        self._events: list[Event] = []
        self._thread: ThreadPoolExecutor | None = None
        self._trouble = ""

    @property
    def on(self) -> bool:
        """Whether anything is recorded."""
        return self._sink is not None

    def note(self, event: Event) -> None:
        """Take up an event; hand this to `subscribe`."""
        if self.on:
            self._events.append(event)

    async def run(self) -> None:
        """Look and write until cancelled."""
        prepared = self.folder is None
        while self.on:
            self.look()
            if not prepared and self._clock.now() >= self._began + READY_AFTER_S:
                prepared = True
                await self._aside(frames.prepare)
            if self._batch is not None and self._clock.now() >= self._batch.first + BLOCK_S:
                await self.cut()
            await self._clock.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        """Take up what is new."""
        now, hosts = self._clock.now(), self._watched.snapshot().hosts
        batch = self._batch
        if batch is not None and now < batch.last:
            # A clock that was set back: times rise in each block.
            now = batch.last
        try:
            jobs = self._jobs.take(self._watched.jobs(), now)
            incidents = self._incidents.take(self._watched.incidents(), now)
        except JournalError:
            # The session tells of that itself; what changed is taken up when it can be read.
            jobs, incidents = [], []
        if batch is None:
            batch = self._batch = Batch(now, now)
            batch.standing, batch.incidents_before = self._jobs.all, self._incidents.all
            batch.seen = [(now, host) for host in hosts]
            roll = roll_of(hosts)
            self._names = roll.names
            self._hosts, self._states = list(hosts), list(roll.states)
            self._times = array("d", [now]) * len(hosts)
        else:
            batch.jobs += jobs
            batch.incidents += incidents
            self._take_hosts(hosts, batch, now)
        batch.last = now

    async def cut(self) -> None:
        """Write what was taken up until now, so that it can be looked at."""
        if not self.on:
            return
        self.look()
        batch, self._batch = self._batch, None
        assert batch is not None
        batch.events, self._events = self._events, []
        # The next block begins where this one ends.
        self.look()
        await self._write(batch)

    async def close(self, *, short: bool = False) -> None:
        """Write the rest and end; a session too short to be worth a file leaves none, unless
        `short` ones are wanted too."""
        worth = short or self._written or self._clock.now() >= self._began + WORTH_S
        if self._batch is not None and worth:
            await self.cut()
        sink, self._sink = self._sink, None
        if sink is not None and self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, sink.close)
            self._thread.shutdown(wait=False)

    def _take_hosts(self, hosts: tuple[Host, ...], batch: Batch, now: float) -> None:
        names, states_now, _, _, devices = roll_of(hosts)
        due = now + 0.5 - sampling_s(devices)
        if names != self._names:
            self._change_places(names)
        taken, states, times = self._hosts, self._states, self._times
        for place, (state, before, at) in enumerate(zip(states_now, states, times, strict=True)):
            # A large fleet is recorded less often; that a host is lost is never left out.
            if at > due and state is before:
                continue
            host = hosts[place]
            if host is not taken[place]:
                taken[place], states[place], times[place] = host, state, now
                batch.seen.append((now, host))

    def _change_places(self, names: tuple[str, ...]) -> None:
        before = {name: place for place, name in enumerate(self._names)}
        places = [before.get(name) for name in names]
        self._names = names
        self._hosts = [None if place is None else self._hosts[place] for place in places]
        self._states = [None if place is None else self._states[place] for place in places]
        self._times = array("d", [0.0 if place is None else self._times[place] for place in places])

    async def _write(self, batch: Batch) -> None:
        sink = self._sink
        if sink is None:
            return
        error = await self._aside(lambda: _tried(sink, batch))
        if error is not None:
            self._tell_trouble(os.strerror(error.errno or 0), error.filename)
        else:
            self._written += 1
            self._trouble = ""

    async def _aside(self, work: Callable[[], Answer]) -> Answer:
        if self._thread is None:
            # One thread, so that blocks are written one after another even if a wait is given up.
            self._thread = ThreadPoolExecutor(1, "recording")
        loop = asyncio.get_running_loop()
        # A pending block is written even when it is no longer awaited.
        return await asyncio.shield(loop.run_in_executor(self._thread, work))

    def _tell_trouble(self, reason: str, path: object) -> None:
        if reason != self._trouble:
            self._trouble = reason
            where = f"{path}: " if path else ""
            message = f"Nothing is recorded for now. {where}{reason}."
            self._tell(Event("error", "recording", message, self._clock.now(), "warning"))


def _tried(sink: Sink, batch: Batch) -> OSError | None:
    try:
        sink.write(batch)
    except OSError as error:
        return error
    return None


class _Changes(Generic[Item]):
    """Remembers records and tells which are new or other than before."""

    def __init__(
        self, key: Callable[[Item], Hashable], essence: Callable[[Item], Hashable | Item]
    ) -> None:
        """`key` tells which record it is, `essence` what of it is written at once when it changes;
        what else changes is written now and then."""
        self.all: tuple[Item, ...] = ()
        self._key: Callable[[Item], Hashable] = key
        self._essence: Callable[[Item], Hashable | Item] = essence
        self._known: dict[Hashable, tuple[float, Item]] = {}
        """What was taken last of each record, and when."""

    def take(self, items: tuple[Item, ...], at: float) -> list[tuple[float, Item]]:
        """Return what differs from before; costs nothing for the same tuple."""
        if items is self.all:
            return []
        self.all = items
        entries: dict[Hashable, tuple[float, Item]] = {}
        changed: list[tuple[float, Item]] = []
        for item in items:
            key = self._key(item)
            before = self._known.get(key)
            if before is None or self._is_news(before, item, at):
                before = at, item
                changed.append(before)
            entries[key] = before
        self._known = entries
        return changed

    def _is_news(self, before: tuple[float, Item], item: Item, at: float) -> bool:
        taken_at, old = before
        if old is item or old == item:
            return False
        return at - taken_at >= DETAILS_EVERY_S or self._essence(old) != self._essence(item)


def _essence_of_job(job: Job) -> Job:
    attempts = tuple(replace(attempt, peak_mib=None) for attempt in job.attempts)
    return replace(job, revision=0, detail="", attempts=attempts)


def _essence_of_incident(incident: Incident) -> Hashable:
    return (
        incident.severity,
        incident.title,
        incident.jobs,
        incident.ended_at,
        incident.marked,
        incident.until,
    )


def ring(session: Session, context: Context, news: News) -> Recorder:
    """Return the recorder of a session, which writes into its state folder."""
    watched = watching(session)
    name, folder = new_session_name(), context.journal.folder / FOLDER
    settings = context.settings.recording
    sink = RingWriter(
        folder,
        lambda batch: header_of(watched, batch, name),
        keep_hours=settings.keep_hours,
        max_mib=settings.max_mib,
    )
    # Who only looks makes no state folder where there is none.
    wanted = settings.enabled and (not context.read_only or context.journal.folder.is_dir())
    chosen = sink if wanted else None
    recorder = Recorder(watched, context.clock, chosen, name=name, folder=folder, tell=news.tell)
    news.subscribe(recorder.note)
    return recorder


def watching(session: Session) -> Watched:
    """Return what a recorder looks at of a session."""
    incidents = session.triage.incidents
    return Watched(session.user, session.simulated, session.snapshot, session.jobs, incidents)


def header_of(watched: Watched, batch: Batch, name: str) -> Header:
    """Return what a file says of itself."""
    hosts = tuple(dict.fromkeys(host.name for _, host in batch.seen))
    return Header(batch.first, name, watched.user, watched.simulated, hosts, written_by=__version__)


class FileSink:
    """One new file, made when the first block is written."""

    def __init__(self, path: Path, watched: Watched) -> None:
        self._path = path
        self._watched = watched
        self._writer: FileWriter | None = None
        self._name = new_session_name()

    def write(self, batch: Batch) -> None:
        """Add a block."""
        if self._writer is None:
            header = header_of(self._watched, batch, self._name)
            self._writer = FileWriter(self._path, header)
        self._writer.write(batch)

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._writer.size if self._writer is not None else 0

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a recording into one file came to."""

    seconds: float
    size: int
    """Bytes."""


async def record_into(
    session: Session, path: Path, stop: asyncio.Event, seconds: float | None = None
) -> Recorded:
    """Record a session into a new file until `stop` is set, or for so many seconds.

    UsageError when the file cannot be made, or nothing could be written.
    """
    _require_new(path)
    watched = watching(session)
    sink = FileSink(path, watched)
    troubles: list[Event] = []
    recorder = Recorder(watched, WallClock(), sink, tell=troubles.append)
    unsubscribe = session.subscribe(recorder.note)
    recorder.look()
    running = asyncio.ensure_future(recorder.run())
    began = session.now()
    try:
        await within(seconds, stop.wait())
    except asyncio.TimeoutError:
        pass
    finally:
        unsubscribe()
        await cancel_all([running])
        await recorder.close(short=True)
    if troubles:
        raise UsageError("Recording failed", troubles[-1].message)
    return Recorded(session.now() - began, sink.size)


def _require_new(path: Path) -> None:
    if path.exists():
        raise UsageError(
            "File exists",
            msg("{path} is there already.", path=path),
            "Choose another name with --out.",
        )
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(
            "Cannot write there", msg("{parent} is no folder to write into.", parent=path.parent)
        )

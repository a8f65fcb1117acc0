"""What goes between the lab's service and its consoles: HTTP on a unix socket.

    GET  /v1/watch              a WebSocket: `Hello`, then a `Picture` and an `Own` when they
                                change, each as zlib of a `Message`
    POST /v1/act                a `Request`; gives `Answer`
    POST /v1/submit             multipart: a `Submission`, then the packed project; gives `Answer`
    GET  /v1/log                a part of a log: ?job&attempt&rank&offset&wait
    GET  /v1/results            a tar: ?job&host&what
    GET  /v1/files              what a job has left on a host: ?job&host
    GET  /v1/audit              the latest acts: ?limit

Whoever asks is known by the socket, and by nothing that is sent. An answer that is no success is a
`Refusal` with the words of the error. Each side bounds what it reads.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, TypeAdapter

from gpuconsole.config import LabSettings
from gpuconsole.core.acts import Act
from gpuconsole.core.containers import Lease, ResultFile
from gpuconsole.core.events import Event
from gpuconsole.core.faults import FaultStreak
from gpuconsole.core.fleet import Host
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job, Task
from gpuconsole.core.observation import HostCalibration, Observation
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.errors import (
    ConsoleError,
    JournalError,
    ReadOnlyError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from gpuconsole.state import Drain

_MOST_LINES = 100
"""Of an error's message."""
_ID = re.compile(r"[0-9a-z-]{1,64}")


def _heard(job: Job) -> Job:
    """Return a job with what screens show of it made fit for a terminal. ValueError where its id,
    after which files are named, is none."""
    if not _ID.fullmatch(job.id):
        raise ValueError("a job has no id")
    return replace(
        job,
        task=replace(job.task, name=clean(job.task.name, 128)),
        user=clean(job.user, 128),
        cause=clean(job.cause),
        detail=clean(job.detail),
    )


HeardJob = Annotated[Job, AfterValidator(_heard)]
"""A job of which the far end tells."""

VERSION = 1
"""Grows when an older console would misread the service, or the other way round."""
SOCKET = Path("/run/gpuconsole/queue.sock")
PICTURE_BYTES = 256 * MIB
"""Of a message to a console; a lab of 10,000 hosts stays far below."""
REQUEST_BYTES = 4 * MIB
"""Of a request but the packed project, which the lab's settings bound."""
MOST_JOBS = 10_000
"""Jobs of one request."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What a console must know before the first picture."""

    version: int
    user: str
    """Who the service takes the console's user for."""
    operator: bool
    settings: LabSettings
    simulated: bool
    journal: str
    """The id of the lab's journal, which leases carry."""
    images: Mapping[str, str]
    """The default image of each host."""


@dataclass(frozen=True, slots=True)
class Dispatching:
    """Who starts jobs, and how long ago it gave a sign of life (s)."""

    owner: str
    quiet_s: float


@dataclass(frozen=True, slots=True)
class Picture:
    """What everybody may see, as far as it changed; all of it where `whole`."""

    whole: bool
    revision: int
    taken_at: float
    simulated: bool
    names: tuple[str, ...]
    """All hosts, in their order."""
    hosts: tuple[Host, ...]
    leases: Mapping[str, tuple[Lease, ...]]
    jobs: tuple[HeardJob, ...]
    """Jobs of everybody, without what is its user's alone."""
    order: tuple[str, ...] | None
    """The ids of all jobs in their order, where jobs came or went."""
    events: tuple[tuple[int, Event], ...]
    drains: tuple[Drain, ...]
    streaks: tuple[FaultStreak, ...]
    incidents: tuple[Incident, ...]
    dispatching: Dispatching


@dataclass(frozen=True, slots=True)
class Own:
    """What this console's user alone may see, as far as it changed."""

    jobs: tuple[HeardJob, ...]
    events: tuple[tuple[int, Event], ...] = ()
    observations: tuple[Observation, ...] = ()
    calibrations: tuple[HostCalibration, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """One message to a console: exactly one of these."""

    hello: Hello | None = None
    picture: Picture | None = None
    own: Own | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """An act on jobs, or on a host."""

    verb: str
    jobs: tuple[str, ...] = ()
    """Exact ids."""
    host: str = ""
    number: int = 0
    text: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One job to queue."""

    task: Task
    estimate_mib: float | None
    estimate: Mapping[str, object] | None
    """Preflight's document, as the console has it."""


@dataclass(frozen=True, slots=True)
class Submission:
    """Jobs to queue, all or none; they share the packed project."""

    jobs: tuple[Wanted, ...]
    hold: bool
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    """What was said of them when they were made ready."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request."""

    jobs: tuple[HeardJob, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing became of a request."""

    kind: str
    title: str
    message: str
    hint: str = ""


MESSAGE = TypeAdapter(Message)
REQUEST = TypeAdapter(Request)
SUBMISSION = TypeAdapter(Submission)
ANSWER = TypeAdapter(Answer)
REFUSAL = TypeAdapter(Refusal)
FILES = TypeAdapter(tuple[ResultFile, ...])
ACTS = TypeAdapter(tuple[Act, ...])

_ERRORS: Mapping[str, type[ConsoleError]] = {
    "usage": UsageError,
    "journal": JournalError,
    "read-only": ReadOnlyError,
    "refused": RefusedError,
    "unreachable": UnreachableError,
}


def packed(message: Message) -> bytes:
    """Return a message as it is sent: pictures are alike for all, and compressed once for all."""
    return zlib.compress(MESSAGE.dump_json(message), 1)


def unpacked(data: bytes) -> Message:
    """Return the message that was sent. ValueError for one that is damaged or too large."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data, PICTURE_BYTES)
    except zlib.error as error:
        raise ValueError(f"a message is damaged: {error}") from error
    if not unpacking.eof:
        raise ValueError(f"a message has more than {PICTURE_BYTES} bytes")
    return MESSAGE.validate_json(text)


def refusal_of(error: ConsoleError) -> Refusal:
    """Return an error as it is sent."""
    # The most special kind that is known at the far end.
    kinds = [kind for kind, known in _ERRORS.items() if isinstance(error, known)]
    kind = max(kinds, key=lambda one: len(_ERRORS[one].__mro__), default="unreachable")
    return Refusal(kind, error.title, error.message, error.hint)


def error_of(refusal: Refusal) -> ConsoleError:
    """Return the error that was sent, in words that are fit for a terminal."""
    kind = _ERRORS.get(refusal.kind, RefusedError)
    lines = map(clean, refusal.message.splitlines()[:_MOST_LINES])
    return kind(clean(refusal.title, 200), "\n".join(lines), clean(refusal.hint))


def outdated(theirs: int) -> RefusedError:
    """Return what is said to a console, or by one, of another version."""
    older = "console" if theirs < VERSION else "service"
    return RefusedError(
        "Other version",
        f"The console speaks version {theirs} of the lab queue's protocol, the service {VERSION}.",
        f"Update gpuconsole where the {older} runs.",
    )

"""What goes between the lab's service and its consoles: HTTP on a unix socket.

    GET  /v1/watch              a WebSocket: `Hello`, then a `Picture` and an `Own` when they
                                change, each as zlib of a `Message`
    POST /v1/act                a `Request`; returns `Answer`
    POST /v1/submit             multipart: a `Submission`, then the packed project; returns `Answer`
    POST /v1/measure            multipart: a `Measurement`, then the packed project; returns lines
                                of JSON, see `measuring`
    POST /v1/operation          an `Operation`; returns lines of JSON, see `operations`
    GET  /v1/images             `ImageRecord`s of ?host, or of one &image there
    GET  /v1/digest             the digest from a registry through ?host of an &image
    GET  /v1/image              `ImageFacts` of ?host&image, or null
    GET  /v1/log                a part of a log: ?job&attempt&rank&offset&wait
    GET  /v1/results            a tar: ?job&host&what
    GET  /v1/files              what a job has left on a host: ?job&host
    GET  /v1/inside             a WebSocket into a container: ?host&container&target, see `inside`
    GET  /v1/audit              the latest acts: ?limit
    POST /v1/notify             a `Notify`: notifications for its user; returns `Notified`
    GET  /v1/report             device-hours, energy and cost: ?since&until&by
    GET  /v1/head               `HeadState`: whether this head leads, and where the one is that does
    GET  /v1/journal            a WebSocket for a standby: `session.standby.protocol`
    GET  /v1/journal/file       what a job needs, for a standby: ?job&what

A standby head answers `head`, and `act` with the verb `takeover`; to everything else it
answers where the lab's queue is.

Callers are identified by the socket, and by nothing that is sent; a header `THROUGH` names, for the
audit alone, the program that they use. An answer that is no success is a
`Refusal` with the words of the error. Each side bounds what it reads.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import ImageFacts, PruneResult, ResultFile
from gpuconsole.core.devices.host_faults import FaultStreak
from gpuconsole.core.devices.run_history import HostCalibration, Observation
from gpuconsole.core.events import Event
from gpuconsole.core.images import ImageRecord
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job, Mount, Task
from gpuconsole.core.lab_service.audit import Act
from gpuconsole.core.services import Replica
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.core.util.adapter import Adapter
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import (
    ConsoleError,
    EngineError,
    HostBusyError,
    ImageError,
    JournalError,
    NotHereError,
    ReadOnlyError,
    RefusedError,
    ScriptFailedError,
    UnreachableError,
    UsageError,
)
from gpuconsole.session.fleet.changes import FleetChanges
from gpuconsole.session.images.copy import Copied
from gpuconsole.session.report.model import UsageReport
from gpuconsole.state import Drain
from gpuconsole.state.files.images import ImageCheck

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
        replica=_heard_replica(job.replica),
    )


def _heard_replica(replica: Replica | None) -> Replica | None:
    if replica is None:
        return None
    said, leaving = clean(replica.said, 500), clean(replica.leaving_for, 500)
    return replace(replica, said=said, leaving_for=leaving)


HeardJob = Annotated[Job, AfterValidator(_heard)]
"""A job of which the far end tells."""

THROUGH = "X-Gpuconsole-Through"
"""The header that names the program through which somebody asks."""
MOST_THROUGH = 80
"""Letters of that name."""
VERSION = 1
"""Grows when an older console would misread the service, or the other way round."""
SOCKET = Path("/run/gpuconsole/queue.sock")
PICTURE_BYTES = 256 * MIB
"""Of a message to a console; a lab of 10,000 hosts stays far below."""
REQUEST_BYTES = 4 * MIB
"""Of a request but the packed project, which the lab's settings bound."""
MOST_JOBS = 10_000
"""Jobs of an account that have not ended."""
MOST_IN_ACT = 1_000
"""Jobs of one act: as many as a sweep may have. More would hold up everybody's pictures."""
NO_DEVICE = -1
"""No device, in an `Operation`."""
OFFERS = ("operation", "device", "inside", "records")
"""Operations on hosts and looks at their images; measuring on a device; connections into
containers. A console asks no service
for what it does not offer."""


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
    offers: tuple[str, ...] = ()
    """What the service does that the first ones of its version did not: see `OFFERS`."""


@dataclass(frozen=True, slots=True)
class Dispatching:
    """Who starts jobs, and how long ago it gave a sign of life (s)."""

    owner: str
    quiet_s: float


@dataclass(frozen=True, slots=True)
class Picture:
    """What everybody may see, as far as it changed; all of it where `whole`."""

    whole: bool
    fleet: FleetChanges
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
    incidents: tuple[Incident, ...] | None = None
    """All incidents that the user sees otherwise than others, by marks of their own; None where
    that has not changed."""


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
class Measurement:
    """A script to measure on a host, without a device."""

    host: str
    image: str
    mounts: tuple[Mount, ...]
    request: Mapping[str, object]
    """What the probe is asked; it runs in the container and nowhere else."""
    patient: bool = True
    """Whether to wait while the host measures for others."""
    device: str = ""
    """UUID of the device to measure on; "" for none."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Work on hosts that takes long. Which fields count is the verb's matter."""

    verb: str
    """`pull`, `check`, `copy`, `calibrate` or `prune`."""
    image: str = ""
    host: str = ""
    fetches: tuple[tuple[str, str], ...] = ()
    """Pairs of host and image, in the order in which they are to be pulled."""
    source: str = ""
    """The host from which is copied."""
    device: int | None = None
    """The index of a device; NO_DEVICE for none at all, None for one that is idle."""
    replace: bool = False
    """Whether a copy takes its name from another image."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request."""

    jobs: tuple[HeardJob, ...] = ()


@dataclass(frozen=True, slots=True)
class HeadState:
    """What a head says of itself."""

    leads: bool
    name: str
    active: str = ""
    """Name of the head that leads, where this one knows it and does not lead."""
    standby: str = ""
    """Name of the head that follows this one; "" where none does."""
    in_step: bool = False
    """Whether the standby may take over without loss."""
    note: str = ""
    """What prevents a take-over."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing became of a request."""

    kind: str
    title: str
    message: str
    hint: str = ""
    file: str = ""
    """The place in a script, where it is its own error."""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Pulled:
    """How one pull ended."""

    host: str
    image: str
    refusal: Refusal | None = None
    """Why the host does not have the image."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of an image found."""

    check: ImageCheck
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notify:
    """How the caller wants to be notified of jobs. The service keeps it until another comes."""

    settings: str = field(repr=False)
    """`notify` of the caller's own settings, as JSON."""
    test: bool = False
    """Whether a test message is sent."""


@dataclass(frozen=True, slots=True)
class Notified:
    """What became of a `Notify`."""

    way: str
    """The way that took the test message; "" where there was none."""
    refused: tuple[str, ...]
    """Why other ways are of no use from the lab's service."""


MESSAGE = Adapter(Message)
NOTIFY = Adapter(Notify)
NOTIFIED = Adapter(Notified)
REQUEST = Adapter(Request)
SUBMISSION = Adapter(Submission)
ANSWER = Adapter(Answer)
REFUSAL = Adapter(Refusal)
MEASUREMENT = Adapter(Measurement)
OPERATION = Adapter(Operation)
PULLED = Adapter(tuple[Pulled, ...])
CHECKED = Adapter(Checked)
COPIED = Adapter(Copied)
CALIBRATED = Adapter(HostCalibration)
PRUNED = Adapter(dict[str, PruneResult])
IMAGES = Adapter(tuple[ImageRecord, ...])
DIGEST = Adapter(str)
IMAGE: Adapter[ImageFacts | None] = Adapter(ImageFacts | None)
HEAD = Adapter(HeadState)
FILES = Adapter(tuple[ResultFile, ...])
ACTS = Adapter(tuple[Act, ...])
REPORT = Adapter(UsageReport)

_ERRORS: Mapping[str, type[ConsoleError]] = {
    "usage": UsageError,
    "journal": JournalError,
    "read-only": ReadOnlyError,
    "refused": RefusedError,
    "script": ScriptFailedError,
    "not-here": NotHereError,
    "busy": HostBusyError,
    "engine": EngineError,
    "image": ImageError,
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
    kinds = [kind for kind, error_type in _ERRORS.items() if isinstance(error, error_type)]
    kind = max(kinds, key=lambda kind_: len(_ERRORS[kind_].__mro__), default="unreachable")
    place = (error.file, error.line) if isinstance(error, ScriptFailedError) else ("", 0)
    return Refusal(kind, error.title, error.message, error.hint, *place)


def error_of(refusal: Refusal) -> ConsoleError:
    """Return the error that was sent, in words that are fit for a terminal."""
    kind = _ERRORS.get(refusal.kind, RefusedError)
    lines = map(clean, refusal.message.splitlines()[:_MOST_LINES])
    words = (clean(refusal.title, 200), "\n".join(lines), clean(refusal.hint))
    if kind is ScriptFailedError:
        return ScriptFailedError(*words, file=clean(refusal.file), line=refusal.line)
    return kind(*words)


def outdated(theirs: int) -> RefusedError:
    """Return what is said to a console, or by one, of another version."""
    older = "console" if theirs < VERSION else "service"
    return RefusedError(
        "Other version",
        msg(
            "The console speaks version {theirs} of the lab queue's "
            "protocol, the service {version}.",
            theirs=theirs,
            version=VERSION,
        ),
        msg("Update gpuconsole where the {older} runs.", older=older),
    )

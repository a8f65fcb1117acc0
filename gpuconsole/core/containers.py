"""Containers and leases as data, and the port through which the session reaches an engine.

`remote` implements the ports for real hosts, `lab` for the simulated one; the session, queue and
screens cannot tell which they drive.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol

from gpuconsole.core.devices.device_sharing import Share
from gpuconsole.core.engines.batch_job import Batch
from gpuconsole.core.engines.transfers import LeftOut, TransferLimits
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot
from gpuconsole.core.jobs import Mount
from gpuconsole.core.util.lazy_dataclass import dataclass

LABEL_PREFIX = "gpuconsole."
"""Every object that the console makes on an engine carries labels below this prefix:
`job`, `attempt`, `user`, `name` (the task's), `journal` (the journal's id), `nonce`, `share` (what
it takes of a device that it shares), `image` (the name of its image, as the engine gets the id),
and for leases `lease` (the device's UUID), `since`."""
KIND_LABEL = LABEL_PREFIX + "kind"
"""On the container of a job: its task's kind, such as `training`, `service` or `session`."""

MEASUREMENT, CALIBRATION = "measure-", "calibrate-"
"""How the ids begin of what leases devices and runs containers, and is no job."""
TIME_LIMIT_LABEL = LABEL_PREFIX + "time-limit"
"""On the container of a measurement: seconds from its creation on, after which no console waits for
it and any may remove it."""

CHECKPOINT_FOLDER = "checkpoint"
"""What a job's checkpoint is called among its results once they are fetched."""
CALIBRATION_FOLDER = "calibrate"
"""The results folder that all calibrations and measurements of a host share; it stays empty."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """Everything that decides how an attempt's container is made."""

    name: str
    image: str
    command: tuple[str, ...]
    working_dir: str = "/workspace"
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables with values that are never shown. They take precedence over `env`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    backend: str = "gpu"
    device_uuids: tuple[str, ...] = ()
    device_indexes: tuple[int, ...] = ()
    user: str = ""
    """`uid:gid`; never root unless the lab says so."""
    memory_limit_mib: float | None = None
    shm_size_mib: float = 8192.0
    pids_limit: int = 4096
    cpuset: str = ""
    network: str = "none"
    """Docker's word: `none`, `bridge`, `host`, or a network's name."""
    cpus: float | None = None
    """How many processors it may keep busy; None means all."""
    read_only: bool = False
    """Whether it can write to nothing of its own but `memory_folders`."""
    input_folders: tuple[str, ...] = ()
    """Folders that `put` fills before it starts, and that go with it; its user can only read what
    is in them where it is `read_only`."""
    memory_folders: Mapping[str, float] = field(default_factory=dict)
    """Folders in memory that its user may write to, each with its size in MiB."""
    log_mib: float = 1024.0
    """How much of its output the engine keeps."""
    python_path: str = ""
    """A folder in which Python looks before those that the image or `env` name."""
    share: Share | None = None
    """What it takes of its device where it lets another job beside it."""
    batch: Batch | None = None
    """What an engine with a queue of its own is asked for; None where the console placed it."""
    vendor: str = ""
    """Who made its devices, as `core.vendors` knows it; "" for the usual one of its back end."""
    runtime: str = ""
    """The engine's runtime that adds its devices; "" for the engine's own."""
    node_groups: tuple[int, ...] | None = None
    """Groups that may open its devices' nodes on the host; None where that is not known."""
    terminal: bool = False
    """Whether the engine holds a terminal for it where its image has no Python, which keeps that of
    a session otherwise."""


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """A container as the engine reports it."""

    id: str
    name: str
    state: str
    """Docker's word: created, running, paused, restarting, removing, exited, dead; or `pending`
    where the engine has a queue of its own and the container waits in it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    exit_code: int | None = None
    oom_killed: bool = False
    error: str = ""
    created_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    note: str = ""
    """What the engine says of it while it waits or runs, as sentences."""
    overdue: bool = False
    """Whether it is a measurement that no console waits for any more, by `TIME_LIMIT_LABEL` and
    the engine's own clock."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The claim of an attempt on one device."""

    uuid: str
    job: str
    attempt: str
    user: str
    journal: str
    since: float
    share: Share | None = None
    """What the job takes of the device; None when it wants all of it for itself."""


@dataclass(frozen=True, slots=True)
class LeadMark:
    """What a host bears witness of: to which head of a lab's queue it has given an epoch."""

    epoch: int
    head: str
    """Id of the head's state folder."""
    name: str
    """The head's name, for a person."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine says about itself."""

    version: str
    runtimes: tuple[str, ...] = ()
    gpu_runtime: bool = False
    architecture: str = ""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What an engine says about an image that it has."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Of its variables only those that name a device's tools; others may be secret."""
    architecture: str = ""
    id: str = ""
    """`sha256:` and 64 digits: the same on every host that has the image."""
    paddle: str = ""
    """Version of the Paddle that a check found in it; "" while none has looked."""
    paddle_cuda: str = ""
    """The CUDA that this Paddle is built for: a version, `none`, or "" where it is not known."""


@dataclass(frozen=True, slots=True)
class HostAccount:
    """The account that the console uses on a host, and where a job's results go there."""

    uid: int
    gid: int
    results_dir: str
    node_groups: tuple[int, ...] | None = None
    """Groups that own nodes of accelerators there; None if this was not checked."""

    @property
    def checkpoint_dir(self) -> str:
        """The job's checkpoint: beside the results, where no container can replace it."""
        return f"{self.results_dir}.checkpoint"


@dataclass(frozen=True, slots=True)
class HostNetwork:
    """How other hosts of the lab reach a host."""

    address: str
    """IPv4: Paddle's launcher divides address and port at the first colon."""
    interface: str
    busy_ports: frozenset[int] = frozenset()
    """TCP ports on which something listens there."""


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file that a job has left, by its path in the results folder."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What a prune removed on one host."""

    containers: int = 0
    leases: int = 0
    results_kept: int = 0
    results_removed: int = 0


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last bytes of a container's output."""

    data: bytes
    whole: bool
    """Whether this is all of the output."""


class ByteStream(Protocol):
    """A connection to something inside a container. What breaks the way ends it."""

    async def read(self) -> bytes:
        """Return what came, as soon as there is anything; b"" at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; returns once there is room for more. Dropped after the end."""
        ...

    async def write_eof(self) -> None:
        """Say that nothing more comes; what the other end sends is still read."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


class Engine(Protocol):
    """A container engine on one host. Every method may raise UnreachableError or EngineError."""

    async def info(self) -> EngineInfo:
        """Ask the engine who it is."""
        ...

    async def ping(self) -> None:
        """Ask for a sign of life; UnreachableError within a few seconds where none comes."""
        ...

    async def claim(self, leases: Sequence[Lease]) -> None:
        """Claim all devices or none, in UUID order; LeaseTakenError names one that is taken.

        Claiming again what the same job attempt already holds succeeds, and so does a claim that
        `core.devices.device_sharing.fit_together` lets stand beside another.
        """
        ...

    async def leases(self) -> tuple[Lease, ...]:
        """List all leases on the host, of every console."""
        ...

    async def release(self, attempt: str, uuids: Sequence[str]) -> None:
        """Give back the devices that this attempt holds; others' leases are left alone."""
        ...

    async def sign(self, journal: str) -> str:
        """Show other consoles that this journal's console is at work here; returns what `remove`
        takes back, "" where there is nothing to show.

        A container that has not started for the grace time, without a younger sign of its
        journal, may be removed by any console.
        """
        ...

    async def lead_marks(self, journal: str) -> tuple[LeadMark, ...]:
        """Return the marks of the heads of a lab's queue on this host, by their epochs."""
        ...

    async def mark_lead(self, journal: str, mark: LeadMark) -> tuple[LeadMark, ...]:
        """Leave a mark, unless another head has its epoch here; returns all marks then."""
        ...

    async def image_facts(self, image: str) -> ImageFacts | None:
        """Tell what an image is made for; None where the host does not have it."""
        ...

    async def ensure_image(self, image: str, progress: Callable[[str], None]) -> None:
        """Make the image present, telling `progress` sentences; ImageError if it cannot be had."""
        ...

    async def network(self) -> HostNetwork:
        """Return how other hosts reach this one. Raises EngineError if that is unknown."""
        ...

    async def prepare(
        self, job_id: str, *, checkpoint: bool = False, owner: str = ""
    ) -> HostAccount:
        """Make the job's results folder on the host, and one for its checkpoint if it wants that;
        tell who owns them: the account used there, or, where that is root, `owner` (`uid:gid`).

        RefusedError where a script has put something else in their place.
        """
        ...

    async def create(self, spec: ContainerSpec) -> str:
        """Create the container and return its id; the same name again returns the same id."""
        ...

    async def put(self, container: str, bundle: Path, target: str) -> None:
        """Unpack a tar (may be gzipped) of code into the created container."""
        ...

    async def start(self, container: str) -> None:
        """Start the container; starting a running one is no error."""
        ...

    def logs(self, container: str, *, follow: bool) -> AsyncIterator[bytes]:
        """Give the container's output from its beginning, in chunks."""
        ...

    async def log_tail(self, container: str, size: int) -> LogTail:
        """Return the end of the container's output: its last lines, of `size` bytes at most."""
        ...

    async def connect(self, container: str, target: str) -> ByteStream:
        """Connect to a port, or the path of a unix socket, inside a running container.

        RefusedError where nothing listens there; NotHereError where that cannot be done.
        """
        ...

    async def inspect(self, container: str) -> ContainerStatus | None:
        """Look at a container by id or name; None when there is none."""
        ...

    async def own(self, journal: str) -> tuple[ContainerStatus, ...]:
        """List the job containers (not leases) that carry this journal's label."""
        ...

    async def stop(self, container: str, grace_s: float) -> None:
        """SIGTERM, then SIGKILL after the grace time; a stopped container is no error."""
        ...

    async def remove(self, container: str) -> None:
        """Remove the container; one that is gone is no error."""
        ...

    async def read_files(self, container: str, folder: str) -> Mapping[str, bytes]:
        """Return the small files of a folder inside a container, running or not, by their names;
        none when there is no such container or folder."""
        ...

    def results(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the job's results folder as a tar stream; RefusedError when it is gone."""
        ...

    def records(self, job_id: str) -> AsyncIterator[bytes]:
        """Give VisualDL's record files among the job's results as a tar stream; nothing where there
        are none. RefusedError when the results are gone."""
        ...

    def checkpoint(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the job's checkpoint as a tar stream; nothing where it has none, RefusedError where
        a script has put something else in its place."""
        ...

    async def restore(
        self,
        job_id: str,
        container: str,
        archive: AsyncIterator[bytes],
        target: str,
        limits: TransferLimits,
    ) -> LeftOut:
        """Put a checkpoint that another host sends as a tar in the place of this one's, through the
        created container that has it at `target`; returns what of it was left out.

        UsageError for an archive that is damaged, or larger than the limits. What `archive` raises
        is raised here, and the former checkpoint stays.
        """
        ...

    async def list_results(self, job_id: str) -> tuple[ResultFile, ...]:
        """List the files of results and checkpoint, the largest first; RefusedError when they are
        gone."""
        ...

    async def prune(self, keep_jobs: frozenset[str], journal: str) -> PruneResult:
        """Remove this journal's ended containers and leases of jobs not in `keep_jobs`."""
        ...


class Hosts(Protocol):
    """The fleet as the session uses it: pictures that never block, engines on demand."""

    async def start(self) -> None:
        """Begin to poll."""
        ...

    async def close(self) -> None:
        """End all links and what runs at their far ends for us."""
        ...

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture; cheap when nothing changed."""
        ...

    async def engine(self, host: str) -> Engine:
        """Return the engine of a host; UnreachableError when it cannot be reached now."""
        ...

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """Send TERM, INT or KILL to a process of a host, if it still is the one that is meant.

        RefusedError when it is not, or may not be signalled.
        """
        ...

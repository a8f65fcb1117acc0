"""All containers of a host, not only those of gpuconsole: what an engine lists, and who uses which
devices.

All texts come from hosts; the engine's lister cleans them first.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from gpuconsole.core.engines.processes import Process
from gpuconsole.core.fleet import Host
from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

MOST = 2000
"""Containers of one host that are listed, the newest."""
RUNNING = ("running", "paused", "restarting")
"""States of a container that has processes."""
_NAMED = 8
"""Containers that an error names."""


@dataclass(frozen=True, slots=True)
class HostContainer:
    """One container on one host."""

    host: str
    id: str
    """The full id."""
    name: str
    image: str
    state: str
    """Docker's word: created, running, paused, restarting, removing, exited, dead."""
    status: str = ""
    """The engine's own sentence on it, such as `Up 3 hours` or `Exited (1) 2 days ago`."""
    command: str = ""
    created_at: float | None = None
    devices: tuple[int, ...] = ()
    """Indexes of devices on which one of its processes is seen. A container that holds idle devices
    is indistinguishable from one that holds none."""
    users: tuple[str, ...] = ()
    """Accounts of its processes on those devices."""
    job: str = ""
    """The job of this queue that it is an attempt of, or ""."""

    @property
    def key(self) -> str:
        """What it is called on a command line."""
        return f"{self.host}:{self.name or self.id[:12]}"

    @property
    def runs(self) -> bool:
        """Whether it has processes."""
        return self.state in RUNNING

    def as_json(self) -> dict[str, object]:
        """Return it as `containers --json` shows it."""
        return {
            "id": self.id,
            "name": self.name,
            "image": self.image,
            "state": self.state,
            "status": self.status,
            "command": self.command,
            "created_at": None if self.created_at is None else iso_utc(self.created_at),
            "devices": list(self.devices),
            "users": list(self.users),
            "job": self.job or None,
        }


@dataclass(frozen=True, slots=True)
class Listed:
    """What an engine lists."""

    containers: tuple[HostContainer, ...] = ()
    left_out: int = 0
    """How many older ones it has beyond `MOST`."""


@dataclass(frozen=True, slots=True)
class HostContainers:
    """The containers of a host, or why they cannot be listed."""

    host: str
    containers: tuple[HostContainer, ...] = ()
    left_out: int = 0
    error: str = ""
    hint: str = ""

    def as_json(self) -> dict[str, object]:
        """Return them as `containers --json` shows them."""
        return {
            "host": self.host,
            "error": self.error or None,
            "left_out": self.left_out,
            "containers": [each.as_json() for each in self.containers],
        }


class Command(Process, Protocol):
    """A command that an engine has made ready in a container; it begins with `start`."""

    async def start(self, size: tuple[int, int] | None = None) -> None:
        """Begin; with a terminal, of so many columns and rows."""
        ...

    async def leave(self) -> None:
        """Let it run on once it is closed, which ends it otherwise."""
        ...


class ContainerAccess(Protocol):
    """The containers of one host. Every method may raise UnreachableError or EngineError."""

    async def list(self, *, stopped: bool) -> Listed:
        """List them, the newest first; without `stopped` those alone that have processes."""
        ...

    def log(
        self, container: str, *, follow: bool, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Give a container's output, or its last lines; RefusedError where the engine keeps none.

        With `follow` it goes on until the container ends, or is gone, or the way breaks.
        """
        ...

    async def command(
        self,
        container: str,
        words: Sequence[str],
        *,
        terminal: bool,
        typing: bool,
        user: str = "",
        watched: bool = True,
    ) -> Command:
        """Make a command ready in a running container; nothing runs before it is started.

        `typing` says whether it gets input, `user` as whom it runs, else as the container's. A
        command that is `watched` is ended when the connection to it breaks.
        """
        ...


JobsByContainer: TypeAlias = Mapping[str, str]


def jobs_by_container(jobs: Iterable[Job]) -> JobsByContainer:
    """Return the jobs' ids by the ids of the containers of all their attempts."""
    return {
        container: job.id
        for job in jobs
        for attempt in job.attempts
        for container in (attempt.container_id, *(part.container_id for part in attempt.parts))
        if container
    }


def joined(
    containers: Iterable[HostContainer], host: Host | None, jobs: JobsByContainer
) -> tuple[HostContainer, ...]:
    """Return the containers with what is seen of them on the host's devices, and their jobs."""
    devices: dict[str, set[int]] = {}
    users: dict[str, set[str]] = {}
    for device in host.devices if host is not None else ():
        for process in device.processes:
            devices.setdefault(process.container_id, set()).add(device.index)
            if process.user:
                users.setdefault(process.container_id, set()).add(clean(process.user, 60))
    return tuple(
        replace(
            each,
            devices=tuple(sorted(devices.get(each.id, each.devices))),
            users=tuple(sorted(users.get(each.id, each.users))),
            job=jobs.get(each.id, ""),
        )
        for each in containers
    )


def split_reference(reference: str) -> tuple[str, str]:
    """Return host and container of `HOST:CONTAINER`; UsageError where it is none."""
    host, colon, container = reference.rpartition(":")
    if not (colon and host and container):
        raise UsageError(
            "Which container?",
            msg("`{name}` names no host.", name=clean(reference, 80)),
            "Write HOST:CONTAINER, as `gpuconsole containers` shows them.",
        )
    return host, container


def find(containers: Iterable[HostContainer], host: str, wanted: str) -> HostContainer:
    """Return the container with that name or id, or else the only one with a name or id of that
    prefix.

    Raises UsageError if none or several match; the error names the matches.
    """
    candidates = tuple(containers)
    exact = [each for each in candidates if wanted in (each.name, each.id)]
    matches = exact or [
        each for each in candidates if each.name.startswith(wanted) or each.id.startswith(wanted)
    ]
    if len(matches) == 1:
        return matches[0]
    shown = clean(wanted, 80)
    if not matches:
        raise UsageError(
            "No such container",
            msg("{host} has no container `{name}`.", host=host, name=shown),
            msg("See: gpuconsole containers --all --host {host}", host=host),
        )
    names = ", ".join(each.name or each.id[:12] for each in matches[:_NAMED])
    more = f", … ({len(matches)})" if len(matches) > _NAMED else ""
    raise UsageError(
        "Several containers are meant",
        msg("On {host} `{name}` begins: {names}.", host=host, name=shown, names=names + more),
        "Write more of the name, or of the id.",
    )

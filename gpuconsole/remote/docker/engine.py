"""`DockerEngine`: the container engine of one host, through its link.

Access to a Docker socket is root on that host; the console does no more than its account could
already do there.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
import re
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker

from gpuconsole.core.containers import (
    CALIBRATION_FOLDER,
    LABEL_PREFIX,
    TIME_LIMIT_LABEL,
    ByteStream,
    ContainerSpec,
    ContainerStatus,
    EngineInfo,
    HostAccount,
    HostNetwork,
    ImageFacts,
    LeadMark,
    Lease,
    LogTail,
    PruneResult,
    ResultFile,
)
from gpuconsole.core.engines.device_requests import container_labels
from gpuconsole.core.engines.terminals import SOCKET
from gpuconsole.core.engines.transfers import LeftOut, TransferLimits
from gpuconsole.core.images import parse_reference
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import Blame, ContainerGoneError, EngineError, ImageError
from gpuconsole.remote import docker_attach, docker_streams
from gpuconsole.remote import gang_network as network
from gpuconsole.remote.docker import files, launches, leader_marks, measurements
from gpuconsole.remote.docker import leases as docker_leases
from gpuconsole.remote.docker import logs as docker_logs
from gpuconsole.remote.docker.containers import DockerContainers
from gpuconsole.remote.docker.errors import answer_of, image_error, no_registry_has, status_of
from gpuconsole.remote.docker.image_store import DockerImageStore
from gpuconsole.remote.docker.images import (
    PullProgress,
    image_facts,
    is_present,
    open_pull,
    refuse_own_labels,
)
from gpuconsole.remote.docker.marker_containers import is_lease
from gpuconsole.remote.docker.spec import create_options
from gpuconsole.remote.docker.status import container_status, engine_info, is_podman
from gpuconsole.remote.docker.thread_pool import DockerCalls
from gpuconsole.remote.links.protocol import Link
from gpuconsole.remote.transfer.job_folders import JobFolders
from gpuconsole.remote.transfer.stream_file import Feed

_JOB, _JOURNAL, _IMAGE = (LABEL_PREFIX + word for word in ("job", "journal", "image"))
_IDENTITY = tuple(LABEL_PREFIX + word for word in ("job", "attempt", "nonce", "journal"))
VOLUME_MIB = 64.0
"""Of a folder in memory in place of a volume."""
_ID = re.compile(r"[0-9a-f]{64}")
# Docker looks for it on its own PATH, which is not that of an account.
_HOOK = (
    'PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"; '
    "command -v nvidia-container-runtime-hook"
)
REMOVAL_S, REMOVAL_LOOK_S = 5.0, 0.2
"""How long a removal that is under way already is waited for, and how often it is looked at."""
_STARTED = ("running", "paused", "restarting", "removing", "exited", "dead")


class DockerEngine:
    """Speaks the Docker Engine API over a unix socket of the host."""

    def __init__(
        self,
        link: Link,
        host: str,
        socket_path: str = "/var/run/docker.sock",
        *,
        lease_grace_s: float = docker_leases.GRACE_S,
        interface: str = "",
        road: str = "",
    ) -> None:
        """`interface` is the one over which gangs talk; "" means the one that is reached. `road`
        names the link that the host shares with others."""
        self.host = host
        self._link = link
        self._folders = JobFolders(link, host)
        self._calls = DockerCalls(link, host, socket_path)
        self.images = DockerImageStore(self._calls, host, road)
        self.containers = DockerContainers(self._calls)
        self._lease_grace_s = lease_grace_s
        self._interface = interface

    async def close(self) -> None:
        """Let go of the engine; containers run on."""
        await self._calls.close()

    async def info(self) -> EngineInfo:
        """Ask the engine who it is."""
        hook = await self._link.run(["/bin/sh", "-c", _HOOK])
        return await self._calls.run("asking who it is", _ask, hook.exit_status == 0)

    async def ping(self) -> None:
        """Ask for a sign of life; UnreachableError after three seconds without one."""
        await self._calls.ping()

    async def claim(self, leases: Sequence[Lease]) -> None:
        """Claim all devices or none, in UUID order; after a refusal the attempt holds none."""
        await self._calls.run("claiming devices", docker_leases.claim, leases, self._lease_grace_s)

    async def leases(self) -> tuple[Lease, ...]:
        """List the leases of every console, without those of jobs that are long gone."""
        return await self._calls.run("listing leases", docker_leases.current, self._lease_grace_s)

    async def release(self, attempt: str, uuids: Sequence[str]) -> None:
        """Give back the devices that this attempt holds."""
        await self._calls.run("releasing devices", docker_leases.release, attempt, uuids)

    async def sign(self, journal: str) -> str:
        """Show that the journal's console is at work here, while a launch takes long."""
        return await self._calls.run("showing a sign", launches.show_sign, journal)

    async def lead_marks(self, journal: str) -> tuple[LeadMark, ...]:
        """Return the marks of the heads of a lab's queue, by their epochs."""
        return await self._calls.run("reading who leads", leader_marks.marks, journal)

    async def mark_lead(self, journal: str, mark: LeadMark) -> tuple[LeadMark, ...]:
        """Leave a mark, unless another head has its epoch here; returns all marks then."""
        return await self._calls.run("marking who leads", leader_marks.leave_mark, journal, mark)

    async def image_facts(self, image: str) -> ImageFacts | None:
        """Tell what an image is made for; None where the host does not have it."""
        return await self._calls.run(f"looking for {image}", image_facts, image)

    async def ensure_image(self, image: str, progress: Callable[[str], None]) -> None:
        """Make the image present, pulling it if it is not."""
        if await self._calls.run(f"looking for {image}", is_present, image):
            return
        if parse_reference(image).id:
            raise no_registry_has(image, self.host)
        progress(msg("pulling {image}", image=image))
        pulled = PullProgress(image)
        try:
            async with contextlib.aclosing(
                self._calls.stream(f"pulling {image}", lambda client: open_pull(client, image))
            ) as chunks:
                async for chunk in chunks:
                    for sentence in pulled.feed(chunk):
                        progress(sentence)
        except ImageError:
            raise
        except EngineError as error:
            raise image_error(image, self.host, answer_of(error)) from error
        if pulled.error:
            raise image_error(image, self.host, pulled.error)

    async def network(self) -> HostNetwork:
        """Tell how other hosts reach this one, and which ports are taken."""
        return await network.ask(self._link, self.host, self._interface)

    async def prepare(
        self, job_id: str, *, checkpoint: bool = False, owner: str = ""
    ) -> HostAccount:
        """Make the job's results folder on the host, and one for its checkpoint if it wants that;
        tell who owns them. EngineError where they cannot be given to `owner`."""
        return await self._folders.prepare(job_id, checkpoint=checkpoint, owner=owner)

    async def create(self, spec: ContainerSpec) -> str:
        """Create the container; one of the same name is returned only if it is this attempt's.
        HostBusyError where it is another measurement's."""
        doing = f"creating {spec.name}"
        return await self._calls.run(doing, _create, spec, self.host, self._lease_grace_s)

    async def put(self, container: str, bundle: Path, target: str) -> None:
        """Unpack a tar of code into the created container, owned by the container's user;
        ContainerGoneError when somebody has removed it."""
        doing = f"copying code into {_short(container)}"
        await self._calls.run(doing, _put, container, bundle, target)

    async def start(self, container: str) -> None:
        """Start a created container; one that has started, even if it has ended, is left alone.

        LeaseTakenError when another attempt has leased one of its devices meanwhile,
        ContainerGoneError when somebody has removed it before it started.
        """
        await self._calls.run(f"starting {_short(container)}", _start, container)

    async def logs(self, container: str, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """Give the container's output from its beginning.

        A break of the link may look like the job's end: inspect the container afterwards. And
        Docker may end a follow before the last lines of a container that exits are in it: what
        is read again without `follow` begins with the same bytes and is complete.
        """
        frames = docker_logs.Demultiplexer()
        async with contextlib.aclosing(
            self._calls.stream(
                f"following {_short(container)}",
                lambda client: docker_logs.open_logs(client, container, follow),
            )
        ) as chunks:
            async for chunk in chunks:
                # One piece, not one for each line: a chatty script writes thousands a second.
                if piece := b"".join(frames.feed(chunk)):
                    yield piece

    async def log_tail(self, container: str, size: int) -> LogTail:
        """Return the end of the container's output, `size` bytes at most, as the engine has it."""
        for lines in docker_logs.TAIL_LINES:
            data, read, frames = b"", 0, docker_logs.Demultiplexer()
            opening = functools.partial(
                docker_logs.open_logs, container=container, follow=False, lines=lines
            )
            doing = f"reading the log of {_short(container)}"
            async with contextlib.aclosing(self._calls.stream(doing, opening)) as chunks:
                async for chunk in chunks:
                    piece = b"".join(frames.feed(chunk))
                    read += len(piece)
                    data = (data + piece)[-size:]
                    if read > docker_logs.TAIL_READ_BYTES:
                        break
            if read <= docker_logs.TAIL_READ_BYTES:
                break
        return LogTail(data, whole=frames.frames < lines and read == len(data))

    async def connect(self, container: str, target: str) -> ByteStream:
        """Connect to a port, or the path of a unix socket, inside a running container: as its own
        programs see it, whatever its network. RefusedError where nothing listens there,
        NotHereError where the container has no Python.

        A session's terminal is that of the engine where the container has one.
        """
        doing = f"looking for the terminal of {_short(container)}"
        if target == SOCKET and await self._calls.run(doing, docker_attach.has_terminal, container):

            async def tail() -> bytes:
                end = await self.log_tail(container, docker_attach.KEPT)
                return docker_attach.written(end.data)

            return await docker_attach.attach(self._calls, container, tail)
        return await docker_streams.dial(self._calls, container, target)

    async def inspect(self, container: str) -> ContainerStatus | None:
        """Look at a container by id or name; None when there is none."""
        return await self._calls.run(f"looking at {_short(container)}", _inspect, container)

    async def own(self, journal: str) -> tuple[ContainerStatus, ...]:
        """List the job containers that carry this journal's label."""
        return await self._calls.run("listing containers", _own, journal)

    async def running(self) -> tuple[str, ...]:
        """Return the names of all running containers, not only gpuconsole's."""
        return await self._calls.run("listing containers", _running)

    async def stop(self, container: str, grace_s: float) -> None:
        """SIGTERM, then SIGKILL after the grace time."""
        await self._calls.run(f"stopping {_short(container)}", _stop, container, grace_s)

    async def remove(self, container: str) -> None:
        """Remove the container, running or not."""
        await self._calls.run(f"removing {_short(container)}", _remove, container)

    async def read_files(self, container: str, folder: str) -> Mapping[str, bytes]:
        """Return the small files of a folder inside a container; other kinds are left out."""
        doing = f"reading {folder} of {_short(container)}"
        return await self._calls.run(doing, files.read_files, container, folder)

    def results(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the job's results folder as a tar stream."""
        return self._folders.results(job_id)

    def records(self, job_id: str) -> AsyncIterator[bytes]:
        """Give VisualDL's record files among the job's results as a tar stream."""
        return self._folders.records(job_id)

    def checkpoint(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the job's checkpoint as a tar stream; nothing where it has none."""
        return self._folders.checkpoint(job_id, adopt=True)

    async def restore(
        self,
        job_id: str,
        container: str,
        archive: AsyncIterator[bytes],
        target: str,
        limits: TransferLimits,
    ) -> LeftOut:
        """Put a checkpoint of another host in the place of this one's, through the created
        container that has it at `target`."""
        await self._folders.make_way(job_id)
        doing = f"copying the checkpoint into {_short(container)}"
        async with Feed().filled(archive) as feed:
            left_out = await self._calls.run(doing, files.restore, container, feed, target, limits)
        await self._folders.arrived(job_id)
        return left_out

    async def list_results(self, job_id: str) -> tuple[ResultFile, ...]:
        """List the files of results and checkpoint, the largest first."""
        return await self._folders.listed(job_id)

    async def prune(self, keep_jobs: frozenset[str], journal: str) -> PruneResult:
        """Remove this journal's ended containers and leases of jobs not in `keep_jobs`.

        Of results folders only those of the removed containers go, and only if they are empty.
        """
        jobs, containers, leases = await self._calls.run(
            "pruning", _prune, keep_jobs, journal, self._lease_grace_s
        )
        folders = [*jobs, CALIBRATION_FOLDER]
        removed, results_kept = await self._folders.tidy(folders, keep_jobs)
        return PruneResult(containers, leases, results_kept=results_kept, results_removed=removed)


def _short(container: str) -> str:
    """Return what a person calls a container: its name, or the first digits of its id."""
    return container[:12] if _ID.fullmatch(container) else container


def _ask(client: docker.APIClient, hook: bool) -> EngineInfo:
    return engine_info(client.version(), client.info(), hook)


def _create(client: docker.APIClient, spec: ContainerSpec, host: str, grace_s: float) -> str:
    if spec.device_uuids and is_podman(client.version()):
        raise EngineError(
            "Podman cannot hand over devices",
            msg(
                "The engine on {host} is Podman, which ignores the API's requests for GPUs.",
                host=host,
            ),
            "Install Docker there, or point `docker_socket` at Docker's socket.",
        )
    init = bool(client.info().get("InitBinary"))
    try:
        labels = {**container_labels(spec), _IMAGE: spec.image}
        # By its id from here on: the name may mean another image by the time of the call.
        checked = replace(spec, image=refuse_own_labels(client, spec.image, host, labels))
        complete = _without_volumes(client, _with_python_path(client, checked))
        options = {**create_options(client, complete, init=init), "labels": labels}
        container = _made(client, spec, host, grace_s, options)
        if spec.terminal and _wants_terminal(client, container):
            _remove(client, container)
            container = _made(client, spec, host, grace_s, {**options, **docker_attach.OPTIONS})
        return container
    except docker.errors.ImageNotFound as error:
        # It was there, or was pulled, a moment ago: somebody has removed it since.
        raise image_error(spec.image, host, str(error.explanation), Blame.PLACE) from error


def _wants_terminal(client: docker.APIClient, container: str) -> bool:
    """Return True if a container has not begun, and neither a terminal nor Python to keep one."""
    begun = client.inspect_container(container)["State"]["Status"] != "created"
    has_one = begun or docker_attach.has_terminal(client, container)
    return not has_one and docker_attach.lacks_python(client, container)


def _made(
    client: docker.APIClient,
    spec: ContainerSpec,
    host: str,
    grace_s: float,
    options: Mapping[str, Any],
) -> str:
    """Make a container; where its name is taken, return this attempt's own."""
    for _ in range(2):
        try:
            return str(client.create_container(**options)["Id"])
        except docker.errors.APIError as error:
            if status_of(error) != 409:
                raise
        if not measurements.make_way(client, spec.name, spec.labels, host, grace_s):
            return _adopt(client, spec, host)
    # An engine reserves a name before it shows the container that has it.
    raise measurements.busy(host)


def _with_python_path(client: docker.APIClient, spec: ContainerSpec) -> ContainerSpec:
    """Return the spec with its own folder before those of the task and of the image.

    Only the engine knows what the image says, and a variable that is given replaces the image's.
    """
    if not spec.python_path:
        return spec
    before = {**spec.env, **spec.secrets}.get("PYTHONPATH")
    if before is None:
        pairs = (item.partition("=") for item in _image(client, spec.image).get("Env") or ())
        before = next((value for name, _, value in pairs if name == "PYTHONPATH"), "")
    path = ":".join(filter(None, (spec.python_path, before)))
    return replace(spec, env={**spec.env, "PYTHONPATH": path})


def _without_volumes(client: docker.APIClient, spec: ContainerSpec) -> ContainerSpec:
    """Return a spec that is read-only without the volumes that its image asks for, which could be
    written and have no bounds: such folders are in memory."""
    if not spec.read_only:
        return spec
    own = {*spec.memory_folders, *spec.input_folders, *(mount.target for mount in spec.mounts)}
    asked = (
        posixpath.normpath(str(volume))
        for volume in _image(client, spec.image).get("Volumes") or ()
    )
    folders = {folder: VOLUME_MIB for folder in asked if folder not in own}
    return replace(spec, memory_folders={**spec.memory_folders, **folders})


def _image(client: docker.APIClient, image: str) -> Mapping[str, Any]:
    """Return how an image wants its containers made."""
    details: dict[str, Any] = client.inspect_image(image)  # type: ignore[no-untyped-call]
    return details.get("Config") or {}


def _adopt(client: docker.APIClient, spec: ContainerSpec, host: str) -> str:
    """Return the container that holds the spec's name if this very attempt made it."""
    details = client.inspect_container(spec.name)
    theirs, ours = details["Config"].get("Labels") or {}, container_labels(spec)
    if not ours.get(_JOB) or any(theirs.get(key) != ours.get(key) for key in _IDENTITY):
        raise EngineError(
            "The container's name is taken",
            msg(
                "{name} on {host} belongs to something else; it was left alone.",
                name=spec.name,
                host=host,
            ),
            msg(
                "Look at it with `docker inspect {name}`, and remove it if it is yours.",
                name=spec.name,
            ),
            blame=Blame.PLACE,
        )
    return str(details["Id"])


def _put(client: docker.APIClient, container: str, bundle: Path, target: str) -> None:
    with _unless_gone(client, container), tempfile.TemporaryFile() as archive:
        details = client.inspect_container(container)
        shut, user = (
            details["HostConfig"].get("ReadonlyRootfs"),
            details["Config"].get("User") or "",
        )
        # A root that is read-only takes files below its own folders alone, which are no host's.
        mounted = set() if shut else files.mounted_folders(client, details)
        files.rewrite(
            bundle, archive, "/" if shut else target, user, read_only=bool(shut), mounted=mounted
        )
        client.put_archive(container, target if shut else "/", archive)


def _start(client: docker.APIClient, container: str) -> None:
    with _unless_gone(client, container):
        details = client.inspect_container(container)
        if details["State"]["Status"] in _STARTED:
            return
        docker_leases.refuse_if_leased_away(client, details["Config"].get("Labels") or {})
        client.start(container)


@contextlib.contextmanager
def _unless_gone(client: docker.APIClient, container: str) -> Iterator[None]:
    """Raise ContainerGoneError where a refusal means that the container has been removed."""
    try:
        yield
    except docker.errors.APIError as error:
        # 404 may speak of a network or a folder, 409 of a removal that is under way.
        if status_of(error) not in (404, 409) or not _is_gone(client, container):
            raise
        raise ContainerGoneError(
            "Container is gone",
            msg("{container} was removed before it started.", container=_short(container)),
            "Another console may have taken this one for dead, after the lab's `lease_grace`.",
        ) from error


def _is_gone(client: docker.APIClient, container: str) -> bool:
    try:
        return bool(client.inspect_container(container)["State"]["Status"] == "removing")
    except docker.errors.NotFound:
        return True


def _inspect(client: docker.APIClient, container: str) -> ContainerStatus | None:
    try:
        status = container_status(client.inspect_container(container))
    except docker.errors.NotFound:
        return None
    return measurements.dated(client, status)


def _own(client: docker.APIClient, journal: str) -> tuple[ContainerStatus, ...]:
    wanted = [_JOB, f"{_JOURNAL}={journal}"]
    listed = client.containers(all=True, filters={"label": wanted})
    jobs = [item["Id"] for item in listed if not is_lease(item)]
    # One that went away since it was listed is simply not there.
    looked = (_inspect(client, container) for container in jobs)
    return tuple(status for status in looked if status is not None)


def _running(client: docker.APIClient) -> tuple[str, ...]:
    listed: list[dict[str, Any]] = client.containers()
    names = (next(iter(item.get("Names") or ()), str(item.get("Id", ""))[:12]) for item in listed)
    return tuple(clean(str(name).lstrip("/"), 100) for name in names)


def _stop(client: docker.APIClient, container: str, grace_s: float) -> None:
    with contextlib.suppress(docker.errors.NotFound):
        client.stop(container, timeout=round(grace_s))


def _remove(client: docker.APIClient, container: str, wait_s: float = REMOVAL_S) -> None:
    """Remove a container. APIError where it is still there after `wait_s`: a removal that is under
    way already may fail, and then leaves a dead container."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            client.remove_container(container, v=True, force=True)
            return
        except docker.errors.APIError as error:
            if status_of(error) == 404:
                return
            if status_of(error) != 409 or time.monotonic() >= deadline:
                raise
        time.sleep(REMOVAL_LOOK_S)


def _prune(
    client: docker.APIClient, keep_jobs: frozenset[str], journal: str, grace_s: float
) -> tuple[list[str], int, int]:
    """Prune; APIError of a container that cannot be removed, after all others are."""
    jobs = []
    refused: docker.errors.APIError | None = None
    for status in _own(client, journal):
        job = status.labels[_JOB]
        in_use = TIME_LIMIT_LABEL in status.labels and not status.overdue
        if job not in keep_jobs and status.state in ("created", "exited", "dead") and not in_use:
            try:
                _remove(client, status.id)
                jobs.append(job)
            except docker.errors.APIError as error:
                refused = refused or error
    ours = [
        item
        for item in docker_leases.held(client)
        if item.lease.journal == journal and item.lease.job not in keep_jobs
    ]
    removed = sum(docker_leases.remove(client, item) for item in ours)
    reaped = len(docker_leases.reap(client, grace_s))
    if refused is not None:
        raise refused
    return sorted(set(jobs)), len(jobs), removed + reaped

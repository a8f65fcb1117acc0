"""The container engine of a simulated host: the same promises as the real one's."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from gpuconsole.core.containers import (
    LABEL_PREFIX,
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
from gpuconsole.core.devices.device_sharing import fit_together
from gpuconsole.core.engines.terminals import SOCKET
from gpuconsole.core.engines.transfers import LeftOut, TransferLimits
from gpuconsole.core.fleet import HostState
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, ImageError, LeaseTakenError, UnreachableError
from gpuconsole.simulated_lab.container_script import (
    PROJECT,
    plan_for,
    script_fault,
    step_seconds,
)
from gpuconsole.simulated_lab.containers import SimulatedContainer, container_id
from gpuconsole.simulated_lab.foreign import SimulatedForeign
from gpuconsole.simulated_lab.host import SimulatedHost
from gpuconsole.simulated_lab.images import SimulatedImages
from gpuconsole.simulated_lab.terminal import SimulatedLook, SimulatedTerminal

_JOB, _JOURNAL = LABEL_PREFIX + "job", LABEL_PREFIX + "journal"
_PULL_STEPS = 5
_PULL_STEP_S = 0.6
_EMPTY_TAR = bytes(10240)
"""Two blocks of zeros end a tar, and tar pads to 20 blocks."""
_FOLLOW_S = 0.1
"""Console seconds between two looks at a log that is followed."""


class SimulatedEngine:
    """Implements `core.containers.Engine` on the lab's clock; nothing is run."""

    def __init__(self, host: SimulatedHost) -> None:
        """Speak for one host."""
        self._host = host
        self.images = SimulatedImages(host)
        self.containers = SimulatedForeign(host)

    async def info(self) -> EngineInfo:
        """Ask the engine who it is."""
        self._reach()
        return EngineInfo("simulated", ("runc", "nvidia"), gpu_runtime=True, architecture="x86_64")

    async def ping(self) -> None:
        """Answer while the host is in sight."""
        self._reach()

    async def claim(self, leases: Sequence[Lease]) -> None:
        """Claim all devices or none."""
        self._reach()
        held = self._host.live_leases()
        for lease in sorted(leases, key=lambda lease: lease.uuid):
            others = [
                other
                for (uuid, attempt), other in held.items()
                if uuid == lease.uuid and attempt != lease.attempt
            ]
            if not fit_together(lease.share, [other.share for other in others]):
                raise LeaseTakenError(lease.uuid, others[0].user)
        held.update({(lease.uuid, lease.attempt): lease for lease in leases})

    async def leases(self) -> tuple[Lease, ...]:
        """List all leases on the host."""
        self._reach()
        return tuple(self._host.live_leases().values())

    async def release(self, attempt: str, uuids: Sequence[str]) -> None:
        """Give back the devices that this attempt holds."""
        self._reach()
        for uuid in uuids:
            self._host.leases.pop((uuid, attempt), None)

    async def sign(self, journal: str) -> str:
        """Nothing to show: the simulated lab has one console."""
        self._reach()
        return ""

    async def lead_marks(self, journal: str) -> tuple[LeadMark, ...]:
        """Return the marks of the heads of a lab's queue, by their epochs."""
        self._reach()
        return tuple(sorted(self._host.lead_marks.values(), key=lambda mark: mark.epoch))

    async def mark_lead(self, journal: str, mark: LeadMark) -> tuple[LeadMark, ...]:
        """Leave a mark, unless another head has its epoch here; returns all marks then."""
        self._reach()
        self._host.lead_marks.setdefault(mark.epoch, mark)
        return await self.lead_marks(journal)

    async def image_facts(self, image: str) -> ImageFacts | None:
        """Tell of an image that was pulled; what it is made for, its name says."""
        self._reach()
        return ImageFacts() if image in self._host.images else None

    async def ensure_image(self, image: str, progress: Callable[[str], None]) -> None:
        """Pull the image once per host; a registry below `.invalid` has none, as its name says."""
        self._reach()
        if image in self._host.images:
            return
        registry = image.split("/", 1)[0].split(":", 1)[0]
        if registry.endswith(".invalid"):
            raise ImageError(
                "The image cannot be had",
                msg(
                    "{image} on {name}: no registry answers at {registry}.",
                    image=image,
                    name=self._host.site.name,
                    registry=registry,
                ),
                "Check the image's name.",
            )
        for step in range(_PULL_STEPS):
            progress(msg("pulling {image} {n} %", image=image, n=100 * step // _PULL_STEPS))
            await self._host.time.sleep(_PULL_STEP_S)
            self._reach()
        self._host.images.add(image)

    async def network(self) -> HostNetwork:
        """Tell the simulated address."""
        self._reach()
        return HostNetwork(self._host.site.address, "eth0")

    async def prepare(
        self, job_id: str, *, checkpoint: bool = False, owner: str = ""
    ) -> HostAccount:
        """Name the job's results folder."""
        self._reach()
        return HostAccount(1000, 1000, f"/home/ops/.local/state/gpuconsole/results/{job_id}")

    async def create(self, spec: ContainerSpec) -> str:
        """Create the container; the same name again returns the same id."""
        self._reach()
        existing = self._find(spec.name)
        if existing is not None:
            return existing.id
        host = self._host
        host.containers_made += 1
        container = SimulatedContainer(
            id=container_id(host.site.name, spec.name, host.containers_made),
            spec=spec,
            time=host.time,
            created=host.time.now(),
        )
        host.containers[container.id] = container
        return container.id

    async def put(self, container: str, bundle: Path, target: str) -> None:
        """Read the bundle as unpacking would; the script is compiled, never run."""
        self._reach()
        simulated = self._require(container)
        if target == PROJECT:
            spec = simulated.spec
            simulated.fault = script_fault(bundle, spec.command, spec.working_dir)

    async def start(self, container: str) -> None:
        """Start the container; one that has started is left alone."""
        self._reach()
        target = self._require(container)
        if target.started is None:
            self.begin(target)

    def begin(self, simulated: SimulatedContainer) -> None:
        """Let a container run from now on."""
        uuids = simulated.spec.device_uuids
        cards = [device.card for device in self._host.site.devices if device.uuid in uuids]
        simulated.plan = plan_for(
            simulated.spec,
            label=simulated.id[:12],
            step_s=step_seconds(simulated.spec, cards, self._host.time.speed),
            available_mib=[self._host.available_mib(uuid) for uuid in uuids],
            fault=simulated.fault,
        )
        simulated.started = self._host.time.now()
        self._host.ran[simulated.spec.labels.get(_JOB, "")] = simulated

    async def logs(self, container: str, *, follow: bool) -> AsyncIterator[bytes]:
        """Give the container's output from its beginning."""
        target, shown, time = self._require(container), 0, self._host.time
        while True:
            self._reach()
            now = time.now()
            lines = target.log(shown, now)
            if lines:
                shown += len(lines)
                yield "".join(f"{line}\n" for line in lines).encode()
            gone = target.id not in self._host.containers
            if not follow or gone or target.state_at(now) == "exited":
                return
            await time.sleep(_FOLLOW_S * time.speed)

    async def log_tail(self, container: str, size: int) -> LogTail:
        """Return the end of the container's output."""
        target = self._require(container)
        data = "".join(f"{line}\n" for line in target.log(0, self._host.time.now())).encode()
        return LogTail(data[-size:], whole=len(data) <= size)

    async def connect(self, container: str, target: str) -> SimulatedPort | SimulatedLook:
        """Connect to a port, every one of which answers HTTP with a page, or to a session."""
        self._reach()
        simulated = self._require(container)
        if simulated.state_at(self._host.time.now()) != "running":
            raise EngineError(
                "Container does not run",
                msg("{container} on {name}.", container=container, name=self._host.site.name),
            )
        name = simulated.spec.labels.get(LABEL_PREFIX + "name", "")
        if target == SOCKET and simulated.plan is not None and simulated.plan.shell:
            if simulated.terminal is None:

                def end() -> None:
                    simulated.stopped = self._host.time.now()

                simulated.terminal = SimulatedTerminal(self._host.site.name, end)
            return simulated.terminal.looked_at()
        return SimulatedPort(f"Port {target} of {name}, in the simulated lab.\n")

    async def inspect(self, container: str) -> ContainerStatus | None:
        """Look at a container by id or name."""
        self._reach()
        target = self._find(container)
        if target is None and self._host.runs(container):
            return ContainerStatus(container, "", "running")
        return None if target is None else target.status(self._host.time.now())

    async def own(self, journal: str) -> tuple[ContainerStatus, ...]:
        """List the containers that carry this journal's label."""
        self._reach()
        now = self._host.time.now()
        return tuple(
            container.status(now)
            for container in self._host.containers.values()
            if container.spec.labels.get(_JOURNAL) == journal
        )

    async def running(self) -> tuple[str, ...]:
        """Return the names of the containers that run."""
        self._reach()
        now = self._host.time.now()
        containers = self._host.containers.values()
        return tuple(each.spec.name for each in containers if each.state_at(now) == "running")

    async def stop(self, container: str, grace_s: float) -> None:
        """End the container; it obeys SIGTERM, so the grace time is not needed."""
        self._reach()
        target = self._find(container)
        if target is not None and target.stopped is None:
            target.stopped = self._host.time.now()
        if target is None:
            self._host.end(lambda load: load.container_id == container)

    async def remove(self, container: str) -> None:
        """Remove the container; one that is gone is no error."""
        self._reach()
        target = self._find(container)
        if target is not None:
            del self._host.containers[target.id]

    async def read_files(self, container: str, folder: str) -> Mapping[str, bytes]:
        """Return what the job's reporter would have written; a simulated script writes nothing."""
        self._reach()
        target = self._find(container)
        return {} if target is None else target.reports(self._host.time.now())

    async def results(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the job's results folder as a tar stream."""
        yield self._ran(job_id).results(self._host.time.now())

    async def records(self, job_id: str) -> AsyncIterator[bytes]:
        """Give VisualDL's record files as a tar stream: simulated jobs write none."""
        self._ran(job_id)
        yield _EMPTY_TAR

    async def checkpoint(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the job's checkpoint as a tar stream, which is simply empty."""
        self._ran(job_id)
        yield _EMPTY_TAR

    async def restore(
        self,
        job_id: str,
        container: str,
        archive: AsyncIterator[bytes],
        target: str,
        limits: TransferLimits,
    ) -> LeftOut:
        """Take a checkpoint, which is simply empty."""
        self._require(container)
        async for _ in archive:
            self._reach()
        return LeftOut()

    async def list_results(self, job_id: str) -> tuple[ResultFile, ...]:
        """List what is in that tar."""
        stream = io.BytesIO(self._ran(job_id).results(self._host.time.now()))
        with tarfile.open(fileobj=stream) as tar:
            files = [member for member in tar if member.isreg()]
        return tuple(ResultFile(file.name.removeprefix("./"), file.size) for file in files)

    def _ran(self, job_id: str) -> SimulatedContainer:
        self._reach()
        ran = self._host.ran.get(job_id)
        if ran is None:
            raise EngineError(
                "There are no results",
                msg(
                    "{name} has no results folder of {job_id}.",
                    name=self._host.site.name,
                    job_id=job_id,
                ),
                "Nothing of it has run there.",
            )
        return ran

    async def prune(self, keep_jobs: frozenset[str], journal: str) -> PruneResult:
        """Remove this journal's ended containers and leases of jobs not in `keep_jobs`."""
        self._reach()
        host, now = self._host, self._host.time.now()
        mine = [
            container
            for container in host.containers.values()
            if container.spec.labels.get(_JOURNAL) == journal
        ]
        running = {
            container.spec.labels.get(_JOB, "")
            for container in mine
            if container.state_at(now) == "running"
        }
        keep = keep_jobs | running
        ended = [container for container in mine if container.spec.labels.get(_JOB) not in keep]
        for container in ended:
            del host.containers[container.id]
        loose = [
            key
            for key, lease in host.live_leases().items()
            if lease.journal == journal and lease.job not in keep
        ]
        for key in loose:
            del host.leases[key]
        return PruneResult(containers=len(ended), leases=len(loose))

    def _reach(self) -> None:
        host = self._host
        if host.state_at(host.time.now()) is HostState.DOWN:
            raise unreachable(host)

    def _find(self, container: str) -> SimulatedContainer | None:
        containers = self._host.containers
        return containers.get(container) or next(
            (each for each in containers.values() if each.spec.name == container), None
        )

    def _require(self, container: str) -> SimulatedContainer:
        target = self._find(container)
        if target is None:
            raise EngineError(
                "There is no such container",
                msg("{container} on {name}.", container=container, name=self._host.site.name),
            )
        return target


def unreachable(host: SimulatedHost) -> UnreachableError:
    """Say that a simulated host is out of sight."""
    return UnreachableError(
        "The host does not answer",
        msg("{name} ({address}) is out of sight.", name=host.site.name, address=host.site.address),
        "Simulated outages end after a minute.",
    )


HEAD_LIMIT = 64 * 1024


class SimulatedPort:
    """A connection to a port on which a small web server answers each request with one page.

    Implements `core.containers.ByteStream`.
    """

    def __init__(self, page: str) -> None:
        self._page = page.encode()
        self._asked = b""
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        """Return an answer; b"" at the end."""
        return await self._answers.get()

    async def write(self, data: bytes) -> None:
        """Take requests; one of HTTP/1.0 or of an endless head ends the connection."""
        self._asked += data
        while b"\r\n\r\n" in self._asked:
            asked, _, self._asked = self._asked.partition(b"\r\n\r\n")
            head = (
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
                f"Content-Length: {len(self._page)}\r\n\r\n"
            )
            self._answers.put_nowait(head.encode() + self._page)
            if asked.split(b"\r\n", 1)[0].endswith(b" HTTP/1.0"):
                await self.close()
                return
        if len(self._asked) > HEAD_LIMIT:
            await self.close()

    async def write_eof(self) -> None:
        """End, as no more is asked."""
        await self.close()

    async def close(self) -> None:
        """End the connection."""
        self._answers.put_nowait(b"")

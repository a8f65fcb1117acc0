"""A console's surroundings in memory: virtual time, hosts, engines that behave as Docker does."""

from __future__ import annotations

import asyncio
import heapq
import io
import itertools
import json
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuconsole.core.containers import (
    TIME_LIMIT_LABEL,
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
)
from gpuconsole.core.devices.device_sharing import fit_together
from gpuconsole.core.engines import terminals
from gpuconsole.core.engines.terminals import SOCKET
from gpuconsole.core.engines.transfers import LeftOut, TransferLimits
from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import JobState
from gpuconsole.errors import (
    ContainerGoneError,
    EngineError,
    HostBusyError,
    ImageError,
    LeaseTakenError,
    RefusedError,
    UnreachableError,
)
from gpuconsole.placement import Place
from gpuconsole.remote.docker.errors import image_error, translated
from gpuconsole.session.queue.planner import Choice, Plan, Situation, Why
from tests.waiting import threads_work

START = 1_800_000_000.0
LONGEST_WORK_S = 10.0
"""Seconds of the clock for which virtual time waits for threads: some wait for it themselves."""


class VirtualClock:
    """Time that passes only when everything else rests."""

    def __init__(self) -> None:
        self.time = START
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = itertools.count()

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self.time + seconds, next(self._count), future))
        await future

    async def until(self, condition: Callable[[], object], within: float = 600.0) -> None:
        """Let time pass until the condition holds; AssertionError after `within` seconds."""
        limit = self.time + within
        while True:
            await rest()
            if condition():
                return
            while self._waiting and self._waiting[0][2].done():
                heapq.heappop(self._waiting)
            assert self._waiting, "nothing would ever happen"
            moment, _, future = heapq.heappop(self._waiting)
            assert moment <= limit, f"not within {within} s of virtual time"
            self.time = max(self.time, moment)
            future.set_result(None)

    async def pass_time(self, seconds: float) -> None:
        end = self.time + seconds
        asleep = asyncio.ensure_future(self.sleep(seconds))
        await self.until(lambda: self.time >= end and asleep.done(), seconds + 1)


QUIET_ROUNDS = 4
"""Rounds of the loop without anything to do; each looks for what threads and pipes say."""


async def rest() -> None:
    """Let every task run until it waits, and threads until they have done what they do."""
    loop: Any = asyncio.get_running_loop()
    end = loop.time() + LONGEST_WORK_S
    rounds = 0
    while rounds < QUIET_ROUNDS and loop.time() < end:
        await asyncio.sleep(0.001 if threads_work(loop) else 0)
        rounds = 0 if loop._ready or threads_work(loop) else rounds + 1


@dataclass
class Container:
    """A container of the fake engine."""

    id: str
    spec: ContainerSpec
    created_at: float
    state: str = "created"
    error: str = ""
    exit_code: int | None = None
    oom_killed: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    log: bytes = b""
    starts: int = 0
    bundles: list[bytes] = field(default_factory=list)
    """What was put into the working folder."""
    restored: dict[str, bytes] = field(default_factory=dict)
    """Checkpoints that came from elsewhere, by where the container has them."""
    files: dict[str, bytes] = field(default_factory=dict)
    """What its reporter left behind."""
    overdue: bool = False
    """Whether its time limit is over."""

    def status(self) -> ContainerStatus:
        return ContainerStatus(
            id=self.id,
            name=self.spec.name,
            state=self.state,
            labels=self.spec.labels,
            exit_code=self.exit_code,
            oom_killed=self.oom_killed,
            error=self.error,
            created_at=self.created_at,
            started_at=self.started_at,
            ended_at=self.ended_at,
            overdue=self.overdue,
        )


class Docker:
    """One host's engine: what is on it outlives every console."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.reachable = True
        self.silent_at: frozenset[str] | None = frozenset()
        """Calls that the engine of a host that is up does not answer; None means all."""
        self.refuses: dict[str, str] = {}
        """What it answers to calls that it refuses, by call."""
        self.hangs_at: frozenset[str] | None = frozenset()
        """Calls that the engine keeps until it is notified; None means all."""
        self.hanging = 0
        self.images = {"paddle"}
        self.registry = ""
        """What a pull ends with, where the image is not there."""
        self.pulls = 0
        self.facts: dict[str, ImageFacts] = {}
        self.pull_blocks = False
        self.containers: dict[str, Container] = {}
        self.leases: dict[str, Lease] = {}
        self.history: list[Container] = []
        self.start_fails = ""
        self.start_breaks = False
        """Whether a start fails without a word in the container."""
        self.logs_break = False
        self.log_stands_still = False
        """Whether no more of any log comes."""
        self.whole_reads = 0
        """How often a log was asked for from its beginning without being followed."""
        self.uid = 1000
        self.busy_ports: frozenset[int] = frozenset()
        self.stop_code = 143
        """How a container ends when asked to."""
        self.put_waits: asyncio.Event | None = None
        """What code that is put in waits for."""
        self.removed: list[str] = []
        self.signs: list[str] = []
        self.lead_marks: dict[int, LeadMark] = {}
        """Journals of consoles that showed that they are at work."""
        self.records: dict[str, bytes] = {}
        """VisualDL's record files of any job, by their paths."""
        self.sent: list[str] = []
        self.left_out = LeftOut()
        """What the next checkpoint loses that comes here."""
        self.checkpoint_gone = False
        """Folders of jobs that were read from here; "" is the results folder itself."""
        self.changed = asyncio.Event()
        self.on_start: Callable[[Container], None] = lambda container: None
        self.on_put: Callable[[Container], None] = lambda container: None
        self.on_claim: Callable[[], None] = lambda: None
        self.listening = {"8040"}
        """Ports and sockets inside its containers on which something listens."""
        self.streams: list[EchoStream] = []
        """Connections into its containers, the oldest first."""
        self.terminal: FakeTerminal | None = FakeTerminal(clock)
        """What the container of a session keeps."""
        self.was_away = False
        self._ids = itertools.count(1)

    @property
    def running(self) -> bool:
        return any(container.state == "running" for container in self.containers.values())

    @property
    def starts(self) -> int:
        return sum(container.starts for container in self.history)

    def find(self, key: str) -> Container | None:
        return self.containers.get(key) or next(
            (container for container in self.containers.values() if container.id == key), None
        )

    def only(self) -> Container:
        (container,) = self.containers.values()
        return container

    def finish(self, code: int = 0, log: bytes = b"", *, oom_killed: bool = False) -> None:
        """End the running container, of several the first."""
        container = next(one for one in self.containers.values() if one.state == "running")
        self.end(container, code, log, oom_killed=oom_killed)

    def end(
        self, container: Container, code: int, log: bytes = b"", *, oom_killed: bool = False
    ) -> None:
        container.log += log
        container.state, container.exit_code = "exited", code
        container.oom_killed, container.ended_at = oom_killed, self.clock.now()
        self.notify()

    def write(self, log: bytes) -> None:
        self.only().log += log
        self.notify()

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Console:
    """One console's life: once dead, nothing it does has any effect."""

    def __init__(self) -> None:
        self.dead = False
        self.points = 0
        self.dies_at: int | None = None
        self.calls: list[str] = []

    async def point(self, name: str) -> None:
        """A moment at which the console may be killed."""
        await asyncio.sleep(0)
        self.touch(name)

    def touch(self, name: str) -> None:
        if self.dead:
            raise asyncio.CancelledError
        self.calls.append(name)
        if self.points == self.dies_at:
            self.dead = True
            raise asyncio.CancelledError
        self.points += 1


class EchoStream:
    """A connection with a far end that says what it hears, and `over` once it hears no more."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = False

    async def read(self) -> bytes:
        return await self.said.get()

    async def write(self, data: bytes) -> None:
        self.said.put_nowait(data)

    async def write_eof(self) -> None:
        self.said.put_nowait(b"over")
        self.said.put_nowait(b"")

    async def close(self) -> None:
        self.closed = True
        self.said.put_nowait(b"")


class FakeTerminal:
    """A terminal that is kept in a container, without a shell: what is typed is written."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.typed_at = clock.now()
        self.notices: list[str] = []
        self.sizes: list[str] = []
        self.silent = False
        self.looks: list[FakeLook] = []

    def looked_at(self) -> FakeLook:
        self.looks.append(FakeLook(self))
        return self.looks[-1]


class FakeLook(EchoStream):
    """A connection to it."""

    def __init__(self, terminal: FakeTerminal) -> None:
        super().__init__()
        self._terminal = terminal
        self._frames = terminals.Frames()
        self.hello: dict[str, Any] = {}

    def tell(self, kind: bytes, data: bytes) -> None:
        self.said.put_nowait(terminals.frame(kind, data))

    async def write(self, data: bytes) -> None:
        kept = self._terminal
        for kind, body in self._frames.feed(data):
            if kind == terminals.HELLO:
                self.hello = json.loads(body)
            elif kind == terminals.ASK and not kept.silent:
                state = {"idle_s": kept.clock.now() - kept.typed_at, "viewers": 1}
                self.tell(terminals.STATE, json.dumps(state).encode())
            elif kind == terminals.NOTICE:
                kept.notices.append(body.decode())
            elif kind == terminals.SIZE:
                kept.sizes.append(body.decode())
            elif kind == terminals.INPUT:
                kept.typed_at = kept.clock.now()
                self.tell(terminals.OUTPUT, body)


class FakeEngine:
    """The engine of one host as one console reaches it."""

    def __init__(self, name: str, docker: Docker, console: Console) -> None:
        self._name = name
        self._docker = docker
        self._console = console
        self.heard: list[Callable[[Docker, str], None]] = []
        """Told before each call goes on."""

    async def _at(self, point: str) -> None:
        await self._console.point(point)
        for heard in self.heard:
            heard(self._docker, point)
        while self._docker.hangs_at is None or point in self._docker.hangs_at:
            self._docker.hanging += 1
            try:
                await self._docker.changed.wait()
            finally:
                self._docker.hanging -= 1
        if not self._docker.reachable:
            raise UnreachableError("Host is out of sight", f"{self._name} does not answer.")
        if point in self._docker.refuses:
            raise translated(self._docker.refuses[point], self._name, point)
        if self._docker.silent_at is None or point in self._docker.silent_at:
            raise UnreachableError("Docker refuses", "permission denied on the socket.")

    async def info(self) -> EngineInfo:
        await self._at("info")
        return EngineInfo("20.10")

    async def ping(self) -> None:
        await self._at("ping")

    async def claim(self, leases: Sequence[Lease]) -> None:
        await self._at("claim")
        self._docker.on_claim()
        for lease in leases:
            others = self._beside(lease)
            if not fit_together(lease.share, [other.share for other in others]):
                other = others[0]
                raise LeaseTakenError(lease.uuid, f"{other.user} (job {other.job})")
        for lease in leases:
            second = "/shared" if self._beside(lease) else ""
            self._docker.leases[lease.uuid + second] = lease
        await self._at("claim done")

    def _beside(self, lease: Lease) -> list[Lease]:
        there = self._docker.leases.values()
        return [one for one in there if one.uuid == lease.uuid and one.attempt != lease.attempt]

    async def leases(self) -> tuple[Lease, ...]:
        await self._at("leases")
        return tuple(self._docker.leases.values())

    async def release(self, attempt: str, uuids: Sequence[str]) -> None:
        await self._at("release")
        for key, lease in list(self._docker.leases.items()):
            if lease.uuid in uuids and lease.attempt == attempt:
                del self._docker.leases[key]
        await self._at("release done")

    async def sign(self, journal: str) -> str:
        await self._at("sign")
        self._docker.signs.append(journal)
        return f"sign-{len(self._docker.signs)}"

    async def lead_marks(self, journal: str) -> tuple[LeadMark, ...]:
        await self._at("lead marks")
        return tuple(sorted(self._docker.lead_marks.values(), key=lambda mark: mark.epoch))

    async def mark_lead(self, journal: str, mark: LeadMark) -> tuple[LeadMark, ...]:
        await self._at("mark lead")
        self._docker.lead_marks.setdefault(mark.epoch, mark)
        return await self.lead_marks(journal)

    async def image_facts(self, image: str) -> ImageFacts | None:
        await self._at("image facts")
        return self._docker.facts.get(image)

    async def ensure_image(self, image: str, progress: Callable[[str], None]) -> None:
        await self._at("image")
        if image not in self._docker.images and self._docker.registry:
            self._docker.pulls += 1
            raise image_error(image, self._name, self._docker.registry)
        if image not in self._docker.images:
            raise ImageError("No such image", f"{image} cannot be had on {self._name}.")
        progress(f"pulling {image} 43 %")
        while self._docker.pull_blocks:
            await self._docker.changed.wait()
        await self._at("image done")

    async def network(self) -> HostNetwork:
        await self._at("network")
        return HostNetwork(f"10.0.0.{ord(self._name[0])}", "eth0", self._docker.busy_ports)

    async def prepare(
        self, job_id: str, *, checkpoint: bool = False, owner: str = ""
    ) -> HostAccount:
        await self._at("prepare")
        return HostAccount(self._docker.uid, 1000, f"/home/u/results/{job_id}")

    async def create(self, spec: ContainerSpec) -> str:
        await self._at("create")
        docker = self._docker
        found = docker.containers.get(spec.name)
        if found is not None and TIME_LIMIT_LABEL in spec.labels:
            if not found.status().overdue:
                raise HostBusyError("Another measurement is under way", f"On {self._name}.")
            await self.remove(found.id)
            found = None
        if found is None:
            found = Container(f"{next(docker._ids):064x}", spec, docker.clock.now())
            docker.containers[spec.name] = found
            docker.history.append(found)
        await self._at("create done")
        return found.id

    async def put(self, container: str, bundle: Path, target: str) -> None:
        await self._at("put")
        if self._docker.put_waits is not None:
            await self._docker.put_waits.wait()
        if target == "/workspace":
            self._known(container).bundles.append(_read(bundle))
        self._docker.on_put(self._known(container))
        await self._at("put done")

    async def start(self, container: str) -> None:
        await self._at("start")
        found = self._known(container)
        if found.state == "created":
            if self._docker.start_breaks:
                raise EngineError("Container cannot start", f"{self._name} does not say why.")
            if self._docker.start_fails:
                found.error, found.exit_code = self._docker.start_fails, 128
                raise translated(found.error, self._name, "starting")
            found.state, found.started_at = "running", self._docker.clock.now()
            found.starts += 1
            self._docker.on_start(found)
        await self._at("start done")

    async def logs(self, container: str, *, follow: bool) -> AsyncIterator[bytes]:
        await self._at("logs")
        self._docker.whole_reads += not follow
        sent = 0
        while True:
            while self._docker.log_stands_still:
                await self._docker.changed.wait()
            found = self._docker.find(container)
            if found is None:
                return
            self._refuse_dead(found)
            if len(found.log) > sent:
                size = 7 if len(found.log) < 1000 else 10_000
                yield found.log[sent : sent + size]
                sent = min(len(found.log), sent + size)
                continue
            if not follow or found.state != "running" or self._docker.logs_break:
                return
            await self._docker.changed.wait()
            if not self._docker.reachable:
                return

    async def log_tail(self, container: str, size: int) -> LogTail:
        await self._at("log_tail")
        found = self._docker.find(container)
        self._refuse_dead(found)
        data = b"" if found is None else found.log
        return LogTail(data[-size:], whole=len(data) <= size)

    def _refuse_dead(self, found: Container | None) -> None:
        """As Docker does for a container of which a removal has failed."""
        if found is not None and found.state == "dead":
            raise EngineError("The engine refused", "It is dead or marked for removal.")

    async def connect(self, container: str, target: str) -> EchoStream | FakeLook:
        await self._at("connect")
        if target == SOCKET and self._docker.terminal is not None:
            return self._docker.terminal.looked_at()
        if target not in self._docker.listening:
            raise RefusedError("Nothing listens there", f"Port {target}: Connection refused.")
        made = EchoStream()
        self._docker.streams.append(made)
        return made

    async def inspect(self, container: str) -> ContainerStatus | None:
        await self._at("inspect")
        found = self._docker.find(container)
        return None if found is None else found.status()

    async def own(self, journal: str) -> tuple[ContainerStatus, ...]:
        await self._at("own")
        return tuple(
            one.status()
            for one in self._docker.containers.values()
            if one.spec.labels.get("gpuconsole.journal") == journal
        )

    async def stop(self, container: str, grace_s: float) -> None:
        await self._at("stop")
        found = self._docker.find(container)
        if found is not None and found.state == "running":
            self._docker.end(found, 143)
        await self._at("stop done")

    async def remove(self, container: str) -> None:
        await self._at("remove")
        if said := self._docker.refuses.get(f"remove {container}"):
            raise translated(said, self._name, "remove")
        self._docker.removed.append(container)
        found = self._docker.find(container)
        if found is not None:
            del self._docker.containers[found.spec.name]
        await self._at("remove done")

    async def read_files(self, container: str, folder: str) -> Mapping[str, bytes]:
        await self._at("read")
        found = self._docker.find(container)
        return {} if found is None else dict(found.files)

    async def records(self, job_id: str) -> AsyncIterator[bytes]:
        await self._at("records")
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as tar:
            for path, data in self._docker.records.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        yield made.getvalue()

    async def results(self, job_id: str) -> AsyncIterator[bytes]:
        await self._at("results")
        yield self._tar()

    async def checkpoint(self, job_id: str) -> AsyncIterator[bytes]:
        await self._at("results")
        self._docker.sent.append("checkpoint")
        if not self._docker.checkpoint_gone:
            yield self._tar()

    async def restore(
        self,
        job_id: str,
        container: str,
        archive: AsyncIterator[bytes],
        target: str,
        limits: TransferLimits,
    ) -> LeftOut:
        await self._at("restore")
        found = self._known(container)
        found.restored[target] = b"".join([chunk async for chunk in archive])
        await self._at("restore done")
        return self._docker.left_out

    def _tar(self) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            member = tarfile.TarInfo("./model.pdparams")
            member.size = 5
            archive.addfile(member, io.BytesIO(b"model"))
        return buffer.getvalue()

    async def prune(self, keep_jobs: frozenset[str], journal: str) -> PruneResult:
        await self._at("prune")
        for container in tuple(self._docker.containers.values()):
            labels = container.spec.labels
            own = labels.get("gpuconsole.journal") == journal
            if own and container.state == "exited" and labels["gpuconsole.job"] not in keep_jobs:
                del self._docker.containers[container.id]
        return PruneResult()

    def _known(self, container: str) -> Container:
        found = self._docker.find(container)
        if found is None:
            raise ContainerGoneError("Container is gone", f"{container} is not on {self._name}.")
        return found


def _read(path: Path) -> bytes:
    return path.read_bytes()


class FakeHosts:
    """The fleet as one console sees it."""

    def __init__(self, dockers: Mapping[str, Docker], console: Console, devices: int = 1) -> None:
        self._dockers = dockers
        self._engines = {
            name: FakeEngine(name, docker, console) for name, docker in dockers.items()
        }
        self._console = console
        self.connecting = False
        self.signals: list[tuple[str, int, str]] = []
        self.snapshots = FleetSnapshot(
            1,
            START,
            tuple(
                Host(
                    name,
                    HostState.UP,
                    devices=tuple(
                        Device(
                            f"GPU-{name}-{index}",
                            index,
                            "A100",
                            memory_total_mib=40960.0,
                            memory_used_mib=0.0,
                        )
                        for index in range(devices)
                    ),
                )
                for name in dockers
            ),
        )

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def listen(self, heard: Callable[[Docker, str], None]) -> None:
        """Hear of each call to an engine before it is done."""
        for engine in self._engines.values():
            engine.heard.append(heard)

    def forget(self) -> None:
        """Hear no more of them."""
        for engine in self._engines.values():
            engine.heard.clear()

    def snapshot(self) -> FleetSnapshot:
        hosts = tuple(replace(host, state=self._state(host.name)) for host in self.snapshots.hosts)
        if hosts != self.snapshots.hosts:
            self.snapshots = replace(
                self.snapshots, hosts=hosts, revision=self.snapshots.revision + 1
            )
        return self.snapshots

    def _state(self, name: str) -> HostState:
        if self.connecting:
            return HostState.CONNECTING
        return HostState.UP if self._dockers[name].reachable else HostState.DOWN

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        self.signals.append((host, process.pid, signal))

    async def engine(self, host: str) -> FakeEngine:
        await self._console.point("engine")
        if self.connecting or not self._dockers[host].reachable:
            raise UnreachableError("Host is out of sight", f"{host} does not answer.")
        return self._engines[host]


class FirstFree:
    """Places each queued job on the first devices that nobody holds."""

    preempt: tuple[str, ...] = ()
    """Jobs to be stopped for others."""
    avoided: frozenset[str] = frozenset()
    """Hosts on which nothing more is placed."""

    def plan(self, situation: Situation) -> Plan:
        jobs, snapshot = situation.jobs, situation.snapshot
        busy = {
            uuid
            for job in jobs
            if job.state.active and job.attempt
            for part in job.attempt.parts
            for uuid in part.device_uuids
        }
        busy |= {lease.uuid for held in situation.leases.values() for lease in held}
        busy |= {uuid for _, uuid in situation.avoid}
        choices: list[Choice] = []
        waiting: dict[str, Why] = {}
        for job in jobs:
            if job.state is not JobState.QUEUED:
                continue
            free = [
                (host, device)
                for host in snapshot.hosts
                if host.state is HostState.UP
                and not host.engine_error
                and not host.drained
                and host.name not in self.avoided
                for device in host.devices
                if device.uuid not in busy
            ]
            if not free:
                waiting[job.id] = Why("queued", "No device is free.")
                continue
            # A gang has one device of each host.
            chosen = {host.name: (host, device) for host, device in reversed(free)}
            places = [chosen[name] for name in sorted(chosen)][: job.task.hosts]
            if len(places) < job.task.hosts:
                waiting[job.id] = Why("queued", "Not enough hosts are free.")
                continue
            busy |= {device.uuid for _, device in places}
            host, device = places[0]
            others = tuple(Place(host.name, (device,)) for host, device in places[1:])
            choices.append(
                Choice(job.id, host.name, (device.uuid,), (device.index,), ("first",), others)
            )
        return Plan(tuple(choices), waiting, self.preempt)

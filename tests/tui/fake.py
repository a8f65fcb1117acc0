"""A session made of plain data: hostile and edge pictures, and a record of every call."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import ResultFile
from gpuconsole.core.engines.host_containers import HostContainer, HostContainers
from gpuconsole.core.engines.transfers import LeftOut
from gpuconsole.core.estimate import (
    BatchSource,
    Estimate,
    Memory,
    Report,
    ScriptFault,
    Suggestion,
    Trial,
    Unknown,
    Verdict,
)
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import (
    Device,
    DeviceProcess,
    FleetSnapshot,
    Host,
    HostFacts,
    HostState,
    PeerLink,
)
from gpuconsole.core.history import Series
from gpuconsole.core.images import ImageRecord
from gpuconsole.core.incidents import Action, Evidence, Incident, Severity
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.training.curves import Compared, Curves, compared
from gpuconsole.errors import ConsoleError, RefusedError
from gpuconsole.placement.forecast.free_capacity import Answer, Ask, where
from gpuconsole.placement.forecast.start_times import Expected
from gpuconsole.placement.forecast.what_if import Comparison
from gpuconsole.placement.model import Candidate, Decision, Place, Rejection
from gpuconsole.preflight.tiers.ladder import Run, Site
from gpuconsole.session.dispatch.oom_retry import Offer
from gpuconsole.session.estimate.tier_ladder import CANCELLED, UNWATCHED, Watching
from gpuconsole.session.images.service import HostImages
from gpuconsole.session.logs.training import TrainingLog
from gpuconsole.session.ports.forwards import ForwardInfo
from gpuconsole.session.queue.forecast import Change
from gpuconsole.session.report.model import Query, Sums, UsageReport
from gpuconsole.session.results import FetchedResults
from gpuconsole.triage import actions_for, ticket

NOW = 1_790_000_000.0


def device(uuid: str, index: int = 0, **more: Any) -> Device:
    """An A100 at work, by default."""
    values: dict[str, Any] = {
        "model": "NVIDIA A100-SXM4-40GB",
        "memory_total_mib": 40960.0,
        "memory_used_mib": 21000.0,
        "utilization": 87.0,
        "temperature_c": 64.0,
        "power_w": 310.0,
        "power_limit_w": 400.0,
    }
    return Device(uuid=uuid, index=index, **{**values, **more})


def idle(uuid: str, index: int = 0, **more: Any) -> Device:
    """A device nobody uses."""
    values = {"memory_used_mib": 3.0, "utilization": 0.0, "temperature_c": 33.0, "power_w": 52.0}
    return device(uuid, index, **{**values, **more})


def lab() -> tuple[Host, ...]:
    """Four hosts: a busy one, a mixed one, an Ascend one and one that is down."""
    busy = tuple(
        device(
            f"GPU-a{index}",
            index,
            utilization=80.0 + index * 2,
            peers=tuple(PeerLink(f"GPU-a{k}", "NV12") for k in range(4) if k != index),
            processes=(DeviceProcess(4100 + index, "ana", 20500.0, "python train.py", "c" * 64),),
        )
        for index in range(4)
    )
    mixed = (
        idle("GPU-b0", 0, model="NVIDIA GeForce RTX 3090", memory_total_mib=24576.0),
        device("GPU-b1", 1, model="NVIDIA GeForce RTX 3090", memory_total_mib=24576.0,
               throttle=("hw-thermal",), temperature_c=91.0),
        idle("GPU-b2", 2, model="NVIDIA GeForce RTX 3090", memory_total_mib=24576.0, lost=True,
             utilization=None, memory_used_mib=None),
    )  # fmt: skip
    ascend = (
        idle("NPU-c0", 0, model="Ascend 910", memory_total_mib=32768.0, backend="npu"),
        idle("NPU-c1", 1, model="Ascend 910", memory_total_mib=32768.0, backend="npu"),
    )
    facts = HostFacts(37.0, 64, 515000.0, 120000.0, 1.9e6, 8.0e5, 12.0, "550.54", "12.4")
    return (
        Host("a100-01", HostState.UP, "10.0.0.11", {"rack": "r1"}, 12.0, busy, facts, NOW),
        Host("rtx-01", HostState.UP, "10.0.0.12", {"rack": "r1"}, 2.0, mixed, facts, NOW),
        Host("ascend-01", HostState.UP, "10.0.0.13", {"rack": "r2"}, 5.0, ascend, facts, NOW),
        Host("v100-02", HostState.DOWN, "10.0.0.14", {"rack": "r2"}, 4.0, (), HostFacts(), None,
             "No route to host. Is it switched on?"),
    )  # fmt: skip


def job(name: str, state: JobState, number: int = 1, **more: Any) -> Job:
    """A job of Ana's; active ones hold devices of the first host."""
    attempts: tuple[Attempt, ...] = ()
    if state not in (JobState.QUEUED, JobState.HELD):
        ended = NOW - 10 if state.ended else None
        attempts = (
            Attempt(
                number=1,
                host="a100-01",
                device_uuids=("GPU-a0",),
                device_indexes=(0,),
                container_name=f"gpuconsole-{name}",
                container_id="c" * 64,
                created_at=NOW - 400,
                started_at=NOW - 380,
                ended_at=ended,
                exit_code=1 if state is JobState.FAILED else None,
                peak_mib=20480.0,
                placement_reasons=("gpu 0 has 19.5 GiB free.", "The larger card stays free."),
            ),
        )
    task = Task(name=name, script="train.py", args=("--epochs", "3"), batch_size=64, priority=5)
    values: dict[str, Any] = {"attempts": attempts, "estimate_mib": 18000.0}
    return Job(f"ana-{number:04d}", task, "ana", state, NOW - 600, **{**values, **more})


def incident(rule: str = "heat", subject: str = "GPU-b1", **more: Any) -> Incident:
    """Something wrong on the second host, by default."""
    values: dict[str, Any] = {
        "severity": Severity.WARNING,
        "title": "slowed by heat",
        "host": "rtx-01",
        "since": NOW - 720,
        "last_seen": NOW,
        "uuid": "GPU-b1",
        "index": 1,
        "evidence": (Evidence(NOW - 720, "device", "91 C, clock 1200 MHz"),),
        "confidence": "high",
        "reason": "the device says so itself",
    }
    return Incident(rule, subject, **{**values, **more})


def report(batch: int = 64, verdict: str = "fits", **more: Any) -> Report:
    """An answer of preflight for the lab above."""
    memory = Memory(820, 820, 1640, batch * 150.0, batch * 2.0, 256, 3536 + batch * 152.0,
                    4000 + batch * 155.0, 550, 4550 + batch * 155.0, 4300 + batch * 150.0,
                    4900 + batch * 160.0)  # fmt: skip
    limit = 34816.0
    values: dict[str, Any] = {
        "estimate": Estimate("train.py", batch, BatchSource("train.py", 12, "constant"), "gpu",
                             "static", 0.97, memory, flops_per_step=2.1e12),
        "verdicts": (
            Verdict("A100-SXM4-40GB", "a100-01", "gpu", verdict, limit - memory.high_mib, 186,  # type: ignore[arg-type]
                    0.02, limit, "GPU-a0", 0),
            Verdict("RTX 3090", "rtx-01", "gpu", "will-not-fit", 20889 - memory.high_mib - 9000,
                    99, 0.6, 20889.0, "GPU-b0", 0, "held by others"),
        ),
        "suggestions": (
            Suggestion("batch-size", 48, "Batch size 48 fits a100-01 with 3 GiB to spare.", 2480),
            Suggestion("amp", "O1", "Mixed precision saves about 4.1 GiB.", 4200),
        ),
        "elapsed_ms": 38.0,
    }  # fmt: skip
    return Report(**{**values, **more})


@dataclass
class Why:
    """What `why` answers."""

    state: str = "queued"
    reason: str = "3 devices could do it: 3 in use by jobs."
    blockers: tuple[dict[str, str], ...] = (
        {"job": "ana-0001", "name": "resnet", "user": "ana", "host": "a100-01", "uuid": "GPU-a0"},
    )
    estimated_start: float | None = NOW + 720
    options: tuple[str, ...] = ("Lower the batch size to 32.", "Cancel resnet.")


@dataclass
class FakeForesight:
    """What is foreseen, as a test sets it."""

    known: dict[str, Expected] = field(default_factory=dict)
    answer: Comparison = field(default_factory=lambda: Comparison((), 0, None, None, False))
    error: ConsoleError | None = None
    asked: list[Change] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    fleet: Callable[[], FleetSnapshot] = FleetSnapshot

    async def renew(self) -> dict[str, Expected]:
        return self.known

    async def where(self, ask: Ask) -> Answer:
        self.asks.append(ask)
        if self.error is not None:
            raise self.error
        return where(ask, self.fleet(), self.held)

    async def what_if(self, change: Change) -> Comparison:
        self.asked.append(change)
        if self.error is not None:
            raise self.error
        return self.answer


@dataclass
class FakeTriage:
    """What is wrong, as a test sets it, and what a person said of it."""

    now: tuple[Incident, ...] = ()
    looked_at: float | None = NOW - 1
    jobs: tuple[Job, ...] = ()
    """Those that actions may speak of."""
    hosts: tuple[Host, ...] = field(default_factory=lab)
    said: list[tuple[Any, ...]] = field(default_factory=list)
    error: ConsoleError | None = None

    def incidents(self) -> tuple[Incident, ...]:
        return self.now

    def actions(self, incident: Incident) -> tuple[Action, ...]:
        host = next((host for host in self.hosts if host.name == incident.host), None)
        return actions_for(incident, host, self.jobs) if incident.ended_at is None else ()

    def ticket(self, incident: Incident) -> str:
        return ticket(incident, None, NOW)

    async def acknowledge(self, reference: str) -> None:
        self._say("acknowledge", reference)

    async def snooze(self, reference: str, seconds: float) -> None:
        self._say("snooze", reference, seconds)

    async def resolve(self, reference: str) -> None:
        self._say("resolve", reference)

    async def reopen(self, reference: str) -> None:
        self._say("reopen", reference)

    def _say(self, *what: Any) -> None:
        if self.error is not None:
            raise self.error
        self.said.append(what)


@dataclass
class FakeRetrying:
    """Offers half the batch size, or says why it cannot."""

    error: ConsoleError | None = None

    async def offer(self, ended: Job) -> Offer:
        if self.error is not None:
            raise self.error
        why = "the largest that should fit on A100-SXM4-40GB"
        return Offer(ended, ended.task, report(32), 32, 64, why, "about twice as many steps")


class FakeHistory:
    """A lab that nobody watched until now."""

    def device(self, uuid: str, metric: str, span_s: float) -> Series:
        return Series(NOW - span_s, NOW)

    def host(self, name: str, metric: str, span_s: float) -> Series:
        return Series(NOW - span_s, NOW)


@dataclass
class FakeProcesses:
    """What was asked to end."""

    signals: list[tuple[str, int, str]] = field(default_factory=list)
    stopped: list[tuple[str, str]] = field(default_factory=list)
    error: ConsoleError | None = None

    async def signal(self, host: str, pid: int, signal: str) -> None:
        self.signals.append((host, pid, signal))
        if self.error is not None:
            raise self.error

    async def stop_container(self, host: str, container: str) -> Job | None:
        self.stopped.append((host, container))
        if self.error is not None:
            raise self.error
        return None


class FakeImages:
    """Images of hosts, each with one."""

    async def listing(self, hosts: Sequence[str] = ()) -> tuple[HostImages, ...]:
        record = ImageRecord("sha256:" + "1" * 64, ("lab/train:7",), size_mib=9216.0)
        return tuple(HostImages(Host(name), (record,)) for name in hosts)


@dataclass
class FakeRecorder:
    """Records nothing, by default."""

    on: bool = False
    folder: Path | None = None


@dataclass
class FakeForward:
    """An open port."""

    info: ForwardInfo


@dataclass
class FakeForwards:
    """Open ports; 9 is refused."""

    found: list[FakeForward] = field(default_factory=list)

    def open_now(self) -> tuple[FakeForward, ...]:
        return tuple(self.found)


class FakeContainers:
    """One container on each host."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = tuple(hosts)

    def hosts(self) -> tuple[str, ...]:
        return self._hosts

    async def of(self, host: str, *, stopped: bool = False) -> HostContainers:
        one = HostContainer(host, "d" * 64, "theirs", "serve:1", "running", created_at=NOW - 600)
        return HostContainers(host, (one,))

    async def log(
        self, container: HostContainer, *, follow: bool = False, tail: int | None = None
    ) -> AsyncIterator[bytes]:
        yield b"one\ntwo\n"


@dataclass
class FakeSession:
    """The methods of a session over data that a test changes at will."""

    hosts_now: tuple[Host, ...] = field(default_factory=lab)
    jobs_now: tuple[Job, ...] = ()
    read_only: bool = False
    simulated: bool = True
    user: str = "ana"
    time: float = NOW + 1
    revision: int = 1
    answer: Report = field(default_factory=report)
    lines: tuple[str, ...] = ()
    error: ConsoleError | None = None
    lost: ConsoleError | None = None
    away: str = ""
    held_elsewhere: int = 0
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    left: tuple[ResultFile, ...] = ()
    """What ended jobs have left on their hosts."""
    gate: asyncio.Event | None = None
    """When set, preflight waits for it."""
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp()))
    """Where the logs lie; it goes with the session."""
    foresight: FakeForesight = field(default_factory=FakeForesight)
    triage: FakeTriage = field(default_factory=lambda: FakeTriage())
    history: FakeHistory = field(default_factory=lambda: FakeHistory())
    recorder: FakeRecorder = field(default_factory=FakeRecorder)
    processes: FakeProcesses = field(default_factory=FakeProcesses)
    containers: FakeContainers = field(
        default_factory=lambda: FakeContainers(tuple(host.name for host in lab()))
    )
    forwards: FakeForwards = field(default_factory=FakeForwards)
    retrying: FakeRetrying = field(default_factory=lambda: FakeRetrying())
    images: FakeImages = field(default_factory=lambda: FakeImages())
    settings: LabSettings = field(default_factory=LabSettings)
    left_out: LeftOut = field(default_factory=LeftOut)
    """What cannot be fetched of results."""
    measures: bool = True
    """Whether a host can measure."""
    measuring: asyncio.Event = field(default_factory=asyncio.Event)
    """A measurement waits for it."""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether measuring was cancelled."""
    learned: Report | None = None
    """What measuring returns; None for the same answer."""

    usage: UsageReport | None = None
    """What was held and used; None for nothing."""

    def __post_init__(self) -> None:
        self.foresight.fleet = self.snapshot
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    async def __aenter__(self) -> FakeSession:
        self.calls.append(("enter",))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.calls.append(("exit",))

    def now(self) -> float:
        return self.time

    def snapshot(self) -> FleetSnapshot:
        return FleetSnapshot(self.revision, self.time, self.hosts_now, self.simulated)

    def change(self, *hosts: Host, at: float | None = None) -> None:
        """Replace hosts by name; the picture has a new revision."""
        fresh = {host.name: host for host in hosts}
        self.hosts_now = tuple(fresh.get(host.name, host) for host in self.hosts_now)
        self.revision += 1
        self.time = at or self.time + 1

    async def forward(self, reference: str, port: int, **_: Any) -> ForwardInfo:
        self.calls.append(("forward", reference, port))
        if port == 9:
            raise RefusedError("Job does not run", f"Job {reference} is queued.")
        named = [one.task.name for one in self.jobs_now if one.id == reference]
        info = ForwardInfo(reference, named[0] if named else reference, port, port + 1)
        self.forwards.found.append(FakeForward(info))
        return info

    async def shell(self, **said: Any) -> Job:
        return self._opened("session")

    async def jupyter(self, **said: Any) -> Job:
        return self._opened("jupyter")

    def _opened(self, kind: str) -> Job:
        self.calls.append(("open", kind))
        if self.error is not None:
            raise self.error
        made = job(kind, JobState.QUEUED, 9)
        made = replace(made, task=replace(made.task, kind=kind, script=""))
        self.jobs_now = (*self.jobs_now, made)
        self.revision += 1
        return made

    async def jupyter_address(self, reference: str) -> str:
        self.calls.append(("jupyter_address", reference))
        return "http://127.0.0.1:8888/lab?token=abc"

    async def close_forward(self, local_port: int) -> ForwardInfo:
        self.calls.append(("close_forward", local_port))
        (found,) = (one for one in self.forwards.found if one.info.local_port == local_port)
        self.forwards.found.remove(found)
        return found.info

    def jobs(self) -> tuple[Job, ...]:
        return self.jobs_now

    def job(self, reference: str) -> Job:
        return next(job for job in self.jobs_now if job.id == reference)

    async def usage_report(self, query: Query) -> UsageReport:
        self.calls.append(("report", query))
        if self.error is not None:
            raise self.error
        made = self.usage or UsageReport(query, (), Sums(), ())
        rows = (replace(row, words=row.words[:1] * len(query.by)) for row in made.rows)
        return replace(made, query=query, rows=tuple(rows))

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    @property
    def queue(self) -> FakeSession:
        """What is done to the queue."""
        return self

    @property
    def estimates(self) -> FakeSession:
        """What is asked about scripts."""
        return self

    async def expect(self) -> None:
        pass

    async def report(self, task: Task, tier: str = "") -> Report:
        self.calls.append(("preflight", task))
        if self.gate is not None:
            await self.gate.wait()
        self._fail()
        return self.answer

    @property
    def isolation(self) -> str:
        return "in a sandbox made for tests"

    async def climb(
        self,
        task: Task,
        user: Watching = UNWATCHED,
        *,
        report: Report | None = None,
        insist: bool = False,
    ) -> Report:
        site = Site("a100-01") if self.measures else Site(consent=True)
        if site.consent and not await user.agree(Run("meta", site, 60.0, ask=True)):
            self.calls.append(("refused", task))
            no = Trial("meta", "impossible", "running it on this machine needs your consent")
            return replace(self.answer, trials=(no,))
        self.calls.append(("climb", task, insist, site.host))
        user.progress(0.4, "batch 2, step 1")
        self.stopped.clear()
        ended = {asyncio.ensure_future(self.measuring.wait()),
                 asyncio.ensure_future(self.stopped.wait())}  # fmt: skip
        await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        self._fail()
        if self.stopped.is_set():
            return replace(self.answer, trials=(Trial("meta", "impossible", CANCELLED),))
        return replace(
            self.learned or self.answer, trials=(Trial("meta", "answered", host=site.host),)
        )

    def stop_measuring(self) -> None:
        self.calls.append(("stop_measuring",))
        self.stopped.set()

    async def placements(self, task: Task, report: Report) -> Decision:
        self.calls.append(("placements", task))
        card = self.hosts_now[0].devices[0]
        best = Candidate((Place("a100-01", (card,)),), 0.93, ("It fits with 9.1 GiB to spare.",))
        refused = Rejection("rtx-01", "GPU-b2", "RTX 3090", "health", "The device is lost.")
        small = "Needs up to 14.8 GiB, 9.0 GiB may be used."
        same = (Rejection("rtx-01", f"GPU-b{at}", "RTX 3090", "memory", small) for at in (0, 1))
        return Decision(task.name, best, (best,), (refused, *same), None)

    async def submit(self, task: Task, *, force: bool = False, user: Watching = UNWATCHED) -> Job:
        self.calls.append(("submit", task, force))
        self._fail()
        if not force and any(v.verdict == "will-fail" for v in self.answer.verdicts):
            raise RefusedError("Will fail", "The script is wrong.")
        made = replace(job(task.name, JobState.QUEUED, 90), task=task)
        self.jobs_now = (*self.jobs_now, made)
        return made

    async def cancel(self, reference: str) -> Job:
        return self._record("cancel", reference)

    async def preempt(self, reference: str) -> Job:
        return self._record("preempt", reference)

    async def retry(self, reference: str, offer: Offer | None = None) -> Job:
        return self._record("retry", reference, *([] if offer is None else [offer.batch]))

    async def hold(self, reference: str) -> Job:
        return self._record("hold", reference)

    async def set_priority(self, reference: str, priority: int) -> Job:
        return self._record("priority", reference, priority)

    async def scale(self, service: str, replicas: int) -> tuple[Job, ...]:
        self.calls.append(("scale", service, replicas))
        return self.group(service)

    def group(self, reference: str) -> tuple[Job, ...]:
        return tuple(one for one in self.jobs_now if reference in (one.id, one.task.sweep))

    def why_now(self, reference: str) -> Why:
        return Why(self.job(reference).state.value)

    def explain(self, jobs: Iterable[Job]) -> dict[str, Why]:
        return {one.id: self.why_now(one.id) for one in jobs}

    def log_path(self, reference: str, attempt: int | None = None, rank: int = 0) -> Path:
        """A file that is written the first time it is asked for; rank by rank the same lines."""
        path = self.folder / f"{reference}-{attempt or 1}-{rank}.log"
        if not path.exists():
            path.write_text("".join(f"{line}\n" for line in self.lines), encoding="utf-8")
        return path

    async def curves(self, reference: str, attempt: int | None = None) -> Curves:
        """What the lines of the log report, all of it read again."""
        log = TrainingLog(self.log_path(reference, attempt))
        while log.read_on():
            pass
        return log.curves

    async def compare(self, references: Sequence[str]) -> tuple[Compared, ...]:
        """The jobs of these ids and sweeps, with their curves."""
        jobs = [
            one for one in self.jobs_now if one.id in references or one.task.sweep in references
        ]
        return compared(jobs, [await self.curves(one.id) for one in jobs])

    async def results(self, reference: str) -> tuple[ResultFile, ...]:
        self._record("results", reference)
        return self.left

    async def fetch_results(self, reference: str, destination: Path) -> FetchedResults:
        self.calls.append(("fetch", reference, destination))
        self._fail()
        return FetchedResults(destination / reference, self.left_out)

    def render(self, reference: str, target: str = "docker") -> str:
        return f"docker run --gpus '\"device=GPU-a0\"' paddle python train.py # {reference}"

    def render_task(
        self, task: Task, target: str = "docker", *, on: Candidate | None = None
    ) -> str:
        uuids = ",".join(device.uuid for device in on.devices) if on else "0"
        return f"docker run --gpus '\"device={uuids}\"' paddle python {task.script}"

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """The calls of that name."""
        return [call for call in self.calls if call[0] == name]

    def _record(self, *call: Any) -> Job:
        self.calls.append(call)
        self._fail()
        return self.job(call[1])

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


def unknown_report() -> Report:
    """An answer of preflight that could not understand the script."""
    estimate = Estimate(
        "train.py", None, None, "gpu", "unknown", 0.2, None,
        (Unknown("train.py", 40, "The model is read from a file."),),
    )  # fmt: skip
    return Report(estimate)


def failing_report() -> Report:
    """An answer of preflight that found the script wrong."""
    fault = ScriptFault(
        "train.py", 31, "Linear(512, 10) gets 256 features.", ((64, 256), (512, 10))
    )
    estimate = Estimate("train.py", 64, None, "gpu", "static", 1.0, None, errors=(fault,))
    verdict = Verdict("A100", "a100-01", "gpu", "will-fail", None, None, None)
    return Report(estimate, (verdict,))

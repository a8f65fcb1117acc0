"""Tasks, jobs and attempts, and the legal moves between job states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import Any, Literal

from gpuconsole.core.estimate import Measure
from gpuconsole.core.services import BACKING_OFF, DRAINING, Replica, Service
from gpuconsole.core.submission.script_edits import Edit
from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass


class JobState(str, Enum):
    """The state of a job. The last four are final."""

    HELD = "held"
    QUEUED = "queued"
    LAUNCHING = "launching"
    RUNNING = "running"
    UNKNOWN = "unknown"
    """Its host is out of sight; it comes back."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    OOM = "oom"
    CANCELLED = "cancelled"

    def __str__(self) -> str:
        return self.value

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to the job unless it is retried."""
        return self in ENDED

    @property
    def active(self) -> bool:
        """Whether an attempt may hold devices."""
        return self in (JobState.LAUNCHING, JobState.RUNNING, JobState.UNKNOWN)


ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.OOM, JobState.CANCELLED})

_ENDS = (JobState.SUCCEEDED, JobState.FAILED, JobState.OOM, JobState.CANCELLED)
TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    JobState.HELD: frozenset({JobState.QUEUED, JobState.CANCELLED}),
    JobState.QUEUED: frozenset({JobState.HELD, JobState.LAUNCHING, JobState.CANCELLED}),
    # Back to queued when a lease was lost to another console before anything started.
    JobState.LAUNCHING: frozenset({JobState.QUEUED, JobState.RUNNING, JobState.UNKNOWN, *_ENDS}),
    JobState.RUNNING: frozenset({JobState.UNKNOWN, JobState.QUEUED, *_ENDS}),
    JobState.UNKNOWN: frozenset({JobState.QUEUED, JobState.LAUNCHING, JobState.RUNNING, *_ENDS}),
    # A retry puts an ended job back as a new attempt of the same job.
    **{end: frozenset({JobState.QUEUED}) for end in _ENDS},
}


def may_move(old: JobState, new: JobState) -> bool:
    """Tell whether a job may go from `old` to `new`."""
    return new in TRANSITIONS[old]


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of the host bound into the container."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class SmallerBatch:
    """How a job may be tried again with less after it ran out of memory."""

    size: int
    was: int
    """The batch size with which it will have run out."""
    args: tuple[str, ...]
    """All arguments of the script, with the smaller batch."""
    estimate_mib: float | None = None
    """The memory that it is said to need then."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a user wants to run. Paths are absolute on the console's machine.

    `devices` None means `auto`: one device, or as many as `sharding` needs to fit.
    `batch_size`, when given, replaces the script's own only in the estimate; the script must
    take it from its arguments to follow.
    """

    name: str
    script: str = ""
    args: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    """Lines changed in the shipped copy; the user's file stays as it is."""
    project: str = ""
    folder: str | None = None
    """Folder in which the script starts, relative to the project; None before that is known: then
    it is the user's working folder, if that is in the project."""
    ship: tuple[str, ...] = ()
    """Files of the project that go along although a rule leaves them out, or they look secret."""
    image: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables with values that are never shown. A job has only their names, each with "": the
    values are in a separate file until it has ended."""
    mounts: tuple[Mount, ...] = ()
    devices: int | None = 1
    batch_size: int | None = None
    priority: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels a host must carry."""
    anti_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels a host must not carry; a value of "" rules out the label with any value."""
    hosts: int = 1
    """Most hosts over which its devices may spread; each of them provides as many."""
    account: str = ""
    """What the use is counted for beside the user, such as a project or a grant."""
    auto_batch: bool = False
    """After running out of memory it may be tried again with the batch size that fits."""
    smaller: tuple[SmallerBatch, ...] = ()
    """The batches for that, the next first, where who queues it cannot read the script."""
    retries: int = 1
    """How often it is retried automatically after a failure that is not its own fault."""
    sweep: str = ""
    """Name of the sweep it is part of; "" when it is not part of one."""
    backend: str = "gpu"
    preferred_devices: tuple[str, ...] = ()
    preference_timeout_s: float = 0.0
    """How long to wait for a preferred device before any that fits will do."""
    memory_threshold: float | None = None
    """Largest share of a device's memory it may fill; None means the lab's, which is the most."""
    allow_mixed_precision: bool | None = None
    """False: it is never suggested, and devices are ranked by their rate in single precision; None
    where the task does not say."""
    distributed_strategy: str = ""
    algorithm: str = ""
    """Placement policy for this job's candidates; "" means the lab's."""
    exclusive: bool = False
    share: bool = False
    checkpoint_dir: str = ""
    deadline: str = ""
    run_time_s: float | None = None
    time_limit_s: float | None = None
    """The longest that it may run; then it is ended. None means the lab's limit."""
    after: tuple[str, ...] = ()
    """Jobs and sweeps that it comes after: an id or a name, `afterany:ID` or `afternotok:ID`."""
    cancel_if_failed: bool = False
    """Whether it is cancelled once what it comes after can no longer end as it must."""
    stop_if: tuple[str, ...] = ()
    """Rules on its log, any of which ends it: `loss is nan`; see `core.training.stop_rules`."""
    goal: str = ""
    """Of a search for arguments: what is best, `min val_loss`; see `core.submission.tuning`."""
    space: tuple[str, ...] = ()
    """What a search may try, an argument each."""
    trial: Mapping[str, str] = field(default_factory=dict)
    """The arguments that a trial of a search was given; none before it is handed out."""
    at_most: int | None = None
    """How many jobs of its sweep may run at once; None means any number."""
    shm_size_mib: float | None = None
    """Size of /dev/shm; None means the lab's default."""
    memory_limit_mib: float | None = None
    """Limit of host memory for the container; None means the lab's default."""
    network: str = ""
    """`none`, `lab`, `full`, or "" for the lab's policy."""
    framework: str = "paddlepaddle"
    kind: str = "training"
    model_name: str = ""
    sequence_length: int | None = None
    hidden_size: int | None = None
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Answers to preflight's questions, name to value."""
    idle_stop_s: float | None = None
    """Of a session: how long nothing may be typed and its devices be unused before it is ended."""
    until: float | None = None
    """Of a session: when it is ended (s since the epoch)."""
    workspace: str = ""
    """Of a session: the folder kept on its host that it works in, by its name; "" for none."""
    service: Service | None = None
    """Of a service: how many replicas it has, and how they are kept well; None for any other."""
    measure: Measure | None = None
    """Whether it is measured where its memory cannot be read; None means the lab's setting, which
    may be stricter."""

    @property
    def resumable(self) -> bool:
        """Whether it may be stopped for a job that goes first, and be begun again later."""
        return bool(self.checkpoint_dir) if self.service is None else self.service.preemptible

    def threshold(self, most: float) -> float:
        """Return the share of a device's memory it may fill where the lab allows `most`."""
        return most if self.memory_threshold is None else min(most, self.memory_threshold)


ADOPTED = "adopted"
"""The `kind` of a task that is not known: its job was found on a host after a restore."""

EndedBy = Literal[
    "",
    "own",
    "oom",
    "lost-host",
    "host-fault",
    "unfit",
    "preempted",
    "crowded-out",
    "gang",
    "time-limit",
    "idle",
    "rule",
    "unhealthy",
    "retired",
]
"""Why an attempt ended: by itself, out of memory, with its host, because a host could not start it,
because the host does not suit the job, for a job that goes first, for the job it shared a device
with, because another host of its gang ended, at its time limit, because it did nothing, because
its log broke a rule of its task, because its health checks failed, or because its service needs
that replica no more."""

STOPPED_FOR_GOOD: Mapping[EndedBy, str] = {
    "time-limit": "time limit",
    "idle": "ended idle",
    "rule": "stop rule",
    "retired": "retired",
}
"""Ends after which a job that was stopped is not queued again; how lists call them."""


def state_when_stopped(ended_by: EndedBy) -> JobState:
    """Return the state of a job that was stopped for this reason: a rule of its own task and its
    service cancel it, other ends for good are failures, and any other puts it back into the
    queue."""
    if ended_by in ("rule", "retired"):
        return JobState.CANCELLED
    return JobState.FAILED if ended_by in STOPPED_FOR_GOOD else JobState.QUEUED


@dataclass(frozen=True, slots=True)
class Member:
    """One further host of a gang: its devices and its container."""

    host: str
    device_uuids: tuple[str, ...]
    device_indexes: tuple[int, ...]
    container_name: str
    container_id: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at running a job: one container on one host, or one on each host of a gang."""

    number: int
    host: str
    device_uuids: tuple[str, ...] = ()
    device_indexes: tuple[int, ...] = ()
    container_name: str = ""
    container_id: str = ""
    created_at: float = 0.0
    starting_at: float | None = None
    """When the engine was asked to start it; from then on it may have run."""
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    """Of a gang: that of the host that decided its end."""
    cause: str = ""
    """Why it ended, as a sentence; "" while it runs or after success."""
    peak_mib: float | None = None
    placement_reasons: tuple[str, ...] = ()
    creating_at: float | None = None
    """When the engine was asked to create the container; from then on there may be one."""
    ended_by: EndedBy = ""
    """What kind of end it was, where that decides what happens next. Set while it is active, it is
    to be stopped for that reason."""
    members: tuple[Member, ...] = ()
    """The other hosts of a gang, in the order of their ranks; `host` above has rank 0."""
    shared: bool = False
    """Whether its device was held by another job when it was placed there."""
    at_fault: str = ""
    """The host that could not start it, where it ended by a host's fault."""
    steps_mib: float | None = None
    """The most that Paddle took of one device during the first optimizer steps; None until they are
    over, or where the script tells of none."""
    warned_at: float | None = None
    """When its user was warned of its time limit."""
    stopping_at: float | None = None
    """When it was to be stopped for what `ended_by` says."""
    steps: int = 0
    """Optimizer steps that its reporter reported when it was last asked; 0 if it reported none."""
    stepped_at: float | None = None
    """When more steps than before were seen."""
    steps_read_at: float | None = None
    """When its reporter was last read."""

    @property
    def parts(self) -> tuple[Attempt, ...]:
        """The attempt on each of its hosts, in the order of their ranks, as if that host were
        alone; of a job on one host the attempt itself."""
        if not self.members:
            return (self,)
        return (
            replace(self, members=()),
            *(
                replace(
                    self,
                    host=member.host,
                    device_uuids=member.device_uuids,
                    device_indexes=member.device_indexes,
                    container_name=member.container_name,
                    container_id=member.container_id,
                    exit_code=member.exit_code,
                    members=(),
                )
                for member in self.members
            ),
        )

    def with_containers(self, ids: Sequence[str]) -> Attempt:
        """Return the attempt with the ids of its containers, in the order of the ranks."""
        members = zip(self.members, ids[1:], strict=True)
        return replace(
            self,
            container_id=ids[0],
            members=tuple(
                replace(member, container_id=container_id) for member, container_id in members
            ),
        )


@dataclass(frozen=True, slots=True)
class Job:
    """A queued task and everything that happened to it."""

    id: str
    """Unique across users and consoles."""
    task: Task
    user: str
    state: JobState
    submitted_at: float
    queued_at: float | None = None
    """When it last joined the queue; None means at submission."""
    attempts: tuple[Attempt, ...] = ()
    cause: str = ""
    """Why it ended, or why it cannot go on, as a sentence."""
    detail: str = ""
    """What it is doing now while launching: `pulling image 43 %`."""
    cancel_requested: bool = False
    estimate_mib: float | None = None
    """Upper bound of memory (MiB) on one device alone, as estimated at submission."""
    estimate: Mapping[str, Any] | None = None
    """Preflight's document at submission, held against one empty device of each kind."""
    revision: int = 0
    """Grows with every change of this job."""
    run_as: str = ""
    """Numbers of the user and the group, `1001:1001`, under whom its containers run; "" means the
    account that the console uses on the host."""
    replica: Replica | None = None
    """Of a replica of a service: what is known of it; None before anything is."""

    @property
    def attempt(self) -> Attempt | None:
        """The latest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def started_at(self) -> float | None:
        """When the latest attempt started."""
        return self.attempts[-1].started_at if self.attempts else None

    @property
    def ended_at(self) -> float | None:
        """When the latest attempt ended, if the job has."""
        return self.attempts[-1].ended_at if self.attempts and self.state.ended else None

    @property
    def stopped_for(self) -> EndedBy:
        """For what it was ended without anybody asking, one of `STOPPED_FOR_GOOD`; else ""."""
        attempt = self.attempt
        if attempt is None or attempt.ended_by not in STOPPED_FOR_GOOD:
            return ""
        return attempt.ended_by if self.state is state_when_stopped(attempt.ended_by) else ""

    @property
    def state_word(self) -> str:
        """Its state as lists show it, which tells a job that was ended from one that failed, and of
        a replica whether it is well."""
        own = "" if self.task.service is None else self._replica_word
        return own or STOPPED_FOR_GOOD.get(self.stopped_for, self.state.value)

    @property
    def health(self) -> Replica:
        """What is known of its present container as a replica; that it starts where nothing is."""
        replica, attempt = self.replica or Replica(), self.attempt
        if attempt is not None and replica.container == attempt.container_name:
            return replica
        return replace(replica, health="starting", since=0.0, said="", was_healthy=False)

    @property
    def is_leaving(self) -> bool:
        """Whether it is a replica that gets no new connections, as it is to be stopped."""
        return self.replica is not None and self.replica.leaving_at is not None

    @property
    def is_healthy(self) -> bool:
        """Whether it is a replica that is to get new connections."""
        return self._stays and self.health.health == "healthy"

    @property
    def was_healthy(self) -> bool:
        """Whether it is a replica that runs and stays and was healthy: its checks may fail now."""
        return self._stays and self.health.was_healthy

    @property
    def _stays(self) -> bool:
        running = self.state is JobState.RUNNING and not self.cancel_requested
        return running and not self.is_leaving

    @property
    def _replica_word(self) -> str:
        if self.state is JobState.RUNNING:
            return DRAINING if self.is_leaving else self.health.health
        waits = self.replica is not None and self.replica.restart_at is not None
        return BACKING_OFF if waits and self.state is JobState.QUEUED else ""

    def as_json(self) -> dict[str, object]:
        """Return the job as the `jobs --json` document shows it."""
        attempt = self.attempt
        return {
            "id": self.id,
            "name": self.task.name,
            "user": self.user,
            "state": self.state.value,
            "script": self.task.script,
            "host": attempt.host if attempt else None,
            "hosts": [part.host for part in attempt.parts] if attempt else [],
            "devices": [u for part in attempt.parts for u in part.device_uuids] if attempt else [],
            "attempt": attempt.number if attempt else 0,
            "submitted_at": iso_utc(self.submitted_at),
            "started_at": iso_utc(self.started_at),
            "ended_at": iso_utc(self.ended_at),
            "exit_code": attempt.exit_code if attempt else None,
            "cause": self.cause or None,
            "ended_by": (attempt.ended_by or None) if attempt and self.state.ended else None,
            "time_limit_s": self.task.time_limit_s,
            "after": list(self.task.after),
            "estimate_mib": self.estimate_mib,
            "peak_mib": attempt.peak_mib if attempt else None,
            "first_steps_mib": attempt.steps_mib if attempt else None,
            "service": self._service_json(),
        }

    def _service_json(self) -> dict[str, object] | None:
        if self.task.service is None:
            return None
        health = self.health
        return {
            "name": self.task.sweep,
            "port": self.task.service.port,
            "replicas": self.task.service.replicas,
            "health": health.health if self.state is JobState.RUNNING else None,
            "since": iso_utc(health.since or None),
            "last_check": health.said or None,
            "restarts": health.restarts,
            "restart_at": iso_utc(health.restart_at),
            "draining": self.is_leaving,
        }


def is_due(job: Job) -> bool:
    """Return True if the job is to be retried with another batch size and has not been yet."""
    return (
        job.state is JobState.OOM
        and job.task.auto_batch
        and not job.cancel_requested
        and not job.detail
    )

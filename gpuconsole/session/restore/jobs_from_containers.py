"""Jobs as hosts know them: a journal's rows made from the containers that carry its id.

After a restore the journal is older than what runs. A container says by its name and labels of
which job and attempt it is; what it does not say (the task of a job that the journal never had) is
not made up.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuconsole.core.containers import LABEL_PREFIX, ContainerStatus, Lease
from gpuconsole.core.engines.batch_job import CLUSTER_LABEL
from gpuconsole.core.engines.device_requests import DEVICES_LABEL
from gpuconsole.core.fleet import Host
from gpuconsole.core.jobs import ADOPTED, Attempt, Job, JobState, Member, Task
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.session.dispatch.attempt.container_spec import attempt_key
from gpuconsole.session.dispatch.attempt.recovery import may_have_run, nonce_of
from gpuconsole.state.backup.restoration import HELD

FOUND = "Found on its host after the journal was restored."
NEVER_STARTED = (
    "It was submitted after the backup that was restored, and never started: submit it again."
)
REPLACED = "A later attempt of the job was found on its host after the journal was restored."
_NAME = re.compile(r"gpuconsole-([0-9a-z]{1,32})-(\d{1,6})-(?:(\d{1,4})-)?([0-9a-z]{1,64})")
_SHOWN = 128
MOST = 10_000
"""Containers of one host that are looked at: more are no answer of an engine."""


@dataclass(frozen=True, slots=True)
class Found:
    """A container of this journal, as a host has it."""

    host: str
    status: ContainerStatus
    job: str
    number: int
    rank: int
    nonce: str
    uuids: tuple[str, ...] = ()
    indexes: tuple[int, ...] = ()
    backend: str = ""
    cluster: bool = False


def found_on(
    host: Host, statuses: Iterable[ContainerStatus], leases: Iterable[Lease]
) -> list[Found]:
    """Return the containers of jobs among those of this journal on a host.

    A container with a name and labels that contradict each other is not ours.
    """
    containers = []
    by_attempt: dict[str, list[str]] = {}
    for lease in leases:
        by_attempt.setdefault(lease.attempt, []).append(lease.uuid)
    devices = {device.uuid: device for device in host.devices}
    for status in itertools.islice(statuses, MOST):
        named = _NAME.fullmatch(status.name)
        labels = {
            key: status.labels.get(LABEL_PREFIX + key, "") for key in ("job", "attempt", "nonce")
        }
        if named is None or labels != {
            "job": named[1],
            "attempt": attempt_key(named[1], int(named[2])),
            "nonce": named[4],
        }:
            continue
        handed = [uuid for uuid in status.labels.get(DEVICES_LABEL, "").split(",") if uuid]
        uuids = tuple(handed or sorted(by_attempt.get(labels["attempt"], ())))
        known_devices = [devices[uuid] for uuid in uuids if uuid in devices]
        containers.append(
            Found(
                host=host.name,
                status=status,
                job=named[1],
                number=int(named[2]),
                rank=int(named[3] or 0),
                nonce=named[4],
                uuids=uuids,
                indexes=tuple(device.index for device in known_devices),
                backend=known_devices[0].backend if known_devices else "",
                cluster=bool(host.cluster),
            )
        )
    return containers


def is_held(job: Job) -> bool:
    """Whether a restore has held the job, as it may have been started since the backup."""
    return job.state is JobState.HELD and job.cause == HELD


def adopted(job: Job | None, containers: Sequence[Found], now: float) -> Job | None:
    """Return the job with what these containers of it tell; None where that is nothing new.

    `job` is None when the journal does not have it. The latest attempt decides its state: the
    dispatcher then looks at the containers, as after every start of its own.
    """
    attempts = {attempt.number: attempt for attempt in job.attempts} if job is not None else {}
    before = dict(attempts)
    for (number, nonce), parts in _by_attempt(containers).items():
        old = attempts.get(number)
        if old is not None and nonce_of(old.container_name) == nonce:
            names = {part.container_name for part in old.parts}
            more = [_member(part) for part in parts if part.status.name not in names]
            attempts[number] = replace(old, members=(*old.members, *more))
        elif old is None or not may_have_run(old):
            attempts[number] = _attempt(parts, now)
    last = max(attempts, default=0)
    latest = [
        container
        for container in containers
        if container.number == last and container.nonce == nonce_of(attempts[last].container_name)
    ]
    if attempts == before and not (job is not None and is_held(job) and latest):
        return None
    ordered = tuple(
        attempts[number] if number == last else _ended(attempts[number], now)
        for number in sorted(attempts)
    )
    if job is None:
        return _unknown(latest, ordered, now)
    former = before.get(last)
    is_known = former is not None and former.container_name == attempts[last].container_name
    if not latest or (is_known and not is_held(job)):
        return replace(job, attempts=ordered)
    return replace(job, state=_state(latest), attempts=ordered, cause="", detail="adopted")


def _by_attempt(containers: Iterable[Found]) -> Mapping[tuple[int, str], list[Found]]:
    """Return containers by attempt, the later of two with one number first, each by rank."""
    groups: dict[tuple[int, str], list[Found]] = {}
    newest = sorted(
        containers, key=lambda container: container.status.created_at or 0.0, reverse=True
    )
    for container in sorted(newest, key=lambda container: container.rank):
        groups.setdefault((container.number, container.nonce), []).append(container)
    return groups


def _attempt(parts: Sequence[Found], now: float) -> Attempt:
    """Return an attempt as its containers, in the order of their ranks, tell of it."""
    first, status = parts[0], parts[0].status
    began = [part.status.started_at for part in parts if part.status.started_at is not None]
    created = status.created_at or now
    return Attempt(
        number=first.number,
        host=first.host,
        device_uuids=first.uuids,
        device_indexes=first.indexes,
        container_name=status.name,
        container_id=status.id,
        created_at=created,
        creating_at=created,
        starting_at=None if status.state == "created" else min(began, default=created),
        started_at=max(began, default=None),
        placement_reasons=(FOUND,),
        members=tuple(map(_member, parts[1:])),
    )


def _member(part: Found) -> Member:
    status = part.status
    return Member(part.host, part.uuids, part.indexes, status.name, status.id, status.exit_code)


def _ended(attempt: Attempt, now: float) -> Attempt:
    """Return an attempt that was followed by another one."""
    if attempt.ended_at is not None:
        return attempt
    return replace(attempt, ended_at=now, cause=REPLACED)


def _state(parts: Sequence[Found]) -> JobState:
    waits = all(part.status.state in ("created", "pending") for part in parts)
    return JobState.LAUNCHING if waits else JobState.RUNNING


def _unknown(parts: Sequence[Found], attempts: tuple[Attempt, ...], now: float) -> Job:
    """Return a job of which the journal has nothing: its task is what its container says."""
    first = parts[0]
    labels = first.status.labels
    state, cause = _state(parts), ""
    if all(part.status.state == "created" for part in parts):
        # What would have to be put in to start it is not known.
        state, cause = JobState.FAILED, NEVER_STARTED
        attempts = (*attempts[:-1], replace(attempts[-1], ended_at=now, cause=cause))
    task = Task(
        name=clean(labels.get(f"{LABEL_PREFIX}name", ""), _SHOWN) or first.job,
        kind=ADOPTED,
        retries=0,
        devices=len(first.uuids) or 1,
        backend=first.backend or ("gpu" if first.uuids else "cpu"),
        labels={CLUSTER_LABEL: first.host} if first.cluster else {},
    )
    return Job(
        id=first.job,
        task=task,
        user=clean(labels.get(f"{LABEL_PREFIX}user", ""), _SHOWN),
        state=state,
        submitted_at=min((part.status.created_at or now) for part in parts),
        attempts=attempts,
        cause=cause,
        detail="" if cause else "adopted",
    )


def started_unseen(job: Job, logs: Iterable[int], ended_at: float) -> Job | None:
    """Return a job that the journal has as not started, and of which a log is here; else None.

    `logs` are the numbers of attempts that have a log. Its container is on no host any more, so how
    it ended is not known; it is not started again by itself.
    """
    begun = max((attempt.number for attempt in job.attempts if may_have_run(attempt)), default=0)
    number = max(logs, default=0)
    if number <= begun:
        return None
    cause = (
        "It ran after the backup that was restored, and its container is gone: how it ended is not"
        f" known. Its log is kept; `gpuconsole retry {job.id}` runs it again."
    )
    earlier = tuple(attempt for attempt in job.attempts if attempt.number < number)
    attempt = Attempt(
        number, "", created_at=ended_at, starting_at=ended_at, ended_at=ended_at, cause=cause
    )
    return replace(job, state=JobState.FAILED, attempts=(*earlier, attempt), cause=cause, detail="")

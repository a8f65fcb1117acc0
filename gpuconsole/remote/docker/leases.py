"""Leases on devices, kept by the host's engine and visible to every console.

A device is claimed by creating a container that never starts, under a name made of the device's
UUID: names are unique on an engine, so of two consoles exactly one wins, whatever they thought
before. What is already running is checked as well, because anyone may sweep containers away that
never started (`docker container prune`), and with them a lease:

    claim:  create the lease, then look for a live job container on the device
    start:  the job container exists, then look for another attempt's lease

Each writes before it reads, so of a claim and a start that meet at least one sees the other.

Two jobs that share a device hold one lease each, under two names, so no third finds a free one.
Who claims writes its own lease first and then looks who else is there, by leases and by live job
containers: what does not fit together with it sends it away again.

Everything here blocks; call it on a thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import docker

from gpuconsole.core.containers import LABEL_PREFIX, TIME_LIMIT_LABEL, Lease
from gpuconsole.core.devices.device_sharing import fit_together, read_share, share_label
from gpuconsole.core.engines.device_requests import DEVICES_LABEL, SHARE_LABEL
from gpuconsole.core.text import clean
from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import LeaseTakenError
from gpuconsole.remote.docker import launches
from gpuconsole.remote.docker.errors import status_of
from gpuconsole.remote.docker.marker_containers import (
    LEASE_LABEL,
    create_empty,
    engine_now,
    is_lease,
    lease_name,
    shared_lease_name,
)
from gpuconsole.remote.docker.measurement_limits import is_past
from gpuconsole.remote.docker.status import engine_time

GRACE_S = 120.0
"""How long a lease may stand without a live job container before any console removes it."""
_JOB, _ATTEMPT = (LABEL_PREFIX + word for word in ("job", "attempt"))
_USER, _JOURNAL, _SINCE = (LABEL_PREFIX + word for word in ("user", "journal", "since"))
_LATEST = 1e11
"""No moment is later than this one, in seconds since the epoch."""
_STARTED = ("running", "paused", "restarting")


@dataclass(frozen=True, slots=True)
class Held:
    """A lease together with the id of the container that it is."""

    id: str
    lease: Lease
    created_at: float
    """On the engine's own clock."""
    name: str = ""


def lease_names(lease: Lease) -> tuple[str, ...]:
    """Return the names under which a device may be claimed, in the order to try them: one, or two
    for who comes beside another, of which either may be the one that is left."""
    name = lease_name(lease.uuid)
    beside = lease.share is not None and lease.share.beside
    return (shared_lease_name(lease.uuid), name) if beside else (name,)


def claim(client: docker.APIClient, leases: Sequence[Lease], grace_s: float = GRACE_S) -> None:
    """Claim all devices or none; LeaseTakenError names one that is taken."""
    claimed: list[str] = []
    try:
        for lease in sorted(leases, key=lambda lease: lease.uuid):
            # One by one: what is claimed when another is refused must be known.
            claimed.append(_claim_one(client, lease, grace_s))  # noqa: PERF401
        _refuse_beside_others(client, leases, grace_s)
    except BaseException:
        for container in claimed:
            with contextlib.suppress(docker.errors.APIError):
                client.remove_container(container)
        raise


def held(client: docker.APIClient) -> tuple[Held, ...]:
    """Return every lease on this engine, of every console, stale ones included."""
    items = client.containers(all=True, filters={"label": LEASE_LABEL})
    return tuple(
        Held(
            item["Id"],
            _from_labels(item["Labels"]),
            float(item["Created"]),
            item["Names"][0].lstrip("/"),
        )
        for item in items
        if is_lease(item)
    )


def current(client: docker.APIClient, grace_s: float = GRACE_S) -> tuple[Lease, ...]:
    """Return the leases that count: those of jobs that are alive or have only just begun or
    ended."""
    every = held(client)
    gone = {item.id for item in _stale(client, every, grace_s)}
    return tuple(item.lease for item in every if item.id not in gone)


def release(client: docker.APIClient, attempt: str, uuids: Sequence[str]) -> None:
    """Remove this attempt's leases on these devices."""
    for item in held(client):
        if item.lease.attempt == attempt and item.lease.uuid in uuids:
            remove(client, item)


def reap(client: docker.APIClient, grace_s: float = GRACE_S) -> tuple[Lease, ...]:
    """Remove leases, of any console, of jobs that are gone, and containers of dead consoles that
    never started; returns the leases removed."""
    stale = _stale(client, held(client), grace_s)
    pending = launches.launching(client, grace_s)
    for launch in pending:
        if launch.abandoned:
            launches.remove_abandoned(client, launch)
    launches.remove_old_signs(client, grace_s)
    return tuple(
        item.lease for item in stale if _clear(client, item.lease, grace_s) and remove(client, item)
    )


def remove(client: docker.APIClient, item: Held) -> bool:
    """Remove exactly this lease: by id, so that a fresh one of the same name is left alone."""
    try:
        client.remove_container(item.id)
    except docker.errors.APIError as error:
        if status_of(error) in (404, 409):
            return False
        raise
    return True


def refuse_if_leased_away(client: docker.APIClient, labels: Mapping[str, str]) -> None:
    """Refuse to start a job container on a device that another attempt has leased meanwhile."""
    uuids = _devices(labels)
    if not uuids:
        return
    share = read_share(labels.get(SHARE_LABEL))
    others = [item.lease for item in held(client) if not _same_attempt(item.lease, labels)]
    for uuid in uuids:
        there = [lease for lease in others if lease.uuid == uuid]
        if not fit_together(share, [lease.share for lease in there]):
            raise LeaseTakenError(uuid, _holder(there[0]))


def _claim_one(client: docker.APIClient, lease: Lease, grace_s: float) -> str:
    """Return the id of the lease container, made now or found to be this attempt's own."""
    names = lease_names(lease)
    if len(names) > 1:
        # Under which of its names it holds the device already, only a look can tell.
        for item in held(client):
            if item.lease.uuid == lease.uuid and _same_attempt(item.lease, _labels(lease)):
                return item.id
    holder: Held | None = None
    for name in names:
        taken, holder = _take(client, lease, name, grace_s)
        if taken:
            return taken
    raise LeaseTakenError(lease.uuid, _holder(holder.lease) if holder else "another console")


def _take(
    client: docker.APIClient, lease: Lease, name: str, grace_s: float
) -> tuple[str, Held | None]:
    """Claim a device under a name; returns the lease's id, or "" and who has the name."""
    for _ in range(2):
        try:
            return _create(client, lease, name), None
        except docker.errors.APIError as error:
            if status_of(error) != 409:
                raise
        holder = next((item for item in held(client) if item.name == name), None)
        if holder is not None and _same_attempt(holder.lease, _labels(lease)):
            return holder.id, None
        if holder is not None and not _stale(client, (holder,), grace_s):
            return "", holder
        # It is stale, or went away between the conflict and the look: one more try.
        if holder is not None:
            if not _clear(client, holder.lease, grace_s):
                return "", holder
            remove(client, holder)
    return "", next((item for item in held(client) if item.name == name), None)


def _create(client: docker.APIClient, lease: Lease, name: str) -> str:
    return create_empty(client, name, _labels(lease))


def _refuse_beside_others(
    client: docker.APIClient, leases: Sequence[Lease], grace_s: float
) -> None:
    """Refuse claims that are written already where one does not fit together with who is there."""
    uuids = {lease.uuid for lease in leases}
    others_held = [item for item in held(client) if item.lease.uuid in uuids]
    gone = {item.id for item in _stale(client, others_held, grace_s)}
    standing = [item.lease for item in others_held if item.id not in gone]
    live = _live(client, leases, grace_s)
    for lease in leases:
        there = {
            (lease_.job, lease_.attempt): lease_ for lease_ in standing if lease_.uuid == lease.uuid
        }
        for labels in live:
            if lease.uuid in _devices(labels):
                there.setdefault((labels[_JOB], labels.get(_ATTEMPT, "")), _from_labels(labels))
        others = [other for key, other in there.items() if key != (lease.job, lease.attempt)]
        if not fit_together(lease.share, [other.share for other in others]):
            raise LeaseTakenError(lease.uuid, _holder(others[0]))


def _stale(client: docker.APIClient, items: Sequence[Held], grace_s: float) -> tuple[Held, ...]:
    """Return the leases older than the grace time without a live container of their job.

    Only the engine's clock is read: consoles' clocks may differ.
    """
    if not items:
        return ()
    now = engine_now(client)
    old = [item for item in items if now - item.created_at >= grace_s]
    if not old:
        return ()
    label_sets = [
        launch.labels for launch in launches.launching(client, grace_s) if not launch.abandoned
    ]
    # Looked for last: one that has started meanwhile is seen here.
    label_sets += _job_labels(client)
    live = {(labels[_JOB], labels.get(_ATTEMPT, "")) for labels in label_sets}
    live |= _just_ended(client, now - grace_s)
    return tuple(item for item in old if (item.lease.job, item.lease.attempt) not in live)


def _clear(client: docker.APIClient, lease: Lease, grace_s: float) -> bool:
    """Remove what there is of the job of a stale lease; False where it turns out to be alive."""
    pending = launches.launching(client, grace_s)
    own = [launch for launch in pending if _same_attempt(lease, launch.labels)]
    # First the container: while it is there its console could still start it.
    if any(not launch.abandoned or not launches.remove_abandoned(client, launch) for launch in own):
        return False
    _remove_past(client, lambda labels: _same_attempt(lease, labels))
    return not any(_same_attempt(lease, labels) for labels in _job_labels(client))


def _live(
    client: docker.APIClient, leases: Sequence[Lease], grace_s: float
) -> list[Mapping[str, str]]:
    """Return the labels of job containers that run or may start, after those of others that are
    abandoned on the leases' devices are removed."""
    uuids = {lease.uuid for lease in leases}
    _remove_past(client, lambda labels: not uuids.isdisjoint(_devices(labels)))
    left = []
    for launch in launches.launching(client, grace_s):
        own = any(_same_attempt(lease, launch.labels) for lease in leases)
        in_the_way = launch.abandoned and not own and not uuids.isdisjoint(_devices(launch.labels))
        if not in_the_way or not launches.remove_abandoned(client, launch):
            left.append(launch.labels)
    return [*left, *_job_labels(client)]


def _just_ended(client: docker.APIClient, since: float) -> set[tuple[str, str]]:
    """Return job and attempt of containers that ended after `since`: their console may be about
    to look at them."""
    ended = set()
    for item in client.containers(
        all=True, filters={"label": [_JOB, _ATTEMPT], "status": ["exited", "dead"]}
    ):
        with contextlib.suppress(docker.errors.NotFound):
            finished = client.inspect_container(item["Id"])["State"]["FinishedAt"]
            if engine_time(finished) >= since:
                ended.add((item["Labels"].get(_JOB, ""), item["Labels"][_ATTEMPT]))
    return ended


def _job_labels(client: docker.APIClient) -> list[Mapping[str, str]]:
    """Return the labels of job containers that run; of a measurement until its time is over."""
    listed = client.containers(all=True, filters={"label": _JOB, "status": list(_STARTED)})
    items = [item for item in listed if not is_lease(item)]
    past = {item["Id"] for item in _past(client, items)}
    return [item["Labels"] for item in items if item["Id"] not in past]


def _past(client: docker.APIClient, items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the containers of measurements past their time: their console was killed."""
    dated = [item for item in items if TIME_LIMIT_LABEL in item["Labels"]]
    now = engine_now(client) if dated else 0.0
    return [item for item in dated if is_past(item["Labels"], float(item["Created"]), now)]


def _remove_past(client: docker.APIClient, wanted: Callable[[Mapping[str, str]], bool]) -> None:
    """Remove those of them that are in the way of a claim."""
    listed = client.containers(all=True, filters={"label": TIME_LIMIT_LABEL})
    for item in _past(client, listed):
        if wanted(item["Labels"]):
            try:
                client.remove_container(item["Id"], v=True, force=True)
            except docker.errors.APIError as error:
                # One that is dead and cannot be removed blocks no claim.
                if status_of(error) != 404 and item["State"] != "dead":
                    raise


def _labels(lease: Lease) -> dict[str, str]:
    return {
        LEASE_LABEL: lease.uuid,
        _JOB: lease.job,
        _ATTEMPT: lease.attempt,
        _USER: lease.user,
        _JOURNAL: lease.journal,
        _SINCE: repr(lease.since),
        **({} if lease.share is None else {SHARE_LABEL: share_label(lease.share)}),
    }


def _from_labels(labels: Mapping[str, str]) -> Lease:
    """Read a lease; anyone may have written these labels, so nothing in them is trusted."""
    try:
        since = float(labels.get(_SINCE, "0"))
    except ValueError:
        since = 0.0
    if not 0.0 <= since <= _LATEST:
        since = 0.0
    return Lease(
        uuid=clean(labels.get(LEASE_LABEL, ""), 128),
        job=clean(labels.get(_JOB, ""), 128),
        attempt=clean(labels.get(_ATTEMPT, ""), 128),
        user=clean(labels.get(_USER, ""), 128),
        journal=clean(labels.get(_JOURNAL, ""), 128),
        since=since,
        share=read_share(labels.get(SHARE_LABEL)),
    )


def _devices(labels: Mapping[str, str]) -> frozenset[str]:
    return frozenset(filter(None, labels.get(DEVICES_LABEL, "").split(",")))


def _same_attempt(lease: Lease, labels: Mapping[str, str]) -> bool:
    return (lease.job, lease.attempt) == (labels.get(_JOB), labels.get(_ATTEMPT))


def _holder(lease: Lease) -> str:
    who = f"{lease.user or 'someone'} (job {lease.job or 'unknown'}"
    return f"{who}, since {iso_utc(lease.since)})" if lease.since else f"{who})"

"""Containers of measurements: one at a time on a host, and none for longer than its limit.

All have one name, so that an engine refuses a second one. A console that was killed leaves its
container behind; `TIME_LIMIT_LABEL` and the engine's own clock tell when any other console may
remove it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import docker

from gpuconsole.core.containers import LABEL_PREFIX, TIME_LIMIT_LABEL, ContainerStatus
from gpuconsole.core.engines.device_requests import DEVICES_LABEL
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import HostBusyError
from gpuconsole.remote.docker import launches, leases
from gpuconsole.remote.docker.errors import status_of
from gpuconsole.remote.docker.marker_containers import engine_now
from gpuconsole.remote.docker.measurement_limits import is_past
from gpuconsole.remote.docker.status import container_status

_ATTEMPT = LABEL_PREFIX + "attempt"
ENDED_S = 30.0
"""Within so long a console has read the log of a container that has ended."""


def dated(client: docker.APIClient, status: ContainerStatus) -> ContainerStatus:
    """Return the status of a container with `overdue` as it is now."""
    if TIME_LIMIT_LABEL not in status.labels:
        return status
    return replace(status, overdue=_is_overdue(status, engine_now(client)))


def make_way(
    client: docker.APIClient, name: str, labels: Mapping[str, str], host: str, grace_s: float
) -> bool:
    """Remove the measurement that has the name of another where no console waits for it any more.

    Returns whether the name may be free now; False where it is this attempt's own, or no
    measurement's. HostBusyError where another is under way.
    """
    if TIME_LIMIT_LABEL not in labels:
        return False
    try:
        status = container_status(client.inspect_container(name))
    except docker.errors.NotFound:
        return True
    if TIME_LIMIT_LABEL not in status.labels or status.labels.get(_ATTEMPT) == labels[_ATTEMPT]:
        return False
    if not dated(client, status).overdue and not _is_abandoned(client, status.id, grace_s):
        raise busy(host, clean(status.labels.get(LABEL_PREFIX + "user", ""), 80))
    remove(client, status)
    return True


def busy(host: str, user: str = "") -> HostBusyError:
    """Return the error for a host that measures for a user; "" where that is not known."""
    return HostBusyError(
        "Another measurement is under way",
        msg(
            "{value} measures on {host}, where one measurement runs at a time.",
            value=user or "Another console",
            host=host,
        ),
        "Try again in some minutes, or measure on another host (--host).",
    )


def remove(client: docker.APIClient, status: ContainerStatus) -> None:
    """Remove a measurement with what it holds."""
    try:
        client.remove_container(status.id, v=True, force=True)
    except docker.errors.APIError as error:
        # 409: its removal is already under way.
        if status_of(error) not in (404, 409):
            raise
    attempt = status.labels.get(_ATTEMPT, "")
    uuids = [uuid for uuid in status.labels.get(DEVICES_LABEL, "").split(",") if uuid]
    if attempt and uuids:
        leases.release(client, attempt, uuids)


def _is_overdue(status: ContainerStatus, now: float) -> bool:
    if is_past(status.labels, status.created_at, now):
        return True
    return status.ended_at is not None and now - status.ended_at >= ENDED_S


def _is_abandoned(client: docker.APIClient, container: str, grace_s: float) -> bool:
    """Tell whether its console died before it started."""
    pending = launches.launching(client, grace_s)
    return any(launch.id == container and launch.abandoned for launch in pending)

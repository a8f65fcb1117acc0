"""Launches of which the console may have died: containers that were created and never started.

Such a container holds its devices, as its console may be filling it, which for a large checkpoint
takes an hour. While it does so it shows a sign of life every quarter of the grace time: an empty
container with the journal's id. Each sign is a new container, as an engine stamps one only when it
is created. A container that is older than the grace time, without a sign of its journal that is
younger, is abandoned, and any console may remove it. All ages are by the engine's own clock.

It is removed without force: an engine refuses that for one that has started meanwhile, and one
that is removed can never be started, however late its console wakes up.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import docker

from gpuconsole.core.containers import LABEL_PREFIX
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.remote.docker.errors import status_of
from gpuconsole.remote.docker.marker_containers import create_empty, engine_now, in_a_name, is_lease

_JOB, _JOURNAL, _SIGN = (LABEL_PREFIX + word for word in ("job", "journal", "sign"))
_SIGN_NAME = "gpuconsole-alive-"


@dataclass(frozen=True, slots=True)
class Launching:
    """A job container that was created and has not started."""

    id: str
    labels: Mapping[str, str]
    abandoned: bool
    """Whether its console is taken for dead."""


def show_sign(client: docker.APIClient, journal: str) -> str:
    """Show that a journal's console is at work here; returns the id of the sign, which its console
    removes after the next."""
    name = f"{_SIGN_NAME}{in_a_name(journal)}-{secrets.token_hex(4)}"
    return create_empty(client, name, {_SIGN: journal, _JOURNAL: journal})


def launching(client: docker.APIClient, grace_s: float) -> tuple[Launching, ...]:
    """Return the job containers that have not started."""
    wanted = {"label": _JOB, "status": ["created"]}
    items = [item for item in client.containers(all=True, filters=wanted) if not is_lease(item)]
    now = engine_now(client) if items else 0.0
    old = {item["Id"] for item in items if now - float(item["Created"]) >= grace_s}
    alive = _alive(client, now, grace_s) if old else frozenset()
    return tuple(
        Launching(
            item["Id"],
            item["Labels"],
            item["Id"] in old and item["Labels"].get(_JOURNAL) not in alive,
        )
        for item in items
    )


def remove_abandoned(client: docker.APIClient, launching_: Launching) -> bool:
    """Remove an abandoned container; returns whether it is gone: one that has started stays."""
    try:
        client.remove_container(launching_.id, v=True)
    except docker.errors.APIError as error:
        if status_of(error) not in (404, 409):
            raise
        return status_of(error) == 404
    return True


def remove_old_signs(client: docker.APIClient, grace_s: float) -> None:
    """Remove the signs that say nothing any more, of any journal."""
    now = engine_now(client)
    for item in _signs(client):
        if now - float(item["Created"]) >= grace_s:
            remove_sign(client, item["Id"])


def remove_sign(client: docker.APIClient, sign: str) -> None:
    """Remove a sign; one that is gone is no error."""
    try:
        client.remove_container(sign)
    except docker.errors.APIError as error:
        if status_of(error) not in (404, 409):
            raise


def _alive(client: docker.APIClient, now: float, grace_s: float) -> frozenset[str]:
    """Return the journals that have shown a sign within the grace time."""
    return frozenset(
        item["Labels"].get(_SIGN, "")
        for item in _signs(client)
        if now - float(item["Created"]) < grace_s
    )


def _signs(client: docker.APIClient) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = client.containers(all=True, filters={"label": _SIGN})
    # A job's container has the labels of its image, whatever they say, but never such a name.
    return [
        item
        for item in listed
        if any(name.startswith(f"/{_SIGN_NAME}") for name in item.get("Names") or ())
    ]

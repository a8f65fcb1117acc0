"""Containers that never start: what consoles leave on an engine for each other to see.

Each has a reserved name, given by the call that creates it, and an image of nothing without labels,
given by its id. So neither an image nor a task decides what passes for one.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import docker

from gpuconsole.core.containers import LABEL_PREFIX
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError
from gpuconsole.remote.docker.errors import checked

IMAGE = "gpuconsole/lease:1"
"""An empty image, made on the host itself: a claim never waits for a registry."""
_ID = re.compile(r"sha256:[0-9a-f]{64}")
LEASE_LABEL = LABEL_PREFIX + "lease"
"""On a lease: the device's UUID."""


def in_a_name(text: str) -> str:
    """Return a text in the characters that an engine allows in names."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def lease_name(uuid: str) -> str:
    """Return the name of a device's lease container, in the characters an engine allows."""
    return "gpuconsole-lease-" + in_a_name(uuid)


def shared_lease_name(uuid: str) -> str:
    """Return the name of a second lease beside another one."""
    return f"{lease_name(uuid)}-shared"


def is_lease(item: Mapping[str, Any]) -> bool:
    """Tell whether a container that an engine lists is a lease: its name says so too. A container
    has the labels of its image, whatever they say, but never that name."""
    uuid = (item.get("Labels") or {}).get(LEASE_LABEL)
    names = item.get("Names") or ()
    return uuid is not None and any(
        f"/{name}" in names for name in (lease_name(uuid), shared_lease_name(uuid))
    )


def create_empty(client: docker.APIClient, name: str, labels: Mapping[str, str]) -> str:
    """Create a container of nothing that never starts, and return its id; APIError with status
    409 when the name is taken."""
    options: dict[str, Any] = {
        "name": name,
        "command": ["lease"],
        "labels": dict(labels),
        "host_config": client.create_host_config(network_mode="none"),
        "use_config_proxy": False,
    }
    try:
        return str(client.create_container(_empty_image(client), **options)["Id"])
    except docker.errors.ImageNotFound:
        # Somebody has removed it meanwhile.
        return str(client.create_container(_imported(client), **options)["Id"])


def _empty_image(client: docker.APIClient) -> str:
    """Return the id of an image without labels: a job may have made the engine pull another one of
    this name, and every lease would get the labels of that."""
    try:
        details: dict[str, Any] = client.inspect_image(IMAGE)  # type: ignore[no-untyped-call]
    except docker.errors.ImageNotFound:
        return _imported(client)
    labels = (details.get("Config") or {}).get("Labels")
    return _imported(client) if labels else str(details["Id"])


def _imported(client: docker.APIClient) -> str:
    """Make the empty image, and return its id."""
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    repository, tag = IMAGE.split(":")
    said = client.import_image_from_data(empty.getvalue(), repository=repository, tag=tag)
    match = _ID.search(str(said))
    if match is None:
        raise EngineError(
            "Image was not made", msg("The engine did not say the id of {image}.", image=IMAGE),
            "Look at the engine's own log.",
        )  # fmt: skip
    return match[0]


def engine_now(client: docker.APIClient) -> float:
    """Return the engine's time: every answer carries it, and asking for more costs it work."""
    answer = checked(client.get(f"{client.base_url}/_ping", timeout=client.timeout))
    return parsedate_to_datetime(answer.headers["Date"]).timestamp()

"""Containers that never start: what consoles leave on an engine for each other to see."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import docker

from gpuconsole.remote.docker_errors import checked

IMAGE = "gpuconsole/lease:1"
"""An empty image, made on the host itself: a claim never waits for a registry."""


def in_a_name(text: str) -> str:
    """Return a text in the characters that an engine allows in names."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


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
        return str(client.create_container(IMAGE, **options)["Id"])
    except docker.errors.ImageNotFound:
        empty = io.BytesIO()
        tarfile.open(fileobj=empty, mode="w").close()
        repository, tag = IMAGE.split(":")
        client.import_image_from_data(empty.getvalue(), repository=repository, tag=tag)
    return str(client.create_container(IMAGE, **options)["Id"])


def engine_now(client: docker.APIClient) -> float:
    """Return the engine's time: every answer carries it, and asking for more costs it work."""
    answer = checked(client.get(f"{client.base_url}/_ping", timeout=client.timeout))
    return parsedate_to_datetime(answer.headers["Date"]).timestamp()

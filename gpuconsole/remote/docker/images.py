"""Images: is one present, and if not, pull it and tell how far it is."""

from __future__ import annotations

import json
import warnings
from collections.abc import Container, Iterator
from dataclasses import field
from typing import Any

import docker
import requests
from docker.auth import get_config_header, resolve_repository_name
from docker.utils import parse_repository_tag

from gpuconsole.core.containers import LABEL_PREFIX, ImageFacts
from gpuconsole.core.images import parse_reference
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ImageError, UsageError
from gpuconsole.placement.rules.image_compatibility import READ
from gpuconsole.remote.docker.errors import checked
from gpuconsole.remote.docker.transport import SLOW_HEAD_S, BoundedClient

LINE_LIMIT = 64 * 1024
"""A longer line of progress is not one that an engine writes."""
LAYER_LIMIT = 1024
"""Layers that are counted; an engine takes images of 128 at the most."""
VALUE_LIMIT = 16 * 1024
"""Characters of a variable that are read: NVIDIA's own demands are some thousand long."""
SIZE_LIMIT = 2**63
"""Bytes that no layer has."""


def is_present(client: docker.APIClient, image: str) -> bool:
    """Tell whether the engine has the image."""
    if not _is_reference(image):
        return False
    try:
        client.inspect_image(image)  # type: ignore[no-untyped-call]
    except docker.errors.ImageNotFound:
        return False
    return True


def image_facts(client: docker.APIClient, image: str) -> ImageFacts | None:
    """Return what the engine says about an image; None when it does not have it."""
    if not _is_reference(image):
        return None
    try:
        details: dict[str, Any] = client.inspect_image(image)  # type: ignore[no-untyped-call]
    except docker.errors.ImageNotFound:
        return None
    pairs = (str(item).partition("=") for item in (details.get("Config") or {}).get("Env") or ())
    # They are untrusted text of the image's author, and others may hold secrets.
    env = {name: clean(value, VALUE_LIMIT) for name, _, value in pairs if name in READ}
    return ImageFacts(
        env, clean(str(details.get("Architecture", "")), 40), clean(str(details.get("Id", "")), 80)
    )


def _is_reference(image: str) -> bool:
    """Tell whether it is a name of an image: one with `..` asks the engine for something else."""
    try:
        parse_reference(image)
    except UsageError:
        return False
    return True


def refuse_own_labels(
    client: docker.APIClient, image: str, host: str, given: Container[str] = ()
) -> str:
    """Return the id of an image without labels of ours. ImageError for one that has some: a
    container has those of its image too, and would pass for another job. Those that the container
    is `given` do no harm: an image that was made of a job's container has them."""
    details: dict[str, Any] = client.inspect_image(image)  # type: ignore[no-untyped-call]
    labels = (details.get("Config") or {}).get("Labels") or {}
    own = sorted(name for name in labels if name.startswith(LABEL_PREFIX) and name not in given)
    if own:
        raise ImageError(
            "Image cannot be used",
            msg(
                "{image} on {host} has the label {value}.",
                image=image,
                host=host,
                value=clean(own[0], 80),
            ),
            msg(
                "Labels that begin with {label_prefix} are set by gpuconsole; build it "
                "without them.",
                label_prefix=LABEL_PREFIX,
            ),
        )
    return str(details["Id"])


def open_pull(client: BoundedClient, image: str) -> requests.Response:
    """Ask the engine to pull, with the console user's own Docker login for the registry."""
    repository, tag = parse_repository_tag(image)
    return checked(
        client.post(
            f"{client.streams}/v{client.api_version}/images/create",
            params={"fromImage": repository, "tag": tag or "latest"},
            headers=login_header(client, image),
            stream=True,
            timeout=(client.timeout, SLOW_HEAD_S),
        )
    )


def login_header(client: docker.APIClient, image: str) -> dict[str, bytes]:
    """Return the header that carries the console user's own Docker login for an image's registry;
    none where there is no login. ImageError when it cannot be read."""
    repository, _ = parse_repository_tag(image)
    registry, _ = resolve_repository_name(repository)
    try:
        with warnings.catch_warnings():
            # The SDK prints about a helper that is missing, then raises the same.
            warnings.simplefilter("ignore", UserWarning)
            login = get_config_header(client, registry)
    except docker.errors.DockerException as error:
        raise ImageError(
            "Docker login cannot be read",
            msg(
                "{image}: this machine's Docker settings for {registry}: {why}",
                image=image,
                registry=registry,
                why=clean(str(error), 300),
            ),
            msg(
                "Repair ~/.docker/config.json, or run `docker login {registry}`.", registry=registry
            ),
        ) from error
    return {"X-Registry-Auth": login} if login else {}


@dataclass(slots=True)
class PullProgress:
    """Reads a pull's stream of JSON lines: what to say, and how it failed if it did."""

    image: str
    error: str = ""
    _rest: bytes = b""
    _said: str = ""
    _layers: dict[str, tuple[int, int]] = field(default_factory=dict)

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Give a sentence for each visible step."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[:LINE_LIMIT]
        for line in lines:
            sentence = self._read(line)
            if sentence and sentence != self._said:
                self._said = sentence
                yield sentence

    def _read(self, line: bytes) -> str:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(event, dict):
            return ""
        if "error" in event:
            self.error = str(event["error"])
        detail = event.get("progressDetail")
        if event.get("status") == "Downloading" and isinstance(detail, dict):
            self._count(str(event.get("id")), detail)
            return self._sentence()
        if event.get("status") == "Extracting":
            return f"unpacking {clean(self.image, 200)}"
        return ""

    def _count(self, layer: str, detail: dict[str, object]) -> None:
        done, total = detail.get("current"), detail.get("total")
        counted = layer in self._layers or len(self._layers) < LAYER_LIMIT
        if counted and isinstance(done, int) and isinstance(total, int) and 0 < total < SIZE_LIMIT:
            self._layers[layer] = (max(0, min(done, total)), total)

    def _sentence(self) -> str:
        total = sum(total for _, total in self._layers.values())
        if total == 0:
            return ""
        done = sum(done for done, _ in self._layers.values())
        sizes = f"{format_mib(done / MIB)} of {format_mib(total / MIB)}"
        return f"pulling {clean(self.image, 200)} {100 * done // total} % ({sizes})"

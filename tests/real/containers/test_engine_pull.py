"""Pulls from a registry that wants a login: the console user's own, and never another's."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconsole.errors import ImageError
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.links.local import LocalLink
from tests.real.rig.docker import LabDocker, why_not
from tests.real.rig.registry import NAME, Registry

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]


@pytest.fixture(scope="module")
def lab() -> Iterator[LabDocker]:
    with LabDocker(Path(tempfile.mkdtemp(prefix="lab-"))) as engine:
        yield engine


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry("ann", "s3cret") as served:
        yield served


def log_in(registry: Registry) -> None:
    folder = Path(os.environ["HOME"]) / ".docker"
    folder.mkdir()
    auths = {registry.address: {"auth": registry.login}}
    (folder / "config.json").write_text(json.dumps({"auths": auths}))


async def test_without_a_login_the_refusal_says_what_to_do(
    lab: LabDocker, registry: Registry
) -> None:
    engine = DockerEngine(LocalLink("box"), "box", str(lab.socket))
    with pytest.raises(ImageError) as caught:
        await engine.ensure_image(f"{registry.address}/{NAME}:1", lambda _: None)
    await engine.close()
    assert f"{registry.address}/{NAME}:1 on box" in caught.value.message
    assert "docker login" in caught.value.hint


async def test_a_broken_credential_store_is_not_blamed_on_the_engine(
    lab: LabDocker, registry: Registry
) -> None:
    folder = Path(os.environ["HOME"]) / ".docker"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"credsStore": "nosuch"}))
    engine = DockerEngine(LocalLink("box"), "box", str(lab.socket))
    with pytest.raises(ImageError) as caught:
        await engine.ensure_image(f"{registry.address}/{NAME}:1", lambda _: None)
    await engine.close()
    assert caught.value.title == "Docker login cannot be read"
    assert f"docker login {registry.address}" in caught.value.hint


async def test_with_the_users_login_it_pulls_and_tells_how_far(
    lab: LabDocker, registry: Registry
) -> None:
    log_in(registry)
    engine = DockerEngine(LocalLink("box"), "box", str(lab.socket))
    image = f"{registry.address}/{NAME}:1"
    said: list[str] = []
    await engine.ensure_image(image, said.append)
    assert said[0] == f"pulling {image}"
    shares = [line for line in said if " % (" in line]
    assert shares
    assert all(line.startswith(f"pulling {image} ") for line in shares)
    assert all(line.endswith(" of 2.0 MiB)") for line in shares)
    assert said[-1] == f"unpacking {image}"
    said.clear()
    await engine.ensure_image(image, said.append)
    assert said == []
    with pytest.raises(ImageError) as caught:
        await engine.ensure_image(f"{registry.address}/{NAME}:9", said.append)
    assert "name and tag" in caught.value.hint
    await engine.close()


async def test_a_pull_that_is_given_up_leaves_no_image(lab: LabDocker, registry: Registry) -> None:
    log_in(registry)
    engine = DockerEngine(LocalLink("box"), "box", str(lab.socket))
    image = f"{registry.address}/{NAME}:1"
    begun = asyncio.Event()
    task = asyncio.ensure_future(engine.ensure_image(image, lambda said: begun.set()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await engine.image_facts(image) is None
    assert await engine.images.find(image) is None
    # The digest that its registry tells is the one that it has after a pull.
    digest = await engine.images.registry_digest(image)
    await engine.ensure_image(image, lambda said: None)
    found = await engine.images.find(image)
    assert found is not None
    assert found.digest_of(image.rpartition(":")[0]) == digest
    await engine.close()

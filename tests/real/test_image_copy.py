"""An image goes from one engine to another through the console, whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuconsole.errors import EngineError, ImageError, UnreachableError
from gpuconsole.remote.engine import DockerEngine
from gpuconsole.remote.local import LocalLink
from tests.real.rig.docker import LabDocker, why_not

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]
NAME = "lab/train:7"
SIZE = 24 * 2**20


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[LabDocker, LabDocker]]:
    roots = [Path(tempfile.mkdtemp(prefix="lab-")) for _ in range(2)]
    with LabDocker(roots[0]) as first, LabDocker(roots[1]) as second:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            entry = tarfile.TarInfo("weights")
            entry.size = SIZE
            tar.addfile(entry, io.BytesIO(os.urandom(SIZE)))
        first.client().import_image_from_data(
            out.getvalue(), repository="lab/train", tag="7", changes=["ENV CUDA_VERSION=12.6.3"]
        )
        yield first, second


@pytest.fixture
async def ends(
    engines: tuple[LabDocker, LabDocker],
) -> AsyncIterator[tuple[DockerEngine, DockerEngine]]:
    made = [
        DockerEngine(LocalLink(name), name, str(lab.socket))
        for name, lab in zip("ab", engines, strict=True)
    ]
    yield made[0], made[1]
    for engine in made:
        await engine.close()


async def test_an_image_arrives_as_it_was(ends: tuple[DockerEngine, DockerEngine]) -> None:
    a, b = ends
    sent = 0

    async def counted() -> AsyncIterator[bytes]:
        nonlocal sent
        async for chunk in a.images.save(NAME):
            sent += len(chunk)
            yield chunk

    await b.images.load(counted())
    there, here = await b.images.find(NAME), await a.images.find(NAME)
    assert sent > SIZE
    assert here is not None
    assert there == here
    assert there.layers
    assert [record.names for record in await b.images.list()] == [(NAME,)]
    b_client = await b._calls._connected("test")
    b_client.remove_image(NAME)

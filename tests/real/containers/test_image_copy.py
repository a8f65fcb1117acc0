"""An image goes from one engine to another through the console, whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.images import ImageStore, Progress
from gpuconsole.core.units import MIB
from gpuconsole.errors import EngineError, ImageError, UnreachableError
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.links.local import LocalLink
from gpuconsole.session.clock import WallClock
from gpuconsole.session.images.copy import Copied, End, copy_image
from tests.real.rig.docker import LabDocker, why_not
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]
Engines = tuple[LabDocker, LabDocker]
Ends = tuple[DockerEngine, DockerEngine]
NAME = "lab/train:7"
SIZE = 24 * 2**20


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
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
def disk() -> Iterator[Path]:
    """Give a disk that is smaller than the image."""
    folder = Path(tempfile.mkdtemp(prefix="lab-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE // 2}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()


@pytest.fixture
async def ends(engines: Engines) -> AsyncIterator[Ends]:
    made = [
        DockerEngine(LocalLink(name), name, str(lab.socket))
        for name, lab in zip("ab", engines, strict=True)
    ]
    yield made[0], made[1]
    for engine in made:
        await engine.close()


async def test_an_image_arrives_as_it_was(ends: Ends, engines: Engines) -> None:
    a, b = ends
    said: list[str] = []
    done = await copied(a, b, said.append)
    assert done.sent_mib > SIZE / MIB
    there, here = await b.images.find(NAME), await a.images.find(NAME)
    assert here is not None
    assert there == here
    assert there.layers
    assert [record.names for record in await b.images.list()] == [(NAME,)]
    engines[1].client().remove_image(NAME)


async def test_a_copy_that_is_cancelled_leaves_nothing(ends: Ends, engines: Engines) -> None:
    a, b = ends
    begun = asyncio.Event()
    task = asyncio.ensure_future(copied(Slow(a.images, begun), b, lambda said: None))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await b.images.list() == ()
    # Both engines are as usable as before.
    await copied(a, b, lambda said: None)
    engines[1].client().remove_image(NAME)


async def test_an_engine_that_goes_away_is_told(ends: Ends, engines: Engines) -> None:
    a, b = ends
    begun = asyncio.Event()
    task = asyncio.ensure_future(copied(Slow(a.images, begun), b, lambda said: None))
    await begun.wait()
    await asyncio.to_thread(engines[1].stop)
    with pytest.raises(UnreachableError) as caught:
        await asyncio.wait_for(task, PATIENCE_S)
    assert caught.value.title == "Docker is not there"
    await asyncio.to_thread(engines[1].start)
    assert await b.images.list() == ()


async def test_a_full_disk_is_told(ends: Ends, disk: Path) -> None:
    with LabDocker(disk) as lab:
        small = DockerEngine(LocalLink("small"), "small", str(lab.socket))
        with pytest.raises(EngineError) as caught:
            await copied(ends[0], small, lambda said: None)
        assert caught.value.title == "The host's disk is full"
        assert "small" in caught.value.message
        assert await small.images.list() == ()
        await small.close()


async def test_an_image_nobody_has_is_told(ends: Ends) -> None:
    with pytest.raises(ImageError) as caught:
        async for _ in ends[0].images.save("lab/none:1"):
            pass
    assert "lab/none:1 on a" in caught.value.message
    with pytest.raises(ImageError) as caught:
        await ends[0].ensure_image("sha256:" + "0" * 64, lambda said: None)
    assert "gpuconsole image copy" in caught.value.hint


class Slow:
    """A store whose streams stand still after their first chunk, until they are given up."""

    def __init__(self, store: ImageStore, begun: asyncio.Event) -> None:
        self._store = store
        self._begun = begun

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def save(self, image: str) -> AsyncIterator[bytes]:
        async with contextlib.aclosing(self._store.save(image)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk
                if not self._begun.is_set():
                    self._begun.set()
                    continue
                await asyncio.sleep(0.05)


async def copied(source: DockerEngine | Slow, target: DockerEngine, progress: Progress) -> Copied:
    store = source if isinstance(source, Slow) else source.images
    ends = End("a", store), End("b", target.images)  # type: ignore[arg-type]
    return await copy_image(NAME, *ends, WallClock(), progress, replace=False)

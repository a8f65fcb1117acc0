"""What a person is told when the engine is away, refuses, hangs, or goes down under a job."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuconsole.errors import EngineError, UnreachableError
from gpuconsole.remote.docker import thread_pool
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.links.local import LocalLink
from gpuconsole.remote.links.protocol import Completed
from tests.real.rig.docker import LabDocker, why_not
from tests.real.rig.engines import run, spec, sweep, until
from tests.real.rig.image import paddle_image
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]


@pytest.fixture(scope="module")
def lab() -> Iterator[LabDocker]:
    with LabDocker(Path(tempfile.mkdtemp(prefix="lab-")), toolkit=False) as engine:
        paddle_image(engine)
        yield engine


@pytest.fixture
async def engine(lab: LabDocker) -> AsyncIterator[DockerEngine]:
    engine = DockerEngine(LocalLink("here"), "here", str(lab.socket))
    yield engine
    await engine.close()
    sweep(lab)


@pytest.mark.fault("The GPU toolkit is missing", "Named, with the command that installs it")
async def test_no_toolkit_is_named_with_the_remedy(engine: DockerEngine) -> None:
    info = await engine.info()
    assert not info.gpu_runtime
    assert info.version.startswith("20.") or int(info.version.split(".")[0]) > 20
    container = await engine.create(spec("gpu", "true", device_uuids=("GPU-a",)))
    with pytest.raises(EngineError) as caught:
        await engine.start(container)
    assert caught.value.title == "No GPU runtime"
    assert "nvidia-ctk runtime configure" in caught.value.hint


async def test_a_toolkit_is_seen() -> None:
    with LabDocker(Path(tempfile.mkdtemp(prefix="lab-")), uuids=("GPU-a",)) as lab:
        engine = DockerEngine(LocalLink("here"), "here", str(lab.socket))
        info = await engine.info()
        await engine.close()
    assert info.gpu_runtime
    assert "nvidia" in info.runtimes


async def test_no_socket_is_named(tmp_path: Path) -> None:
    engine = DockerEngine(LocalLink("box"), "box", str(tmp_path / "none.sock"))
    with pytest.raises(UnreachableError) as caught:
        await engine.leases()
    assert caught.value.title == "Docker is not there"
    assert f"box has no Docker socket at {tmp_path / 'none.sock'}" in caught.value.message
    await engine.close()


@pytest.mark.fault("Docker is not running behind its socket", "Named as that")
async def test_a_socket_that_nobody_serves_is_named(tmp_path: Path) -> None:
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
    engine = DockerEngine(LocalLink("box"), "box", str(path))
    with pytest.raises(UnreachableError, match="the connection broke") as caught:
        await engine.info()
    assert caught.value.title == "Docker does not answer"
    await engine.close()


class _Stranger(LocalLink):
    """The link of an account that is not in the socket's group: root may write anywhere, so its
    view of the host is that of an ordinary account."""

    async def run(self, argv, *, stdin=b"", timeout=30.0) -> Completed:  # type: ignore[no-untyped-def]
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv]
        return await super().run(as_nobody, stdin=stdin, timeout=timeout)

    async def forward_socket(self, path: str) -> str:
        return "/nonexistent/forward.sock"


@pytest.mark.fault("The account may not use the Docker socket", "Named, with the group to join")
async def test_no_rights_on_the_socket_are_named(lab: LabDocker) -> None:
    lab.root.chmod(0o755)
    engine = DockerEngine(_Stranger("box"), "box", str(lab.socket))
    with pytest.raises(UnreachableError) as caught:
        await engine.info()
    assert caught.value.title == "Docker refuses this account"
    assert "usermod -aG docker" in caught.value.hint
    await engine.close()


async def test_a_hung_engine_costs_its_timeout_and_comes_back(
    lab: LabDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_pool, "CALL_TIMEOUT_S", 0.5)
    engine = DockerEngine(LocalLink("box"), "box", str(lab.socket))
    await engine.info()
    lab.freeze()
    try:
        with pytest.raises(UnreachableError, match="no answer in time"):
            await engine.info()
    finally:
        lab.thaw()
    assert (await engine.info()).version
    await engine.close()


@pytest.mark.fault(
    "Docker restarts while a log is followed",
    "The follow ends; the engine is found again",
)
async def test_a_restart_under_a_follow_ends_it_and_the_engine_is_found_again(
    lab: LabDocker, engine: DockerEngine
) -> None:
    container = await engine.create(spec("cut", "sh", "-c", "echo up; exec sleep 1000"))
    await engine.start(container)
    heard = asyncio.Event()

    async def follow() -> None:
        async for _ in engine.logs(container, follow=True):
            heard.set()

    following = asyncio.ensure_future(follow())
    await asyncio.wait_for(heard.wait(), PATIENCE_S)
    await asyncio.to_thread(lab.restart)
    # It may end as if the job had, or with an error: only a look at the container tells.
    with contextlib.suppress(UnreachableError):
        await asyncio.wait_for(following, PATIENCE_S)
    status = await until(engine, container, "exited")
    assert status.exit_code in (137, 143)
    assert [found.id for found in await engine.own("J1")] == [container]
    _, log = await run(engine, spec("after", "echo", "again"))
    assert log == b"again\n"


async def test_an_engine_gone_under_a_follow_is_told_by_the_next_call(tmp_path: Path) -> None:
    lab = LabDocker(Path(tempfile.mkdtemp(prefix="lab-")), toolkit=False)
    with lab:
        paddle_image(lab)
        engine = DockerEngine(LocalLink("box"), "box", str(lab.socket))
        container = await engine.create(spec("gone", "sh", "-c", "echo up; exec sleep 1000"))
        await engine.start(container)
        with contextlib.suppress(UnreachableError):
            async for _ in engine.logs(container, follow=True):
                await asyncio.to_thread(lab.stop)
        with pytest.raises(UnreachableError):
            await engine.inspect(container)
        await engine.close()


@pytest.mark.fault("Something else answers at the Docker socket", "A sentence, no traceback")
async def test_something_else_on_the_socket_is_no_traceback(tmp_path: Path) -> None:
    path = str(tmp_path / "other.sock")

    async def chatter(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(os.urandom(4096))
        writer.close()

    server = await asyncio.start_unix_server(chatter, path)
    engine = DockerEngine(LocalLink("box"), "box", path)
    with pytest.raises(UnreachableError, match="box"):
        await engine.info()
    await engine.close()
    server.close()


async def test_a_project_that_vanished_is_not_blamed_on_the_engine(
    engine: DockerEngine, tmp_path: Path
) -> None:
    container = await engine.create(spec("nobundle", "true"))
    with pytest.raises(Exception, match="packed project cannot be read"):
        await engine.put(container, tmp_path / "none.tar.gz", "/workspace")
    (tmp_path / "bad.tar.gz").write_bytes(b"not a tar")
    with pytest.raises(Exception, match="packed project cannot be read"):
        await engine.put(container, tmp_path / "bad.tar.gz", "/workspace")


@pytest.fixture
def small() -> Iterator[LabDocker]:
    """Give an engine whose disk holds 12 MiB."""
    root = Path(tempfile.mkdtemp(prefix="lab-"))
    data = root / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(data)], check=True)
    try:
        with LabDocker(root) as lab:
            paddle_image(lab)
            yield lab
    finally:
        subprocess.run(["umount", "--lazy", str(data)], check=True)
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.fault("Docker's disk is full", "Named as that")
async def test_a_full_disk_is_named(small: LabDocker, tmp_path: Path) -> None:
    bundle = tmp_path / "big.tar"
    with tarfile.open(bundle, "w") as tar:
        entry = tarfile.TarInfo("big")
        entry.size = 20 * 2**20
        tar.addfile(entry, io.BytesIO(os.urandom(entry.size)))
    engine = DockerEngine(LocalLink("box"), "box", str(small.socket))
    container = await engine.create(spec("full", "true"))
    with pytest.raises(EngineError) as caught:
        await engine.put(container, bundle, "/workspace")
    await engine.close()
    assert caught.value.title == "The host's disk is full"

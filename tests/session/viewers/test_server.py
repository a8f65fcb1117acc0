"""One session's picture on a socket, and sessions of viewers that live on it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.errors import ReadOnlyError, UnreachableError
from gpuconsole.session.fleet.changes import applied, changes
from gpuconsole.session.viewers.client import SharedHosts, open_shared
from gpuconsole.session.viewers.server import Share, greeting_of
from gpuconsole.state import Journal
from tests.waiting import until

UP = Host("one", HostState.UP, labels={"rack": "r1"}, devices=(Device("GPU-1", 0, "A100"),))
DOWN = Host("two", HostState.DOWN, error="No route to host.")


def fleet(revision: int, *hosts: Host) -> FleetSnapshot:
    return FleetSnapshot(revision, 1000.0 + revision, hosts, simulated=True)


class Source:
    """What a share needs of a session, as a test sets it."""

    def __init__(self) -> None:
        self.now = fleet(1, UP, DOWN)
        self.leases: dict[str, tuple[Lease, ...]] = {}
        self.hosts = SimpleNamespace(snapshot=lambda: self.now)
        self.settings = LabSettings(memory_threshold=0.7)
        self.simulated = True
        self._context = SimpleNamespace(default_image=lambda host: f"image-of-{host}")
        self._leases = SimpleNamespace(seen=lambda: dict(self.leases))


def test_only_what_changed_is_told_and_the_picture_is_the_same() -> None:
    before = fleet(1, UP, DOWN)
    hotter = replace(UP, devices=(replace(UP.devices[0], temperature_c=80.0),))
    after = fleet(2, DOWN, hotter)
    reported = changes(before, after, {})
    assert reported.changed == (hotter,)
    assert applied(before, reported) == after
    gone = fleet(3, DOWN)
    assert applied(after, changes(after, gone, {})) == gone
    assert applied(FleetSnapshot(), changes(None, after, {})) == after


async def test_viewers_see_what_the_session_sees(tmp_path: Path) -> None:
    source, path = Source(), tmp_path / "session"
    async with Share(source, path, "lab-a"):  # type: ignore[arg-type]
        assert path.stat().st_mode & 0o777 == 0o600
        greeting = await asyncio.to_thread(greeting_of, path)
        assert (greeting.site, greeting.settings.memory_threshold) == ("lab-a", 0.7)
        assert greeting.images == {"one": "image-of-one", "two": "image-of-two"}
        viewers = [SharedHosts(path) for _ in range(3)]
        for viewer in viewers:
            await viewer.start()
            await until(lambda viewer=viewer: viewer.snapshot() == source.now)
        source.now = fleet(2, replace(UP, error="[b]\x1b[31m训练"), DOWN)
        for viewer in viewers:
            await until(lambda viewer=viewer: viewer.snapshot() == source.now)
        assert viewers[0].snapshot().host("two") == DOWN
        await viewers[0].close()
        source.now = fleet(3, UP)
        await until(lambda: viewers[1].snapshot() == source.now)
        assert viewers[0].snapshot().revision == 2
    # The other session has ended: the last picture stays and grows old.
    assert viewers[1].snapshot().revision == 3
    for viewer in viewers[1:]:
        await viewer.close()
    with pytest.raises(UnreachableError, match="does not answer"):
        await asyncio.to_thread(greeting_of, path)


async def test_leases_are_known_and_nothing_else_of_an_engine(tmp_path: Path) -> None:
    source, path = Source(), tmp_path / "session"
    lease = Lease("GPU-1", "ana-1", "1", "ana", "journal", 5.0)
    async with Share(source, path):  # type: ignore[arg-type]
        viewer = SharedHosts(path)
        await viewer.start()
        engine = await viewer.engine("one")
        source.leases = {"one": (lease,)}

        async def leased() -> bool:
            return await (await viewer.engine("one")).leases() == (lease,)

        await until(leased)
        with pytest.raises(UnreachableError, match="session behind this page"):
            await engine.logs("x", 0)  # type: ignore[call-arg]
        await viewer.close()


async def test_a_viewers_session_reads_the_queue_and_refuses_to_write(tmp_path: Path) -> None:
    source, path = Source(), tmp_path / "session"
    state = tmp_path / "state"
    Journal(state, clock=time.time).close()
    async with Share(source, path):  # type: ignore[arg-type]
        greeting = await asyncio.to_thread(greeting_of, path)
        async with open_shared(path, greeting, state, read_only=True) as session:
            await until(lambda: session.snapshot().host("one") is not None)
            assert session.read_only
            assert session.simulated
            assert not session.dispatching
            assert not session.recorder.on
            with pytest.raises(ReadOnlyError):
                await session.queue.cancel("any")

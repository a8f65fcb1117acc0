"""Pollers and the fleet's picture, on links that a test plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import HostState
from gpuconsole.errors import EngineError, UnreachableError, UsageError
from gpuconsole.remote import hosts as hosts_module
from gpuconsole.remote.agent import main as agent
from gpuconsole.remote.hosts import MANY_HOSTS, RemoteHosts, make_links
from gpuconsole.remote.inventory import HostEntry, Inventory
from gpuconsole.remote.links.protocol import Completed, Link
from gpuconsole.remote.links.ssh import SshLink
from gpuconsole.remote.polling import poller, sources
from tests.waiting import DEADLINE_S, until

MARK = b"@gpuc "


class FakeChannel:
    """An agent with lines that the test says."""

    def __init__(self) -> None:
        self.written = b""
        self.lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = False
        self.exit_status: int | None = None
        self.error_tail = b""
        self.lost: Exception | None = None

    def write(self, data: bytes) -> None:
        if not self.written:
            options = next(part for part in data.split(b"\n") if part.startswith(b'{"nonce"'))
            self.say({"hello": json.loads(options)["nonce"]})
        self.written += data

    def say(self, frame: dict[str, object]) -> None:
        self.lines.put_nowait(MARK + json.dumps(frame).encode())

    async def read_line(self) -> bytes | None:
        return await self.lines.get()

    async def close(self) -> None:
        self.closed = True


class FakeLink:
    """A link with commands that are refused until the test lets them in."""

    def __init__(self) -> None:
        self.channels: list[FakeChannel] = []
        self.fault: Exception | None = None
        self.closed = False

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        raise EngineError("Command failed", "no such program")

    async def stream(self, argv: Sequence[str]) -> AsyncIterator[bytes]:
        yield b""

    async def open(self, argv: Sequence[str]) -> FakeChannel:
        if self.fault is not None:
            raise self.fault
        self.channels.append(FakeChannel())
        return self.channels[-1]

    async def forward_socket(self, path: str) -> str:
        return path

    async def close(self) -> None:
        self.closed = True


FRAME = {"t": 100.0, "f": 1, "s": [{"i": 0, "u": "GPU-a", "n": "A100"}], "d": {"0": {"u": 5}}}


class Fleet:
    """RemoteHosts over fake links."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: Sequence[str]) -> None:
        self.links = {name: FakeLink() for name in names}
        links: dict[str, Link] = dict(self.links)
        monkeypatch.setattr(hosts_module, "make_links", lambda *_: links)
        settings = LabSettings.model_validate({"poll": {"stale_after": 0.3}})
        entries = tuple(HostEntry(name, address=name) for name in names)
        self.hosts = RemoteHosts(
            Inventory("test", entries), settings, clock=lambda: 100.5, random=lambda: 0.01
        )

    async def until(self, condition: Callable[[], object]) -> None:
        await until(condition, f"{self.hosts.snapshot()}")

    async def channel(self, name: str, number: int = 0) -> FakeChannel:
        link = self.links[name]
        await self.until(lambda: len(link.channels) > number)
        return link.channels[number]


@pytest.fixture
async def fleet(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    made = Fleet(monkeypatch, "ab")
    await made.hosts.start()
    yield made
    await made.hosts.close()
    assert all(link.closed for link in made.links.values())
    assert all(channel.closed for link in made.links.values() for channel in link.channels)


async def test_a_picture_changes_only_where_a_host_does(fleet: Fleet) -> None:
    first = fleet.hosts.snapshot()
    assert [host.state for host in first.hosts] == [HostState.CONNECTING] * 2
    (await fleet.channel("a")).say(FRAME)
    await fleet.until(lambda: fleet.hosts.snapshot().hosts[0].devices)
    second = fleet.hosts.snapshot()
    assert fleet.hosts.snapshot() is second
    assert second.revision > first.revision
    assert second.hosts[1] is first.hosts[1]
    assert second.hosts[0].devices[0].utilization == 5


@pytest.mark.parametrize("more", [0, 1])
async def test_agents_of_few_hosts_speak_together(
    more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(monkeypatch, [f"n{number}" for number in range(MANY_HOSTS + more)])
    await fleet.hosts.start()
    channel = await fleet.channel("n7")
    await fleet.until(lambda: channel.written)
    options = next(part for part in channel.written.split(b"\n") if part.startswith(b'{"nonce"'))
    assert json.loads(options)["together"] is (more == 0)
    await fleet.hosts.close()


async def test_an_answer_carries_both_clocks(fleet: Fleet) -> None:
    channel = await fleet.channel("a")
    channel.say(FRAME)
    await fleet.until(lambda: channel.written.endswith(b"a 100.500 100.000\n"))


async def test_a_line_that_comes_soon_after_another_is_not_answered(fleet: Fleet) -> None:
    channel = await fleet.channel("a")
    channel.say(FRAME)
    channel.say({"t": 100.1, "d": {"0": {"u": 6}}})
    await fleet.until(
        lambda: [device.utilization for device in fleet.hosts.snapshot().hosts[0].devices] == [6]
    )
    assert channel.written.count(b"a 100.500 ") == 1


def test_answers_come_often_enough_for_the_agent_to_stay() -> None:
    # An answer may wait for the next line, and that for the longest pause between two.
    assert sources.ANSWER_EVERY_S + 2 * agent.HEARTBEAT_S < agent.SILENCE_S


async def test_a_bad_frame_is_shown_and_a_whole_one_asked_for(fleet: Fleet) -> None:
    channel = await fleet.channel("a")
    channel.say(FRAME)
    await fleet.until(lambda: fleet.hosts.snapshot().hosts[0].devices)
    channel.lines.put_nowait(MARK + b"\x1b[31mgarbage")
    await fleet.until(lambda: "unreadable frame" in fleet.hosts.snapshot().hosts[0].error)
    host = fleet.hosts.snapshot().hosts[0]
    assert (host.state, len(host.devices)) == (HostState.UP, 1)
    assert channel.written.endswith(b"r\n")
    channel.say(FRAME)
    await fleet.until(lambda: not fleet.hosts.snapshot().hosts[0].error)


async def test_missing_frames_make_a_host_stale_and_the_next_one_mends_it(fleet: Fleet) -> None:
    channel = await fleet.channel("a")
    channel.say(FRAME)
    await fleet.until(lambda: fleet.hosts.snapshot().hosts[0].state is HostState.STALE)
    assert fleet.hosts.snapshot().hosts[0].devices
    channel.say({"t": 101.0})
    await fleet.until(lambda: fleet.hosts.snapshot().hosts[0].state is HostState.UP)
    assert not channel.closed


async def test_an_agent_that_ends_is_started_again(fleet: Fleet) -> None:
    channel = await fleet.channel("a")
    channel.say(FRAME)
    await fleet.until(lambda: fleet.hosts.snapshot().hosts[0].devices)
    channel.lines.put_nowait(None)
    again = await fleet.channel("a", 1)
    again.say(FRAME)
    await fleet.until(lambda: fleet.hosts.snapshot().hosts[0].state is HostState.UP)


async def test_a_host_out_of_reach_is_down_with_its_reason_and_tried_again(fleet: Fleet) -> None:
    link = fleet.links["a"]
    channel = await fleet.channel("a")
    link.fault = UnreachableError("No answer", "a did not answer.", "Is it on?")
    channel.lines.put_nowait(None)
    await fleet.until(lambda: "a did not answer" in fleet.hosts.snapshot().hosts[0].error)
    assert fleet.hosts.snapshot().hosts[0].state is HostState.DOWN
    link.fault = None
    (await fleet.channel("a", 1)).say(FRAME)
    await fleet.until(lambda: fleet.hosts.snapshot().hosts[0].state is HostState.UP)


async def test_each_failure_doubles_the_longest_pause_up_to_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    enough = asyncio.Event()

    async def within(seconds: float, doing: Coroutine[Any, Any, object]) -> None:
        doing.close()
        pauses.append(seconds)
        if len(pauses) == 7:
            enough.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(poller, "within", within)
    link = FakeLink()
    link.fault = UnreachableError("No answer", "a did not answer.", "Is it on?")
    followed = poller.HostPoller(
        HostEntry("a"), link, lambda host: None,
        clock=lambda: 100.0, random=lambda: 1.0, stale_after=5.0,
    )  # fmt: skip
    following = asyncio.ensure_future(followed.run())
    await asyncio.wait_for(enough.wait(), DEADLINE_S)
    following.cancel()
    await asyncio.wait({following})
    assert pauses == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


async def test_a_host_of_another_inventory_is_refused(fleet: Fleet) -> None:
    with pytest.raises(UsageError, match="nobody is not in the inventory"):
        await fleet.hosts.engine("nobody")
    with pytest.raises(UsageError, match="nobody"):
        fleet.hosts.link("nobody")


def test_hosts_behind_one_jump_host_share_its_link() -> None:
    entries = (
        HostEntry("a", address="a", jump="gate"),
        HostEntry("b", address="b", jump="gate"),
        HostEntry("gate", address="g"),
        HostEntry("c", address="c", jump="alias"),
        HostEntry("here", local=True),
    )
    links = make_links(Inventory("test", entries), LabSettings())
    jumps = {}
    for name in "abc":
        link = links[name]
        assert isinstance(link, SshLink)
        jumps[name] = link._jump
    assert jumps["a"] is jumps["b"] is links["gate"]
    assert jumps["c"] is links["alias"]
    assert not isinstance(links["here"], SshLink)


@pytest.mark.parametrize("more", [0, 1])
def test_where_there_are_many_hosts_their_readers_are_woken_together(more: int) -> None:
    count = MANY_HOSTS + more
    entries = tuple(HostEntry(f"n{number}", address="a") for number in range(count))
    links = make_links(Inventory("test", entries), LabSettings()).values()
    wakeups = {link._wakeups for link in links if isinstance(link, SshLink)}
    assert len(wakeups) == 1
    assert (None in wakeups) is (more == 0)

"""Where a host's frames come from: the agent under Python, else the `nvidia-smi` stream, else other
vendors' tools alone."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostFacts, HostState
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, UnreachableError
from gpuconsole.remote.links.protocol import Channel, Link
from gpuconsole.remote.polling import agent_launch
from gpuconsole.remote.polling import nvidia_smi as smi
from gpuconsole.remote.polling.agent_frames import FrameError, Picture
from gpuconsole.remote.polling.vendor_tools import ToolRounds
from gpuconsole.waiting import within

HELLO_TIMEOUT_S = 15.0
"""How long (s) Python may take to start: a loaded host, or one with its home on a slow network."""
NOISE_LINES = 1000
"""Lines that are none of ours before a program is taken for something else."""
BAD_FRAMES = 20
"""Unreadable frames in a row after which an agent is given up."""
ANSWER_EVERY_S = 2.4
"""The agent ends after 4.7 s of silence; it need not hear of every line, and each answer costs."""
PROCESSES_EVERY_S = 5.0
SMI_INTERVAL_S = 2.0
"""Longest pause between two rounds of nvidia-smi, which has no heartbeat of its own."""


Frames = AsyncGenerator[Host, None]
WITHOUT_PYTHON = ("nvidia-smi", "vendor tools")
WAYS = ("python3", "/usr/bin/python3", *WITHOUT_PYTHON)
"""Ways to read a host, in the order in which they are tried."""


class NoSourceError(Exception):
    """This way of reading the host does not work there; the text says why."""


def frames(
    link: Link, base: Host, way: str, interval: float, clock: Callable[[], float],
    *, together: bool = False,
) -> Frames:  # fmt: skip
    """Follow a host by one of the WAYS; an agent speaks `together` with others, or by itself."""
    if way == "nvidia-smi":
        return nvidia_smi(link, base, interval, clock)
    if way == "vendor tools":
        return vendor_tools(link, base, interval, clock)
    return agent(link, base, way, interval, clock, together=together)


async def agent(
    link: Link, base: Host, python: str, interval: float, clock: Callable[[], float],
    *, together: bool = False,
) -> Frames:  # fmt: skip
    """Run the agent with that interpreter and give a host record for each of its lines.

    NoSourceError when it does not start or writes garbage; the iterator ends when it ends.
    """
    channel = await _open(link, agent_launch.command(python))
    try:
        nonce = secrets.token_hex(16)
        channel.write(agent_launch.payload(nonce, interval, together=together))
        await _hello(channel, nonce, python)
        picture = Picture(base)
        bad = noise = 0
        answered = 0.0
        wanted: tuple[int, ...] = ()
        while (line := await channel.read_line()) is not None:
            now = clock()
            if not line.startswith(agent_launch.MARK):
                noise += 1
                if noise > NOISE_LINES:
                    raise NoSourceError(
                        msg("{python} prints lines that are not samples", python=python)
                    )
                continue
            try:
                host = picture.apply(line[len(agent_launch.MARK) :], now)
            except FrameError as error:
                bad += 1
                if bad > BAD_FRAMES:
                    raise NoSourceError(
                        msg("{python} sends unreadable samples: {why}", python=python, why=error)
                    ) from None
                channel.write(b"r\n")
                yield replace(base, error=f"unreadable frame: {error}")
                continue
            if host is None:
                continue
            bad = 0
            if now - answered >= ANSWER_EVERY_S or now < answered:
                answered = now
                channel.write(b"a %.3f %.3f\n" % (now, picture.taken))
            if picture.asked_of != wanted:
                wanted = picture.asked_of
                channel.write(b"w %s\n" % " ".join(map(str, wanted)).encode())
            yield host
        _raise_if_lost(channel, base.name)
    finally:
        await channel.close()


async def _open(link: Link, argv: list[str]) -> Channel:
    try:
        return await link.open(argv)
    except EngineError as error:
        # This machine says at once that there is no such program; a far shell says it later.
        raise NoSourceError(error.message) from error


async def _hello(channel: Channel, nonce: str, python: str) -> None:
    try:
        await within(HELLO_TIMEOUT_S, _read_hello(channel, nonce.encode(), python))
    except asyncio.TimeoutError:
        raise NoSourceError(
            msg(
                "{python} started nothing within {hello_timeout_s} s",
                python=python,
                hello_timeout_s=f"{HELLO_TIMEOUT_S:g}",
            )
        ) from None


async def _read_hello(channel: Channel, nonce: bytes, python: str) -> None:
    for _ in range(NOISE_LINES):
        line = await channel.read_line()
        if line is None:
            said = channel.error_tail.decode("utf-8", "replace").strip().splitlines()
            reason = clean(said[-1], 200) if said else "it ended without a word"
            raise NoSourceError(f"{python}: {reason}")
        if line.startswith(agent_launch.MARK) and nonce in line:
            return
    raise NoSourceError(f"{python} prints lines that are not samples")


async def nvidia_smi(link: Link, base: Host, interval: float, clock: Callable[[], float]) -> Frames:
    """Follow `nvidia-smi` and give a host record for each round of it."""
    mask, count, driver = await _probe(link)
    facts = HostFacts(driver_version=driver, source="nvidia-smi")
    # Never seldom: frames that stay away would look like a lost host.
    channel = await _open(link, smi.stream(mask, min(interval, SMI_INTERVAL_S)))
    listed = _Processes(link)
    rounds = ToolRounds(link, interval, clock)
    tasks = [asyncio.ensure_future(listed.follow()), asyncio.ensure_future(_beside(rounds))]
    try:
        columns: tuple[str, ...] = ()
        devices: list[Device] = []
        bad = 0
        while (line := await channel.read_line()) is not None:
            text = line.decode("utf-8", "replace")
            if not columns:
                columns = smi.split_header(text)
                continue
            try:
                devices.append(smi.device(columns, text, listed.found))
            except ValueError as error:
                bad += 1
                if bad > BAD_FRAMES:
                    raise NoSourceError(
                        msg("nvidia-smi cannot be read: {why}", why=error)
                    ) from None
                devices.clear()
                continue
            if len(devices) == count:
                bad = 0
                yield replace(
                    base,
                    state=HostState.UP,
                    devices=(*devices, *rounds.shelf.devices({})),
                    facts=facts,
                    error=rounds.shelf.error,
                    sampled_at=clock(),
                )
                devices.clear()
        _raise_if_lost(channel, base.name)
    finally:
        for task in tasks:
            task.cancel()
        await channel.close()


async def vendor_tools(
    link: Link, base: Host, interval: float, clock: Callable[[], float]
) -> Frames:
    """Follow the tools of other vendors alone and give a host record every now and then."""
    rounds = ToolRounds(link, interval, clock)
    try:
        tools = await rounds.find()
    except EngineError as error:
        raise NoSourceError(error.message) from error
    if not tools:
        raise NoSourceError("no tool of another vendor is there")
    task = asyncio.ensure_future(rounds.follow(tools))
    try:
        while not task.done():
            shelf = rounds.shelf
            if shelf.heard:
                facts = HostFacts(driver_version=shelf.driver, source="vendor tools")
                yield replace(
                    base,
                    state=HostState.UP,
                    devices=shelf.devices({}),
                    facts=facts,
                    sampled_at=clock(),
                    error=shelf.error,
                )
            await asyncio.wait({task}, timeout=min(interval, SMI_INTERVAL_S))
        task.result()
        raise UnreachableError("Link lost", msg("{name}: the connection ended.", name=base.name))
    finally:
        task.cancel()


async def _beside(rounds: ToolRounds) -> None:
    """Follow other vendors' tools beside the stream, as far as the host has any."""
    with contextlib.suppress(UnreachableError, EngineError):
        await rounds.follow(await rounds.find())


async def _probe(link: Link) -> tuple[str, int, str]:
    """Return the mask field that the tool knows, the number of devices and the driver."""
    reason = ""
    for mask in smi.MASK_FIELDS:
        try:
            done = await link.run(smi.query(mask), timeout=20.0)
        except EngineError as error:
            raise NoSourceError(error.message) from error
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        if done.exit_status == 0 and len(lines) > 1:
            return mask, len(lines) - 1, smi.driver_version(smi.split_header(lines[0]), lines[1])
        said = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
        reason = clean(said[-1], 200) if said else "it printed nothing"
        if "not a valid field" not in reason:
            break
    raise NoSourceError(msg("nvidia-smi: {reason}", reason=reason))


class _Processes:
    """The processes of all devices, asked for seldom: each answer is a program's start."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.found: dict[str, tuple[DeviceProcess, ...]] = {}

    async def follow(self) -> None:
        """Ask again and again until the link breaks, which the stream tells as well."""
        while True:
            try:
                done = await self._link.run(smi.process_query(), timeout=20.0)
            except UnreachableError:
                return
            except EngineError:
                self.found = {}
            else:
                self.found = smi.processes(done.stdout.decode("utf-8", "replace"))
            await asyncio.sleep(PROCESSES_EVERY_S)


def _raise_if_lost(channel: Channel, host: str) -> None:
    if channel.lost is not None:
        reason = clean(str(channel.lost), 200) or "the connection ended"
        raise UnreachableError("Link lost", msg("{host}: {reason}.", host=host, reason=reason))

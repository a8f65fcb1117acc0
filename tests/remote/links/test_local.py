"""The link to this machine, with real processes."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuconsole.errors import EngineError
from gpuconsole.remote.links.local import LocalLink
from tests.waiting import DEADLINE_S


@pytest.fixture
async def link() -> AsyncIterator[LocalLink]:
    link = LocalLink("here")
    yield link
    await link.close()


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_run_gives_status_output_and_errors_apart(link: LocalLink) -> None:
    done = await link.run(["sh", "-c", "cat; echo bad >&2; exit 3"], stdin=b"in\x00put")
    assert (done.exit_status, done.stdout, done.stderr) == (3, b"in\x00put", b"bad\n")


async def test_arguments_are_never_read_by_a_shell(link: LocalLink) -> None:
    word = "a b'c\"d$(id)\n`x`;&*\\"
    done = await link.run([sys.executable, "-c", "import sys; print(sys.argv[1:])", word])
    assert done.stdout.decode().strip() == repr([word])


async def test_input_that_nobody_reads_is_no_failure(link: LocalLink) -> None:
    done = await link.run(["true"], stdin=b"x" * 2**20)
    assert done.exit_status == 0


async def test_a_command_that_does_not_end_is_killed_with_its_children(link: LocalLink) -> None:
    script = "sleep 1000 & echo $! >&2; wait"
    with pytest.raises(EngineError, match=r"did not end within 0\.2 s"):
        await link.run(["sh", "-c", script], timeout=0.2)


async def test_a_command_that_does_not_exist_is_said(link: LocalLink) -> None:
    done = await link.run(["no-such-command"])
    assert done.exit_status == 127
    assert b"No such file" in done.stderr
    with pytest.raises(EngineError, match=r"no-such-command.*No such file"):
        await link.open(["no-such-command"])


async def test_stream_gives_all_output(link: LocalLink) -> None:
    chunks = [chunk async for chunk in link.stream(["head", "-c", "1000000", "/dev/zero"])]
    assert sum(map(len, chunks)) == 1_000_000


async def test_stream_that_fails_says_the_last_error_line(link: LocalLink) -> None:
    with pytest.raises(EngineError, match="exit status 4: why"):
        async for _ in link.stream(["sh", "-c", "echo out; printf 'first\\nwhy' >&2; exit 4"]):
            pass


async def test_a_channel_talks_line_by_line_and_ends_when_closed(link: LocalLink) -> None:
    channel = await link.open(["sh", "-c", "while read -r word; do echo got $word; done; exit 7"])
    channel.write(b"one\n")
    assert await channel.read_line() == b"got one"
    channel.write(b"two\n")
    assert await channel.read_line() == b"got two"
    await channel.close()
    assert channel.exit_status == 7
    assert await channel.read_line() is None


async def test_a_channel_that_ignores_its_input_is_killed(link: LocalLink) -> None:
    channel = await link.open(["sh", "-c", "echo $$; exec sleep 1000"])
    pid = int(await channel.read_line() or b"0")
    await asyncio.wait_for(channel.close(), DEADLINE_S)
    assert not alive(pid)


async def test_a_flood_of_lines_arrives_whole(link: LocalLink) -> None:
    channel = await link.open(["seq", "20000"])
    count = 0
    while await channel.read_line() is not None:
        count += 1
    assert count == 20000
    await channel.close()


async def test_the_local_socket_is_reached_directly(link: LocalLink) -> None:
    assert await link.forward_socket("/var/run/docker.sock") == "/var/run/docker.sock"

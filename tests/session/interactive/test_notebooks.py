"""JupyterLab in a session: its token, whether it answers, and when it was used last."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path

import pytest

from gpuconsole.core.engines.terminals import JUPYTER, JUPYTER_PORT, JUPYTER_TOKEN
from gpuconsole.core.jobs import JobState
from gpuconsole.core.units import iso_utc
from gpuconsole.errors import RefusedError
from gpuconsole.session.interactive import notebooks
from gpuconsole.session.interactive.shells import JUPYTER_S
from tests.session.fakes import START, EchoStream
from tests.session.test_session import Room, opened


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


class Server(EchoStream):
    """JupyterLab, behind a stream."""

    def __init__(self, token: str, said: Mapping[str, object], *, now: float = START) -> None:
        super().__init__()
        self._token, self._body, self._now = token, json.dumps(said).encode(), now
        self.asked = b""

    async def write(self, data: bytes) -> None:
        self.asked += data
        allowed = f"Authorization: token {self._token}\r\n".encode() in data
        head = "200 OK" if allowed else "403 Forbidden"
        lines = (f"HTTP/1.1 {head}", f"Date: {formatdate(self._now, usegmt=True)}")
        body = self._body if allowed else b"{}"
        self.said.put_nowait(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
        self.said.put_nowait(b"")


async def test_when_it_was_used_last_is_told_by_its_own_clock() -> None:
    server = Server("t", {"last_activity": iso_utc(START - 90.0)})
    assert await notebooks.idle_s(server, "t") == 90.0
    assert server.closed
    assert await notebooks.idle_s(Server("t", {"last_activity": iso_utc(START + 5.0)}), "t") == 0.0


@pytest.mark.parametrize("said", [{}, {"last_activity": "long ago"}, {"last_activity": None}, []])
async def test_what_it_does_not_say_is_not_known(said: dict[str, object]) -> None:
    assert await notebooks.idle_s(Server("t", said), "t") is None
    assert await notebooks.idle_s(Server("t", {"last_activity": iso_utc(START)}), "x") is None


async def test_an_answer_without_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "MOST_BYTES", 1000)
    stream = EchoStream()
    stream.said.put_nowait(b"x" * 2000)
    assert await notebooks.idle_s(stream, "t") is None
    assert stream.closed


async def test_it_answers_even_to_those_it_refuses() -> None:
    assert await notebooks.answers(Server("t", {}))
    silent = EchoStream()
    silent.said.put_nowait(b"")
    assert not await notebooks.answers(silent)


async def test_the_token_is_a_secret_that_goes_with_the_session(room: Room) -> None:
    async with opened(room) as session:
        job = await session.jupyter()
        assert (job.task.kind, job.task.name) == (JUPYTER, "jupyter")
        assert job.task.secrets == {JUPYTER_TOKEN: ""}
        token = session.shells.tokens.of(job)
        assert len(token) >= 32
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        spec = room.docker.only().spec
        assert spec.secrets == {JUPYTER_TOKEN: token}
        assert token not in " ".join(spec.command)
        assert f"--ServerApp.port={JUPYTER_PORT}" in spec.command
        room.docker.finish(0)
        await room.until(lambda: session.job(job.id).state.ended)
        other = await session.jupyter()
        assert session.shells.tokens.of(job) == ""
        assert session.shells.tokens.of(other) not in ("", token)


async def test_its_address_comes_once_it_answers(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(room) as session:
        job = await session.jupyter()
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)

        async def yes(stream: EchoStream) -> bool:
            return True

        monkeypatch.setattr("gpuconsole.session.interactive.shells.answers", yes)
        asking = asyncio.ensure_future(session.jupyter_address(job.id))

        def begins() -> bool:
            if room.clock.now() > START + 10:
                room.docker.listening.add(str(JUPYTER_PORT))
            return asking.done()

        await room.until(begins)
        address = await asking
        assert address.endswith(f"/lab?token={session.shells.tokens.of(job)}")
        assert address.startswith("http://127.0.0.1:")
        session.shells.tokens.forget(job.id)
        assert (await session.jupyter_address(job.id)).endswith("/lab")


async def test_one_that_never_answers_is_said(room: Room) -> None:
    async with opened(room) as session:
        job = await session.jupyter()
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        with pytest.raises(RefusedError, match="nothing listens"):
            await room.done(session.jupyter_address(job.id))
        assert room.clock.now() - START >= JUPYTER_S
        shell = await session.queue.submit(room.task())
        with pytest.raises(RefusedError, match="another kind"):
            await room.done(session.jupyter_address(shell.id))

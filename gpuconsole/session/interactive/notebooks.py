"""JupyterLab in a session's container: its token, whether it answers, and when it was used last."""

from __future__ import annotations

import asyncio
import json
import secrets
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from gpuconsole.core.containers import ByteStream
from gpuconsole.core.engines.terminals import JUPYTER_TOKEN
from gpuconsole.core.jobs import Job
from gpuconsole.state.files.secrets import SecretStore
from gpuconsole.waiting import within

ANSWER_S = 20.0
MOST_BYTES = 256 * 1024
"""Of an answer; ours are a few lines."""
FOLDER = "jupyter"


class Tokens:
    """Tokens of the JupyterLabs that were opened from here. Beside this copy only the container
    has a token, and the queue until that has started."""

    def __init__(self, folder: Path) -> None:
        self._store = SecretStore(folder / FOLDER)

    def new(self) -> str:
        """Return an unguessable token."""
        return secrets.token_urlsafe(24)

    def keep(self, job: str, token: str) -> None:
        """Keep a job's token for those who come back to it."""
        self._store.put([job], {JUPYTER_TOKEN: token})

    def of(self, job: Job) -> str:
        """Return a job's token; "" where it was opened elsewhere."""
        return self._store.values(job.id).get(JUPYTER_TOKEN, "")

    def forget(self, job: str) -> None:
        """Forget the token of a job that has ended."""
        self._store.discard(job)


async def idle_s(stream: ByteStream, token: str) -> float | None:
    """Return how long ago the JupyterLab behind a stream was used, by its own clock; None where it
    does not say. The stream is closed."""
    try:
        head, body = await within(ANSWER_S, _asked(stream, token))
        now = _date_of(head)
        used = datetime.fromisoformat(str(json.loads(body)["last_activity"]).replace("Z", "+00:00"))
        return max(0.0, now - used.timestamp())
    except (asyncio.TimeoutError, ValueError, KeyError, TypeError):
        return None
    finally:
        await stream.close()


async def answers(stream: ByteStream) -> bool:
    """Tell whether something that speaks HTTP is behind a stream, which is closed."""
    try:
        await stream.write(_request(""))
        return (await within(ANSWER_S, stream.read())).startswith(b"HTTP/1.")
    except asyncio.TimeoutError:
        return False
    finally:
        await stream.close()


async def _asked(stream: ByteStream, token: str) -> tuple[bytes, bytes]:
    """Ask for the server's state; return the head of its answer and the rest. ValueError for an
    answer that is none."""
    await stream.write(_request(token))
    said = b""
    while data := await stream.read():
        said += data
        if len(said) > MOST_BYTES:
            raise ValueError("it says too much")
    head, _, body = said.partition(b"\r\n\r\n")
    return head, body


def _request(token: str) -> bytes:
    lines = ["GET /api/status HTTP/1.0", "Host: 127.0.0.1"]
    if token:
        lines.append(f"Authorization: token {token}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _date_of(head: bytes) -> float:
    for line in head.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        if name.lower() == "date":
            return parsedate_to_datetime(value.strip()).timestamp()
    raise ValueError("it names no time")

"""Container output as the engine frames it, taken apart in bounded pieces."""

from __future__ import annotations

from collections.abc import Iterator

import requests

from gpuconsole.remote.docker.errors import checked
from gpuconsole.remote.docker.transport import BoundedClient

HEADER = 8
"""Bytes before each frame: stream number, three zeros, length as 32 bits, big end first."""


TAIL_LINES = (2000, 100)
"""Lines asked for as a log's end: fewer where the first bring more than `TAIL_READ_BYTES`. The
engine keeps long lines in pieces of 16 KiB, each of which counts, so the second is always less."""
TAIL_READ_BYTES = 4 << 20


def open_logs(
    client: BoundedClient, container: str, follow: bool, lines: int | None = None
) -> requests.Response:
    """Ask for all output of a container from its beginning, or for its last lines; with `follow`
    it stays open."""
    tail = "all" if lines is None else lines
    params: dict[str, str | int] = {"stdout": 1, "stderr": 1, "tail": tail, "follow": int(follow)}
    return checked(
        client.get(
            f"{client.streams}/v{client.api_version}/containers/{container}/logs",
            params=params,
            stream=True,
            # For the head: of the rest nothing may come for hours; a broken link ends the socket.
            timeout=client.timeout,
        )
    )


_STREAMS = (0, 1, 2)
"""How a header may begin. Output of a terminal has no headers, and begins with none of these."""


class Demultiplexer:
    """Strips frame headers from a stream; never holds more than a header, whatever it claims.
    Output of a container with a terminal comes without headers, and is passed on as it is."""

    frames: int = 0
    """How many frames have begun: a line each, or 16 KiB of a longer one."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._left = 0
        self._raw: bool | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Give the payload in this chunk, of both output streams in order."""
        if self._raw is None and chunk:
            self._raw = chunk[0] not in _STREAMS
        if self._raw:
            self.frames += chunk.count(b"\n")
            yield chunk
            return
        at = 0
        while at < len(chunk):
            if self._left:
                piece = chunk[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                yield piece
            else:
                take = chunk[at : at + HEADER - len(self._header)]
                at += len(take)
                self._header += take
                if len(self._header) == HEADER:
                    self._left = int.from_bytes(self._header[4:], "big")
                    self._header.clear()
                    self.frames += 1

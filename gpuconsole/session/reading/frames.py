"""Messages over a pipe: a length, then so many bytes."""

from __future__ import annotations

import os
import select
import struct
import time

_HEAD = struct.Struct(">Q")
_PIECE = 2**20


class TooLateError(Exception):
    """Nothing complete came in time."""


class TooLongError(Exception):
    """A message is longer than it may be."""


def send(pipe: int, message: bytes) -> None:
    """Write a message; BrokenPipeError if the reader is gone."""
    rest = memoryview(_HEAD.pack(len(message)) + message)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def receive(pipe: int, most: int, within_s: float | None = None) -> bytes | None:
    """Return the next message; None when there is none before the end of the pipe.

    TooLongError for one of more than `most` bytes, TooLateError when it is not complete within
    `within_s` seconds.
    """
    ends = None if within_s is None else time.monotonic() + within_s
    head = _exactly(pipe, _HEAD.size, ends)
    if head is None:
        return None
    (size,) = _HEAD.unpack(head)
    if size > most:
        raise TooLongError
    return _exactly(pipe, size, ends)


def _exactly(pipe: int, size: int, ends: float | None) -> bytes | None:
    pieces: list[bytes] = []
    while size:
        if ends is not None:
            _wait(pipe, ends)
        piece = os.read(pipe, min(size, _PIECE))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _wait(pipe: int, ends: float) -> None:
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    if not waiting.poll(max(0.0, ends - time.monotonic()) * 1000):
        raise TooLateError

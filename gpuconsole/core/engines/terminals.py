"""What goes between a terminal that is kept in a container and those who look at it.

Frames, both ways: one letter, four bytes of length, big end first, and so many bytes.
`remote.inside.terminal` is the other end and has the same letters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gpuconsole.core.util.lazy_dataclass import dataclass

SESSION = "session"
"""The `kind` of a task that runs a terminal in its container."""
JUPYTER = "jupyter"
"""The `kind` of a task that runs JupyterLab in its container."""
SESSIONS = (SESSION, JUPYTER)
JUPYTER_PORT = 8888
"""On which it listens, in the container alone."""
JUPYTER_TOKEN = "JUPYTER_TOKEN"
"""The variable in which it finds its token."""
FOLDER = "/gpuconsole"
"""Where the program that keeps it lies in the container."""
PROGRAM = f"{FOLDER}/terminal.py"
SOCKET = f"{FOLDER}/.terminal"
WORKSPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""How the folder of a user that is kept on a host for sessions may be called."""
HELLO, INPUT, SIZE, ASK = b"H", b"I", b"S", b"Q"
"""Messages to the terminal: the viewer, input, the window's size, a request for the state."""
OUTPUT, NOTICE, END, STATE = b"O", b"N", b"E", b"S"
"""Messages from the terminal: output, a notice (in both directions), the shell's exit code, the
state."""
HEAD = 5
MOST_BYTES = 4 * 2**20
"""Of a frame; ours have some ten thousand."""


@dataclass(frozen=True, slots=True)
class TerminalState:
    """The state of a terminal."""

    idle_s: float
    """How long ago something was typed, or it began."""
    viewers: int
    """How many look at it."""


def frame(kind: bytes, data: bytes) -> bytes:
    """Return a frame as it is sent."""
    return kind + len(data).to_bytes(4, "big") + data


def hello(columns: int, rows: int, user: str, *, watch: bool) -> bytes:
    """Return the frame with which one begins to look; with `watch` one never types."""
    said = {"columns": columns, "rows": rows, "user": user, "watch": watch}
    return frame(HELLO, json.dumps(said).encode())


def size(columns: int, rows: int) -> bytes:
    """Return the frame for a window of another size, in cells."""
    return frame(SIZE, f"{columns} {rows}".encode())


def state_of(data: bytes) -> TerminalState:
    """Decode the state of a terminal. Raises ValueError if the data is malformed."""
    document: Any = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("no state of a terminal")
    idle, viewers = document.get("idle_s"), document.get("viewers")
    if not isinstance(idle, (int, float)) or not isinstance(viewers, int) or idle < 0:
        raise ValueError("no state of a terminal")
    return TerminalState(float(idle), viewers)


class Frames:
    """Takes a stream apart into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give the frames that are whole. ValueError for one larger than any of ours."""
        self._data += data
        while len(self._data) >= HEAD:
            length = int.from_bytes(self._data[1:HEAD], "big")
            if length > MOST_BYTES:
                raise ValueError("what answers is no terminal of ours")
            if len(self._data) < HEAD + length:
                return
            kind, body = bytes(self._data[:1]), bytes(self._data[HEAD : HEAD + length])
            del self._data[: HEAD + length]
            yield kind, body

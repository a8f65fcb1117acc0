"""The terminal of a simulated session: a line is shown as it is typed, and nothing is run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from gpuconsole.core.engines import terminals

KEPT = 64 * 1024
_END, _INTERRUPT, _ERASE = b"\x04", b"\x03", (b"\x7f", b"\x08")


class SimulatedTerminal:
    """A prompt that knows `exit` and says of all else that it is simulated."""

    def __init__(self, host: str, end: Callable[[], None]) -> None:
        """`end` is called once it is left by `exit` or Ctrl-D."""
        self._prompt = f"{host} (simulated) $ ".encode()
        self._end = end
        self._line = b""
        self._looks: list[SimulatedLook] = []
        self.written = self._prompt
        self.over = False

    def looked_at(self) -> SimulatedLook:
        """Return a new connection to it."""
        look = SimulatedLook(self)
        self._looks.append(look)
        return look

    def leave(self, look: SimulatedLook) -> None:
        """Let a connection go."""
        if look in self._looks:
            self._looks.remove(look)

    def hear(self, look: SimulatedLook, kind: bytes, body: bytes) -> None:
        """Do what a frame asks for."""
        if kind == terminals.HELLO:
            look.tell(terminals.OUTPUT, self.written)
        elif kind == terminals.ASK:
            state = {"idle_s": 0.0, "viewers": len(self._looks)}
            look.tell(terminals.STATE, json.dumps(state).encode())
        elif kind == terminals.NOTICE:
            self._tell(terminals.NOTICE, body)
        elif kind == terminals.INPUT:
            for number in body:
                self._key(bytes((number,)))

    def _key(self, key: bytes) -> None:
        if key in (b"\r", b"\n"):
            self._entered(self._line.decode(errors="replace").strip())
        elif key == _END and not self._line:
            self._leave()
        elif key == _INTERRUPT:
            self._line = b""
            self._write(b"^C\r\n" + self._prompt)
        elif key in _ERASE:
            if self._line:
                self._line = self._line[:-1]
                self._write(b"\b \b")
        elif key >= b" ":
            self._line += key
            self._write(key)

    def _entered(self, line: str) -> None:
        self._line = b""
        self._write(b"\r\n")
        if line.split(" ")[0] in ("exit", "logout"):
            self._leave()
            return
        if line:
            self._write(b"Nothing is run in the simulated lab; `exit` ends this session.\r\n")
        self._write(self._prompt)

    def _leave(self) -> None:
        self.over = True
        self._tell(terminals.END, b"0")
        self._end()

    def _write(self, data: bytes) -> None:
        self.written = (self.written + data)[-KEPT:]
        self._tell(terminals.OUTPUT, data)

    def _tell(self, kind: bytes, data: bytes) -> None:
        for look in self._looks:
            look.tell(kind, data)


class SimulatedLook:
    """One connection to it. Implements `core.containers.ByteStream`."""

    def __init__(self, terminal: SimulatedTerminal) -> None:
        self._terminal = terminal
        self._frames = terminals.Frames()
        self._said: asyncio.Queue[bytes] = asyncio.Queue()

    def tell(self, kind: bytes, data: bytes) -> None:
        """Send a frame."""
        self._said.put_nowait(terminals.frame(kind, data))

    async def read(self) -> bytes:
        """Return what came; b"" at the end."""
        return await self._said.get()

    async def write(self, data: bytes) -> None:
        """Take frames."""
        for kind, body in self._frames.feed(data):
            self._terminal.hear(self, kind, body)

    async def write_eof(self) -> None:
        """Nothing."""

    async def close(self) -> None:
        """End the connection."""
        self._terminal.leave(self)
        self._said.put_nowait(b"")

"""As many SSH hosts as one likes behind one port, each with an agent that is made of figures.

    python -m benchmarks.console.stream_hosts FOLDER [--devices 8]

Started by `benchmarks.console`. Writes keys into the folder, listens on loopback, prints its port,
and serves until its input closes. A host is a connection: it takes the console's own start of the
agent (a real one is sent and thrown away), says hello, and then writes the lines that a real agent
writes, one a second, in which every reading of every device has changed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.connection import SSHConnection
from asyncssh.constants import MSG_IGNORE

from gpuconsole.remote.polling.agent_launch import MARK

BEAT_S = 1.0
FRAMES = 8
"""Sets of readings that hosts show in turn."""
GIB = 2**20
"""In KiB, in which an agent speaks."""
_NONCE = re.compile(rb"echo ([0-9a-f]+);echo")
_AGENT = b"sys.stdin.buffer"
_numbers = itertools.count()


@dataclass(frozen=True)
class Readings:
    """What hosts say, as JSON: all of it, and each later line's part."""

    devices: int
    changes: list[str] = field(default_factory=list)

    @classmethod
    def made(cls, devices: int) -> Readings:
        """Make up readings, with dice that always fall alike."""
        dice = random.Random(7)
        changes = []
        for _ in range(FRAMES):
            loads = [dice.randrange(101) for _ in range(devices)]
            shown = {str(at): _reading(load) for at, load in enumerate(loads)}
            changes.append(_json(shown))
        return cls(devices, changes)

    def whole(self, number: int, at: int) -> str:
        """Return the line with which a host begins."""
        static = [
            {"u": f"GPU-{number:04d}-{place}", "i": place, "n": "NVIDIA A100-SXM4-40GB"}
            for place in range(self.devices)
        ]
        readings = json.loads(self.changes[at % FRAMES])
        for place, reading in readings.items():
            reading |= {"M": 40 * GIB, "W": 4000, "p": [[1000 + int(place), 20 * GIB]]}
        host = {"c": 31.0, "n": 128, "M": 1024 * GIB, "m": 400 * GIB, "l": 40.0,
                "D": 3600 * GIB, "f": 1100 * GIB, "v": "550.127.05", "r": "12.4"}  # fmt: skip
        people = {str(1000 + at): ["ana", "python train.py", ""] for at in range(self.devices)}
        document = {"f": 1, "k": [0.0, 0.001], "h": host, "s": static, "d": readings, "p": people}
        return _json(document)[1:]

    def later(self, at: int) -> str:
        """Return what follows the time in a later line."""
        return f'"h":{{"c":{20 + at % 60}.5}},"d":{self.changes[at % FRAMES]}}}'


def _reading(load: int) -> dict[str, int]:
    return {
        "m": int(0.4 * GIB * load), "u": load, "t": 30 + load // 2, "w": 600 + 33 * load,
        "s": 900 + 5 * load, "k": 1215,
    }  # fmt: skip


def _json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


class Agent(asyncssh.SSHServerSession[bytes]):
    """One command on one host: the agent, or one that is not there."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._number = next(_numbers)
        self._at = self._number
        self._input = b""
        self._steps = ("script", "stage", "options", "sources", "talk")
        self._wanted = 0
        self._due = 0.0
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._beat: asyncio.TimerHandle | None = None

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        """Learn the channel."""
        self._channel = chan

    def exec_requested(self, command: str) -> bool:
        """Take any command: what is meant comes on the input."""
        return True

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Read on, step by step: the shell's line, the agent's start, then its answers."""
        self._input += data
        while self._steps[0] != "talk" and self._take():
            pass
        if self._steps[0] == "talk":
            again = b"r\n" in self._input
            self._input = b""
            if again:
                self._say(self._readings.whole(self._number, self._at))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fall silent."""
        if self._beat is not None:
            self._beat.cancel()

    def eof_received(self) -> bool:
        """End with the input, as a real agent does."""
        if self._channel is not None:
            self._channel.exit(0)
        return False

    def _take(self) -> bool:
        """Take one step of the beginning; whether there was enough input for it."""
        step = self._steps[0]
        if step in ("stage", "sources") and self._wanted:
            if len(self._input) < self._wanted:
                return False
            self._input, self._wanted = self._input[self._wanted :], 0
        elif b"\n" not in self._input:
            return False
        else:
            line, _, self._input = self._input.partition(b"\n")
            if step == "script":
                return self._begin(line)
            if step == "stage":
                self._wanted = int(line)
                return True
            options = json.loads(line)
            self._wanted = sum(options["sizes"])
            self._write(_json({"hello": options["nonce"], "pid": 1, "python": "3.11.7"}))
        self._steps = self._steps[1:]
        if self._steps[0] == "talk":
            self._say(self._readings.whole(self._number, self._at))
            loop = asyncio.get_running_loop()
            self._due = loop.time() + random.random()
            self._beat = loop.call_at(self._due, self._tick)
        return True

    def _begin(self, line: bytes) -> bool:
        found = _NONCE.search(line)
        assert found is not None
        assert self._channel is not None
        self._channel.write(found[1] + b"\n")
        self._channel.write_stderr(found[1] + b"\n")
        if _AGENT not in line:
            self._channel.exit(127)
            return False
        self._steps = self._steps[1:]
        return True

    def _tick(self) -> None:
        self._at += 1
        self._say(self._readings.later(self._at))
        # Each host has its own clock: where this process is late once, they do not beat together
        # from then on.
        self._due += BEAT_S
        self._beat = asyncio.get_running_loop().call_at(self._due, self._tick)

    def _say(self, rest: str) -> None:
        self._write(f'{{"t":{time.time():.3f},{rest}')

    def _write(self, text: str) -> None:
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write(MARK + text.encode() + b"\n")


class Door(asyncssh.SSHServer):
    """Lets everybody in who has the key, and opens agents."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def session_requested(self) -> Agent:
        """Open a session."""
        return Agent(self._readings)


def send_as_sshd_does() -> None:
    """Send no empty packet before each other one, as asyncssh does and OpenSSH's sshd does not: the
    console would open twice as many as in a lab."""
    send = SSHConnection.send_packet

    def sending(connection: SSHConnection, kind: int, *parts: bytes, **more: Any) -> None:
        if kind != MSG_IGNORE:
            send(connection, kind, *parts, **more)

    SSHConnection.send_packet = sending  # type: ignore[method-assign]


async def serve(folder: Path, devices: int) -> None:
    """Serve until the input closes."""
    for name in ("host", "user"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(folder / name))
        key.write_public_key(str(folder / f"{name}.pub"))
        (folder / name).chmod(0o600)
    readings = Readings.made(devices)
    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=lambda: Door(readings),
        server_host_keys=[str(folder / "host")],
        authorized_client_keys=str(folder / "user.pub"),
        encoding=None,
        backlog=1024,
    )
    print(listener.get_port(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    listener.close()


def main() -> None:
    """Serve hosts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--devices", type=int, default=8)
    options = parser.parse_args()
    send_as_sshd_does()
    asyncio.run(serve(options.folder, options.devices))


if __name__ == "__main__":
    main()

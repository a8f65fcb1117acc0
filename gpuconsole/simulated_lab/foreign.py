"""Containers that others run on simulated hosts: their logs, and a shell that runs nothing."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncGenerator, Sequence

from gpuconsole.core.engines.host_containers import HostContainer, Listed
from gpuconsole.core.engines.processes import Said
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError
from gpuconsole.simulated_lab.containers import SimulatedContainer
from gpuconsole.simulated_lab.host import SimulatedHost
from gpuconsole.simulated_lab.load_curves import Load

FOLLOW_S = 0.1
"""Console seconds between two looks at a log that is followed."""
_IMAGES = {"serving": "paddlecloud/serving:2.4", "": "paddlepaddle/paddle:3.0"}
_LINE_S = 2.0
"""Lab seconds between two lines of a log."""
_FIRST_S = 3600.0
"""How much of its past a log holds, in lab seconds."""
_PROMPT = b"SIMULATED # "


@dataclass(frozen=True, slots=True)
class Foreign:
    """A container of somebody else, by what it does to a device."""

    id: str
    name: str
    load: Load
    devices: tuple[int, ...]

    def lines(self, since: int, now: float) -> list[str]:
        """Return the lines of its log from number `since` on that are written by lab time `now`."""
        first = max(self.load.start, -_FIRST_S)
        count = max(0, int((min(now, self.load.end) - first) / _LINE_S))
        lines = ["SIMULATED: nothing of this container is run"]
        return [*lines, *(self._line(n) for n in range(1, count))][since:count]

    def _line(self, number: int) -> str:
        chance = random.Random(f"{self.id}:{number}")
        if self.load.user == "serving":
            took = chance.randint(11, 90)
            return f'"POST /ocr/prediction HTTP/1.1" 200 {took} ms'
        if "ipykernel" in self.load.command:
            return f"[I NotebookApp] Saving file at /work-{number % 7}.ipynb"
        if number % 97 == 0:
            return f"WARNING: data loader waited {chance.uniform(1, 4):.1f} s"
        return f"step={number} loss={max(0.02, 3.0 / (1 + number / 60)) + chance.random() / 50:.4f}"


class SimulatedForeign:
    """Containers of a simulated host: a `core.engines.host_containers.ContainerAccess`."""

    def __init__(self, host: SimulatedHost) -> None:
        self._host = host

    async def list(self, *, stopped: bool) -> Listed:
        """List those of the queue's jobs and those of others."""
        now, host = self._host.time.now(), self._host
        own = [
            self._own(each, now)
            for each in host.containers.values()
            if stopped or each.state_at(now) == "running"
        ]
        return Listed((*own, *(self._other(each, now) for each in self._others())))

    async def log(
        self, container: str, *, follow: bool, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Give a container's output, or its last lines."""
        time, shown, first = self._host.time, 0, True
        while True:
            target = self._find(container)
            lines = (
                target.log(shown, time.now())
                if isinstance(target, SimulatedContainer)
                else target.lines(shown, time.now())
            )
            shown += len(lines)
            if first and tail is not None:
                lines = lines[max(0, len(lines) - tail) :]
            first = False
            if lines:
                yield "".join(f"{line}\n" for line in lines).encode()
            if not follow or (
                isinstance(target, SimulatedContainer) and target.state_at(time.now()) == "exited"
            ):
                return
            await time.sleep(FOLLOW_S * time.speed)

    async def command(
        self,
        container: str,
        words: Sequence[str],
        *,
        terminal: bool,
        typing: bool,
        user: str = "",
        watched: bool = True,
    ) -> SimulatedCommand:
        """Make a command ready of which nothing is run."""
        self._find(container)
        return SimulatedCommand(tuple(words), terminal=terminal)

    def _others(self) -> tuple[Foreign, ...]:
        processes: dict[str, Foreign] = {}
        for device, load in self._host.loads_of_others():
            mark = (
                load.container_id
                or hashlib.sha256(f"{self._host.site.name}/{load.pid}".encode()).hexdigest()
            )
            name = f"{load.user}-{_word(load.command)}-{load.pid % 1000}"
            processes[mark] = Foreign(mark, name, load, (device,))
        return tuple(processes.values())

    def _find(self, container: str) -> SimulatedContainer | Foreign:
        for own in self._host.containers.values():
            if own.id == container:
                return own
        for other in self._others():
            if other.id == container:
                return other
        raise EngineError(
            "There is no such container",
            msg("{value} is not there any more.", value=container[:12]),
        )

    def _own(self, each: SimulatedContainer, now: float) -> HostContainer:
        status = each.status(now)
        return HostContainer(
            self._host.site.name, each.id, each.spec.name, each.spec.image, status.state,
            status.state, " ".join(each.spec.command), status.created_at,
        )  # fmt: skip

    def _other(self, each: Foreign, now: float) -> HostContainer:
        load = each.load
        return HostContainer(
            self._host.site.name,
            each.id,
            each.name,
            _IMAGES.get(load.user, _IMAGES[""]),
            "running",
            f"Up {format_duration(now - load.start)}",
            load.command,
            self._host.time.console(load.start),
            each.devices,
            (load.user,),
        )


def _word(command: str) -> str:
    """Return a word of a command by which to name its container."""
    scripts = [word for word in command.split() if word.endswith(".py")]
    word = scripts[0].rpartition("/")[2].removesuffix(".py") if scripts else command.split()[0]
    return word.rpartition("_")[0] or word


class SimulatedCommand:
    """A command in a simulated container: a shell that runs nothing, and says so.

    Implements `core.engines.host_containers.Command`. A line `exit N` ends it, and so does Ctrl-D.
    """

    def __init__(self, words: tuple[str, ...], *, terminal: bool) -> None:
        self._words = words
        self._terminal = terminal
        self._says: asyncio.Queue[Said | None] = asyncio.Queue()
        self._line = bytearray()
        self._code = 0

    async def start(self, size: tuple[int, int] | None = None) -> None:
        """Begin."""
        self._say(f"SIMULATED: `{' '.join(self._words)}` is not run.\n")
        if self._terminal and self._words[0].rpartition("/")[2] in ("sh", "bash"):
            self._says.put_nowait(Said(_PROMPT))
        else:
            self._says.put_nowait(None)

    async def read(self) -> Said | None:
        """Return what it says next."""
        return await self._says.get()

    async def write(self, data: bytes) -> None:
        """Take what is typed, as a terminal shows it."""
        for number in data:
            key = bytes([number])
            if key == b"\x04" and not self._line:
                self._says.put_nowait(None)
            elif key in b"\r\n":
                self._says.put_nowait(Said(b"\r\n"))
                self._do(self._line.decode(errors="replace").split())
                self._line.clear()
            elif key == b"\x03":
                self._line.clear()
                self._says.put_nowait(Said(b"^C\r\n" + _PROMPT))
            elif key in b"\x7f\x08":
                if self._line:
                    del self._line[-1:]
                    self._says.put_nowait(Said(b"\b \b"))
            elif key.isalnum() or key in b" -_./$=":
                self._line += key
                self._says.put_nowait(Said(key))

    async def write_eof(self) -> None:
        """Nothing more is typed."""
        self._says.put_nowait(None)

    async def resize(self, columns: int, rows: int) -> None:
        """Nothing here depends on it."""

    async def exit_code(self) -> int | None:
        """Return what `exit` said."""
        return self._code

    async def leave(self) -> None:
        """Nothing runs that could run on."""

    async def close(self) -> None:
        """Nothing is held."""

    def _do(self, words: list[str]) -> None:
        if words[:1] == ["exit"]:
            self._code = int(words[1]) % 256 if len(words) > 1 and words[1].isdecimal() else 0
            self._says.put_nowait(None)
            return
        if words:
            self._say(f"SIMULATED: `{' '.join(words)}` is not run. `exit` leaves.\n")
        self._says.put_nowait(Said(_PROMPT))

    def _say(self, text: str) -> None:
        self._says.put_nowait(
            Said((text.replace("\n", "\r\n") if self._terminal else text).encode())
        )

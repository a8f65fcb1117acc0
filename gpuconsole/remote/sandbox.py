"""A child on this machine that may read a project, write a scratch folder, and nothing else.

bubblewrap, where it is installed, gives it a view of files that is built from nothing. Without it
files are as readable and writable as to the user, and the caller says so before anything runs. In
both it has namespaces of its own for network, processes and messages between them; no socket of
this machine can be opened; memory, time and the number of processes are limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import platform
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gpuconsole.errors import UsageError
from gpuconsole.remote import confine, pidsgroup
from gpuconsole.remote.probe_lines import lines
from gpuconsole.remote.sandbox_view import SOURCE, Overlay, view
from gpuconsole.waiting import within

Result = TypeVar("Result")

_KEPT_ENV = ("PATH", "LANG", "LC_ALL", "TZ")
_PIECE = 64 * 2**10
"""Bytes that are read at once."""
_CONFINE = Path(confine.__file__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the child may use."""

    memory_mib: int = 16_384
    cpu_s: int = 600
    wall_s: float = 600.0
    file_mib: int = 1024
    processes: int = 1024
    """Processes and threads."""


class SandboxTimeoutError(UsageError):
    """The child took longer than its limit."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How a child is held on this machine."""

    python: str = sys.executable
    limits: Limits = Limits()

    @property
    def bubblewrap(self) -> str | None:
        """The path of bubblewrap, if this machine has it."""
        return shutil.which("bwrap")

    @property
    def isolation(self) -> str:
        """What holds the child, as a sentence."""
        limits = self.limits
        used = (
            f"at most {limits.memory_mib // 1024} GiB of memory, {limits.wall_s:.0f} s and "
            f"{limits.processes} processes"
        )
        if os.geteuid() == 0 and not pidsgroup.is_possible():
            used += " (but root starts as many as it likes here)"
        if self.bubblewrap:
            return (
                "in bubblewrap: no network and no sockets, to read only its project, Python and "
                "the system's libraries, to write a scratch folder and a copy of the project that "
                f"are thrown away, {used}"
            )
        return (
            f"without network and sockets, {used}, but able to read and write all your files, "
            "because bubblewrap (bwrap) is not installed here"
        )

    def places(self, overlay: Overlay, scratch: Path) -> tuple[Path, Path]:
        """Return where the child sees a project, and where it has a folder in its place.

        Where the view of files is not built from nothing, that is a folder of the scratch folder.
        """
        if self.bubblewrap:
            return SOURCE, overlay.root
        return overlay.root, scratch / "project"

    def command(
        self,
        argv: Sequence[str],
        *,
        readable: Sequence[Path],
        scratch: Path,
        overlay: Overlay | None = None,
    ) -> tuple[str, ...]:
        """Return the whole command line. UsageError where no sandbox can be had."""
        require_sandbox()
        inside = (*self._confined(sockets=False, limits=self._rlimits()), self.python, "-s", *argv)
        if self.bubblewrap:
            return (
                self.bubblewrap, "--unshare-all", "--die-with-parent", "--new-session",
                "--cap-drop", "ALL", "--hostname", "sandbox",
                *view([*readable, _CONFINE], scratch, overlay, sized=_can_size(self.bubblewrap)),
                "--", *inside,
            )  # fmt: skip
        user = () if os.geteuid() == 0 else ("--user", "--map-current-user")
        return (
            _tool("unshare"), *user, "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child",
            "--", *inside,
        )  # fmt: skip

    def _confined(self, **settings: object) -> tuple[str, ...]:
        return (self.python, "-I", "-S", str(_CONFINE), json.dumps(settings))

    def _rlimits(self) -> dict[str, int]:
        limits = self.limits
        return {
            "RLIMIT_DATA": limits.memory_mib * 2**20, "RLIMIT_CPU": limits.cpu_s,
            "RLIMIT_FSIZE": limits.file_mib * 2**20, "RLIMIT_CORE": 0, "RLIMIT_NOFILE": 1024,
            "RLIMIT_NPROC": limits.processes,
        }  # fmt: skip

    async def lines(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes,
        readable: Sequence[Path],
        scratch: Path,
        overlay: Overlay | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Run Python with `argv` and give the lines of its output and errors as they come.

        SandboxTimeoutError when it takes too long. Leaving the iterator ends the child.
        """
        (scratch / "shm").mkdir(exist_ok=True)
        for _, stored in overlay.stored(scratch) if overlay else ():
            stored.mkdir(exist_ok=True)
        command = self.command(argv, readable=readable, scratch=scratch, overlay=overlay)
        with pidsgroup.pids_group(self.limits.processes) as group:
            joined = () if group is None else self._confined(join=str(group))
            process = await asyncio.create_subprocess_exec(
                *joined, *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, cwd=scratch,
                env=_environment(scratch), start_new_session=True,
            )  # fmt: skip
            async with contextlib.aclosing(lines(self._said(process, stdin))) as said:
                async for line in said:
                    yield line

    async def _said(self, process: Process, stdin: bytes) -> AsyncGenerator[bytes, None]:
        """Give a process what it is asked, and yield what it writes, piece by piece."""
        assert process.stdin is not None
        assert process.stdout is not None
        ends = asyncio.get_running_loop().time() + self.limits.wall_s
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(stdin)
                await self._in_time(ends, process.stdin.drain())
            process.stdin.close()
            while piece := await self._in_time(ends, process.stdout.read(_PIECE)):
                yield piece
        finally:
            await _end(process)

    async def _in_time(self, ends: float, step: Awaitable[Result]) -> Result:
        left = ends - asyncio.get_running_loop().time()
        try:
            return await within(max(0.0, left), step)
        except asyncio.TimeoutError:
            raise SandboxTimeoutError(
                "Measuring took too long",
                f"The script did not finish three steps within {self.limits.wall_s:.0f} s.",
                "Give it smaller data, or rely on the static tier.",
            ) from None


def require_sandbox() -> None:
    """Raise UsageError where this machine can hold no sandbox."""
    if not sys.platform.startswith("linux") or not confine.is_known(platform.machine()):
        raise UsageError(
            "No sandbox on this system",
            "Measuring on this machine needs Linux namespaces and filters of system calls.",
            "Leave out --local: the script is then measured in a container on a host.",
        )
    if shutil.which("bwrap") is None:
        _tool("unshare")


async def _end(process: Process) -> None:
    """End the child and all that it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
    await process.wait()


def _environment(scratch: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_ENV if name in os.environ}
    own = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(scratch))
    return {**kept, **own, "USER": "sandbox", "LOGNAME": "sandbox"}


@functools.cache
def _can_size(bubblewrap: str) -> bool:
    """Tell whether this bubblewrap can limit the size of a folder in memory."""
    said = subprocess.run([bubblewrap, "--help"], capture_output=True, text=True, check=False)
    return "--size " in said.stdout + said.stderr


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UsageError(
            "No sandbox on this system",
            f"`{name}` (util-linux) is not installed here.",
            "Install it, or leave out --local to measure in a container on a host.",
        )
    return found

"""A child on this machine that may read a project, write a scratch folder, and nothing else.

bubblewrap, where it is installed, gives it a file system of its own; without it a namespace
without network and the resource limits remain, and files are as readable as to the user. The
caller says which of the two it is before anything runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuconsole.errors import UsageError
from gpuconsole.waiting import within

HIDDEN = ("/home", "/root", "/tmp", "/run", "/var/tmp", "/mnt", "/media", "/srv")
"""Folders that the child sees empty, but for what it is given below them."""
_KEPT_ENV = ("PATH", "LANG", "LC_ALL", "TZ")
_LINE_LIMIT = 64 * 2**20
"""The longest line the child may write: a recorded trace is one line."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the child may use."""

    memory_mib: int = 16_384
    cpu_s: int = 600
    wall_s: float = 600.0
    file_mib: int = 1024


class SandboxTimeoutError(UsageError):
    """The child took longer than its limit."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How a child is kept on this machine."""

    python: str = sys.executable
    limits: Limits = Limits()

    @property
    def bubblewrap(self) -> str | None:
        """The path of bubblewrap, if this machine has it."""
        return shutil.which("bwrap")

    @property
    def isolation(self) -> str:
        """What keeps the child in, as a sentence."""
        used = f"{self.limits.memory_mib // 1024} GiB of memory and {self.limits.wall_s:.0f} s"
        if self.bubblewrap:
            return (
                "in bubblewrap: no network, files read-only and home folders hidden, one scratch "
                f"folder to write to, at most {used}"
            )
        return (
            f"without network and with at most {used}, but able to read and write your files, "
            "because bubblewrap (bwrap) is not installed here"
        )

    def command(
        self, argv: Sequence[str], *, readable: Sequence[Path], scratch: Path
    ) -> tuple[str, ...]:
        """Return the whole command line. UsageError where no sandbox can be had."""
        if not sys.platform.startswith("linux"):
            raise UsageError(
                "No sandbox on this system",
                "Measuring on this machine needs Linux namespaces.",
                "Leave out --local: the script is then measured in a container on a host.",
            )
        limited = (*self._limiter(), self.python, "-s", *argv)
        if self.bubblewrap:
            return (*self._wrapped(self.bubblewrap, readable, scratch), "--", *limited)
        unshare = _tool("unshare")
        user = () if os.geteuid() == 0 else ("--user", "--map-current-user")
        return (unshare, *user, "--net", "--pid", "--fork", "--kill-child", "--", *limited)

    def _limiter(self) -> tuple[str, ...]:
        limits = self.limits
        return (
            _tool("prlimit"), f"--data={limits.memory_mib * 2**20}", f"--cpu={limits.cpu_s}",
            f"--fsize={limits.file_mib * 2**20}", "--core=0", "--nofile=1024", "--",
        )  # fmt: skip

    def _wrapped(self, bwrap: str, readable: Sequence[Path], scratch: Path) -> tuple[str, ...]:
        hidden = {*HIDDEN, str(Path.home())}
        shown = {Path(sys.prefix), Path(sys.base_prefix), *(path.resolve() for path in readable)}
        made: list[str] = [
            bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
            "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
        ]  # fmt: skip
        for folder in sorted(hidden):
            if Path(folder).is_dir() and not Path(folder).is_symlink():
                made += ["--tmpfs", folder]
        for path in sorted(shown):
            made += ["--ro-bind", str(path), str(path)]
        made += ["--bind", str(scratch), str(scratch), "--chdir", str(scratch)]
        return tuple(made)

    async def lines(
        self, argv: Sequence[str], *, stdin: bytes, readable: Sequence[Path], scratch: Path
    ) -> AsyncGenerator[bytes, None]:
        """Run Python with `argv` and give the lines of its output and errors as they come.

        SandboxTimeoutError when it takes too long. Leaving the iterator ends the child.
        """
        command = self.command(argv, readable=readable, scratch=scratch)
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, cwd=scratch,
            env=_environment(scratch), start_new_session=True, limit=_LINE_LIMIT,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        ends = asyncio.get_running_loop().time() + self.limits.wall_s
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(stdin)
                await process.stdin.drain()
            process.stdin.close()
            while line := await self._line(process, ends):
                yield line.rstrip(b"\n")
        finally:
            await _end(process)

    async def _line(self, process: Process, ends: float) -> bytes:
        assert process.stdout is not None
        left = ends - asyncio.get_running_loop().time()
        try:
            return await within(max(0.0, left), process.stdout.readline())
        except asyncio.TimeoutError:
            raise SandboxTimeoutError(
                "Measuring took too long",
                f"The script did not finish three steps within {self.limits.wall_s:.0f} s.",
                "Give it smaller data, or rely on the static tier.",
            ) from None
        except ValueError:
            raise UsageError(
                "The measured process said too much",
                f"One line of it was longer than {_LINE_LIMIT // 2**20} MiB.",
                "Rely on the static tier for this script.",
            ) from None


async def _end(process: Process) -> None:
    """End the child and all that it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
    await process.wait()


def _environment(scratch: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_ENV if name in os.environ}
    return {**kept, "HOME": str(scratch), "TMPDIR": str(scratch), "XDG_CACHE_HOME": str(scratch)}


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UsageError(
            "No sandbox on this system",
            f"`{name}` (util-linux) is not installed here.",
            "Install it, or leave out --local to measure in a container on a host.",
        )
    return found

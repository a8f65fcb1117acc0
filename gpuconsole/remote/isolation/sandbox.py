"""A child on this machine that may read a project, write scratch folders, and nothing else.

bubblewrap, where it is installed and works, provides a view of files that is built from nothing.
Without it files are as readable and writable as to the user: the caller asks for consent to just
that, and root is refused. In both it has namespaces of its own for network, processes and messages
between them; no socket of this machine can be opened, no process of it seen. Memory, processes,
time and what is written are limited for the child and all that it starts, together.
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
from collections.abc import AsyncGenerator, Awaitable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeVar

from gpuconsole.core.estimate import Isolation
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import UsageError
from gpuconsole.remote.isolation import confine, process_usage
from gpuconsole.remote.isolation.claimed_folders import claimed_folder
from gpuconsole.remote.isolation.filesystem_view import SOURCE, Overlay, view
from gpuconsole.remote.isolation.probe_output import lines
from gpuconsole.waiting import within

Result = TypeVar("Result")

_KEPT_ENV = ("PATH", "LANG", "LC_ALL", "TZ")
_PIECE = 64 * 2**10
"""Bytes that are read at once."""
_CONFINE = Path(confine.__file__)
_LOOK_EVERY_S = 0.5
_ENDING_S = 30.0
"""Longest wait for processes that were killed."""
_LEAST_AVAILABLE_MIB = 256.0
"""Where this machine has less memory left, it is the measurement that goes."""
_OWN_TASKS = 16
"""Processes of the sandbox itself, and more."""
_WRITTEN_FOLDERS = 2
"""Scratch, and the project's copy in it."""
_UNIFIED = Path("/sys/fs/cgroup")
_SEPARATE = Path("/sys/fs/cgroup/pids")
_GROUP_PREFIX = "gpuconsole-measure-"
_WITHOUT = "Leave out --local: the script is then measured in a container on a host."


@dataclass(frozen=True, slots=True)
class Limits:
    """What the child and all that it starts may use together."""

    memory_mib: int = 16_384
    cpu_s: int = 600
    """Of one process."""
    wall_s: float = 600.0
    file_mib: int = 1024
    written_mib: int = 1024
    """In each of the folders that it may write to."""
    processes: int = 1024
    """Processes and threads."""


class SandboxTimeoutError(UsageError):
    """The child took longer than its limit."""


class SandboxLimitError(UsageError):
    """The child and what it started used more than their limit."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How a child is held on this machine."""

    python: str = sys.executable
    limits: Limits = Limits()
    bubblewrap: str | None = field(default_factory=lambda: _working_bubblewrap())
    """The path of bubblewrap, if this machine has it and it works here. It is looked for once, so
    that a child runs in the sandbox that its user agreed to."""

    @property
    def kind(self) -> Isolation:
        """What holds the child."""
        return "bubblewrap" if self.bubblewrap else "files-open"

    @property
    def isolation(self) -> str:
        """What holds the child, as a sentence."""
        limits = self.limits
        used = msg(
            "at most {size} of memory, {time} and {n} processes",
            size=f"{limits.memory_mib // 1024} GiB", time=f"{limits.wall_s:.0f} s",
            n=limits.processes,
        )  # fmt: skip
        if self.bubblewrap:
            return msg(
                "in bubblewrap: no network and no sockets, to read only its project, Python and "
                "the system's libraries, to write a scratch folder and a copy of the project that "
                "are thrown away, {used_text}",
                used_text=used,
            )
        return msg(
            "without network and sockets, {used_text}, but able to read and write all your files, "
            "because {why_text}",
            used_text=used, why_text=_without_bubblewrap(),
        )  # fmt: skip

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
        require_sandbox(self)
        inside = (*self._confined(filtered=True, limits=self._rlimits()), self.python, "-s", *argv)
        if self.bubblewrap:
            shown = [*readable, _CONFINE]
            return (
                self.bubblewrap, "--unshare-all", "--die-with-parent", "--new-session",
                "--cap-drop", "ALL", "--hostname", "sandbox",
                *view(shown, scratch, overlay, size_mib=self.limits.written_mib), "--", *inside,
            )  # fmt: skip
        return (
            _unshare(), "--user", "--map-current-user", "--net", "--ipc", "--uts", "--pid",
            "--mount-proc", "--fork", "--kill-child", "--", *inside,
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

        SandboxTimeoutError when it takes too long, SandboxLimitError when it uses too much.
        Leaving the iterator ends the child, and so does the end of this process.
        """
        command = self.command(argv, readable=readable, scratch=scratch, overlay=overlay)
        with pids_group(self.limits.processes) as group:
            joined = {} if group is None else {"join": str(group)}
            process = await asyncio.create_subprocess_exec(
                *self._confined(parent=os.getpid(), **joined), *command, stdin=PIPE, stdout=PIPE,
                stderr=STDOUT, cwd=scratch, env=_environment(scratch), start_new_session=True,
            )  # fmt: skip
            async with (
                contextlib.aclosing(self._said(process, stdin, scratch)) as pieces,
                contextlib.aclosing(lines(pieces)) as said,
            ):
                async for line in said:
                    yield line

    async def _said(
        self, process: Process, stdin: bytes, scratch: Path
    ) -> AsyncGenerator[bytes, None]:
        """Give a process what it is asked, and yield what it writes, piece by piece."""
        assert process.stdin is not None
        assert process.stdout is not None
        ends = asyncio.get_running_loop().time() + self.limits.wall_s
        guard = asyncio.ensure_future(self._guard(process, scratch))
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(stdin)
                await self._in_time(ends, process.stdin.drain())
            process.stdin.close()
            while piece := await self._in_time(ends, process.stdout.read(_PIECE)):
                yield piece
            if guard.done():
                raise SandboxLimitError(
                    "Measuring was ended", guard.result(), "Rely on the static tier."
                )
        finally:
            guard.cancel()
            await _end(process)

    async def _in_time(self, ends: float, step: Awaitable[Result]) -> Result:
        left = ends - asyncio.get_running_loop().time()
        try:
            return await within(max(0.0, left), step)
        except asyncio.TimeoutError:
            raise SandboxTimeoutError(
                "Measuring took too long",
                msg(
                    "The script did not finish three steps within {wall_s} s.",
                    wall_s=f"{self.limits.wall_s:.0f}",
                ),
                "Give it smaller data, or rely on the static tier.",
            ) from None

    async def _guard(self, process: Process, scratch: Path) -> str:
        """End a process once it uses too much with what it started; returns what, as a sentence."""
        while True:
            excess = await asyncio.to_thread(self._excess, process.pid, scratch)
            if excess:
                _kill(process)
                return excess
            await asyncio.sleep(_LOOK_EVERY_S)

    def _excess(self, pid: int, scratch: Path) -> str:
        """Return what a process and its descendants use too much of; "" within the limits."""
        limits, tree = self.limits, process_usage.tree_of(pid)
        if tree.tasks > limits.processes + _OWN_TASKS:
            return f"The script started more than {limits.processes} processes and threads."
        if tree.taken_mib > limits.memory_mib and (
            process_usage.proportional_mib(tree) > limits.memory_mib
        ):
            return f"The script used more than {limits.memory_mib / 1024:g} GiB of memory."
        if process_usage.available_mib() < _LEAST_AVAILABLE_MIB:
            return "This machine was about to run out of memory."
        most = _WRITTEN_FOLDERS * limits.written_mib
        if not self.bubblewrap and process_usage.folder_mib(scratch) > most:
            return f"The script wrote more than {most} MiB."
        return ""


def require_sandbox(sandbox: Sandbox | None = None) -> None:
    """Raise UsageError where this machine can hold no sandbox."""
    if not sys.platform.startswith("linux") or not confine.is_known(platform.machine()):
        raise UsageError(
            "No sandbox on this system",
            "Measuring on this machine needs Linux namespaces and filters of system calls.",
            _WITHOUT,
        )
    if (sandbox or Sandbox()).bubblewrap:
        return
    if _is_root():
        raise UsageError(
            "No sandbox for root",
            msg(
                "A script that root measures here could change every file of this machine, because "
                "{why_text}.",
                why_text=_without_bubblewrap(),
            ),
            sentences("Install bubblewrap 0.5 or newer, or measure as another user.", _WITHOUT),
        )
    _unshare()


def _is_root() -> bool:
    return os.geteuid() == 0


def _working_bubblewrap() -> str | None:
    path = shutil.which("bwrap")
    return None if path is None or _fault(path) else path


def _without_bubblewrap() -> str:
    """Return why there is no bubblewrap, as the rest of a sentence."""
    path = shutil.which("bwrap")
    why = "" if path is None else _fault(path)
    if why:
        return msg("bubblewrap does not work here ({why})", why=why)
    return "bubblewrap (bwrap) is not installed here"


def _fault(bubblewrap: str) -> str:
    """Return what keeps a bubblewrap from holding a child, in its own words; "" where it works.

    Some systems let no user make namespaces; before 0.5 it could not limit a folder in memory.
    """
    try:
        _try(bubblewrap)
    except OSError as error:
        return clean(str(error), 200).strip()
    return ""


@functools.cache
def _try(bubblewrap: str) -> None:
    """Hold a child that does nothing. OSError where that does not work: that may pass, and is tried
    again."""
    command = (
        bubblewrap, "--unshare-all", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc", "/proc",
        "--dev", "/dev", "--size", "65536", "--tmpfs", "/dev/shm", "true",
    )  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=30, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(str(error)) from None
    if done.returncode != 0:
        said = done.stderr[:2000].decode("utf-8", "replace")
        raise OSError(said or f"it ended with code {done.returncode}")


async def _end(process: Process) -> None:
    """End the child and all that it started, which hold its output until they have ended."""
    _kill(process)
    with contextlib.suppress(asyncio.TimeoutError):
        await within(_ENDING_S, _ended(process))


async def _ended(process: Process) -> None:
    """Wait for the end of a process. Where more has come than is read, that has to go before."""
    assert process.stdout is not None
    while await process.stdout.read(_PIECE):
        pass
    await process.wait()


def _kill(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)


def _environment(scratch: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _KEPT_ENV if name in os.environ}
    own = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(scratch))
    return {**inherited, **own, "USER": "sandbox", "LOGNAME": "sandbox"}


def _unshare() -> str:
    path = shutil.which("unshare")
    if path is None:
        raise UsageError(
            "No sandbox on this system",
            msg("`{name}` (util-linux) is not installed here.", name="unshare"),
            msg("Install it. {without}", without=_WITHOUT),
        )  # fmt: skip
    return path


@contextlib.contextmanager
def pids_group(most: int) -> Iterator[Path | None]:
    """Make a control group of at most so many processes; yields the file for a member's id.

    None where no group can be made: for root alone, whom the limit that counts in a user namespace
    does not bind.
    """
    base = _groups_folder()
    with contextlib.ExitStack() as stack:
        members = None
        with contextlib.suppress(OSError):
            if base is not None:
                group = stack.enter_context(claimed_folder(base, _GROUP_PREFIX, _remove_group))
                (group / "pids.max").write_text(str(most))
                members = group / "cgroup.procs"
        yield members


def _remove_group(group: Path) -> None:
    # One that has members yet does no harm.
    with contextlib.suppress(OSError):
        group.rmdir()


def _groups_folder() -> Path | None:
    """Return the folder in which groups with a limit of processes are made."""
    try:
        enabled = (_UNIFIED / "cgroup.subtree_control").read_text().split()
    except OSError:
        enabled = []
    base = _UNIFIED if "pids" in enabled else _SEPARATE
    usable = os.geteuid() == 0 and (base / "cgroup.procs").exists() and os.access(base, os.W_OK)
    return base if usable else None

"""Every container that the account may see, on every host: listed, its log read, entered.

Hosts are queried only while the list is open, and each for itself: one that is slow or away changes
nothing for the others. The engine decides what the account may do there; each command that is run
in a container is in the audit of this console's queue before it begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shlex
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

from gpuconsole.core.containers import Engine
from gpuconsole.core.engines.host_containers import (
    Command,
    ContainerAccess,
    HostContainer,
    HostContainers,
    JobsByContainer,
    find,
    jobs_by_container,
    joined,
    split_reference,
)
from gpuconsole.core.engines.processes import Ran, Said
from gpuconsole.core.jobs import Job
from gpuconsole.core.lab_service.audit import Act
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UnreachableError
from gpuconsole.session.context import Context
from gpuconsole.session.logs.tail import LineReader
from gpuconsole.waiting import within

SPOOLED = 128 * 2**20
"""Bytes of a log that is looked at, after which the older half is dropped."""
ANSWER_S = 15.0
"""How long a host may take to list its containers."""
PARALLEL = 16
"""Hosts asked at once."""
MOST_OUTPUT = 4 * 2**20
"""Bytes of each output of a command that is run to its end."""
EXEC = "exec"
"""The verb of a command in a container, in the audit."""
_LONGEST = 500
"""Letters of what the audit says of a command."""


class Containers:
    """The containers of a session's hosts."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asking = asyncio.Semaphore(PARALLEL)
        self._jobs: tuple[tuple[Job, ...], JobsByContainer] = ((), {})
        """All jobs, and what is known of their containers."""

    def hosts(self) -> tuple[str, ...]:
        """Return the names of the hosts that may have containers: all but clusters."""
        return tuple(host.name for host in self._context.hosts.snapshot().hosts if not host.cluster)

    async def listing(
        self, hosts: Sequence[str] = (), *, stopped: bool = False
    ) -> tuple[HostContainers, ...]:
        """List the containers of some hosts or of all; of a host that cannot be asked, why."""
        asked = hosts or self.hosts()
        return tuple(await asyncio.gather(*(self.of(host, stopped=stopped) for host in asked)))

    async def of(self, host: str, *, stopped: bool = False) -> HostContainers:
        """List the containers of one host, or say why that cannot be done."""
        try:
            async with self._asking:
                return await within(ANSWER_S, self._listed(host, stopped))
        except asyncio.TimeoutError:
            error = msg("{host} has not answered for {s} s.", host=host, s=f"{ANSWER_S:g}")
            return HostContainers(host, error=error)
        except ConsoleError as error:
            return HostContainers(host, error=error.message, hint=error.hint)

    async def find(self, host: str, wanted: str) -> HostContainer:
        """Return a container by its name, its id or the beginning of one; UsageError where that
        means none or several, and what a host refuses."""
        try:
            listed = await within(ANSWER_S, self._listed(host, stopped=True))
        except asyncio.TimeoutError:
            raise UnreachableError(
                "The host does not answer",
                msg("{host} has not answered for {s} s.", host=host, s=f"{ANSWER_S:g}"),
            ) from None
        return find(listed.containers, host, wanted)

    async def log(
        self, container: HostContainer, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Give a container's output as bytes, or its last lines; with `follow` until it ends.

        RefusedError where it is removed meanwhile, UnreachableError where the way to it breaks.
        """
        engine = await self._context.hosts.engine(container.host)
        access = _access(engine, container.host)
        async with contextlib.aclosing(
            access.log(container.id, follow=follow, tail=tail)
        ) as chunks:
            async for chunk in chunks:
                yield chunk
        if not follow:
            return
        status = await engine.inspect(container.id)
        if status is None or status.state == "removing":
            raise RefusedError(
                "The container is gone",
                msg("{name} was removed while its log was read.", name=container.key),
            )
        if status.state == "running":
            raise UnreachableError(
                "The log broke off",
                msg("{name} runs on; the connection to its log ended.", name=container.key),
                "Read it again.",
            )

    async def run(
        self,
        container: HostContainer,
        words: Sequence[str],
        *,
        terminal: bool,
        typing: bool,
        user: str = "",
        size: tuple[int, int] | None = None,
    ) -> Command:
        """Run a command in a running container, as the engine's exec does, and return it.

        Closing it ends it, unless it was left before, and so does a broken connection. It is
        recorded first. ReadOnlyError in a read-only session; RefusedError where the container does
        not run; what the engine refuses is recorded too. `words` go to no shell.
        """
        self._context.require_writable("Running a command in a container")
        detail = shlex.join(words) + (f" (as {user})" if user else "")
        try:
            command = await self._made(container, words, terminal, typing, user)
        except ConsoleError as error:
            self._record(container, detail, error.message)
            raise
        try:
            self._record(container, detail)
            await command.start(size)
        except BaseException as error:
            await command.close()
            if isinstance(error, ConsoleError):
                self._record(container, detail, error.message)
            raise
        ended = partial(self._record, container, f"{detail}: ended, as its terminal was closed")
        return RunningCommand(command, ended)

    async def run_to_end(self, reference: str, words: Sequence[str], user: str = "") -> Ran:
        """Run a command without terminal and input in the container `HOST:CONTAINER`; return what
        it wrote. Errors: see `find` and `run`."""
        container = await self.find(*split_reference(reference))
        process = await self.run(container, words, terminal=False, typing=False, user=user)
        outputs = {False: bytearray(), True: bytearray()}
        try:
            while (said := await process.read()) is not None:
                buffer = outputs[said.error]
                buffer += said.data[: max(0, MOST_OUTPUT - len(buffer))]
            code = await process.exit_code()
        finally:
            await process.close()
        return Ran(code, bytes(outputs[False]), bytes(outputs[True]))

    async def log_lines(
        self, container: HostContainer, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[str, None]:
        """Give a container's log as clean lines. Errors: see `log`."""
        reader = LineReader()
        async with contextlib.aclosing(self.log(container, follow=follow, tail=tail)) as chunks:
            async for chunk in chunks:
                for line in reader.feed(chunk):
                    yield line
        for line in reader.rest():
            yield line

    async def _listed(self, host: str, stopped: bool) -> HostContainers:
        hosts = self._context.hosts
        engine = await hosts.engine(host)
        listed = await _access(engine, host).list(stopped=stopped)
        jobs = self._context.journal.jobs()
        if jobs is not self._jobs[0]:
            # The same as long as nothing changed: many hosts are joined with it.
            self._jobs = (jobs, jobs_by_container(jobs))
        seen = joined(listed.containers, hosts.snapshot().host(host), self._jobs[1])
        return HostContainers(host, seen, listed.left_out)

    async def _made(
        self,
        container: HostContainer,
        words: Sequence[str],
        terminal: bool,
        typing: bool,
        user: str,
    ) -> Command:
        if not container.runs:
            raise RefusedError(
                "The container does not run",
                msg("{name} is {state}.", name=container.key, state=container.state),
                "Its log can be read all the same.",
            )
        engine = await self._context.hosts.engine(container.host)
        access = _access(engine, container.host)
        return await access.command(
            container.id, words, terminal=terminal, typing=typing, user=user
        )

    def _record(self, container: HostContainer, detail: str, refused: str = "") -> None:
        context = self._context
        words = (container.key, f"{container.id[:12]}: {detail}", str(refused))
        subject, what, why = (clean(text, _LONGEST) for text in words)
        context.journal.record(
            Act(
                context.clock.now(), context.user, os.getuid(), platform.node(), EXEC, subject,
                what, why,
            )
        )  # fmt: skip


class RunningCommand:
    """A started command. Implements `core.engines.host_containers.Command`."""

    def __init__(self, command: Command, ended: Callable[[], None]) -> None:
        """`ended` is called where the command is closed while it runs, which ends it."""
        self._command = command
        self._ended = ended
        self._over = False

    async def start(self, size: tuple[int, int] | None = None) -> None:
        """Begin; with a terminal, of so many columns and rows."""
        await self._command.start(size)

    async def read(self) -> Said | None:
        """Return what it says next; None once it has ended."""
        return await self._command.read()

    async def write(self, data: bytes) -> None:
        """Send it input."""
        await self._command.write(data)

    async def write_eof(self) -> None:
        """Say that there is no more input."""
        await self._command.write_eof()

    async def resize(self, columns: int, rows: int) -> None:
        """Tell its terminal a new size, in cells."""
        await self._command.resize(columns, rows)

    async def exit_code(self) -> int | None:
        """Return how it ended; None where it goes on without an output."""
        code = await self._command.exit_code()
        self._over = True
        return code

    async def leave(self) -> None:
        """Let it run on once it is closed."""
        self._over = True
        await self._command.leave()

    async def close(self) -> None:
        """Close it: a command that runs and was not left is ended, which is recorded."""
        over, self._over = self._over, True
        try:
            if not over:
                self._ended()
        finally:
            await self._command.close()


def _access(engine: Engine, host: str) -> ContainerAccess:
    """Return the containers behind an engine; RefusedError where it has none."""
    access: ContainerAccess | None = getattr(engine, "containers", None)
    if access is None:
        raise RefusedError(
            "There are no containers", msg("{host} has no container engine.", host=host)
        )
    return access


class Spool:
    """A stream in a file of bounded size, in a folder that only this account can read."""

    def __init__(self, most: int = SPOOLED) -> None:
        """Keep at most `most` bytes."""
        self._folder = Path(tempfile.mkdtemp(prefix="gpuconsole-log-"))
        self.path = self._folder / "log"
        self._most = most
        self._size = 0
        self.path.touch(0o600)

    async def fill(self, chunks: AsyncGenerator[bytes, None]) -> None:
        """Write what comes until its end; what it raises is raised. OSError where the disk takes
        no more."""
        async with aclosing(chunks):
            async for chunk in chunks:
                await asyncio.to_thread(self._write, chunk)

    def close(self) -> None:
        """Remove the file."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, chunk: bytes) -> None:
        with self.path.open("ab", buffering=0) as file:
            view = memoryview(chunk)
            while view:
                view = view[file.write(view) :]
        self._size += len(chunk)
        if self._size > self._most:
            self._drop_older()

    def _drop_older(self) -> None:
        """Keep the newer half, from the beginning of a line on where there is one."""
        with self.path.open("rb") as file:
            file.seek(self._size - self._most // 2)
            newest = file.read()
        at = newest.find(b"\n") + 1
        newest = newest[at:]
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(newest)
        os.replace(fresh, self.path)
        self._size = len(newest)

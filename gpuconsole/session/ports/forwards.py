"""Ports of this machine that lead to ports of jobs' containers, or to the replicas of a service.

Each connection goes through the host's engine into the container, so nothing is published on the
host, any network of the container will do, and what listens on `localhost` there is reached. A
forward is this process's: it ends with it, with its job, or when it is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from typing import Protocol

from gpuconsole.core.containers import ByteStream
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.session.async_helpers import cancel_all, first
from gpuconsole.session.context import Context
from gpuconsole.session.ports.connections import Connection, Pauses
from gpuconsole.session.ports.service_port import ServicePort
from gpuconsole.session.queue.commands import require_rank

HOME = "127.0.0.1"
"""The one address on which a forward listens."""
CHUNK = 64 * 1024
MOST_CONNECTIONS = 64
"""Of one forward at once; each is a process in the container. More wait for their turn."""
LOOK_EVERY_S = 1.0
"""How often a forward looks whether its job has ended."""
LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class ForwardInfo:
    """An open forward as lists show it."""

    job: str
    name: str
    """The job's."""
    port: int
    local_port: int
    connections: int = 0
    """Those that are open now."""
    trouble: str = ""
    """Why the latest connection came to nothing."""

    @property
    def url(self) -> str:
        """Where it is reached by what speaks HTTP."""
        return f"http://{HOME}:{self.local_port}/"


class Far(Protocol):
    """What is at the far end of a forward."""

    id: str
    """The job's, or the service's name."""
    name: str

    async def connected(self) -> Connection:
        """Return a new connection; ConsoleError where there is none."""
        ...

    def over(self) -> str:
        """Return why there never will be one any more, as a sentence; "" while there may be."""
        ...


class JobPort:
    """A port of one job, of a gang on the host of a rank."""

    def __init__(self, context: Context, job: Job, port: int, rank: int) -> None:
        self._context = context
        self._job, self._port, self._rank = job, port, rank
        self.id, self.name = job.id, job.task.name

    async def connected(self) -> Connection:
        """Return a new connection; ConsoleError where there is none."""
        job = self._context.journal.job(self._job.id) or self._job
        attempt = running_attempt(job, self._rank)
        engine = await self._context.hosts.engine(attempt.host)
        return Connection(await engine.connect(attempt.container_id, str(self._port)))

    def over(self) -> str:
        """Return that the job has ended, once it has."""
        job = self._context.journal.job(self._job.id)
        if job is not None and not job.state.ended:
            return ""
        word = "gone" if job is None else job.state_word
        return msg("The job has ended: {state_word}.", state_word=word)


class Forward:
    """One forward. `ended` is set once it is over, and `cause` says why."""

    def __init__(self, context: Context, far: Far, port: int) -> None:
        self._context = context
        self._far = far
        self._port = port
        self._server: asyncio.Server | None = None
        self._local_port = 0
        self._turns = asyncio.Semaphore(MOST_CONNECTIONS)
        self._open: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._trouble = ""
        self.ended = asyncio.Event()
        self.cause = ""

    @property
    def info(self) -> ForwardInfo:
        """The forward as it is now."""
        return ForwardInfo(
            self._far.id,
            self._far.name,
            self._port,
            self._local_port,
            len(self._open),
            self._trouble,
        )

    async def listen(self, local_port: int) -> None:
        """Begin to listen; 0 takes the job's own number where it is free here, else any. UsageError
        where the wanted port cannot be had."""
        wanted = (local_port,) if local_port else (self._port, 0)
        for number, port in enumerate(wanted, start=1):
            try:
                self._server = await asyncio.start_server(self._accepted, HOME, port)
                break
            except OSError as error:
                if number == len(wanted):
                    raise _not_free(local_port, error) from error
        assert self._server is not None
        self._local_port = self._server.sockets[0].getsockname()[1]
        self._watching = asyncio.ensure_future(self._until_over())

    async def close(self, cause: str = "") -> None:
        """Stop listening, and end what is open."""
        if self._server is not None:
            self._server.close()
        watching, self._watching = self._watching, None
        if watching is not None and watching is not asyncio.current_task():
            await cancel_all([watching])
        await cancel_all(list(self._open))
        self.cause = self.cause or cause
        self.ended.set()

    async def _until_over(self) -> None:
        """Close once what it leads to has ended."""
        while True:
            await self._context.clock.sleep(LOOK_EVERY_S)
            if cause := self._far.over():
                await self.close(cause)
                return

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on, both ways, until either end closes."""
        try:
            async with self._turns:
                link = await self._far.connected()
                pauses = Pauses(self._context.clock)
                try:
                    self._trouble = ""
                    await first(
                        _up(reader, link.stream, pauses),
                        _down(link.stream, writer, pauses),
                        pauses.until(link.pause_s),
                    )
                finally:
                    link.ended()
                    await link.stream.close()
        except ConsoleError as error:
            self._trouble = error.message
        finally:
            writer.close()


class Forwards:
    """The forwards of a session."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._all: list[Forward] = []

    async def open(self, job: Job, port: int, local_port: int = 0, rank: int = 0) -> Forward:
        """Lead a port of this machine, `local_port` or a free one, to a port of a job's container.

        `port` 0 means that of a service. UsageError for a port that is none, or is taken here;
        RefusedError where the job does not run. Whether something listens in the container shows
        with the first connection.
        """
        running_attempt(job, rank)
        port = port or _own_port(job)
        _require_ports(port, local_port)
        return await self._opened(JobPort(self._context, job, port, rank), port, local_port)

    async def open_service(self, replica: Job, port: int, local_port: int = 0) -> Forward:
        """Lead a port of this machine to the replicas of the service that a job is one of: each
        connection to a healthy one with the fewest. `port` and errors: as `open`."""
        _require_own(replica)
        port = port or _own_port(replica)
        _require_ports(port, local_port)
        far = ServicePort(self._context, replica.user, replica.task.sweep, port)
        return await self._opened(far, port, local_port)

    async def _opened(self, far: Far, port: int, local_port: int) -> Forward:
        forward = Forward(self._context, far, port)
        await forward.listen(local_port)
        self._all.append(forward)
        return forward

    def open_now(self) -> tuple[Forward, ...]:
        """Return the forwards that are open, the oldest first."""
        self._all = [forward for forward in self._all if not forward.ended.is_set()]
        return tuple(self._all)

    def known(self, job: str, port: int, local_port: int = 0) -> ForwardInfo | None:
        """Return the forward to a job's port that is open, at a port of this machine or at any."""
        for info in (forward.info for forward in self.open_now()):
            if (info.job, info.port) == (job, port) and local_port in (0, info.local_port):
                return info
        return None

    def at(self, local_port: int) -> Forward:
        """Return the forward at a port of this machine; UsageError where there is none."""
        matches = [forward for forward in self.open_now() if forward.info.local_port == local_port]
        if not matches:
            raise UsageError(
                "No such forward", msg("No forward is open at port {port}.", port=local_port), ""
            )
        return matches[0]

    async def close(self) -> None:
        """Close all of them."""
        closing, self._all = self._all, []
        for forward in closing:
            await forward.close()


def _own_port(job: Job) -> int:
    """Return the port that a service's task names; 0 for another job."""
    return job.task.service.port if job.task.service is not None else 0


def _require_ports(port: int, local_port: int) -> None:
    """Raise UsageError for numbers that are none of ports; 0 leaves the local one open."""
    for number, least in ((port, 1), (local_port, 0)):
        if not least <= number <= LAST_PORT:
            raise UsageError(
                "No such port",
                msg("{port} is no port.", port=number),
                msg("A port is a number from 1 to {last}.", last=LAST_PORT),
            )


def running_attempt(job: Job, rank: int = 0) -> Attempt:
    """Return where a job runs now, of a gang on the host of that rank; RefusedError where it does
    not run, or where it is that of another user of the lab's queue."""
    attempt = require_rank(job, rank).attempt
    if job.state is not JobState.RUNNING or attempt is None:
        hint = (
            "It comes back by itself once its host is in sight."
            if job.state is JobState.UNKNOWN
            else ""
            if job.state.ended
            else "Wait until it runs: `gpuconsole why` says when."
        )
        raise RefusedError(
            "Job does not run",
            msg("Job {id} is {state_word}.", id=job.id, state_word=job.state_word),
            hint,
        )
    if not attempt.container_name:
        # The lab's service does not name the containers of others.
        raise _not_yours(job)
    return attempt.parts[rank]


def _require_own(replica: Job) -> None:
    """Raise RefusedError for a replica of another user's service in the lab's queue."""
    if not replica.task.script:
        # The lab's service does not name the scripts of others.
        raise _not_yours(replica)


def _not_yours(job: Job) -> RefusedError:
    return RefusedError(
        "Not your job",
        msg("Job {id} belongs to {user}.", id=job.id, user=clean(job.user, 80)),
        "Its owner and the lab's operators may act on it.",
    )


async def _up(reader: asyncio.StreamReader, stream: ByteStream, pauses: Pauses) -> None:
    """Pass on what this machine says; that it says no more is no end of what it hears."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            pauses.asked()
            await stream.write(data)
        await stream.write_eof()
    await asyncio.Event().wait()


async def _down(stream: ByteStream, writer: asyncio.StreamWriter, pauses: Pauses) -> None:
    with contextlib.suppress(OSError):
        while data := await stream.read():
            pauses.answered()
            writer.write(data)
            await writer.drain()


def _not_free(port: int, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            "Port is taken",
            msg("Something listens on port {port} of this machine already.", port=port),
            msg("Port {port} is free: --local-port {port}.", port=_free_port()),
        )
    return UsageError(
        "Cannot listen there",
        msg("Port {port} of this machine: {why}.", port=port, why=os.strerror(error.errno or 0)),
        msg("Port {port} is free: --local-port {port}.", port=_free_port()),
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOME, 0))
        port: int = probe.getsockname()[1]
        return port

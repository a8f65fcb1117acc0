"""The far end of a forward that leads to a service: each connection to one of its replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial

from gpuconsole.core.jobs import Job
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError
from gpuconsole.session.context import Context
from gpuconsole.session.ports.connections import Connection
from gpuconsole.session.services.replicas import services

WAIT_S = 60.0
"""How long a connection waits for a healthy replica: long enough for one to be restarted."""
LAST_RESORT_S = 5.0
"""From when on it may also go to one that was healthy and fails its checks: a busy host answers
checks late, and still serves."""
LOOK_EVERY_S = 0.2
LEAST_PAUSE_S = 0.25
"""Between two requests of one connection; a client that leaves no such pause is cut off."""


class ServicePort:
    """A port of a service: the healthy replica with the fewest connections takes the next one.

    While none is healthy for long, those that were get it. One that does not take a connection is
    passed over for the next: until then no byte of it has gone anywhere. Connections that are open
    stay where they are, until their replica is to leave: then each is closed between two requests,
    so that the client's next goes to another replica.
    """

    def __init__(self, context: Context, user: str, name: str, port: int) -> None:
        self._context = context
        self._key = (user, name)
        self._port = port
        self._open: Counter[str] = Counter()
        self._given: Counter[str] = Counter()
        self.id = self.name = name

    async def connected(self) -> Connection:
        """Return a connection to a replica; ConsoleError where none takes it in time."""
        begun = self._context.clock.now()
        while True:
            waited = self._context.clock.now() - begun
            trouble: ConsoleError | None = None
            for job in self._ready() or self._unwell(waited):
                try:
                    return await self._to(job)
                except ConsoleError as error:
                    trouble = error
            if self.over() or waited >= WAIT_S:
                raise trouble or RefusedError(
                    "No replica is healthy", msg("{name} has no healthy replica.", name=self.name)
                )
            await self._context.clock.sleep(LOOK_EVERY_S)

    def over(self) -> str:
        """Return that the service has ended, once all its replicas have."""
        if all(job.state.ended for job in self._replicas()):
            return msg("The service has ended: {name}.", name=self.name)
        return ""

    def _replicas(self) -> list[Job]:
        return services(self._context.journal.jobs()).get(self._key, [])

    def _ready(self) -> list[Job]:
        """Return the replicas that may take a connection, in the order in which they are asked."""
        return self._in_turn(job for job in self._replicas() if job.is_healthy)

    def _unwell(self, waited: float) -> list[Job]:
        """Return those that are asked after so many seconds without a healthy one."""
        if waited < LAST_RESORT_S:
            return []
        return self._in_turn(job for job in self._replicas() if job.was_healthy)

    def _in_turn(self, jobs: Iterable[Job]) -> list[Job]:
        return sorted(jobs, key=lambda job: (self._open[job.id], self._given[job.id]))

    def _pause_s(self, job_id: str) -> float | None:
        """Return in which pause (s) a connection to a replica is closed: the nearer the end of its
        time to drain, the shorter; None while it is to stay."""
        job = self._context.journal.job(job_id)
        if job is None or job.replica is None or job.replica.leaving_at is None:
            return None
        drain_s = job.task.service.drain_s if job.task.service is not None else 0.0
        left = drain_s - (self._context.clock.now() - job.replica.leaving_at)
        return max(LEAST_PAUSE_S, left / 4.0)

    async def _to(self, job: Job) -> Connection:
        attempt = job.attempt
        assert attempt is not None
        # Counted before it is there, so that many at once are spread.
        self._open[job.id] += 1
        self._given[job.id] += 1
        try:
            engine = await self._context.hosts.engine(attempt.host)
            stream = await engine.connect(attempt.container_id, str(self._port))
        except BaseException:
            self._open[job.id] -= 1
            raise

        def ended() -> None:
            self._open[job.id] -= 1

        return Connection(stream, ended, partial(self._pause_s, job.id))

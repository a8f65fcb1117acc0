"""What runs on devices, not only the console's own: signal a process, stop a container."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gpuconsole.core.fleet import DeviceProcess
from gpuconsole.core.jobs import Job
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError
from gpuconsole.session.context import Context

GRACE_S = 30.0
"""Between SIGTERM and SIGKILL for a container that is no job of this queue."""


class Processes:
    """Ends what a person points at. Read-only sessions refuse."""

    def __init__(self, context: Context, cancel: Callable[[str], Awaitable[Job]]) -> None:
        self._context = context
        self._hosts = context.hosts
        self._cancel = cancel

    async def signal(self, host: str, pid: int, signal: str) -> None:
        """Send TERM, INT or KILL to a process that holds memory on a device of the host.

        RefusedError when it is not there any more, is another one by now, or may not be signalled.
        """
        self._context.require_writable("Sending a signal")
        await self._hosts.signal(host, self._known(host, pid), signal)

    async def stop_container(self, host: str, container: str) -> Job | None:
        """Stop a container: SIGTERM, grace, SIGKILL. One of a job of this queue is cancelled, and
        the job returned."""
        self._context.require_writable("Stopping a container")
        job = self.job_of(container)
        if job is not None:
            return await self._cancel(job.id)
        engine = await self._hosts.engine(host)
        status = await engine.inspect(container)
        if status is None:
            raise RefusedError(
                "It is gone already",
                msg("{host} has no container {value}.", host=host, value=container[:12]),
            )
        await engine.stop(status.id, GRACE_S)
        return None

    def job_of(self, container: str) -> Job | None:
        """Return the active job of this queue that runs in a container."""
        for job in self._context.journal.jobs():
            attempt = job.attempt
            if job.state.active and attempt is not None:
                ids = {attempt.container_id, *(part.container_id for part in attempt.parts)}
                if container in ids:
                    return job
        return None

    def _known(self, host: str, pid: int) -> DeviceProcess:
        entry = self._hosts.snapshot().host(host)
        for device in entry.devices if entry is not None else ():
            for process in device.processes:
                if process.pid == pid:
                    return process
        raise RefusedError(
            "It has ended already",
            msg("{host} shows no process {given_pid} on a device.", host=host, given_pid=pid),
        )

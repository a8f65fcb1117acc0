"""Tools that change the queue: served only where the user has allowed it, and recorded."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any

from pydantic import Field

from gpuconsole.core.jobs import Job
from gpuconsole.errors import ConsoleError
from gpuconsole.mcp.looking import _batch, _job_line, _script
from gpuconsole.mcp.tool import Arguments, Desk, Reference, Script, Words, tool


class Acting:
    """Tools that change something; each is recorded in the audit, also where it is refused."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @tool
    async def submit(
        self,
        script: Script,
        args: Arguments | None = None,
        name: Words = "",
        image: Words = "",
        devices: Annotated[int, Field(ge=1, le=64)] = 1,
        batch_size: Annotated[int | None, Field(ge=1, le=10**9)] = None,
        priority: Annotated[int, Field(ge=-1000, le=1000)] = 0,
        hold: Annotated[bool, Field(description="Do not start it until it is released")] = False,
        force: Annotated[bool, Field(description="Although it will not fit or will fail")] = False,
    ) -> dict[str, Any]:
        """Queue a script as a job: its folder is copied to the host where it will run.

        It is refused where preflight says that it will fit nowhere or will fail, unless `force` is
        set: set it only when the user has said so. Returns the job, and why it waits.
        """
        session = self.desk.session
        options: dict[str, Any] = {**_batch(batch_size), "devices": devices, "priority": priority}
        options |= {key: said for key, said in (("name", name), ("image", image)) if said}

        async def queued() -> Job:
            return await session.submit(
                _script(script), args=args or (), force=force, hold=hold, **options
            )

        job = await self._recorded("submit", "", script, queued())
        why = session.why_now(job.id)
        return {
            "job": _job_line(job),
            "waits_because": why.reason,
            "warnings": list(session.warnings(job.id)),
            "dispatcher": session.dispatcher or None,
        }

    @tool
    async def cancel(self, reference: Reference) -> dict[str, object]:
        """End a job: it leaves the queue, or is stopped where it runs. It cannot be taken back."""
        session = self.desk.session
        job_id = session.job(reference).id
        return _job_line(await self._recorded("cancel", job_id, "", session.cancel(job_id)))

    @tool
    async def hold(self, reference: Reference) -> dict[str, object]:
        """Keep a job that waits from starting until it is released."""
        session = self.desk.session
        job_id = session.job(reference).id
        return _job_line(await self._recorded("hold", job_id, "", session.hold(job_id)))

    @tool
    async def release(self, reference: Reference) -> dict[str, object]:
        """Let a held job join the queue again."""
        session = self.desk.session
        job_id = session.job(reference).id
        return _job_line(await self._recorded("release", job_id, "", session.release(job_id)))

    async def _recorded(self, verb: str, subject: str, detail: str, work: Awaitable[Job]) -> Job:
        """Do what is asked and record it, or that it was refused and why."""
        session = self.desk.session
        try:
            job = await work
        except ConsoleError as error:
            session.record_act(verb, subject, detail, error.message)
            raise
        session.record_act(verb, subject or job.id, detail)
        return job

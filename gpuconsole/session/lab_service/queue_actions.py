"""Acts of callers on the lab's queue: each is judged by the lab's rights, done, and recorded."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from gpuconsole.core.jobs import Job
from gpuconsole.core.lab_service.audit import Act
from gpuconsole.core.lab_service.rights import Caller, Rights
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, UsageError
from gpuconsole.session.lab_service.intake import Intake
from gpuconsole.session.lab_service.protocol import MOST_IN_ACT, Request
from gpuconsole.session.triage.own_marks import OwnMarks, Verb

if TYPE_CHECKING:
    from gpuconsole.session.queue.service import JobQueue
    from gpuconsole.session.session import Session

SLOW = ("retry", "preempt")
SIGNALS = ("TERM", "INT", "KILL")
_CONTAINER = re.compile(r"[0-9a-f]{12,64}")
MOST_IN_SLOW_ACT = 100
"""Jobs of an act that writes each of them by itself."""
_LONGEST = 500
"""Letters of what the audit says of an act."""


class Acts:
    """Does what callers ask, where they may."""

    def __init__(self, session: Session, rights: Rights, intake: Intake, marks: OwnMarks) -> None:
        self._session = session
        self._marks = marks
        self._intake = intake
        self._rights = rights
        on_jobs = (
            "cancel", "hold", "release", "preempt", "priority", "retry", "scale",
        )  # fmt: skip
        on_hosts = ("drain", "undrain", "signal", "stop-container")
        on_incidents = ("acknowledge", "snooze", "resolve", "reopen")
        self._verbs: Mapping[str, Callable[[Caller, Request], Awaitable[Sequence[Job]]]] = {
            **dict.fromkeys(on_jobs, self._on_jobs),
            **dict.fromkeys(on_hosts, self._on_host),
            **dict.fromkeys(on_incidents, self._on_incident),
        }

    async def do(self, caller: Caller, request: Request) -> Sequence[Job]:
        """Do what is asked, and record it. ConsoleError where it may not, or cannot, be done."""
        subject = request.host or " ".join(request.jobs[:20])
        detail = str(request.number) if request.verb in ("priority", "scale") else request.text
        try:
            verb = self._verbs.get(request.verb)
            if verb is None:
                raise UsageError(
                    "No such act", msg("{value} is none.", value=f"{clean(request.verb, 40)!r}")
                )
            done = await verb(caller, request)
        except ConsoleError as error:
            self.record(caller, request.verb, subject, detail, error.message)
            raise
        self.record(caller, request.verb, subject, detail)
        return done

    def record(
        self, caller: Caller, verb: str, subject: str, detail: str = "", refused: str = ""
    ) -> None:
        """Write an act into the audit. JournalError where that cannot be."""
        words = (clean(text, _LONGEST) for text in (verb, subject, detail, refused))
        now = self._session.now()
        self._session._journal.record(Act(now, caller.name, caller.uid, caller.origin, *words))

    async def _on_jobs(self, caller: Caller, request: Request) -> Sequence[Job]:
        most = MOST_IN_SLOW_ACT if request.verb in SLOW else MOST_IN_ACT
        if not 0 < len(request.jobs) <= most:
            raise UsageError("No jobs", msg("One request names 1 to {most} jobs.", most=most))
        for job_id in request.jobs:
            self._rights.require_own(caller, self._exact(job_id))
        queue, jobs = self._session.queue_of(caller.name), request.jobs
        if request.verb == "priority":
            self._rights.require_priority(caller, request.number)
            return await queue.set_priority_all(jobs, request.number)
        if request.verb == "scale":
            return await queue.scale_all(jobs, request.number)
        if request.verb == "retry":
            return [await self._retry(caller, queue, job_id, request) for job_id in jobs]
        if request.verb == "preempt":
            return [await queue.preempt(job_id) for job_id in jobs]
        if request.verb == "release":
            for job_id in jobs:
                self._intake.require_still(self._exact(job_id))
        verbs = {"cancel": queue.cancel_all, "hold": queue.hold_all, "release": queue.release_all}
        return await verbs[request.verb](jobs)

    async def _retry(self, caller: Caller, queue: JobQueue, job_id: str, request: Request) -> Job:
        # What was allowed when it was queued first need not be any more.
        job = self._exact(job_id)
        renewed = self._intake.renewed(caller, job)
        if renewed.run_as != job.run_as and job.state.ended:
            self._session._journal.save(job, renewed)
        return await queue.retry(job_id, secrets=request.secrets)

    async def _on_host(self, caller: Caller, request: Request) -> Sequence[Job]:
        session, host = self._session, request.host
        doing = "Draining hosts" if "drain" in request.verb else "Ending what runs on hosts"
        self._rights.require_operator(caller, doing)
        if request.verb == "drain":
            await session.drains.drain(host, request.text, caller.name)
        elif request.verb == "undrain":
            await session.drains.undrain(host)
        elif request.verb == "stop-container":
            await session.processes.stop_container(host, _container(request.text))
        elif request.text in SIGNALS:
            await session.processes.signal(host, request.number, request.text)
        else:
            raise UsageError(
                "No such signal", msg("It is one of {names}.", names=", ".join(SIGNALS))
            )
        return ()

    async def _on_incident(self, caller: Caller, request: Request) -> Sequence[Job]:
        triage, by = self._session.triage, caller.name
        incident = triage.incident(request.text)
        if not self._rights.is_operator(caller):
            if not any(self._is_own(caller, job_id) for job_id in incident.jobs):
                self._rights.require_operator(
                    caller, "Marking incidents that affect no job of yours"
                )
            verb = cast(Verb, request.verb)
            self._marks.mark(caller.name, verb, incident, request.number)
            return ()
        if request.verb == "snooze":
            await triage.snooze(incident.id, request.number, by)
        else:
            verbs = {
                "acknowledge": triage.acknowledge,
                "resolve": triage.resolve,
                "reopen": triage.reopen,
            }
            await verbs[request.verb](incident.id, by)
        self._marks.forget(incident.id)
        return ()

    def _is_own(self, caller: Caller, job_id: str) -> bool:
        job = self._session._journal.job(job_id)
        return job is not None and job.user == caller.name

    def _exact(self, job_id: str) -> Job:
        """Return the job of an id; a caller's other words for it are its console's business."""
        job = self._session._journal.job(job_id)
        if job is None:
            raise UsageError(
                "No such job",
                msg("The lab's queue has no job {value}.", value=f"{clean(job_id, 40)!r}"),
            )
        return job


def cost_of(request: Request) -> float:
    """Return how many requests more than one an act counts as."""
    return len(request.jobs) * (1.0 if request.verb in SLOW else 0.05)


def _container(name: str) -> str:
    """Return the id of a container. UsageError for what is none."""
    if not _CONTAINER.fullmatch(name):
        raise UsageError(
            "No such container",
            msg("{value} is no id of a container.", value=f"{clean(name, 80)!r}"),
        )
    return name

"""How an attempt ends: what is kept of it, and where its job goes from there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from gpuconsole.core.containers import LogTail
from gpuconsole.core.jobs import (
    STOPPED_FOR_GOOD,
    Attempt,
    EndedBy,
    Job,
    JobState,
    state_when_stopped,
)
from gpuconsole.core.services import RESET_S, Replica, back_off_s
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import ConsoleError, EngineError, UnreachableError
from gpuconsole.remote.injected import REPORTS
from gpuconsole.session.async_helpers import first
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt import gang
from gpuconsole.session.dispatch.attempt.container_spec import memory_limit_mib
from gpuconsole.session.dispatch.attempt.gang import Part
from gpuconsole.session.dispatch.attempt.observation import (
    Ended,
    Watch,
    bounds_of,
    devices_of,
    named,
    read_reports,
)
from gpuconsole.session.dispatch.attempt.outcome import (
    CANCELLED_RUNNING,
    KILLED_CODES,
    Outcome,
    blames_peers,
    names_own_error,
    outcome_of,
)
from gpuconsole.session.dispatch.job_record import Entry
from gpuconsole.session.dispatch.limits import ended_before, grace_s
from gpuconsole.session.dispatch.slurm_jobs import cluster_of
from gpuconsole.session.logs.copies import LogCopies

STOPPING_S = 3.0
"""How long an engine that is stopped may still answer after its containers have ended."""
CANCELLED_BEFORE = "Cancelled before it started."
KILLED_CODE = 137
"""Exit code of a container that SIGKILL ended."""
KILLED = "It went on after SIGTERM and was killed at the end of the grace time."
LEFT = "The console that launched it was closed before it started."
_NOT_AGAIN = "It is not started again automatically, as it may have run."
UNDO_S = 5.0
"""How long a console that leaves waits for an engine to take back a launch."""


@dataclass(frozen=True, slots=True)
class PartEnd:
    """How one host's part ended."""

    part: Part
    outcome: Outcome
    tail: LogTail
    files: dict[str, bytes]
    """What its reporter left, by names that no other host's files have."""
    at: float
    """On the console's clock; 0 when it never ran."""
    killed: bool
    """Whether a signal ended it, not itself."""
    follows: bool
    """Whether it may have ended because another one did."""
    has_own_error: bool
    """Whether its log ends with an exception of its own."""


class Ending:
    """Ends a job's latest attempt. `watch` are the driver's figures of it so far."""

    def __init__(self, context: Context, entry: Entry, watch: Watch, copies: LogCopies) -> None:
        self._context = context
        self._copies = copies
        self._entry = entry
        self._watch = watch

    async def stop(self, parts: Sequence[Part]) -> None:
        """Stop what lives of the attempt: SIGTERM, the grace that is due to it, SIGKILL."""
        grace = grace_s(self._entry.job, self._context.settings, self._context.clock.now())
        await gang.stop(parts, self._context.journal.id, grace)

    async def finish(self, parts: Sequence[Part]) -> None:
        """Name the outcome of containers that ended, and keep what was seen of them."""
        ends = [await self._part_end(part) for part in parts if _has_ended(part)]
        job, attempt = self._entry.present()
        if job.state is not JobState.UNKNOWN and not gang.unwanted(job):
            await self._require_engines([end.part for end in ends if end.killed])
        first = first_to_end(ends)
        outcome = _outcome(first, attempt)
        bounds = bounds_of(self._context.hosts.snapshot(), attempt, self._watch)
        files = {name: text for end in ends for name, text in end.files.items()}
        reported = read_reports(files, bounds)
        # A console before this one may have seen more.
        self._watch.peak_mib = max(self._watch.peak_mib, attempt.peak_mib or 0.0)
        status = first.part.status
        assert status is not None
        ended = _with_ends(attempt, ends)
        ended = replace(
            ended,
            started_at=attempt.started_at or status.started_at,
            ended_at=status.ended_at or self._context.clock.now(),
            exit_code=status.exit_code,
            # The driver is asked now and then, Paddle itself knows its peak.
            peak_mib=max(self._watch.peak_mib, reported.peak_mib or 0.0) or None,
        )
        image = run_image(self._context, job, attempt.host)
        devices = devices_of(self._context.hosts.snapshot(), attempt)
        self._remember(Ended(job, ended, outcome, self._watch, reported, image, devices))
        if ended_before(attempt, status, self._context.hosts.snapshot()):
            # It was to be stopped, but had ended by itself by then.
            ended = replace(ended, ended_by="", cause="", stopping_at=None)
        state, ended_by, cause = _whereto(job, ended, outcome, _away(job, first, ends))
        tails = {end.part.rank: end.tail for end in ends}
        await self._end(parts, ended, state, cause, ended_by, ended_at=status.ended_at, tails=tails)

    async def _require_engines(self, killed: Sequence[Part]) -> None:
        """Look once more where a signal that was not asked for ended a container. HostLostError
        when the engine is gone: one that stops takes its containers along before it goes itself."""
        if not killed:
            return
        await self._context.clock.sleep(STOPPING_S)
        for part in killed:
            with gang.on_host(part.attempt.host):
                await part.engine.inspect(part.attempt.container_name)

    async def lost(self, parts: Sequence[Part]) -> None:
        """End an attempt of which a container is gone."""
        job, attempt = self._entry.present()
        host = next(part.attempt.host for part in parts if part.status is None)
        state = JobState.CANCELLED if job.cancel_requested else JobState.FAILED
        gone = msg("Its container is gone from {host}: something else removed it.", host=host)
        # A service is begun again whatever it has done.
        stays = "" if job.task.service else _NOT_AGAIN
        cause = sentences(gone, stays)
        await self._end(parts, attempt, state, cause)

    async def discard(self, parts: Sequence[Part]) -> None:
        """End an attempt that is not wanted before it has started."""
        job, attempt = self._entry.present()
        if job.cancel_requested:
            await self._end(parts, attempt, JobState.CANCELLED, CANCELLED_BEFORE)
        else:
            await self._end_stopped(parts, attempt)

    async def abandon(self, parts: Sequence[Part], gone: str) -> None:
        """End an attempt that is not wanted on the hosts that are left of it."""
        job, attempt = self._entry.present()
        if job.cancel_requested:
            cause = f"Cancelled; {gone} was taken out of the inventory."
            await self._end(parts, attempt, JobState.CANCELLED, cause, "lost-host")
        else:
            await self._end_stopped(parts, attempt)

    async def _end_stopped(self, parts: Sequence[Part], attempt: Attempt) -> None:
        """End an attempt that was to be stopped, without a container's word for it."""
        state = _after_stop(attempt)
        await self._end(parts, attempt, state, attempt.cause, attempt.ended_by)

    async def give_up(self, parts: Sequence[Part], cause: str) -> None:
        """End an attempt that cannot be started."""
        _, attempt = self._entry.present()
        await self._end(parts, attempt, JobState.FAILED, clean(cause, 1000))

    async def set_back(
        self, parts: Sequence[Part], attempt: Attempt, failing: str, cause: str
    ) -> None:
        """Put a job that a host could not start back to its place in the queue, or end it where
        `failing` says why. `attempt` has ended by the host's fault; `cause` is what that was."""
        self._entry.require_role()
        await self.stop(parts)
        job, _ = self._entry.present()
        await gang.try_release(parts, job.id)
        if job.cancel_requested:
            self._entry.move(job, JobState.CANCELLED, attempt, cause=CANCELLED_BEFORE)
        elif failing:
            self._entry.move(job, JobState.FAILED, attempt, cause=clean(failing, 1000))
        else:
            self._entry.move(job, JobState.QUEUED, attempt, detail=cause)
        # A host that cannot start it may not be able to clear it away either: a sweep does later.
        await self._clear(parts, {})

    async def leave(self, part: Part) -> None:
        """End one part of an attempt that goes on elsewhere."""
        self._entry.require_role()
        await self.stop([part])
        await gang.release([part], self._entry.job_id)
        await self._clear([part], {})

    async def undo(self, attempt: Attempt) -> None:
        """Take back a launch of which nothing has run, as this console leaves: what an engine does
        not let go in time is left, with its job, to the next console of this journal, and to all
        others after the grace time."""
        undone = (self._undone(rank, alone) for rank, alone in enumerate(attempt.parts))
        pairs = zip(attempt.parts, await asyncio.gather(*undone), strict=True)
        left = [part.host for part, done in pairs if not done]
        job, attempt = self._entry.present()
        if left:
            hosts = " and ".join(left)
            self._entry.say(f"{LEFT} The engine of {hosts} did not let go of it in time.", 500)
        elif job.cancel_requested:
            ended = replace(attempt, ended_at=self._context.clock.now(), cause=CANCELLED_BEFORE)
            self._entry.move(job, JobState.CANCELLED, ended, cause=CANCELLED_BEFORE)
        else:
            ended = replace(attempt, ended_at=self._context.clock.now(), cause=LEFT)
            self._entry.move(job, JobState.QUEUED, ended, detail=LEFT)

    async def _undone(self, rank: int, alone: Attempt) -> bool:
        with contextlib.suppress(UnreachableError, EngineError):
            return 0 in await first(self._undo(rank, alone), self._context.clock.sleep(UNDO_S))
        return False

    async def _undo(self, rank: int, alone: Attempt) -> None:
        self._entry.require_role()
        part = Part(rank, alone, await self._context.hosts.engine(alone.host))
        await gang.remove_own([part], self._context.journal.id)
        await gang.release([part], self._entry.job_id)

    async def requeue(self, parts: Sequence[Part], error: ConsoleError) -> None:
        """Back into the queue, as another console holds a device: nothing of it has run."""
        job, attempt = self._entry.present()
        self._entry.require_role()
        await gang.remove_own(parts, self._context.journal.id)
        await gang.release(parts, job.id)
        cause = clean(error.message)
        # It was asked to start at the most: whatever comes after it need not look there.
        ended = replace(attempt, starting_at=None, ended_at=self._context.clock.now(), cause=cause)
        self._entry.move(job, JobState.QUEUED, ended, detail=clean(error.message))

    async def _part_end(self, part: Part) -> PartEnd:
        job, _ = self._entry.present()
        status, alone = part.status, part.attempt
        assert status is not None
        tail = await self._copies.last(self._entry, part)
        words = tail.data.decode("utf-8", errors="replace")
        host = self._context.hosts.snapshot().host(alone.host)
        outcome = outcome_of(
            status,
            words,
            image=run_image(self._context, job, alone.host),
            memory_limit_mib=memory_limit_mib(job, self._context.settings, host),
            cancelled=job.cancel_requested,
        )
        files = await self._reports(part)
        skew = (host.clock_skew_s or 0.0) if host is not None else 0.0
        failed = outcome.state is JobState.FAILED
        killed = failed and status.exit_code in KILLED_CODES and not status.oom_killed
        return PartEnd(
            part=part,
            outcome=named(outcome, read_reports(files)),
            tail=tail,
            files={f"{part.rank}/{name}": text for name, text in files.items()},
            at=0.0 if status.ended_at is None else status.ended_at - skew,
            killed=killed,
            follows=killed or (failed and blames_peers(words)),
            has_own_error=names_own_error(words),
        )

    async def _reports(self, part: Part) -> dict[str, bytes]:
        """Read what the reporter left in the container; without it a job ends all the same."""
        assert part.status is not None
        try:
            return dict(await part.engine.read_files(part.status.id, REPORTS))
        except EngineError:
            return {}

    def _remember(self, ended: Ended) -> None:
        """Write what was seen into the history. Done again after a crash, it replaces itself."""
        observation = ended.observation()
        if observation is not None:
            self._entry.require_role()
            self._context.journal.observe(observation)

    async def _end(
        self,
        parts: Sequence[Part],
        attempt: Attempt,
        state: JobState,
        cause: str,
        ended_by: EndedBy = "own",
        *,
        ended_at: float | None = None,
        tails: Mapping[int, LogTail] = MappingProxyType({}),
    ) -> None:
        """Stop what lives, give the devices back, write the end, remove the containers once their
        logs are here; in that order a console that dies in between finds the work again, or leaves
        only what a sweep finishes. `tails` are the ends of the logs, by rank."""
        self._entry.require_role()
        await self.stop(parts)
        job, _ = self._entry.present()
        self._entry.require_role()
        await gang.release(parts, job.id)
        peak_mib = max(attempt.peak_mib or 0.0, self._watch.peak_mib)
        now = self._context.clock.now()
        ended = replace(
            attempt,
            ended_at=ended_at or now,
            cause=cause,
            ended_by=ended_by,
            peak_mib=peak_mib or None,
        )
        state, replica = after_end(job, ended, state, now)
        if state is JobState.QUEUED:
            words = cause or "It ended with exit code 0."
            self._entry.move(job, state, ended, detail=words, queued_at=now, replica=replica)
        else:
            self._entry.move(job, state, ended, cause=cause, replica=replica)
        await self._clear(parts, tails)

    async def _clear(self, parts: Sequence[Part], tails: Mapping[int, LogTail]) -> None:
        """Remove the containers: of those that ran once their logs are here."""
        for part in parts:
            if part.status is not None and part.status.state != "created":
                await self._copies.finish(self._entry, part, tails.get(part.rank))
            else:
                with contextlib.suppress(UnreachableError, EngineError):
                    await gang.remove_own([part], self._context.journal.id)


def first_to_end(ends: Sequence[PartEnd]) -> PartEnd:
    """Return the part that decides how its gang ended: the first that failed, else rank 0.

    Processes that lost their peer fail within a second, and a launcher looks at its own only every
    other second: so one that failed on its own comes before those that were killed or speak of
    the others, whatever the clocks say. If none did, it is the one with a log that ends with an
    exception of its own: its launcher was stopped before it had looked.
    """
    failed = [end for end in ends if end.outcome.state is not JobState.SUCCEEDED]
    return min(
        failed, key=lambda end: (end.follows, not end.has_own_error, end.at), default=ends[0]
    )


def run_image(context: Context, job: Job, host: str) -> str:
    """Return the image in which a job ran; "" where a cluster ran it as it runs things."""
    return "" if cluster_of(job.task) else job.task.image or context.default_image(host)


def _has_ended(part: Part) -> bool:
    return part.status is not None and not (
        part.live or (part.status.state == "created" and not part.status.error)
    )


def _outcome(first: PartEnd, attempt: Attempt) -> Outcome:
    """Return the outcome of all, which in a gang names the host."""
    outcome = first.outcome
    if not attempt.members or outcome.state not in (JobState.FAILED, JobState.OOM):
        return outcome
    where = f"{first.part.attempt.host} (rank {first.part.rank})"
    return replace(outcome, cause=f"{where} ended first. {outcome.cause}")


def _with_ends(attempt: Attempt, ends: Sequence[PartEnd]) -> Attempt:
    """Return the attempt with the containers and exit codes of those that ended."""
    statuses = {end.part.rank: end.part.status for end in ends}
    members = []
    for rank, member in enumerate(attempt.members, start=1):
        status = statuses.get(rank)
        if status is not None:
            member = replace(member, container_id=status.id, exit_code=status.exit_code)
        members.append(member)
    own = statuses.get(0)
    container = attempt.container_id if own is None else own.id
    return replace(attempt, container_id=container, members=tuple(members))


def _away(job: Job, first: PartEnd, ends: Sequence[PartEnd]) -> str:
    """Return the host that went away under its part: the job was out of sight, no part failed on
    its own, and this one came back killed; else ""."""
    if job.state is not JobState.UNKNOWN or not first.follows:
        return ""
    return next((end.part.attempt.host for end in ends if end.killed), "")


def _after_stop(attempt: Attempt) -> JobState:
    """Return where a job goes that was stopped for its attempt's `ended_by`."""
    return state_when_stopped(attempt.ended_by)


def _whereto(
    job: Job, attempt: Attempt, outcome: Outcome, away: str
) -> tuple[JobState, EndedBy, str]:
    """Return the next state of a job after such an end of its attempt, the kind of the end, and
    why."""
    if job.cancel_requested:
        return JobState.CANCELLED, "own", CANCELLED_RUNNING
    if attempt.ended_by:
        # Whatever its exit code: a script that saves when it is asked to stop ends with 0.
        killed = attempt.ended_by in STOPPED_FOR_GOOD and attempt.exit_code == KILLED_CODE
        cause = f"{attempt.cause} {KILLED}" if killed else attempt.cause
        return _after_stop(attempt), attempt.ended_by, cause
    if outcome.state is JobState.OOM:
        return outcome.state, "oom", outcome.cause
    if away:
        before = sum(attempt.ended_by == "lost-host" for attempt in job.attempts)
        state = JobState.QUEUED if before < job.task.retries else JobState.FAILED
        return state, "lost-host", f"{away} went away while it ran there. {outcome.cause}"
    return outcome.state, "own", outcome.cause


def after_end(
    job: Job, ended: Attempt, state: JobState, now: float
) -> tuple[JobState, Replica | None]:
    """Return where a job goes that would go to `state` after an attempt that has ended, and what is
    then known of it as a replica.

    A service is begun again by its policy, each time after a longer pause; a replica that is to go,
    that has never run, or that goes on elsewhere at once, is not the policy's.
    """
    service, health = job.task.service, job.health
    if service is None:
        return state, job.replica
    stopped = job.cancel_requested or ended.ended_by in STOPPED_FOR_GOOD or job.is_leaving
    moved = state is JobState.QUEUED and ended.ended_by != "unhealthy"
    if stopped or moved or state is JobState.CANCELLED or ended.starting_at is None:
        return (JobState.CANCELLED if job.is_leaving else state), job.replica
    again = service.restart == "always" or (
        service.restart == "on-failure" and state is not JobState.SUCCEEDED
    )
    if not again:
        return (JobState.FAILED if state is JobState.QUEUED else state), job.replica
    well = health.health == "healthy" and now - health.since >= RESET_S
    restarts = 0 if well else health.restarts
    waits = replace(health, restarts=restarts + 1, restart_at=now + back_off_s(restarts))
    return JobState.QUEUED, waits

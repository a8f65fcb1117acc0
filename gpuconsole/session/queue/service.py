"""`JobQueue`: what a user does to the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from gpuconsole.core.jobs import Job, Task
from gpuconsole.core.submission.sweeps import Axis
from gpuconsole.core.wording import msg
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.oom_retry import Offer, Retrying
from gpuconsole.session.dispatch.preemption import is_over, preempt, until_over
from gpuconsole.session.estimate.tier_ladder import UNWATCHED, Watching
from gpuconsole.session.queue import commands as queue
from gpuconsole.session.submit.secrets import given_again
from gpuconsole.session.submit.submit import Submitting

NO_VALUES: Mapping[str, str] = MappingProxyType({})
STOP_MARGIN_S = 20.0
"""How much longer than the grace time `cancel` waits for the end."""


class JobQueue:
    """Submit, cancel, retry, hold, preempt. Read-only sessions refuse."""

    def __init__(
        self,
        context: Context,
        submitting: Submitting,
        retrying: Retrying,
        dispatch: Callable[[], None],
    ) -> None:
        """`dispatch` takes part in dispatching if no other process does."""
        self._context = context
        self._submitting = submitting
        self._retrying = retrying
        self._dispatch = dispatch

    async def submit(
        self,
        task: Task,
        *,
        force: bool = False,
        hold: bool = False,
        user: Watching = UNWATCHED,
    ) -> Job:
        """Pack the project, preflight it and queue it, or, with `hold`, keep it until released.

        Where reading does not settle its memory it is measured first, if that is allowed; `user` is
        notified of its progress, and may be asked. RefusedError if it will not fit or will fail and
        `force` is not set; if that is unknown, a warning, or RefusedError if the lab wants no such
        jobs. Of a service, which `serve` queues, its first replica is returned.
        """
        if task.service is not None:
            return (await self.serve(task, force=force, hold=hold, user=user))[0]
        self._context.require_writable("Submitting")
        return await self._submitting.submit(task, force=force, hold=hold, user=user)

    async def serve(
        self,
        task: Task,
        *,
        force: bool = False,
        hold: bool = False,
        user: Watching = UNWATCHED,
    ) -> tuple[Job, ...]:
        """Queue the replicas of a service, all or none; as `submit`. They are kept running until
        they are cancelled."""
        self._context.require_writable("Submitting")
        return await self._submitting.serve(task, force=force, hold=hold, user=user)

    async def scale(self, service: str, replicas: int) -> tuple[Job, ...]:
        """Have a service, by its name, run so many replicas; return those that it has now."""
        replica_jobs = queue.require_service(
            self._context.journal.jobs(), service, self._context.user
        )
        return tuple(await self.scale_all([job.id for job in replica_jobs], replicas))

    async def scale_all(self, references: Iterable[str], replicas: int) -> list[Job]:
        """Note in the replicas of a service how many it is to have, all or none."""
        self._context.require_writable("Scaling a service")
        journal, now = self._context.journal, self._context.clock.now()
        return self._changed(references, lambda job: queue.scale(journal, job, replicas, now))

    async def open_session(self, task: Task, memory_mib: float | None = None) -> Job:
        """Queue a session, a task of that kind; `Shells.open` makes one."""
        self._context.require_writable("Opening a session")
        return await self._submitting.open_session(task, memory_mib)

    async def sweep(
        self,
        task: Task,
        axes: Sequence[Axis],
        *,
        force: bool = False,
        hold: bool = False,
        user: Watching = UNWATCHED,
    ) -> tuple[Job, ...]:
        """Queue a task once for each combination of values, all or none; as `submit`."""
        self._context.require_writable("Submitting")
        return await self._submitting.sweep(task, axes, force=force, hold=hold, user=user)

    async def search(
        self,
        task: Task,
        axes: Sequence[str],
        goal: str,
        trials: int,
        *,
        force: bool = False,
        user: Watching = UNWATCHED,
    ) -> tuple[Job, ...]:
        """Queue the trials of a search for the best arguments, all or none: the dispatcher hands
        them out as `goal` (`min val_loss`) asks, `task.at_most` at once. `axes` are such as
        `lr=1e-5..1e-1:log` or `width=64,128`."""
        self._context.require_writable("Submitting")
        return await self._submitting.search(task, axes, goal, trials, force=force, user=user)

    async def cancel(self, reference: str) -> Job:
        """End a job: leave the queue, or SIGTERM, grace, SIGKILL.

        Returns once it has ended, or is known to end only when its host is back.
        """
        return (await self.cancel_all((reference,)))[0]

    async def cancel_all(self, references: Iterable[str]) -> list[Job]:
        """End several jobs, as `cancel`; of more than one, those that have ended by now stay so."""
        self._context.require_writable("Cancelling")
        asked = list(references)

        def cancelled(job: Job) -> Job:
            if job.state.ended and len(asked) > 1:
                return job
            return queue.cancel(self._context.journal, job, self._context.user)

        jobs = self._changed(asked, cancelled)
        return list(await asyncio.gather(*(self._cancelled(job) for job in jobs)))

    async def retry(
        self, reference: str, offer: Offer | None = None, secrets: Mapping[str, str] = NO_VALUES
    ) -> Job:
        """Queue an ended job, or one with a host that left the inventory, again: as a new attempt,
        or as `retrying.offer` has offered.

        `secrets` are the values of its secret variables, which are not kept after its end;
        UsageError names those that are missing.
        """
        self._context.require_writable("Retrying")
        job = self.job(reference)
        with given_again(self._context, job, secrets):
            if offer is not None:
                return await self._retrying.accept(offer)
            hosts = [host.name for host in self._context.hosts.snapshot().hosts]
            bundle, now = self._context.bundle(job.id), self._context.clock.now()
            return queue.retry(self._context.journal, job, bundle, now, hosts)

    async def hold(self, reference: str) -> Job:
        """Keep a queued job from starting; a held one is released."""
        return (await self.hold_all((reference,)))[0]

    async def hold_all(self, references: Iterable[str]) -> list[Job]:
        """Keep several jobs from starting, as `hold`, all or none."""
        self._context.require_writable("Holding")
        now = self._context.clock.now()
        return self._changed(references, lambda job: queue.hold(self._context.journal, job, now))

    async def release(self, reference: str) -> Job:
        """Let a held job join the queue again."""
        return (await self.release_all((reference,)))[0]

    async def release_all(self, references: Iterable[str]) -> list[Job]:
        """Let several held jobs join the queue again, all or none."""
        self._context.require_writable("Releasing")
        now = self._context.clock.now()
        return self._changed(references, lambda job: queue.release(self._context.journal, job, now))

    async def preempt(self, reference: str) -> Job:
        """Stop a running job and queue it again; it goes on from its checkpoint.

        Returns once it has stopped. RefusedError when it does not run or keeps no checkpoints.
        """
        self._context.require_writable("Preempting")
        job = preempt(
            self._context.journal,
            self.job(reference),
            msg("Preempted by {user}.", user=self._context.user),
        )
        return await self._stopped(job, lambda now: is_over(job, now))

    async def set_priority(self, reference: str, priority: int) -> Job:
        """Change the priority of a queued or held job."""
        return (await self.set_priority_all((reference,), priority))[0]

    async def set_priority_all(self, references: Iterable[str], priority: int) -> list[Job]:
        """Change the priority of several jobs, all or none."""
        self._context.require_writable("Changing a priority")
        journal = self._context.journal
        return self._changed(references, lambda job: queue.set_priority(journal, job, priority))

    def job(self, reference: str) -> Job:
        """Return a job by id, unique id prefix, or unique name; UsageError when there is none."""
        journal = self._context.journal
        user = self._context.user
        return journal.job(reference) or queue.find(journal.jobs(), reference, user)

    def _changed(self, references: Iterable[str], change: Callable[[Job], Job]) -> list[Job]:
        """Return the jobs after a change of each, which reach the journal together."""
        with self._context.journal.together():
            return [change(self.job(reference)) for reference in references]

    async def _cancelled(self, job: Job) -> Job:
        """Return a job that was cancelled once it has ended."""
        if job.state.active:
            return await self._stopped(job, lambda now: now.state.ended)
        self._context.secrets.discard(job.id)
        return job

    async def _stopped(self, job: Job, over: Callable[[Job], bool]) -> Job:
        """Return a job that is to be stopped once it is, or its host is out of sight."""
        self._dispatch()
        within = self._context.settings.stop_grace + STOP_MARGIN_S
        return await until_over(self._context, job, over, within)

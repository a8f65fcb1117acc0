"""What a session says of its queue: why jobs wait, where a task would start, when, and on what."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from gpuconsole.core.estimate import Report
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.training.first_steps import first_steps
from gpuconsole.errors import JournalError
from gpuconsole.placement import Decision
from gpuconsole.preflight.roofline import work_of
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.slurm_jobs import decision_there, hand_over, without_clusters
from gpuconsole.session.estimate.idle_devices import SpareDevices
from gpuconsole.session.fleet.leases import LeaseBoard, marked
from gpuconsole.session.images.availability import ImageBoard
from gpuconsole.session.queue.forecast import Foresight
from gpuconsole.session.queue.placement_adapter import Placer
from gpuconsole.session.queue.plan import Outlook
from gpuconsole.session.queue.planner import Situation, Step, Why, placed_by
from gpuconsole.session.queue.policies import Policies
from gpuconsole.session.queue.why import why_of
from gpuconsole.waiting import within

LOOK_EVERY_S = 0.5


class Planning:
    """The queue planned and explained, from the journal, the fleet and leases of others."""

    def __init__(
        self,
        context: Context,
        images: ImageBoard,
        leases: LeaseBoard,
        steps: Sequence[Step],
    ) -> None:
        """`steps` are what a plan goes through after jobs were placed."""
        self._context = context
        self._leases = leases
        policies = Policies(context.settings, context.journal.folder)
        self.placer = Placer(context.settings, user=context.user, images=images, policies=policies)
        self.outlook = Outlook(context, (placed_by(self.placer), hand_over, *steps), leases)
        self.foresight = Foresight(context, self.placer, leases)
        self.spare = SpareDevices(context, self.placer, leases, self.outlook)

    async def decide(self, task: Task, report: Report) -> Decision:
        """Return the placement engine's decision for a task as if it were queued now."""
        context, snapshot = self._context, self._context.hosts.snapshot()
        there = decision_there(task, snapshot)
        if there is not None:
            return there
        await self._leases.refresh()
        situation = Situation(
            context.journal.jobs(),
            marked(context.hosts.snapshot(), self._leases.silent()),
            context.clock.now(),
            leases=self._leases.others(context.journal.id),
        )
        memory = report.estimate.memory
        return self.placer.decide(task, memory, situation, work_of(report.estimate))

    async def renew(self, wait_s: float) -> None:
        """Ask hosts for leases, at most so long, then plan and forecast again."""
        with contextlib.suppress(asyncio.TimeoutError):
            await within(wait_s, self._leases.refresh())
        await self.outlook.renew()
        await self.foresight.renew()

    def explain(self, jobs: tuple[Job, ...], *, dispatched: bool) -> dict[str, Why]:
        """Explain the state of each job, by id; `dispatched` is whether a console starts jobs."""
        queued = any(job.state is JobState.QUEUED for job in jobs)
        waiting = self.outlook.plan.waiting if queued else {}
        now, starts = self._context.clock.now(), self.foresight.known
        snapshot = self._context.hosts.snapshot()
        prospects = self.placer.prospects(jobs, self._context.journal.jobs(), snapshot, now)
        return {
            job.id: why_of(
                job,
                waiting,
                no_console=not dispatched,
                expected=starts.get(job.id),
                prospect=prospect,
                steps=first_steps(job, snapshot),
                now=now,
            )
            for job, prospect in zip(jobs, prospects, strict=True)
        }

    def fitting(self, job: Job) -> frozenset[str]:
        """Return the hosts that could run a job if they were free and reachable."""
        context = self._context
        snapshot = without_clusters(context.hosts.snapshot())
        return self.placer.fitting(job, context.journal.jobs(), snapshot, context.clock.now())

    async def watch(self, dispatching: Callable[[], bool]) -> None:
        """Keep others' leases, and why jobs wait, fresh while one does."""
        while True:
            with contextlib.suppress(JournalError):
                if any(job.state is JobState.QUEUED for job in self._context.journal.jobs()):
                    await self._leases.refresh()
                    if not dispatching():
                        await self.outlook.renew()
            await self._context.clock.sleep(LOOK_EVERY_S)

"""A lab in memory for the tests of this room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.cleanup import Refusals, Sweeping
from gpuconsole.session.dispatch.dispatcher import Dispatcher
from gpuconsole.session.fleet.drain import Drains
from gpuconsole.session.fleet.host_faults import HostFaults
from gpuconsole.session.fleet.leases import LeaseBoard
from gpuconsole.session.fleet.silent_engines import Silences
from gpuconsole.session.fleet.view import FleetView
from gpuconsole.session.logs.copies import LogCopies
from gpuconsole.session.queue.plan import Outlook
from gpuconsole.session.queue.planner import Planner, placed_by
from gpuconsole.session.submit.validate import Packed
from gpuconsole.state import Journal, new_job_id
from tests.session.fakes import Console, Docker, FakeHosts, FirstFree, VirtualClock


class MortalJournal(Journal):
    """A journal of a console that may die before or after any of its writes."""

    console: Console

    def save(self, old: Job, new: Job, *, epoch: int | None = None) -> Job:
        self.console.touch("save")
        saved = super().save(old, new, epoch=epoch)
        self.console.touch("save done")
        return saved

    def give_back_role(self, epoch: int) -> None:
        if not self.console.dead:
            super().give_back_role(epoch)


@dataclass
class Desk:
    """One console at work on the lab."""

    console: Console
    journal: MortalJournal
    context: Context
    dispatcher: Dispatcher
    outlook: Outlook
    leases: LeaseBoard
    hosts: FakeHosts
    fleet: FleetView
    drains: Drains
    task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.ensure_future(self.dispatcher.run())

    async def stop(self) -> None:
        if self.task is not None:
            await cancel_all([self.task])

    async def kill(self) -> None:
        """End as SIGKILL does: nothing is written, nothing is said."""
        self.console.dead = True
        await self.stop()

    async def sweep(self, copies: LogCopies) -> bool:
        """Sweep host `a` by itself, as the head of the queue does."""
        refusals = Refusals(self.context)
        return await Sweeping(self.context, 1, copies, set(), refusals).sweep("a")

    def job(self, job_id: str) -> Job:
        job = self.journal.job(job_id)
        assert job is not None
        return job


@dataclass
class Lab:
    """Hosts, a state folder, and any number of consoles."""

    state: Path
    clock: VirtualClock = field(default_factory=VirtualClock)
    dockers: dict[str, Docker] = field(default_factory=dict)
    desks: list[Desk] = field(default_factory=list)
    devices: int = 1
    settings: LabSettings = field(default_factory=LabSettings)
    planner: Planner = field(default_factory=FirstFree)

    @property
    def docker(self) -> Docker:
        (docker,) = self.dockers.values()
        return docker

    def desk(self, *, dies_at: int | None = None, state: Path | None = None) -> Desk:
        console = Console()
        console.dies_at = dies_at
        folder = state or self.state
        journal = MortalJournal(folder, clock=self.clock.now)
        journal.console = console
        hosts = FakeHosts(self.dockers, console, self.devices)
        silences = Silences(self.clock)
        drains = Drains(hosts, journal, self.clock.now, silences.current)
        fleet = FleetView(hosts, (drains.marks,))
        context = Context(
            hosts=fleet,
            journal=journal,
            clock=self.clock,
            settings=self.settings,
            user="ada",
            pack=lambda *_: Packed(""),
            default_image=lambda host: "paddle",
            chance=lambda: 0.0,
        )
        leases = LeaseBoard(fleet, self.clock, silences)
        outlook = Outlook(context, (placed_by(self.planner),), leases)
        faults = HostFaults(context, lambda job: tuple(self.dockers))
        dispatcher = Dispatcher(context, outlook, leases, faults, f"console {len(self.desks)}")
        desk = Desk(console, journal, context, dispatcher, outlook, leases, hosts, fleet, drains)
        self.desks.append(desk)
        return desk

    def submit(self, desk: Desk, name: str = "train", task: Task | None = None) -> str:
        job_id = new_job_id(self.clock.now())
        bundle = desk.journal.folder / "bundles" / f"{job_id}.tar.gz"
        bundle.parent.mkdir(exist_ok=True)
        bundle.write_bytes(b"the code")
        desk.journal.add(
            Job(
                id=job_id,
                task=task or Task(name=name, script="/p/train.py"),
                user="ada",
                state=JobState.QUEUED,
                submitted_at=self.clock.now(),
            )
        )
        return job_id

    async def close(self) -> None:
        for docker in self.dockers.values():
            docker.hangs_at = frozenset()
            docker.notify()
        for desk in self.desks:
            await desk.stop()
            desk.journal.close()


def make_lab(state: Path, hosts: Sequence[str] = ("a",), devices: int = 1) -> Lab:
    lab = Lab(state, devices=devices)
    lab.dockers = {name: Docker(lab.clock) for name in hosts}
    return lab


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    made = make_lab(tmp_path / "state")
    yield made
    await made.close()

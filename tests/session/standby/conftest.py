"""A head that leads on the simulated lab, and followers of its journal over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.lab_service.rights import Caller, Rights
from gpuconsole.session import factory
from gpuconsole.session.factory import DemoOptions
from gpuconsole.session.lab_service import service as service_module
from gpuconsole.session.lab_service.console.client import LocalWay
from gpuconsole.session.lab_service.service import LabService
from gpuconsole.session.session import Session
from gpuconsole.session.standby.follower import Follower
from gpuconsole.session.standby.head import Head, HeadSettings
from gpuconsole.session.standby.lead import Lead
from gpuconsole.session.standby.witnesses import Witnesses
from gpuconsole.state.files.head_state import StandingFile


class OpenHosts:
    """The hosts of a session, which are not a head's to close."""

    def __init__(self, session: Session) -> None:
        self._hosts = session.hosts

    def __getattr__(self, name: str) -> object:
        return getattr(self._hosts, name)

    async def close(self) -> None:
        """Leave them open."""


@dataclass
class LeadDesk:
    """A service with a lead."""

    root: Path
    session: Session
    lead: Lead
    service: LabService
    said: list[str] = field(default_factory=list)
    caller: Caller = field(default_factory=lambda: Caller(0, "root"))

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(host.name for host in self.session.snapshot().hosts)

    def way(self) -> LocalWay:
        return LocalWay(self.service.path)

    def follower(self, name: str = "standby") -> Follower:
        return Follower(
            [self.way()], self.root / name, name, name * 4, self.hosts, self.said.append
        )

    def head(self, name: str = "standby", after_s: float | None = None) -> Head:
        settings = HeadSettings(
            name=name,
            folder=self.root / name,
            socket=self.root / f"{name}.sock",
            rights=Rights(),
            voters=self.hosts,
            hosts=lambda: OpenHosts(self.session),  # type: ignore[arg-type,return-value]
            ways=lambda: [self.way()],
            standby=True,
            after_s=after_s,
        )
        return Head(settings, self.said.append)

    def add(
        self, number: int, *, project: bytes = b"", secrets: dict[str, str] | None = None
    ) -> Job:
        context = self.session._context
        job_id = f"{number}job"
        if project:
            context.bundle(job_id).parent.mkdir(exist_ok=True, mode=0o700)
            context.bundle(job_id).write_bytes(project)
        context.secrets.put([job_id], secrets or {})
        task = Task(f"job-{number}", script="train.py", secrets=dict.fromkeys(secrets or {}, ""))
        return context.journal.add(Job(job_id, task, "ann", JobState.HELD, float(number)))


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LeadDesk]:
    state = tmp_path / "lead"
    async with factory.open_session(
        None, state, demo=DemoOptions(hosts=3, speed=20.0), dispatch=False
    ) as session:
        names = tuple(host.name for host in session.snapshot().hosts)
        said: list[str] = []
        standing = StandingFile(state)
        standing.change(leads=True)
        lead = Lead(standing, "first", Witnesses(names, session.hosts), said.append)
        service = LabService(session, tmp_path / "queue.sock", lead)
        made = LeadDesk(tmp_path, session, lead, service, said)
        monkeypatch.setattr(service_module, "caller_of", lambda transport: made.caller)
        async with service:
            yield made
        await asyncio.sleep(0)

"""The lab's service on the simulated lab, and consoles of several accounts."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuconsole.config import AllowedSection, LabSettings, RightsSection
from gpuconsole.core.lab_service.rights import Caller
from gpuconsole.session import factory
from gpuconsole.session.factory import DemoOptions
from gpuconsole.session.lab_service import service as service_module
from gpuconsole.session.lab_service.console.client import LabClient, LocalWay
from gpuconsole.session.lab_service.console.lab_session import LabQueueSession
from gpuconsole.session.lab_service.service import LabService
from gpuconsole.session.session import Session

SCRIPT = """import paddle

net = paddle.nn.Linear(8, 8)
opt = paddle.optimizer.SGD(parameters=net.parameters())
for _ in range(3):
    loss = net(paddle.rand([4, 8])).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def packed_project() -> bytes:
    """Return the smallest project as consoles pack it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        entry = tarfile.TarInfo("train.py")
        entry.size = len(SCRIPT)
        tar.addfile(entry, io.BytesIO(SCRIPT.encode()))
    return out.getvalue()


@dataclass
class LabDesk:
    """A service that runs, and what the tests say of who asks."""

    root: Path
    session: Session
    service: LabService
    patch: pytest.MonkeyPatch
    caller: Caller = field(default_factory=lambda: Caller(1001, "ada"))
    """Whom the service takes the next request for: no test has the accounts of a lab."""

    @property
    def script(self) -> Path:
        path = self.root / "project" / "train.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(SCRIPT)
        return path

    def client(self) -> LabClient:
        return LabClient(LocalWay(self.service.path))

    @contextlib.asynccontextmanager
    async def console(self, user: str) -> AsyncIterator[LabQueueSession]:
        """Open a console as a user; it watches as them however the test goes on."""
        self.act_as(user)
        settings = LabSettings(measure="never")
        state = self.root / f"state-{user}"
        way = LocalWay(self.service.path)
        async with LabQueueSession(way, settings, "liar", state) as session:
            yield session

    def act_as(self, user: str) -> None:
        number = 1000 + sum(map(ord, user))
        self.caller = Caller(number, user, frozenset({"users"}), number, "test")


@pytest.fixture
async def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LabDesk]:
    state = tmp_path / "state"
    session = factory.open_session(None, state, demo=DemoOptions(hosts=2, speed=20.0))
    session.settings = session.settings.model_copy(
        update={
            "rights": RightsSection(operators=("@ops", "root-cat"), priority=("grace",)),
            "allowed": AllowedSection(mounts=("/data", "/scratch:rw"), devices=8, memory=2048.0),
        }
    )
    async with session:
        service = LabService(session, tmp_path / "queue.sock")
        desk = LabDesk(tmp_path, session, service, monkeypatch)
        monkeypatch.setattr(service_module, "caller_of", lambda transport: desk.caller)
        async with service:
            yield desk

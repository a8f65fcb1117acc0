"""Sessions as commands open them."""

from __future__ import annotations

import asyncio
import configparser
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState, Task
from gpuconsole.errors import JournalError, UnreachableError, UsageError
from gpuconsole.session.factory import DemoOptions, open_session
from tests.waiting import DEADLINE_S

SCRIPT = """
import paddle
model = paddle.nn.Linear(64, 64)
for step in range(5):
    model(paddle.randn([8, 64])).mean().backward()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


async def test_the_demo_runs_a_job_from_submit_to_its_results(script: Path, tmp_path: Path) -> None:
    session = open_session(None, None, demo=DemoOptions(speed=200.0))
    state = session._journal.folder
    assert state.is_dir()
    async with session:
        assert session.simulated
        job = await session.queue.submit(Task("demo", script=str(script), args=("--steps", "5")))
        ended = await asyncio.wait_for(session.wait(job.id), DEADLINE_S)
        assert ended.state is JobState.SUCCEEDED
        lines = [line async for line in session.logs(job.id, follow=False)]
        assert lines[0].startswith("SIMULATED")
        folder = (await session.fetch_results(job.id, tmp_path / "out")).folder
        assert any(folder.iterdir())
    assert not state.exists(), "the demo takes its state with it"


async def test_the_demo_keeps_its_state_where_it_is_told_to(script: Path, tmp_path: Path) -> None:
    for expected in (0, 1):
        options = DemoOptions(speed=200.0)
        async with open_session(None, tmp_path, demo=options, dispatch=False) as session:
            assert len(session.jobs()) == expected
            if not expected:
                await session.queue.submit(Task("demo", script=str(script)))


async def test_the_journal_alone_needs_no_inventory_and_contacts_nobody(tmp_path: Path) -> None:
    async with open_session(None, tmp_path, fleet=False) as session:
        assert session.jobs() == ()
        assert session.snapshot().hosts == ()
        assert not session.dispatching
        with pytest.raises(UnreachableError):
            await session.hosts.engine("a100-01")


def test_wrong_files_are_named(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("version: 1\nhosts:\n  - nam: x\n")
    with pytest.raises(UsageError, match=r"inventory\.yaml:3"):
        open_session(inventory, tmp_path / "state")
    inventory.write_text("version: 1\nhosts:\n  - {name: x, address: 10.0.0.1}\n")
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(JournalError, match="not a folder"):
        open_session(inventory, tmp_path / "state")


def test_opening_loads_neither_screens_nor_links() -> None:
    code = (
        "import sys, gpuconsole.session.factory;"
        "print([name for name in ('textual', 'rich', 'asyncssh', 'docker') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_unit_runs_the_dispatcher_and_gives_up_on_what_does_not_mend_itself() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    text = (resources.files("gpuconsole") / "data" / "gpuconsole-dispatch.service").read_text()
    unit.read_string(text)
    assert unit["Service"]["ExecStart"].endswith("gpuconsole dispatch")
    assert unit["Service"]["RestartPreventExitStatus"] == str(UsageError.exit_code)
    assert unit["Install"]["WantedBy"] == "default.target"

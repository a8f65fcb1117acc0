"""A job that ran out of memory is offered what fits, from every screen, and then succeeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.simulated_lab.jobs import demo_tasks
from gpuconsole.tui.screens.dialogs.retry_oom import AgainScreen
from tests.tui.console import opened

FROM = {"queue": ("2",), "job": ("3",)}


@pytest.mark.parametrize("screen", FROM)
async def test_the_offered_batch_fits(
    screen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (task,) = (task for task in demo_tasks() if task.name == "runs-out")
    async with (
        open_session(None, tmp_path / "state", demo=DemoOptions(speed=20.0)) as session,
        opened(session) as console,
    ):
        job = await session.queue.submit(task, force=True)

        def state() -> JobState:
            return session.job(job.id).state

        def shown() -> JobState | None:
            """What the screens know of it: they are painted once a second."""
            jobs = (each for each in console.app.picture.jobs if each.id == job.id)
            return next((each.state for each in jobs), None)

        await console.until(lambda: shown() is JobState.OOM, "out of memory")
        # A busy machine may have needed more than one to come so far.
        before = len(session.job(job.id).attempts)
        await console.press(*FROM[screen])
        await console.shows("runs-out")
        await console.press("r")
        await console.until(lambda: isinstance(console.app.screen, AgainScreen), "the offer")
        await console.shows("Batch size 24")
        await console.press("y")
        await console.until(lambda: state().ended and len(session.job(job.id).attempts) > before)
        assert state() is JobState.SUCCEEDED, session.job(job.id)

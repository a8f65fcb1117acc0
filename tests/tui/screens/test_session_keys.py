"""Sessions, opened and entered with a key."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.errors import UsageError
from tests.tui.console import opened
from tests.tui.fake import FakeSession, job


def session_of(kind: str, state: JobState = JobState.RUNNING) -> Job:
    made = job(kind, state)
    return replace(made, task=replace(made.task, kind=kind, script=""))


async def test_a_session_is_opened_from_the_fleet_and_its_job_is_shown() -> None:
    for keys, kind in ((("enter",), "session"), (("tab", "enter"), "jupyter")):
        session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
        async with opened(session) as console:
            await console.press("3")
            await console.shows("ana-0001")
            await console.press("1", "B")
            await console.shows("Open a session?", "JupyterLab", "until it is ended")
            await console.press(*keys)
            await console.toast(f"Session {kind} is queued")
            assert session.calls.count(("open", kind)) == 1
            assert console.app.job_id == "ana-0009"
            # Not that of a job which was there before.
            await console.shows("ana-0009")


async def test_leaving_the_dialog_opens_none_and_an_error_is_said() -> None:
    session = FakeSession(error=UsageError("No such image", "It is nowhere."))
    async with opened(session) as console:
        await console.press("B", "escape")
        await console.until(lambda: "Open a session?" not in console.text)
        assert not [call for call in session.calls if call[0] == "open"]
        await console.press("B", "enter")
        await console.toast("It is nowhere.")


async def test_the_address_of_a_running_jupyterlab_is_shown_and_copied() -> None:
    for screen in ("2", "3"):
        session = FakeSession(jobs_now=(session_of("jupyter"),))
        async with opened(session) as console:
            await console.press(screen)
            await console.shows("B session")
            await console.press("B")
            await console.toast("JupyterLab is at http://127.0.0.1:8888/lab?token=abc")
            assert console.app.clipboard == "http://127.0.0.1:8888/lab?token=abc"


async def test_a_shell_is_named_where_no_terminal_can_be_lent() -> None:
    session = FakeSession(jobs_now=(session_of("session"),))
    async with opened(session) as console:
        await console.press("2", "B")
        await console.toast("In one: gpuconsole shell ana-0001")


async def test_the_footer_has_the_key_only_where_it_acts() -> None:
    for one in (
        session_of("session", JobState.QUEUED),
        session_of("session", JobState.SUCCEEDED),
        job("train", JobState.RUNNING),
    ):
        async with opened(FakeSession(jobs_now=(one,))) as console:
            for screen in ("2", "3"):
                await console.press(screen)
                await console.shows(one.task.name)
                assert "B session" not in console.text
    async with opened(FakeSession(jobs_now=(job("train", JobState.RUNNING),))) as console:
        await console.press("2", "B")
        await console.toast("It is no session")
    async with opened(FakeSession(read_only=True)) as console:
        await console.press("B")
        assert "Open a session?" not in console.text

"""Ports of a job, opened, listed and closed with keys."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.jobs import JobState
from tests.tui.console import NARROW, opened
from tests.tui.fake import FakeForward, FakeSession, job


async def test_a_port_is_opened_listed_and_closed() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    async with opened(session) as console:
        await console.press("3", "O")
        await console.shows("Ports of resnet", "Which port of its container?")
        await console.type("6006")
        await console.press("enter")
        await console.shows("http://127.0.0.1:6007/", "port 6006 of resnet", "Close")
        await console.press("escape")
        await console.shows("ports (O closes)", "is port 6006")
        await console.press("O", "tab", "enter")
        await console.until(lambda: "Close" not in console.text, "the list is empty")
        assert session.calls[-1] == ("close_forward", 6007)
        await console.press("escape")
        await console.until(lambda: "6006" not in console.text)


async def test_what_is_wrong_is_said_in_the_dialog() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    async with opened(session, NARROW) as console:
        await console.press("3", "O", "enter")
        await console.shows("A whole number is needed.")
        await console.type("9")
        await console.press("enter")
        await console.shows("Job ana-0001 is queued.")
        await console.type("6006")
        await console.press("enter")
        await console.shows("http://127.0.0.1:6007/")
        dead = replace(session.forwards.found[0].info, trouble="Connection refused.")
        session.forwards.found[:] = [FakeForward(dead)]
        await console.shows("Connection refused.")


async def test_only_a_running_job_has_ports() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.SUCCEEDED),))
    async with opened(session) as console:
        await console.press("3")
        assert "O ports" not in console.text


async def test_a_console_that_only_looks_opens_none() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), read_only=True)
    async with opened(session) as console:
        await console.press("3", "O")
        assert "Ports of" not in console.text

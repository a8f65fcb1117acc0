"""The ten tasks of docs/everyday.md, done with exactly the keys that stand there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.session import Session
from gpuconsole.simulated_lab.jobs import submit_demo_jobs
from gpuconsole.tui.widgets.form import Form
from tests.tui.console import NARROW, WIDE, Driven, opened

PAGE = Path(__file__).resolve().parents[2] / "docs" / "everyday.md"
ROW = re.compile(r"^\| ([^|]+) \| (`[^|]*) \| +(\d+) \|$", re.MULTILINE)
LARGE = (200, 60)
MOST_KEYS = 6
NAMES = {":": "colon", "/": "slash", "<": "less_than_sign"}


def tasks() -> dict[str, tuple[str, ...]]:
    """The keys of each task, as the page names them."""
    rows = ROW.findall(PAGE.read_text("utf-8"))
    return {task: tuple(re.findall(r"`([^`]+)`", keys)) for task, keys, _ in rows}


def named(key: str) -> str:
    return NAMES.get(key, key.lower())


def test_every_task_takes_six_keys_at_most_and_the_page_counts_them() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert len(rows) == 10
    for task, keys, count in rows:
        assert len(re.findall(r"`([^`]+)`", keys)) == int(count) <= MOST_KEYS, task


def idles(session: Session) -> set[int]:
    """Return the processes of others on the device with memory that one holds idly in the demo."""
    host = session.snapshot().host("rtx3090-01")
    assert host is not None
    return {each.pid for each in host.devices[0].processes if not each.container_id}


async def begin(console: Driven, task: str) -> None:
    """Press the keys of a task, from the Fleet screen where it does not go on from another."""
    await console.press(*map(named, tasks()[task]))


async def home(console: Driven) -> None:
    await console.press("escape", "escape")
    await console.press("0", "1")
    await console.shows("Fleet: ")


@pytest.mark.parametrize("size", [NARROW, WIDE, LARGE])
async def test_what_is_free_who_works_where_and_what_was(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with (
        open_session(None, tmp_path / "state", demo=DemoOptions()) as session,
        opened(session, size, toasts=False) as console,
    ):
        await console.shows("a100-01", "w where fits", "/ filter", "enter open")
        await begin(console, "Where are 24 GiB free?")
        await console.shows("1 x 24 GiB", "place")
        await home(console)
        await begin(console, "Only the hosts of rack r1")
        await console.until(lambda: "v100-01" in console.text and "rtx3090-01" not in console.text)
        await home(console)
        await begin(console, "Who uses a host?")
        await console.shows("processes", "user ", "command")
        await home(console)
        await begin(console, "Another theme")
        await console.until(lambda: console.app.theme != "night", "another theme")
        await begin(console, "Export as JSON")
        await console.toast("Exported to")
        (file,) = tmp_path.glob("*.json")
        assert len(json.loads(file.read_text("utf-8"))["hosts"]) == 6
        await begin(console, "The lab ten minutes ago")
        await console.shows("PAST")


@pytest.mark.parametrize("size", [NARROW, WIDE, LARGE])
async def test_a_job_that_waits_one_that_is_too_big_and_a_process_that_idles(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with (
        open_session(None, tmp_path / "state", demo=DemoOptions(speed=8.0)) as session,
        opened(session, size, toasts=False) as console,
    ):
        await submit_demo_jobs(session.queue)
        await console.until(lambda: any(job.state is JobState.OOM for job in session.jobs()))
        await begin(console, "Why does a job wait?")
        await console.shows("queued?")
        await home(console)
        assert idles(session)
        await begin(console, "End a process that holds memory idly")
        await console.until(lambda: not idles(session), "the process has ended")
        await home(console)
        await begin(console, "Correct a script that is too big")
        form = console.app.screen.query_one(Form)
        await console.until(lambda: form.values["batch"], "a smaller batch size")
        verdict = re.compile("fits|tight", re.IGNORECASE)
        await console.until(lambda: verdict.search(console.text), "it fits")
        await begin(console, "See its log, once submitted")
        await console.until(lambda: console.app.current_mode == "job", "the job and its log")
        await console.shows("too-big")

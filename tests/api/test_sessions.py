"""The sessions of the API on the simulated lab: what they give, refuse, and leave behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuconsole
from gpuconsole import BlockingSession, DemoOptions, JobState, Update
from tests.api.test_public import SCRIPT
from tests.waiting import DEADLINE_S

FAST = DemoOptions(speed=60)
STEADY = {"pool": "dev"}
"""Hosts of the simulated lab that never go away."""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def lab() -> Iterator[BlockingSession]:
    with gpuconsole.open_blocking(demo=FAST) as opened:
        yield opened


async def test_a_job_from_estimate_to_results(script: Path, tmp_path: Path) -> None:
    async with gpuconsole.open_session(demo=FAST) as lab:
        assert lab.simulated
        assert not lab.read_only
        fleet = await lab.status()
        assert len(fleet.hosts) == 6
        report = await lab.preflight(script, batch_size=64)
        assert report.estimate.memory is not None
        assert {verdict.verdict for verdict in report.verdicts} == {"fits"}
        job = await lab.submit(script, args=["--steps", "30"], name="mine", labels=STEADY)
        assert lab.jobs() == (lab.job("mine"),)
        updates = [update async for update in lab.follow(job.id)]
        lines = [line for update in updates for line in update.lines]
        assert updates[-1].job.state is JobState.SUCCEEDED
        assert lines[-1] == "done; results written"
        assert lines == [line async for line in lab.logs("mine")]
        assert (await lab.wait("mine", timeout_s=5)).state is JobState.SUCCEEDED
        assert "succeeded" in (await lab.why("mine")).reason
        folder = await lab.fetch("mine", tmp_path / "results")
        assert folder == tmp_path / "results" / job.id
        assert (folder / "summary.json").exists()


def test_the_same_without_await(lab: BlockingSession, script: Path, tmp_path: Path) -> None:
    assert len(lab.status().hosts) == len(lab.snapshot().hosts) == 6
    job = lab.submit(script, args=["--steps", "30"], labels=STEADY)
    updates: list[Update] = list(lab.follow(job.id))
    assert updates[-1].job.state is JobState.SUCCEEDED
    assert list(lab.logs(job.id)) == [line for update in updates for line in update.lines]
    assert lab.fetch(job.id, tmp_path).name == job.id
    assert lab.now() > 0


def test_leaving_a_loop_ends_the_following_and_not_the_job(
    lab: BlockingSession, script: Path
) -> None:
    job = lab.submit(script, args=["--steps", "20000"], labels=STEADY)
    for line in lab.logs(job.id, follow=True):
        assert line
        break
    for update in lab.follow(job.id):
        assert not update.job.state.ended
        break
    assert lab.job(job.id).state is JobState.RUNNING
    with pytest.raises(TimeoutError, match=r"has not ended in 0\.1 s"):
        lab.wait(job.id, timeout_s=0.1)
    assert lab.cancel(job.id).state is JobState.CANCELLED


def test_a_held_job_is_not_waited_for(lab: BlockingSession, script: Path) -> None:
    job = lab.submit(script, hold=True)
    assert job.state is JobState.HELD
    with pytest.raises(gpuconsole.RefusedError, match="held"):
        lab.wait(job.id)
    with pytest.raises(gpuconsole.RefusedError, match="held"):
        list(lab.follow(job.id))


def test_a_queue_is_worked_with(lab: BlockingSession, script: Path) -> None:
    first, second = lab.sweep(script, ["lr=0.1,0.2"], name="pair", hold=True, force=True)
    assert {job.task.args for job in (first, second)} == {("--lr", "0.1"), ("--lr", "0.2")}
    assert lab.set_priority(first.id, 3).task.priority == 3
    assert lab.release(first.id).state is JobState.QUEUED
    assert lab.hold(first.id).state is JobState.HELD
    assert lab.cancel(first.id).state is JobState.CANCELLED
    assert lab.retry(first.id).state is JobState.QUEUED
    with pytest.raises(gpuconsole.RefusedError):
        lab.preempt(second.id)
    assert lab.audit() == ()


def test_hosts_and_incidents_are_worked_with(lab: BlockingSession) -> None:
    host = lab.status().hosts[0].name
    lab.drain(host, "new cooler")
    drained = lab.snapshot().host(host)
    assert drained is not None
    assert "new cooler" in drained.drained
    lab.undrain(host)
    incident = next(one for one in lab.incidents() if one.ended_at is None)
    assert lab.acknowledge(incident.id).marked == "acknowledged"
    assert lab.snooze(incident.id, 60).marked == "snoozed"
    assert lab.resolve(incident.id).marked == "resolved"
    assert lab.reopen(incident.id).marked == ""


def test_mistakes_are_told_in_words(lab: BlockingSession, script: Path) -> None:
    with pytest.raises(gpuconsole.UsageError, match="No such job"):
        lab.job("nobody")
    with pytest.raises(gpuconsole.UsageError, match="No such job"):
        next(lab.follow("nobody"))
    with pytest.raises(gpuconsole.UsageError, match="No such script"):
        lab.preflight(script.with_name("nowhere.py"))
    with pytest.raises(TypeError, match="nonsense"):
        lab.preflight(script, nonsense=1)  # type: ignore[call-arg]
    task = gpuconsole.make_task(script)
    with pytest.raises(TypeError, match="replace"):
        lab.submit(task, priority=3)


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(gpuconsole.UsageError, match=r"nowhere\.yaml"):
        gpuconsole.open_blocking(tmp_path / "nowhere.yaml")
    assert not [one for one in threading.enumerate() if one.name == "gpuconsole"]


def test_read_only_refuses(script: Path) -> None:
    with (
        gpuconsole.open_blocking(demo=True, read_only=True) as lab,
        pytest.raises(gpuconsole.ReadOnlyError),
    ):
        lab.submit(script)


def test_a_closed_session_says_so(lab: BlockingSession) -> None:
    lab.close()
    lab.close()
    assert lab.closed
    with pytest.raises(gpuconsole.UsageError, match="closed"):
        lab.jobs()


def test_closing_ends_what_another_thread_waits_for(lab: BlockingSession, script: Path) -> None:
    job = lab.submit(script, args=["--steps", "20000"], labels=STEADY)
    following, ended = threading.Event(), threading.Event()

    def follow() -> None:
        try:
            for _ in lab.logs(job.id, follow=True):
                following.set()
        except BaseException:
            ended.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert following.wait(60)
    lab.close()
    thread.join(60)
    assert not thread.is_alive()
    assert ended.is_set()


async def test_it_works_beside_a_loop_that_runs() -> None:
    asyncio.get_running_loop()
    with gpuconsole.open_blocking(demo=True) as lab:
        assert lab.status().hosts


def test_a_program_that_forgets_to_close_ends_quietly(tmp_path: Path) -> None:
    program = (
        "import gpuconsole\n"
        "lab = gpuconsole.open_blocking(demo=gpuconsole.DemoOptions(speed=60))\n"
        "print(len(lab.status().hosts))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True, text=True, timeout=DEADLINE_S, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("6\n", "")


def test_a_task_of_a_script_a_file_or_both(script: Path, tmp_path: Path) -> None:
    task = gpuconsole.make_task(script, args=["--a"], devices="auto", priority=4)
    assert (task.script, task.args, task.devices, task.priority) == (str(script), ("--a",), None, 4)
    file = tmp_path / "task.yaml"
    file.write_text("task:\n  script: project/train.py\n  priority: 7\n  name: filed\n")
    filed = gpuconsole.make_task(task_file=file, batch_size=8)
    assert (filed.name, filed.priority, filed.batch_size) == ("filed", 7, 8)
    assert filed.script == str(script)
    with pytest.raises(gpuconsole.UsageError, match="batch size"):
        gpuconsole.make_task(script, batch_size=0)
    with pytest.raises(TypeError, match="needs a script"):
        gpuconsole.make_task()


def test_what_commands_do_a_session_does(
    lab: BlockingSession, script: Path, tmp_path: Path
) -> None:
    assert lab.user
    job = lab.submit(script, args=["--steps", "30"], labels=STEADY, name="mine")
    assert "docker run" in lab.render("mine")
    assert lab.wait("mine", timeout_s=DEADLINE_S).state is JobState.SUCCEEDED
    assert {row.words for row in lab.report(["user", "host"]).rows} == {
        (lab.user, part.host) for part in lab.job("mine").attempts[-1].parts
    }
    assert "summary.json" in {file.name for file in lab.results("mine")}
    found = lab.fetch_results("mine", tmp_path)
    assert (found.folder, found.left_out.count) == (tmp_path / job.id, 0)
    assert lab.prune()
    assert lab.group("mine") == (lab.job("mine"),)
    with pytest.raises(gpuconsole.UsageError, match="not a change"):
        lab.what_if("paint it red")
    assert lab.what_if(f"drain {lab.snapshot().hosts[0].name}").waiting == 0
    with pytest.raises(gpuconsole.ConsoleError):
        lab.retry_smaller("mine")


def test_a_session_has_the_images_of_its_hosts(lab: BlockingSession) -> None:
    lab.status()
    listed = lab.images.listing()
    assert any(image.names for host in listed for image in host.images)
    name = lab.images.default()
    pin = lab.images.pin(name)
    assert pin.image == name
    lab.images.unpin(name)
    with pytest.raises(gpuconsole.RefusedError, match="no pin"):
        lab.images.unpin(name)


async def test_the_session_is_that_of_commands_and_screens(script: Path) -> None:
    from gpuconsole.session.session import Session

    async with gpuconsole.open_session(demo=FAST) as lab:
        assert type(lab) is Session is gpuconsole.Session
        job = await lab.queue.submit(gpuconsole.make_task(script), hold=True)
        assert (await lab.release(job.id)).id == job.id
        assert lab.why_now(job.id).state == "queued"

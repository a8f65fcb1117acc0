"""A journal lost under a dispatcher, on a real host and engine: noticed, restored, adopted."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.jobs import JobState
from tests.real.rig import forks
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import COUNT, Desk, let_go, wait_until
from tests.state.test_journal_guard import checkpoint, halve, remove, scribble

pytestmark = pytest.mark.real

SETTINGS = "lab: {memory_limit: 200 MiB}\n"
NAMES = ("one", "two", "three", "four")


def ask(desk: Desk, *words: str, code: int = 0) -> Any:
    """Run a command and return its document."""
    done = forks.typed(desk.command(*words, "--json"), PATIENCE_S)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def states(desk: Desk) -> dict[str, str]:
    return {job["name"]: job["state"] for job in ask(desk, "jobs")["jobs"]}


def running(engine: LabDocker) -> set[str]:
    client = engine.client()
    try:
        return {one["Names"][0] for one in client.containers()}
    finally:
        client.close()


@contextlib.contextmanager
def dispatching(desk: Desk) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(desk.command("dispatch"), stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.fault(
    "The journal is removed, overwritten or cut in half under a running dispatcher",
    "Noticed at once: nothing more is launched, what runs goes on; a restored backup adopts it",
)
@pytest.mark.parametrize("harm", [remove, scribble, halve])
def test_jobs_run_on_and_none_is_lost_or_started_twice(
    docker_lab: Lab,
    tmp_path: Path,
    harm: Callable[[Path], None],
    record_property: Callable[[str, object], None],
) -> None:
    host = docker_lab.add()
    engine = host.start_engine()
    desk = Desk(docker_lab, tmp_path / "desk", SETTINGS)
    path = desk.state / "journal.sqlite"
    jobs = {
        name: ask(desk, "submit", "--force", str(desk.script(COUNT, f"{name}.py")))["job"]
        for name in NAMES[:3]
    }
    with dispatching(desk) as dispatcher:
        # Its first backup may have the jobs as waiting or as being launched.
        wait_until(lambda: ask(desk, "journal", "backups")["backups"], what="a backup")
        wait_until(lambda: len(running(engine)) == 2, what="two jobs run")
        # This one the backup does not have at all.
        jobs["four"] = ask(desk, "submit", "--force", str(desk.script(COUNT, "four.py")))["job"]
        before = running(engine)
        checkpoint(path)
        harm(path)
        assert dispatcher.wait(PATIENCE_S) == 2
        assert dispatcher.stderr is not None
        said = dispatcher.stderr.read()
    assert "gpuconsole journal restore" in said
    assert running(engine) == before
    for words in (["jobs"], ["why", jobs["one"]], ["submit", "--force", str(desk.script(COUNT))]):
        assert "journal restore" in ask(desk, *words, code=2)["error"]["hint"]

    restored = ask(desk, "journal", "restore")
    assert restored["unasked"] == []
    assert restored["missing"] == [jobs["four"]]
    assert bool(restored["aside"]) == (harm is not remove)
    assert running(engine) == before
    assert set(states(desk)) == set(NAMES[:3])

    with dispatching(desk) as dispatcher:
        wait_until(lambda: sorted(states(desk).values()) == ["queued", "running", "running"])
        for name, state in states(desk).items():
            if state == "running":
                let_go(host, _job(desk, jobs[name]))
        wait_until(lambda: sum(state == "succeeded" for state in states(desk).values()) == 2)
        wait_until(lambda: "running" in states(desk).values())
        (last,) = (name for name, state in states(desk).items() if state == "running")
        let_go(host, _job(desk, jobs[last]))
        wait_until(lambda: set(states(desk).values()) == {"succeeded"}, what="all have ended")
        dispatcher.terminate()
        assert dispatcher.wait(PATIENCE_S) == 0
    with desk.journal() as journal:
        assert [len(job.attempts) for job in journal.jobs()] == [1, 1, 1]
        assert journal.restoration() is None
    for name in NAMES[:3]:
        ask(desk, "fetch", jobs[name], "--to", str(tmp_path / "out"))
        assert (tmp_path / "out" / jobs[name] / "runs").read_text() == "ran\n"
    assert ask(desk, "journal", "check")["ok"] is True
    record_property("figure", "3 jobs, 3 ended, 0 lost, 0 started twice")


@pytest.mark.fault(
    "The journal is removed, and there is no backup of it",
    "A new one adopts by its labels what runs, with its log and results",
)
def test_a_queue_begins_again_from_what_hosts_say(docker_lab: Lab, tmp_path: Path) -> None:
    """Without any backup the jobs that run are adopted by their labels."""
    host = docker_lab.add()
    engine = host.start_engine()
    desk = Desk(docker_lab, tmp_path / "desk", SETTINGS)
    job_id = ask(desk, "submit", "--force", str(desk.script(COUNT, "lonely.py")))["job"]
    with dispatching(desk) as dispatcher:
        wait_until(lambda: running(engine), what="it runs")
        remove(desk.state / "journal.sqlite")
        assert dispatcher.wait(PATIENCE_S) == 2
    for backup in (desk.state / "backups").iterdir():
        os.unlink(backup)
    ask(desk, "journal", "restore", code=2)
    restored = ask(desk, "journal", "restore", "--empty")
    assert [(job["id"], job["name"]) for job in restored["adopted"]] == [(job_id, "lonely")]
    with dispatching(desk) as dispatcher:
        let_go(host, _job(desk, job_id))
        wait_until(lambda: states(desk) == {"lonely": "succeeded"}, what="it has ended")
        dispatcher.terminate()
        assert dispatcher.wait(PATIENCE_S) == 0
    ask(desk, "fetch", job_id, "--to", str(tmp_path / "out"))
    assert (tmp_path / "out" / job_id / "runs").read_text() == "ran\n"
    assert "task is not known" in ask(desk, "retry", job_id, code=1)["error"]["title"]


def _job(desk: Desk, job_id: str) -> Any:
    with desk.journal() as journal:
        job = journal.job(job_id)
    assert job is not None
    assert job.state is JobState.RUNNING
    return job

"""Time limits and conditions on a real engine: jobs that ignore SIGTERM, chains after failures, and
dispatchers that are killed at the limit."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from tests.real.rig import forks
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, job_is, seen, until
from tests.session.messages.test_messages import receiver

DEAF = """
import os, signal, time

def heard(number, frame):
    print("heard SIGTERM", flush=True)

signal.signal(signal.SIGTERM, heard)
print("limit", os.environ.get("GPUCONSOLE_TIME_LIMIT"), flush=True)
while True:
    time.sleep(0.05)
"""
SAVES = """
import os, signal, sys, time

def save(number, frame):
    with open(os.path.join(os.environ["GPUCONSOLE_RESULTS"], "saved"), "w") as out:
        out.write("all of it")
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""
LIMITS = "lab:\n  limits: {warning: 2s, grace: 3s}\n"


def desk_of(lab: Lab, folder: Path, settings: str = LIMITS) -> Desk:
    lab.add(devices=1).start_engine()
    return Desk(lab, folder / "desk", settings)


def only(job: Job) -> Attempt:
    (attempt,) = job.attempts
    return attempt


async def test_a_job_that_ignores_sigterm_is_killed_and_the_chain_behind_it_goes_its_ways(
    docker_lab: Lab, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        heard = await stack.enter_async_context(receiver())
        notify = (
            f"  notify: {{about: [time-warning, time-limit], ways: [{{webhook: '{heard.url}'}}]}}"
        )
        desk = desk_of(docker_lab, tmp_path, f"{LIMITS}{notify}\n")
        session = await stack.enter_async_context(desk.session())
        await seen(session)
        deaf = await session.queue.submit(
            replace(desk.task(DEAF), time_limit_s=6.0, checkpoint_dir="runs"), force=True
        )

        async def after(name: str, condition: str, **more: bool) -> Job:
            task: Task = replace(desk.task("print('ran')", name), after=(condition,), **more)
            return await session.queue.submit(task, force=True)

        cleans_up = await after("cleans_up", f"afternotok:{deaf.id}")
        reports = await after("reports", f"afterany:{deaf.id}")
        goes_on = await after("goes_on", deaf.id, cancel_if_failed=True)
        waits = await after("waits", f"afternotok:{cleans_up.id}")
        assert "; it is" in session.why_now(cleans_up.id).reason

        ended = await job_is(session, deaf, JobState.FAILED)
        assert (ended.state_word, only(ended).ended_by) == ("time limit", "time-limit")
        assert only(ended).exit_code == 137
        assert "was killed at the end of the grace time" in ended.cause
        log = [line async for line in session.logs(deaf.id, follow=True)]
        assert log[:2] == ["limit 6", "heard SIGTERM"]
        # The console's own line: nothing of it is in the container, nor in the copy of its log.
        assert re.fullmatch(r"--- gpuconsole, .* UTC: the job's limit of 6s ends .* ---", log[2])
        assert session.log_path(deaf.id).read_text() == "limit 6\nheard SIGTERM\n"
        ran = (only(ended).ended_at or 0.0) - (only(ended).started_at or 0.0)
        assert ran >= 6.0 + 3.0
        told = [event for _, event in session._journal.events_after(0) if event.subject == deaf.id]
        assert [event.what for event in told][-2:] == ["time-warning", "time-limit"]

        def messages() -> list[str]:
            return [one["what"] for body in heard.got for one in body["notices"]]

        await until(lambda: len(messages()) == 2, what="two messages")
        assert messages() == ["time-warning", "time-limit"]

        await job_is(session, cleans_up, JobState.SUCCEEDED)
        await job_is(session, reports, JobState.SUCCEEDED)
        cancelled = await job_is(session, goes_on, JobState.CANCELLED)
        assert "which reached its time limit" in cancelled.cause
        assert session.job(waits.id).state is JobState.QUEUED
        why = session.why_now(waits.id)
        assert "and that ended well" in why.reason
        assert why.options[-1] == "Cancel this one."


class Watched:
    """A job seen beside the consoles that dispatch it."""

    def __init__(self, desk: Desk, job_id: str) -> None:
        self._desk, self._id = desk, job_id

    def dispatch_until(self, moment: Callable[[Job], bool]) -> Job:
        """Dispatch in a console of its own, and kill it the moment that something holds."""
        console = subprocess.Popen(self._desk.command("dispatch"), stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + PATIENCE_S
            with self._desk.journal() as journal:
                while not ((job := journal.job(self._id)) and moment(job)):
                    assert time.monotonic() < deadline, job
                    time.sleep(0.002)
            return job
        finally:
            os.kill(console.pid, signal.SIGKILL)
            console.wait()


def submitted(desk: Desk, script: str, *options: str) -> str:
    words = desk.command("submit", "--force", *options, str(desk.script(script)))
    said = forks.typed(words, PATIENCE_S)
    assert said.returncode == 0, said.stderr
    return said.stdout.strip()


def test_a_dispatcher_killed_before_at_and_after_the_limit_changes_nothing(
    docker_lab: Lab, tmp_path: Path
) -> None:
    # Warned 5 s after the start; a dispatcher on a busy machine has 50 s to come and warn.
    desk = desk_of(docker_lab, tmp_path, "lab:\n  limits: {warning: 50s, grace: 60s}\n")
    watched = Watched(desk, submitted(desk, SAVES, "--time-limit", "55s"))
    running = watched.dispatch_until(lambda job: job.state is JobState.RUNNING)
    began = only(running).started_at
    warned = watched.dispatch_until(lambda job: only(job).warned_at is not None)
    assert only(warned).started_at == began
    told = watched.dispatch_until(lambda job: only(job).ended_by == "time-limit")
    assert only(told).warned_at == only(warned).warned_at, "warned once"
    ended = watched.dispatch_until(lambda job: job.state.ended)
    assert ended.state_word == "time limit"
    assert (only(ended).started_at, only(ended).ended_by) == (began, "time-limit")
    # It saved when it heard SIGTERM, and its exit code of 0 is no success.
    assert only(ended).exit_code == 0
    words = desk.command("fetch", ended.id, "--to", str(tmp_path / "got"))
    fetched = forks.typed(words, PATIENCE_S)
    assert fetched.returncode == 0, fetched.stderr
    assert (tmp_path / "got" / ended.id / "saved").read_text() == "all of it"


def test_a_job_that_ended_by_itself_while_nobody_dispatched_keeps_its_end(
    docker_lab: Lab, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path)
    short = "import time\nprint('begins', flush=True)\ntime.sleep(2)\n"
    watched = Watched(desk, submitted(desk, short, "--time-limit", "30s"))
    running = watched.dispatch_until(lambda job: job.state is JobState.RUNNING)
    over = (only(running).started_at or 0.0) + 31.0
    while time.time() < over:
        time.sleep(0.1)
    ended = watched.dispatch_until(lambda job: job.state.ended)
    assert (ended.state, only(ended).ended_by) == (JobState.SUCCEEDED, "own")

"""A warning of a time limit is in the log as it is shown, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.session.logs.line_index import LogIndex
from gpuconsole.session.logs.noted import NotedLog, warning_line
from gpuconsole.session.logs.tail import tail

WARNED = "--- gpuconsole, 22:13 UTC: the job's limit of 2m00s ends it in 6s ---"


def job(warned_at: float | None) -> Job:
    attempt = Attempt(1, "a100-01", ("GPU-1",), started_at=1_700_000_000.0 - 114.0)
    task = Task("train", time_limit_s=120.0)
    return Job(
        "1", task, "ada", JobState.RUNNING, 0.0, attempts=(replace(attempt, warned_at=warned_at),)
    )


def test_the_line_says_what_ends_the_job_and_when() -> None:
    assert warning_line(job(None), 1, None) == ""
    assert warning_line(job(1_700_000_000.0), 1, None) == WARNED
    assert warning_line(job(1_700_000_000.0), 2, None) == ""


async def test_it_stands_after_the_lines_that_were_there_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_bytes(b"one\ntwo\nopen")
    log = NotedLog(LogIndex(path))
    await log.grow()
    epoch, version = log.epoch, log.version
    log.note(WARNED)
    assert (log.epoch, log.version) == (epoch + 1, version + 1)
    with path.open("ab") as file:
        file.write(b" end\nlast\n")
    await log.grow()
    log.note("another")
    wanted = ["one", "two", WARNED, "open end", "last"]
    assert [log.text(line) for line in range(len(log))] == wanted
    for first in range(6):
        for last in range(first, 6):
            read = [raw.strip().decode() for raw in log.reader(first, last)()]
            assert read == wanted[first:last], (first, last)
    assert path.read_bytes() == b"one\ntwo\nopen end\nlast\n"


async def test_a_log_that_begins_anew_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_bytes(b"one\ntwo\n")
    log = NotedLog(LogIndex(path))
    await log.grow()
    log.note(WARNED)
    path.write_bytes(b"other\n")
    await log.grow()
    assert [log.text(line) for line in range(len(log))] == ["other", WARNED]


async def test_who_follows_reads_it_when_it_comes(tmp_path: Path) -> None:
    path, looks, words = tmp_path / "1.log", 0, ""
    path.write_bytes(b"one\n")

    async def pause() -> None:
        nonlocal looks, words
        looks += 1
        if looks == 1:
            words = WARNED
        elif looks == 2:
            with path.open("ab") as file:
                file.write(b"two\n")

    lines = [line async for line in tail(lambda: path, lambda: looks > 3, pause, lambda: words)]
    assert lines == ["one", WARNED, "two"]
    done = [line async for line in tail(lambda: path, lambda: True, pause, lambda: words)]
    assert done == ["one", "two", WARNED]

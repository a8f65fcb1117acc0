"""Secret variables from the submission to the end: in the container, and nowhere else."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.core.submission.sweeps import read_axes
from gpuconsole.errors import UsageError
from gpuconsole.session.dispatch.job_record import Entry
from gpuconsole.session.session import Session
from tests.session.test_session import Room, opened, room  # noqa: F401 - fixture

VALUE = "hf_0123456789abcdefghij"
SECRETS = {"HF_TOKEN": VALUE}


def traces(folder: Path, *, but: str = "secrets") -> list[Path]:
    """Return the files of a state folder that hold the value."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != but and VALUE.encode() in path.read_bytes()
    ]


def kept(folder: Path) -> list[str]:
    where = folder / "secrets"
    return sorted(path.name for path in where.iterdir()) if where.is_dir() else []


def words(session: Session, job_id: str) -> Iterator[str]:
    """Give everything that is said of a job."""
    job = session.job(job_id)
    yield repr(job)
    yield json.dumps(job.as_json())
    for target in ("docker", "kubernetes", "slurm"):
        yield session.render(job.id, target)
    yield json.dumps(session.why_now(job.id).as_json())


async def test_a_value_reaches_the_container_and_nothing_else(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        reported: list[str] = []
        session.subscribe(lambda event: reported.append(event.message))
        job = await session.queue.submit(room.task(secrets=SECRETS, env={"LR": "0.1"}))
        assert job.task.secrets == {"HF_TOKEN": ""}
        assert kept(room.state) == [job.id]
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        assert room.docker.only().spec.secrets == SECRETS
        assert VALUE not in repr(room.docker.only().spec)
        assert "--env LR=0.1" in session.render(job.id)
        assert "--env HF_TOKEN " in session.render(job.id)
        assert traces(room.state) == []
        room.docker.finish(0, b"done\n")
        await room.until(lambda: session.job(job.id).state is JobState.SUCCEEDED)
        await room.until(lambda: kept(room.state) == [])
        said = [*words(session, job.id), *reported]
    assert not any(VALUE in one for one in said)
    assert traces(room.state, but="") == []


async def test_values_survive_the_console_that_took_them(room: Room) -> None:  # noqa: F811
    async with opened(room, dispatch=False) as session:
        job = await session.queue.submit(room.task(secrets=SECRETS))
    async with opened(room) as session:
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        assert room.docker.only().spec.secrets == SECRETS


async def test_a_sweep_shares_them_and_a_cancelled_job_loses_its_own(room: Room) -> None:  # noqa: F811
    async with opened(room, dispatch=False) as session:
        jobs = await session.queue.sweep(room.task(secrets=SECRETS), read_axes(("seed=0..2",)))
        assert kept(room.state) == sorted(job.id for job in jobs)
        await session.queue.cancel(jobs[0].id)
        assert kept(room.state) == sorted(job.id for job in jobs[1:])
        assert traces(room.state) == []


async def test_a_retry_asks_for_what_was_removed(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        job = await session.queue.submit(room.task(secrets=SECRETS, env={"X": "1"}))
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        room.docker.finish(1)
        await room.until(lambda: session.job(job.id).state.ended and not kept(room.state))
        with pytest.raises(UsageError, match="HF_TOKEN") as refused:
            await session.queue.retry(job.id)
        assert refused.value.hint == f"Give them: gpuconsole retry {job.id} --env-file FILE"
        assert session.job(job.id).state is JobState.FAILED
        with pytest.raises(UsageError, match="OTHER"):
            await session.queue.retry(job.id, secrets={**SECRETS, "OTHER": "x"})
        assert kept(room.state) == []
        await session.queue.retry(job.id, secrets={"HF_TOKEN": "another-value", "X": "2"})
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        assert room.docker.only().spec.secrets == {"HF_TOKEN": "another-value"}


async def test_a_try_that_follows_by_itself_has_them(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        job = await session.queue.submit(room.task(secrets=SECRETS, checkpoint_dir="out"))
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        await room.done(session.queue.preempt(job.id))
        await room.until(lambda: len(session.job(job.id).attempts) == 2
                         and session.job(job.id).state is JobState.RUNNING)  # fmt: skip
        assert room.docker.only().spec.secrets == SECRETS


@pytest.mark.parametrize("secrets", [{"HF_TOKEN": ""}, {"A": "x" * 9, "HF_TOKEN": ""}])
async def test_a_task_without_a_value_is_not_queued(room: Room, secrets: dict[str, str]) -> None:  # noqa: F811
    async with opened(room, dispatch=False) as session:
        with pytest.raises(UsageError, match="needs HF_TOKEN"):
            await session.queue.submit(room.task(secrets=secrets))
        assert session.jobs() == ()
        assert kept(room.state) == []


async def test_an_engine_that_quotes_a_value_is_not_quoted(room: Room) -> None:  # noqa: F811
    room.docker.start_fails = f'runc: invalid environment variable "HF_TOKEN={VALUE}"'
    async with opened(room) as session:
        reported: list[str] = []
        session.subscribe(lambda event: reported.append(event.message))
        job = await session.queue.submit(room.task(secrets=SECRETS))
        await room.until(
            lambda: session.job(job.id).attempts and session.job(job.id).attempts[-1].ended_at
        )
        assert "***" in session.job(job.id).attempts[-1].cause
        said = [*words(session, job.id), *reported]
        assert not any(VALUE in one for one in said)
        assert traces(room.state) == []


async def test_values_that_cannot_be_read_once_are_hidden_from_the_next_text_on(
    room: Room,  # noqa: F811
) -> None:
    async with opened(room) as session:
        job = await session.queue.submit(
            room.task(secrets=SECRETS, env={"API_TOKEN": "plain-0123456789"}), hold=True
        )
        entry = Entry(session._context, 1, job.id)
        said = f"exec: {VALUE} plain-0123456789"
        (file,) = (room.state / "secrets").iterdir()
        file.chmod(0o644)
        assert "plain-0123456789" not in entry.masked(said)
        file.chmod(0o600)
        assert VALUE not in entry.masked(said)


async def test_values_that_are_gone_end_the_job_with_the_next_step(room: Room) -> None:  # noqa: F811
    async with opened(room, dispatch=False) as session:
        job = await session.queue.submit(room.task(secrets=SECRETS))
    (room.state / "secrets" / job.id).unlink()
    async with opened(room) as session:
        await room.until(lambda: session.job(job.id).state is JobState.FAILED)
        assert "HF_TOKEN" in session.job(job.id).cause
        assert not room.docker.starts


async def test_pruning_removes_what_a_killed_submission_left(room: Room) -> None:  # noqa: F811
    async with opened(room, dispatch=False) as session:
        job = await session.queue.submit(room.task(secrets=SECRETS))
        store = session._context.secrets
        store.put(["never-queued"], SECRETS)
        await session.prune()
        assert kept(room.state) == [job.id], "the clock of the lab is a year ahead"


def test_a_secret_looking_value_of_an_ordinary_variable_is_not_shown(
    room: Room,  # noqa: F811
) -> None:
    session = room.session(dispatch=False)
    task = room.task(env={"WANDB_API_KEY": VALUE, "DB": f"http://u:{VALUE}@h", "LR": "0.5"})
    try:
        for target in ("docker", "kubernetes", "slurm"):
            text = session.render_task(task, target)
            assert VALUE not in text
            assert "WANDB_API_KEY" in text
            assert "0.5" in text
    finally:
        session._journal.close()


async def test_lines_that_an_earlier_version_wrote_are_shown_without_values(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        task = room.task(env={"WANDB_API_KEY": f"{VALUE} 'x'"})
        job = await session.queue.submit(task)
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        (path,) = room.state.rglob("*.docker")
        line = path.read_text()
        assert VALUE not in line
        quoted = shlex.quote(f"WANDB_API_KEY={VALUE} 'x'")
        path.write_text(line.replace("--env WANDB_API_KEY", f"--env {quoted}"))
        assert session.render(job.id) == line.rstrip("\n")

"""Out of memory: tried again only with another batch, only when asked for, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gpuconsole.core.jobs import Job, JobState, SmallerBatch
from gpuconsole.session.estimate.preflight_runner import Preflights
from gpuconsole.session.session import Session
from tests.session.test_session import Room, opened, room  # noqa: F401 - a fixture
from tests.waiting import until

BODY = """
import paddle
from paddle.io import DataLoader, Dataset


class Samples(Dataset):
    def __getitem__(self, index):
        return paddle.randn([784]), paddle.to_tensor(1)

    def __len__(self):
        return 6400


net = paddle.nn.Sequential(paddle.nn.Linear(784, 256), paddle.nn.ReLU(), paddle.nn.Linear(256, 10))
adam = paddle.optimizer.Adam(parameters=net.parameters())
for images, labels in DataLoader(Samples(), batch_size=BATCH):
    loss = paddle.nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    adam.step()
    adam.clear_grad()
"""
BY_ARGUMENT = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("-b", "--batch-size", type=int, default=64)
args = p.parse_args()
""" + BODY.replace("BATCH", "args.batch_size")
BY_LINE = "SIZE = 48\n" + BODY.replace("BATCH", "SIZE")
OUT_OF_MEMORY = (
    b"ResourceExhaustedError:\n\nOut of memory error on GPU 0. Cannot allocate 3.125000GB memory on"
    b" GPU 0, 37.500000GB memory has been allocated and available memory is only 117.750000MB.\n"
)


async def submitted(session: Session, room: Room, text: str, **task: object) -> Job:  # noqa: F811
    room.script.write_text(text)
    estimating = session.estimates
    estimating._preflights = Preflights(estimating._reader)
    return await session.queue.submit(room.task(**task))


async def run_out(session: Session, room: Room, job: Job) -> None:  # noqa: F811
    await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
    room.docker.finish(1, OUT_OF_MEMORY)
    await room.until(lambda: session.job(job.id).state is JobState.OOM)


async def settled(session: Session, room: Room, job: Job) -> Job:  # noqa: F811
    """Return the job once somebody has decided what becomes of it."""

    async def decided() -> Job | None:
        await room.clock.pass_time(2)
        now = session.job(job.id)
        return now if now.state is not JobState.OOM or now.detail else None

    # Preflight reads the script in a process of its own, for which virtual time does not wait.
    found = await until(decided, "a decision")
    assert found is not None
    return found


async def test_half_the_batch_is_tried_once_and_then_no_more(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        job = await submitted(session, room, BY_ARGUMENT, auto_batch=True)
        await run_out(session, room, job)
        again = await settled(session, room, job)
        assert again.task.args == ("--batch-size", "32")
        assert again.estimate is not None
        assert again.estimate["batch_size"] == 32
        first = again.attempts[0]
        assert first.cause.startswith("Out of memory on GPU 0")
        assert "with batch size 64; tried again with 32, half of it" in first.cause
        await run_out(session, room, job)
        over = await settled(session, room, job)
        assert over.state is JobState.OOM
        assert over.detail == "Not tried again: It may be tried again once at most."
        assert over.task.args == ("--batch-size", "32")
        why = session.why_now(job.id)
        assert "Out of memory on GPU 0" in why.reason
        assert "Not tried again" in why.reason


async def test_batches_that_came_with_a_job_are_tried_in_turn_and_no_script_is_read(
    room: Room,  # noqa: F811
) -> None:
    smaller = (
        SmallerBatch(16, 64, ("-b", "16"), 900.0),
        SmallerBatch(8, 16, ("-b", "8"), 500.0),
    )
    async with opened(room) as session:
        job = await submitted(
            session, room, BY_ARGUMENT, auto_batch=True, smaller=smaller, retries=5
        )
        room.script.unlink()

        async def out_until(condition: Callable[[], object]) -> Job:
            await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
            room.docker.finish(1, OUT_OF_MEMORY)
            await room.until(condition)
            return session.job(job.id)

        again = await out_until(lambda: session.job(job.id).task.args == ("-b", "16"))
        assert again.estimate_mib == 900.0
        assert again.estimate is not None
        assert (again.estimate["batch_size"], "memory" in again.estimate) == (16, False)
        assert "with batch size 64; tried again with 16, which" in again.attempts[0].cause
        last = await out_until(lambda: session.job(job.id).task.args == ("-b", "8"))
        assert (last.task.auto_batch, last.task.smaller) == (False, ())
        # That was the last: what is left to try would take the script.
        over = await out_until(lambda: session.job(job.id).state is JobState.OOM)
        await room.clock.pass_time(5)
        assert session.job(job.id) == over


async def test_a_batch_written_in_the_script_is_changed_in_the_copy(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        job = await submitted(session, room, BY_LINE, auto_batch=True)
        await run_out(session, room, job)
        again = await settled(session, room, job)
        (edit,) = again.task.edits
        assert (edit.old, edit.new) == ("SIZE = 48", "SIZE = 24")
        assert again.task.batch_size == 24
        assert room.script.read_text() == BY_LINE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("edited", "its script has changed since"),
        ("one", "its batch size is 1 already"),
    ],
)
async def test_what_cannot_be_made_smaller_ends_with_the_reason(
    room: Room,  # noqa: F811
    change: str,
    words: str,
) -> None:
    async with opened(room) as session:
        args = ("--batch-size", "1") if change == "one" else ()
        job = await submitted(session, room, BY_ARGUMENT, auto_batch=True, args=args)
        if change == "edited":
            room.script.write_text(BY_ARGUMENT + "\nprint('new')\n")
        await run_out(session, room, job)
        over = await settled(session, room, job)
        assert over.state is JobState.OOM
        assert words in over.detail


async def test_unasked_nothing_is_tried_again(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        job = await submitted(session, room, BY_ARGUMENT)
        await run_out(session, room, job)
        await room.until(lambda: session.job(job.id).state is JobState.OOM)
        await room.clock.pass_time(60)
        assert session.job(job.id).state is JobState.OOM
        failed = await submitted(session, room, BY_ARGUMENT, auto_batch=True)
        await room.until(lambda: session.job(failed.id).state is JobState.RUNNING)
        room.docker.finish(1, b"ValueError: no such file\n")
        await room.until(lambda: session.job(failed.id).state is JobState.FAILED)
        await room.clock.pass_time(60)
        assert session.job(failed.id).state is JobState.FAILED


async def test_what_goes_wrong_meanwhile_is_told_and_nobody_waits_for_ever(
    room: Room,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(room) as session:
        job = await submitted(session, room, BY_ARGUMENT, auto_batch=True)
        waiting = asyncio.ensure_future(session.wait(job.id))

        async def broken(*_: object, **__: object) -> None:
            raise ValueError("a fault of ours")

        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        monkeypatch.setattr(session.estimates, "report", broken)
        room.docker.finish(1, OUT_OF_MEMORY)
        await room.until(waiting.done)
        assert waiting.result().state is JobState.OOM
        assert "a fault of ours" in waiting.result().detail

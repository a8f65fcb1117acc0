"""Two consoles with a journal each want the same single GPU, fifty times over."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.errors import LeaseTakenError
from gpuconsole.session.dispatch import dispatcher
from gpuconsole.session.fleet import leases
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab
from tests.real.rig.sessions import Desk, seen, until

LAUNCHES = 50
NOTE = """
import os
with open(os.path.join(os.environ["GPUCONSOLE_RESULTS"], "runs"), "a") as runs:
    runs.write("ran\\n")
"""


@contextlib.contextmanager
def recorded(engine: LabDocker) -> Iterator[list[dict[str, Any]]]:
    """Give the engine's own account of starts and ends of containers, in its order."""
    client = engine.client()
    stream = client.events(decode=True, filters={"event": ["start", "die"]})
    events: list[dict[str, Any]] = []

    def listen() -> None:
        # Closing the stream under a read ends it in more than one way.
        with contextlib.suppress(Exception):
            events.extend(iter(stream.__next__, None))

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield events
    finally:
        stream.close()
        listener.join(10)
        client.close()


@pytest.mark.fault(
    "Two consoles launch on one GPU at the same moment, 50 times",
    "One container each time",
)
async def test_one_gpu_never_has_two_containers(
    docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Neither hears of the other's leases but by claiming, and both claim almost without a rest.
    monkeypatch.setattr(leases.LeaseBoard, "others", lambda board, journal: {})
    monkeypatch.setattr(dispatcher, "TICK_S", 0.05)
    monkeypatch.setattr(dispatcher, "AVOID_S", 0.1)
    refused: list[str] = []
    note_taken = dispatcher.Dispatcher._taken

    def count_taken(self: dispatcher.Dispatcher, host: str, error: LeaseTakenError) -> None:
        refused.append(error.holder)
        note_taken(self, host, error)

    monkeypatch.setattr(dispatcher.Dispatcher, "_taken", count_taken)
    host = docker_lab.add(devices=1)
    engine = host.start_engine()
    desks = [Desk(docker_lab, tmp_path / name) for name in ("ann", "bob")]
    with recorded(engine) as events:
        async with desks[0].session() as ann, desks[1].session() as bob:
            for session in (ann, bob):
                await seen(session)
            for number in range(LAUNCHES // 2):
                for session, desk in zip((ann, bob), desks, strict=True):
                    await session.queue.submit(desk.task(NOTE, f"n{number}"))

            def over() -> bool:
                return all(job.state.ended for job in (*ann.jobs(), *bob.jobs()))

            await until(over, what="every job's end")
            jobs = (*ann.jobs(), *bob.jobs())
        await until(lambda: len(events) >= 2 * LAUNCHES, what="the engine's account")
    assert {job.state for job in jobs} == {JobState.SUCCEEDED}
    assert {len(job.attempts) for job in jobs} == {1}
    held = ""
    starts: Counter[str] = Counter()
    for event in events:
        job = event["Actor"]["Attributes"]["gpuconsole.job"]
        if event["Action"] == "start":
            assert not held, f"{job} was started while {held} ran"
            held = job
            starts[job] += 1
        else:
            assert held == job
            held = ""
    assert starts == {job.id: 1 for job in jobs}
    assert refused, "they never reached for it at once"

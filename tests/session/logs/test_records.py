"""When a host is asked for a job's record files, and what is kept of them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import UnreachableError
from gpuconsole.session.logs.records import ASK_EVERY_S, TrainingRecords

WRITTEN = (
    Path(__file__).parents[2] / "core" / "training" / "visualdl-2.5.3.vdlrecords"
).read_bytes()
RUNNING = Job("j1", Task("train"), "ann", JobState.RUNNING, 0.0)


class Host:
    """A host with a job that has written so many bytes."""

    def __init__(self) -> None:
        self.size = 500
        self.asked = 0
        self.away = False

    async def records(self, job_id: str) -> AsyncIterator[bytes]:
        assert job_id == "j1"
        self.asked += 1
        if self.away:
            raise UnreachableError("Host away", "It is away.")
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as tar:
            entry = tarfile.TarInfo("./vdl/vdlrecords.1.log")
            entry.size = self.size
            tar.addfile(entry, io.BytesIO(WRITTEN[: self.size]))
        yield made.getvalue()


async def test_a_running_job_is_asked_now_and_then_and_once_more_after_its_end(
    tmp_path: Path,
) -> None:
    now, host, log = 100.0, Host(), tmp_path / "1.log"
    known = TrainingRecords(lambda: now, writable=True)

    async def count(job: Job, *, seen: bool = True) -> int:
        found = await known.curves(job, log, host.records if seen else None)
        return found.curves["loss"].count if found else 0

    assert await count(RUNNING, seen=False) == 0
    first = await count(RUNNING)
    assert 0 < first < 41
    host.size = len(WRITTEN)
    assert (await count(RUNNING), host.asked) == (first, 1)
    now += ASK_EVERY_S
    host.away = True
    assert (await count(RUNNING), host.asked) == (first, 2)
    host.away = False
    ended = replace(RUNNING, state=JobState.SUCCEEDED)
    # It has just ended: what it wrote last is wanted at once, and then never again.
    assert (await count(ended), host.asked) == (41, 3)
    now += 10 * ASK_EVERY_S
    assert (await count(ended), host.asked) == (41, 3)
    again = TrainingRecords(lambda: now, writable=False)
    assert (await again.curves(ended, log, None)).curves["loss"].count == 41

"""A lab that was recorded earlier, written as a session would have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuconsole.core.events import Event
from gpuconsole.core.fleet import Host, HostState
from gpuconsole.core.jobs import JobState
from gpuconsole.state.recording.file_format import Header
from gpuconsole.state.recording.writer import Batch, RingWriter
from tests.tui.fake import NOW, incident, job, lab

START = NOW - 1200.0
"""Twenty minutes before the fake session's now; nothing is recorded of the last minute."""
BLOCKS = 19
LOST = 600.0
"""So long after the start host rtx-01 was lost, and a job failed."""


def hosts_at(after: float) -> tuple[Host, ...]:
    """The fake lab; the first device's utilisation is the minute."""
    first, second, *rest = lab()
    card = replace(first.devices[0], utilization=float(int(after // 60)))
    first = replace(first, devices=(card, *first.devices[1:]), sampled_at=START + after)
    second = replace(second, sampled_at=START + after)
    if after >= LOST:
        second = replace(second, state=HostState.DOWN, error="The link broke.")
    return (first, second, *(replace(host, sampled_at=START + after) for host in rest))


def write_recording(folder: Path, session: str = "earlier") -> None:
    """Write the files of nineteen minutes."""
    header = Header(START, session, "ana", True, tuple(host.name for host in lab()), "1")
    ring = RingWriter(folder, lambda batch: header, keep_hours=1e4, max_mib=100)
    running, waiting = job("early-bird", JobState.RUNNING, 7), job("bert", JobState.QUEUED, 8)
    failed = replace(running, state=JobState.FAILED, cause="The script raised ValueError.")
    for number in range(BLOCKS):
        after = number * 60.0
        batch = Batch(START + after, START + after + 60, standing=(running, waiting))
        batch.seen = [
            (START + after + second, host)
            for second in range(0, 60, 2)
            for host in hosts_at(after + second)
        ]
        if after == LOST:
            batch.jobs.append((START + after, failed))
            batch.incidents.append((START + after, incident()))
            reported = Event("host", "rtx-01", "rtx-01 is down.", START + after, "error")
            batch.events.append(reported)
        ring.write(batch)
    ring.close()

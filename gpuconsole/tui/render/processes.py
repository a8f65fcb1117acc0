"""What runs on devices: a line a process, with its user, its container and its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from gpuconsole.core.fleet import DeviceProcess, Host
from gpuconsole.core.jobs import Job
from gpuconsole.core.units import format_mib
from gpuconsole.tui.render.text_cells import Piece, fit
from gpuconsole.tui.style.styles import Ink

Lines = list[list[Piece]]
_WIDE = 100
"""From so many cells on a container has a column of its own; else it is shown in place of a missing
job, so that some of the command is seen."""


def jobs_by_container(jobs: Sequence[Job]) -> Mapping[str, Job]:
    """Return the active jobs by the ids of their containers."""
    return {
        part.container_id: job
        for job in jobs
        if job.state.active and job.attempt is not None
        for part in job.attempt.parts
        if part.container_id
    }


def process_heading(ink: Ink, width: int, *, with_gpu: bool = False) -> list[Piece]:
    """Return the line above the processes."""
    say = ink.say
    words = f"{'gpu':>3} " if with_gpu else ""
    words += f"{'pid':>8}  {fit(say('user'), 10)} {fit(say('memory'), 9, 'right')}  "
    if width >= _WIDE:
        words += fit(say("container"), 13) + fit(say("job"), 16)
    else:
        words += fit(say("job, container"), 16)
    return [(fit(words + say("command"), width), ink.muted)]


def process_line(
    ink: Ink, process: DeviceProcess, job: Job | None, width: int, *, gpu: int | None = None
) -> list[Piece]:
    """Return one process. Those that do not belong to this queue are drawn the same."""
    number = "" if gpu is None else fit(str(gpu), 3, "right") + " "
    head: list[Piece] = [
        (number, ink.strong),
        (fit(str(process.pid), 8, "right") + "  ", ink.text),
        (fit(process.user or "?", 10) + " ", ink.text),
        (fit(format_mib(process.memory_mib), 9, "right") + "  ", ink.text),
    ]
    container = process.container_id[:12]
    if width >= _WIDE:
        head.append((fit(container or "-", 13), ink.muted))
        container = ""
    name = job.task.name if job is not None else container or "-"
    head.append((fit(name, 15) + " ", ink.accent if job is not None else ink.muted))
    room = width - sum(cell_len(words) for words, _ in head)
    return [*head, (fit(process.command or "n/a", max(4, room)), ink.text)]


def host_process_lines(ink: Ink, host: Host, jobs: Sequence[Job], width: int) -> Lines:
    """Return the processes of all devices of a host, or a sentence."""
    by_container = jobs_by_container(jobs)
    lines = [
        process_line(ink, process, by_container.get(process.container_id), width, gpu=device.index)
        for device in host.devices
        for process in device.processes
    ]
    if not lines:
        return [[(ink.say("No process holds memory on a device here."), ink.muted)]]
    return [process_heading(ink, width, with_gpu=True), *lines]

"""A job as facts: state, place, progress, memory, causes, attempts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.tui.ink import Ink
from gpuconsole.tui.presentation.cells import Piece, bar, bullets, fit, labelled, wrapped

Lines = list[list[Piece]]


_PROGRESS = re.compile(
    r"\b(step|iter|iteration|batch|epoch)\b\s*[=:\[ ]\s*(\d{1,9})\s*/\s*(\d{1,9})", re.IGNORECASE
)


def state_words(ink: Ink, job: Job) -> str:
    """Return the state with its glyph: colour is never the only sign."""
    return f"{ink.glyphs.jobs[job.state]} {job.state.value}"


def elapsed(job: Job, now: float) -> str:
    """Return how long it ran, runs, or waits."""
    if job.started_at is not None and (job.state.active or job.ended_at is not None):
        return format_duration((job.ended_at or now) - job.started_at)
    if job.state.ended:
        return "-"
    return format_duration(now - job.submitted_at)


def indexes(attempt: Attempt) -> str:
    """Return the devices of an attempt in words."""
    return "gpu " + ",".join(map(str, attempt.device_indexes)) if attempt.device_indexes else ""


def progress(lines: Sequence[str]) -> tuple[str, int, int] | None:
    """Find the newest `step=3/500` (or epoch, iter, batch) among log lines; steps before epochs."""
    epoch: tuple[str, int, int] | None = None
    for line in reversed(lines):
        for match in reversed(list(_PROGRESS.finditer(line[:500]))):
            found = (match.group(1).lower(), int(match.group(2)), int(match.group(3)))
            if found[2] <= 0 or found[1] > found[2]:
                continue
            if found[0] != "epoch":
                return found
            epoch = epoch or found
    return epoch


def places(attempt: Attempt) -> str:
    """Return the hosts and devices of an attempt in words."""
    return "  ".join(f"{clean(part.host)} {indexes(part)}".rstrip() for part in attempt.parts)


def head_lines(
    ink: Ink, job: Job, done: tuple[str, int, int] | None, snapshot: FleetSnapshot, now: float,
    width: int,
) -> Lines:  # fmt: skip
    """Return the head of a job's screen: state, place, progress, memory, cause."""
    attempt = job.attempt
    first: list[Piece] = [
        (fit("state", 10), ink.muted),
        (state_words(ink, job), ink.jobs[job.state]),
    ]
    if attempt:
        first.append((f"   {places(attempt)}", ink.text))
    first.append((f"   {'ran' if job.state.ended else 'for'} {elapsed(job, now)}", ink.muted))
    if attempt and len(job.attempts) > 1:
        first.append((f"   attempt {attempt.number}", ink.muted))
    if attempt and attempt.exit_code is not None:
        first.append((f"   exit {attempt.exit_code}", ink.muted))
    lines: Lines = [first]
    if job.detail and not job.state.ended:
        lines += labelled(ink, "doing", job.detail, width)
    if done is not None:
        lines.append(_progress_line(ink, job, done, now, width))
    lines.append(_memory_line(ink, job, snapshot, width))
    if job.cause:
        style = ink.muted if job.state is JobState.SUCCEEDED else ink.bad
        parts = wrapped(job.cause, width - 10)
        lines += [
            [(fit("cause" if at == 0 else "", 10), ink.muted), (part, style)]
            for at, part in enumerate(parts[:3])
        ]
    return lines


def _progress_line(
    ink: Ink, job: Job, done: tuple[str, int, int], now: float, width: int
) -> list[Piece]:
    word, at, end = done
    percent = 100.0 * at / end
    left = ""
    if at and at < end and job.state is JobState.RUNNING and job.started_at is not None:
        remaining = (now - job.started_at) * (end - at) / at
        left = f"   about {format_duration(remaining)} left"
    words = f" {percent:.0f}%  {word} {at:,} of {end:,}"
    if 10 + 8 + len(words) + len(left) <= width:
        words += left
    room = max(8, min(30, width - 10 - len(words)))
    return [
        (fit("progress", 10), ink.muted),
        *bar(ink, percent, room, ink.jobs[JobState.RUNNING]),
        (words, ink.text),
    ]


def _memory_line(ink: Ink, job: Job, snapshot: FleetSnapshot, width: int) -> list[Piece]:
    attempt = job.attempt
    peak = attempt.peak_mib if attempt else None
    held, shared = _held_now(job, snapshot)
    words = f"predicted up to {format_mib(job.estimate_mib)}   peak {format_mib(peak)}"
    if held is not None:
        words += f"   now {format_mib(held)}"
    elif shared is not None:
        words += f"   device holds {format_mib(shared)}"
    share = None
    if job.estimate_mib and (peak or held):
        share = 100.0 * (peak or held or 0.0) / job.estimate_mib
        words += f"   {share:.0f}%"
    over = share is not None and share > 100.0
    room = width - 11 - len(words)
    drawn = bar(ink, share, min(30, room), ink.bad if over else ink.heat[7]) if room >= 8 else []
    gap = " " if drawn else ""
    return [(fit("memory", 10), ink.muted), *drawn, (gap + words, ink.bad if over else ink.text)]


def _held_now(job: Job, snapshot: FleetSnapshot) -> tuple[float | None, float | None]:
    """Return what the job holds on its fullest device, if its processes are seen, and what all
    together hold there."""
    attempt = job.attempt
    if attempt is None or not job.state.active:
        return None, None
    held: list[float] = []
    used: list[float] = []
    for part in attempt.parts:
        host = snapshot.host(part.host)
        mine = [d for d in host.devices if d.uuid in part.device_uuids] if host else []
        used += [device.memory_used_mib for device in mine if device.memory_used_mib is not None]
        held += [
            sum(sizes)
            for device in mine
            if part.container_id
            and (
                sizes := [
                    process.memory_mib
                    for process in device.processes
                    if process.container_id == part.container_id and process.memory_mib is not None
                ]
            )
        ]
    return max(held, default=None), max(used, default=None)


def fact_lines(ink: Ink, job: Job, docker: str, now: float, width: int) -> Lines:
    """Return the facts beside the log: task, placement, attempts, the docker line."""
    task = job.task
    lines: Lines = []
    for label, value in (
        ("id", job.id),
        ("user", job.user),
        ("script", " ".join((PurePath(task.script).name, *task.args))),
        ("folder", _folder(task.script)),
        ("image", task.image),
        ("batch", "" if task.batch_size is None else str(task.batch_size)),
        ("priority", str(task.priority)),
    ):
        if value:
            lines += labelled(ink, label, value, width)
    attempt = job.attempt
    if attempt is not None and attempt.placement_reasons:
        lines += [[], [("why there", ink.title)]]
        lines += bullets(ink, attempt.placement_reasons, width)
    if job.attempts:
        lines += [[], [("attempts", ink.title)]]
        for each in reversed(job.attempts[-5:]):
            lines += [[(part, ink.text)] for part in wrapped(_attempt_words(each, now), width)]
    if docker:
        lines += [[], [("docker (y copies)", ink.title)]]
        lines += [[(part, ink.muted)] for part in wrapped(docker, width)]
    return lines


def _folder(script: str) -> str:
    folder = str(PurePath(script).parent)
    return "" if folder == "." else folder


def _attempt_words(attempt: Attempt, now: float) -> str:
    words = f"{attempt.number}. {places(attempt)}"
    if attempt.started_at is not None:
        words += f"  {format_duration((attempt.ended_at or now) - attempt.started_at)}"
    if attempt.exit_code is not None:
        words += f"  exit {attempt.exit_code}"
    if attempt.peak_mib is not None:
        words += f"  peak {format_mib(attempt.peak_mib)}"
    return f"{words}  {attempt.cause}".rstrip()

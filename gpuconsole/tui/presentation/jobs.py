"""Jobs as table rows and as facts: state, wait, progress, memory, causes, why."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Protocol

from rich.style import Style
from rich.text import Text

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.tui.ink import Ink
from gpuconsole.tui.presentation.cells import Piece, bar, bullets, fit, labelled, wrapped

Lines = list[list[Piece]]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the queue; `width` 0 takes what is left, `spare` leaves on a narrow terminal."""

    title: str
    key: str
    width: int
    right: bool = False
    spare: bool = False


COLUMNS: tuple[Column, ...] = (
    Column("#", "number", 3, right=True),
    Column("job", "name", 18),
    Column("user", "user", 8),
    Column("gpus", "gpus", 4, right=True),
    Column("state", "state", 11),
    Column("time", "time", 6, right=True),
    Column("mem/gpu", "memory", 8, right=True, spare=True),
    Column("prio", "priority", 4, right=True, spare=True),
    Column("where", "where", 14, spare=True),
    Column("why", "why", 0, spare=True),
)

_PROGRESS = re.compile(
    r"\b(step|iter|iteration|batch|epoch)\b\s*[=:\[ ]\s*(\d{1,9})\s*/\s*(\d{1,9})", re.IGNORECASE
)


class Why(Protocol):
    """Why a job stands where it does, as the session answers."""

    @property
    def reason(self) -> str: ...
    @property
    def blockers(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def estimated_start(self) -> float | None: ...
    @property
    def options(self) -> Sequence[str]: ...


class Start(Protocol):
    """When a waiting job should start, as the session foresees it."""

    @property
    def starts_at(self) -> float: ...
    @property
    def guess(self) -> bool: ...


ORDER = {
    JobState.RUNNING: 0,
    JobState.LAUNCHING: 0,
    JobState.UNKNOWN: 0,
    JobState.QUEUED: 1,
    JobState.HELD: 2,
}


def in_order(jobs: Sequence[Job], expected: Mapping[str, Start] | None = None) -> list[Job]:
    """Return jobs as the queue shows them: active, waiting by when they should start, then the
    newest ended. What has no expected start goes by priority, after the others."""
    starts = {} if expected is None else expected

    def place(job: Job) -> tuple[float, float, float, float]:
        rank = ORDER.get(job.state, 3)
        if rank == 3:
            return rank, 0, 0, -(job.ended_at or job.submitted_at)
        start = starts[job.id].starts_at if rank == 1 and job.id in starts else math.inf
        return rank, start, -job.task.priority, job.submitted_at

    return sorted(jobs, key=place)


def row(
    ink: Ink, job: Job, number: int, now: float, why: str, start: Start | None = None
) -> list[Text]:
    """Return the cells of a job's row; `start` is when a waiting job should."""
    attempt = job.attempt
    parts = attempt.parts if attempt else ()
    places = [f"{part.host}:{','.join(map(str, part.device_indexes))}" for part in parts]
    where = " ".join(places) or "-"
    if job.state is JobState.QUEUED:
        where = start_words(start, now)
    cells: list[tuple[str, Style]] = [
        (str(number), ink.muted),
        (job.task.name, ink.strong),
        (job.user, ink.text),
        (str(job.task.devices or "auto"), ink.text),
        (state_words(ink, job), ink.jobs[job.state]),
        (elapsed(job, now), ink.text),
        (format_mib(job.estimate_mib), ink.text),
        (str(job.task.priority), ink.text),
        (where, ink.text),
        (why, ink.muted),
    ]
    return [
        Text(
            clean(words, 200),
            style=style.without_color + Style(color=style.color),
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
        for column, (words, style) in zip(COLUMNS, cells, strict=True)
    ]


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


def start_words(start: Start | None, now: float) -> str:
    """Return in what time a waiting job should start; `?` marks a guess, for the length of a job
    before it is not known."""
    if start is None:
        return "-"
    left = start.starts_at - now
    words = "now" if left < 1 else f"in ~{format_duration(left)}"
    return f"{words}?" if start.guess else words


def indexes(attempt: Attempt) -> str:
    """Return the devices of an attempt in words."""
    return "gpu " + ",".join(map(str, attempt.device_indexes)) if attempt.device_indexes else ""


def short_why(job: Job, why: Why | None) -> str:
    """Say in one line what happened or what it waits for."""
    if job.cancel_requested and not job.state.ended:
        return "being cancelled"
    if job.detail and job.state.active:
        return job.detail
    if job.cause:
        return job.cause
    if job.state is JobState.HELD:
        return "held: H lets it go"
    if job.state is JobState.QUEUED and why is not None:
        return why.reason
    return ""


def why_lines(ink: Ink, job: Job, why: Why, now: float, width: int) -> Lines:
    """Return the panel below the queue: reason, who holds what it needs, start, options."""
    attempt = job.attempt
    if job.state is JobState.RUNNING and attempt is not None and attempt.placement_reasons:
        head: Lines = [[(f"It runs on {clean(attempt.host)} {indexes(attempt)}.", ink.strong)]]
        return head + bullets(ink, attempt.placement_reasons, width)
    lines: Lines = [[(part, ink.strong)] for part in wrapped(why.reason or job.cause, width)]
    for blocker in list(why.blockers)[:4]:
        words = (
            f"{blocker.get('name', '?')} ({blocker.get('user', '?')}) on {blocker.get('host', '?')}"
        )
        lines += labelled(ink, "held by", words, width)
    if len(why.blockers) > 4:
        lines += labelled(ink, "", f"and {len(why.blockers) - 4} more", width)
    if why.estimated_start is not None:
        words = f"in about {format_duration(why.estimated_start - now)}"
        lines += labelled(ink, "start", words, width)
    for letter, option in zip("abcdefgh", why.options, strict=False):
        lines += labelled(ink, f"option {letter}", option, width)
    return lines


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
        first.append((f"   {clean(attempt.host)} {indexes(attempt)}", ink.text))
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
    host = snapshot.host(attempt.host) if attempt is not None else None
    if attempt is None or host is None or not job.state.active:
        return None, None
    mine = [device for device in host.devices if device.uuid in attempt.device_uuids]
    held = [
        sum(sizes)
        for device in mine
        if attempt.container_id
        and (
            sizes := [
                process.memory_mib
                for process in device.processes
                if process.container_id == attempt.container_id and process.memory_mib is not None
            ]
        )
    ]
    used = (device.memory_used_mib for device in mine)
    return max(held, default=None), max((mib for mib in used if mib is not None), default=None)


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
    words = f"{attempt.number}. {attempt.host} {indexes(attempt)}"
    if attempt.started_at is not None:
        words += f"  {format_duration((attempt.ended_at or now) - attempt.started_at)}"
    if attempt.exit_code is not None:
        words += f"  exit {attempt.exit_code}"
    if attempt.peak_mib is not None:
        words += f"  peak {format_mib(attempt.peak_mib)}"
    return f"{words}  {attempt.cause}".rstrip()

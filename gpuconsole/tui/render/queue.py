"""The queue as rows: order, place, wait, start, and why a job is where it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.tui.render.job import Lines, elapsed, places, state_words
from gpuconsole.tui.render.text_cells import (
    Align,
    Piece,
    bullets,
    fit,
    fitting_columns,
    labelled,
    wrapped,
)
from gpuconsole.tui.style.styles import Ink

if TYPE_CHECKING:
    from gpuconsole.placement.forecast.start_times import Expected
    from gpuconsole.session.queue.planner import Why


ORDER = {
    JobState.RUNNING: 0,
    JobState.LAUNCHING: 0,
    JobState.UNKNOWN: 0,
    JobState.QUEUED: 1,
    JobState.HELD: 2,
}


def in_order(jobs: Sequence[Job], expected: Mapping[str, Expected] | None = None) -> list[Job]:
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


SORTS: Mapping[str, Callable[[Job], Any] | None] = {
    "queue": None,
    "newest": lambda job: -job.submitted_at,
    "user": lambda job: (job.user, -job.submitted_at),
    "memory": lambda job: -(job.estimate_mib or 0.0),
}
"""Orders that a person may choose; None is the queue's own."""


def sorted_by(
    name: str, jobs: Sequence[Job], expected: Mapping[str, Expected] | None = None
) -> list[Job]:
    """Return jobs in one of the orders of `SORTS`."""
    key = SORTS[name]
    return in_order(jobs, expected) if key is None else sorted(jobs, key=key)


class Entry(NamedTuple):
    """A job as the queue's row shows it."""

    job: Job
    number: int
    now: float
    why: str
    start: Expected | None
    """When a waiting job should start."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: dropped when room is short, the highest `rank` first; `grow` takes the rest."""

    title: str
    width: int
    rank: int
    draw: Callable[[Ink, Entry, int], Piece]
    right: bool = False
    grow: int = 0
    """How many cells more it may have; the last column takes all that is left."""


def _state(ink: Ink, entry: Entry, width: int) -> Piece:
    return fit(state_words(ink, entry.job), width), ink.jobs[entry.job.state]


def _plain(words: Callable[[Entry], str], *, right: bool = False) -> Callable[..., Piece]:
    def draw(ink: Ink, entry: Entry, width: int) -> Piece:
        return fit(words(entry), width, "right" if right else "left"), ink.text

    return draw


def _name(ink: Ink, entry: Entry, width: int) -> Piece:
    return fit(entry.job.task.name, width), ink.strong


def _number(ink: Ink, entry: Entry, width: int) -> Piece:
    return fit(f"{entry.number}", width, "right"), ink.muted


def _why(ink: Ink, entry: Entry, width: int) -> Piece:
    return fit(ink.say(entry.why), width), ink.muted


def _where(ink: Ink, entry: Entry, width: int) -> Piece:
    waits = entry.job.state is JobState.QUEUED
    words = where(entry)
    return fit(ink.say(words) if waits else words, width), ink.text


def shape(job: Job) -> str:
    """Return how many devices a job takes: `4`, `2x4` on two hosts, `auto`."""
    task, attempt = job.task, job.attempt
    if attempt is not None and len(attempt.parts) > 1:
        sizes = {len(part.device_uuids) for part in attempt.parts}
        if len(sizes) == 1:
            return f"{len(attempt.parts)}x{sizes.pop()}"
    return "auto" if task.devices is None else str(task.devices)


def where(entry: Entry) -> str:
    """Return where a job runs or ran, and of one that waits when it should start."""
    job = entry.job
    if job.state is JobState.QUEUED:
        return start_words(entry.start, entry.now)
    parts = job.attempt.parts if job.attempt else ()
    # Of a cluster's job Slurm alone knows the devices.
    numbers = [",".join(map(str, part.device_indexes)) for part in parts]
    places = [
        f"{part.host}:{listed}" if listed else part.host
        for part, listed in zip(parts, numbers, strict=True)
    ]
    return " ".join(places) or "-"


COLUMNS: tuple[Column, ...] = (
    Column("#", 4, 1, _number, right=True),
    Column("job", 17, 0, _name, grow=7),
    Column("user", 7, 0, _plain(lambda entry: entry.job.user), grow=3),
    Column("gpus", 4, 0, _plain(lambda entry: shape(entry.job), right=True), right=True),
    Column("state", 13, 0, _state),
    Column("time", 6, 0, _plain(lambda entry: elapsed(entry.job, entry.now), right=True),
           right=True),
    Column("mem/gpu", 8, 3, _plain(lambda entry: format_mib(entry.job.estimate_mib), right=True),
           right=True),
    Column("prio", 4, 4, _plain(lambda entry: str(entry.job.task.priority), right=True),
           right=True),
    Column("where/start", 14, 0, _where, grow=4),
    Column("why", 16, 5, _why),
)  # fmt: skip
GAP = 1
Sized = Sequence[tuple[Column, int]]


def columns_for(width: int) -> tuple[tuple[Column, int], ...]:
    """Return the columns that fit in `width` cells, with their widths."""
    chosen = fitting_columns(COLUMNS, _needed, width)
    spare = max(0, width - _needed(chosen))
    sizes = []
    for column in chosen:
        more = min(column.grow, spare // 3)
        spare -= more
        sizes.append(column.width + more)
    sizes[-1] += spare
    return tuple(zip(chosen, sizes, strict=True))


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width + GAP for column in columns) - GAP


def heading(ink: Ink, columns: Sized) -> list[Piece]:
    """Return the line above the rows."""
    pieces: list[Piece] = []
    for column, width in columns:
        align: Align = "right" if column.right else "left"
        pieces.append((fit(ink.say(column.title), width, align), ink.muted))
        pieces.append((" " * GAP, ink.text))
    return pieces[:-1]


def row(ink: Ink, entry: Entry, columns: Sized) -> list[Piece]:
    """Return a job as a line of the queue."""
    pieces: list[Piece] = []
    for column, width in columns:
        pieces += [column.draw(ink, entry, width), (" " * GAP, ink.text)]
    return pieces[:-1]


def start_words(start: Expected | None, now: float) -> str:
    """Return in what time a waiting job should start; `?` marks a guess, for the length of a job
    before it is not known."""
    if start is None:
        return "-"
    left = start.starts_at - now
    words = "now" if left < 1 else f"in ~{format_duration(left)}"
    return f"{words}?" if start.guess else words


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
        head: Lines = [[(ink.say(msg("It runs on {place}.", place=places(attempt))), ink.strong)]]
        return head + bullets(ink, attempt.placement_reasons, width)
    reason = ink.say(why.reason or job.cause)
    lines: Lines = [[(part, ink.strong)] for part in wrapped(reason, width)]
    for blocker in list(why.blockers)[:4]:
        words = msg(
            "{name} ({user}) on {host}",
            name=blocker.get("name", "?"),
            user=blocker.get("user", "?"),
            host=blocker.get("host", "?"),
        )
        lines += labelled(ink, "held by", words, width)
    if len(why.blockers) > 4:
        lines += labelled(ink, "", f"and {len(why.blockers) - 4} more", width)
    if why.estimated_start is not None:
        words = f"in about {format_duration(why.estimated_start - now)}"
        lines += labelled(ink, "start", words, width)
    for letter, option in zip("abcdefgh", why.options, strict=False):
        lines += labelled(ink, msg("option {letter}", letter=letter), option, width)
    return lines

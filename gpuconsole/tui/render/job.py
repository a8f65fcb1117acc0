"""A job as facts: state, place, progress, memory, causes, attempts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from rich.cells import cell_len

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.submission.script_edits import CHANGES, kinds_of
from gpuconsole.core.text import clean
from gpuconsole.core.training.first_steps import first_steps, whole_peak_mib
from gpuconsole.core.training.log import Progress
from gpuconsole.core.units import format_duration, format_mib, format_step
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import joined, msg
from gpuconsole.tui.render.device_rows import short_model
from gpuconsole.tui.render.text_cells import Piece, bar, bullets, fit, labelled, wrapped
from gpuconsole.tui.render.training_progress import foreseen_step_s, left_s
from gpuconsole.tui.style.styles import Ink

Lines = list[list[Piece]]


@dataclass(frozen=True, slots=True)
class Going:
    """A job as it goes: how far, how fast, on what."""

    job: Job
    snapshot: FleetSnapshot
    now: float
    done: Progress | None = None
    step_s: float | None = None
    """How long a step takes, as seen."""
    why: str = ""
    """Why it waits."""


def state_words(ink: Ink, job: Job) -> str:
    """Return the state with its glyph: colour is never the only sign."""
    return f"{ink.glyphs.jobs[job.state]} {ink.say(job.state_word)}"


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


def places(attempt: Attempt) -> str:
    """Return the hosts and devices of an attempt in words."""
    return "  ".join(f"{clean(part.host)} {indexes(part)}".rstrip() for part in attempt.parts)


def head_lines(ink: Ink, going: Going, width: int) -> Lines:
    """Return the head of a job's screen: state, place, progress, memory, cause."""
    job, attempt, say = going.job, going.job.attempt, ink.say
    time = elapsed(job, going.now)
    first: list[Piece] = [
        (fit(say("state"), 10), ink.muted),
        (state_words(ink, job), ink.jobs[job.state]),
        (say(f"   ran {time}" if job.state.ended else f"   for {time}"), ink.text),
    ]
    if attempt and len(job.attempts) > 1:
        first.append((say(f"   attempt {attempt.number}"), ink.muted))
    if attempt and attempt.exit_code is not None:
        first.append((say(f"   exit {attempt.exit_code}"), ink.muted))
    lines: Lines = [first]
    if attempt:
        room = width - sum(cell_len(words) for words, _ in first) - 3
        first.append(("   " + fit(_place_words(ink, attempt, room), room).rstrip(), ink.text))
    if job.detail and not job.state.ended:
        lines += labelled(ink, "doing", job.detail, width)
    if going.why:
        lines += labelled(ink, "waits", going.why, width)[:3]
    lines += _progress_lines(ink, going, width)
    lines.append(_memory_line(ink, job, going.snapshot, width))
    if taken := first_steps(job, going.snapshot):
        lines += labelled(ink, "steps", taken, width)
    if job.cause:
        style = ink.muted if job.state is JobState.SUCCEEDED else ink.bad
        parts = wrapped(say(job.cause), width - 10)
        lines += [
            [(fit(say("cause") if at == 0 else "", 10), ink.muted), (part, style)]
            for at, part in enumerate(parts[:3])
        ]
    return lines


def short_head(ink: Ink, going: Going, width: int) -> Lines:
    """Return the head in a line, for a low terminal, and what went wrong or is done in another."""
    job, attempt, say = going.job, going.job.attempt, ink.say
    words = elapsed(job, going.now)
    if attempt:
        words += f"  {_place_words(ink, attempt, 24)}"
    done = going.done
    if done is not None:
        words += f"  {done.done:.0%}  {done.word} {done.at:,}/{done.end:,}"
        left = left_s(job, done, going.step_s)
        words += say(f"  ~{format_duration(left)} left") if left is not None else ""
    peak = whole_peak_mib(job)
    if peak and job.estimate_mib:
        words += say(f"  mem {peak / job.estimate_mib:.0%}")
    elif job.estimate_mib:
        words += say(f"  mem {format_mib(job.estimate_mib)}")
    state = state_words(ink, job)
    room = max(0, width - cell_len(state) - 2)
    lines: Lines = [[(state, ink.jobs[job.state]), ("  " + fit(words, room), ink.text)]]
    said = job.cause or (job.detail if not job.state.ended else "") or going.why
    if said:
        style = ink.bad if job.cause and job.state is not JobState.SUCCEEDED else ink.muted
        lines.append([(fit(say(said), width), style)])
    return lines


def _place_words(ink: Ink, attempt: Attempt, room: int) -> str:
    """Return where it runs, or of a gang too long for the room on how much."""
    words = places(attempt)
    if len(words) <= room or len(attempt.parts) < 2:
        return words
    devices = sum(len(part.device_uuids) for part in attempt.parts)
    return ink.say(msg("{n} gpu on {hosts} hosts", n=devices, hosts=len(attempt.parts)))


def _progress_lines(ink: Ink, going: Going, width: int) -> Lines:
    job, done, say = going.job, going.done, ink.say
    if done is None:
        span = _foreseen(going)
        if span is None or not job.state.active:
            return []
        words = say(f"{format_step(span[0])} to {format_step(span[1])} a step, says preflight")
        return [[(fit(say("progress"), 10), ink.muted), (words, ink.muted)]]
    percent = 100.0 * done.done
    words = f" {percent:.0f}%  " + say(f"{done.word} {done.at:,} of {done.end:,}")
    words += say(f", epoch {done.epoch} of {done.epochs}") if done.epoch else ""
    left = left_s(job, done, going.step_s)
    more = [say(f"about {format_duration(left)} left")] if left is not None else []
    if going.step_s is not None and done.word != "epoch":
        more.append(say(f"{format_step(going.step_s)} a step"))
    for words_more in more:
        if 10 + 8 + cell_len(words) + 3 + cell_len(words_more) <= width:
            words += "   " + words_more
    room = max(8, min(30, width - 10 - cell_len(words)))
    return [
        [(fit(say("progress"), 10), ink.muted),
         *bar(ink, percent, room, ink.jobs[JobState.RUNNING]),
         (words, ink.text)]
    ]  # fmt: skip


def _foreseen(going: Going) -> tuple[float, float] | None:
    """Return how long preflight said that a step takes where the job runs."""
    attempt = going.job.attempt
    host = going.snapshot.host(attempt.host) if attempt else None
    mine = [each for each in (host.devices if host else ()) if attempt
            and each.uuid in attempt.device_uuids]  # fmt: skip
    return foreseen_step_s(going.job, short_model(mine[0].model)) if mine else None


def _memory_line(ink: Ink, job: Job, snapshot: FleetSnapshot, width: int) -> list[Piece]:
    peak = whole_peak_mib(job)
    held, shared = _held_now(job, snapshot)
    say = ink.say
    predicted = f"predicted up to {format_mib(job.estimate_mib)}"
    words = say("not predicted" if job.estimate_mib is None else predicted)
    words += say(f"   job peak {format_mib(peak)}")
    if held is not None:
        words += say(f"   now {format_mib(held)}")
    elif shared is not None:
        words += say(f"   device holds {format_mib(shared)}")
    share = None
    if job.estimate_mib and (peak or held):
        share = 100.0 * (peak or held or 0.0) / job.estimate_mib
        words += f"   {share:.0f}%"
    over = share is not None and share > 100.0
    room = width - 11 - cell_len(words)
    drawn = bar(ink, share, min(30, room), ink.bad if over else ink.heat[7]) if room >= 8 else []
    gap = " " if drawn else ""
    return [
        (fit(say("memory"), 10), ink.muted),
        *drawn,
        (gap + words, ink.bad if over else ink.text),
    ]


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


@dataclass(frozen=True, slots=True)
class Beside:
    """What is shown beside the log, apart from the job itself."""

    docker: str = ""
    shown: int = 0
    """The number of the attempt with the log that is shown."""
    results: Sequence[str] = ()
    """What it left, or what was copied here."""
    named: bool = False
    """Whether name, user and id stand elsewhere on the screen."""
    ports: Sequence[str] = ()
    """Ports of its container that are open on this machine."""


def fact_lines(ink: Ink, going: Going, beside: Beside, width: int) -> Lines:
    """Return the facts beside the log: task, devices, attempts, results, the docker line."""
    job, task, say = going.job, going.job.task, ink.say
    lines: Lines = []
    for label, value in (
        ("id", "" if beside.named else job.id),
        ("user", "" if beside.named else job.user),
        ("script", " ".join((PurePath(task.script).name, *task.args))),
        ("changed", say(joined(", ", (CHANGES[kind] for kind in kinds_of(task.edits))))),
        ("folder", _folder(task.script)),
        ("image", task.image),
        ("batch", "" if task.batch_size is None else str(task.batch_size)),
        ("priority", "" if beside.named else str(task.priority)),
    ):
        if value:
            lines += labelled(ink, label, value, width)
    attempt = job.attempt
    if attempt is not None and job.state.active:
        lines += [[], [(say("devices"), ink.title)], *_device_lines(ink, attempt, going, width)]
    if beside.ports:
        lines += [[], [(say("ports (O closes)"), ink.title)]]
        lines += [
            [(part, ink.text)]
            for port_text in beside.ports
            for part in wrapped(say(port_text), width)
        ]
    if job.attempts:
        several = len(job.attempts) > 1
        title = say("attempts (T shows another log)" if several else "attempts")
        lines += [[], [(title, ink.title)]]
        for each in reversed(job.attempts[-5:]):
            style = ink.strong if several and each.number == beside.shown else ink.text
            words = _attempt_words(ink, each, going.now)
            lines += [[(part, style)] for part in wrapped(words, width)]
    if attempt is not None and attempt.placement_reasons:
        lines += [[], [(say("why there"), ink.title)]]
        lines += bullets(ink, attempt.placement_reasons, width)
    if beside.results or (job.state.ended and attempt is not None):
        lines += [[], [(say("results"), ink.title)]]
        results = beside.results or (
            say(msg("F copies them into {folder}/{id}", folder=FETCHED, id=job.id)),
        )
        lines += [[(part, ink.text)] for result in results for part in wrapped(say(result), width)]
    if beside.docker:
        lines += [[], [(say("docker (Y copies)"), ink.title)]]
        lines += [[(part, ink.muted)] for part in wrapped(beside.docker, width)]
    return lines


MOST_DEVICES = 16
FETCHED = "results"
"""The folder, in the working folder, into which results are copied: each job has one in it."""


def _device_lines(ink: Ink, attempt: Attempt, going: Going, width: int) -> Lines:
    """Return a line a device: where it is, how busy, how full."""
    lines: Lines = []
    for part in attempt.parts:
        host = going.snapshot.host(part.host)
        devices = {device.uuid: device for device in host.devices} if host else {}
        for uuid, index in zip(part.device_uuids, part.device_indexes, strict=False):
            device = devices.get(uuid)
            busy = device.utilization if device else None
            load = "n/a" if busy is None else f"{busy:.0f}%"
            held = format_mib(device.memory_used_mib if device else None)
            place = fit(part.host, max(8, width - 24)) + fit(f" gpu {index}", 8)
            lines.append([(place + fit(load, 5, "right") + fit(held, 11, "right"), ink.text)])
    if len(lines) > MOST_DEVICES:
        more = len(lines) - MOST_DEVICES
        lines = [*lines[:MOST_DEVICES], [(ink.say(f"and {more} more"), ink.muted)]]
    return lines


def _folder(script: str) -> str:
    folder = str(PurePath(script).parent)
    return "" if folder == "." else folder


def _attempt_words(ink: Ink, attempt: Attempt, now: float) -> str:
    words = f"{attempt.number}. {places(attempt)}"
    if attempt.started_at is not None:
        words += f"  {format_duration((attempt.ended_at or now) - attempt.started_at)}"
    if attempt.exit_code is not None:
        words += ink.say(f"  exit {attempt.exit_code}")
    if attempt.peak_mib is not None:
        words += ink.say(f"  peak {format_mib(attempt.peak_mib)}")
    return f"{words}  {ink.say(attempt.cause)}".rstrip()

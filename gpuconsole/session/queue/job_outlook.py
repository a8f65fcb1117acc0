"""What can be foreseen of one job, in sentences: its wait against the usual one, its run time, its
deadline, and what its owner has had of the lab."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.units import format_duration, iso_utc, parse_time
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg, sentences
from gpuconsole.placement.rules.fair_share import Share
from gpuconsole.session.queue.usage_ledger import Ledger, devices_by_host, worked_s

NOTABLE_WAIT_S = 60.0
LONG = 3.0
"""A wait so many times the usual one is called long."""
MOST_HOSTS = 3
"""Hosts that could not start a job and are named."""
UNEVEN = 0.05
"""Use that differs from what is due by more than this share is shown."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """One job as the ledger sees it now."""

    waited_s: float
    usual: tuple[float, int] | None = None
    """Median wait of the latest starts, and of how many."""
    share: Share | None = None
    """Of its user or account, whichever has had more of its due."""
    length: str = ""
    """How long it should run and by what, as a sentence."""
    left_s: float | None = None
    """How long it should run from its start, or from now where it runs."""
    limit_s: float | None = None
    """How long its time limit lets it run, from its start or from now."""


def prospect_of(job: Job, ledger: Ledger, now: float) -> Prospect:
    """Return what a ledger that follows the journal can tell of a job."""
    since = job.submitted_at if job.queued_at is None else job.queued_at
    share = ledger.usage.share(job.user, job.task.account, now)
    attempt = job.attempt
    devices = job.task.devices or 1
    if job.state.active and attempt is not None:
        devices = sum(devices_by_host(attempt).values())
        ends_at = ledger.ends_at(job, attempt, now)
        left = None if ends_at is None else ends_at - now
    else:
        left = ledger.run_time_s(job, devices)
    length = ""
    if job.task.run_time_s is not None:
        length = f"Its task declares a run time of {format_duration(job.task.run_time_s)}."
    elif (prediction := ledger.prediction(job, devices)) is not None:
        length = prediction.sentence()
    limit = ledger.limit_left_s(job, now)
    return Prospect(max(0.0, now - since), ledger.usual_wait(), share, length, left, limit)


def waiting_sentences(
    job: Job, prospect: Prospect, starts_at: float | None, now: float
) -> tuple[str, ...]:
    """Return what a waiting job's owner wants to know beside what it waits for."""
    sentences_found = [_before(job), _wait(prospect)]
    share = prospect.share
    if share is not None and abs(share.over) > UNEVEN and share.due < 1.0:
        moved = "later" if share.over > 0 else "earlier"
        sentences_found.append(f"{share.sentence()[:-1]}: it comes {moved} for that.")
    sentences_found += [prospect.length, _deadline(job, prospect, max(now, starts_at or now))]
    return tuple(sentence for sentence in sentences_found if sentence)


def running_sentences(job: Job, prospect: Prospect, now: float) -> tuple[str, ...]:
    """Return what a running job's owner wants to know beside where it runs."""
    left = prospect.left_s
    end = ""
    if left is not None and left > 0:
        end = f"It should end in about {format_duration(round(left))}."
    elif left is not None and left < 0:
        end = f"It runs {format_duration(round(-left))} longer than its task says."
    limit = prospect.limit_s
    if limit is not None and limit > 0:
        end += f" Its time limit ends it in {format_duration(round(limit))} at the latest."
    sentences_found = [_before(job), end.strip(), _deadline(job, prospect, now)]
    return tuple(sentence for sentence in sentences_found if sentence)


def _before(job: Job) -> str:
    """Say how the last try ended, where there was one before this state."""
    tries = job.attempts[:-1] if job.state.active else job.attempts
    ended = [attempt for attempt in tries if attempt.ended_at is not None and told_apart(attempt)]
    if not ended:
        return ""
    last = ended[-1]
    if last.at_fault:
        return _not_started(ended)
    how = {
        "preempted": "made room for another job",
        "crowded-out": "made room for the job it shared a device with",
        "lost-host": "was lost with its host",
        "oom": "ran out of memory",
        "gang": "ended with another host of its gang",
        "time-limit": "reached its time limit",
        "idle": "was ended because it did nothing",
        "rule": "was stopped by a rule of its task",
    }.get(last.ended_by, "ended")
    worked = worked_s(job) if job.state is JobState.QUEUED else 0.0
    saved = f"; its checkpoints keep {format_duration(worked)} of work" if worked else ""
    why = f" ({last.cause.rstrip('.')})" if last.cause else ""
    return f"Try {last.number} on {last.host} {how}{why}{saved}."


def told_apart(attempt: Attempt) -> bool:
    """Whether the end of an attempt has a sentence of its own: it had begun, or a host could
    not start it."""
    return attempt.starting_at is not None or bool(attempt.at_fault)


def _not_started(tries: Sequence[Attempt]) -> str:
    """Say which hosts could not start a job the last times, and why."""
    latest = takewhile(lambda attempt: attempt.at_fault, reversed(tries))
    causes: dict[str, str] = {}
    for attempt in latest:
        causes.setdefault(attempt.at_fault, attempt.cause.rstrip("."))
    hosts = list(causes.items())[:MOST_HOSTS]
    return sentences(
        *(msg("It could not start on {host} ({why_text}).", host=h, why_text=c) for h, c in hosts)
    )


def _wait(prospect: Prospect) -> str:
    if prospect.waited_s < NOTABLE_WAIT_S:
        return ""
    waited = f"It has waited {format_duration(prospect.waited_s)}"
    if prospect.usual is None:
        return f"{waited}."
    usual, count = prospect.usual
    word = ", longer than usual" if prospect.waited_s > LONG * max(usual, NOTABLE_WAIT_S) else ""
    return f"{waited}{word}: the last {count} jobs waited {format_duration(usual)} (median)."


def _deadline(job: Job, prospect: Prospect, starts_at: float) -> str:
    """Say whether a job's deadline can be met, where it has one and that is in doubt."""
    if not job.task.deadline:
        return ""
    deadline = parse_time(job.task.deadline)
    when = (iso_utc(deadline) or "")[:16].replace("T", " ") + " UTC"
    if starts_at >= deadline:
        return msg("Its deadline of {when} cannot be met: it is over before a start.", when=when)
    if prospect.left_s is None:
        return msg("It is unknown whether it meets its deadline of {when}.", when=when)
    late = starts_at + prospect.left_s - deadline
    if late <= 0:
        return msg("It should meet its deadline of {when}.", when=when)
    return msg(
        "Its deadline of {when} cannot be met: it should end {time} later.",
        when=when,
        time=format_duration(round(late)),
    )

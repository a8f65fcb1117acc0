"""Explain why a job is where it is: any state, and what each queued job waits for.

The reasons of queued jobs are worked out when they are asked for: a long queue is not explained
each second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.util.human_time import clock_words
from gpuconsole.core.wording import msg, sentences
from gpuconsole.placement import Blocker, Policy, Waiting, why_waiting
from gpuconsole.placement.engine.queue_pass import Outcome
from gpuconsole.placement.forecast.start_times import Expected
from gpuconsole.placement.model import FREE, Rules
from gpuconsole.session.dispatch.slurm_jobs import waits_there, why_there
from gpuconsole.session.queue.commands import is_trial_to_come
from gpuconsole.session.queue.job_outlook import (
    Prospect,
    running_sentences,
    told_apart,
    waiting_sentences,
)
from gpuconsole.session.queue.planner import Why
from gpuconsole.session.queue.usage_ledger import devices_by_host

NOBODY = Why(
    "queued",
    "It could start now, but no console is open that would start it.",
    options=("Run `gpuconsole dispatch`, or leave `gpuconsole` open.",),
)
_NO_CONSOLE = "No console is open that starts jobs, so none starts now."


def why_of(
    job: Job,
    waiting: Mapping[str, Why],
    *,
    no_console: bool = False,
    expected: Expected | None = None,
    prospect: Prospect | None = None,
    steps: str = "",
    now: float = 0.0,
) -> Why:
    """Return the reason of a job's state; `waiting` are the reasons of queued ones, `no_console`
    means that no console starts jobs now, `expected` is when a waiting job should start, and
    `prospect` its other forecasts. `steps` is what it took in its first steps, as a sentence."""
    state = job.state.value
    attempt = job.attempt
    host = " and ".join(devices_by_host(attempt)) if attempt else "its host"
    if job.state is JobState.QUEUED:
        return _queued(job, waiting.get(job.id), no_console, expected, prospect, now)
    if is_trial_to_come(job):
        return Why(state, sentences("It is a trial that the search hands out later.", job.detail))
    if job.state is JobState.HELD:
        release = msg("Run `gpuconsole release {job}`: it joins the queue again.", job=job.id)
        return Why(state, "It is held.", options=(release,))
    if waits_there(job):
        return why_there(job)
    if job.state is JobState.LAUNCHING:
        return Why(
            state,
            msg("It starts on {host}: {doing_text}.", host=host, doing_text=job.detail or "chosen"),
        )
    if job.state is JobState.RUNNING:
        reasons = attempt.placement_reasons if attempt else ()
        more = () if prospect is None else running_sentences(job, prospect, now)
        well = _health(job)
        parts = (msg("It runs on {place}.", place=host), well, *reasons, job.detail, steps, *more)
        return Why(state, sentences(*parts))
    if job.state is JobState.UNKNOWN:
        return _out_of_sight(job, host)
    if job.state is JobState.SUCCEEDED:
        return Why(state, "It succeeded.", options=("Fetch its results.",))
    cause = job.cause or f"It {state}."
    return Why(state, sentences(cause, job.detail), options=_options(job))


def _queued(
    job: Job,
    why: Why | None,
    no_console: bool,
    expected: Expected | None,
    prospect: Prospect | None,
    now: float,
) -> Why:
    """Return why a queued job waits; `why` is the planner's reason, None where it has none."""
    attempt = job.attempt
    if why is None:
        # The end of an attempt that had begun has a sentence of its own.
        begun = prospect is not None and attempt is not None and told_apart(attempt)
        detail = "" if begun else job.detail
        soon = Why(job.state.value, detail or "It starts in the dispatcher's next pass.")
        why = NOBODY if no_console else soon
    else:
        # One base for all times: the forecast counts the jobs before this one too.
        reason = why.reason if expected is None else why.undated or why.reason
        reason = sentences(_NO_CONSOLE if no_console else "", reason)
        first = NOBODY.options if no_console else ()
        why = replace(why, reason=reason, options=(*first, *why.options))
    start = why.estimated_start if expected is None else expected.starts_at
    more = () if prospect is None else waiting_sentences(job, prospect, start, now)
    return replace(why, reason=sentences(why.reason, *more), estimated_start=start)


def _out_of_sight(job: Job, host: str) -> Why:
    """Return what is known of a job while a host of it cannot be reached."""
    gang = job.attempt is not None and bool(job.attempt.members)
    lost = "Of {host} not all can be reached: one is" if gang else "{host} is"
    return Why(
        job.state.value,
        sentences(
            msg(f"{lost} out of sight ({{detail_text}}).", host=host, detail_text=job.detail),
            "The job may run on there; it is looked at as soon as the host is back.",
            "It will be stopped then." if job.cancel_requested else "",
        ),
        options=(
            msg("Look at {host}.", host=host),
            "Cancel it: it is stopped when the host is back.",
        ),
    )


def backing_off(job: Job, now: float) -> Why | None:
    """Return why a replica of a service is not begun again yet; None where nothing keeps it."""
    if job.replica is None or job.replica.restart_at is None:
        return None
    at = job.replica.restart_at
    again = msg(
        "It is restarted at {time}, for the {n}. time in a row.",
        time=clock_words(at, now), n=job.replica.restarts,
    )  # fmt: skip
    option = msg("Read its log: gpuconsole logs {job}", job=job.id)
    return Why(job.state.value, sentences(job.detail, again), (), at, (option,))


def _health(job: Job) -> str:
    """Return how a running replica of a service is, as a sentence; "" for other jobs."""
    if job.task.service is None:
        return ""
    if job.is_leaving and job.replica is not None:
        stops = "It gets no new connections, and is stopped once the old ones have ended."
        return sentences(stops, job.replica.leaving_for)
    return {
        "healthy": "It is healthy.",
        "unhealthy": "It is unhealthy and gets no connections.",
    }.get(job.health.health, "It gets no connections before it is healthy.")


def _options(job: Job) -> tuple[str, ...]:
    again = "Retry it."
    if job.stopped_for == "time-limit":
        resumes = " It goes on from its checkpoint." if job.task.checkpoint_dir else ""
        return (f"Retry it.{resumes}", "Submit it again with a longer time limit.")
    if job.stopped_for == "rule":
        return (msg("See its curves: gpuconsole curves {job}", job=job.id), again)
    if job.state is not JobState.OOM:
        return (again,)
    suggestions = (job.estimate or {}).get("suggestions") or ()
    texts = tuple(
        str(suggestion["text"])
        for suggestion in suggestions
        if isinstance(suggestion, Mapping) and "text" in suggestion
    )
    return (*texts, "Submit it again with a smaller batch size.", again)


class Reasons(Mapping[str, Why]):
    """The reasons of one plan by job id."""

    def __init__(
        self,
        reasons_known: Mapping[str, Why],
        outcome: Outcome,
        policies: Mapping[str, Policy],
        now: float,
        rules: Rules = FREE,
        estimates: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        """`reasons_known` are reasons that placement does not decide, such as jobs to come after;
        `estimates` are preflight's documents by job."""
        self._known = dict(reasons_known)
        self._outcome = outcome
        self._blocked = {request.job: request for request in outcome.blocked}
        self._policies = policies
        self._now = now
        self._rules = rules
        self._estimates = estimates or {}

    def __getitem__(self, job: str) -> Why:
        why = self._known.get(job)
        if why is None:
            request = self._blocked[job]
            decision = why_waiting(
                request, self._outcome, self._policies[job], self._now, self._rules
            )
            assert decision.waiting is not None
            # A verdict is of one device: that a host has as many as a gang needs it does not say.
            alone = request.least_on_host == 1
            batches = smaller_batches(self._estimates.get(job, {})) if alone else ()
            why = self._known[job] = _waiting_why(decision.waiting, batches)
        return why

    def __contains__(self, job: object) -> bool:
        return job in self._known or job in self._blocked

    def __iter__(self) -> Iterator[str]:
        return iter({**self._known, **self._blocked})

    def __len__(self) -> int:
        return len({**self._known, **self._blocked})


def smaller_batches(estimate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which smaller batch would let a job use a further kind of device, by preflight's own
    verdicts; the kind that asks least first, two at most."""
    batch = estimate.get("batch_size")
    largest: dict[str, int] = {}
    for verdict in estimate.get("verdicts") or ():
        most = verdict.get("max_batch_size")
        if verdict.get("verdict") == "will-not-fit" and isinstance(most, int) and most > 0:
            device = clean(str(verdict.get("device")), 80)
            largest[device] = max(most, largest.get(device, 0))
    if not isinstance(batch, int):
        return ()
    sizes = sorted(largest.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(
        msg(
            "With a batch of {n} or less instead of {all}, {device} will do too.",
            n=most,
            all=batch,
            device=device,
        )
        for device, most in sizes[:2]
        if most < batch
    )


def _waiting_why(waiting: Waiting, more: tuple[str, ...] = ()) -> Why:
    blockers = tuple(
        {
            "job": blocker.job,
            "name": blocker.name,
            "user": blocker.user,
            "host": blocker.host,
            "uuid": blocker.uuid,
            "text": _blocker_text(blocker),
        }
        for blocker in waiting.blockers
    )
    options = (*more, *waiting.options)
    start = waiting.estimated_start
    return Why("queued", waiting.reason, blockers, start, options, undated=waiting.undated)


def _blocker_text(blocker: Blocker) -> str:
    job = f"job {blocker.job} ({blocker.name})"
    return f"{blocker.uuid} on {blocker.host}: {job} of {blocker.user}"

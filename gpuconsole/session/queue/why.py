"""Why a job stands where it does, for every state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.placement.forecast import Expected
from gpuconsole.session.dispatch.slurm_jobs import waits_there, why_there
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
    nobody: bool = False,
    expected: Expected | None = None,
    prospect: Prospect | None = None,
    steps: str = "",
    now: float = 0.0,
) -> Why:
    """Return the reason of a job's state; `waiting` are the reasons of queued ones, `nobody` says
    that no console starts jobs now, `expected` when a waiting job should start, and `prospect`
    what else can be foreseen of it. `steps` is what it took in its
    first steps, as a sentence."""
    state = job.state.value
    attempt = job.attempt
    host = " and ".join(devices_by_host(attempt)) if attempt else "its host"
    if job.state is JobState.QUEUED:
        # How a try ended that had begun is told in a sentence of its own.
        begun = prospect is not None and attempt is not None and told_apart(attempt)
        soon = Why(state, ("" if begun else job.detail) or "It starts at the next occasion.")
        why = waiting.get(job.id)
        if why is None:
            why = NOBODY if nobody else soon
        elif nobody:
            reason = f"{_NO_CONSOLE} {why.reason}"
            why = replace(why, reason=reason, options=(*NOBODY.options, *why.options))
        start = why.estimated_start if expected is None else expected.starts_at
        more = () if prospect is None else waiting_sentences(job, prospect, start, now)
        return replace(why, reason=" ".join((why.reason, *more)), estimated_start=start)
    if job.state is JobState.HELD:
        release = f"Run `gpuconsole release {job.id}`: it joins the queue again."
        return Why(state, "It is held.", options=(release,))
    if waits_there(job):
        return why_there(job)
    if job.state is JobState.LAUNCHING:
        return Why(state, f"It starts on {host}: {job.detail or 'chosen'}.")
    if job.state is JobState.RUNNING:
        reasons = attempt.placement_reasons if attempt else ()
        more = () if prospect is None else running_sentences(job, prospect, now)
        told = (f"It runs on {host}.", *reasons, job.detail, steps, *more)
        return Why(state, " ".join(sentence for sentence in told if sentence))
    if job.state is JobState.UNKNOWN:
        wish = " It will be stopped then." if job.cancel_requested else ""
        gang = attempt is not None and bool(attempt.members)
        lost = f"Of {host} not all can be reached: one is" if gang else f"{host} is"
        return Why(
            state,
            f"{lost} out of sight ({job.detail}). The job may run on there; it is looked at as "
            f"soon as the host is back.{wish}",
            options=(f"Look at {host}.", "Cancel it: it is stopped when the host is back."),
        )
    if job.state is JobState.SUCCEEDED:
        return Why(state, "It ended well.", options=("Fetch its results.",))
    cause = job.cause or f"It {state}."
    return Why(state, f"{cause} {job.detail}".strip(), options=_options(job))


def _options(job: Job) -> tuple[str, ...]:
    again = "Retry it."
    if job.state is not JobState.OOM:
        return (again,)
    suggestions = (job.estimate or {}).get("suggestions") or ()
    texts = tuple(
        str(one["text"]) for one in suggestions if isinstance(one, Mapping) and "text" in one
    )
    return (*texts, "Submit it again with a smaller batch size.", again)

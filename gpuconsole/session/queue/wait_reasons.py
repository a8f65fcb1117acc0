"""Why jobs wait, found out when somebody asks: a long queue is not explained each second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuconsole.core.text import clean
from gpuconsole.placement import Blocker, Policy, Waiting, why_waiting
from gpuconsole.placement.engine import Outcome
from gpuconsole.placement.model import FREE, Rules
from gpuconsole.session.queue.planner import Why


class Reasons(Mapping[str, Why]):
    """The reasons of one plan by job id."""

    def __init__(
        self,
        known: Mapping[str, Why],
        outcome: Outcome,
        policies: Mapping[str, Policy],
        now: float,
        rules: Rules = FREE,
        estimates: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """`known` are reasons that placement was not asked about, such as jobs to come after;
        `estimates` are preflight's documents by job."""
        self._known = dict(known)
        self._outcome = outcome
        self._blocked = {request.job: request for request in outcome.blocked}
        self._policies = policies
        self._now = now
        self._rules = rules
        self._estimates = estimates or {}

    def __getitem__(self, job: str) -> Why:
        found = self._known.get(job)
        if found is None:
            request = self._blocked[job]
            decision = why_waiting(
                request, self._outcome, self._policies[job], self._now, self._rules
            )
            assert decision.waiting is not None
            # A verdict is of one device: that a host has as many as a gang needs it does not say.
            alone = request.least_on_host == 1
            batches = smaller_batches(self._estimates.get(job, {})) if alone else ()
            found = self._known[job] = _why(decision.waiting, batches)
        return found

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
    found = sorted(largest.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(
        f"With a batch of {most} or less instead of {batch}, {device} will do too."
        for device, most in found[:2]
        if most < batch
    )


def _why(waiting: Waiting, more: tuple[str, ...] = ()) -> Why:
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
    return Why("queued", waiting.reason, blockers, waiting.estimated_start, options)


def _blocker_text(blocker: Blocker) -> str:
    job = f"job {blocker.job} ({blocker.name})"
    return f"{blocker.uuid} on {blocker.host}: {job} of {blocker.user}"

"""Why jobs wait, found out when somebody asks: a long queue is not explained each second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuconsole.placement import Blocker, Policy, Waiting, why_waiting
from gpuconsole.placement.engine import Outcome
from gpuconsole.placement.model import FREE, Rules
from gpuconsole.session.placing import Why


class Reasons(Mapping[str, Why]):
    """The reasons of one plan by job id."""

    def __init__(
        self,
        known: Mapping[str, Why],
        outcome: Outcome,
        policies: Mapping[str, Policy],
        now: float,
        rules: Rules = FREE,
    ) -> None:
        """`known` are reasons that placement was not asked about, such as jobs to come after."""
        self._known = dict(known)
        self._outcome = outcome
        self._blocked = {request.job: request for request in outcome.blocked}
        self._policies = policies
        self._now = now
        self._rules = rules

    def __getitem__(self, job: str) -> Why:
        found = self._known.get(job)
        if found is None:
            request = self._blocked[job]
            decision = why_waiting(
                request, self._outcome, self._policies[job], self._now, self._rules
            )
            assert decision.waiting is not None
            found = self._known[job] = _why(decision.waiting)
        return found

    def __contains__(self, job: object) -> bool:
        return job in self._known or job in self._blocked

    def __iter__(self) -> Iterator[str]:
        return iter({**self._known, **self._blocked})

    def __len__(self) -> int:
        return len({**self._known, **self._blocked})


def _why(waiting: Waiting) -> Why:
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
    return Why("queued", waiting.reason, blockers, waiting.estimated_start, waiting.options)


def _blocker_text(blocker: Blocker) -> str:
    job = f"job {blocker.job} ({blocker.name})"
    return f"{blocker.uuid} on {blocker.host}: {job} of {blocker.user}"

"""The metrics of a session: one picture at a time, taken from what the session knows already.

Nothing here asks a host or reads more of the journal than has changed, so scrapes, however often
they come, poll no host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from gpuconsole.core.events import Event
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job
from gpuconsole.errors import JournalError
from gpuconsole.session.context import Context
from gpuconsole.session.metrics import console, fleet, jobs, queue
from gpuconsole.session.metrics.model import (
    Family,
    Holder,
    Metric,
    Picture,
    PredictionFacts,
    QueueFacts,
)

FRESH_S = 0.5
"""A picture answers all who ask within so long."""

METRICS: tuple[Metric, ...] = (*fleet.METRICS, *queue.METRICS, *console.METRICS)


class Watched(Protocol):
    """What is looked at: a session."""

    def snapshot(self) -> FleetSnapshot: ...
    def jobs(self) -> tuple[Job, ...]: ...
    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]: ...
    @property
    def dispatcher(self) -> str: ...


class Metrics:
    """Takes pictures of a session for Prometheus. Use from the event loop's thread."""

    def __init__(
        self, context: Context, session: Watched, incidents: Callable[[], tuple[Incident, ...]]
    ) -> None:
        self._context = context
        self._session = session
        self._incidents = incidents
        self._tally = queue.Tally(context.settings.policy)
        self._predictions = PredictionFacts()
        self._version: tuple[int, int] | None = None
        self._losses: Counter[str] = Counter()
        self._last: Picture | None = None
        self.name_jobs = False
        """Whether jobs, users and containers are named."""
        session.subscribe(self._hear)

    def picture(self) -> Picture:
        """Return the lab as it is now; the same for all who ask within FRESH_S seconds."""
        now = self._context.clock.now()
        if self._last is None or not 0.0 <= now - self._last.at < FRESH_S:
            self._last = self._taken(now)
        return self._last

    def _taken(self, now: float) -> Picture:
        holders: tuple[Holder, ...] | None = () if self.name_jobs else None
        try:
            facts = self._tally.facts(self._session.jobs(), now)
            if self.name_jobs:
                holders = jobs.holders(self._session.jobs())
            predictions, dispatching = self._judged(), bool(self._session.dispatcher)
            journal = True
        except JournalError:
            # The fleet is reported all the same.
            facts, predictions = QueueFacts(), PredictionFacts()
            dispatching = journal = False
        return Picture(
            at=now,
            snapshot=self._session.snapshot(),
            queue=facts,
            predictions=predictions,
            incidents=self._incidents(),
            losses=dict(self._losses),
            simulated=self._context.simulated,
            dispatching=dispatching,
            journal=journal,
            holders=holders,
        )

    def _judged(self) -> PredictionFacts:
        journal = self._context.journal
        version = journal.history_version()
        if version != self._version:
            self._predictions = console.prediction_facts(journal.observations())
            self._version = version
        return self._predictions

    def _hear(self, event: Event) -> None:
        if event.kind == "host" and event.severity == "error":
            self._losses[event.subject] += 1


def families(picture: Picture) -> Iterator[Family]:
    """Give every metric with its values; pure, so a thread may do it."""
    parts = (fleet, queue, console, jobs)
    return chain.from_iterable(part.families(picture) for part in parts)


def most_series(hosts: int, devices: int) -> int:
    """Return how many series a lab has at most, histograms with all of their buckets."""
    size = {"lab": 1, "host": hosts, "device": devices}
    return sum(metric.most_series * size[metric.scope] for metric in METRICS)

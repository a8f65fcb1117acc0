"""Metrics as data: what each is called and means, and the values it has in one picture.

Names and units follow Prometheus: bytes, seconds, joules, ratios from 0 to 1, `_total` for what
only grows. A label holds a host of the inventory, a device's number, or a word of a list in this
code, never a job or other words of a user: the number of series is bounded by hosts and devices.
`metrics.jobs` is the exception, for those who ask for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import JobState
from gpuconsole.core.util.lazy_dataclass import dataclass

Kind = Literal["gauge", "counter", "histogram"]
Scope = Literal["lab", "host", "device"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One name with its meaning."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    scope: Scope = "lab"
    """For what its series are counted: `most` of them for the lab, each host or each device."""
    most: int = 1
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, without the last, which is +Inf."""

    @property
    def most_series(self) -> int:
        """Series for each of its scope; a histogram has one a bucket, +Inf, a sum and a count."""
        return self.most * (len(self.buckets) + 3 if self.kind == "histogram" else 1)


@dataclass(frozen=True, slots=True)
class Spread:
    """Values of a histogram: how many lie in each bucket (not summed up), the last is the rest."""

    counts: tuple[int, ...]
    total: float


Value = float | Spread
Sample = tuple[tuple[str, ...], Value]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its values; the words of each sample stand for the metric's labels."""

    metric: Metric
    samples: Sequence[Sample]


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What the queue's metrics are made of."""

    states: Mapping[JobState, int] = field(default_factory=dict)
    oldest_wait_s: float = 0.0
    """0 while none waits."""
    wanted: int = 0
    """Devices that waiting jobs ask for."""
    waits: Spread = Spread((), 0.0)
    runs: Spread = Spread((), 0.0)
    placed: Mapping[str, int] = field(default_factory=dict)
    """Attempts begun, by the policy that ranked their candidates."""
    ended: Mapping[str, int] = field(default_factory=dict)
    """Attempts ended, by how."""
    on_device: Mapping[str, int] = field(default_factory=Counter)
    """Jobs that hold a device now, by its UUID."""


@dataclass(frozen=True, slots=True)
class PredictionFacts:
    """What the metrics of predictions are made of."""

    ratios: Mapping[str, Spread] = field(default_factory=dict)
    """Observed through predicted memory, by tier."""
    judged: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Runs by what was said of them and how they ended."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds a device."""

    host: str
    uuid: str
    user: str
    job: str
    container: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is exported at one moment; frozen, so that a thread may write it out."""

    at: float
    snapshot: FleetSnapshot
    queue: QueueFacts
    predictions: PredictionFacts
    incidents: tuple[Incident, ...] = ()
    losses: Mapping[str, int] = field(default_factory=dict)
    """How often the link to a host was lost while this console ran."""
    simulated: bool = False
    dispatching: bool = False
    """Whether any console of this journal starts jobs."""
    journal: bool = True
    """Whether the journal could be read."""
    holders: tuple[Holder, ...] | None = None
    """Who holds devices; None if that is not to be exported."""


def spread(values: Sequence[float], buckets: Sequence[float]) -> Spread:
    """Return how values lie in buckets."""
    counts = [0] * (len(buckets) + 1)
    for value in values:
        counts[place(value, buckets)] += 1
    return Spread(tuple(counts), float(sum(values)))


def place(value: float, buckets: Sequence[float]) -> int:
    """Return the number of the bucket into which a value falls."""
    return next((number for number, edge in enumerate(buckets) if value <= edge), len(buckets))

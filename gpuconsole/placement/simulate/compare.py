"""Several policies over the same jobs, on the same lab, with the same chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.model import Policy
from gpuconsole.placement.simulate.event_loop import simulate
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.metrics import Metrics, Outcome, metrics, ratios
from gpuconsole.placement.simulate.trace_readers import Dice
from gpuconsole.placement.simulate.workload import Cut, Workload

_SHARING = (
    "Two jobs that share a device run at 0.64 to 0.96 of their speed, by how busy both keep it"
    " (means of published measurements)."
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What every policy made of the same jobs."""

    trace: str
    lab: Lab
    workload: Workload
    cut: Cut
    seed: int
    outcomes: tuple[Outcome, ...]
    metrics: tuple[Metrics, ...]
    notes: tuple[str, ...]
    """Sentences: what was left out, what was drawn, and what a policy has to say."""

    def as_json(self) -> dict[str, object]:
        """Return the document of `simulate --json`."""
        first = self.metrics[0]
        return {
            "simulation": True,
            "lab": {
                "name": self.lab.name,
                "hosts": len(self.lab.hosts),
                "devices": self.lab.devices,
            },
            "trace": self.trace,
            "start_day": self.cut.start_day,
            "window_days": self.cut.days,
            "load": self.cut.load,
            "offered_load": self.workload.offered_load,
            "sigma": self.cut.sigma,
            "seed": self.seed,
            "notes": list(self.notes),
            "policies": [
                {**metric.as_json(), "ratio": ratios(metric, first)} for metric in self.metrics
            ],
        }


def compare(
    trace: str,
    lab: Lab,
    workload: Workload,
    policies: Sequence[Policy],
    dice: Callable[[str], Dice],
    progress: Callable[[str, float], None],
    *,
    cut: Cut,
    seed: int,
) -> Comparison:
    """Play the jobs under each policy; `progress` hears the policy and its share done."""
    outcomes = []
    for policy in policies:
        # Hosts fail at the same moments under every policy.
        outcome = simulate(
            lab,
            workload,
            policy,
            dice("failures"),
            lambda share, name=policy.name: progress(name, share),  # type: ignore[misc]
        )
        outcomes.append(outcome)
    figures = tuple(metrics(outcome) for outcome in outcomes)
    notes = [*workload.notes, *(policy.note for policy in policies if policy.note)]
    if any(policy.sharing for policy in policies):
        notes.append(_SHARING)
    return Comparison(trace, lab, workload, cut, seed, tuple(outcomes), figures, tuple(notes))

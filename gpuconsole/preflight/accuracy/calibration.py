"""What past runs say about the next: known peaks, ranges, contexts, chances to run out.

Everything here is worked out from the observations and calibrations that are handed in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import chain
from math import exp, inf, log
from statistics import median
from typing import Literal

from gpuconsole.core.devices.run_history import HostCalibration, Observation
from gpuconsole.core.estimate import Estimate, Tier
from gpuconsole.core.fleet import Backend
from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.preflight.accuracy import conformal, out_of_memory_chance
from gpuconsole.preflight.accuracy.agreement import Voices, agreed, middle
from gpuconsole.preflight.accuracy.conformal import Residual
from gpuconsole.preflight.accuracy.script_digest import settings_of
from gpuconsole.preflight.memory.backends import terms
from gpuconsole.preflight.memory.footprint import MARGINS

LEAST_MARGIN = 0.03
"""No range is narrower: kernels, and with them workspaces, are chosen again in each run."""
HISTORY_MARGIN = 0.05
"""Range around a peak that was seen, until repeats say how far they lie apart."""
LEAST_SPREAD_MIB = 16.0
"""Range of a context that was measured: libraries are loaded in pages and at need."""
PRIOR_RUNS = conformal.ENOUGH
"""The default distribution weighs as much as so many runs."""

_Key = tuple[str, tuple[str, ...], Backend]


@dataclass(frozen=True, slots=True)
class Margin:
    """How far the truth may lie below and above an estimate, as shares of what is reserved."""

    low: float
    high: float
    n: int = 0
    """How many runs say so."""
    source: Literal["default", "history"] = "default"


@dataclass(frozen=True, slots=True)
class Context:
    """What a process holds on a card beside Paddle's allocator."""

    mib: float
    spread_mib: float
    source: Literal["calibrated", "history"]
    host: str
    device: str
    at: float

    @property
    def note(self) -> str:
        """A sentence for a person."""
        how = "calibrated" if self.source == "calibrated" else "seen in runs"
        return msg(
            "Context of {size} on {device} of {host}: {how_text}, {when}.",
            size=f"{self.mib:.0f} MiB", device=self.device, host=self.host, how_text=how,
            when=day(self.at),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class KnownPeak:
    """What runs of the same script with the same settings took from the device."""

    peak_mib: float
    """The largest."""
    least_mib: float
    tensors_mib: float | None
    runs: int
    at: float
    device: str
    host: str
    batch: int | None
    step_s: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The lab's history, indexed by what is asked of it. Make it by `from_observations`."""

    observations: tuple[Observation, ...] = ()
    calibrations: tuple[HostCalibration, ...] = ()
    _runs: Mapping[_Key, tuple[Observation, ...]] = field(default_factory=dict, repr=False)
    _contexts: Mapping[tuple[str, str], Context] = field(default_factory=dict, repr=False)
    _residuals: Mapping[tuple[str, Backend], tuple[Residual, ...]] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def from_observations(
        cls,
        observations: Iterable[Observation],
        calibrations: Iterable[HostCalibration] = (),
    ) -> Calibration:
        """Return what these say. Only runs on one device teach: estimates are of one device."""
        seen = tuple(sorted(observations, key=lambda observation: observation.at))
        measured = tuple(sorted(calibrations, key=lambda entry: entry.at))
        single = [observation for observation in seen if observation.devices == 1]
        voices = Voices.of(single)
        contexts = _contexts(single, measured, voices)
        runs: dict[_Key, list[Observation]] = defaultdict(list)
        for observation in single:
            if observation.digest:
                runs[
                    observation.digest,
                    settings_of(observation.args, observation.batch),
                    observation.backend,
                ].append(observation)
        all_runs = {key: tuple(observations_of_run) for key, observations_of_run in runs.items()}
        return cls(seen, measured, all_runs, contexts, _all_residuals(all_runs, contexts, voices))

    def context(self, host: str, device: str) -> Context | None:
        """Return the context on a host's card of this model; None when it is not known."""
        return self._contexts.get((host, device))

    def residuals(self, tier: str, backend: Backend) -> tuple[Residual, ...]:
        """Return the errors of a tier's estimates, one for each script of a user, each as far as
        it counts for others."""
        return self._residuals.get((tier, backend), ())

    def margin(self, tier: Tier, backend: Backend) -> Margin:
        """Return the range of a tier: from past errors where there are enough, else the default.

        Where runs that ran out leave no bound, it is the default or what was seen, the larger.
        """
        default = default_margin(tier)
        errors = self.residuals(tier, backend)
        high, low = conformal.upper(errors), conformal.lower(errors)
        if high is None or low is None:
            return Margin(default, default, len(errors))
        above = exp(high) - 1.0
        if high == inf:
            above = max(default, *(exp(error.value) - 1.0 for error in errors))
        below = 1.0 if low == -inf else 1.0 - exp(low)
        return Margin(max(LEAST_MARGIN, below), max(LEAST_MARGIN, above), len(errors), "history")

    def known_peak(
        self, digest: str, args: Sequence[str], batch: int | None, backend: Backend
    ) -> KnownPeak | None:
        """Return what this very script took with these arguments at this batch size."""
        observations = [
            run
            for run in self.runs(digest, args, batch, backend)
            if run.batch == batch and run.outcome == "ok"
        ]
        peaks = [
            peak
            for observation in observations
            if (peak := taken(observation, self._contexts)) is not None
        ]
        if not peaks:
            return None
        tensors = [
            observation.allocated_mib
            for observation in observations
            if observation.allocated_mib is not None
        ]
        times = [
            observation.step_s for observation in observations if observation.step_s is not None
        ]
        last = observations[-1]
        return KnownPeak(
            peak_mib=max(peaks),
            least_mib=min(peaks),
            tensors_mib=max(tensors, default=None),
            runs=len(peaks),
            at=last.at,
            device=last.device,
            host=last.host,
            batch=batch,
            step_s=median(times) if times else None,
        )

    def known_step_s(
        self,
        digest: str,
        args: Sequence[str],
        batch: int | None,
        device: str,
        backend: Backend,
    ) -> float | None:
        """Return the observed time of a step on cards of this model, seconds."""
        times = [
            run.step_s
            for run in self.runs(digest, args, batch, backend)
            if run.step_s is not None and run.batch == batch and run.device == device
        ]
        return median(times) if times else None

    def ran_out(
        self, digest: str, args: Sequence[str], batch: int | None, backend: Backend
    ) -> tuple[Observation, ...]:
        """Return the runs of this script with these settings, at any batch size, that ran out.

        One after which a batch at least as large went well says nothing any more.
        """
        runs = self.runs(digest, args, batch, backend)
        return tuple(
            run
            for run in runs
            if run.outcome == "oom"
            and not any(
                other.outcome == "ok" and other.at > run.at and reaches(other.batch, run.batch)
                for other in runs
            )
        )

    def runs(
        self, digest: str, args: Sequence[str], batch: int | None, backend: Backend
    ) -> tuple[Observation, ...]:
        """Return the runs of this script with arguments that differ in the batch size alone."""
        return self._runs.get((digest, settings_of(args, batch), backend), ())

    def sure_need(self, run: Observation) -> float:
        """Return what Paddle's allocator needs at least (MiB) after a run that ran out."""
        wanted = (run.allocated_mib or 0.0) + (run.requested_mib or 0.0)
        if run.free_mib is None:
            return wanted
        context = self.context(run.host, run.device)
        own = terms(run.backend)
        beside = own.context_mib + own.context_spread_mib
        if context is not None and run.backend != "cpu":
            beside = context.mib + context.spread_mib
        return max(wanted, run.free_mib - beside)

    def oom_probability(self, estimate: Estimate, free_mib: float) -> float | None:
        """Return the chance that a job needs more than `free_mib`: past errors of the tier, with
        what is assumed without any weighing as much as PRIOR_RUNS of them."""
        memory = estimate.memory
        if memory is None:
            return None
        free = free_mib - memory.context_mib
        if free <= 0:
            return 1.0
        if memory.reserved_mib <= 0:
            return 0.0
        point = log(free / memory.reserved_mib)
        spread = out_of_memory_chance.wide(default_margin(estimate.tier))

        def assumed(error: float) -> float:
            return out_of_memory_chance.above(error, spread, estimate)

        probability = assumed(point)
        errors = self.residuals(estimate.tier, estimate.backend)
        if errors:
            # Kernels are chosen again in each run on a device; on a CPU tensors alone count.
            alone = estimate.backend == "cpu"
            most = out_of_memory_chance.CLOSE_SIGMA if alone else log(1.0 + LEAST_MARGIN)
            least = out_of_memory_chance.EXACT_SIGMA if alone else conformal.LEAST_BLUR
            blur = conformal.blur(errors, most, least)
            seen = conformal.exceedance(errors, point, blur, assumed)
            probability = (len(errors) * seen + PRIOR_RUNS * probability) / (
                len(errors) + PRIOR_RUNS
            )
        return round(probability, 4)


def day(at: float) -> str:
    """Return the date of a time, for a sentence."""
    return (iso_utc(at) or "")[:10]


def taken(run: Observation, contexts: Mapping[tuple[str, str], Context]) -> float | None:
    """Return what Paddle's allocator took: as it said itself, else the driver's figure without
    the context. A run that ends between two readings of the driver may have had more."""
    if run.peak_mib is not None:
        return run.peak_mib
    if run.nvml_mib is None or run.backend == "cpu":
        return None
    context = contexts.get((run.host, run.device))
    beside = terms(run.backend).context_mib if context is None else context.mib
    return max(0.0, run.nvml_mib - beside) or None


def reaches(batch: int | None, other: int | None) -> bool:
    """Tell whether a batch size is surely not below another."""
    return batch == other or (batch is not None and other is not None and batch > other)


def default_margin(tier: str) -> float:
    """Return the range of a tier before any history, as a share of what is reserved."""
    if tier == "history":
        return HISTORY_MARGIN
    return MARGINS.get(tier, MARGINS["static"])  # type: ignore[call-overload, no-any-return]


def _contexts(
    runs: Sequence[Observation], measured: Sequence[HostCalibration], voices: Voices
) -> dict[tuple[str, str], Context]:
    """Return contexts by host and model: the last calibration, then what runs have shown since."""
    contexts = {
        (entry.host, entry.device): Context(
            entry.context_mib, LEAST_SPREAD_MIB, "calibrated", entry.host, entry.device, entry.at
        )
        for entry in measured
        if entry.context_mib is not None
    }
    beside: dict[tuple[str, str], list[tuple[Observation, float]]] = defaultdict(list)
    for run in runs:
        # The driver's figure may be older than Paddle's last chunk: then it tells nothing.
        if run.backend != "cpu" and run.nvml_mib is not None and run.reserved_mib is not None:
            over = run.nvml_mib - run.reserved_mib
            if over > 0:
                beside[run.host, run.device].append((run, over))
    for card, seen in beside.items():
        if agreed := middle(seen, voices):
            centre, apart = agreed
            last = max(run.at for run, _ in seen)
            contexts[card] = Context(centre, max(LEAST_SPREAD_MIB, apart), "history", *card, last)
    return contexts


def _all_residuals(
    runs: Mapping[_Key, Sequence[Observation]],
    contexts: Mapping[tuple[str, str], Context],
    voices: Voices,
) -> dict[tuple[str, Backend], tuple[Residual, ...]]:
    """Return the errors of each tier: the largest of each script of a user."""
    worst: dict[tuple[str, Backend], dict[tuple[str, str], Residual]] = defaultdict(dict)
    for observation in chain.from_iterable(runs.values()):
        error = _residual(observation, contexts)
        if error is None:
            continue
        errors, key = (
            worst[observation.tier, observation.backend],
            (voices.of_run(observation), observation.digest),
        )
        worst_error = errors.get(key)
        # What a run took says more than that another ran out.
        if worst_error is None or _weight(error) > _weight(worst_error):
            errors[key] = error
    return {
        (tier, backend): agreed(
            [(voice, error) for (voice, _), error in errors.items()], default_margin(tier)
        )
        for (tier, backend), errors in worst.items()
    }


def _weight(error: Residual) -> tuple[bool, float]:
    return not error.censored, error.value


def _residual(run: Observation, contexts: Mapping[tuple[str, str], Context]) -> Residual | None:
    predicted = run.predicted_reserved_mib
    if not predicted or predicted <= 0 or not run.tier:
        return None
    if run.outcome == "ok":
        peak = run.peak_mib
        if peak is None and (run.host, run.device) in contexts:
            peak = taken(run, contexts)
        return Residual(log(peak / predicted)) if peak else None
    wanted = (run.allocated_mib or 0.0) + (run.requested_mib or 0.0)
    context = contexts.get((run.host, run.device))
    if run.free_mib is not None and context is not None:
        wanted = max(wanted, run.free_mib - context.mib - context.spread_mib)
    return Residual(log(wanted / predicted), censored=True) if wanted > 0 else None

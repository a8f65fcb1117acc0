"""A tier's answers, corrected by what was seen of this script and of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.estimate import Estimate, Memory, Verdict
from gpuconsole.core.fleet import Backend
from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.preflight.accuracy.calibration import (
    Calibration,
    KnownPeak,
    Margin,
    day,
    default_margin,
    reaches,
)
from gpuconsole.preflight.card import Card
from gpuconsole.preflight.memory.backends import terms
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant
from gpuconsole.preflight.verdicts import Estimator, chance_beside

RAN_OUT_PROBABILITY = 0.99
"""Chance to run out where this very run has run out of as much memory before."""
STEP_SHARE = 0.10
"""Range around the time of a step that was seen."""
NOT_CALIBRATED = "not calibrated"
MOST_NOTES = 4
"""With more calibrated cards their contexts are said in one sentence."""
_PARTS = (
    *("parameters_mib", "gradients_mib", "optimizer_mib"),
    *("activations_mib", "inputs_mib", "workspace_mib"),
)


@dataclass(frozen=True, slots=True)
class Past:
    """One script's past: an estimator that knows it, cards that know their context."""

    calibration: Calibration
    digest: str
    args: tuple[str, ...] = ()

    def cards(self, cards: Sequence[Card]) -> tuple[Card, ...]:
        """Return the cards with their context, where it is known."""
        return tuple(self._card(card) for card in cards)

    def notes(self, cards: Sequence[Card]) -> tuple[str, ...]:
        """Return what is known of the cards' contexts, as sentences."""
        pairs = dict.fromkeys((card.host, card.device) for card in cards)
        contexts = [self.calibration.context(host, device) for host, device in pairs]
        known_contexts = [context for context in contexts if context is not None]
        if len(known_contexts) <= MOST_NOTES:
            return tuple(context.note for context in known_contexts)
        sizes = [context.mib for context in known_contexts]
        return (
            f"Contexts of {len(known_contexts)} kinds of cards are known: {min(sizes):.0f} to "
            f"{max(sizes):.0f} MiB.",
        )

    def verdicts(
        self, estimate: Estimate, verdicts: Sequence[Verdict], cards: Sequence[Card]
    ) -> tuple[Verdict, ...]:
        """Return the verdicts with chances from history, and a no where this has run out."""
        runs: dict[Backend, tuple[Observation, ...]] = {}
        corrected = []
        for verdict, card in zip(verdicts, cards, strict=True):
            if card.backend not in runs:
                runs[card.backend] = self._ran_out(estimate.batch_size, card.backend)
            verdict = self._judged(estimate, verdict, card, runs[card.backend])
            corrected.append(self._timed(estimate, verdict))
        return tuple(corrected)

    def _ran_out(self, batch: int | None, backend: Backend) -> tuple[Observation, ...]:
        """Return the runs that ran out at this batch size or a smaller one."""
        runs = self.calibration.ran_out(self.digest, self.args, batch, backend)
        return tuple(run for run in runs if reaches(batch, run.batch))

    def _judged(
        self, estimate: Estimate, verdict: Verdict, card: Card, runs: Sequence[Observation]
    ) -> Verdict:
        if verdict.verdict == "will-fail":
            return verdict
        run = next((run for run in reversed(runs) if _no_more_here(run, card)), None)
        if run is not None:
            where = "here" if run.host == card.host else f"on {run.host or 'a like card'}"
            more = format_mib(run.more_than_mib)
            batch = "" if run.batch is None else f" at batch {run.batch}"
            headroom = _less(verdict.headroom_mib, card.limit_mib, run.more_than_mib)
            return replace(
                verdict,
                verdict="will-not-fit",
                reason=f"ran out {where}{batch} on {day(run.at)}: more than {more}",
                oom_probability=max(verdict.oom_probability or 0.0, RAN_OUT_PROBABILITY),
                headroom_mib=headroom,
                max_batch_size=_below(verdict.max_batch_size, run.batch),
                memory=_raised(verdict.memory, headroom, card.limit_mib),
            )
        if not card.exact and _is_assumed(card) and verdict.headroom_mib is not None:
            verdict = replace(verdict, reason=f"{verdict.reason} ({NOT_CALIBRATED})")
        if verdict.oom_probability is None or estimate.backend != card.backend:
            return verdict
        chance = self.chance(estimate, card)
        return replace(verdict, oom_probability=chance_beside(verdict.verdict, chance))

    def chance(self, estimate: Estimate, card: Card) -> float | None:
        """Return the chance that an estimate's job runs out on a card; None without a size."""
        context = 0.0 if card.exact else card.context_mib
        judged = estimate if context is None else _with_context(estimate, context)
        return self.calibration.oom_probability(judged, card.available_mib)

    def _timed(self, estimate: Estimate, verdict: Verdict) -> Verdict:
        """Return the verdict with the time of a step that was seen on such a card."""
        seen = self.calibration.known_step_s(
            self.digest, self.args, estimate.batch_size, verdict.device, verdict.backend
        )
        if seen is None:
            return verdict
        return replace(verdict, step_s=(seen * (1.0 - STEP_SHARE), seen * (1.0 + STEP_SHARE)))

    def _card(self, card: Card) -> Card:
        if card.exact or not _is_assumed(card):
            return card
        context = self.calibration.context(card.host, card.device)
        return card if context is None else replace(card, context_mib=context.mib)


@dataclass(slots=True)
class Corrected:
    """An estimator that corrects its answers by the past of the script. `batch` is the requested
    one."""

    inner: Estimator
    past: Past
    batch: int | None = None
    _ratios: dict[Backend, float] = field(default_factory=dict)

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        """Estimate at a batch size."""
        result = self.inner.estimate(
            batch_size, backend=backend, context_mib=context_mib, variant=variant
        )
        if result.errors:
            return result
        peak = self._known(result.batch_size, backend) if variant == AS_WRITTEN else None
        if peak is not None:
            return self._floored(_seen(result, peak, self._margin("history", backend), context_mib))
        if result.memory is None:
            return result
        ratio = self._ratio(backend)
        margin = self._margin(result.tier, backend)
        notes = result.notes
        if ratio != 1.0:
            notes += (f"History: runs of this script at other batch sizes took {ratio:.2f} times "
                      "what was predicted for them.",)  # fmt: skip
        if margin.source == "history":
            notes += (f"History: the range comes from {margin.n} scripts that ran in this lab.",)
        memory = result.memory
        if ratio != 1.0 or margin.source == "history":
            memory = _with_gaps(memory, result.tier, ratio, margin)
        return self._floored(replace(result, memory=memory, notes=notes))

    def reserved_at(self, backend: Backend) -> Callable[[int], float | None]:
        """Return reserved MiB as a non-decreasing function of the batch size."""
        inner, ratio = self.inner.reserved_at(backend), self._ratio(backend)
        asked = self.inner.estimate(self.batch, backend=backend)
        own = self._known(asked.batch_size, backend)
        beyond = 1.0
        if own is not None:
            # The asked batch's range is narrow because it was seen; that of larger ones is not.
            wide, narrow = self._margin(asked.tier, backend), self._margin("history", backend)
            beyond = max(1.0, (1.0 + wide.high) / (1.0 + narrow.high))
        floors = self._floors(asked.batch_size, backend)

        def reserved(batch: int) -> float | None:
            need = inner(batch)
            if need is None:
                return None
            need *= ratio
            if own is not None and own.batch is not None and batch > own.batch:
                need *= beyond
            return max([need, *(floor for start, floor in floors if start <= batch)])

        return reserved

    def _known(self, batch: int | None, backend: Backend) -> KnownPeak | None:
        past = self.past
        return past.calibration.known_peak(past.digest, past.args, batch, backend)

    def _margin(self, tier: str, backend: Backend) -> Margin:
        return self.past.calibration.margin(tier, backend)  # type: ignore[arg-type]

    def _ratio(self, backend: Backend) -> float:
        """Return observed over predicted at the batch size seen that is nearest to the asked."""
        if backend not in self._ratios:
            self._ratios[backend] = self._find_ratio(backend)
        return self._ratios[backend]

    def _find_ratio(self, backend: Backend) -> float:
        own = self.inner.estimate(self.batch, backend=backend)
        if own.memory is None or own.batch_size is None:
            return 1.0
        past, wanted = self.past, own.batch_size
        peaks: dict[int, float] = {}
        for run in past.calibration.runs(past.digest, past.args, wanted, backend):
            if run.outcome == "ok" and run.batch is not None and run.peak_mib is not None:
                peaks[run.batch] = max(run.peak_mib, peaks.get(run.batch, 0.0))
        if not peaks:
            return 1.0
        nearest = min(peaks, key=lambda batch: abs(batch - wanted))
        there = self.inner.estimate(nearest, backend=backend).memory
        if there is None or there.reserved_mib <= 0:
            return 1.0
        return peaks[nearest] / there.reserved_mib

    def _floors(self, batch: int | None, backend: Backend) -> list[tuple[int, float]]:
        """Return (batch, MiB reserved at least from there on) of runs that ran out; `batch` is
        the one that the arguments stand for."""
        past = self.past
        return [
            (run.batch, past.calibration.sure_need(run))
            for run in past.calibration.ran_out(past.digest, past.args, batch, backend)
            if run.batch is not None
        ]

    def _floored(self, estimate: Estimate) -> Estimate:
        """Return the estimate, above what runs that ran out had asked for."""
        memory, batch = estimate.memory, estimate.batch_size
        if memory is None or batch is None:
            return estimate
        floors = self._floors(batch, estimate.backend)
        floor = max((need for start, need in floors if start <= batch), default=0.0)
        if floor <= memory.reserved_mib:
            return estimate
        low_share = _low_share(memory)
        raised = _sized(memory, floor, Margin(low_share, memory.upper_share))
        raised = replace(raised, low_mib=max(memory.low_mib, raised.context_mib + floor))
        note = f"History: this script ran out of memory: it needs more than {format_mib(floor)}."
        return replace(estimate, memory=raised, notes=(*estimate.notes, note))


def _seen(
    estimate: Estimate, past_peak: KnownPeak, margin: Margin, context_mib: float | None
) -> Estimate:
    """Return the estimate of a run that was seen before."""
    memory = estimate.memory
    if memory is None:
        own = terms(estimate.backend)
        known_context = context_mib is not None
        memory = Memory(
            context_mib=context_mib if context_mib is not None else own.context_mib,
            context_spread_mib=0.0 if known_context else own.context_spread_mib,
        )
    sized = _sized(memory, past_peak.peak_mib, margin, past_peak.tensors_mib)
    below = sized.context_mib + past_peak.least_mib * (1.0 - margin.low) - sized.context_spread_mib
    sized = replace(sized, low_mib=max(0.0, min(sized.low_mib, below)))
    times = "once" if past_peak.runs == 1 else f"{past_peak.runs} times"
    where = " of ".join(word for word in (past_peak.device, past_peak.host) if word)
    note = msg(
        "History: this script ran {times} with these settings; at most {size} were reported "
        "(last on {when}).",
        times=times, size=format_mib(past_peak.peak_mib),
        when=f"{day(past_peak.at)}{', ' + where if where else ''}",
    )  # fmt: skip
    return replace(
        estimate, tier="history", memory=sized, asks=(),
        notes=(note, *estimate.notes),
    )  # fmt: skip


def _sized(memory: Memory, reserved: float, margin: Margin, tensors: float | None = None) -> Memory:
    """Return a memory in which so much is reserved, its parts grown alike."""
    if tensors is None:
        grown = reserved / memory.reserved_mib if memory.reserved_mib > 0 else 1.0
        tensors = memory.tensors_peak_mib * grown
    tensors = min(tensors, reserved)
    share = tensors / memory.tensors_peak_mib if memory.tensors_peak_mib > 0 else 0.0
    parts = {name: getattr(memory, name) * share for name in _PARTS}
    if not share:
        # Nothing is known of what it is made of.
        parts["activations_mib"] = tensors
    total = memory.context_mib + reserved
    spread = memory.context_spread_mib
    return replace(
        memory,
        **parts,
        tensors_peak_mib=tensors,
        reserved_mib=reserved,
        total_mib=total,
        low_mib=max(0.0, total - margin.low * reserved - spread),
        high_mib=total + margin.high * reserved + spread,
    )


def _with_gaps(memory: Memory, tier: str, ratio: float, margin: Margin) -> Memory:
    """Return a memory of another size and range. What its own range has beyond the usual one of its
    tier stays: how other scripts ran says nothing of an evaluation that was not reached in this."""
    usual = default_margin(tier) * memory.reserved_mib + memory.context_spread_mib
    below = max(0.0, memory.total_mib - usual) - memory.low_mib
    above = memory.high_mib - memory.total_mib - usual
    sized = _sized(memory, memory.reserved_mib * ratio, margin)
    return replace(
        sized,
        low_mib=max(0.0, sized.low_mib - ratio * max(0.0, below)),
        high_mib=sized.high_mib + ratio * max(0.0, above),
    )


def _with_context(estimate: Estimate, context: float) -> Estimate:
    memory = estimate.memory
    if memory is None:
        return estimate
    moved = context - memory.context_mib
    moved_memory = replace(memory, context_mib=context, total_mib=memory.total_mib + moved)
    return replace(estimate, memory=moved_memory)


def _low_share(memory: Memory) -> float:
    below = memory.total_mib - memory.low_mib - memory.context_spread_mib
    return max(0.0, below / memory.reserved_mib) if memory.reserved_mib > 0 else 0.0


def _is_assumed(card: Card) -> bool:
    """Tell whether the context of a host's card is only assumed."""
    return bool(card.host) and card.backend != "cpu" and card.context_mib is None


def _no_more_here(run: Observation, card: Card) -> bool:
    """Tell whether a card has no more free than that of which a run ran out."""
    return run.free_mib is not None and not card.exact and card.available_mib <= run.free_mib


def _below(largest: int | None, batch: int | None) -> int | None:
    """Return the largest batch, smaller than one that ran out."""
    return largest if largest is None or batch is None else min(largest, batch - 1)


def _raised(memory: Memory | None, headroom: float | None, limit: float) -> Memory | None:
    """Return the memory with the upper bound that leaves so much of the limit."""
    if memory is None or headroom is None:
        return memory
    return replace(memory, high_mib=max(memory.high_mib, limit - headroom))


def _less(headroom: float | None, limit: float, need: float | None) -> float | None:
    """Return the headroom, no more than what a need leaves of the limit."""
    if need is None:
        return headroom
    return min(limit - need, headroom if headroom is not None else limit - need, 0.0)

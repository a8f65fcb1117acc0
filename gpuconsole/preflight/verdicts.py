"""An estimate held against devices: verdicts and the largest batch.

A verdict compares the estimate's upper bound with the device's limit: `fits`, or `tight` when
less than a tenth of the limit is left, or `will-not-fit`; or `unknown` where only what was not
reached, or one of two tiers that differ, would go beyond it. So `fits` and `tight` always mean that
the batch is not above `max_batch_size`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import log
from typing import Protocol

from gpuconsole.core.estimate import TIERS_DIFFER, Estimate, Memory, Verdict, VerdictWord
from gpuconsole.core.fleet import Backend
from gpuconsole.core.units import format_mib
from gpuconsole.core.wording import msg
from gpuconsole.preflight.accuracy import out_of_memory_chance
from gpuconsole.preflight.batch_sizes import MAX_BATCH
from gpuconsole.preflight.card import Card
from gpuconsole.preflight.memory.footprint import MARGINS, freed_late
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant
from gpuconsole.preflight.roofline import step_range

TIGHT_SHARE = 0.10
"""Below this share of the limit left over, a job that fits is called tight."""
LIKELY = 0.5
"""From this chance on, running out is what is expected."""


class Estimator(Protocol):
    """What advice asks of a tier."""

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        """Estimate at a batch size."""
        ...

    def reserved_at(self, backend: Backend) -> Callable[[int], float | None]:
        """Return reserved MiB as a non-decreasing function of the batch size."""
        ...


Question = tuple[str, Backend, float, float | None, bool, float]
"""Cards with the same model, back end, limit, context, exactness and free memory get one answer."""


def verdicts(estimator: Estimator, batch: int | None, cards: Sequence[Card]) -> tuple[Verdict, ...]:
    """Return one verdict per card; equal cards are worked out once."""
    answers: dict[Question, Verdict] = {}
    estimates: dict[tuple[Backend, float | None], Estimate] = {}
    largest: dict[tuple[Backend, float, float | None, bool], int | None] = {}
    result: list[Verdict] = []
    for card in cards:
        limit = card.limit_mib
        question = (card.device, card.backend, limit, card.context_mib, card.exact,
                    card.available_mib)  # fmt: skip
        answer = answers.get(question)
        if answer is None:
            context = 0.0 if card.exact else card.context_mib
            kind = (card.backend, context)
            if kind not in estimates:
                estimates[kind] = estimator.estimate(
                    batch, backend=card.backend, context_mib=context
                )
            size = question[1:5]
            if size not in largest:
                largest[size] = largest_batch(estimator, estimates[kind], card)
            judged = judge(estimates[kind], card, largest[size])
            step = step_range(estimates[kind], card.device, card.capacity_mib)
            answer = answers[question] = replace(judged, step_s=step)
        result.append(
            Verdict(
                device=card.device, host=card.host, backend=card.backend, verdict=answer.verdict,
                headroom_mib=answer.headroom_mib, max_batch_size=answer.max_batch_size,
                oom_probability=answer.oom_probability, limit_mib=answer.limit_mib,
                uuid=card.uuid, index=card.index, reason=answer.reason,
                step_s=answer.step_s, memory=answer.memory,
            )
        )  # fmt: skip
    return tuple(result)


def judge(estimate: Estimate, card: Card, largest: int | None) -> Verdict:
    """Return the verdict of one card."""
    memory, limit = estimate.memory, card.limit_mib
    word: VerdictWord
    if estimate.errors:
        first = estimate.errors[0]
        reason = msg("line {n}: {message_text}", n=first.line, message_text=first.message)
        return _verdict(card, "will-fail", reason, limit=limit, largest=None)
    if memory is None:
        reason = estimate.unknowns[0].reason if estimate.unknowns else "the memory is unknown"
        return _verdict(card, "unknown", reason, limit=limit, largest=None)
    seen = memory.total_mib + memory.context_spread_mib
    seen += MARGINS.get(estimate.tier, 0.0) * memory.reserved_mib
    memory = held(memory, card, estimate.flags)
    headroom = limit - memory.high_mib
    if headroom < 0 and (doubt := _doubt(estimate, seen, limit)):
        # Neither is shown: that it needs so much, nor that it does not.
        word = "unknown"
        reason = f"{doubt} {format_mib(memory.high_mib)}, {format_mib(max(0.0, limit))} may be used"
    elif headroom < 0:
        word = "will-not-fit"
        reason = (
            f"needs up to {format_mib(memory.high_mib)}, {format_mib(max(0.0, limit))} may be used"
        )
    elif headroom < TIGHT_SHARE * limit:
        word, reason = "tight", f"{format_mib(headroom)} would be left of {format_mib(limit)}"
    else:
        word, reason = "fits", f"{format_mib(headroom)} would be left of {format_mib(limit)}"
    beside = chance_beside(word, oom_probability(estimate, card))
    judged = _verdict(card, word, reason, limit=limit, largest=largest, headroom=headroom,
                      probability=beside)  # fmt: skip
    return replace(judged, memory=memory)


def _doubt(estimate: Estimate, seen: float, limit: float) -> str:
    """Return what may not need as much as the upper bound says, "" where nothing speaks for less.
    `seen` is what it needs as far as it was reached, MiB."""
    memory = estimate.memory
    assert memory is not None
    if out_of_memory_chance.UNREACHED in estimate.flags and seen <= limit:
        return "what was not reached may need up to"
    if TIERS_DIFFER in estimate.flags and memory.low_mib <= limit:
        return "reading and running it differ: it may need up to"
    return ""


def chance_beside(word: VerdictWord, probability: float | None) -> float | None:
    """Return the chance to run out that may be shown beside a verdict, None if there is none.

    The limit is below what is physically free, so a job that is refused could well live: a chance
    that says so would contradict the verdict. So would a high chance beside a job that fits.
    """
    if probability is None or word in ("will-fail", "unknown"):
        return probability
    return None if (word == "will-not-fit") == (probability < LIKELY) else probability


def _verdict(
    card: Card,
    word: VerdictWord,
    reason: str,
    *,
    limit: float,
    largest: int | None,
    headroom: float | None = None,
    probability: float | None = None,
) -> Verdict:
    return Verdict(card.device, card.host, card.backend, word, headroom, largest, probability,
                   limit, card.uuid, card.index, reason)  # fmt: skip


def held(memory: Memory, card: Card, flags: Collection[str]) -> Memory:
    """Return the memory as it is held against a card's limit: `high_mib` is what counts.

    Of a card that exists only in a question that is the estimate as it is, with an allowance where
    runs of one script differ among themselves; where its upper bound is in doubt, that counts too.
    """
    if not card.exact or not out_of_memory_chance.IN_DOUBT.isdisjoint(flags):
        return memory
    total = memory.total_mib
    return replace(memory, low_mib=total, high_mib=total * _allowance(card, flags))


def _allowance(card: Card, flags: Collection[str]) -> float:
    return 1.0 + freed_late(flags, card.backend)


def oom_probability(estimate: Estimate, card: Card) -> float | None:
    """Return the chance that the job needs more than is physically there; None without a size."""
    memory = estimate.memory
    if memory is None:
        return None
    free = card.available_mib - memory.context_mib
    if free <= 0:
        return 1.0
    if memory.reserved_mib <= 0:
        return 0.0
    point, spread = log(free / memory.reserved_mib), out_of_memory_chance.wide(memory.upper_share)
    return round(out_of_memory_chance.above(point, spread, estimate), 4)


def largest_batch(estimator: Estimator, estimate: Estimate, card: Card) -> int | None:
    """Return the largest batch with a bound within the device's limit, by bisection; 0 for none.

    None if no batch beyond the script's own is known: that one fits is no limit.
    """
    memory = estimate.memory
    if memory is None or estimate.errors:
        return None
    reserved = estimator.reserved_at(card.backend)
    # Range and context do not depend on the batch: take them off once.
    spread = memory.context_spread_mib
    room = card.limit_mib - memory.context_mib - (0.0 if card.exact else spread)
    whole = not card.exact or not out_of_memory_chance.IN_DOUBT.isdisjoint(estimate.flags)
    factor = 1.0 + memory.upper_share if whole else _allowance(card, estimate.flags)

    def fits(batch: int) -> bool:
        need = reserved(batch)
        return need is not None and need * factor <= room

    own = estimate.batch_size or 1
    low, high = _bracket(fits, own)
    if low == 0:
        return None if reserved(1) is None else 0
    if low == own and high <= MAX_BATCH and reserved(high) is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _bracket(fits: Callable[[int], bool], start: int) -> tuple[int, int]:
    """Return a batch that fits, 0 when not even one sample does, and a larger one that does not.

    Begun at the script's own batch: a script that is followed again for each is followed least.
    """
    low = min(max(1, start), MAX_BATCH)
    if fits(low):
        high = 2 * low
        while high <= MAX_BATCH and fits(high):
            low, high = high, 2 * high
        return low, min(high, MAX_BATCH + 1)
    return (1, low) if low > 1 and fits(1) else (0, 1)


def rounded_batch(batch: int) -> int:
    """Return the batch size as shown to users: a multiple of 8 above 8."""
    return batch - batch % 8 if batch > 8 else batch

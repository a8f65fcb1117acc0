"""What would help a job that no device takes as it is. Each change is estimated again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.estimate import Estimate, Memory, Suggestion, Verdict
from gpuconsole.core.submission.script_edits import EditKind
from gpuconsole.core.units import GIB_IN_MIB, format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.preflight.card import RESERVE_SHARE, Card
from gpuconsole.preflight.memory.variant import ShardLevel, Variant
from gpuconsole.preflight.rewriting.draft import Rewrite
from gpuconsole.preflight.suggestion_edits import Change
from gpuconsole.preflight.verdicts import Estimator, held, rounded_batch

if TYPE_CHECKING:
    from gpuconsole.preflight.tiers.static import Analysis

CARD_SIZES_GIB = (8, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 141, 192)
SHARD_COUNTS = (2, 4, 8)
_WORTH = 0.02
"""A change that saves a smaller share than this is not worth a sentence."""

SetBatch = Callable[[int], Change]


class Tries:
    """How many changes of a script may still be followed; without a number, any."""

    def __init__(self, left: int | None = None) -> None:
        self._left = left
        self.refused = False
        """Whether one was not followed."""

    def take(self) -> bool:
        """Use one; return False where none is left."""
        if self._left is None:
            return True
        self.refused = self.refused or self._left <= 0
        self._left -= 1
        return self._left >= 0


@dataclass(frozen=True, slots=True)
class _Way:
    """One variant to try, in words."""

    kind: str
    value: str
    variant: Variant
    text: str
    costs: str
    more: bool = False
    """Whether it goes further than those before it."""


_WAYS = (
    _Way("amp", "O1", Variant(amp="O1"), "Use automatic mixed precision (O1)",
         "matrix products in half precision; watch the loss"),
    _Way("recompute", "blocks", Variant(recompute=True), "Recompute the repeated blocks",
         "about a third more time a step: their forward pass runs twice"),
    _Way("amp", "O2", Variant(amp="O2"), "Use mixed precision in full (O2)",
         "parameters in half precision with float32 masters; watch the loss", more=True),
    _Way("recompute", "blocks+O1", Variant(amp="O1", recompute=True),
         "Recompute the repeated blocks and use mixed precision (O1)",
         "about a third more operations a step, matrix products in half precision", more=True),
)  # fmt: skip


_REWRITTEN: Mapping[str, EditKind] = {"O1": "amp", "blocks": "recompute"}
"""The ways that are put into the shipped copy, by their values."""
_WRITE: Mapping[EditKind, str] = {
    "accumulate": "By hand: at {place} divide the loss by {n}; step and clear gradients only after "
    "every {all} batches, of {size} samples each.",
    "amp": "By hand: before {place} put the forward pass and the loss under "
    "`with paddle.amp.auto_cast():`, and scale the loss there with a paddle.amp.GradScaler.",
    "recompute": "By hand: at {place} call each block through "
    "paddle.distributed.fleet.utils.recompute(block, x).",
}
_WRITE_SOMEWHERE: Mapping[EditKind, str] = {
    "accumulate": "By hand: divide the loss by {n}; step and clear gradients only after every "
    "{all} batches, of {size} samples each.",
    "amp": "By hand: put the forward pass and the loss under `with paddle.amp.auto_cast():`, and "
    "scale the loss with a paddle.amp.GradScaler.",
    "recompute": "By hand: call each block through "
    "paddle.distributed.fleet.utils.recompute(block, x).",
}


def _short(file: str, script: str) -> str:
    """Return a file as one names it beside the script."""
    path, folder = Path(file), Path(script).parent
    inside = path.is_relative_to(folder)
    return str(path.relative_to(folder)) if inside else path.name


def by_hand(change: Rewrite, script: str, kind: EditKind, steps: int = 1, size: int = 1) -> str:
    """Return what to write where, and why it is not changed in the shipped copy; "" for what is."""
    if change.edits:
        return ""
    if change.line:
        place = f"{_short(change.file, script)}:{change.line}"
        write = msg(_WRITE[kind], place=place, n=steps, all=steps, size=size)
    else:
        write = msg(_WRITE_SOMEWHERE[kind], n=steps, all=steps, size=size)
    if not change.why_line:
        return sentences(write, msg("Not applied automatically: {why_text}.", why_text=change.why))
    place = f"{_short(change.why_file, script)}:{change.why_line}"
    why = msg("Not applied automatically: {why_text} ({place}).", why_text=change.why, place=place)
    return sentences(write, why)


def change_of(analysis: Analysis, kind: EditKind, steps: int, batch: int | None) -> Change:
    """Return how a change is put into the shipped copy, and for accumulation the batch size that
    goes with it. UsageError for a batch that cannot be parted so, RefusedError where the script's
    shape leaves doubt."""
    if kind != "accumulate":
        put, rewritten, size = Change(), analysis.rewritten(kind), None
    else:
        if batch is None or steps < 2 or batch % steps:
            parts = msg("The batch size {n} has no {all} equal parts.", n=batch, all=steps)
            raise UsageError(
                "Gradients cannot be accumulated so",
                "The batch size is not known." if batch is None else parts,
                "Say a number of steps that divides it: accumulate=4.",
            )
        size = batch // steps
        put, rewritten = analysis.accumulated(steps, size)
    if not rewritten.edits:
        raise RefusedError(
            "The script is changed by hand only",
            by_hand(rewritten, str(analysis.script), kind, steps, size or 1),
            "Change the script and submit that.",
        )
    return Change(put.args, (*put.edits, *rewritten.edits), size)


def suggestions(
    estimator: Estimator,
    estimate: Estimate,
    judged: Sequence[Verdict],
    cards: Sequence[Card],
    set_batch: SetBatch | None = None,
    *,
    tries: Tries | None = None,
    mixed: bool = True,
    rewriter: Analysis | None = None,
) -> tuple[Suggestion, ...]:
    """Return what would help when no device takes the job as it is, or the script is wrong.

    `set_batch` tells how another batch size is put into effect. `tries` bounds how many changes of
    the script are followed, each from its beginning. Without `mixed` mixed precision is not
    suggested. `rewriter` puts changes into the shipped copy.
    """
    if estimate.errors:
        return tuple(
            Suggestion("fix-script", f"{fault.file}:{fault.line}",
                       msg("Correct line {n}: {fault_text}.",
                           n=fault.line, fault_text=fault.message))
            for fault in estimate.errors
        )  # fmt: skip
    if not wanted(estimate, judged):
        return ()
    asked = _Asked(estimator, estimate, judged, cards, set_batch, tries or Tries(), rewriter)
    return (
        *asked.smaller_batch(), *asked.accumulation(), *asked.ways(mixed), *asked.sharding(),
        *asked.bigger_device(),
    )  # fmt: skip


def wanted(estimate: Estimate, judged: Sequence[Verdict]) -> bool:
    """Whether there is a job to help: its memory is known, and no device takes it."""
    if estimate.memory is None or not judged:
        return False
    return not any(verdict.verdict in ("fits", "tight") for verdict in judged)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question: the job that does not fit, and the cards it was held against."""

    estimator: Estimator
    estimate: Estimate
    judged: Sequence[Verdict]
    cards: Sequence[Card]
    set_batch: SetBatch | None
    tries: Tries
    rewriter: Analysis | None

    @property
    def roomiest(self) -> Card | None:
        """The card that lets a job take most."""
        able = [card for card in self.cards if card.backend == self.estimate.backend]
        return max(able, key=lambda verdict: verdict.limit_mib, default=None)

    def fits(self, memory: Memory) -> bool:
        """Whether a changed job fits on the roomiest card."""
        card = self.roomiest
        return card is not None and card.limit_mib >= memory.high_mib

    @property
    def context_mib(self) -> float | None:
        """The context of the roomiest card; None until its host is calibrated."""
        card = self.roomiest
        return None if card is None else 0.0 if card.exact else card.context_mib

    def again(self, batch: int | None = None, variant: Variant | None = None) -> Memory | None:
        """Return the memory with a change made, as it is held against the roomiest card."""
        card = self.roomiest
        changed = self.estimator.estimate(
            batch if batch is not None else self.estimate.batch_size,
            backend=self.estimate.backend,
            context_mib=self.context_mib,
            variant=variant or Variant(),
        ).memory
        if card is None or changed is None:
            return changed
        return held(changed, card, self.estimate.flags)

    @property
    def memory(self) -> Memory:
        """The memory of the job as it is, on the same card as with a change made."""
        written = self.again()
        assert written is not None
        return written

    @property
    def on_a_device(self) -> Memory:
        """The memory of the job as it is on a device that is not among the cards."""
        if self.roomiest is not None and self.roomiest.exact:
            whole = self.estimator.estimate(
                self.estimate.batch_size, backend=self.estimate.backend
            ).memory
            assert whole is not None
            return whole
        assert self.estimate.memory is not None
        return self.estimate.memory

    @property
    def best_batch(self) -> int:
        """The largest batch that any card takes."""
        return max((verdict.max_batch_size or 0 for verdict in self.judged), default=0)

    def smaller_batch(self) -> Iterator[Suggestion]:
        batch = self.estimate.batch_size
        if batch is None or not 0 < self.best_batch < batch:
            return
        size = rounded_batch(self.best_batch)
        smaller = self.again(size)
        if smaller is None:
            return
        change = self.set_batch(size) if self.set_batch is not None else Change()
        yield Suggestion(
            "batch-size", size, f"Reduce the batch size to {size} or below.",
            self.memory.high_mib - smaller.high_mib,
            f"{batch / size:.3g} times as many steps an epoch; the learning rate may need care",
            change.args, change.edits, size,
        )  # fmt: skip

    def accumulation(self) -> Iterator[Suggestion]:
        batch = self.estimate.batch_size
        if batch is None or not 0 < self.best_batch < batch:
            return
        # The fewest equal parts that fit, so that the effective batch stays what it is.
        steps = next(
            (k for k in range(2, batch + 1) if batch % k == 0 and batch // k <= self.best_batch),
            ceil(batch / self.best_batch),
        )
        size = ceil(batch / steps)
        smaller = self.again(size)
        if smaller is None:
            return
        text = (
            f"Accumulate gradients over {steps} steps of batch size {size}: "
            f"the effective batch stays {'' if steps * size == batch else 'near '}{batch}."
        )
        put, change = Change(), Rewrite()
        if self.rewriter is not None:
            put, change = self.rewriter.accumulated(steps, size)
        yield Suggestion(
            "accumulate", steps, text, self.memory.high_mib - smaller.high_mib,
            "about as many samples a second; batch norms see the small batch",
            put.args if change.edits else None,
            (*put.edits, *change.edits) if change.edits else (), size,
            by_hand(change, self.estimate.script, "accumulate", steps, size)
            if self.rewriter is not None else "",
        )  # fmt: skip

    def ways(self, mixed: bool) -> Iterator[Suggestion]:
        if self.estimate.backend == "cpu":
            return
        best, enough, memory = 0.0, False, self.memory
        for way in _WAYS:
            if (enough and way.more) or (way.variant.amp and not mixed):
                continue
            if not self.tries.take():
                return
            changed = self.again(variant=way.variant)
            saves = 0.0 if changed is None else memory.high_mib - changed.high_mib
            # A way that costs more than those before it has to save more, too.
            least = best if way.more else 0.0
            if changed is None or saves < least + _WORTH * memory.total_mib:
                continue
            best, fits = max(best, saves), self.fits(changed)
            enough = enough or fits
            tail = "this makes it fit" if fits else "not enough alone"
            text = msg(way.text + ": {end_text}.", end_text=tail)
            kind = _REWRITTEN.get(way.value)
            change = Rewrite()
            if self.rewriter is not None and kind is not None:
                change = self.rewriter.rewritten(kind)
            yield Suggestion(
                way.kind, way.value, text, saves, way.costs, edits=change.edits,
                by_hand="" if kind is None or self.rewriter is None
                else by_hand(change, self.estimate.script, kind),
            )  # fmt: skip

    def sharding(self) -> Iterator[Suggestion]:
        """Spread states over the devices of one host: the fewest devices with which it fits."""
        memory = self.memory
        widest = Counter((card.host, card.device) for card in self.cards if card.host)
        levels: tuple[ShardLevel, ...] = ("os_g", "p_g_os")
        for count in SHARD_COUNTS:
            hosts = [host for (host, _), devices in widest.items() if devices >= count]
            if not hosts:
                return
            for level in levels:
                if not self._could_fit(level, count):
                    continue
                if not self.tries.take():
                    return
                changed = self.again(variant=Variant(shard_level=level, shards=count))
                if changed is None or changed.total_mib >= memory.total_mib * (1 - _WORTH):
                    continue
                if self.fits(changed):
                    text = msg(
                        "Use {n} devices of one host with sharding {level} ({host} has "
                        "them): each holds about {size}.",
                        n=count,
                        level=level,
                        host=hosts[0],
                        size=format_mib(changed.total_mib),
                    )
                    saves = memory.high_mib - changed.high_mib
                    costs = f"{count} devices, and traffic between them at every step"
                    yield Suggestion("sharding", f"{level} x{count}", text, saves, costs)
                    return

    def _could_fit(self, level: ShardLevel, count: int) -> bool:
        """Whether sharding may be enough: it takes no more than its share of what is spread.

        That much is left at the moment of today's peak; the script is followed only where it fits.
        """
        memory, card = self.memory, self.roomiest
        spread = memory.gradients_mib + memory.optimizer_mib
        spread += memory.parameters_mib if level == "p_g_os" else 0.0
        tensors = memory.tensors_peak_mib - spread * (1.0 - 1.0 / count)
        least = memory.context_mib + tensors * (1.0 + memory.upper_share)
        return card is not None and least <= card.limit_mib

    def bigger_device(self) -> Iterator[Suggestion]:
        threshold = min((card.threshold for card in self.cards if not card.exact), default=0.85)
        need = self.on_a_device.high_mib / min(threshold, 1.0 - RESERVE_SHARE)
        # Cards report a little less than their name says.
        size = next(
            (size_gib for size_gib in CARD_SIZES_GIB if size_gib * GIB_IN_MIB * 0.97 >= need), None
        )
        if size is None:
            gib = ceil(need / GIB_IN_MIB)
            text = f"No single device is large enough: about {gib} GiB would be needed."
            yield Suggestion("device", gib, text)
            return
        large = sorted(
            {
                card.device
                for card in self.cards
                if card.capacity_mib >= need
                and card.held_mib
                and card.backend == self.estimate.backend
                and not card.exact
            }
        )
        names = f" ({', '.join(large[:3])}, once free)" if large else ""
        yield Suggestion("device", size, f"Use a device with at least {size} GB{names}.")

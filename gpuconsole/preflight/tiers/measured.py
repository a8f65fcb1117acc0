"""Estimates from what the probe measured beside real Paddle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any

from gpuconsole.core.estimate import (
    Estimate,
    MeasuredTier,
    Memory,
)
from gpuconsole.core.fleet import Backend
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.preflight.accuracy import out_of_memory_chance
from gpuconsole.preflight.batch_sizes import MOST_BATCH, require_batch_size
from gpuconsole.preflight.memory import allocator
from gpuconsole.preflight.memory.backends import terms, unproven
from gpuconsole.preflight.memory.footprint import Footprint, as_memory, freed_late, workspace_mib
from gpuconsole.preflight.memory.liveness import envelope, peak
from gpuconsole.preflight.memory.trace import Trace
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant
from gpuconsole.preflight.tiers.later_peaks import Later, later
from gpuconsole.preflight.tiers.measured_estimate import Question, measured_estimate
from gpuconsole.preflight.tiers.measurement_gaps import LATER, Gap, Reach, reach
from gpuconsole.preflight.tiers.probe_pieces import Pieces, pieces
from gpuconsole.preflight.tiers.probe_trace import Run, Unusable, read_run, varies
from gpuconsole.preflight.tiers.static import Analysis

SIMULATED = (8, 32)
"""Batch sizes at which the allocator is simulated besides the script's own."""
MOST_NOTES, LONGEST_NOTE = 20, 300
SKIPPED = (
    "No optimizer of the script stepped, and a test that only data can answer was taken one way: "
    "its training may have been left out"
)
NO_STEP = "No optimizer stepped: the peak is that of forward passes."
VARYING = "The shapes of its batches change a little from one to the next: the most seen counts."
_OPEN = (
    "An upper bound: lengths that only data gives are as long as they can be; the shorter they "
    "are, the lower is the peak, by {percent} at most."
)
_SCALED = ("parameters", "gradients", "optimizer", "activations")


@dataclass(slots=True)
class Measured:
    """A measured script. An `Estimator` of advice."""

    script: str
    tier: MeasuredTier
    paddle: str
    recording: Pieces | None
    refusal: str = ""
    """Why the measurement does not tell the memory; "" when it does."""
    own_batch: int | None = None
    analysis: Analysis | None = None
    """What the static tier found: where the batch size is written, arithmetic, variants."""
    flags: tuple[str, ...] = ()
    device: str = ""
    """The backend with the kernels and precision that were followed; "" where it ran on a CPU."""
    notes: tuple[str, ...] = ()
    """What was made up or taken for granted, as sentences."""
    least: float = 1.0
    """Share of the peak that is left where lengths that depend on data are 0."""
    reach: Reach = field(default_factory=Reach)
    """How far the runs went."""
    later: Later = field(default_factory=Later)
    """By how much the peak of what came after their first steps is higher."""
    _factors: dict[Backend, float] = field(default_factory=dict)

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        """Estimate at a batch size (the script's own when None); UsageError below one."""
        require_batch_size(batch_size)
        asked = Question(self.script, batch_size, self.own_batch, backend, variant)
        memory, reason = self._memory(asked.batch, backend, context_mib, variant)
        return measured_estimate(
            asked, self.tier, memory, reason, notes=self._notes(backend, asked.batch),
            flags=self._flags(asked.batch, backend), analysis=self.analysis,
        )  # fmt: skip

    def _flags(self, batch: int | None, backend: Backend) -> tuple[str, ...]:
        recording = self.recording
        if recording is None:
            return self.flags
        flags = {*self.flags}
        if self._gap(batch).is_open(copies=backend == "cpu") or self.later.is_unsure:
            flags.add(out_of_memory_chance.UNREACHED)
        bent = not recording.only and recording.straight is None
        ran = {recording.largest, *(start for start, _ in recording.parts)}
        if bent and batch is not None and batch not in ran:
            flags.add("bound")
        return tuple(sorted(flags))

    def follows(self, backend: str) -> bool:
        """Tell whether what was measured is what a device of this kind does: a CPU mixes no
        precision and has kernels of its own."""
        return not self.device or (self.device == "cpu") == (backend == "cpu")

    def reserved_at(self, backend: Backend) -> Callable[[int], float | None]:
        """Return reserved MiB as a non-decreasing function of the batch size."""
        recording = self.recording
        if recording is None:
            return lambda batch: None
        factor = self._factor(backend) / MIB
        own = terms(backend)
        whole = recording.straight
        # A reader of a small data set has fewer batches ready as they grow: not a line.
        if whole is not None and not whole.ends:
            line = whole.line(own.waiting_batches, kernels=backend == "cpu")
            if line is not None:
                hull = envelope(line)
                return lambda batch: (
                    (hull.at(batch) + self.later.bytes_at(batch)) * factor
                    + self._workspace(batch, backend)
                )
        return self._by_replay(recording, backend, factor)

    def _by_replay(
        self, recording: Pieces, backend: Backend, factor: float
    ) -> Callable[[int], float | None]:
        """Return reserved MiB by replaying the trace at each batch that is asked for."""
        seen: dict[int, float] = {}

        def alone(batch: int) -> float:
            if batch not in seen:
                total = peak(self._trace(batch, backend)).total * recording.bound(batch)
                seen[batch] = (total + self.later.bytes_at(batch)) * factor + self._workspace(
                    batch, backend
                )
            return seen[batch]

        def replayed(batch: int) -> float | None:
            if recording.only:
                return alone(batch) if batch == recording.largest else None
            # Where one stretch ends and another begins it must not fall.
            starts = [start for start, _ in recording.parts if 0 < start < batch]
            return max(alone(size_) for size_ in (*starts, batch))

        return replayed

    def _trace(self, batch: int, backend: Backend, waiting: int | None = None) -> Trace:
        assert self.recording is not None
        ready = terms(backend).waiting_batches if waiting is None else waiting
        recording = self.recording.at(batch)
        return recording.trace(batch, ready, kernels=backend == "cpu")

    def _workspace(self, batch: int, backend: Backend) -> float:
        if backend == "cpu" or self.recording is None:
            return 0.0
        return workspace_mib(self.recording.at(batch).conv.at(batch))

    def _factor(self, backend: Backend) -> float:
        """Return what the allocator reserves over what tensors need: one figure for all batches
        keeps the reserve non-decreasing."""
        if backend == "cpu":
            return 1.0
        if backend not in self._factors:
            sizes = {self.own_batch or SIMULATED[0]}
            if self.recording is not None and not self.recording.only:
                sizes.update(SIMULATED)
            traces = [self._trace(size, backend) for size in sizes]
            own = terms(backend)
            self._factors[backend] = max(allocator.fragmentation(trace, own) for trace in traces)
        return self._factors[backend]

    def _memory(
        self, batch: int | None, backend: Backend, context_mib: float | None, variant: Variant
    ) -> tuple[Memory | None, str]:
        if self.recording is None:
            return None, self.refusal
        if self.recording.only:
            own = self.recording.largest
            if batch not in (None, own):
                return None, f"it was measured with its own batch size{_named(own)} alone"
            batch = own
        if batch is None:
            return None, "the script's own batch size is not known: name one"
        scale = self._scale(batch, backend, variant)
        if scale is None:
            return None, "a measurement alone does not show what this change would save"
        peak_parts, bound = peak(self._trace(batch, backend)), self.recording.bound(batch)
        parts = {
            str(kind): size / MIB * bound * (scale if kind in _SCALED else 1.0)
            for kind, size in peak_parts.parts.items()
        }
        parts["activations"] += self.later.bytes_at(batch) / MIB
        tensors = sum(parts.values())
        workspace = self._workspace(batch, backend)
        parts["workspace"] += workspace
        reserved = tensors * self._factor(backend) + workspace
        footprint = Footprint(parts, tensors + workspace, reserved)
        memory = as_memory(footprint, backend, self.tier, context_mib)
        # Where samples take longer than steps, no batches are ready.
        unready = peak_parts.total - peak(self._trace(batch, backend, waiting=0)).total
        low = memory.low_mib - (1.0 - self.least) * reserved - unready * bound / MIB
        gap = self._gap(batch)
        low -= gap.may_be_less
        late = memory.total_mib * (1.0 + freed_late(self.flags, backend))
        high = max(memory.high_mib, late) + gap.beside(parts, batch, copies=backend == "cpu")
        high += self.later.beside(batch) / MIB
        return replace(memory, low_mib=max(0.0, low), high_mib=high), ""

    def _gap(self, batch: int | None) -> Gap:
        """Return what was not reached at a batch size."""
        recording = self.recording
        if recording is None or (batch is None and not recording.only):
            return Gap()
        alike = recording.only or recording.straight is not None
        return self.reach.gap(self._answered(batch), alike=alike)

    def _answered(self, batch: int | None) -> int:
        """Return the batch size that is answered for: where only one was run, that."""
        return (self.recording.largest if self.recording else 0) if batch is None else batch

    def _scale(self, batch: int, backend: Backend, variant: Variant) -> float | None:
        """Return what a change leaves of the tensors, by the static tier; None if it cannot."""
        if variant == AS_WRITTEN:
            return 1.0
        if self.analysis is None:
            return None
        plain = self.analysis.estimate(batch, backend=backend).memory
        changed = self.analysis.estimate(batch, backend=backend, variant=variant).memory
        if plain is None or changed is None or not plain.tensors_peak_mib:
            return None
        return changed.tensors_peak_mib / plain.tensors_peak_mib

    def _bends(self) -> list[str]:
        """Say where the batch size does not tell the memory by a line."""
        recording = self.recording
        if recording is None or recording.straight is not None:
            return []
        if recording.only:
            return ["The script was measured with its own batch size: with no other it runs."]
        starts = [start for start, _ in recording.parts if start]
        sizes = [*starts, recording.largest]
        return [
            f"Memory is not a line in the batch: it was run at {', '.join(map(str, sizes))}; any "
            "other batch size has a bound."
        ]

    def _notes(self, backend: Backend, batch: int | None) -> tuple[str, ...]:
        notes = [
            msg(
                "Method: measured beside Paddle {version} on a CPU, {how_text}.",
                version=self.paddle,
                how_text=_HOW[self.tier],
            )
        ]
        notes += self._bends()
        notes += self._gap(batch).said(copies=backend == "cpu")
        more = self.later.bytes_at(self._answered(batch)) / MIB
        if more:
            notes.append(msg(LATER, size=format_mib(more)))
        if self.least < 1.0:
            notes.append(msg(_OPEN, percent=f"{100 * (1 - self.least):.0f} %"))
        if backend != "cpu":
            notes.append(
                "For a device: what CPU kernels take while they run is left out, a convolution "
                "workspace as large as the largest input is allowed."
            )
            if "amp" in self.flags and not self.device:
                notes.append(
                    "An upper bound: on a CPU Paddle computes in float32 whatever "
                    "paddle.amp.auto_cast says."
                )
            if "explicit-attention" in self.flags:
                notes.append(
                    "An upper bound: a CPU writes out the matrices of scaled_dot_product_attention "
                    "that a device's fused kernels would not keep."
                )
        return (*notes, *filter(None, [unproven(backend)]), *self.notes)


def _named(batch: int) -> str:
    return f" ({batch})" if batch else ""


_HOW: Mapping[MeasuredTier, str] = {
    "meta": "every operator of the script run on tensors that have shape and type but no data",
    "traced": "every allocation of three steps at small batch sizes, each as a function of "
    "the batch size",
}


def load(
    document: Mapping[str, Any], *, script: str = "", analysis: Analysis | None = None
) -> Measured:
    """Read the probe's document; UsageError when it is not one.

    A document that does not tell the memory (shapes that change, data-dependent operators) is
    read too: its `refusal` says why, and its estimates are unknown.
    """
    try:
        runs = sorted(map(read_run, document["runs"]), key=lambda each: each.batch)
        mode = document["mode"]
        if mode not in _HOW or not _is_series(runs):
            raise ValueError("not a measurement")
        own = next((run["own_batch"] for run in document["runs"] if run.get("own_batch")), None)
        first = document["runs"][0]
        seen = own is not None and first.get("how") in ("loader", "fixed")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            "Cannot read the measurement",
            msg("What the probe wrote is not a measurement: {value}.", value=str(error)[:200]),
            "Measure again.",
        ) from None
    if analysis is not None and not (seen or first.get("fixed")):
        # A loader that was seen to train knows better than what was read; a script that was run as
        # it is has its own batch size, though it may have no name.
        own = analysis.outcome(None, analysis.backend).batch or own
    recording, refusal, flags = None, "", set().union(*(run.flags for run in runs))
    said = (*_said(document["runs"]), *(() if any(run.trained for run in runs) else (NO_STEP,)))
    try:
        recording = pieces(runs, exact=mode == "meta")
    except Unusable as why:
        refusal = str(why)
        if "change from one" in refusal:
            flags.add("variable-shape")
    if any(run.get("untrained") and run.get("choices") for run in document["runs"]):
        recording, refusal = None, SKIPPED
    if mode == "meta" and any(map(varies, runs)):
        flags.add("variable-shape")
        said = (*said, VARYING)
    return Measured(
        script=script or str(document.get("script", "")),
        tier=mode,
        paddle=clean(str(document.get("paddle", "")), 40),
        recording=recording,
        refusal=refusal,
        own_batch=own if isinstance(own, int) and 0 < own <= MOST_BATCH else None,
        analysis=analysis,
        flags=tuple(sorted(flags)),
        device=str(document.get("backend", "")) if mode == "meta" else "",
        least=_least(document["runs"]) if recording is not None else 1.0,
        reach=reach(document["runs"]),
        later=later(document["runs"]),
        notes=said,
    )


def _is_series(runs: Sequence[Run]) -> bool:
    """Tell whether runs, in order, are of several batch sizes, or one of the only possible size."""
    if len(runs) == 1:
        return runs[0].fixed
    return bool(runs) and runs[0].batch > 0 and all(a.batch < b.batch for a, b in pairwise(runs))


def _least(runs: Sequence[Mapping[str, object]]) -> float:
    """Return the smallest share of its peak that a run says may be left; 1 where none says so."""
    shares = [float(share) for run in runs if isinstance(share := run.get("least"), (int, float))]
    return min((share for share in shares if 0.0 <= share <= 1.0), default=1.0)


def _said(runs: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the probe's sentences, in bounds: a script may have written them."""
    said: dict[str, None] = {}
    for run in runs:
        notes = run.get("notes")
        for note in notes[:MOST_NOTES] if isinstance(notes, list) else ():
            said.setdefault(clean(str(note), LONGEST_NOTE))
    return tuple(said)[:MOST_NOTES]

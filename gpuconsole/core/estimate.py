"""What preflight answers: memory with its parts, verdicts per device, suggestions.

Sizes are MiB. The parts from `parameters_mib` to `workspace_mib` add up to `tensors_peak_mib`
at the moment of the peak.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, get_args

from gpuconsole.core.fleet import Backend
from gpuconsole.core.submission.script_edits import Edit
from gpuconsole.core.util.lazy_dataclass import dataclass

Isolation = Literal["bubblewrap", "files-open"]
"""What holds a script that is measured on this machine: a view of files built from nothing, or
namespaces alone, with all files of the user's account open to it."""
MeasuredTier = Literal[
    "device",
    "meta",
    "traced",
]
"""Tiers that run the script in a sandbox, the better one first."""
MEASURED_TIERS: tuple[MeasuredTier, ...] = get_args(MeasuredTier)
Tier = Literal["formula", "static", MeasuredTier, "history", "unknown"]
WITHOUT_PADDLE = "without-paddle"
"""Flag of a script that names Paddle nowhere."""
MAY_FAIL = "may-fail"
"""Flag of a script in which reading finds a fault that running it did not show."""
TIERS_DIFFER = "tiers-differ"
"""Flag of an answer for a script of which reading and running say different memories."""
TrialOutcome = Literal["answered", "confirmed", "unknown", "impossible"]
Measure = Literal["auto", "ask", "never"]
"""Whether a script is measured where reading it does not settle its memory: at once, once the user
agrees, or not at all."""


def strictest(*choices: Measure | None) -> Measure:
    """Return the strictest of several choices about measuring; `auto` where there is none."""
    order = get_args(Measure)
    return max(filter(None, choices), key=order.index, default="auto")


VerdictWord = Literal["fits", "tight", "will-not-fit", "will-fail", "unknown"]

MEMORY_THRESHOLD = 0.85
"""Share of a device's memory that an estimate may fill by default."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Peak memory of one process on one device, by part."""

    parameters_mib: float = 0.0
    gradients_mib: float = 0.0
    optimizer_mib: float = 0.0
    activations_mib: float = 0.0
    inputs_mib: float = 0.0
    workspace_mib: float = 0.0
    tensors_peak_mib: float = 0.0
    reserved_mib: float = 0.0
    context_mib: float = 0.0
    total_mib: float = 0.0
    low_mib: float = 0.0
    high_mib: float = 0.0
    context_spread_mib: float = 0.0
    """How far the context may be from `context_mib`; a part of the range."""

    @property
    def upper_share(self) -> float:
        """How far the range goes above what is reserved, as a share of it."""
        if self.reserved_mib <= 0:
            return 0.0
        above = self.high_mib - self.total_mib - self.context_spread_mib
        return max(0.0, above / self.reserved_mib)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something in the script that could not be determined, and why."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A fact that would settle an unknown inside the memory path: `--assume NAME=VALUE`."""

    name: str
    """What the answer is given for, as written in the script: `vocab_size`, `len(vocab)`."""
    file: str
    line: int
    question: str
    """One sentence for a person."""
    example: str = ""
    """A value of the right form: `30000`, `[N, 128] int64`."""


@dataclass(frozen=True, slots=True)
class ScriptFault:
    """A mistake in the script itself: a shape that cannot be, a missing argument."""

    file: str
    line: int
    message: str
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shapes that do not go together, where there are any."""


@dataclass(frozen=True, slots=True)
class BatchSource:
    """Where the batch size comes from. `kind`: constant, argument, default, task, given."""

    file: str
    line: int
    kind: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted memory of a script at one batch size on one back end."""

    script: str
    batch_size: int | None
    batch_source: BatchSource | None
    backend: Backend
    tier: Tier
    coverage: float
    """Share of the statements on the memory path that were understood, 0-1."""
    memory: Memory | None
    unknowns: tuple[Unknown, ...] = ()
    errors: tuple[ScriptFault, ...] = ()
    asks: tuple[Ask, ...] = ()
    """The facts, three at most, that would settle what is unknown."""
    flops_per_step: float = 0.0
    bytes_per_step: float = 0.0
    """Bytes read and written by the operators of one step, for the roofline."""
    kernels_per_step: int = 0
    """Kernels that one step launches, about."""
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for `--explain`: the method, the reference formula, assumptions."""
    digest: str = ""
    """Of the script and the files it is made of, by which runs of it are known again."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An estimate held against one device."""

    device: str
    host: str
    backend: Backend
    verdict: VerdictWord
    headroom_mib: float | None
    """Limit minus the estimate's upper bound; negative when it will not fit."""
    max_batch_size: int | None
    """The largest batch with an upper bound within the limit; 0 if not even one sample fits."""
    oom_probability: float | None
    """The chance to need more than is physically free; None where it would speak for a job that the
    verdict refuses."""
    limit_mib: float | None = None
    uuid: str = ""
    index: int | None = None
    reason: str = ""
    step_s: tuple[float, float] | None = None
    """Range of the time of one training step here, seconds."""
    memory: Memory | None = None
    """The estimate on this device, with its own back end and context. Its upper bound is what is
    held against the limit."""

    @property
    def needs_mib(self) -> float | None:
        """What the job may need here, with the context: the limit less the headroom."""
        if self.limit_mib is None or self.headroom_mib is None:
            return None
        return self.limit_mib - self.headroom_mib


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that would help, estimated again with the change made.

    `kind`: batch-size, accumulate, amp, recompute, device, sharding, fix-script.
    """

    kind: str
    value: int | str
    text: str
    saves_mib: float = 0.0
    """How much less the upper bound of the memory would be."""
    costs: str = ""
    """What it costs, in words: time, precision, devices."""
    args: tuple[str, ...] | None = None
    """The job's arguments with the change made, where the script takes it as one."""
    edits: tuple[Edit, ...] = ()
    """What changes in the shipped copy."""
    batch: int | None = None
    """The batch size with the change made, where that is another."""
    by_hand: str = ""
    """What to write where, for a change that is not made in the shipped copy, and why it is not."""

    @property
    def is_applicable(self) -> bool:
        """Whether it can be applied without changing the script by hand."""
        return self.kind == "batch-size" or bool(self.edits)


@dataclass(frozen=True, slots=True)
class LayerCost:
    """One layer's share of the estimate, for `--explain`. Sizes in MiB."""

    name: str
    """Path in the model: `encoder.layers.0.linear1`."""
    kind: str
    file: str
    line: int
    output_shape: tuple[int, ...]
    parameters_mib: float
    saved_mib: float
    """What its operators keep for the backward pass."""
    flops: float = 0.0


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the estimate is made of, largest layer first, and where the peak occurs."""

    layers: tuple[LayerCost, ...]
    peak_file: str
    peak_line: int
    peak_moment: str
    """`forward`, `backward` or `step`, and the layer where there is one."""
    trains: bool = True
    """Whether there is a backward pass; without one a layer's `saved_mib` is what it holds at the
    peak."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The memory at one batch size, for `--curve`."""

    batch_size: int
    total_mib: float
    high_mib: float


@dataclass(frozen=True, slots=True)
class Trial:
    """One try to estimate by a tier, and how it ended."""

    tier: Tier
    outcome: TrialOutcome
    """`confirmed` says that the script failed where reading finds a fault, `impossible` that the
    tier could not be tried at this place."""
    why: str = ""
    """What was missing, or with which error the script failed, as a sentence; "" where it
    answered."""
    host: str = ""
    """Where it was measured; "" for this machine."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """The whole answer of preflight for one script."""

    estimate: Estimate
    verdicts: tuple[Verdict, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    explanation: Explanation | None = None
    """Where the memory comes from, where that was asked for."""
    curve: tuple[CurvePoint, ...] = ()
    """Peak against batch size, where that was asked for."""
    trials: tuple[Trial, ...] = field(default=(), compare=False)
    """The tiers that were tried for it, in that order."""
    elapsed_ms: float = field(default=0.0, compare=False)

    def as_json(self) -> dict[str, object]:
        """Return the `preflight --json` document."""
        estimate = self.estimate
        source = estimate.batch_source
        memory = estimate.memory
        document: dict[str, Any] = {
            "script": estimate.script,
            "digest": estimate.digest,
            "batch_size": estimate.batch_size,
            "batch_source": None if source is None else _fields(source),
            "backend": estimate.backend,
            "tier": estimate.tier,
            "coverage": estimate.coverage,
            "unknowns": [_fields(unknown) for unknown in estimate.unknowns],
            "asks": [_fields(ask) for ask in estimate.asks],
            "memory": None if memory is None else _fields(memory),
            "flops_per_step": estimate.flops_per_step,
            "bytes_per_step": estimate.bytes_per_step,
            "kernels_per_step": estimate.kernels_per_step,
            "flags": list(estimate.flags),
            "verdicts": [_verdict(verdict) for verdict in self.verdicts],
            "suggestions": [_suggestion(suggestion) for suggestion in self.suggestions],
        }
        if self.trials:
            document["tiers"] = [_fields(trial) for trial in self.trials]
        if estimate.errors:
            document["errors"] = [_fields(fault) for fault in estimate.errors]
        if estimate.notes:
            document["notes"] = list(estimate.notes)
        if self.explanation is not None:
            layers = [_fields(layer) for layer in self.explanation.layers]
            document["explanation"] = {**_fields(self.explanation), "layers": layers}
        if self.curve:
            document["curve"] = [_fields(point) for point in self.curve]
        return document


def _verdict(verdict: Verdict) -> dict[str, object]:
    fields, memory = _fields(verdict), verdict.memory
    # The parts are those of the estimate; what a device has of its own is the need and the context.
    del fields["memory"]
    context = None if memory is None else memory.context_mib
    return {**fields, "needs_mib": verdict.needs_mib, "context_mib": context}


def _suggestion(suggestion: Suggestion) -> dict[str, object]:
    return {**_fields(suggestion), "edits": [_fields(edit) for edit in suggestion.edits]}


def _fields(record: object) -> dict[str, object]:
    names: tuple[str, ...] = record.__slots__  # type: ignore[attr-defined]
    return {name: getattr(record, name) for name in names}

"""One script, understood once and estimated at any batch size."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from gpuconsole.core.estimate import Ask, BatchSource, Estimate, Explanation, Memory, Tier, Unknown
from gpuconsole.core.fleet import Backend
from gpuconsole.core.units import MIB
from gpuconsole.errors import UsageError
from gpuconsole.preflight import allocator, choices
from gpuconsole.preflight.backends import terms
from gpuconsole.preflight.changes import Change, set_number
from gpuconsole.preflight.explain import explain
from gpuconsole.preflight.liveness import envelope, peak
from gpuconsole.preflight.scan import source, values
from gpuconsole.preflight.scan.builtin import builtins
from gpuconsole.preflight.scan.interp import Interpreter
from gpuconsole.preflight.scan.library import library
from gpuconsole.preflight.scan.run import CYCLES, Amp, LayerCall, Run, Setting
from gpuconsole.preflight.trace import AffineTrace, Trace, affine
from gpuconsole.preflight.variant import AS_WRITTEN, Variant

CONTEXT_MIB = terms("gpu").context_mib
CONTEXT_SPREAD_MIB = terms("gpu").context_spread_mib
MARGINS: Mapping[Tier, float] = MappingProxyType({"static": 0.25, "formula": 0.50})
"""Half-width of the range of each tier, as a share of what the allocator reserves."""
WORKSPACE_CAP_MIB = terms("gpu").conv_workspace_cap_mib
MAX_BATCH = 65_536


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one abstract run found."""

    trace: Trace
    batch: int | None
    source: BatchSource | None
    batch_key: str
    unknowns: tuple[Unknown, ...]
    faults: tuple[object, ...]
    asks: tuple[Ask, ...]
    blocked: bool
    flags: tuple[str, ...]
    flops: float
    coverage: float
    loaded: bool
    """Whether a loader gave the batches."""
    candidates: tuple[str, ...]
    """Places of numbers that equal the batch size."""
    tests: Mapping[tuple[str, int], str]
    """Conditions that are not known and lead to different memory, as written."""
    notes: tuple[str, ...]
    bound: bool
    """Whether a condition that is not known was taken the way that needs more memory."""
    widest_conv: int
    """Bytes of the largest input of a convolution; 0 on the CPU back end."""
    layers: Mapping[str, LayerCall]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of one batch size on one back end, without margins, bytes and context aside."""

    parts_mib: Mapping[str, float]
    tensors_mib: float
    reserved_mib: float


@dataclass(slots=True)
class Analysis:
    """A script and its arguments; estimates are computed once for each question and kept."""

    script: Path
    args: tuple[str, ...]
    assumptions: Mapping[str, str] = field(default_factory=dict)
    project: Path | None = None
    """The folder that modules and documents may be read from; the script's own when None."""
    _outcomes: dict[tuple[Backend, int | None, Variant], Outcome] = field(default_factory=dict)
    _lines: dict[tuple[Backend, Variant], AffineTrace | None] = field(default_factory=dict)
    _choices: dict[tuple[Backend, Variant], choices.Choices] = field(default_factory=dict)
    _reserved: dict[tuple[Backend, Variant], Callable[[int], float | None]] = field(
        default_factory=dict
    )
    _found_key: str | None = None
    _fragmentation: dict[tuple[Backend, Variant], float] = field(default_factory=dict)

    def outcome(
        self, batch: int | None = None, backend: Backend = "gpu", variant: Variant = AS_WRITTEN
    ) -> Outcome:
        """Return what a run at this batch size finds."""
        key = (backend, batch, variant)
        found = self._outcomes.get(key)
        if found is None:
            found = self._outcomes[key] = self._run(backend, batch, variant)
        return found

    def _follow(self, setting: Setting) -> Outcome:
        return follow(self.script, self.args, setting, self.assumptions, self.project)

    def _run(self, backend: Backend, batch: int | None, variant: Variant) -> Outcome:
        if batch is None:
            found, self._choices[backend, variant] = choices.worst(
                self._follow,
                Setting(backend, variant=variant),
            )
            return found
        own = self.outcome(None, backend)
        setting = Setting(backend, batch, self._batch_key(own), own.batch, variant)
        found = self._chosen(setting)
        if found.batch == batch or found.blocked:
            return found
        why = "where the batch size is written could not be found: other sizes cannot be told"
        unknown = Unknown(str(self.script), own.source.line if own.source else 0, why)
        return replace(found, blocked=True, unknowns=(unknown, *found.unknowns))

    def _chosen(self, setting: Setting) -> Outcome:
        """Follow the script at another batch, with conditions taken as at its own."""
        own = self.outcome(None, setting.backend, setting.variant)
        taken = replace(setting, choices=self._choices[setting.backend, setting.variant])
        found = self._follow(taken)
        return replace(found, notes=own.notes, bound=own.bound)

    def _batch_key(self, own: Outcome) -> str:
        """Return the place where a batch size is put in.

        A loader's is known. Without one, each number in the script that equals the batch size is
        tried: the right one changes the batch that the network sees.
        """
        if own.batch_key or own.loaded or own.batch is None:
            return own.batch_key
        if self._found_key is None:
            other = own.batch + 3
            tries = (Setting("cpu", other, key, own.batch) for key in own.candidates)
            self._found_key = next(
                (one.batch_key for one in tries
                 if self._follow(one).batch == other), "",
            )  # fmt: skip
        return self._found_key

    def _at(self, batch: int, backend: Backend, variant: Variant) -> Outcome:
        own = self.outcome(None, backend, variant)
        return own if own.batch == batch else self.outcome(batch, backend, variant)

    def line(self, backend: Backend, variant: Variant) -> AffineTrace | None:
        """Return the trace as a function of the batch size, or None where it is not one."""
        key = (backend, variant)
        if key not in self._lines:
            self._lines[key] = self._fit(backend, variant)
        return self._lines[key]

    def _base(self, backend: Backend, variant: Variant) -> Outcome:
        """Return the script's own run, or one at two samples where its own batch cannot be."""
        own = self.outcome(None, backend, variant)
        return own if own.batch is None or own.batch > 0 else self.outcome(2, backend, variant)

    def _fit(self, backend: Backend, variant: Variant) -> AffineTrace | None:
        batch = self.outcome(None, backend, variant).batch
        if batch is None:
            return None
        # An even and an odd multiple tell apart what halves or squares the batch; one sample
        # alone takes other paths, so the line starts at two.
        first = max(2, batch)
        points = (first, 2 * first + 3)
        runs = [(one, self._at(one, backend, variant)) for one in points]
        if any(run.blocked or run.faults for _, run in runs):
            return None
        return affine([(one, run.trace) for one, run in runs])

    def fragmentation(self, backend: Backend, variant: Variant = AS_WRITTEN) -> float:
        """Return what the allocator reserves over what tensors need, by simulation.

        Measured at the script's own batch and at a larger one, the worse of the two: one figure
        for all batches keeps the reserve non-decreasing in the batch, which the allocator's own
        is not quite.
        """
        if backend == "cpu":
            return 1.0
        key = (backend, variant)
        if key not in self._fragmentation:
            base = self._base(backend, variant)
            traces = [base.trace]
            line = None if variant.amp else self.line(backend, variant)
            if line is not None and base.batch:
                traces.append(line.at(4 * base.batch))
            self._fragmentation[key] = max(
                allocator.reserved(one) / max(1, peak(one).total) for one in traces
            )
        return self._fragmentation[key]

    def explain(
        self, batch_size: int | None = None, backend: Backend = "gpu"
    ) -> Explanation | None:
        """Return where the memory comes from, by layer; None where it cannot be told."""
        outcome = self.outcome(batch_size, backend)
        return None if outcome.blocked else explain(outcome.trace, outcome.layers)

    def reserved_at(
        self, backend: Backend, variant: Variant = AS_WRITTEN
    ) -> Callable[[int], float | None]:
        """Return reserved MiB as a non-decreasing function of the batch size."""
        key = (backend, variant)
        if key not in self._reserved:
            self._reserved[key] = self._reserve(backend, variant)
        return self._reserved[key]

    def _reserve(self, backend: Backend, variant: Variant) -> Callable[[int], float | None]:
        line = self.line(backend, variant)
        factor = self.fragmentation(backend, variant) / MIB
        base = self._base(backend, variant)
        if line is not None and base.batch:
            hull, conv = envelope(line), base.widest_conv / base.batch
            return lambda batch: hull.at(batch) * factor + workspace_mib(conv * batch)

        def run_again(batch: int) -> float | None:
            outcome = self.outcome(batch, backend, variant)
            if outcome.blocked:
                return None
            return peak(outcome.trace).total * factor + workspace_mib(outcome.widest_conv)

        return run_again

    def _measure(self, outcome: Outcome, backend: Backend, variant: Variant) -> Footprint:
        found = peak(outcome.trace)
        parts: dict[str, float] = {kind: size / MIB for kind, size in found.parts.items()}
        tensors = found.total / MIB
        workspace = workspace_mib(outcome.widest_conv)
        parts["workspace"] += workspace
        reserved = tensors * self.fragmentation(backend, variant) + workspace
        return Footprint(parts, tensors + workspace, reserved)

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        """Estimate at a batch size (the script's own when None).

        `context_mib` replaces the default context; the CPU back end has none.
        """
        if batch_size is not None and batch_size < 1:
            raise UsageError(
                "Batch size must be positive",
                f"{batch_size} is not a batch size.",
                "Give 1 or more.",
            )
        first = self.outcome(None, backend, variant)
        given = batch_size is not None and batch_size != first.batch
        outcome = self.outcome(batch_size, backend, variant) if given else first
        memory = None
        if not outcome.blocked:
            memory = as_memory(
                self._measure(outcome, backend, variant),
                backend,
                "static",
                context_mib,
            )
        batch_source = BatchSource(str(self.script), 0, "given") if given else outcome.source
        return Estimate(
            script=str(self.script),
            batch_size=batch_size if given else outcome.batch,
            batch_source=batch_source,
            backend=backend,
            tier="static" if memory is not None else "unknown",
            coverage=outcome.coverage,
            memory=memory,
            unknowns=outcome.unknowns,
            errors=outcome.faults,  # type: ignore[arg-type]
            asks=outcome.asks,
            flops_per_step=outcome.flops,
            flags=(*outcome.flags, "bound") if outcome.bound else outcome.flags,
            notes=(*outcome.notes, *_notes(backend)),
        )


def _notes(backend: Backend) -> tuple[str, ...]:
    notes = [
        "Method: the script's syntax tree was followed over shapes through two training steps; "
        "memory is the peak of what would be alive at once (rules of Paddle 3.3.1)."
    ]
    if backend != "cpu":
        notes.append(
            f"Assumed until this host is calibrated: a context of {CONTEXT_MIB:.0f} MiB "
            f"(±{CONTEXT_SPREAD_MIB:.0f}), a convolution workspace as large as the largest input."
        )
    return tuple(notes)


def workspace_mib(widest_conv: float) -> float:
    """Return the allowance for convolution workspaces, MiB.

    cuDNN chooses by card and version; until a host is calibrated we allow the largest
    convolution's input once more, within Paddle's cap.
    """
    return min(widest_conv / MIB, WORKSPACE_CAP_MIB)


def as_memory(
    footprint: Footprint, backend: Backend, tier: Tier, context_mib: float | None
) -> Memory:
    """Return a footprint with context and range."""
    calibrated = context_mib is not None
    own = terms(backend)
    context = context_mib if context_mib is not None else own.context_mib
    spread = 0.0 if calibrated else own.context_spread_mib
    margin = MARGINS[tier] * footprint.reserved_mib
    total = context + footprint.reserved_mib
    parts = footprint.parts_mib
    return Memory(
        parameters_mib=parts["parameters"],
        gradients_mib=parts["gradients"],
        optimizer_mib=parts["optimizer"],
        activations_mib=parts["activations"],
        inputs_mib=parts["inputs"],
        workspace_mib=parts["workspace"],
        tensors_peak_mib=footprint.tensors_mib,
        reserved_mib=footprint.reserved_mib,
        context_mib=context,
        total_mib=total,
        low_mib=max(0.0, total - margin - spread),
        high_mib=total + margin + spread,
        context_spread_mib=spread,
    )


def analyse(
    script: Path,
    args: Sequence[str] = (),
    *,
    assumptions: Mapping[str, str] = MappingProxyType({}),
    project: Path | None = None,
) -> Analysis:
    """Read a script or notebook, and what it imports from its project (else its own folder).

    UsageError when it is missing, too large, not text, or has a syntax error.
    """
    source.read(script)
    analysis = Analysis(script, tuple(args), dict(assumptions), project)
    analysis.outcome(None, "gpu")
    return analysis


def follow(
    script: Path,
    args: Sequence[str],
    setting: Setting,
    assumptions: Mapping[str, str] = MappingProxyType({}),
    project: Path | None = None,
) -> Outcome:
    """Run a script's syntax tree once."""
    read = source.read(script)
    run = Run(setting, args=tuple(args), assumptions=assumptions)
    if setting.variant.amp:
        run.amp = Amp(setting.variant.amp)
    machine = Interpreter(run, script, project or script.parent, library(run))
    machine.builtins = builtins(machine)
    run.call, run.calls = machine.call, machine
    collecting = gc.isenabled()
    # Reference counts decide lifetimes; a collection in between would make them depend on luck.
    gc.disable()
    try:
        _guarded(machine, read)
        machine.conclude()
        trace = run.ledger.close()
    finally:
        run.ledger.open = False
        if collecting:
            gc.enable()
    run.notes.extend(read.notes)
    return _outcome(run, trace)


def _guarded(machine: Interpreter, script: source.Script) -> None:
    run = machine.run
    try:
        scope = machine.run_script(script)
        run.ledger.open = False
        del scope
    except values.Stop:
        pass
    except values.Blocked as blocked:
        run.block(blocked.unknown)
    except values.ShapeFault as fault:
        run.fault(fault.message, fault.shapes)
    except values.UserRaise as raised:
        if run.cycles < CYCLES:
            run.fault(str(raised))
    except RecursionError:
        run.block(run.unknown("the script is nested too deep to follow"))


def _outcome(run: Run, trace: Trace) -> Outcome:
    blocking = run.blocking
    unknowns = list(run.unknowns.values())
    if blocking is None and run.cycles < CYCLES and not run.faults:
        blocking = unknowns[0] if unknowns else run.unknown("no training step was found")
    if blocking is not None:
        key = (blocking.file, blocking.line, blocking.reason)
        unknowns = [blocking, *(u for u in unknowns if (u.file, u.line, u.reason) != key)]
    seen = len(run.lines_seen) or 1
    flops = run.flops_done * (3 if run.backwards else 1)
    return Outcome(
        trace=trace,
        batch=run.batch_seen,
        source=run.batch_source,
        batch_key=run.batch_key,
        unknowns=tuple(Unknown(u.file, u.line, u.reason) for u in unknowns),
        faults=tuple(run.faults.values()),
        asks=tuple(run.asks.values()) if blocking is not None else (),
        blocked=blocking is not None or (bool(run.faults) and run.cycles < CYCLES),
        flags=tuple(sorted(run.flags)),
        flops=flops,
        coverage=max(0.0, 1.0 - len(run.lines_lost) / seen),
        loaded=run.loaders > 0,
        candidates=tuple(key for key, one in run.written.items() if one == run.batch_seen)[:8],
        tests=run.tests,
        notes=tuple(run.notes),
        bound=False,
        widest_conv=run.widest_conv,
        layers=run.layers,
    )

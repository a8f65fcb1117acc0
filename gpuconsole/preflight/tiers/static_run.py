"""One abstract run of a script, from its text to what was found."""

from __future__ import annotations

import gc
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from gpuconsole.core.estimate import Ask, BatchSource, ScriptFault, Unknown
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import values
from gpuconsole.preflight.interpreter.frontend import apply_variant, batch_size_names, source
from gpuconsole.preflight.interpreter.libraries.registry import library
from gpuconsole.preflight.interpreter.machine.calls import FOLLOW_ERRORS
from gpuconsole.preflight.interpreter.machine.interpreter import TENSOR_STEPS, Interpreter
from gpuconsole.preflight.interpreter.machine.run_state.progress import CYCLES, MAX_GROWING
from gpuconsole.preflight.interpreter.machine.run_state.run import SMALL, Run, Trail
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting
from gpuconsole.preflight.interpreter.machine.run_state.tape import LayerCall
from gpuconsole.preflight.interpreter.paddle.training import static_graph
from gpuconsole.preflight.memory.liveness import peak
from gpuconsole.preflight.memory.trace import Trace

MAX_DRAFTS = 3
"""Times a static program is written again for the shapes that it turns out to be fed with."""
MOST_BEFORE = 0.05
"""Share by which what comes before a training may hold more, where part of it is not known."""
LEAST_GROWTH = 0.001
"""Share of the peak that counts, of what is kept by and by."""
FEW_GROWTH = 0.5
"""The same for what is no more than `SMALL`: a loss in a list changes few answers."""
STEPS, EPOCHS = 1000, 100
"""How many of them a training may have, to tell if what each keeps counts."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one abstract run found."""

    trace: Trace
    batch: int | None
    source: BatchSource | None
    batch_key: str
    batch_beside: tuple[str, ...]
    """Keys of the numbers that are changed with it."""
    unknowns: tuple[Unknown, ...]
    faults: tuple[ScriptFault, ...]
    asks: tuple[Ask, ...]
    answered: Mapping[str, tuple[str, int]]
    """Answers that were used, by the name they were given for: where first."""
    blocked: bool
    outside: bool
    """Whether what blocks was met outside all conditions that are not known."""
    in_any_case: bool
    """Whether it was also met before all of them."""
    flags: tuple[str, ...]
    flops: float
    moved: float
    """Bytes read and written by the operators of one step."""
    kernels: int
    """Kernels that one step launches, about."""
    steps: int
    """What following it took, as its budget counts."""
    coverage: float
    short_epochs: bool
    """Whether a loader has fewer batches than it could keep waiting."""
    loaded: bool
    """Whether a loader gave the batches."""
    candidates: tuple[str, ...]
    """Places of numbers that equal the batch size."""
    named: tuple[values.Sourced, ...]
    """Numbers called a batch size, where none equals what the network sees."""
    tests: Mapping[tuple[str, int], str]
    """Conditions that are not known and lead to different memory, as written."""
    notes: tuple[str, ...]
    bound: bool
    """Whether a condition that is not known was taken the way that needs more memory."""
    widest_conv: int
    """Bytes of the largest input of a convolution; 0 on the CPU back end."""
    layers: Mapping[str, LayerCall]
    recomputed: tuple[tuple[str, str, int], ...]
    """Blocks that a variant recomputes: path of their container, class, how many."""
    mishap: str
    """An error of the analysis itself, said to users as something unknown; "" without one."""
    files: frozenset[str]
    """What was read beside the script: modules of its project and documents."""


def follow(
    script: Path,
    args: Sequence[str],
    setting: Setting,
    assumptions: Mapping[str, str] = MappingProxyType({}),
    project: Path | None = None,
    trail: Trail | None = None,
    start: Path | None = None,
) -> Outcome:
    """Run a script's syntax tree once; again where a static program is fed other shapes."""
    read = source.read(script)
    fed: Mapping[str, tuple[int, ...]] = {}
    for _ in range(MAX_DRAFTS):
        try:
            run = Run(setting, tuple(args), assumptions, trail)
            run.program.fed = fed
            return _once(read, script, run, (project, start))
        except static_graph.OtherShapes as other:
            fed = other.shapes
    changing = Run(setting)
    changing.block(changing.unknown("a static program is fed with shapes that change"))
    return _outcome(changing, changing.tape.ledger.close(), frozenset(), ())


def _once(
    read: source.Script, script: Path, run: Run, folders: tuple[Path | None, Path | None]
) -> Outcome:
    apply_variant.begin(run)
    project, start = folders
    machine = Interpreter(run, script, project or script.parent, library(run), start)
    collecting = gc.isenabled()
    # Reference counts decide lifetimes; a collection in between would make them depend on luck.
    gc.disable()
    try:
        _guarded(machine, read)
        machine.imports.conclude()
        trace = run.tape.ledger.close()
    finally:
        run.tape.ledger.open = False
        if collecting:
            gc.enable()
    run.findings.notes.extend(read.notes)
    return _outcome(run, trace, frozenset(machine.imports.read), batch_size_names.named(run, read))


def _guarded(machine: Interpreter, script: source.Script) -> None:
    run = machine.run
    try:
        scope = machine.imports.run_script(script)
        run.tape.ledger.open = False
        del scope
    except values.Stop:
        pass
    except values.TooMuch as ended:
        # The rest may need more than the training that was followed.
        run.give_up(ended.unknown)
    except values.Blocked as blocked:
        run.block(blocked.unknown)
    except values.ShapeFault as fault:
        _failed(run, fault.message, fault.shapes)
    except values.UserRaise as raised:
        if run.progress.cycles < CYCLES:
            run.file, run.line = getattr(raised, "place", (run.file, run.line))
            _failed(run, str(raised))
    except RecursionError:
        run.block(run.unknown("the script is nested too deep to follow"))
    except FOLLOW_ERRORS as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        run.findings.mishap = (
            f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {error}"
        )
        run.block(run.unknown(msg("the analysis does not follow this: {what}", what=error)))
    except MemoryError:
        run.block(run.unknown("the script makes more than the analysis can hold"))


def _failed(run: Run, message: str, shapes: Sequence[tuple[int, ...]] = ()) -> None:
    """Report what ended the script: where that is not certain its memory is unknown."""
    failed = run.fault(message, shapes)
    if not run.findings.faults:
        run.block(failed)


def _unfollowed(run: Run, unknowns: Sequence[values.Unknown]) -> values.Unknown | None:
    """Return why a run shows no steady state: what it did is not what needs the memory.

    Training is followed where an optimizer has stepped often enough, other work where networks
    have run and nothing that was called with their tensors is unknown.
    """
    if run.progress.cycles < CYCLES:
        return unknowns[0] if unknowns else run.unknown("no training step was found")
    if run.progress.optimizers:
        return None
    if run.findings.lost is not None:
        return run.findings.lost
    if not run.findings.forwards and not run.progress.backwards:
        return unknowns[0] if unknowns else run.unknown("no forward pass of a network was found")
    return None


def _growing(run: Run, trace: Trace) -> values.Unknown | None:
    """Return why memory that the script fills by and by is not known: that rests on how long."""
    progress = run.progress
    endless = progress.growing > MAX_GROWING
    step = progress.growth if endless else 0
    epoch = max(progress.growth_by_epoch, progress.left_by_epoch)
    batches = progress.unseen
    if not (progress.growth or epoch or batches):
        return None
    most = peak(trace).total
    least = LEAST_GROWTH * most
    if progress.growth <= SMALL and progress.growth * STEPS > FEW_GROWTH * most:
        # A number for each step is much beside a network of a few hundred numbers.
        step = progress.growth
    if step * STEPS > least:
        return run.gap(msg("something keeps what each step makes: memory grows by {mib} MiB a step",
                           mib=_mib(step)))  # fmt: skip
    if epoch * EPOCHS > least:
        return run.gap(msg("something keeps what each epoch makes: memory grows by {mib} MiB each",
                           mib=_mib(epoch)))  # fmt: skip
    if batches > least:
        return run.gap("something keeps what each batch makes, and not all batches were followed")
    return None


def _before_training(run: Run, trace: Trace) -> values.Unknown | None:
    """Return why memory is not known although training was followed: what came before it holds more
    than its steps do, and of some work with tensors the result is not known."""
    findings, ends = run.findings, run.progress.closed_at
    is_sure = findings.lost is None and findings.unsized is None
    if is_sure or not run.progress.optimizers or len(ends) < CYCLES:
        return None
    first, born, live, steps, before = ends[0], 0, 0, 0, 0
    for event in trace.events:
        live += trace.sizes[event] if event >= 0 else -trace.sizes[~event]
        born = max(born, event + 1)
        if born > first:
            steps = max(steps, live)
        else:
            before = max(before, live)
    if before <= steps * (1 + MOST_BEFORE):
        return None
    return run.gap(
        "what comes before its training holds more than that, and not all of it is known"
    )


def _mib(nbytes: int) -> str:
    return f"{nbytes / MIB:.2f}" if nbytes > MIB / 200 else "less than 0.01"


def _outcome(
    run: Run, trace: Trace, files: frozenset[str], named: tuple[values.Sourced, ...]
) -> Outcome:
    unknowns = list(run.findings.unknowns.values())
    blocking = run.findings.blocking or (
        None if run.findings.faults else _unfollowed(run, unknowns)
    )
    if blocking is None and not run.findings.faults:
        blocking = _growing(run, trace) or _before_training(run, trace)
    if blocking is not None:
        key = (blocking.file, blocking.line, blocking.reason)
        unknowns = [blocking, *(u for u in unknowns if (u.file, u.line, u.reason) != key)]
    seen = len(run.findings.lines_seen) or 1
    # A backward pass reads and writes, and computes, about twice what its forward pass does.
    passes = 3 if run.progress.backwards else 1
    return Outcome(
        trace=trace,
        batch=run.batch.seen,
        source=run.batch.source,
        batch_key=run.batch.key,
        batch_beside=run.batch.beside,
        unknowns=tuple(Unknown(u.file, u.line, u.reason) for u in unknowns),
        faults=tuple(run.findings.faults.values()),
        asks=tuple(run.findings.asks.values()) if blocking is not None else (),
        answered=run.answers.met,
        blocked=blocking is not None
        or (bool(run.findings.faults) and run.progress.cycles < CYCLES),
        outside=run.findings.outside,
        in_any_case=run.findings.in_any_case,
        flags=tuple(sorted(run.findings.flags)),
        flops=run.tape.flops_done * passes,
        moved=run.tape.bytes_done * passes,
        kernels=_kernels(run, trace),
        coverage=max(0.0, 1.0 - len(run.findings.lines_lost) / seen),
        steps=run.steps + TENSOR_STEPS * len(run.tape.ledger.sizes),
        short_epochs=run.batch.short_epochs,
        loaded=run.batch.loaders > 0,
        candidates=tuple(
            key for key, value in run.batch.written.items() if value == run.batch.seen
        )[:8],
        named=named,
        tests=run.findings.tests,
        notes=tuple(run.findings.notes),
        bound=False,
        widest_conv=run.tape.widest_conv,
        recomputed=tuple(run.mode.recomputed),
        mishap=run.findings.mishap,
        files=files,
        layers=run.tape.layers,
    )


def _kernels(run: Run, trace: Trace) -> int:
    """Count the kernels of the last step by the blocks that they fill; views fill none.

    A gradient counts twice: once where it is computed, once where its parameter is updated.
    """
    if len(run.progress.closed_at) < 2:
        return 0
    born = Counter(trace.kinds[run.progress.closed_at[-2] : run.progress.closed_at[-1]])
    return born["activations"] + born["workspace"] + 2 * born["gradients"]

"""One script, understood once and estimated at any batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType

from gpuconsole.core.estimate import BatchSource, Estimate, Explanation, Memory, Unknown
from gpuconsole.core.fleet import Backend
from gpuconsole.core.submission.script_edits import EditKind, apply_edits
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.preflight.accuracy.script_digest import modules
from gpuconsole.preflight.batch_sizes import require_batch_size
from gpuconsole.preflight.explain import explain
from gpuconsole.preflight.interpreter.domain.values import ARGUMENT
from gpuconsole.preflight.interpreter.frontend import source
from gpuconsole.preflight.interpreter.machine.run_state.run import MAX_STEPS, Trail
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting
from gpuconsole.preflight.memory import allocator
from gpuconsole.preflight.memory.backends import MEASURED, terms, unproven
from gpuconsole.preflight.memory.footprint import Footprint, as_memory, workspace_mib
from gpuconsole.preflight.memory.liveness import envelope, peak
from gpuconsole.preflight.memory.trace import AffineTrace, affine
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant
from gpuconsole.preflight.rewriting import rewrite
from gpuconsole.preflight.rewriting.draft import Rewrite
from gpuconsole.preflight.suggestion_edits import Change, set_number
from gpuconsole.preflight.tiers import static_choices
from gpuconsole.preflight.tiers.static_run import Outcome, follow

LONG_STEPS = 60_000
"""A script with a run of more steps is followed for some suggestions only."""
SEARCH_STEPS = 400_000
"""Steps spent on one search: for the place of the batch size, or for the largest batch."""
TRY_STEPS = 900_000
"""Steps spent on changes of the script that would help: the four ways to compute otherwise are all
tried of a decoder of 96 layers written out by hand (225,000 steps, 1 s of a processor each)."""
_Key = tuple[Backend, int | None, Variant, bool]
"""Back end, batch size, variant, and whether data are taken to be without end."""


@dataclass(slots=True)
class Analysis:
    """A script and its arguments; estimates are computed once for each question and kept."""

    script: Path
    args: tuple[str, ...]
    assumptions: Mapping[str, str] = field(default_factory=dict)
    project: Path | None = None
    """The folder that modules and documents may be read from; the script's own when None."""
    trail: Trail | None = None
    backend: Backend = "gpu"
    """The back end that it is followed for where none is named: the one that is asked about."""
    once: bool = False
    """Whether the script is followed once only, and no further where that came to no end."""
    texts: Mapping[Path, str] = field(default_factory=dict)
    """Files with the text that is read in their place: that of the shipped copy."""
    start: Path | None = None
    """The folder that the script is started in; the project's own when None."""
    _first: dict[Backend, Outcome] = field(default_factory=dict)
    """The script as it is, conditions that are not known taken one way."""
    _outcomes: dict[_Key, Outcome] = field(default_factory=dict)
    _lines: dict[Backend, AffineTrace | None] = field(default_factory=dict)
    _choices: dict[Backend, static_choices.Choices] = field(default_factory=dict)
    _reserved: dict[Backend, Callable[[int], float | None]] = field(default_factory=dict)
    _needs: dict[_Key, float] = field(default_factory=dict)
    """MiB reserved by runs with short data."""
    _found_key: str | None = None
    _fragmentation: dict[Backend, float] = field(default_factory=dict)
    _rows: int = 1
    """Rows that the network sees for each sample, where they are not the same."""

    def outcome(
        self,
        batch: int | None = None,
        backend: Backend = "gpu",
        variant: Variant = AS_WRITTEN,
        *,
        endless: bool = False,
    ) -> Outcome:
        """Return what a run at this batch size finds; `endless` takes data to be without end."""
        key = (backend, batch, variant, endless)
        outcome = self._outcomes.get(key)
        if outcome is None:
            outcome = self._outcomes[key] = self._given_up() or self._run(*key)
        return outcome

    def _given_up(self) -> Outcome | None:
        """Return a run that ended with its budget: another one would, and take as long again."""
        blocked = (outcome for outcome in self._outcomes.values() if outcome.blocked)
        return next(
            (outcome for outcome in blocked if self.once or outcome.steps >= MAX_STEPS), None
        )

    def brief(self) -> Analysis:
        """Return what following the script once tells: where its batch size is written, if no more.
        A measured tier asks for no more, and tells the memory itself."""
        first = self._begun(self.backend)
        if self.once or not (first.tests or first.blocked):
            return self
        return Analysis(
            self.script, self.args, self.assumptions, self.project, self.trail, self.backend,
            once=True, texts=self.texts, start=self.start, _first=self._first,
        )  # fmt: skip

    def _begun(self, backend: Backend) -> Outcome:
        if backend not in self._first:
            self._first[backend] = self._follow(Setting(backend))
        return self._first[backend]

    def files(self) -> frozenset[str]:
        """Return the files that were read beside the script; a change of one makes this analysis
        stale."""
        runs = (*self._first.values(), *self._outcomes.values())
        return frozenset().union(*(run.files for run in runs))

    def _follow(self, setting: Setting) -> Outcome:
        with source.in_place_of(self.texts):
            outcome = follow(
                self.script, self.args, setting, self.assumptions, self.project, self.trail,
                self.start,
            )  # fmt: skip
        if self._rows > 1 and outcome.batch and outcome.batch % self._rows == 0:
            return replace(outcome, batch=outcome.batch // self._rows)
        return outcome

    def _by_name(self, own: Outcome) -> Outcome:
        """Return the script's own run with the batch size that a name tells.

        A number that is called so is one where what the network sees goes with it.
        """
        seen = own.batch or 0
        for number in own.named if seen and not own.blocked else ():
            other = number + 3
            outcome = self._follow(Setting("cpu", other, number.key, int(number)))
            if outcome.batch and outcome.batch * number == seen * other:
                self._rows *= seen // number
                place = BatchSource(number.file, number.line, number.kind)
                return replace(
                    own, batch=int(number), batch_key=number.key, batch_beside=(), source=place
                )
        return own

    def _run(self, backend: Backend, batch: int | None, variant: Variant, endless: bool) -> Outcome:
        if batch is None:
            assert variant == AS_WRITTEN, "a variant is tried at a batch size"
            outcome, self._choices[backend] = self._begun(backend), {}
            if not self.once:
                follow, setting = self._follow, Setting(backend)
                outcome, self._choices[backend] = static_choices.worst(follow, setting, outcome)
            return self._by_name(outcome)
        own = self.outcome(None, backend)
        key = self._batch_key(own)
        setting = Setting(backend, batch, key, own.batch, variant, endless=endless)
        outcome = self._chosen(setting)
        if outcome.faults and not own.faults and not key.startswith(ARGUMENT):
            return self._put_in(outcome, batch, key)
        if outcome.batch == batch or outcome.blocked:
            return outcome
        why = "where the batch size is written could not be found: other sizes cannot be predicted"
        unknown = Unknown(str(self.script), own.source.line if own.source else 0, why)
        return replace(outcome, blocked=True, unknowns=(unknown, *outcome.unknowns))

    def _put_in(self, outcome: Outcome, batch: int, key: str) -> Outcome:
        """Return a run that fails because of the batch size that was put into it.

        The script is not wrong: its batch size may be written at other places too.
        """
        fault = outcome.faults[0]
        place = key.rpartition(":")[0]
        where = f" at {Path(place).name}" if place else ""
        why = f"with a batch of {batch} put in{where} alone it fails: {fault.message}"
        unknown = Unknown(fault.file, fault.line, why)
        return replace(outcome, blocked=True, faults=(), unknowns=(unknown, *outcome.unknowns))

    def _chosen(self, setting: Setting) -> Outcome:
        """Follow the script at another batch, with conditions taken as at its own."""
        own = self.outcome(None, setting.backend)
        taken = replace(setting, choices=self._choices[setting.backend])
        outcome = self._follow(taken)
        return replace(outcome, notes=own.notes, bound=own.bound)

    def _batch_key(self, own: Outcome) -> str:
        """Return the place where a batch size is put in.

        A loader's is known. Without one, each number in the script that equals the batch size is
        tried: the right one changes the batch that the network sees.
        """
        if own.batch_key or own.loaded or own.batch is None:
            return own.batch_key
        if self._found_key is None:
            other = own.batch + 3
            self._found_key, spent = "", 0
            for key in own.candidates:
                outcome = self._follow(Setting("cpu", other, key, own.batch))
                spent += outcome.steps
                if outcome.batch == other:
                    self._found_key = key
                if outcome.batch == other or spent > SEARCH_STEPS // 2:
                    break
        return self._found_key

    def tries(self, backend: Backend) -> int | None:
        """Return how many changes of the script may be followed; None for as many as there are."""
        steps = self.outcome(None, backend).steps
        return TRY_STEPS // steps if steps > LONG_STEPS else None

    def _endless(self, batch: int, backend: Backend) -> Outcome:
        """Return the run at a batch with full queues: the line holds for any length of the data."""
        own = self.outcome(None, backend)
        if own.batch == batch and not own.short_epochs:
            return own
        return self.outcome(batch, backend, endless=True)

    def line(self, backend: Backend) -> AffineTrace | None:
        """Return the trace as a function of the batch size, or None where it is not one."""
        if backend not in self._lines:
            self._lines[backend] = self._fit(backend)
        return self._lines[backend]

    def _base(self, backend: Backend) -> Outcome:
        """Return the script's own run, or one at two samples where its own batch cannot be."""
        own = self.outcome(None, backend)
        return own if own.batch is None or own.batch > 0 else self.outcome(2, backend)

    def _fit(self, backend: Backend) -> AffineTrace | None:
        batch = self.outcome(None, backend).batch
        if batch is None:
            return None
        # An even and an odd multiple tell apart what halves or squares the batch; one sample
        # alone takes other paths, so the line starts at two.
        first = max(2, batch)
        points = (first, 2 * first + 3)
        runs = [(point, self._endless(point, backend)) for point in points]
        if any(run.blocked or run.faults for _, run in runs):
            return None
        return affine([(batch, run.trace) for batch, run in runs])

    def _uses(self, outcome: Outcome) -> Iterator[str]:
        """Give, for each answer of the user, where the analysis has used it."""
        for name in self.assumptions:
            file, line = outcome.answered.get(name, ("", 0))
            place = f"used at {Path(file).name}:{line}" if file else "not needed"
            yield f"Answer for {clean(name[:80])}: {place}."

    def fragmentation(self, backend: Backend) -> float:
        """Return what the allocator reserves over what tensors need, by simulation.

        Measured at the script's own batch and at a larger one, the worse of the two: one figure
        for all batches keeps the reserve non-decreasing in the batch, which the allocator's own
        is not quite.
        """
        if backend == "cpu":
            return 1.0
        if backend not in self._fragmentation:
            base, line = self._base(backend), self.line(backend)
            traces = [base.trace]
            if line is not None and base.batch:
                traces.append(line.at(4 * base.batch))
            own = terms(backend)
            self._fragmentation[backend] = max(
                allocator.fragmentation(trace, own) for trace in traces
            )
        return self._fragmentation[backend]

    def set_batch(self, size: int) -> Change:
        """Return how another batch size is put into the job's arguments or the shipped copy."""
        own = self.outcome(None, self.backend)
        if own.source is None:
            return Change()
        place = own.source
        key = self._batch_key(own)
        with source.in_place_of(self.texts):
            return set_number(key, place.file, place.line, self.args, size, own.batch_beside)

    def rewritten(self, kind: EditKind) -> Rewrite:
        """Return how a change is put into the shipped copy, or where to make it by hand."""
        with source.in_place_of(self.texts):
            rewrite_ = rewrite(kind, self._modules())
        runs = (run for (_, _, variant, _), run in self._outcomes.items() if variant.recompute)
        tried = next(runs, None)
        if kind == "recompute" and rewrite_.edits and tried is not None:
            blocks = {path.rpartition(".")[2] for path, _, _ in tried.recomputed}
            if not blocks <= rewrite_.names:
                return replace(rewrite_, edits=(), why="not all repeated blocks are in plain loops")
        return rewrite_

    def accumulated(self, steps: int, size: int) -> tuple[Change, Rewrite]:
        """Return how gradients are accumulated over so many batches of a size: how the size is put
        in, and how the loop is changed behind that."""
        put = self.set_batch(size)
        texts = dict(self.texts)
        with source.in_place_of(self.texts):
            for file in dict.fromkeys(edit.file for edit in put.edits):
                path, edits = (
                    Path(file).resolve(),
                    [edit for edit in put.edits if edit.file == file],
                )
                texts[path] = apply_edits(source.text_of(path), edits, file)
        with source.in_place_of(texts):
            change = rewrite("accumulate", self._modules(), steps)
        if put.args is None and not put.edits:
            change = replace(change, edits=(), why="where the batch size is written is not certain")
        return put, change

    def _modules(self) -> tuple[Path, ...]:
        """Return the script and the modules of its project that it imports."""
        return modules(self.script, self.project or self.script.parent)

    def explain(
        self, batch_size: int | None = None, backend: Backend = "gpu"
    ) -> Explanation | None:
        """Return where the memory comes from, by layer; None if unknown."""
        outcome = self.outcome(batch_size, backend)
        return None if outcome.blocked else explain(outcome.trace, outcome.layers)

    def reserved_at(self, backend: Backend) -> Callable[[int], float | None]:
        """Return reserved MiB as a non-decreasing function of the batch size."""
        if backend not in self._reserved:
            self._reserved[backend] = self._reserve(backend)
        return self._reserved[backend]

    def _reserve(self, backend: Backend) -> Callable[[int], float | None]:
        line = self.line(backend)
        factor = self.fragmentation(backend) / MIB
        base = self._base(backend)
        if line is not None and base.batch:
            hull, conv = envelope(line), base.widest_conv / base.batch

            def at(batch: int) -> float:
                size = hull.at(batch) * factor + workspace_mib(conv * batch)
                # A run with too little data for full queues needs less, and so does any smaller
                # batch.
                return min((size, *self._short(batch, backend, factor)))

            return at

        return self._by_search(backend, factor)

    def _by_search(self, backend: Backend, factor: float) -> Callable[[int], float | None]:
        """Return reserved MiB by following the script again at each batch that is asked for."""
        reserved: dict[int, float | None] = {}
        spent = 0

        def run_again(batch: int) -> float | None:
            nonlocal spent
            if batch not in reserved:
                if spent > SEARCH_STEPS:
                    return _between(reserved, batch)
                outcome = self.outcome(batch, backend)
                spent += outcome.steps
                reserved[batch] = None if outcome.blocked else _reserved(outcome, factor)
            return reserved[batch]

        return run_again

    def _short(self, batch: int, backend: Backend, factor: float) -> Iterator[float]:
        """Give what the runs followed at no smaller batch reserve, where their data were short."""
        for key, outcome in self._outcomes.items():
            where, at, variant, endless = key
            size = outcome.batch if at is None else at
            if (where, variant, endless) != (backend, AS_WRITTEN, False) or outcome.blocked:
                continue
            if outcome.short_epochs and size is not None and size >= batch:
                if key not in self._needs:
                    self._needs[key] = _reserved(outcome, factor)
                yield self._needs[key]

    def _measure(self, outcome: Outcome, backend: Backend, variant: Variant) -> Footprint:
        at_peak = peak(outcome.trace)
        parts: dict[str, float] = {kind: size / MIB for kind, size in at_peak.parts.items()}
        tensors = at_peak.total / MIB
        workspace = workspace_mib(outcome.widest_conv)
        parts["workspace"] += workspace
        written = variant == AS_WRITTEN
        factor = (
            self.fragmentation(backend)
            if written
            else allocator.fragmentation(outcome.trace, terms(backend))
        )
        return Footprint(parts, tensors + workspace, tensors * factor + workspace)

    def _either_way(
        self, memory: Memory, batch: int, backend: Backend, context_mib: float | None
    ) -> Memory:
        """Return an estimate with a range that holds as well where the loader alone has the batch.

        A number that is the loader's batch may say how much data there is, too: `BATCHES * BATCH`
        rows. Where the loader alone is changed the data stay as they are, and fewer batches wait.
        """
        own = self.outcome(None, backend)
        if not own.batch_key or own.batch_key.startswith(ARGUMENT):
            return memory
        at_loader = self._chosen(Setting(backend, batch, "", own.batch))
        if at_loader.blocked or at_loader.faults or at_loader.batch != batch:
            return memory
        other = as_memory(
            self._measure(at_loader, backend, AS_WRITTEN), backend, "static", context_mib
        )
        return replace(
            memory,
            low_mib=min(memory.low_mib, other.low_mib),
            high_mib=max(memory.high_mib, other.high_mib),
        )

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
        require_batch_size(batch_size)
        first = self.outcome(None, backend)
        given = batch_size is not None and batch_size != first.batch
        outcome = first
        if given or variant != AS_WRITTEN:
            outcome = self.outcome(batch_size or first.batch, backend, variant)
        memory = None
        if not outcome.blocked:
            memory = as_memory(
                self._measure(outcome, backend, variant),
                backend,
                "static",
                context_mib,
            )
            if given and batch_size and variant == AS_WRITTEN and outcome.short_epochs:
                memory = self._either_way(memory, batch_size, backend, context_mib)
        batch_source = BatchSource(str(self.script), 0, "given") if given else outcome.source
        method = (
            ()
            if memory is None
            else _notes(backend, context_mib, trains=bool(outcome.trace.backwards))
        )
        return Estimate(
            script=str(self.script),
            batch_size=batch_size if given else outcome.batch,
            batch_source=batch_source,
            backend=backend,
            tier="static" if memory is not None else "unknown",
            coverage=outcome.coverage,
            memory=memory,
            unknowns=outcome.unknowns,
            errors=outcome.faults,
            asks=outcome.asks,
            flops_per_step=outcome.flops,
            bytes_per_step=outcome.moved,
            kernels_per_step=outcome.kernels,
            flags=(*outcome.flags, "bound") if outcome.bound else outcome.flags,
            notes=(*outcome.notes, *self._uses(outcome), *method),
        )


def _reserved(outcome: Outcome, factor: float) -> float:
    return peak(outcome.trace).total * factor + workspace_mib(outcome.widest_conv)


def _between(reserved: Mapping[int, float | None], batch: int) -> float | None:
    """Return a bound on what a batch needs from what a larger one and, if known, a smaller one do.

    The peak is the largest of functions that are straight in the batch: between two batches it
    never lies above the line that joins them.
    """
    sizes = {size_: size for size_, size in reserved.items() if size is not None}
    above = min((each for each in sizes if each > batch), default=None)
    below = max((each for each in sizes if each < batch), default=None)
    if above is None or below is None:
        return None if above is None else sizes[above]
    share = (batch - below) / (above - below)
    return sizes[below] + share * (sizes[above] - sizes[below])


def _notes(backend: Backend, context_mib: float | None, *, trains: bool) -> tuple[str, ...]:
    through = "its first training steps" if trains else "its forward passes; nothing is trained"
    notes = [
        msg(
            "Method: the script's syntax tree was followed over shapes through {way_text}; "
            "memory is the peak of what would be alive at once (rules of Paddle 3.3.1).",
            way_text=through,
        )
    ]
    if backend != "cpu":
        notes.append("Assumed: a convolution workspace as large as the largest input.")
    own = terms(backend)
    if backend != "cpu" and context_mib is None:
        notes.append(
            f"Not calibrated: a context of {own.context_mib:.0f} MiB "
            f"(±{own.context_spread_mib:.0f}) is assumed"
            + ("; `gpuconsole calibrate HOST` measures it." if backend in MEASURED else ".")
        )
    return (*notes, *filter(None, [unproven(backend)]))


def analyse(
    script: Path,
    args: Sequence[str] = (),
    *,
    assumptions: Mapping[str, str] = MappingProxyType({}),
    project: Path | None = None,
    trail: Trail | None = None,
    backend: Backend = "gpu",
    texts: Mapping[Path, str] = MappingProxyType({}),
    start: Path | None = None,
) -> Analysis:
    """Read a script or notebook, and what it imports from its project (else its own folder).

    It is started in the folder `start`, the project's own when None.
    `texts` are read in place of files, as the shipped copy has them. `trail` receives the position
    of each run, statement by statement. It is followed at once for `backend`, for others when they
    are asked about. UsageError when it is missing, too large, not text, or has a syntax error.
    """
    with source.in_place_of(texts):
        source.read(script)
    analysis = Analysis(
        script,
        tuple(args),
        dict(assumptions),
        project,
        trail,
        backend,
        texts=dict(texts),
        start=start,
    )
    analysis.brief()
    return analysis

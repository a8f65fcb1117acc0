"""What is asked about scripts. Each question is answered where scripts are read.

A question travels there as it is; its answer comes back as plain values of the type that
`answers` names. Where following the script was ended by a limit, `unread` says what that means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, TypeVar, cast

from gpuconsole import preflight
from gpuconsole.core.estimate import MEASURED_TIERS, Report, Unknown
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.script_edits import EditKind
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.preflight.option_spellings import Options
from gpuconsole.preflight.suggestion_edits import Change
from gpuconsole.session.reading import recordings
from gpuconsole.session.reading.analyses import located
from gpuconsole.session.reading.recordings import Mode

if TYPE_CHECKING:
    from gpuconsole.session.reading.analyses import Analyses

Answer = TypeVar("Answer")
Answered = TypeVar("Answered", covariant=True)


class Question(Protocol[Answered]):
    """Something asked about a script."""

    answers: ClassVar[object]
    """The type of the answer."""

    def answer(self, analyses: Analyses) -> Answered:
        """Answer it where scripts are read. ConsoleError where there is no answer."""
        ...

    def unread(self, why: Unknown) -> Answered:
        """Return the answer where following the script was ended, or raise RefusedError."""
        ...


@dataclass(frozen=True, slots=True)
class Estimating:
    """How much memory a task needs, held against cards."""

    answers: ClassVar[object] = Report
    task: Task
    cards: tuple[preflight.Card, ...]
    tier: str = ""
    remembered: Mapping[str, str] = field(default_factory=dict)
    """Answers of earlier times; the task's own win."""
    calibration: preflight.Calibration | None = None
    """What was seen of runs and cards, which corrects the answer."""
    state: Path | None = None
    """The folder that recordings of scripts are in."""
    images: frozenset[str] | None = None
    """The images that the task may run in, None where that is not known."""
    explain: bool = False
    curve: bool = False

    def answer(self, analyses: Analyses) -> Report:
        """Estimate. UsageError for a script that cannot be read, or a task's own answer that is
        for nothing in it; RefusedError for a tier that was not measured."""
        task = located(self._completed())
        analysis = analyses.of(task) if task.script else None
        if analysis is not None:
            preflight.require_known(analysis, self.task.assumptions)
            analysis = analysis.brief() if self.tier in MEASURED_TIERS else analysis
        measured = self._measured(task, analysis)
        report = preflight.report(
            task, self.cards, backend=self._backend, analysis=analysis,
            calibration=self.calibration, measured=measured,
        )  # fmt: skip
        report = preflight.noted(report, task, self.remembered)
        if self.explain and analysis is not None:
            explanation = analysis.explain(task.batch_size, self._backend)
            report = replace(report, explanation=explanation)
        return self._with_curve(report, analysis or preflight.Formula(task))

    def _measured(
        self, task: Task, analysis: preflight.Analysis | None
    ) -> preflight.Estimator | None:
        """Return what was measured of a script, if anything; beside it is what was read where
        both may be wrong."""
        if self.state is None:
            return None
        recording = recordings.recorded(self.state, task, analysis, self.tier, self.images)
        if recording is None or recording.tier != "meta" or self.tier or analysis is None:
            return recording
        return preflight.TwoTiers(recording, analysis, task.batch_size)

    def unread(self, why: Unknown) -> Report:
        """Return that the memory is not known."""
        task = self._completed()
        why = replace(why, file=why.file or task.script)
        report = preflight.unread(task, self.cards, why, backend=self._backend)
        return preflight.noted(report, task, self.remembered)

    @property
    def _backend(self) -> Backend:
        return cast(Backend, self.task.backend)

    def _completed(self) -> Task:
        return preflight.with_remembered(self.task, self.remembered)

    def _with_curve(self, report: Report, estimator: preflight.Estimator) -> Report:
        if not self.curve:
            return report
        most = max((card.limit_mib for card in self.cards), default=0.0)
        return replace(report, curve=preflight.curve(estimator, report.estimate, most))


class _Refusing(Generic[Answer]):
    """A question to which there is no answer where following the script was ended."""

    __slots__ = ()

    def unread(self, why: Unknown) -> NoReturn:
        """Refuse, with the place."""
        place = f"{clean(why.file, 500)}:{why.line}: " if why.line else ""
        raise RefusedError(
            "The script takes too much to read",
            msg("{place}{reason}.", place=place, reason=why.reason),
            "Simplify the script at that place.",
        )


@dataclass(frozen=True, slots=True)
class Requested:
    """What the probe is asked, and the modules that the script consists of."""

    request: dict[str, Any]
    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Requesting(_Refusing[Requested]):
    """What the probe is asked so that it measures a task's script."""

    answers: ClassVar[object] = Requested
    task: Task
    mode: Mode
    root: Path
    cwd: Path
    """Where the user is."""
    path: tuple[Path, ...] = ()
    """Folders that the script finds modules in."""

    def answer(self, analyses: Analyses) -> Requested:
        """Return the request. UsageError for a script that cannot be read."""
        from gpuconsole.preflight.accuracy.script_digest import modules
        from gpuconsole.preflight.tiers import probe_request as request

        task, script = replace(self.task, project=str(self.root)), Path(self.task.script)
        env = {name: value for name, value in task.env.items() if name != "PYTHONPATH"}
        requested = request.build(
            analyses.of(task).brief(), script, task.args, self.mode,
            root=self.root, cwd=self.cwd, env=env, path=self.path, size=task.batch_size,
            backend=task.backend,
        )  # fmt: skip
        return Requested(requested, tuple(map(str, modules(script, self.root))))


@dataclass(frozen=True, slots=True)
class Naming(_Refusing[str]):
    """Under which name a recording of a task's script as it is now is stored."""

    answers: ClassVar[object] = str
    task: Task
    mode: Mode

    def answer(self, analyses: Analyses) -> str:
        """Return the name. UsageError for a script that cannot be read."""
        task = located(self.task)
        name = recordings.key(task, analyses.of(task), self.mode)
        if not name:
            raise UsageError(
                "The script cannot be read",
                msg("{value}, or what it imports, cannot be read.", value=clean(task.script, 500)),
                "A measurement could not be kept apart from that of another script.",
            )
        return name


@dataclass(frozen=True, slots=True)
class Checking(_Refusing[dict[str, Any]]):
    """With what inputs a recording is stored; RefusedError for a document that is none, or one of
    a script that has changed meanwhile."""

    answers: ClassVar[object] = dict[str, Any]
    task: Task
    document: bytes
    """As the measured process wrote it: nothing is taken for granted."""
    mode: Mode
    name: str
    """What `Naming` answered before the script was measured."""
    image: str
    """Of the container; "" for this machine."""
    since_ns: int
    """When the measurement began."""

    def answer(self, analyses: Analyses) -> dict[str, Any]:
        """Read the document, so that one that is none never waits for later estimates."""
        document = recordings.parsed(self.document)
        recordings.read(self.task, document, self.mode)
        task = located(self.task)
        if recordings.key(task, analyses.of(task), self.mode) != self.name:
            raise RefusedError(
                "The script changed while it was measured",
                msg(
                    "{value}, or what it imports, is not what was measured.",
                    value=clean(task.script, 500),
                ),
                "Measure it again.",
            )
        return recordings.inputs(task, document, self.image, self.since_ns)


@dataclass(frozen=True, slots=True)
class Rebatching(_Refusing[Change]):
    """How another batch size is put into a task."""

    answers: ClassVar[object] = Change
    task: Task
    size: int

    def answer(self, analyses: Analyses) -> Change:
        """Return new arguments or lines. UsageError for a script that cannot be read."""
        return analyses.of(self.task).set_batch(self.size)


@dataclass(frozen=True, slots=True)
class Applying(_Refusing[Change]):
    """How a change is put into the shipped copy of a task's script."""

    answers: ClassVar[object] = Change
    task: Task
    kind: EditKind
    steps: int = 1
    """Over how many batches gradients are accumulated."""

    def answer(self, analyses: Analyses) -> Change:
        """Return the change, to be made behind those that the task has. UsageError for a script
        that cannot be read, RefusedError with what to write by hand where its shape leaves
        doubt."""
        analysis = analyses.of(located(self.task))
        batch = self.task.batch_size or analysis.outcome(None, analysis.backend).batch
        return preflight.change_of(analysis, self.kind, self.steps, batch)


@dataclass(frozen=True, slots=True)
class Declaring:
    """The options that a script declares."""

    answers: ClassVar[object] = Options
    script: Path

    def answer(self, analyses: Analyses) -> Options:
        """Return its options; of a script that cannot be read none."""
        return Options.of(self.script)

    def unread(self, why: Unknown) -> Options:
        """Return that it declares none."""
        return Options(self.script.name)

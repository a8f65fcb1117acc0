"""What `gpuconsole learn` does: gather the past, train with a bar, judge, and keep the file."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.cli import traces as simulating
from gpuconsole.cli.options import options
from gpuconsole.cli.output import note
from gpuconsole.config import LabSettings, load_settings
from gpuconsole.core.file_trust import make_private, private
from gpuconsole.core.units import format_duration, iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.user_dirs import state_folder
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError, UsageError
from gpuconsole.placement.learned import journal_trace, train, weights_file, windows
from gpuconsole.placement.policy import lab_policy
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.trace_readers import DAY, Trace

if TYPE_CHECKING:
    from gpuconsole.placement.model import Learned
    from gpuconsole.session.session import Session

_WAIT_S = 10.0
"""How long hosts may take to show their devices."""


@dataclass(frozen=True, slots=True)
class Material:
    """What is learned from."""

    lab: Lab
    traces: tuple[Trace, ...]
    loads: tuple[float, ...]
    """To which the jobs are thinned; none takes them as they came."""
    settings: LabSettings


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it."""

    trained: weights_file.Trained
    plays: int
    seconds: float
    interrupted: bool
    file: Path | None
    """Where the weights are; None when they were not kept."""
    former: Path | None
    """Where those before them are now."""

    def as_json(self) -> dict[str, object]:
        """Return the document of `learn --json`."""
        verdict, origin = self.trained.verdict, self.trained.origin
        return {
            "passed": verdict.passed,
            "sentence": verdict.sentence(),
            "trace": origin.trace,
            "jobs": origin.jobs,
            "lab": origin.lab,
            "rounds": origin.rounds,
            "windows_played": self.plays,
            "seconds": round(self.seconds, 1),
            "interrupted": self.interrupted,
            "replays": verdict.plays,
            "before": {"policy": "weighted", "mean_jct_s": verdict.weighted_jct_s},
            "after": {"policy": "rl_based", "mean_jct_s": verdict.rl_based_jct_s},
            "mean_jct_ratio": verdict.mean_jct_ratio,
            "error": verdict.error,
            "p99_wait_ratio": verdict.p99_wait_ratio,
            "file": str(self.file) if self.file else None,
            "former": str(self.former) if self.former else None,
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines shown to users."""
        verdict, origin = self.trained.verdict, self.trained.origin
        yield msg(
            "Trained on {n} jobs of {trace}, {lab}: {rounds} rounds, {plays} windows played in"
            " {time}.",
            n=f"{origin.jobs:,}", trace=origin.trace, lab=origin.lab, rounds=origin.rounds,
            plays=f"{self.plays:,}", time=format_duration(self.seconds),
        )  # fmt: skip
        yield msg(
            "Mean time from submission to end in {n} replays: {low} under weighted, {high} under"
            " rl_based (ratio {ratio}, longest waits {waits}).",
            n=verdict.plays, low=format_duration(verdict.weighted_jct_s),
            high=format_duration(verdict.rl_based_jct_s), ratio=f"{verdict.mean_jct_ratio:.3f}",
            waits=f"{verdict.p99_wait_ratio:.2f}",
        )  # fmt: skip
        yield verdict.sentence()
        if self.file is None:
            yield "The weights were not stored; those in use are unchanged."
        else:
            yield msg("Weights: {path}", path=self.file)
        if self.former is not None:
            yield msg("Those before: {path}", path=self.former)


def material(
    lab_file: Path | None, trace_files: Sequence[Path], form: str, until_day: float | None
) -> Material:
    """Read what is learned from; what no file names comes from the queue and its hosts."""
    lab = None if lab_file is None else simulating.read_lab(lab_file)
    traces_ = tuple(
        _until(simulating.read_trace(file, form, None), until_day) for file in trace_files
    )
    settings = load_settings()
    if lab is None or not traces_:
        own_lab, own_trace, settings = _own(ask=lab is None)
        lab = lab or own_lab
        traces_ = traces_ or (_until(own_trace, until_day),)
    if not lab.hosts:
        raise UsageError(
            "No devices", "No host shows any device.", "Name a lab file with --lab FILE."
        )
    return Material(lab, traces_, windows.LOADS if trace_files else (), settings)


def run(given: Material, *, minutes: float, seed: int) -> Result:
    """Train, judge, and keep the weights where they passed, or where there were none."""

    def dice(name: str) -> random.Random:
        return random.Random(f"{seed}/{name}")

    base = lab_policy(given.settings, name="weighted")
    history = _history(given, dice)
    began = time.monotonic()
    plays = 0
    with _interrupts() as interrupted, _bar() as progress:

        def going_on(step: train.Step) -> bool:
            nonlocal plays
            plays = step.plays
            passed = (time.monotonic() - began) / (60.0 * minutes)
            progress("training", max(passed, step.round / train.MOST_ROUNDS))
            return passed < 1.0 and not interrupted()

        learned, rounds = train.train(
            given.lab, history.train, base, dice("search"), going_on, start=_before()
        )
        stopped = interrupted()
        progress("training", 1.0)
        verdict = train.replay(
            given.lab,
            history.held_out,
            base,
            learned,
            dice("failures"),
            lambda share: progress("replay", share),
        )
    origin = weights_file.Origin(
        iso_utc(time.time()) or "",
        ", ".join(trace.source for trace in given.traces),
        sum(len(trace.jobs) for trace in given.traces),
        given.lab.name,
        tuple(sorted({host.model for host in given.lab.hosts})),
        given.lab.devices,
        rounds,
    )
    trained = weights_file.Trained(learned, origin, verdict)
    file, former = _kept(trained, stopped)
    return Result(trained, plays, time.monotonic() - began, stopped, file, former)


def _until(trace: Trace, day: float | None) -> Trace:
    """Return the part of a trace before a day."""
    if day is None or not trace.jobs:
        return trace
    end = trace.jobs[0].submitted_s + day * DAY
    return replace(trace, jobs=tuple(job for job in trace.jobs if job.submitted_s < end))


def _own(*, ask: bool) -> tuple[Lab, Trace, LabSettings]:
    """Return hosts, ended jobs and settings of this lab; `ask` permits querying the hosts."""
    from gpuconsole.cli.sessions import drive

    async def work(session: Session) -> tuple[Lab, Trace, LabSettings]:
        snapshot = session.snapshot()
        if ask:
            snapshot = await session.first_frames(_WAIT_S)
        models = {device.uuid: device.model for host in snapshot.hosts for device in host.devices}
        trace = journal_trace.trace_of(session.jobs(), models)
        return journal_trace.lab_of(snapshot), trace, session.settings

    return drive(work, fleet=ask)


def _history(given: Material, dice: Callable[[str], random.Random]) -> windows.History:
    """Return the windows of all traces."""
    parts = [windows.history(trace, given.lab, dice, loads=given.loads) for trace in given.traces]
    return windows.History(
        tuple(window for part in parts for window in part.train),
        tuple(window for part in parts for window in part.held_out),
    )


def _file() -> Path:
    return state_folder(options().state) / weights_file.FILE_NAME


def _before() -> Learned:
    """Return the weights so far, from which the search goes on, else those that come along."""
    path = _file()
    return weights_file.read(path if path.exists() else weights_file.SHIPPED).learned


def _kept(trained: weights_file.Trained, stopped: bool) -> tuple[Path | None, Path | None]:
    """Write the weights and return their file, and that of those before.

    What failed the replay replaces nothing: it is only kept, for its reasons, where nothing was.
    """
    path = _file()
    there = path.exists()
    if not trained.verdict.passed and (there or stopped):
        return None, None
    former = None
    try:
        make_private(path.parent)
        if there:
            moment = datetime.fromtimestamp(path.stat().st_mtime, tz=timezone.utc)
            former = path.with_name(f"{path.stem}-{moment:%Y%m%dT%H%M%SZ}{path.suffix}")
            path.replace(former)
        fresh = path.with_suffix(".new")
        with open(fresh, "w", encoding="utf-8", opener=private) as file:
            file.write(weights_file.dumped(trained))
        fresh.replace(path)
    except OSError as error:
        raise JournalError(
            "Cannot store the weights",
            f"{path}: {error.strerror or error}.",
            "Check space and rights of the state folder.",
        ) from None
    return path, former


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C be noted instead of ending everything; the second one does."""
    asked = False

    def hear(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        note("Judging the result; press Ctrl-C again to give up.")
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _bar() -> Iterator[Callable[[str, float], None]]:
    """Show how far training and replay are; nothing unless stderr is a terminal."""
    if options().as_json or not sys.stderr.isatty():
        yield lambda _name, _share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True, markup=False), transient=True) as shown:
        tasks = {name: shown.add_task(name, total=1.0) for name in ("training", "replay")}
        yield lambda name, share: shown.update(tasks[name], completed=share)

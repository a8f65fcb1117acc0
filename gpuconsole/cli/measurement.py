"""Measuring a script for a command: the question before, the progress, and what is known then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from gpuconsole.cli.options import options
from gpuconsole.cli.output import error_text, note, say
from gpuconsole.core.estimate import Isolation, MeasuredTier, Report, Trial
from gpuconsole.core.jobs import Task
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.user_dirs import state_folder
from gpuconsole.core.wording import joined, msg, sentences
from gpuconsole.errors import ConsoleError, UsageError

if TYPE_CHECKING:
    from gpuconsole.preflight.tiers.ladder import Means, Run
    from gpuconsole.session.estimate.measurement_run import Progress
    from gpuconsole.session.estimate.tier_ladder import Watching
    from gpuconsole.session.reading.background import AsyncReader
    from gpuconsole.session.session import Session
    from gpuconsole.state.files.consent import LocalConsent

_FLEET_WAIT_S = 10.0
_BAR = 12
"""Columns of the bar of progress; the whole line is shorter than 80."""
_STAGE = 48
"""Columns of what is being done."""
_NEEDED = "Reading alone does not settle this script; running a few of its steps can."
_TO_AGREE: Mapping[Isolation, str] = {
    "bubblewrap": "To agree, add --yes (for this command), or answer "
    "in a terminal (for this and later scripts).",
    "files-open": "Install bubblewrap, or answer in a terminal: --yes does not cover this.",
}


class Ask(Protocol):
    """Estimates a task by a tier, or with "" by the best that is known."""

    def __call__(self, *, tier: str) -> Report:
        """Estimate."""
        ...


def measure(
    task: Task, mode: MeasuredTier, reader: AsyncReader, *, local: bool, host: str, yes: bool
) -> None:
    """Measure a task's script, on this machine, where `reader` reads it, or on a host, telling
    progress as it goes."""
    if not task.script:
        raise UsageError(
            "Nothing to measure", msg("The {tier} tier needs a script.", tier=mode), "Name one."
        )
    if options().read_only:
        raise UsageError("Read only", "Measuring runs the script.", "Leave out --read-only.")
    telling = _Telling()
    if local:
        import asyncio

        agreed = _agreed_here(yes=yes)
        if agreed is None:
            raise UsageError("Not measured", "You said no.", "The static tier runs nothing.")
        from gpuconsole.preflight.tiers.ladder import NO_LIMIT_S, Run, Site

        run = Run(mode, Site(isolation=agreed), NO_LIMIT_S, ask=False)
        asyncio.run(_here(task, run, telling, reader))
    else:
        from gpuconsole.cli.sessions import drive

        async def work(session: Session) -> None:
            await session.first_frames(_FLEET_WAIT_S)
            await session.estimates.measure(task, mode, telling, host=host)

        drive(work)
    telling.done()


async def _here(task: Task, run: Run, progress: Progress, reader: AsyncReader) -> None:
    from gpuconsole.session.estimate.measurement_store import Measurements
    from gpuconsole.session.submit.validate import completed

    await Measurements(_state(), reader).here(
        completed(task), run.tier, progress, run.site.isolation, limit_s=run.limit_s
    )


def climb(task: Task, ask: Ask, reader: AsyncReader, *, offline: bool, yes: bool) -> Report:
    """Return what is known of a task, after measuring it where that is needed and allowed. A fault
    that reading finds is certain only where a run confirms it, or where nothing can be run.

    Where an inventory names hosts they are tried first, then this machine. Ctrl-C ends measuring,
    and what is known without it is the answer.
    """
    from gpuconsole.preflight.tiers.ladder import concluded, first_trial, is_settled

    begun = time.monotonic()
    unmeasured = ask(tier="")
    seconds = round(time.monotonic() - begun, 3)
    if not task.script:
        return unmeasured
    if is_settled(unmeasured):
        return replace(unmeasured, trials=(first_trial(unmeasured, seconds),))
    import asyncio

    means, report = _means(task), None
    with watching(yes=yes) as user:
        if means.measure != "never" and not offline and _inventory() is not None:
            report = _climb_there(task, unmeasured, user)
        if report is None:
            here = _Here(task, ask, reader, means)
            report = asyncio.run(_climb_here(here, unmeasured, user))
    first, *others = report.trials
    trials = (replace(first, seconds=seconds), *others)
    answered = any(trial.outcome == "answered" for trial in others)
    return concluded(ask(tier="") if answered else unmeasured, trials)


def _means(task: Task) -> Means:
    from gpuconsole.config import combined, load_settings
    from gpuconsole.preflight.tiers.ladder import Means
    from gpuconsole.remote.inventory import load_inventory

    settings, inventory = load_settings(), _inventory()
    if inventory is not None:
        settings = combined(settings, load_inventory(inventory).lab)
    wanted = settings.allowed_measure(task.measure, read_only=options().read_only)
    return Means(wanted, limit_s=settings.measure_limit)


def _inventory() -> Path | None:
    import os

    from gpuconsole.core.util.user_dirs import find_inventory

    return find_inventory(options().inventory, os.environ)


def _climb_there(task: Task, report: Report, user: Watching) -> Report | None:
    """Climb with the lab's hosts; None where no session can be opened, which is said."""
    from gpuconsole.cli.sessions import drive

    async def work(session: Session) -> Report:
        await session.first_frames(_FLEET_WAIT_S)
        return await _unless_interrupted(session.estimates.climb(task, user, report=report), report)

    try:
        return drive(work)
    except ConsoleError as error:
        note(sentences("It was not measured on a host.", error_text(error)))
        return None


@dataclass(frozen=True, slots=True)
class _Here:
    """What is measured on this machine alone, and how it is read."""

    task: Task
    ask: Ask
    reader: AsyncReader
    means: Means


async def _climb_here(here: _Here, report: Report, user: Watching) -> Report:
    """Climb with this machine alone, without a session."""
    import asyncio

    from gpuconsole.session.estimate.measurement_sites import local_sites
    from gpuconsole.session.estimate.tier_ladder import Climb, Effects

    async def measured(run: Run, progress: Progress) -> None:
        await _here(here.task, run, progress, here.reader)

    async def asked(tier: str) -> Report:
        return await asyncio.to_thread(partial(here.ask, tier=tier))

    means = here.means
    if means.measure != "never":
        sites, absent = await asyncio.to_thread(local_sites, _consent().covers)
        means = replace(means, sites=sites, absent=absent)
    climb = Climb(Effects(measured, asked, time.monotonic), means)
    return await _unless_interrupted(climb.run(report, user), report)


async def _unless_interrupted(work: Awaitable[Report], before: Report) -> Report:
    """Return the report of a climb, or after Ctrl-C `before`."""
    from gpuconsole.cli.interrupts import until_interrupted
    from gpuconsole.preflight.tiers.ladder import first_trial, left_out
    from gpuconsole.session.estimate.tier_ladder import CANCELLED

    report = await until_interrupted(work)
    if report is not None:
        return report
    first = first_trial(before)
    return replace(before, trials=(first, *left_out((first,), CANCELLED)))


@contextlib.contextmanager
def watching(*, yes: bool) -> Iterator[Watching]:
    """Give the user of a command: progress is shown, and what needs consent is asked.

    With `yes` the user agreed to all of it, but not to run it here with all files open to it.
    """
    from gpuconsole.cli.interrupts import asking
    from gpuconsole.session.estimate.tier_ladder import Watching

    telling = _Telling()

    async def agree(run: Run) -> bool:
        telling.done()
        with asking():
            if run.site.host:
                return yes or _agreed_there(run)
            return _agreed_here(yes=yes, needed=False) == run.site.isolation

    try:
        yield Watching(telling, agree, telling)
    finally:
        telling.done()


def lines(trials: Iterable[Trial]) -> Iterator[str]:
    """Give a line for each tier that was tried."""
    from gpuconsole.core.text import clean
    from gpuconsole.preflight.tiers.ladder import sentence

    return (clean(sentence(trial)) for trial in trials)


def _state() -> Path:
    return state_folder(options().state)


def _consent() -> LocalConsent:
    from gpuconsole.state.files.consent import LocalConsent

    return LocalConsent(_state())


def _agreed_there(run: Run) -> bool:
    if not sys.stdin.isatty():
        return False
    asked = msg("Measure it in a container on {host}?", host=run.site.name)
    return click.confirm(say(sentences(_NEEDED, asked)), default=True, err=True)


def _agreed_here(*, yes: bool, needed: bool = True) -> Isolation | None:
    """Return the isolation for scripts on this machine that the user agreed to, asked once for each
    kind; None without consent. `yes` is consent to bubblewrap alone.

    Without a terminal there is no consent; raises UsageError if it is needed.
    """
    from gpuconsole.remote.isolation.sandbox import Sandbox, require_sandbox

    sandbox, consent = Sandbox(), _consent()
    require_sandbox(sandbox)
    kind = sandbox.kind
    if consent.covers(kind) or (yes and kind == "bubblewrap"):
        return kind
    said = msg("This runs the script on this machine, {how_text}.", how_text=sandbox.isolation)
    if not sys.stdin.isatty():
        hint = _TO_AGREE[kind]
        if not needed:
            left = "That would run it on this machine, so it was not done."
            note(sentences(_NEEDED, left, hint))
            return None
        raise UsageError("No terminal to ask in", said, hint)
    if not needed:
        note(_NEEDED)
    allowed = say("Allow this, for this and later scripts?")
    if not click.confirm(f"{say(said)}\n{allowed}", err=True):
        return None
    consent.give(kind)
    return kind


class _Telling:
    """Progress on one line of a terminal; a line for each stage where there is none."""

    def __init__(self) -> None:
        self._inplace = sys.stderr.isatty()
        self._last = ""

    def __call__(self, share: float, stage: str) -> None:
        from rich.cells import set_cell_size

        if self._inplace:
            bar = "█" * round(_BAR * share)
            doing = set_cell_size(say(stage), _STAGE)
            line = f"{bar:·<{_BAR}} {share:4.0%} {doing} {say('Ctrl-C ends')}"
            print(f"\r{line}", end="", file=sys.stderr)
        elif stage != self._last:
            note(joined(" ", (f"{share:.0%}", stage)))
        self._last = stage

    def done(self) -> None:
        """End the line."""
        if self._inplace and self._last:
            print(file=sys.stderr)
        self._last = ""

"""Climbing the ladder of tiers: measures a script until its memory is known, or nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from gpuconsole.core.estimate import MEASURED_TIERS, Report, Trial, TrialOutcome
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import joined, msg, name
from gpuconsole.errors import (
    ConsoleError,
    EngineError,
    LeaseTakenError,
    NotHereError,
    ScriptFailedError,
    UnreachableError,
    UsageError,
)
from gpuconsole.preflight.tiers.ladder import (
    Means,
    Run,
    Site,
    Stop,
    concluded,
    first_trial,
    is_fault_at,
    left_out,
    next_move,
)
from gpuconsole.session.estimate.measurement_run import Progress
from gpuconsole.waiting import within

CANCELLED = "measuring was cancelled"
MOST_WHY = 500
"""Characters of a reason."""

Measuring = Callable[[Run, Progress], Awaitable[None]]
"""Measures by a tier at a site and stores the recording. ConsoleError where it cannot."""
Agreement = Callable[[Run], Awaitable[bool]]
"""Asks the user whether the script may run there."""


async def refuses(run: Run) -> bool:
    """Agree to nothing: for callers without a user to ask."""
    return False


@dataclass(frozen=True, slots=True)
class Watching:
    """The user for whom is measured and submitted."""

    progress: Progress = lambda share, stage: None
    """Hears how far a measurement is."""
    agree: Agreement = refuses
    sending: Progress = lambda share, stage: None
    """Hears how much of the packed project the lab's service has."""


UNWATCHED = Watching()


@dataclass(frozen=True, slots=True)
class Effects:
    """How a climb acts on the world."""

    measure: Measuring
    report: Callable[[str], Awaitable[Report]]
    """Estimates again by a tier, or with "" by the best that is known."""
    now: Callable[[], float]
    """Seconds, of a clock that only goes forward."""


class Climb:
    """One climb for one task. `skip` ends it early, and what is known is the answer."""

    def __init__(self, effects: Effects, means: Means) -> None:
        self._effects = effects
        self._means = means
        self._agreed: set[Site] = set()
        self._work: asyncio.Task[None] | None = None
        self._skipped = False

    def skip(self) -> None:
        """Cancel the measurement under way, and try no further."""
        self._skipped = True
        if self._work is not None:
            self._work.cancel()

    def failed(self, trials: Iterable[Trial]) -> tuple[Trial, ...]:
        """Return the trials that need not be made again for the same script: of each tier that was
        measured without an answer, or with a fault, and of all if the user cancelled."""
        if self._skipped:
            return tuple(Trial(tier, "unknown", CANCELLED) for tier in self._means.tiers)
        return tuple(
            trial
            for trial in trials
            if trial.tier in MEASURED_TIERS and trial.outcome in ("unknown", "confirmed")
        )

    async def run(
        self,
        report: Report,
        user: Watching,
        *,
        tried: Iterable[Trial] = (),
        seconds: float = 0.0,
    ) -> Report:
        """Return the report after the climb, with all trials.

        Args:
            report: What is known before anything is measured.
            user: Hears how it goes on, and is asked where a script runs only with consent.
            tried: Measured tiers that were tried for this very script before.
            seconds: How long it took to make `report`.
        """
        trials = (first_trial(report, seconds), *tried)
        while True:
            move = next_move(report, trials, self._means, self._agreed)
            if isinstance(move, Run) and self._skipped:
                move = Stop(CANCELLED)
            if isinstance(move, Stop):
                rest = left_out(trials, move.why, self._means.tiers) if move.why else ()
                return concluded(report, (*trials, *rest))
            if move.ask and not await self._asked(move, user.agree):
                continue
            trial = await self._try(move, user.progress, report)
            if trial.outcome == "answered":
                report = await self._effects.report("")
                trial = await self._judged(trial, report)
            trials = (*trials, trial)

    async def _asked(self, run: Run, agree: Agreement) -> bool:
        if await agree(run):
            self._agreed.add(run.site)
            return True
        self._drop(run.site, msg("running it on {place} needs your consent", place=run.site.name))
        return False

    def _drop(self, site: Site, why: str) -> None:
        """Use a site no more."""
        sites = tuple(other for other in self._means.sites if other != site)
        devices = tuple(device for device in self._means.devices if device.host != site.host)
        absent = joined("; ", filter(None, (self._means.absent, why)))
        self._means = replace(self._means, sites=sites, devices=devices, absent=absent)

    async def _try(self, run: Run, progress: Progress, report: Report) -> Trial:
        begun = self._effects.now()
        self._work = asyncio.ensure_future(
            within(
                _finite(run.limit_s),
                self._effects.measure(run, naming(run, progress)),
            )
        )
        outcome: TrialOutcome = "answered"
        why = ""
        try:
            await self._work
        except asyncio.CancelledError:
            if not self._skipped:
                raise
            outcome, why = "impossible", CANCELLED
        except asyncio.TimeoutError:
            outcome = "impossible"
            why = msg("it took longer than {time}", time=f"{run.limit_s:.0f} s")
        except ConsoleError as error:
            outcome = "impossible" if _is_of_site(error) else "unknown"
            why = clean(joined(": ", (error.title, error.message)), MOST_WHY)
            if isinstance(error, ScriptFailedError) and is_fault_at(report, error.file, error.line):
                outcome, why = "confirmed", clean(error.message, MOST_WHY)
            if isinstance(error, (EngineError, UnreachableError)):
                self._drop(run.site, why)
        finally:
            self._work = None
        seconds = round(self._effects.now() - begun, 3)
        return Trial(run.tier, outcome, why, run.site.host, seconds)

    async def _judged(self, trial: Trial, report: Report) -> Trial:
        """Return the trial of a finished measurement: its recording may not tell the memory."""
        if report.estimate.memory is not None and report.estimate.tier in (trial.tier, "history"):
            return trial
        said = (await self._effects.report(trial.tier)).estimate
        if said.memory is not None:
            return trial
        why = said.unknowns[0].reason if said.unknowns else "the recording tells no memory"
        return replace(trial, outcome="unknown", why=clean(why, MOST_WHY))


def naming(run: Run, progress: Progress) -> Progress:
    """Return a progress that says by which tier is measured, and on which host."""
    tier = name(run.tier)
    if run.site.host:
        tier = msg("{tier} on {host}", tier=run.tier, host=run.site.host)
    return lambda share, stage: progress(share, joined(": ", (tier, stage)))


def _finite(seconds: float) -> float | None:
    return None if seconds == float("inf") else seconds


_OF_SITE = (NotHereError, EngineError, LeaseTakenError, UnreachableError, UsageError)


def _is_of_site(error: ConsoleError) -> bool:
    """Tell whether an error is due to the place: another place may do."""
    return isinstance(error, _OF_SITE)

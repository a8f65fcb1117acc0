"""The ladder of tiers: what is tried next where reading a script does not settle its memory.

Pure: what is known, what was tried and what is allowed go in, the next move comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from types import MappingProxyType

from gpuconsole.core.estimate import (
    MAY_FAIL,
    MEASURED_TIERS,
    WITHOUT_PADDLE,
    Estimate,
    Isolation,
    Measure,
    MeasuredTier,
    Report,
    Trial,
    Unknown,
)
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import joined, msg, name, sentences
from gpuconsole.preflight.probe.notes import GROWS
from gpuconsole.preflight.probe.runs.budget import WITHOUT_DATA_S

CLIMBED: tuple[MeasuredTier, ...] = ("meta", "traced")
"""The tiers that are tried one after another, the cheaper one first."""
NO_LIMIT_S = float("inf")
WRONG_BY = 2.0
"""By which factor reading may be wrong without a warning; in first runs it was seldom wrong by more
(docs/accuracy-history.md)."""
MAY_FAIL_HERE = "it may fail here"
UNCONFIRMED = "(found by reading; running it did not show it)"
PLANNED = 0.9
"""Share of the time for a measurement that its runs may take."""
MOST_S: Mapping[MeasuredTier, float] = MappingProxyType(
    {"meta": WITHOUT_DATA_S / PLANNED, "device": 90.0}
)
"""Longest time for a tier, where the next one must still have its turn, seconds. Runs of the tier
`meta` may take as long as where no limit is set."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place where a script can be measured."""

    host: str = ""
    """"" for this machine."""
    consent: bool = False
    """Whether the user has to agree before a script runs there."""
    isolation: Isolation = "bubblewrap"
    """What holds the script on this machine; of a host it says nothing."""

    @property
    def name(self) -> str:
        """The place in words."""
        return self.host or msg("this machine")


@dataclass(frozen=True, slots=True)
class Means:
    """What may be used to measure a script."""

    measure: Measure = "auto"
    sites: tuple[Site, ...] = ()
    """The better one first."""
    absent: str = ""
    """Why there is no other site, as a sentence."""
    devices: tuple[Site, ...] = ()
    """Hosts with an idle device of the kind that the job would get: those of the device tier."""
    limit_s: float = NO_LIMIT_S
    """Longest time for all tiers together, seconds."""
    tiers: tuple[MeasuredTier, ...] = CLIMBED
    """What is tried, in this order."""
    insist: bool = False
    """Whether to measure although the memory is known."""


@dataclass(frozen=True, slots=True)
class Run:
    """Measure by a tier at a site."""

    tier: MeasuredTier
    site: Site
    limit_s: float
    ask: bool
    """Whether the user has to agree first."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing more is tried. `why` is a sentence, "" where the answer needs no further tier."""

    why: str = ""


Move = Run | Stop


def first_trial(report: Report, seconds: float = 0.0) -> Trial:
    """Return the trial of the tier that answered without measuring; of none that of reading."""
    estimate = report.estimate
    if estimate.memory is None and not estimate.errors:
        why = estimate.unknowns[0].reason if estimate.unknowns else "the memory is unknown"
        return Trial("static", "unknown", why, seconds=seconds)
    if is_too_wide(report):
        why = "its range is too wide: the lower end fits a device, the upper end fits none"
        return Trial(estimate.tier, "unknown", why, seconds=seconds)
    tier = "static" if estimate.tier == "unknown" else estimate.tier
    return Trial(tier, "answered", seconds=seconds)


def is_settled(report: Report) -> bool:
    """Tell whether a report needs no further tier: its memory decides, or the script has nothing
    to do with Paddle. A fault that reading finds is to be confirmed by a run, and so is a memory of
    which a mistake of reading would change the verdict."""
    return _is_known(report) and not is_close(report)


def _is_known(report: Report) -> bool:
    """Tell whether the memory decides, if it is right."""
    estimate = report.estimate
    if not estimate.script or WITHOUT_PADDLE in estimate.flags:
        return True
    return estimate.memory is not None and not estimate.errors and not is_too_wide(report)


def is_too_wide(report: Report) -> bool:
    """Tell whether no device holds the upper end of a range of which one holds the lower end."""
    estimate, memory = report.estimate, report.estimate.memory
    if memory is None or estimate.errors or estimate.tier in MEASURED_TIERS:
        return False
    judged = [verdict for verdict in report.verdicts if verdict.backend == estimate.backend]
    if any(verdict.verdict in ("fits", "tight") for verdict in judged):
        return False
    low = 0.0 if "bound" in estimate.flags else memory.low_mib
    return any(verdict.limit_mib is not None and low <= verdict.limit_mib for verdict in judged)


def is_close(report: Report) -> bool:
    """Tell whether reading alone says that a device holds a job, or that none does, and would say
    otherwise if it were wrong by the factor `WRONG_BY`."""
    estimate = report.estimate
    if estimate.memory is None or estimate.errors or estimate.tier != "static":
        return False
    judged = [verdict for verdict in report.verdicts if verdict.backend == estimate.backend]
    shares = [
        verdict.needs_mib / verdict.limit_mib
        for verdict in judged
        if verdict.limit_mib is not None and verdict.limit_mib > 0 and verdict.needs_mib is not None
    ]
    return bool(shares) and 1 / WRONG_BY < min(shares) < WRONG_BY


def next_move(
    report: Report, trials: Sequence[Trial], means: Means, agreed: Iterable[Site] = ()
) -> Move:
    """Return what is done next.

    A tier that had its say at one site is not asked again at another; one that could not be tried
    is. `agreed` are the sites at which the user let this script run.
    """
    measured = [trial for trial in trials if trial.tier in MEASURED_TIERS]
    if any(trial.outcome in ("answered", "confirmed") for trial in measured):
        return Stop()
    if WITHOUT_PADDLE in report.estimate.flags:
        return Stop("neither the script nor a module of its project names Paddle")
    if _is_known(report) and not means.insist:
        return _confirmation(measured, means, agreed) if is_close(report) else Stop()
    if means.measure == "never":
        return Stop("measuring is switched off (measure: never)")
    if any(GROWS in trial.why for trial in measured):
        return Stop("memory grows with each step: a few steps do not tell how much it takes")
    if not (means.sites or means.devices):
        return Stop(means.absent or "there is no place to measure")
    left_s = means.limit_s - sum(trial.seconds for trial in measured)
    if left_s <= 0:
        limit = f"{means.limit_s:.0f} s"
        return Stop(msg("the time for measuring is used up ({limit})", limit=limit))
    for tier in means.tiers:
        mine = [trial for trial in measured if trial.tier == tier]
        if any(trial.outcome == "unknown" for trial in mine):
            continue
        tried = {trial.host for trial in mine}
        for site in means.devices if tier == "device" else means.sites:
            if site.host not in tried:
                ask = (means.measure == "ask" or site.consent) and site not in agreed
                return Run(tier, site, min(left_s, MOST_S.get(tier, left_s)), ask)
    return Stop("no further tier is left to try")


def _confirmation(measured: Sequence[Trial], means: Means, agreed: Iterable[Site]) -> Move:
    """Return the run that is to confirm what reading says: on tensors without data, and only where
    no question has to be asked for it."""
    tier: MeasuredTier = "meta"
    tried = {trial.host: trial.outcome for trial in measured if trial.tier == tier}
    left_s = means.limit_s - sum(trial.seconds for trial in measured)
    if means.measure != "auto" or tier not in means.tiers or "unknown" in tried.values():
        return Stop()
    for site in means.sites:
        if left_s > 0 and site.host not in tried and (site in agreed or not site.consent):
            return Run(tier, site, min(left_s, MOST_S[tier]), ask=False)
    return Stop()


def is_fault_at(report: Report, file: str, line: int) -> bool:
    """Tell whether reading finds a fault at a line where the script failed when it was run; its
    folder has another name there."""
    place = (PurePath(file).name, line)
    return any((PurePath(error.file).name, error.line) == place for error in report.estimate.errors)


def concluded(report: Report, trials: Sequence[Trial]) -> Report:
    """Return a report with its trials. A fault that reading finds is certain where a run confirmed
    it, and where nothing could be run; where a run did not show it, the script may fail."""
    tried = [trial for trial in trials if trial.tier in MEASURED_TIERS and _was_run(trial)]
    confirmed = any(trial.outcome == "confirmed" for trial in tried)
    if not report.estimate.errors or not tried or confirmed:
        return replace(report, trials=tuple(trials))
    estimate = _doubted(report.estimate)
    reason = estimate.unknowns[0].reason
    verdicts = [
        replace(verdict, verdict="unknown", reason=reason)
        if verdict.verdict == "will-fail"
        else verdict
        for verdict in report.verdicts
    ]
    shown = [
        replace(trial, outcome="unknown", why=reason) if trial.tier not in MEASURED_TIERS else trial
        for trial in trials
    ]
    return replace(
        report, estimate=estimate, verdicts=tuple(verdicts), suggestions=(), trials=tuple(shown)
    )


def _was_run(trial: Trial) -> bool:
    return trial.outcome != "impossible" or trial.seconds > 0


def _doubted(estimate: Estimate) -> Estimate:
    """Return an estimate with its faults reported as possible ones."""
    doubts = [
        Unknown(
            error.file,
            error.line,
            sentences(joined(": ", (MAY_FAIL_HERE, error.message)), UNCONFIRMED),
        )
        for error in estimate.errors
    ]
    return replace(
        estimate, tier="unknown", memory=None, errors=(), unknowns=(*doubts, *estimate.unknowns),
        flags=tuple(sorted({*estimate.flags, MAY_FAIL})),
    )  # fmt: skip


def sentence(trial: Trial) -> str:
    """Return how a trial ended, in one line."""
    tier = name(trial.tier)
    if trial.host:
        tier = msg("{tier} on {host}", tier=trial.tier, host=trial.host)
    parts = [tier, ended_words(trial), *filter(None, (trial.why,))]
    seconds = f" ({trial.seconds:.1f} s)" if trial.seconds else ""
    return joined(": ", parts) + seconds


def ended_words(trial: Trial) -> str:
    """Return how a trial ended, in a word or two. What was declined, cancelled or out of time was
    possible, only not done."""
    words = {"impossible": "not measured", "confirmed": "it fails there"}
    return words.get(trial.outcome, trial.outcome)


def left_out(
    trials: Sequence[Trial], why: str, tiers: Sequence[MeasuredTier] = CLIMBED
) -> tuple[Trial, ...]:
    """Return a trial for each tier that was not tried, with the reason."""
    tried = {trial.tier for trial in trials}
    return tuple(Trial(tier, "impossible", why) for tier in tiers if tier not in tried)

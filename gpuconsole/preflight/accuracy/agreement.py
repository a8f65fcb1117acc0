"""What many runs say together, where a container may report what it likes.

A run's figures count for its own script. For other scripts they count as far as those of another
script agree, or of another user where the lab has several: none changes their answers alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from math import log
from statistics import median

from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.accuracy.conformal import Residual

ENOUGH_SCRIPTS, ENOUGH_USERS = 3, 2
"""So many scripts tell something of all, and so many users where the lab has several."""
SPREADS = 3.0
"""Median deviations from the middle within which nearly all figures lie."""
AGREED = 0.25
"""Median deviation, as a share of the middle, beyond which figures say nothing together."""


@dataclass(frozen=True, slots=True)
class Voices:
    """Who speaks in a history: its users, or its scripts where it has but one user."""

    several_users: bool

    @classmethod
    def of(cls, runs: Iterable[Observation]) -> Voices:
        """Return the voices of a history. Runs from before users were written down have none."""
        return cls(len({run.user for run in runs} - {""}) > 1)

    def of_run(self, run: Observation) -> str:
        """Return the voice of a run."""
        return run.user if self.several_users else script_of(run)

    @property
    def enough(self) -> int:
        """So many voices tell something of all."""
        return ENOUGH_USERS if self.several_users else ENOUGH_SCRIPTS


def script_of(run: Observation) -> str:
    """Return what tells one script from another."""
    return run.digest or run.script


def middle(
    figures: Iterable[tuple[Observation, float]], voices: Voices
) -> tuple[float, float] | None:
    """Return the median of what all voices say, and how far they lie apart (the same unit); None
    with too few scripts or voices, or where they contradict each other."""
    scripts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run, figure in figures:
        scripts[voices.of_run(run)][script_of(run)].append(figure)
    said = [median(map(median, own.values())) for own in scripts.values()]
    named = {script for own in scripts.values() for script in own}
    if len(said) < voices.enough or len(named) < ENOUGH_SCRIPTS:
        return None
    centre = median(said)
    apart = median(abs(value - centre) for value in said)
    return (centre, SPREADS * apart) if apart <= AGREED * centre else None


def agreed(errors: Sequence[tuple[str, Residual]], share: float) -> tuple[Residual, ...]:
    """Return the errors with their voices, each cut to what counts for others: to the range of
    `share` below and above, which holds without any history, and beyond it to what another voice
    has reached."""
    most, least = _of_others(errors, max), _of_others(errors, min)
    rise, fall = log(1.0 + share), log(1.0 - share)
    return tuple(
        replace(error, value=_cut(error.value, min(fall, least(voice)), max(rise, most(voice))))
        for voice, error in errors
    )


def _of_others(
    errors: Sequence[tuple[str, Residual]], farther: Callable[[float, float], float]
) -> Callable[[str], float]:
    """Return a function from a voice to the farthest error of all other voices; 0 without any."""
    own: dict[str, float] = {}
    for voice, error in errors:
        own[voice] = farther(own.get(voice, error.value), error.value)
    farthest = reduce(farther, own.values(), next(iter(own.values()), 0.0))
    first = next((voice for voice, value in own.items() if value == farthest), "")
    rest = [value for voice, value in own.items() if voice != first]
    second = reduce(farther, rest) if rest else 0.0
    return lambda voice: second if voice == first else own[first]


def _cut(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)

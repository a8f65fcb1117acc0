"""Conditions that reading cannot decide: both sides are tried, the worse one is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting
from gpuconsole.preflight.memory.liveness import peak

if TYPE_CHECKING:
    from gpuconsole.preflight.tiers.static_run import Outcome

MAX_TESTS = 2
"""Conditions of which both sides are tried, in all combinations."""
TEST_STEPS = 300_000
"""Steps after which no further side is tried, so that a long script is answered in seconds."""
Choices = Mapping[tuple[str, int], bool]
"""How conditions are taken, by file and line."""


def worst(
    follow: Callable[[Setting], Outcome], setting: Setting, first: Outcome
) -> tuple[Outcome, Choices]:
    """Follow a script again where a condition was not known when it was followed `first`, with
    each outcome, and keep the largest.

    A side that cannot be followed is left out where another can. What was kept is said in the
    notes; nothing is said where all sides need the same.
    """
    # A condition around another comes first: without it the inner one decides nothing.
    places = sorted(first.tests)[:MAX_TESTS]
    if not places or first.in_any_case:
        return first, {}
    tried: list[tuple[int, Outcome, Choices]] = []
    combinations = list(product((True, False), repeat=len(places)))
    spent = first.steps
    for sides in combinations:
        if spent > TEST_STEPS:
            break
        choices: Choices = dict(zip(places, sides, strict=True))
        outcome = follow(replace(setting, choices=choices, side_of=first.steps))
        spent += outcome.steps
        if not outcome.blocked:
            tried.append((peak(outcome.trace).total, outcome, choices))
        elif first.outside and outcome.unknowns[:1] == first.unknowns[:1]:
            # Neither one side nor both made it: it is there on the other side, too.
            break
    if not tried:
        return first, {}
    size, outcome, taken = max(tried, key=lambda tried_one: tried_one[0])
    complete = len(tried) == len(combinations)
    if complete and all(other == size for other, _, _ in tried):
        return outcome, taken
    why = "which needs more memory" if complete else "other sides cannot be followed"
    notes = tuple(_note(first.tests[place], place, taken[place], why) for place in places)
    return replace(outcome, bound=True, notes=(*outcome.notes, *notes)), taken


def _note(test: str, place: tuple[str, int], side: bool, why: str) -> str:
    file, line = place
    return msg(
        "{place}: `{test}` cannot be known; taken as {side}, {why_text}.",
        place=f"{Path(file).name}:{line}", test=clean(test[:80]), side=side, why_text=why,
    )  # fmt: skip

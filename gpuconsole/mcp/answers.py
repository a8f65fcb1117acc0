"""Answers as a program may read them: cleaned of what a terminal would obey, and never too long."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError

MOST_LETTERS = 48_000
"""Letters of an answer, as JSON."""
MOST_TEXT = 2_000
"""Letters of one text in it."""
_LONGEST = (500, 200, 100, 50, 20, 10, 5, 2, 1, 0)
"""Items that a list may have, from the most on until the answer is short enough."""


def answer(document: Mapping[str, object]) -> dict[str, object]:
    """Return a document of at most `MOST_LETTERS` letters, every text in it clean.

    Of lists that are too long the first items stay; `left_out` then tells how many are missing, by
    the names that lead to the list.
    """
    for most in _LONGEST:
        left_out: dict[str, int] = {}
        fitted = _fitted_items(document, most, "", left_out)
        if left_out:
            fitted["left_out"] = left_out
        if len(json.dumps(fitted, ensure_ascii=False)) <= MOST_LETTERS:
            return fitted
    return {"left_out": {"all": 1}}


def _fitted_items(
    document: Mapping[str, object], most: int, place: str, left_out: dict[str, int]
) -> dict[str, object]:
    pairs = list(document.items())
    items = pairs[: max(most, 40)]
    _count(place, len(pairs) - len(items), left_out)
    return {
        clean(str(name), 200): _fitted(each, most, f"{place}.{name}".lstrip("."), left_out)
        for name, each in items
    }


def _fitted(value: object, most: int, place: str, left_out: dict[str, int]) -> object:
    if isinstance(value, str):
        return clean(value, MOST_TEXT)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Mapping):
        return _fitted_items(value, most, place, left_out)
    if isinstance(value, (Sequence, frozenset, set)):
        listed = list(value)
        _count(place, len(listed) - most, left_out)
        return [_fitted(each, most, place, left_out) for each in listed[:most]]
    return clean(str(value), MOST_TEXT)


def _count(place: str, missing: int, left_out: dict[str, int]) -> None:
    if missing > 0:
        name = clean(place, 200)
        left_out[name] = left_out.get(name, 0) + missing


def sentence(error: ConsoleError) -> str:
    """Return what went wrong and the next step, as lines of plain text."""
    text = f"{error.title}: {error.message}" if error.message else error.title
    lines = [*text.splitlines(), *error.hint.splitlines()]
    return "\n".join(clean(line, MOST_TEXT) for line in lines[:40])

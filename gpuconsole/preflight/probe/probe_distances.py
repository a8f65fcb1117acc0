"""Libraries that tell how far two texts lie apart, where they are missing: the same numbers."""

from __future__ import annotations

from typing import Any


def distance(one: Any, other: Any, *_: Any, **__: Any) -> int:
    """Return how many items have to be put in, left out or replaced to make one sequence of another
    (Wagner and Fischer, 1974)."""
    before = list(range(len(other) + 1))
    for place, item in enumerate(one, 1):
        row = [place]
        for column, wanted in enumerate(other, 1):
            left = min(before[column], row[-1]) + 1
            row.append(min(left, before[column - 1] + (item != wanted)))
        before = row
    return before[-1]


def share(one: Any, other: Any, *_: Any, **__: Any) -> float:
    """Return the distance as a share of the longer sequence, 0 for two empty ones."""
    return distance(one, other) / max(len(one), len(other), 1)


class Levenshtein:
    """The distance as `rapidfuzz` names it."""

    distance = staticmethod(distance)
    normalized_distance = staticmethod(share)


LIBRARIES: dict[Any, Any] = {
    "editdistance": {"eval": distance, "distance": distance},
    "Levenshtein": {"distance": distance},
    "rapidfuzz": {},
    "rapidfuzz.distance": {"Levenshtein": Levenshtein},
}
"""What the modules of such libraries hold."""

"""How much one operation of Python looks at: nested values, and long ones.

`==`, `hash`, `sorted`, `json.dumps` and their like follow every reference each time they meet it,
inside one call that nothing can interrupt: a list that holds another twice, sixty times over, has
2**60 items to them. What they would look at is counted first.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from gpuconsole.preflight.interpreter.domain.values import Value

CONTAINERS = (list, tuple, dict, set, frozenset)
MOST = 1_000_000
"""Items that one operation may look at, an item that is met twice counted twice."""
ITEMS_PER_STEP = 32
"""Items looked at that take about as long as one step of a run."""
_OF_ITSELF = 4
"""Items that take as long as opening a container."""
SHALLOW = frozenset([
    "len", "isinstance", "id", "print", "enumerate", "zip", "map", "filter", "iter", "next", "list",
    "tuple", "reversed", "any", "all", "sum", "bool", "type", "callable", "getattr", "setattr",
    "hasattr", "append", "appendleft", "extend", "insert", "get", "pop", "setdefault", "update",
    "random.choice", "random.sample", "random.shuffle", "copy.copy", "partial",
])  # fmt: skip
"""Functions and methods that look at no more than the items of what they are given, if at these."""


def is_container(value: Value) -> bool:
    """Whether a value holds others that Python itself looks at."""
    return isinstance(value, CONTAINERS)


def weight(*values: Value) -> int:
    """Return how many items an operation on values looks at; more than `MOST` where it is more.

    Each container is opened once, however often it is met: what it holds is known from then on. One
    that holds itself has no end.
    """
    total = 0
    weights: dict[int, int] = {}
    for value in values:
        if isinstance(value, CONTAINERS):
            flat = id(value) not in weights and not _parts(value)
            total += len(value) + _OF_ITSELF if flat else _weight(value, weights)
            if total > MOST:
                break
    return total


_OPEN = -1
"""The weight of a container that is being counted."""


def _weight(root: Collection[Value], weights: dict[int, int]) -> int:
    """Return the weight of a container; `weights` has those of containers by their identity."""
    if id(root) in weights:
        return weights[id(root)]
    pending = [(root, iter(_parts(root)))]
    weights[id(root)] = _OPEN
    sums = [len(root) + _OF_ITSELF]
    while True:
        part = next(pending[-1][1], None)
        if part is None:
            (container, _), size = pending.pop(), sums.pop()
            weights[id(container)] = size
            if not pending:
                return size
        elif id(part) not in weights and (inner := _parts(part)):
            weights[id(part)] = _OPEN
            pending.append((part, iter(inner)))
            sums.append(len(part) + _OF_ITSELF)
            continue
        else:
            size = weights.get(id(part), len(part) + _OF_ITSELF)
            if size == _OPEN:
                return MOST + 1
        sums[-1] += size
        if sums[-1] > MOST:
            return sums[-1]


def _parts(container: Collection[Value]) -> list[Collection[Value]]:
    """Return the containers in one."""
    parts = chain(container, container.values()) if isinstance(container, dict) else container
    return [part for part in parts if isinstance(part, CONTAINERS)]

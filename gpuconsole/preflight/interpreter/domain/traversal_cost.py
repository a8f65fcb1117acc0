"""How much one operation of Python looks at: nested values, and long ones.

`==`, `hash`, `sorted`, `json.dumps` and their like follow every reference each time they meet it,
inside one call that nothing can interrupt: a list that holds another twice, sixty times over, has
2**60 items to them. What they would look at is counted first.
"""

from __future__ import annotations

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
    """Return how many items an operation on values looks at; more than `MOST` where it is more."""
    pending = [one for one in values if isinstance(one, CONTAINERS)]
    total = 0
    while pending and total <= MOST:
        one = pending.pop()
        total += len(one) + _OF_ITSELF
        if total <= MOST:
            parts = chain(one, one.values()) if isinstance(one, dict) else one
            pending.extend([part for part in parts if isinstance(part, CONTAINERS)])
    return total

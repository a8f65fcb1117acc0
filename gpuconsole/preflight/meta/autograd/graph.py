"""The graph of a backward pass, as Paddle's engine walks it: which nodes there are, how many edges
lead to each, which lie on a way to what is asked for.

A node has `edges`, of which some may be None; an edge has a `node`, None where it leads to a leaf,
and a `key` that tells its end from others: `id(node)` where there is one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

N = TypeVar("N", bound="Node")
K = TypeVar("K", bound=Hashable)
N_co = TypeVar("N_co", covariant=True)
K_co = TypeVar("K_co", covariant=True)


class Leads(Protocol[N_co]):
    """An edge, by the node that it leads to."""

    @property
    def node(self) -> N_co | None:
        """The node, None for a leaf."""


class Node(Protocol):
    """A node, by what leads from it to others."""

    @property
    def edges(self) -> Sequence[Leads[Self] | None]:
        """Where the gradients of its inputs go."""


class Keyed(Protocol[K_co]):
    """An edge, by its key."""

    @property
    def key(self) -> K_co:
        """What tells its end from others."""


class Ends(Protocol[K_co]):
    """A node, by the keys of its edges."""

    @property
    def edges(self) -> Sequence[Keyed[K_co] | None]:
        """Where the gradients of its inputs go."""


def reachable(roots: Iterable[N]) -> Iterator[N]:
    """Give the nodes behind some, each once, those that were found last first."""
    pending = list(roots)
    seen = {id(node) for node in pending}
    while pending:
        node = pending.pop()
        yield node
        for edge in node.edges:
            if edge is not None and edge.node is not None and id(edge.node) not in seen:
                seen.add(id(edge.node))
                pending.append(edge.node)


def in_degrees(roots: Iterable[object], order: Iterable[Ends[K]]) -> dict[int | K, int]:
    """Return how many edges of the nodes `order` lead to each node and leaf, by key."""
    degrees: dict[int | K, int] = {id(root): 0 for root in roots}
    for node in order:
        for edge in node.edges:
            if edge is not None:
                degrees[edge.key] = degrees.get(edge.key, 0) + 1
    return degrees


def on_a_way(order: Sequence[Ends[K]], wanted: set[K]) -> set[int | K]:
    """Return the keys of the nodes from which a way leads to one that is wanted, and of those."""
    needed: set[int | K] = set()
    while True:
        before = len(needed)
        for node in reversed(order):
            if id(node) not in needed and any(
                edge is not None and (edge.key in wanted or edge.key in needed)
                for edge in node.edges
            ):
                needed.add(id(node))
        if len(needed) == before:
            return needed | wanted

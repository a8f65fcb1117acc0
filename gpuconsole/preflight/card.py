"""One device as preflight sees it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.core.estimate import MEMORY_THRESHOLD
from gpuconsole.core.fleet import Backend, Device, FleetSnapshot
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.memory.backends import terms

RESERVE_SHARE = 0.02
"""Share of a card that stays free of everybody: the driver's own and rounding."""


@dataclass(frozen=True, slots=True)
class Card:
    """Capacity, what others hold, and the limit that follows. Sizes in MiB.

    `exact` is a card that exists only in a question (`--memory-mib N`): no context, the whole
    capacity, and the point estimate instead of the upper bound.
    """

    device: str
    host: str
    backend: Backend
    capacity_mib: float
    held_mib: float = 0.0
    threshold: float = MEMORY_THRESHOLD
    context_mib: float | None = None
    exact: bool = False
    uuid: str = ""
    index: int | None = None

    @property
    def limit_mib(self) -> float:
        """The most that a job may take here."""
        if self.exact:
            return self.capacity_mib
        spare = self.capacity_mib - self.held_mib - RESERVE_SHARE * self.capacity_mib
        return min(self.threshold * self.capacity_mib, spare)

    @property
    def available_mib(self) -> float:
        """What is physically there for a job."""
        return self.capacity_mib - self.held_mib


def context_of(cards: Sequence[Card], backend: Backend) -> float | None:
    """Return the context that an estimate for all of these cards counts, MiB.

    That is the largest of a back end, 0 for cards that exist only in a question; None, for the
    assumed context with its spread, where some card's is not known and no other's is above that.
    """
    contexts = [
        0.0 if card.exact else card.context_mib for card in cards if card.backend == backend
    ]
    figures = [context for context in contexts if context is not None]
    own = terms(backend)
    if figures and (len(figures) == len(contexts)
                  or max(figures) > own.context_mib + own.context_spread_mib):  # fmt: skip
        return max(figures)
    return None


def cards(snapshot: FleetSnapshot, threshold: float) -> tuple[Card, ...]:
    """Return the devices of a fleet with known capacity, in inventory order.

    Devices that are lost or have unreadable memory are left out: placement says why.
    """
    return tuple(
        _card(device, host.name, threshold)
        for host in snapshot.hosts
        for device in host.devices
        if device.memory_total_mib and not device.lost
    )


def _card(device: Device, host: str, threshold: float) -> Card:
    assert device.memory_total_mib is not None
    return Card(
        device=device.model,
        host=host,
        backend=device.backend,
        capacity_mib=device.memory_total_mib,
        held_mib=device.memory_used_mib or 0.0,
        threshold=threshold,
        uuid=device.uuid,
        index=device.index,
    )

"""How well devices are linked, and which of several are closest."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import pytest

from gpuconsole.core.fleet import Device, PeerLink
from gpuconsole.placement.engine.board import Spot
from gpuconsole.placement.engine.topology import closest, link_quality


def group(count: int, links: Mapping[tuple[int, int], str]) -> list[Spot]:
    """Return devices, and the links between pairs of them as the first of each pair says."""
    return [
        Spot(
            number,
            Device(
                f"u{number}", number, "A100",
                peers=tuple(
                    PeerLink(f"u{other}", kind)
                    for (first, other), kind in links.items() if first == number
                ),
            ),
            0, "", "", 1000.0,
        )
        for number in range(count)
    ]  # fmt: skip


def chosen(count: int, of: list[Spot]) -> tuple[tuple[int, ...], float]:
    spots, quality = closest(of, count)
    return tuple(spot.order for spot in spots), round(quality, 9)


@pytest.mark.parametrize(
    ("kind", "quality"),
    [
        ("NV1", 0.8 + 0.2 / 12), ("NV6", 0.9), ("NV12", 1.0), ("NV18", 1.0), ("PIX", 0.6),
        ("PXB", 0.5), ("PHB", 0.35), ("NODE", 0.25), ("SYS", 0.1), ("X", 0.0), ("", 0.0),
        ("NV", 0.0), ("NV6x", 0.0),
    ],
)  # fmt: skip
def test_a_link_is_as_good_as_its_kind(kind: str, quality: float) -> None:
    assert link_quality(kind) == pytest.approx(quality)


TWO_TRIANGLES = {
    (0, 1): "NV6", (0, 2): "PIX", (1, 2): "PIX", (3, 4): "NV6", (3, 5): "PIX", (4, 5): "PIX",
}  # fmt: skip


@pytest.mark.parametrize(
    ("count", "devices", "links", "expected"),
    [
        (1, 3, {(1, 2): "NV6"}, ((0,), 0.0)),
        (2, 3, {}, ((0, 1), 0.0)),
        # All links are alike, as both ends say: the order of the inventory decides.
        (2, 3, dict.fromkeys(permutations(range(3), 2), "PIX"), ((0, 1), 0.6)),
        (3, 4, dict.fromkeys(permutations(range(4), 2), "NV6"), ((0, 1, 2), 0.9)),
        (2, 3, {(0, 1): "SYS", (0, 2): "SYS", (1, 2): "PIX"}, ((1, 2), 0.6)),
        (2, 4, {(0, 1): "PIX", (2, 3): "NV6"}, ((2, 3), 0.9)),
        # A link that one end alone reports is one; a pair without any is none.
        (3, 3, {(2, 0): "NV6"}, ((0, 1, 2), 0.3)),
        # Of sets that are linked as well, the first in the order of the inventory.
        (3, 6, TWO_TRIANGLES, ((0, 1, 2), 0.7)),
        (3, 6, {**TWO_TRIANGLES, (3, 5): "NV6"}, ((3, 4, 5), 0.8)),
        (4, 6, TWO_TRIANGLES, ((0, 1, 2, 3), 0.35)),
    ],
)  # fmt: skip
def test_the_closest_devices_are_chosen(
    count: int,
    devices: int,
    links: Mapping[tuple[int, int], str],
    expected: tuple[tuple[int, ...], float],
) -> None:
    assert chosen(count, group(devices, links)) == expected

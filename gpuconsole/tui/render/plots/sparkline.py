"""The last minutes of a device in a few cells: braille dots, two columns and four rows a cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from gpuconsole.core.fleet import Device
from gpuconsole.core.history import DeviceMetric, Series, downsample
from gpuconsole.tui.render.text_cells import Piece
from gpuconsole.tui.style.styles import Ink

SPANS_S = (30.0, 60.0, 120.0, 300.0)
"""How far back it goes: as far as anything was recorded, and at most five minutes."""
_AGAIN_S = 5.0
_ASKED = 4
"""Of so many devices it is looked up how far back there is anything."""
DOTS = 4
_LEFT, _RIGHT = (0x40, 0x40, 0x44, 0x46, 0x47), (0x80, 0x80, 0xA0, 0xB0, 0xB8)
"""Braille cells by their dots, filled from below; nothing at all has the lowest dot too."""
_ASCII = " .:-="
Past = Callable[[str, DeviceMetric, float], Series]
"""A device's history by UUID, metric and seconds."""


def levels(series: Series, full: float | None, columns: int) -> tuple[int | None, ...]:
    """Return the dots of each column, 0-4; None where nothing was recorded."""
    if not full:
        return (None,) * columns
    parts = downsample(series, columns)
    return tuple(None if part is None else _dots(part[1] / full) for part in parts)


def _dots(share: float) -> int:
    """Return the dots of a share; what is more than next to nothing has one."""
    return max(1 if share >= 0.02 else 0, min(DOTS, round(share * DOTS)))


def drawn(dots: Sequence[int | None], *, ascii_only: bool) -> str:
    """Return pairs of columns as cells; blank where nothing was recorded."""
    pairs = zip(dots[::2], dots[1::2], strict=True)
    if ascii_only:
        return "".join(_ASCII[max(left or 0, right or 0)] for left, right in pairs)
    return "".join(
        " " if left is None and right is None
        else chr(
            0x2800 | (0 if left is None else _LEFT[left]) | (0 if right is None else _RIGHT[right])
        )
        for left, right in pairs
    )  # fmt: skip


class Sparks:
    """Sparklines of the devices in sight; one is drawn again when it would look different."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self.span_s: float | None = None
        """How far back they go; None while nothing is recorded."""
        self._fitted_at = 0.0
        self._drawn: dict[tuple[str, str, int, float], tuple[int, str]] = {}

    def fit(self, uuids: Sequence[str], now: float) -> bool:
        """Go back as far as there is a figure of one of the devices; return whether that is
        further than before."""
        if self.span_s == SPANS_S[-1] or now - self._fitted_at < _AGAIN_S:
            return False
        begun = min(
            (at for uuid in uuids[:_ASKED] for at in self._began(uuid)), default=None
        )  # fmt: skip
        if begun is None:
            return False
        self._fitted_at = now
        span = next((each for each in SPANS_S if each >= now - begun), SPANS_S[-1])
        if span == self.span_s:
            return False
        self.span_s = span
        return True

    def _began(self, uuid: str) -> tuple[float, ...]:
        past = self._past(uuid, "utilization", SPANS_S[-1])
        pairs = zip(past.times, past.values, strict=True)
        return tuple(islice((at for at, value in pairs if value is not None), 1))

    def piece(
        self, ink: Ink, device: Device, metric: DeviceMetric, full: float | None, width: int,
        now: float,
    ) -> Piece:  # fmt: skip
        """Return the sparkline of a device's last minutes in `width` cells."""
        span = self.span_s or SPANS_S[0]
        key, turn = (device.uuid, metric, width, span), int(now / (span / (2 * width)))
        cached = self._drawn.get(key)
        if cached is None or cached[0] != turn:
            dots = levels(self._past(device.uuid, metric, span), full, 2 * width)
            if len(self._drawn) > _MOST:
                self._drawn.clear()
            cached = self._drawn[key] = turn, drawn(dots, ascii_only=ink.ascii)
        return cached[1], ink.running


_MOST = 4096
"""So many sparklines are remembered."""

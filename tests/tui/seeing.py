"""How colours look: lightness, contrast and distance, also to eyes that lack a kind of cone.

sRGB by IEC 61966-2-1, CIE L*a*b* for D65, contrast by WCAG 2.1, colour blindness by the matrices
of Machado, Oliveira and Fernandes (2009) at full severity, on linear light.
"""

from __future__ import annotations

from typing import Literal

Rgb = tuple[float, float, float]
Lab = tuple[float, float, float]
Eye = Literal["all", "protanopia", "deuteranopia", "tritanopia"]

EYES: tuple[Eye, ...] = ("all", "protanopia", "deuteranopia", "tritanopia")
_SEEN = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
_WHITE = (0.95047, 1.0, 1.08883)


def linear(color: str) -> Rgb:
    """Return `#rrggbb` as linear light, 0-1."""
    said = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in said)
    return r, g, b


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1-21."""
    low, high = sorted((_luminance(linear(one)), _luminance(linear(other))))
    return (high + 0.05) / (low + 0.05)


def lightness(color: str) -> float:
    """Return L*, 0-100."""
    return lab(color)[0]


def distance(one: str, other: str, eye: Eye = "all") -> float:
    """Return how far apart two colours look (CIE 1976); about 2 is just visible."""
    pairs = zip(lab(one, eye), lab(other, eye), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


def lab(color: str, eye: Eye = "all") -> Lab:
    """Return L*, a*, b* as that eye sees the colour."""
    light = linear(color)
    if eye != "all":
        light = _times(_SEEN[eye], light)
        r, g, b = (min(1.0, max(0.0, part)) for part in light)
        light = (r, g, b)
    x, y, z = (
        _curved(value / white) for value, white in zip(_times(_XYZ, light), _WHITE, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _luminance(light: Rgb) -> float:
    return sum(weight * part for weight, part in zip(_XYZ[1], light, strict=True))


def _curved(value: float) -> float:
    return value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116


def _times(matrix: tuple[Rgb, Rgb, Rgb], vector: Rgb) -> Rgb:
    x, y, z = (sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)
    return x, y, z

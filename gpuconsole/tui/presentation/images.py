"""The images of a host, as its screen shows them."""

from __future__ import annotations

from gpuconsole.core.units import format_mib
from gpuconsole.session.images.service import HostImages
from gpuconsole.tui.ink import Ink
from gpuconsole.tui.presentation.cells import Piece, fit, wrapped

Lines = list[list[Piece]]
SHOWN = 6
"""Images that are named; the largest come first."""


def image_lines(ink: Ink, found: HostImages, width: int) -> Lines:
    """Return a heading and a line for each image, or why they cannot be told."""
    lines: Lines = [[(fit(ink.say("images"), width), ink.title)]]
    if found.error:
        return [*lines, *([(line, ink.warn)] for line in wrapped(ink.say(found.error), width))]
    if not found.images:
        return [*lines, [(ink.say("none yet"), ink.muted)]]
    for record in found.images[:SHOWN]:
        name = next(iter(record.names or record.digests), "")
        size = format_mib(record.size_mib)
        # What tells images apart stands at the end of their names.
        short = name if len(name) < width - len(size) else name.rpartition("/")[2]
        lines.append(
            [(fit(ink.say(short), width - len(size) - 1) + " ", ink.text), (size, ink.muted)]
        )
    rest = len(found.images) - SHOWN
    return [*lines, [(ink.say(f"and {rest} more"), ink.muted)]] if rest > 0 else lines

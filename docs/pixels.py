"""Screens of a terminal as PNG, for `screens.py`: each character in its cell, as a terminal has it.

Drawn with Pillow and the fonts that fontconfig finds: DejaVu Sans Mono, and for what it lacks, such
as Chinese, the first that has the character.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from animation import colors
from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

CELL, ROW, FONT = 8, 15, 13.29
"""Width and height of a cell and size of the font, in pixels: lines of boxes meet."""
WIDE_FONT = 13
"""Size of the font of characters that take two cells."""
BASE = 3
"""Pixels between the line on which letters stand and the end of the row."""
_PLAIN, _BOLD, _WIDE = "DejaVu Sans Mono", "DejaVu Sans Mono:bold", ":lang=zh-cn:charset=4e2d"

_BRAILLE = "\u2800"
_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each dot, in the order of their bits."""


def save(lines: Sequence[Sequence[Segment]], path: Path) -> None:
    """Write the lines of a screen as a PNG."""
    columns = max(Segment.get_line_length(list(line)) for line in lines)
    picture = Image.new("RGB", (columns * CELL, len(lines) * ROW))
    draw = ImageDraw.Draw(picture)
    for row, line in enumerate(lines):
        cells = list(_cells(line))
        for at, width, _, style in cells:
            left, top = at * CELL, row * ROW
            draw.rectangle((left, top, left + width * CELL - 1, top + ROW - 1), colors(style)[1])
        for at, width, text, style in cells:
            _letter(draw, (at * CELL, row * ROW), text, width, style)
    picture.quantize(method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


def _cells(line: Iterable[Segment]) -> Iterator[tuple[int, int, str, Style]]:
    """Give each character: the column it begins at, its width in cells, it, and its style."""
    at = 0
    for segment in line:
        style = segment.style or Style.null()
        for letter in segment.text:
            width = cell_len(letter)
            if width:
                yield at, width, letter, style
            at += width


def _letter(
    draw: ImageDraw.ImageDraw, place: tuple[int, int], text: str, width: int, style: Style
) -> None:
    """Draw a character into its cell, on the line that all letters of the row stand on."""
    if text.isspace():
        return
    left, top = place
    front = colors(style)[0]
    if _BRAILLE <= text < chr(ord(_BRAILLE) + 256):
        _dots(draw, place, ord(text) - ord(_BRAILLE), front)
    elif width == 2:
        font = _font(_WIDE, WIDE_FONT)
        draw.text((left + CELL, top + ROW - BASE), text, front, font, anchor="ms")
    else:
        font = _font(_BOLD if style.bold else _PLAIN, FONT)
        draw.text((left, top + ROW - BASE), text, front, font, anchor="ls")
    if style.underline:
        draw.line((left, top + ROW - 2, left + width * CELL - 1, top + ROW - 2), front)


def _dots(draw: ImageDraw.ImageDraw, place: tuple[int, int], bits: int, front: str) -> None:
    """Draw the dots of a braille character, which the font need not have."""
    for number, (column, row) in enumerate(_DOTS):
        if bits >> number & 1:
            left, top = place[0] + 1 + 4 * column, place[1] + 1 + row * ROW // 4
            draw.rectangle((left, top, left + 1, top + 1), front)


@cache
def _font(pattern: str, size: float) -> ImageFont.FreeTypeFont:
    """Return the font that fontconfig finds for the pattern."""
    command = ["fc-match", "-f", "%{file}\t%{index}", pattern]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    file, _, index = found.partition("\t")
    return ImageFont.truetype(file, size, index=int(index or 0))

"""Screens of a terminal as one animated SVG, for `recording.py`.

A line that several screens show is drawn once and is visible while they are. Nothing is fetched:
no font, no script. A reader who asks for less motion sees the first screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import TypeVar
from xml.sax.saxutils import escape

from rich.color import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME as THEME

Line = tuple[Segment, ...]
T = TypeVar("T")

CELL, ROW, FONT = 8.4, 18, 14
"""Width of a cell, height of a line and size of the font, in pixels."""
PADDING, BAR = 10, 34
BACKGROUND, CAPTION = "#0b0e14", "#8fd3ff"


@dataclass(frozen=True, slots=True)
class Frame:
    """A screen, what is said above it, and how long both are shown."""

    caption: str
    lines: tuple[Line, ...]
    seconds: float


@dataclass(slots=True)
class _Sheet:
    """What frames share: drawn lines, classes of text, and times at which something is visible."""

    frames: int
    lines: dict[Line, str] = field(default_factory=dict)
    styles: dict[str, str] = field(default_factory=dict)
    times: dict[tuple[int, int], str] = field(default_factory=dict)

    def line(self, line: Line) -> str:
        return self.lines.setdefault(line, f"l{len(self.lines)}")

    def style(self, css: str) -> str:
        return self.styles.setdefault(css, f"s{len(self.styles)}")

    def during(self, first: int, end: int) -> str:
        """Return the class of what is visible from frame `first` to before frame `end`."""
        if (first, end) == (0, self.frames):
            return ""
        return self.times.setdefault((first, end), f"t{len(self.times)}")


def animated(frames: Sequence[Frame], title: str, mark: str = "") -> str:
    """Return the picture of frames that are shown one after another, again and again, all of them
    below a mark."""
    sheet = _Sheet(len(frames))
    captions = [
        f'<text class="c {sheet.during(first, end)}" x="{PADDING}" y="22">{escape(text)}</text>'
        for first, end, text in _runs([frame.caption for frame in frames])
    ]
    shown = [
        f'<use href="#{sheet.line(line)}" y="{row * ROW}" class="{sheet.during(first, end)}"/>'
        for row in range(len(frames[0].lines))
        for first, end, line in _runs([frame.lines[row] for frame in frames])
    ]
    drawn = [
        f'<g id="{name}">{"".join(_drawn(line, sheet))}</g>' for line, name in sheet.lines.items()
    ]
    columns = max(Segment.get_line_length(list(line)) for line in frames[0].lines)
    width = round(columns * CELL) + 2 * PADDING
    height = len(frames[0].lines) * ROW + BAR + PADDING
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            f"<title>{escape(title)}</title>",
            f"<style>{_css(sheet, [frame.seconds for frame in frames])}</style>",
            f"<defs>{''.join(drawn)}</defs>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
            *captions,
            f'<text class="c" x="{width - PADDING}" y="22" text-anchor="end">{escape(mark)}</text>',
            f'<g transform="translate({PADDING} {BAR})">',
            *shown,
            "</g></svg>\n",
        )
    )


def _runs(values: Sequence[T]) -> Iterator[tuple[int, int, T]]:
    """Give each run of equal values: its first position, the one behind it, and the value."""
    at = 0
    for value, run in groupby(values):
        first, at = at, at + len(list(run))
        yield first, at, value


def _css(sheet: _Sheet, seconds: Sequence[float]) -> str:
    ends = [0.0, *accumulate(seconds)]
    rules = [
        f"text{{font:{FONT}px DejaVu Sans Mono,Menlo,Consolas,monospace;white-space:pre}}",
        f".c{{fill:{CAPTION}}}",
        *(f".{name}{{{css}}}" for css, name in sheet.styles.items()),
    ]
    for (first, end), name in sheet.times.items():
        begin, over = (f"{100 * ends[at] / ends[-1]:.2f}%" for at in (first, end))
        before = "" if first == 0 else "0%{visibility:hidden}"
        after = "" if end == sheet.frames else f"{over}{{visibility:hidden}}"
        rules.append(
            f"@keyframes {name}{{{before}{begin}{{visibility:visible}}{after}}}"
            f".{name}{{visibility:{'visible' if first == 0 else 'hidden'};"
            f"animation:{name} {ends[-1]:.2f}s step-end infinite}}"
        )
    still = ",".join(f".{name}" for name in sheet.times.values())
    if still:
        rules.append(f"@media(prefers-reduced-motion){{{still}{{animation:none}}}}")
    return "\n".join(rules)


def _drawn(line: Line, sheet: _Sheet) -> Iterator[str]:
    """Give the elements of a line: backgrounds first, so that they cut no glyph."""
    at, texts = 0, []
    for segment in line:
        cells = segment.cell_length
        front, back = colors(segment.style or Style.null())
        x, width = f"{at * CELL:.1f}", f"{cells * CELL:.1f}"
        if back != BACKGROUND:
            yield f'<rect x="{x}" width="{width}" height="{ROW + 0.5}" fill="{back}"/>'
        if segment.text.strip():
            bold = ";font-weight:bold" if segment.style and segment.style.bold else ""
            texts.append(
                f'<text class="{sheet.style(f"fill:{front}{bold}")}" x="{x}" y="{FONT}"'
                f' textLength="{width}">{escape(segment.text)}</text>'
            )
        at += cells
    yield from texts


def colors(style: Style) -> tuple[str, str]:
    """Return the colours of text and background, as they are after `reverse` and `dim`."""
    front = style.color.get_truecolor(THEME) if style.color else THEME.foreground_color
    back = style.bgcolor.get_truecolor(THEME, foreground=False) if style.bgcolor else None
    ground = back or ColorTriplet(*bytes.fromhex(BACKGROUND[1:]))
    if style.reverse:
        front, back = ground, front
        ground = back
    if style.dim:
        front = ColorTriplet(*((a + b) // 2 for a, b in zip(front, ground, strict=True)))
    return front.hex, (back.hex if back else BACKGROUND)

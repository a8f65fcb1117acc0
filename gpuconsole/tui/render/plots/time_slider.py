"""The line of time: what was recorded, what happened, and where one looks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style

from gpuconsole.core.events import Event, Severity
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.render.text_cells import Piece
from gpuconsole.tui.style.styles import Ink

if TYPE_CHECKING:
    from gpuconsole.state.recording.archive import Span

WINDOWS_S = (60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 24 * 3600.0, 3 * 86400.0, 14 * 86400.0)
"""The slider spans the smallest of these that holds the moment and now, and as much as `USUAL_S`
of what was recorded."""
USUAL_S = 900.0
LOOK_BACK = ", < @ look back"
"""The keys by which one leaves now."""
BRIEF_S = 600.0
"""Below this (s) the ends are shown to the second."""
_RANKS: dict[Severity, int] = {"information": 1, "warning": 2, "error": 3}


@dataclass(frozen=True, slots=True)
class TimeView:
    """What the slider shows."""

    at: float
    first: float
    last: float
    """The first recorded moment, and now, or the last of a file."""
    spans: Sequence[Span] = ()
    marks: Sequence[Event] = ()
    speed: float = 0.0
    """How fast time passes; 0 while paused."""
    fixed: bool = False
    """Whether it is a file, shown from end to end."""
    live: bool = False
    """Whether one looks at now: then it tells how far back one can look, and by which keys."""

    @property
    def window(self) -> tuple[float, float]:
        """The times at both ends of the slider."""
        if self.fixed:
            return self.first, max(self.last, self.first + 1.0)
        covered = min(USUAL_S, self.last - self.first)
        needed = max((self.last - self.at) * 1.1, covered)
        length = next((window for window in WINDOWS_S if window >= needed), needed)
        return self.last - length, self.last


@dataclass(frozen=True, slots=True)
class Track:
    """Where on a line the track lies, and which times it spans."""

    start: int
    width: int
    first: float
    last: float

    def time_at(self, column: int) -> float | None:
        """Return the time at a column of the line; None beside the track."""
        place = column - self.start
        if not 0 <= place < self.width:
            return None
        return self.first + (place + 0.5) / self.width * (self.last - self.first)

    def place_of(self, at: float) -> int:
        """Return where on the track a time lies."""
        share = (at - self.first) / (self.last - self.first)
        return min(self.width - 1, max(0, int(share * self.width)))


def slider_line(ink: Ink, view: TimeView, width: int) -> tuple[list[Piece], Track]:
    """Return the line, and where its track is."""
    first, last = view.window
    brief = last - first < BRIEF_S
    end = _label(last, last, seconds=brief) if view.fixed else ink.say("now")
    left, right = f" {_label(first, last, seconds=brief)} ", f" {end} "
    far = format_duration(max(0.0, view.last - view.at))
    words = ink.say(f"{far} to the end" if view.fixed else f"{far} ago")
    tail = f"{_motion(ink, view.speed)}{words} " if width >= 80 else _motion(ink, view.speed)
    if view.live:
        tail = f" {ink.say(LOOK_BACK)} "
    beside = len(left) + cell_len(right) + cell_len(tail)
    track = Track(len(left), max(8, width - beside), first, last)
    styles, glyphs = _track(ink, view, track)
    pieces: list[Piece] = [(left, ink.muted)]
    for glyph, style in zip(glyphs, styles, strict=True):
        if pieces[-1][1] is style:
            pieces[-1] = pieces[-1][0] + glyph, style
        else:
            pieces.append((glyph, style))
    return [*pieces, (right, ink.muted), (tail, ink.text)], track


def _track(ink: Ink, view: TimeView, track: Track) -> tuple[list[Style], list[str]]:
    line, gap, event, trouble, here = "-.!!#" if ink.ascii else "━┈•!█"
    glyphs, styles = [gap] * track.width, [ink.rule] * track.width
    for span in view.spans:
        if span.last < track.first or span.first > track.last:
            continue
        for place in range(track.place_of(span.first), track.place_of(span.last) + 1):
            glyphs[place], styles[place] = line, ink.running
    ranks = [0] * track.width
    for mark in view.marks:
        rank = _RANKS[mark.severity]
        if track.first <= mark.at <= track.last and rank > ranks[track.place_of(mark.at)]:
            place = track.place_of(mark.at)
            ranks[place] = rank
            glyphs[place] = event if rank == 1 else trouble
            styles[place] = (ink.muted, ink.warn, ink.bad)[rank - 1]
    place = track.place_of(view.at)
    glyphs[place], styles[place] = here, ink.accent
    return styles, glyphs


def _motion(ink: Ink, speed: float) -> str:
    if not speed:
        return "|| " if ink.ascii else "‖ "
    return f"{'>' if ink.ascii else '▶'} {speed:g}x  "


def _label(at: float, last: float, *, seconds: bool) -> str:
    moment = datetime.fromtimestamp(at)
    if moment.date() == datetime.fromtimestamp(last).date():
        return moment.strftime("%H:%M:%S" if seconds else "%H:%M")
    return moment.strftime("%m-%d %H:%M")

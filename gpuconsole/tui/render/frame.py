"""The lines around every screen: status, numbered screens with crumbs, footer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from rich.cells import cell_len
from rich.style import Style

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.render.text_cells import Piece, fit
from gpuconsole.tui.snapshot import Picture, Totals
from gpuconsole.tui.style.styles import Ink

STALE_AFTER_S = 5.0
MOST_KEYS = 9
ROOMY = 140
"""From so many columns on there is room for the console's name."""
WIDE = 100
"""From so many columns on there is room for what numbers count."""
MOST_SIZES = 4
_COUNTED = {"queue": "{} waiting", "job": "{} active", "triage": "{} open"}
"""What the numbers of the tabs count."""
_MORE = " …"
"""After free sizes for which there was no room."""
_INTO = " > "
"""Between a place and one inside of it."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What the status line always says beside the figures."""

    simulated: bool = False
    read_only: bool = False
    paused: bool = False
    site: str = ""
    notice: str = ""
    """A trouble that lasts, such as the session not started."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A numbered screen."""

    mode: str
    key: str
    label: str


TABS = (Tab("fleet", "1", "Fleet"), Tab("queue", "2", "Queue"), Tab("job", "3", "Job"),
        Tab("submit", "4", "Submit"), Tab("triage", "5", "Triage"))  # fmt: skip


def status_line(ink: Ink, picture: Picture, marks: Marks, width: int) -> list[Piece]:
    """Return line 1: who, how much of everything, how fresh, what time."""
    wide = width >= 100
    left: list[Piece] = [(" ", ink.text)]
    if width >= ROOMY:
        left.append(("gpuconsole  ", ink.title))
    if marks.site:
        left.append((fit(marks.site, min(16, cell_len(marks.site))) + "  ", ink.strong))
    left += _sums(ink, picture.totals, picture.free_sizes, wide)
    critical: list[Piece] = []
    if picture.critical:
        words = ink.say(f" {picture.critical} CRIT ")
        critical = [(words, ink.bad + _REVERSE), (" ", ink.text)]
    right = critical + _badges(ink, marks) + _freshness(ink, picture, wide)
    return _ends(ink, left, right, width)


def _sums(ink: Ink, totals: Totals, sizes: Sequence[tuple[int, int]], wide: bool) -> list[Piece]:
    bar: Piece = (" │ " if not ink.ascii else " | ", ink.rule)
    say = ink.say
    hosts: list[Piece] = [(say(f"{totals.up:,} up"), ink.text)]
    if totals.down:
        hosts += [(" ", ink.text), (say(f" {totals.down} DOWN "), ink.bad + _REVERSE)]
    bad: list[Piece] = [(say(f"  {totals.bad} bad"), ink.bad)] if totals.bad else []
    if wide:
        power = totals.power_w
        watts = f"{power / 1e6:.1f} MW" if power >= 1e6 else f"{power / 1000:.1f} kW"
        devices: list[Piece] = [
            (f"{totals.devices:,} GPU  ", ink.strong),
            (say(f"{totals.busy:,} busy"), ink.text),
        ]
        memory = say(f"  mem {_percent(totals.memory)}")
        more = [(memory, ink.text), (f"  {watts}", ink.text)]
    else:
        devices = [(say(f"{totals.busy:,}/{totals.devices:,} busy"), ink.text)]
        more = []
    devices.append((say(f"  {totals.free:,} free"), ink.free if totals.free else ink.text))
    devices += [(f" {count:,}x{size}G", ink.good) for size, count in sizes[:MOST_SIZES]]
    load = say(f"util {_percent(totals.utilization)}")
    return [*hosts, bar, *devices, *bad, bar, (load, ink.text), *more]


def _badges(ink: Ink, marks: Marks) -> list[Piece]:
    words = [
        ("SIMULATED", marks.simulated),
        ("READ-ONLY", marks.read_only),
        ("PAUSED", marks.paused),
        (marks.notice, bool(marks.notice)),
    ]
    pieces: list[Piece] = []
    for word, on in words:
        if on:
            pieces += [(f" {ink.say(word)} ", ink.mark), (" ", ink.text)]
    return pieces


def _freshness(ink: Ink, picture: Picture, wide: bool) -> list[Piece]:
    age = picture.age_s
    clock = datetime.fromtimestamp(picture.now).strftime("%H:%M:%S" if wide else "%H:%M")
    if not picture.now:
        clock = "--:--"
    if age is None:
        return [(ink.say("no data  "), ink.muted), (clock + " ", ink.text)]
    stale = age > STALE_AFTER_S
    words = f"{age:.0f}s!" if stale else f"{age:.0f}s"
    return [(words + "  ", ink.warn if stale else ink.muted), (clock + " ", ink.text)]


def nav_line(ink: Ink, picture: Picture, mode: str, crumbs: str, width: int) -> list[Piece]:
    """Return line 2: the numbered screens, and at the right where one is."""
    wrong = len(picture.open_incidents)
    numbers = {"queue": picture.waiting, "job": picture.active, "triage": wrong}
    wide = width >= WIDE
    left: list[Piece] = [(" ", ink.text)]
    for tab in TABS:
        number = numbers.get(tab.mode, 0)
        urgent = "!" if tab.mode == "triage" and picture.critical else ""
        count = f" {number}{urgent}" if number else ""
        if number and wide:
            count = f" {ink.say(_COUNTED[tab.mode].format(number))}{urgent}"
        here = tab.mode == mode
        go = _clicked(f"app.go('{tab.mode}')")
        words = f" {tab.key} {ink.say(tab.label)}{count} "
        if here and (ink.ascii or ink.few_colors):
            words = f"[{words[1:-1]}]"
        left += [(words, (ink.here if here else ink.muted) + go), (" ", ink.text)]
    room = width - sum(cell_len(text) for text, _ in left) - 2
    crumbs = _nearest(crumbs, room)
    crumb = fit(crumbs, min(cell_len(crumbs), max(0, room)))
    return _ends(ink, left, [(crumb + " ", ink.muted)], width)


@lru_cache(maxsize=256)
def _clicked(action: str) -> Style:
    """Return the style of words that do something when they are clicked."""
    return Style.from_meta({"@click": action})


def _nearest(crumbs: str, room: int) -> str:
    """Leave out places from the first, until what is left fits."""
    places = crumbs.split(_INTO)
    while len(places) > 1 and cell_len(_INTO.join(places)) > room:
        del places[0]
    return _INTO.join(places)


def footer_line(ink: Ink, keys: Sequence[Key], width: int, *, form: bool) -> list[Piece]:
    """Return the last line: at most nine keys of the screen, then command and help."""
    last = [("F10", "command"), ("F1", "help")] if form else [(":", "command"), ("?", "help")]
    tail: list[Piece] = []
    for name, label in last:
        go = _clicked(_TAIL_CLICKS[label])
        tail += [(name, ink.key + go), (f" {ink.label(label)}  ", ink.muted + go)]
    tail[-1] = (tail[-1][0].rstrip(), tail[-1][1])
    tail_width = sum(cell_len(text) for text, _ in tail)
    pieces: list[Piece] = [(" ", ink.text)]
    used = 1
    for key in keys[:MOST_KEYS]:
        label = ink.label(key.label)
        needed = cell_len(key.short) + cell_len(label) + 3
        if used + needed + tail_width > width:
            continue
        click = key.action if key.action.startswith("app.") else f"screen.{key.action}"
        go = _clicked(click if click.endswith(")") else f"{click}()")
        pieces += [(key.short, ink.key + go), (f" {label}  ", ink.text + go)]
        used += needed
    return [*pieces, *tail]


def _ends(ink: Ink, left: list[Piece], right: list[Piece], width: int) -> list[Piece]:
    """Put pieces at both ends; the left is cut when both do not fit."""
    right_width = sum(cell_len(text) for text, _ in right)
    room = max(0, width - right_width)
    pieces: list[Piece] = []
    cut = False
    for text, style in left:
        length = cell_len(text)
        if length > room:
            # A figure cut in two would be misread: what does not fit is left out whole.
            cut = style is ink.good
            break
        pieces.append((text, style))
        room -= length
    while pieces and pieces[-1][1] is ink.rule:
        # What it sets apart was left out.
        room += cell_len(pieces.pop()[0])
    if cut:
        # Of several kinds that are free some would be taken for all.
        while room < len(_MORE) and pieces[-1][1] is ink.good:
            room += cell_len(pieces.pop()[0])
        if room >= len(_MORE):
            pieces.append((_MORE, ink.muted))
            room -= len(_MORE)
    return [*pieces, (" " * room, ink.text), *right]


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.0f}%"


_REVERSE = Style(reverse=True)
_TAIL_CLICKS = {"command": "app.command_palette()", "help": "app.help()"}

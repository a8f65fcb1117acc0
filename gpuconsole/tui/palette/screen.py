"""The command palette: type, and go there or do it. Searched in slices, so that no key waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from heapq import nlargest
from inspect import isawaitable
from time import perf_counter
from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.palette.commands import look_at, sources
from gpuconsole.tui.palette.entries import Entry, Item, Run, Source
from gpuconsole.tui.palette.fuzzy import PART, places, score
from gpuconsole.tui.render.text_cells import Piece, fit
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.field import Field
from gpuconsole.tui.widgets.panel import name_box
from gpuconsole.tui.widgets.row_list import Rows

if TYPE_CHECKING:
    from gpuconsole.tui.app import ConsoleApp

SLICE_S = 0.004
"""Searching lets keys pass after so long."""
MOST_OF_A_GROUP = 12
GROUP_WIDTH = 9
NOTE_WIDTH = 22
GAP, SCROLL_BAR = 2, 1
HINT = "type to find hosts, devices, jobs, actions, themes, settings, or a time such as 10m"


@dataclass(frozen=True, slots=True)
class Hit:
    """A line of the list."""

    group: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class Query:
    """What was typed: words, and the group that is meant by `job:` before them."""

    group: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, typed: str, groups: frozenset[str]) -> Query:
        """Read what was typed."""
        head, colon, rest = typed.strip().lower().partition(":")
        name = head.strip().removesuffix("s")
        if colon and name in groups:
            return cls(name, tuple(rest.split()))
        return cls("", tuple(typed.lower().split()))

    def narrows(self, before: Query) -> bool:
        """Whether nothing can match that did not match before."""
        return (
            self.group == before.group
            and len(self.words) >= len(before.words) > 0
            and all(new.startswith(old) for new, old in zip(self.words, before.words, strict=False))
        )


class Hits(Rows, can_focus=False):
    """The list; one click does what a row says."""

    def on_click(self, event: events.Click) -> None:
        """Do what was clicked."""
        super().on_click(event)
        spot = event.get_content_offset(self)
        if spot is not None and 1 <= spot.y <= len(self.keys) - self.scroll_offset.y:
            self.post_message(self.Opened(self.current))


class Palette(Dialog[None]):
    """Find a command, host, device or job."""

    BINDINGS = bindings("palette")
    AUTO_FOCUS = "#palette-input"
    TYPED_INTO = True

    def __init__(self, below: ConsoleScreen) -> None:
        super().__init__()
        self._below = below
        self._sources: tuple[Source, ...] = ()
        self._items: dict[str, list[Item]] = {}
        self._matched: tuple[Query, dict[str, list[Item]]] = (Query("", ()), {})
        self._query = Query("", ())
        self._hits: dict[str, Hit] = {}
        self._searching = False
        self._wanted = False
        """Enter was pressed before the search was over."""
        self._moment: Entry | None = None
        """The time that what is typed means, to look at."""
        self._worn = ""
        """The theme that was on before others were tried on; "" where none was."""

    def compose(self) -> ComposeResult:
        """Input, list, and a line for when there is nothing."""
        with Vertical(id="palette", classes="panel"):
            say = ink_of(self).say
            yield Field(id="palette-input", compact=True, placeholder=say(HINT))
            yield Hits(id="palette-hits")
            yield Static(say("Nothing matches."), id="palette-empty", markup=False)

    def on_mount(self) -> None:
        """Offer what can be done before anything is typed."""
        name_box(self.query_one("#palette"), "command", "enter does it  esc closes")
        self._sources = sources(self.console, self._below)
        self._search("")

    # -- keys -------------------------------------------------------------------------------

    def action_move(self, rows: int) -> None:
        """Move the cursor; a theme that it reaches is tried on."""
        self.query_one(Hits).action_move(rows)
        self._try_on()

    def action_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        self.query_one(Hits).action_page(pages)
        self._try_on()

    def action_leave(self) -> None:
        """Close the palette."""
        self._take_off()
        self._close()

    def _try_on(self) -> None:
        """Show all in the theme under the cursor, until the cursor leaves it."""
        hit = self._hits.get(self.query_one(Hits).current)
        if hit is None or hit.group != "theme":
            self._take_off()
            return
        self._worn = self._worn or self.console.theme
        self.console.theme = hit.entry.id.removeprefix("theme ")

    def _take_off(self) -> None:
        """Put on the theme again that was on before."""
        if self._worn:
            self.console.theme, self._worn = self._worn, ""

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._take_off()
        self._search(event.value)

    @on(Input.Submitted)
    @on(Rows.Opened)
    def _chosen(self, event: Input.Submitted | Rows.Opened) -> None:
        event.stop()
        self.action_do()

    def action_do(self) -> None:
        """Run the item under the cursor, after the search for what was typed."""
        if self._searching:
            self._wanted = True
        else:
            self._do()

    def _do(self) -> None:
        hit = self._hits.get(self.query_one(Hits).current)
        if hit is None:
            return
        self._take_off()
        if hit.group != "time":
            self.console.recent.add(hit.entry.id)
        console, run = self.console, hit.entry.run
        self._close()
        console.call_later(_done, run)

    def _close(self) -> None:
        if self.is_current:
            self.dismiss()

    # -- searching --------------------------------------------------------------------------

    def _search(self, typed: str) -> None:
        groups = frozenset(source.group for source in self._sources)
        self._moment = None if self._below.FORM else look_at(self.console, typed)
        self._query = Query.of(typed, groups)
        self._searching, self._wanted = True, False
        aside(self, partial(self._find, self._query), group="search", exclusive=True)

    async def _find(self, query: Query) -> None:
        before, known_items = self._matched
        matched: dict[str, list[Item]] = {}
        groups: list[tuple[int, Source, list[Item], int]] = []
        recent = frozenset(self.console.recent.ids)
        slice_ = _Slice()
        for source in self._sources:
            asked = bool(query.words) or query.group == source.group
            if (query.group and query.group != source.group) or not (asked or source.shown_at_once):
                continue
            items = known_items.get(source.group) if query.narrows(before) else None
            if items is None:
                items = await self._all(source, slice_)
            scored: list[tuple[int, int]] = []
            for number, item in enumerate(items):
                worth = score(query.words, item.text)
                if worth:
                    scored.append((worth + 500 * (item.id in recent), -number))
                if not number % 64:
                    await slice_.pause()
            matched[source.group] = [items[-number] for _, number in scored]
            scored = _clear(scored, PART * len(query.words))
            best = nlargest(MOST_OF_A_GROUP if asked else len(scored), scored)
            if best:
                top = [items[-number] for _, number in best]
                groups.append((best[0][0], source, top, len(scored)))
        if query.words:
            groups.sort(key=lambda group: -group[0])
            # The text itself occurs: matches of its letters alone would only be in the way.
            clear = [group for group in groups if group[0] >= PART * len(query.words)]
            groups = clear or groups
        self._matched = (query, matched)
        self._show(query, [(source.group, top, count) for _, source, top, count in groups])

    async def _all(self, source: Source, slice_: _Slice) -> list[Item]:
        """Everything of a source; listed once, in slices too."""
        if source.group not in self._items:
            items: list[Item] = []
            for number, item in enumerate(source.items()):
                items.append(item)
                if not number % 64:
                    await slice_.pause()
            self._items[source.group] = items
        return self._items[source.group]

    # -- drawing ----------------------------------------------------------------------------

    def _show(self, query: Query, groups: list[tuple[str, list[Item], int]]) -> None:
        if query != self._query or not self.is_mounted:
            return
        hits: dict[str, Hit] = {}
        if self._moment is not None:
            hits["time"] = Hit("time", self._moment)
        if not query.words and not query.group:
            by_id = {item.id: item for items in self._items.values() for item in items}
            for id_ in self.console.recent.ids:
                if id_ in by_id:
                    hits[f"recent {id_}"] = Hit("recent", by_id[id_].entry())
        counts: Counter[str] = Counter()
        for group, items, count in groups:
            counts[group] = count
            hits |= {f"{group} {item.id}": Hit(group, item.entry()) for item in items}
        self._hits = hits
        rows = self.query_one(Hits)
        rows.put(tuple(hits), partial(self._line, query, tuple(hits.values()), counts), [])
        rows.action_edge(-1)
        self.set_class(not hits, "-empty")
        self._searching = False
        if self._wanted:
            self._do()

    def _line(
        self, query: Query, hits: tuple[Hit, ...], counts: Counter[str], key: str, number: int
    ) -> list[Piece]:
        ink = ink_of(self)
        hit = hits[number]
        first = number == 0 or hits[number - 1].group != hit.group
        note = hit.entry.note
        count = counts[hit.group]
        if first and query.words and count > MOST_OF_A_GROUP:
            note = ink.say(f"{MOST_OF_A_GROUP} of {count:,}") + f"  {note}"
        note_width = min(NOTE_WIDTH, cell_len(note))
        room = self.query_one(Hits).inner_width - GROUP_WIDTH - note_width - GAP - SCROLL_BAR
        name = fit(hit.entry.name, max(10, room))
        return [
            (fit(ink.say(hit.group) if first else "", GROUP_WIDTH), ink.muted),
            *_marked(name, places(query.words, name.lower()), ink.text, ink.key),
            (" " * GAP, ink.text),
            (fit(note, note_width, "right"), ink.muted),
        ]

    @property
    def console(self) -> ConsoleApp:
        """The app, typed."""
        return cast("ConsoleApp", self.app)


def _clear(scored: list[tuple[int, int]], enough: int) -> list[tuple[int, int]]:
    """Where some have the words as they were typed, those that only have their letters go."""
    clear = [group for group in scored if group[0] >= enough]
    return clear or scored


class _Slice:
    """Time that may be spent at a stretch."""

    def __init__(self) -> None:
        self._began = perf_counter()

    async def pause(self) -> None:
        """Let keys pass when it has been long enough."""
        if perf_counter() - self._began > SLICE_S:
            await asyncio.sleep(0)
            self._began = perf_counter()


def _marked(name: str, where: frozenset[int], plain: Style, lit_style: Style) -> list[Piece]:
    """The name, its matched letters in another style."""
    pieces: list[Piece] = []
    run, lit = "", False
    for at, letter in enumerate(name):
        if (at in where) is not lit:
            pieces.append((run, lit_style if lit else plain))
            run, lit = "", not lit
        run += letter
    return [*pieces, (run, lit_style if lit else plain)]


async def _done(run: Run) -> None:
    """Run it, and wait for it where it takes time."""
    answer = run()
    if isawaitable(answer):
        await answer

"""Events as notifications: many hosts or incidents as one, and those that call a person who looks
elsewhere.

Terminals know two sequences for it: OSC 9 (iTerm2, WezTerm, kitty, ghostty, Windows Terminal) and
OSC 777 (urxvt, and those built on VTE). Each gets one of them; others ignore what they do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gpuconsole.core.events import Event
from gpuconsole.core.incidents import Severity
from gpuconsole.core.text import clean
from gpuconsole.core.wording import joined, msg, name, sentences

if TYPE_CHECKING:
    from textual.app import App


LONGEST = 200


def worth_a_call(event: Event, least: str) -> bool:
    """Whether an event is an incident that a person asked to be called for: of the severity
    `least` or above; "" asks for none."""
    if event.kind != "incident" or not least:
        return False
    ranks = {"error": Severity.CRITICAL.rank, "warning": Severity.WARNING.rank}
    return ranks.get(event.severity, Severity.INFO.rank) <= Severity(least).rank


def notification(title: str, body: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that shows a notification; what is foreign in it cannot end it early."""
    name, words = _plain(title), _plain(body)
    if "VTE_VERSION" in environ or environ.get("TERM", "").startswith("rxvt"):
        return f"\x1b]777;notify;{name};{words}\x07"
    # A digit after the 9 would be read as another command; the title never begins with one.
    return f"\x1b]9;{name}: {words}\x07"


def _plain(text: str) -> str:
    return clean(text, LONGEST).replace(";", ",")


TOGETHER_S = 0.5
"""Changes of hosts, and incidents, within so many seconds are coalesced into one notification."""
MOST_ALONE = 3
"""Up to so many changes are notified one by one."""
MOST_NAMED = 5
_SEVERAL = {" is up.": "are up", " sleeps.": "sleep"}
"""How the sentence about one host ends, and what is said of several."""


class Crowds:
    """Passes events on to `tell`; those of hosts and incidents a moment later, many as one."""

    def __init__(self, app: App[None], tell: Callable[[Event], None]) -> None:
        self._app = app
        self._tell = tell
        self._waiting: list[Event] = []

    def take(self, event: Event) -> None:
        """Take an event of the session."""
        if event.kind not in ("host", "incident"):
            self._tell(event)
            return
        if not self._waiting:
            # An event comes in a task of the session, which may not be one of the app's.
            self._app.call_later(self._app.set_timer, TOGETHER_S, self._tell_waiting)
        self._waiting.append(event)

    def _tell_waiting(self) -> None:
        events, self._waiting = self._waiting, []
        groups: dict[tuple[str, str], list[Event]] = {}
        for event in events:
            ending = event.message.removeprefix(event.subject)
            key = event.kind, _SEVERAL.get(ending, event.severity)
            groups.setdefault(key, []).append(event)
        for (kind, word), group in groups.items():
            many = _incidents_together if kind == "incident" else partial(_hosts_together, word)
            for event in group if len(group) <= MOST_ALONE else [many(group)]:
                self._tell(event)


def _incidents_together(events: list[Event]) -> Event:
    """Return one event for many incidents of one severity."""
    count, last = len(events), events[-1]
    names = _first_of([event.message.partition(": ")[0] for event in events])
    text = msg("{n} incidents: {names}.", n=count, names=names)
    return Event("incident", "", text, last.at, last.severity)


def _hosts_together(word: str, events: list[Event]) -> Event:
    """Return one event for many hosts that did the same."""
    count, last = len(events), events[-1]
    if word in _SEVERAL.values():
        return Event("host", "", msg(f"{{n}} hosts {word}.", n=count), last.at, last.severity)
    names = _first_of([event.subject for event in events])
    changed = "{n} hosts changed: {names}."
    text = "{n} hosts are down: {names}." if word == "error" else changed
    return Event("host", "", msg(text, n=count, names=names), last.at, last.severity)


def _first_of(subjects: list[str]) -> str:
    """Return the first of many names, and how many more there are."""
    names = joined(", ", [name(subject) for subject in subjects[:MOST_NAMED]])
    more = len(subjects) - MOST_NAMED
    return sentences(names, msg("and {n} more", n=more)) if more > 0 else names

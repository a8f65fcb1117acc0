"""Telling a person who looks elsewhere: the terminal's bell, and a notification of its own.

Terminals know two sequences for it: OSC 9 (iTerm2, WezTerm, kitty, ghostty, Windows Terminal) and
OSC 777 (urxvt, and those built on VTE). Each gets one of them; others ignore what they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuconsole.core.events import Event
from gpuconsole.core.incidents import Severity
from gpuconsole.core.text import clean

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

"""Every key of the console, once: bindings, footer, help, palette and docs/keys.md come from here.

An id is `area.verb`; the area names the screen (or widget) that carries the binding. This module
must not import Textual, so that the documentation can be made without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuconsole.tui.keymap.global_keys import ANYWHERE
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.keymap.screen_keys import SCREENS

AREAS = {
    "app": "Anywhere",
    "go": "On every screen except forms",
    "time": "Looking back, on every screen except forms",
    "fleet": "Fleet",
    "map": "Moving on the map",
    "host": "Host",
    "device": "Device",
    "queue": "Queue",
    "usage": "Usage",
    "compare": "Compare",
    "table": "Moving in a list",
    "submit": "Submit",
    "form": "In the form",
    "triage": "Triage",
    "actions": "Choosing what to do",
    "job": "Job",
    "containers": "Containers",
    "clog": "Log of a container",
    "log": "Moving in the log",
    "filter": "While typing a filter or search",
    "dialog": "In a dialog",
    "again": "Asked how to try again",
    "change": "Looking at a change of the shipped copy",
    "palette": "In the command palette",
    "messages": "In the list of messages",
    "jump": "While letters mark the places",
    "tour": "In the tour of the first start",
    "help": "Help",
}

KEYS: tuple[Key, ...] = (*ANYWHERE, *SCREENS)


def in_area(*areas: str) -> Iterator[Key]:
    """Give the keys of these areas, in the registry's order."""
    return (key for area in areas for key in KEYS if key.area == area)


DIALOGS = ("dialog", "again", "change")
"""Areas in which a letter is an answer to a question: `y` yes, `n` no."""


def verbs() -> dict[str, dict[str, list[str]]]:
    """Return what each letter does on screens: letters to verbs to the areas that have them."""
    verbs_: dict[str, dict[str, list[str]]] = {}
    for key in KEYS:
        for letter in key.letters if key.area not in DIALOGS else ():
            areas = verbs_.setdefault(letter, {}).setdefault(key.does, [])
            areas.append(AREAS[key.area])
    return dict(sorted(verbs_.items(), key=lambda each: (each[0].lower(), each[0].isupper())))

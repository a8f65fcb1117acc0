"""The screens behind the first one: each is imported when it is first shown.

A console paints its fleet half as soon again for it. Once that is done `import_aside` brings the
others in, so that their first key need not wait for them either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from textual.screen import Screen

_SCREENS = "gpuconsole.tui.screens"
_MODES = {
    "queue": "QueueScreen",
    "job": "JobScreen",
    "submit": "SubmitScreen",
    "triage": "TriageScreen",
}
_OTHERS = ("host", "device", "usage", "help", "palette", "jump", "messages")

LaterModes = Mapping[str, Callable[[], Screen[Any]]]


def later_modes() -> LaterModes:
    """Return what makes the screen of each mode behind the first, by the mode's name."""
    return {mode: partial(_made, mode) for mode in _MODES}


async def import_aside() -> None:
    """Import every screen, beside the event loop."""
    for name in (*_MODES, *_OTHERS):
        await asyncio.to_thread(import_module, f"{_SCREENS}.{name}")


def _made(mode: str) -> Screen[Any]:
    made = getattr(import_module(f"{_SCREENS}.{mode}"), _MODES[mode])()
    assert isinstance(made, Screen)
    return made

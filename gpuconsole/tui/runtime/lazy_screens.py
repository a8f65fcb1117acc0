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

_TUI = "gpuconsole.tui"
_MODES = {
    "queue": ("screens.queue", "QueueScreen"),
    "job": ("screens.job", "JobScreen"),
    "submit": ("screens.submit.screen", "SubmitScreen"),
    "triage": ("screens.incidents", "TriageScreen"),
}
_OTHERS = (
    *(f"screens.{name}" for name in ("host", "container.containers", "device", "usage", "compare")),
    *(f"screens.{name}" for name in ("help", "jump", "messages")),
    "palette.screen",
)

LaterModes = Mapping[str, Callable[[], Screen[Any]]]


def later_modes() -> LaterModes:
    """Return what makes the screen of each mode behind the first, by the mode's name."""
    return {mode: partial(_made, mode) for mode in _MODES}


async def import_aside() -> None:
    """Import every screen, beside the event loop."""
    for name in (*(module for module, _ in _MODES.values()), *_OTHERS):
        await asyncio.to_thread(import_module, f"{_TUI}.{name}")


def _made(mode: str) -> Screen[Any]:
    module, name = _MODES[mode]
    screen = getattr(import_module(f"{_TUI}.{module}"), name)()
    assert isinstance(screen, Screen)
    return screen

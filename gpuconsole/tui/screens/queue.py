"""Queue."""

from __future__ import annotations

from gpuconsole.tui.screens.base import ConsoleScreen


class QueueScreen(ConsoleScreen):
    """Queue."""

    AREA = "queue"
    MODE = "queue"

"""Job."""

from __future__ import annotations

from gpuconsole.tui.screens.base import ConsoleScreen


class JobScreen(ConsoleScreen):
    """Job."""

    AREA = "job"
    MODE = "job"

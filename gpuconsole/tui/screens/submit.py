"""Submit."""

from __future__ import annotations

from gpuconsole.tui.screens.base import ConsoleScreen


class SubmitScreen(ConsoleScreen):
    """Submit."""

    AREA = "submit"
    MODE = "submit"

"""A box with a figure over time; draws itself for whatever room it has."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.core.history import Series
from gpuconsole.tui.render.plots.time_plot import Mark, Scale, plot_lines
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import Panel


class Plot(Panel):
    """Shows one series; only lines that change are drawn again."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="plot")
        self._shown: tuple[Series, Scale, Sequence[Mark]] | None = None

    def show(self, series: Series, scale: Scale, marks: Sequence[Mark] = ()) -> None:
        """Draw this from now on."""
        self._shown = series, scale, marks
        self._draw()

    def on_resize(self) -> None:
        """The curve is made for a size."""
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if self._shown is not None and width and height:
            series, scale, marks = self._shown
            self.put(plot_lines(ink_of(self), series, scale, width, height, marks))

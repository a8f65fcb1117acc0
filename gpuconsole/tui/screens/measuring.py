"""F8 of the submit screen: measure the script with real Paddle, with progress and cancel."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.aside import aside
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs import ConfirmScreen

if TYPE_CHECKING:
    from gpuconsole.core.jobs import Task

GROUP = "measure"


class MeasuringScreen(ConsoleScreen):
    """A screen with a task that can be measured; one measurement at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._measuring = ""

    @property
    def measuring(self) -> str:
        """How far a measurement is, in words; "" when none is under way."""
        return self._measuring

    def measurable(self) -> Task | None:
        """Return the task to measure; None when there is none, which has been said."""
        raise NotImplementedError

    def measured(self) -> None:
        """Estimate again: what was measured is known now."""
        raise NotImplementedError

    def progressed(self) -> None:
        """Draw how far the measurement is."""
        raise NotImplementedError

    def action_measure(self) -> None:
        """Measure the script on a host, or here where no host can; a second press cancels."""
        if self._measuring:
            self.workers.cancel_group(self, GROUP)
            return
        task = self.measurable()
        if task is None:
            return
        if self.session.can_measure(task):
            self._measure(task, local=False)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._measure(task, local=True)

        words = (
            "No host can measure now. On this machine the script would be run for three steps at "
            f"two small batch sizes, {self.session.isolation}."
        )
        self.app.push_screen(ConfirmScreen("Run the script here?", words, "Run it"), answered)

    def _measure(self, task: Task, *, local: bool) -> None:
        self._told(0.0, "starting")
        aside(self, partial(self._run, task, local), group=GROUP, exclusive=True)

    async def _run(self, task: Task, local: bool) -> None:
        try:
            await self.session.measure(task, "traced", self._told, local=local)
        except ConsoleError as error:
            self.console.tell_error(error)
        else:
            self.tell("Measured: the estimate is from real Paddle now.")
            self.measured()
        finally:
            self._measuring = ""
            if self.ready:
                self.progressed()

    def _told(self, share: float, stage: str) -> None:
        words = self.ink.say(clean(stage, 40))
        self._measuring = f"measuring {share:.0%}: {words} (F8 cancels)"
        if self.ready:
            self.progressed()

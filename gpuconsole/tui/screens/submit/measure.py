"""Measuring on the submit screen: by itself where reading tells too little, and with F8."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import ConsoleError
from gpuconsole.preflight.tiers.ladder import CLIMBED, is_settled
from gpuconsole.session.estimate.tier_ladder import Watching, refuses
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.base import ConfirmScreen

if TYPE_CHECKING:
    from textual.timer import Timer

    from gpuconsole.core.estimate import Report
    from gpuconsole.core.jobs import Task
    from gpuconsole.preflight.tiers.ladder import Run

GROUP = "measure"
REST_S = 1.0
"""A draft rests so long before its script is measured by itself."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a measurement is of, and how it is shown."""

    task: Callable[[], Task | None]
    """Returns the task to measure; None when there is none, which has been said."""
    climbed: Callable[[Task, Report], None]
    """Shows what is known of a task after measuring it."""
    progressed: Callable[[], None]
    """Draws how far the measurement is."""


class MeasuringScreen(ConsoleScreen):
    """A screen with a task that can be measured; one measurement at a time."""

    def __init__(self, measured: Measured) -> None:
        super().__init__()
        self._measured = measured
        self._measuring = ""
        self._subject: object = None
        """What is being measured, as far as it decides about memory."""
        self._rest: Timer | None = None

    @property
    def measuring(self) -> str:
        """How far a measurement or a submission is, in words; "" when none is under way."""
        return self._measuring

    def action_measure(self) -> None:
        """Measure the script, also where its memory is known; a second press cancels."""
        if self._measuring:
            self.session.estimates.stop_measuring()
            return
        task = self._measured.task()
        if task is not None:
            self.tell_progress(0.0, "starting")
            self._start(task, None)

    def consider(self, task: Task, report: Report) -> None:
        """Measure a draft by itself once it rests, where reading it does not settle its memory."""
        if self._rest is not None:
            self._rest.stop()
        if self._measuring and self._subject != _subject(task):
            self.workers.cancel_group(self, GROUP)
        if not self._measuring and not is_settled(report):
            self._rest = self.set_timer(REST_S, partial(self._start, task, report))

    def _start(self, task: Task, report: Report | None) -> None:
        """Begin to measure; without a report it was asked for."""
        self._subject = _subject(task)
        aside(self, partial(self._climb, task, report), group=GROUP, exclusive=True)

    async def _climb(self, task: Task, report: Report | None) -> None:
        asked = report is None
        user = Watching(self.tell_progress, self._agree if asked else refuses)
        try:
            climbed = await self.session.estimates.climb(task, user, report=report, insist=asked)
        except ConsoleError as error:
            self.console.tell_error(error)
        else:
            self._end(task, climbed, asked)
        finally:
            self.told_all()

    def _end(self, task: Task, report: Report, asked: bool) -> None:
        trials = [trial for trial in report.trials if trial.tier in CLIMBED]
        if any(trial.outcome == "answered" for trial in trials):
            self.tell("Measured: the estimate is from real Paddle now.")
        elif any(trial.outcome == "confirmed" for trial in trials):
            self.tell("Measured: the script fails where reading finds a fault.")
        elif asked and trials:
            self.tell(msg("Not measured: {why}", why=self.ink.say(clean(trials[-1].why, 300))))
        self._measured.climbed(task, report)

    async def _agree(self, run: Run) -> bool:
        """Ask whether the script may run on this machine; for a host the key was the consent."""
        if run.site.host:
            return True
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        words = sentences(
            "No host can measure now.",
            msg(
                "On this machine the script would be run for a few steps, {how}.",
                how=self.session.estimates.isolation,
            ),
        )

        def answered(yes: bool | None) -> None:
            if not answer.done():
                answer.set_result(bool(yes))

        self.app.push_screen(ConfirmScreen("Run the script here?", words, "Run it"), answered)
        return await answer

    def tell_progress(self, share: float, stage: str) -> None:
        """Show how far a measurement is."""
        words = self.ink.say(clean(stage, 80))
        self._tell(
            msg("F8 cancels  measuring {percent}: {stage}", percent=f"{share:.0%}", stage=words)
        )

    def tell_sending(self, share: float, stage: str) -> None:
        """Show how much of a project the lab's queue has."""
        words = self.ink.say(clean(stage, 80))
        self._tell(msg("submitting {percent}: {stage}", percent=f"{share:.0%}", stage=words))

    def _tell(self, words: str) -> None:
        self._measuring = words
        if self.ready:
            self._measured.progressed()

    def told_all(self) -> None:
        """Show that no measurement is under way."""
        self._measuring = ""
        if self.ready:
            self._measured.progressed()


def _subject(task: Task) -> object:
    """Return what of a task decides about its memory, its batch size aside."""
    return (task.script, task.args, task.edits, task.project, task.backend, task.image,
            tuple(task.env.items()), task.mounts, tuple(task.assumptions.items()))  # fmt: skip

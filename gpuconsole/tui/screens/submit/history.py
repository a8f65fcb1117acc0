"""Past submissions in the form of the submit screen: one key brings them back, older by older."""

from __future__ import annotations

from textual import on

from gpuconsole.core.jobs import Job, Task
from gpuconsole.tui.screens.submit.measure import Measured, MeasuringScreen
from gpuconsole.tui.task_form import Recall, past
from gpuconsole.tui.widgets.form import Form
from gpuconsole.tui.widgets.panel import name_box


class RecallingScreen(MeasuringScreen):
    """A screen with a `Form` that can be filled as it once was."""

    def __init__(self, measured: Measured) -> None:
        super().__init__(measured)
        self._recall = Recall()

    def on_mount(self) -> None:
        """Name the form."""
        self._entitle()

    def past_jobs(self) -> list[Job]:
        """Return what this user submitted before, newest first."""
        return past(self.picture.jobs, self.session.user)

    def typed_on(self) -> None:
        """What was recalled and then changed is a draft of its own."""
        form = self.query_one(Form)
        if form.recalling and not self._recall.holds(form.values):
            form.recalling, self._recall.at = False, 0
            self._entitle()

    def recalled(self, task: Task | None, *, typed: bool) -> None:
        """Take over what a form does not show of a task that it will be filled with; None is what
        was typed before. With `typed` that is left now."""

    def action_recall(self, way: int) -> None:
        """Fill the form as it was for an older submission (`way` 1), or a newer one."""
        form = self.query_one(Form)
        tasks = [job.task for job in self.past_jobs()]
        typed = not self._recall.holds(form.values)
        values = self._recall.step(tasks, form.values, way)
        if values is None:
            self.tell("You submitted nothing before that." if tasks else "No job of yours yet.")
            return
        form.begin()
        self.recalled(tasks[self._recall.at - 1] if self._recall.at else None, typed=typed)
        form.fill(values)
        form.recalling = self._recall.at > 0
        self._entitle()

    @on(Form.Recalled)
    def _recalled(self, event: Form.Recalled) -> None:
        self.action_recall(event.way)

    def _entitle(self) -> None:
        at, say = self._recall.at, self.ink.say
        number = say(f"  {at} of {len(self.past_jobs())} submitted before") if at else ""
        title = say("submit") + number
        name_box(self.query_one("#form"), title, "up recalls  ctrl+j submits")

"""Submit: the form, the live preflight, the placement; nothing here waits for anything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.timer import Timer

from gpuconsole.core.answer_figures import answer as judged
from gpuconsole.core.estimate import Report, Suggestion
from gpuconsole.core.jobs import Job, Task
from gpuconsole.core.submission.script_edits import Edit, of_batch, with_edits
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError
from gpuconsole.placement.model import Decision
from gpuconsole.session.estimate.tier_ladder import Watching
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.render.placement import decision_lines
from gpuconsole.tui.render.preflight_report import (
    SUGGESTION_KEYS,
    invitation,
    places_of,
    report_lines,
    short_path,
)
from gpuconsole.tui.render.text_cells import Piece, wrapped
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.base import AskScreen
from gpuconsole.tui.screens.dialogs.change import ChangeScreen
from gpuconsole.tui.screens.submit.file_picker import PickerScreen
from gpuconsole.tui.screens.submit.history import RecallingScreen
from gpuconsole.tui.screens.submit.measure import Measured
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.task_form import (
    FormError,
    applicable,
    apply,
    build_task,
    values_of,
    with_question,
)
from gpuconsole.tui.widgets.form import Form
from gpuconsole.tui.widgets.panel import Line, Panel

DEBOUNCE_S = 0.1
"""Typing pauses this long before the script is estimated again."""
PATIENCE_S = 0.3
"""An answer that takes longer is waited for visibly."""

PANES = ("form", "preflight", "placement")


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of the draft; `task` is what it was asked for."""

    task: Task | None = None
    report: Report | None = None
    decision: Decision | None = None
    docker: str = ""
    error: ConsoleError | None = None

    @property
    def uuids(self) -> tuple[str, ...]:
        """The devices that placement would choose."""
        chosen = self.decision.chosen if self.decision else None
        return tuple(device.uuid for device in chosen.devices) if chosen else ()


@dataclass(slots=True)
class Copy:
    """How the shipped copy of a script is changed."""

    edits: tuple[Edit, ...] = ()
    """Its lines to change."""
    script: str = ""
    """The script that they are for."""
    batch: str = ""
    """The batch size that was typed when they were made."""
    undo: list[tuple[tuple[Edit, ...], str, str]] = field(default_factory=list)
    """For each change the edits, batch size and arguments before it."""


@dataclass(slots=True)
class Draft:
    """The state of one's typing against the last answer."""

    stale: bool = False
    slow: bool = False
    """Whether the answer has been waited for so long that it is worth a mark."""
    pane: str = "form"
    answer: Answer = field(default_factory=Answer)
    copy: Copy = field(default_factory=Copy)
    typed_copy: Copy = field(default_factory=Copy)
    """That of the form as it was typed, while one is recalled."""
    awaited: tuple[Task, int] | None = None
    """The suggestion with a key that was pressed before there was an answer, and its task."""


def recalled_copy(task: Task) -> Copy:
    """Return the copy of a task that was submitted; one undo takes all its changes back, and a
    batch size that went with them."""
    if not task.edits:
        return Copy()
    values = values_of(task)
    before = "" if of_batch(task.edits) else values["batch"]
    copy = Copy(task.edits, values["script"], values["batch"])
    copy.undo.append(((), before, values["args"]))
    return copy


class SubmitScreen(RecallingScreen):
    """Form left, verdict right."""

    AREA = "submit"
    MODE = "submit"
    FORM = True
    WIDGET_AREAS = ("form",)
    AUTO_FOCUS = "#field-script"

    def __init__(self) -> None:
        super().__init__(Measured(self._typed_task, self._climbed, self._draw_preflight))
        self._draft = Draft()
        self._pause: Timer | None = None
        self._patience: Timer | None = None

    def on_mount(self) -> None:
        """Get ready for the script that will be named."""
        aside(self, self.session.estimates.expect, group="reading")

    def body(self) -> ComposeResult:
        """Form over placement, preflight beside them; tabs on a narrow terminal."""
        yield Line(id="submit-tabs")
        with Horizontal(id="submit"):
            with Vertical(id="submit-left"):
                yield Form(id="form", classes="panel")
                yield Panel("placement", id="placement")
            yield Panel("preflight", id="preflight")

    def restyle(self) -> None:
        """Draw in another theme or language."""
        self.query_one(Form).restyle()
        self._entitle()
        super().restyle()

    def draw(self, picture: Picture) -> None:
        """Panels depend on width and clock, not on the fleet."""
        self._draw_tabs()
        self._draw_preflight()
        self._draw_placement()

    def crumbs(self) -> str:
        """What state the draft is in."""
        say = self.ink.say
        if self._draft.slow:
            return say("estimating")
        return say("estimate is current") if self.answered else ""

    @property
    def answered(self) -> bool:
        """Whether what is shown answers what is typed, not what was typed before."""
        return not self._draft.stale and self._draft.answer.task is not None

    @property
    def _applicable(self) -> Sequence[Suggestion]:
        """The suggestions that a key applies."""
        report = self._draft.answer.report
        return applicable(report.suggestions)[: len(SUGGESTION_KEYS)] if report is not None else ()

    def keys(self) -> list[Key]:
        """Return the keys that do something to this draft: a suggestion that is for the script has
        none, nor is there one to answer where nothing was asked."""
        able = len(self._applicable)
        absent = {f"submit.{name}" for name in ("first", "second", "third", "fourth")[able:]}
        if not self._draft.copy.undo:
            absent.add("submit.undo")
        report = self._draft.answer.report
        if report is None or not report.estimate.asks:
            absent.add("submit.answer")
        pair = f"F2-{SUGGESTION_KEYS[able - 1]}" if able > 1 else "F2"
        keys_ = [key for key in ConsoleScreen.keys(self) if key.id not in absent]
        return [replace(key, pair=pair) if key.id == "submit.first" else key for key in keys_]

    # -- actions ----------------------------------------------------------------------------

    def action_send(self) -> None:
        """Submit; what will not fit needs the job's name typed."""
        task = self._typed_task()
        if task is None:
            return
        answer = self._draft.answer
        if answer.report is not None and answer.task == task:
            word = judged(answer.report, answer.uuids).word
            if word in ("will-not-fit", "will-fail"):
                said = f"Preflight says it {word.replace('-', ' ')}."
                self._override(task, said)
                return
        aside(self, partial(self._submit, task), group="submit")

    def action_apply(self, number: int) -> None:
        """Apply a suggestion to the form, as soon as what is typed has its answer."""
        task = self._typed_task(quiet=True)
        if task is not None and (self._draft.stale or task != self._draft.answer.task):
            self._draft.awaited = task, number
        else:
            self._apply(number)

    def _apply(self, number: int) -> None:
        """Apply a suggestion; what changes more than a number is shown first."""
        report, able = self._draft.answer.report, self._applicable
        if report is None or number >= len(able):
            return
        chosen = able[number]
        if chosen.kind == "batch-size":
            self._put(chosen, report)
        else:
            task = self._draft.answer.task

            def answered(yes: bool | None) -> None:
                # What was typed meanwhile is another task, which the lines may not be for.
                if yes and task == self._draft.answer.task:
                    self._put(chosen, report)

            self.app.push_screen(ChangeScreen(chosen, report.estimate.script), answered)

    def _put(self, chosen: Suggestion, report: Report) -> None:
        form = self.query_one(Form)
        before = form.values
        changed = apply(before, chosen)
        if changed is None:
            return
        copy = self._draft.copy
        copy.undo.append((copy.edits, before["batch"], before["args"]))
        copy.edits = with_edits(copy.edits, chosen.edits)
        copy.script, copy.batch = before["script"], changed["batch"]
        form.fill(changed)
        if changed == before:
            self._changed(changed, at_once=True)
        source = report.estimate.batch_source
        if chosen.edits:
            self.tell(
                msg(
                    "The shipped copy will be changed at {places}; your file stays as it is.",
                    places=places_of(chosen.edits, report.estimate.script),
                )
            )
        elif changed["args"] == before["args"] and source:
            file = short_path(source.file, report.estimate.script)
            place = f"{file}:{source.line}"
            if source.kind == "given":
                place = self.ink.say("the script")
            self.tell(
                msg("The script must follow: change the batch size at {place} too.", place=place)
            )

    def action_undo(self) -> None:
        """Undo the last change of the shipped copy, and what it did to the form."""
        copy, form = self._draft.copy, self.query_one(Form)
        if not copy.undo:
            return
        copy.edits, copy.batch, args = copy.undo.pop()
        before = form.values
        changed = {**before, "batch": copy.batch, "args": args}
        form.fill(changed)
        if changed == before:
            self._changed(changed, at_once=True)

    def recalled(self, task: Task | None, *, typed: bool) -> None:
        """Change the shipped copy as it was changed for the job that is recalled."""
        draft = self._draft
        if typed:
            draft.typed_copy = draft.copy
        if task is None:
            draft.copy = draft.typed_copy
        else:
            draft.copy = recalled_copy(task)
        # Its form may be alike, so that nothing else asks for an answer.
        self._changed(self.query_one(Form).values)

    def action_copy(self) -> None:
        """Copy the equivalent docker command, once it is known where the job would run."""
        docker = self._draft.answer.docker
        if docker:
            self.app.copy_to_clipboard(docker)
        self.tell("Copied the docker command." if docker else "There is nothing to copy yet.")

    def action_answer(self) -> None:
        """Begin the answer to the first question."""
        report = self._draft.answer.report
        if report is None or not report.estimate.asks:
            self.tell("Preflight asks nothing.")
            return
        form = self.query_one(Form)
        ask = report.estimate.asks[0]
        form.fill({"answers": with_question(form.values, ask.name)})
        form.begin("answers")

    def _climbed(self, task: Task, report: Report) -> None:
        """Show the answer after measuring, if it still is for what is typed."""
        if task == self._draft.answer.task:
            aside(self, partial(self._show, task, report), group="preflight", exclusive=True)

    def action_rerun(self) -> None:
        """Estimate again; after an error without changes of the shipped copy: the file may have
        changed."""
        copy, form = self._draft.copy, self.query_one(Form)
        if self._draft.answer.error is not None and copy.edits:
            # As it was before the first of them: nothing else puts a batch size in.
            typed = form.values
            was = copy.undo[0] if copy.undo else (copy.edits, typed["batch"], typed["args"])
            copy.edits, copy.undo, copy.batch = (), [], was[1]
            form.fill({**typed, "batch": was[1], "args": was[2]})
            self.tell("The changes of the shipped copy are undone.")
        self._changed(form.values, at_once=True)

    def action_pane(self) -> None:
        """Show the next pane of a narrow terminal."""
        at = PANES.index(self._draft.pane)
        self._draft.pane = PANES[(at + 1) % len(PANES)]
        self.update_classes({f"-pane-{pane}": pane == self._draft.pane for pane in PANES})
        if self._draft.pane == "form":
            self.query_one(Form).begin()
        self.call_after_refresh(lambda: self.show(self.picture))

    def action_scroll_report(self, pages: int) -> None:
        """Scroll what does not fit: the placement where that is the pane, else the report."""
        pane = "#placement" if self._draft.pane == "placement" else "#preflight"
        panel = self.query_one(pane, Panel)
        panel.scroll_relative(y=pages * max(1, panel.size.height - 1), animate=False)

    def action_pick(self) -> None:
        """Find the script in a tree."""

        def picked(path: str | None) -> None:
            if path is not None:
                self.query_one(Form).fill({"script": path})
            self.query_one(Form).begin()

        self.app.push_screen(PickerScreen(), picked)

    # -- estimating -------------------------------------------------------------------------

    @on(Form.Changed)
    def _typed(self, event: Form.Changed) -> None:
        self.typed_on()
        self._changed(event.values)

    def _changed(self, values: Mapping[str, str], *, at_once: bool = False) -> None:
        """Mark what is shown as stale, and ask again once typing pauses."""
        self._draft.stale = bool(values["script"].strip())
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(0.001 if at_once else DEBOUNCE_S, self._ask)
        if self._patience is None:
            self._patience = self.set_timer(PATIENCE_S, self._waited)

    def _waited(self) -> None:
        """Say that the answer is still to come."""
        self._patience = None
        if self._draft.stale:
            self._draft.slow = True
            self.show(self.picture)

    def _ask(self) -> None:
        task = self._typed_task(quiet=True)
        if task is None:
            self._answered(Answer())
            return
        aside(self, partial(self._estimate, task), group="preflight", exclusive=True)

    async def _estimate(self, task: Task) -> None:
        try:
            report = await self.session.estimates.report(task)
        except ConsoleError as error:
            self._answered(Answer(task, error=error))
            return
        await self._show(task, report)
        self.consider(task, report)

    async def _show(self, task: Task, report: Report) -> None:
        """Show a report, and where the task would run by it."""
        self._answered(Answer(task, report))
        try:
            decision = await self.session.placements(task, report)
            docker = self.session.render_task(task, on=decision.chosen)
        except ConsoleError as error:
            self.console.tell_error(error)
            return
        self._answered(Answer(task, report, decision, docker))

    def _answered(self, answer: Answer) -> None:
        self._draft.answer = answer
        self._draft.stale = self._draft.slow = False
        awaited, self._draft.awaited = self._draft.awaited, None
        if awaited is not None and awaited[0] == answer.task == self._typed_task(quiet=True):
            self.call_later(self._apply, awaited[1])
        if self.ready:
            self.draw_footer()
        if self._patience is not None:
            self._patience.stop()
            self._patience = None
        self.show(self.picture)

    def _typed_task(self, *, quiet: bool = False) -> Task | None:
        form = self.query_one(Form)
        values = form.values
        try:
            task = build_task(values, os.environ)
        except FormError as error:
            empty = error.field == "script" and quiet
            form.complain(error.field, "" if empty else error.message)
            return None
        form.complain("", "")
        self._forget_edits(values)
        return replace(task, edits=self._draft.copy.edits)

    def _forget_edits(self, values: Mapping[str, str]) -> None:
        """Leave out edits that are for another script, or for another batch size."""
        copy = self._draft.copy
        if values["script"] != copy.script:
            copy.edits, copy.undo = (), []
        elif values["batch"] != copy.batch and (old := of_batch(copy.edits)):
            copy.edits, copy.undo = copy.edits[: len(copy.edits) - len(old)], []
            self.tell("Another batch size was typed: the copy is not changed for the former one.")

    # -- submitting -------------------------------------------------------------------------

    async def _submit(self, task: Task, *, force: bool = False) -> None:
        try:
            job = await self.session.queue.submit(
                task, force=force, user=Watching(self.tell_progress, sending=self.tell_sending)
            )
        except RefusedError as error:
            if force:
                self.console.tell_error(error)
            else:
                self._override(task, error.message)
            return
        except ConsoleError as error:
            self.console.tell_error(error)
            return
        finally:
            self.told_all()
        self._queued(job)

    def _override(self, task: Task, why: str) -> None:
        def answered(typed: str | None) -> None:
            if typed is not None:
                work = partial(self._submit, task, force=True)
                aside(self, work, group="submit")

        name = clean(task.name)
        say = self.ink.say
        words = f"{say(why)} " + say(
            msg("To submit it all the same, type the job's name: {name}", name=name)
        )
        self.app.push_screen(AskScreen("Submit it anyway?", words, must_be=name), answered)

    def _queued(self, job: Job) -> None:
        self.tell(
            msg("{name} is queued as {id}.", name=clean(job.task.name), id=job.id), "Submitted"
        )
        self.console.paint(force=True)
        self.console.open_job(job.id)

    # -- drawing ----------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """Panels are made for a width."""
        super().on_resize(event)
        self.call_after_refresh(lambda: self.show(self.picture))

    def _draw_tabs(self) -> None:
        ink, say = self.ink, self.ink.say
        pieces: list[Piece] = [(" ", ink.text)]
        for pane in PANES:
            here = pane == self._draft.pane
            pieces += [(f" {say(pane)} ", ink.here if here else ink.muted), (" ", ink.text)]
        pieces += [(say("  F6 switches   "), ink.muted), *self._verdict_words()]
        self.query_one("#submit-tabs", Line).put(pieces)

    def _verdict_words(self) -> list[Piece]:
        """The verdict in a few words, for a terminal that shows the form alone."""
        answer, ink = self._draft.answer, self.ink
        report = answer.report
        if self._draft.slow or report is None:
            return [(ink.say("estimating") if self._draft.slow else "", ink.muted)]
        shown = judged(report, answer.uuids)
        said = f"{ink.glyphs.verdicts[shown.word]} {ink.say(shown.word.replace('-', ' '))}"
        size = f"  {format_mib(shown.memory.high_mib)}" if shown.memory else ""
        return [(said, ink.verdicts[shown.word]), (size, ink.text)]

    def _draw_preflight(self) -> None:
        panel = self.query_one("#preflight", Panel)
        if not panel.display or not panel.size.width:
            return
        ink, width, answer = self.ink, panel.inner_width, self._draft.answer
        hint = self.measuring or "F5 again  F8 measures"
        panel.entitle(f"{ink.say('preflight')}{ink.say(self._freshness())}", hint)
        panel.set_class(self._draft.slow, "-stale")
        if answer.error is not None:
            error, say = answer.error, ink.say
            lines = [[(part, ink.bad)] for part in wrapped(say(error.message), width)]
            lines.insert(0, [(say(error.title), ink.verdicts["will-fail"])])
            lines += [[(part, ink.text)] for part in wrapped(say(error.hint), width)]
            panel.put(lines)
        elif answer.report is None:
            panel.put(invitation(ink, self.past_jobs(), self.picture.now, width))
        else:
            panel.put(report_lines(ink, answer.report, answer.uuids, width, self._draft.copy.edits))

    def _freshness(self) -> str:
        answer = self._draft.answer
        if self._draft.slow:
            return " (estimating)" if answer.report is None else " (stale, estimating)"
        if answer.report is not None and answer.report.elapsed_ms:
            return f" (live, {answer.report.elapsed_ms:.0f} ms)"
        return ""

    def _draw_placement(self) -> None:
        panel = self.query_one("#placement", Panel)
        if not panel.display or not panel.size.width:
            return
        ink, width, answer = self.ink, panel.inner_width, self._draft.answer
        hint = "pgup pgdn scroll" if self._draft.pane == "placement" else "F6 focuses"
        panel.entitle(ink.say("placement"), hint)
        if answer.decision is None:
            panel.put([[(ink.say("Where it would run, and why."), ink.muted)]])
            return
        now = self.picture.now
        panel.put(decision_lines(ink, answer.decision, answer.docker, now, width))

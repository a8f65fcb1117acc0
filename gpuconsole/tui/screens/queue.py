"""Queue: every job, what it waits for, and the verbs for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.render.queue import (
    ORDER,
    SORTS,
    Entry,
    Sized,
    columns_for,
    heading,
    in_order,
    row,
    short_why,
    sorted_by,
    why_lines,
)
from gpuconsole.tui.render.text_cells import Piece, text
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens import job_actions, session_actions
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs import retry_oom
from gpuconsole.tui.screens.list_screen import ListScreen
from gpuconsole.tui.screens.what_if import WhatIfScreen
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.widgets.input_bar import FilterBar
from gpuconsole.tui.widgets.job_detail import JobDetail
from gpuconsole.tui.widgets.panel import Panel, name_box
from gpuconsole.tui.widgets.row_list import Rows

if TYPE_CHECKING:
    from gpuconsole.session.queue.planner import Why

LARGE = 160
"""From so many columns on there is more of the chosen job than its reasons."""
LEAST_LOWER, MOST_LOWER, STEP = 12, 32, 4
"""Lines of what is below the list, which takes what the list leaves, in steps: a job more or
less does not move it."""
WHY_S = 2.0
"""So long an answer is good for: every beat asks for each row in sight."""
LIST_FRAME = 3
"""Lines of the list beside its rows: the heading and the box."""
MOST_REASONS = 2000


class QueueScreen(ListScreen):
    """All jobs: active, waiting, ended."""

    AREA = "queue"
    MODE = "queue"
    WIDGET_AREAS = ("table",)
    THINGS = "jobs"

    def __init__(self) -> None:
        super().__init__(self.draw_titles)
        self._sort = "queue"
        self._listed: tuple[object, ...] = ()
        """What the order was made of: the jobs, the starts, the filter, the sort."""
        self._jobs: dict[str, Job] = {}
        """The jobs shown, in order."""
        self._columns: Sized = ()
        self._looking = False
        self._reasons: dict[str, tuple[Job, float, Why]] = {}
        """Why jobs stand where they do: of which job, asked when, and the answer."""

    def body(self) -> ComposeResult:
        """Rows above, the chosen job's reasons below."""
        with Vertical(id="queue"):
            yield Rows(id="jobs")
            yield Static("", id="jobs-empty", classes="panel empty", markup=False)
            with Horizontal(id="queue-lower"):
                yield Panel(id="why")
                yield JobDetail(id="queue-detail")
        yield FilterBar(id="filter")

    def draw(self, picture: Picture) -> None:
        """Bring rows in sight up to date; the order only when jobs or starts have changed."""
        self._order(picture)
        self.set_class(not self._ids, "-empty")
        self.draw_titles()
        if self._ids:
            self._draw_rows()
        else:
            self._draw_empty()
        self._arrange()
        self._draw_why()
        self.draw_footer()
        if any(job.state is JobState.QUEUED for job in self._jobs.values()):
            self._look_ahead()

    def crumbs(self) -> str:
        """The order and the active filter."""
        say = self.ink.say
        order = say(msg("by {label_text}", label_text=self._sort)) + "   "
        order = "" if self._sort == "queue" else order
        return f"{order}{say('filter:')} {self._filter_text or say('none')}"

    def footer_keys(self) -> Sequence[Key]:
        """What acts on the chosen job or the marked ones, then what acts without."""
        jobs = self._acted_on
        acts = {
            "open": bool(jobs),
            "session": session_actions.can_enter(self._chosen),
            "section": self._sort == "queue" and len(self._sections) > 1,
            "cancel": any(not job.state.ended for job in jobs),
            "scale": any(job_actions.is_kept_running(job) for job in jobs),
            "hold": any(job.state in job_actions.WAITING for job in jobs),
            "retry": any(job.state.ended for job in jobs),
            "filter": True,
            "compare": len(self._marked) > 1 or bool(jobs and _is_of_sweep(jobs[0])),
            "usage": True,
            "submit": True,
            "why": bool(jobs),
            "what_if": any(job.state is JobState.QUEUED for job in self._jobs.values()),
            "priority": any(job.state in job_actions.WAITING for job in jobs),
        }
        order = [f"queue.{name}" for name, does in acts.items() if does]
        keys = {key.id: key for key in self.keys()}
        return [keys[name] for name in order if name in keys]

    # -- actions ----------------------------------------------------------------------------

    def action_open(self) -> None:
        """Open the chosen job."""
        self._with_job(lambda job: self.console.open_job(job.id))

    def action_session(self) -> None:
        """Enter the chosen session."""
        self._with_job(lambda job: session_actions.enter(self, job))

    def action_cancel(self) -> None:
        """Cancel the marked jobs, or the chosen one."""
        self._with_jobs(job_actions.cancel)

    def action_hold(self) -> None:
        """Hold the marked jobs or the chosen one, or let held ones go."""
        self._with_jobs(job_actions.hold)

    def action_preempt(self) -> None:
        """Stop the marked jobs or the chosen one; they go on from their checkpoints later."""
        self._with_jobs(job_actions.preempt)

    def action_retry(self) -> None:
        """Queue the marked jobs or the chosen one again; with less after memory ran out."""
        self._with_jobs(retry_oom.retry)

    def action_priority(self) -> None:
        """Change the priority of the marked jobs, or of the chosen one."""
        self._with_jobs(job_actions.priority)

    def action_scale(self) -> None:
        """Change how many replicas the service of the chosen job has."""
        self._with_job(lambda job: job_actions.scale(self, job))

    def action_reorder(self, step: int) -> None:
        """Bring the chosen job before the one above, or behind the one below."""
        waiting = [job for job in self._jobs.values() if job.state is JobState.QUEUED]
        job = self._chosen
        if job is None or job not in waiting or self._sort != "queue":
            self.tell("Only a waiting job changes its place, in the queue's own order (o).")
            return
        at = waiting.index(job) + step
        if 0 <= at < len(waiting):
            job_actions.pass_by(self, job, waiting[at], step)
        else:
            template = f"{{name}} is the {'first' if step < 0 else 'last'} that waits."
            self.tell(msg(template, name=job.task.name))

    def action_section(self) -> None:
        """Go to the first job that waits, else has ended, else runs: the next of these."""
        rows, sections = self.query_one(Rows), self._sections
        after = (number for number in sections if number > rows.at)
        if sections:
            rows.move_to(self._ids[next(after, sections[0])])

    @property
    def _sections(self) -> list[int]:
        """Where in the queue's own order active, waiting and ended jobs begin."""
        ranks = [ORDER.get(job.state, 3) for job in self._jobs.values()]
        return [at for at, rank in enumerate(ranks) if not at or rank != ranks[at - 1]]

    def action_sort(self) -> None:
        """Sort by the next column."""
        names = list(SORTS)
        self._sort = names[(names.index(self._sort) + 1) % len(names)]
        self.show(self.picture)

    def action_what_if(self) -> None:
        """Ask what a change would do to the starts of waiting jobs."""
        job = self._chosen
        waits = job is not None and job.state is JobState.QUEUED
        self.app.push_screen(WhatIfScreen(job.task.name if job is not None and waits else ""))

    def action_compare(self) -> None:
        """Compare the marked jobs, or the sweep of the chosen one, by what their logs report."""
        marked, job = self._marked, self._chosen
        if len(marked) > 1:
            self._compare(msg("{n} jobs", n=len(marked)), [job.id for job in marked])
        elif job is not None and _is_of_sweep(job):
            self._compare(job.task.sweep, [job.task.sweep])
        else:
            self.tell("It is in no sweep; space marks jobs that are to be compared.")

    def _compare(self, title: str, jobs: Sequence[str]) -> None:
        from gpuconsole.tui.screens.compare import CompareScreen

        self.app.push_screen(CompareScreen(title, jobs))

    def action_usage(self) -> None:
        """Show who used how many device-hours, and who holds devices idly."""
        from gpuconsole.tui.screens.usage import UsageScreen

        self.app.push_screen(UsageScreen())

    def action_copy(self) -> None:
        """Copy the chosen job's id."""

        def copied(job: Job) -> None:
            self.app.copy_to_clipboard(job.id)
            self.tell(msg("Copied {name}.", name=job.id))

        self._with_job(copied)

    def action_why(self) -> None:
        """Show or hide the reasons."""
        self.toggle_class("-why-hidden")
        self.call_after_refresh(self._draw_why)

    # -- messages ---------------------------------------------------------------------------

    @on(Rows.Reached)
    def _row_reached(self) -> None:
        self._draw_why()
        self.draw_footer()

    @on(Rows.Opened)
    def _row_opened(self) -> None:
        self.action_open()

    # -- drawing ----------------------------------------------------------------------------

    def _order(self, picture: Picture) -> None:
        expected = self.session.foresight.known
        made_of = (picture.jobs, expected, self._filter, self._sort)
        if len(self._listed) == len(made_of) and all(map(_same, made_of, self._listed)):
            return
        self._listed = made_of
        jobs = [job for job in picture.jobs if self._filter.job(job)]
        self._jobs = {job.id: job for job in sorted_by(self._sort, jobs, expected)}
        ids = tuple(self._jobs)
        if ids != self._ids:
            self._ids = ids

    def _draw_rows(self) -> None:
        rows = self.query_one(Rows)
        self._columns = columns_for(rows.inner_width)
        rows.put(self._ids, self._row, heading(self.ink, self._columns))

    def _row(self, job_id: str, number: int) -> list[Piece]:
        job = self._jobs[job_id]
        words = short_why(job, self._why(job) if job.state is JobState.QUEUED else None)
        start = self.session.foresight.known.get(job_id)
        entry = Entry(job, number + 1, self.picture.now, words, start)
        return row(self.ink, entry, self._columns)

    def draw_titles(self) -> None:
        """Name the list: how many of how many, the order, the filter, the marks."""
        total, shown = len(self.picture.jobs), len(self._ids)
        say = self.ink.say
        jobs = "1 job" if total == 1 else f"{total:,} jobs"
        count = say(f"{shown:,} of {jobs}" if shown != total else jobs)
        rows = self.query_one(Rows)
        marked = say(f"  {len(rows.marked)} marked") if rows.marked else ""
        only = f"  /{self._filter_text}" if self._filter_text else ""
        order = (
            "active, waiting, ended"
            if self._sort == "queue"
            else msg("by {label_text}", label_text=self._sort)
        )
        others = self.session.held_elsewhere
        unseen = f"  {say(_unseen(others))}" if others else ""
        name_box(rows, f"{say('queue')}  {count}{marked}{only}{unseen}", order)

    def _draw_empty(self) -> None:
        ink = self.ink
        if self._filter_text:
            words = [
                msg("No jobs match `{filter}`.", filter=self._filter_text),
                "",
                "esc clears the filter.",
            ]
        else:
            words = ["No jobs yet.", "", "s opens the form to submit a script,",
                     "or run `gpuconsole submit train.py`."]  # fmt: skip
        empty = self.query_one("#jobs-empty", Static)
        empty.update(text([[(ink.say(line), ink.text)] for line in words]), layout=False)

    def _arrange(self) -> None:
        """On a large terminal, give what the list does not need to what is below it."""
        large = self.size.width >= LARGE
        self.set_class(large, "-large")
        lower = self.query_one("#queue-lower")
        height: int | None = None
        if large and self.has_class("-tall"):
            spare = self.query_one("#queue").size.height - len(self._ids) - LIST_FRAME
            steps = max(0, min(spare, MOST_LOWER) - LEAST_LOWER) // STEP
            height = LEAST_LOWER + STEP * steps
        height_now = lower.styles.inline.height
        if (None if height_now is None else height_now.value) != height:
            lower.styles.height = height

    def _draw_detail(self) -> None:
        detail = self.query_one(JobDetail)
        if self.has_class("-large") and not self.has_class("-why-hidden"):
            starts = self.session.foresight.known
            everyone = in_order(self.picture.jobs, starts)
            waiting = [job for job in everyone if job.state is JobState.QUEUED]
            detail.show(self.session, self.picture, self._chosen, waiting)

    def _draw_why(self) -> None:
        self._draw_detail()
        panel = self.query_one("#why", Panel)
        job = self._chosen
        if not panel.display or not panel.size.width:
            return
        if job is None:
            panel.entitle("why")
            panel.put([])
            return
        why = self._why(job)
        question = (
            msg("what happened to {name}?", name=job.task.name)
            if job.state.ended
            else msg("why is {name} {state_word}?", name=job.task.name, state_word=job.state.value)
        )
        panel.entitle(question, "i hides")
        if why is not None:
            panel.put(why_lines(self.ink, job, why, self.picture.now, panel.inner_width))

    def _look_ahead(self) -> None:
        """Have the expected starts renewed; the next beat shows them."""
        if not self._looking:
            self._looking = True
            aside(self, self._foresee, group="foresight")

    async def _foresee(self) -> None:
        try:
            await self.session.foresight.renew()
        finally:
            self._looking = False

    # -- within -----------------------------------------------------------------------------

    def _why(self, job: Job) -> Why | None:
        if not self._is_fresh(job):
            self._ask(job)
        known_why = self._reasons.get(job.id)
        return None if known_why is None else known_why[2]

    def _is_fresh(self, job: Job) -> bool:
        """Whether the answer for a job is still good."""
        answer = self._reasons.get(job.id)
        return answer is not None and answer[0] is job and 0 <= self.picture.now - answer[1] < WHY_S

    def _ask(self, job: Job) -> None:
        """Ask for a job, and with it for all others in sight: the rows of a page cost one look at
        the journal, not one each."""
        seen = (self._jobs[job_id] for job_id in self.query_one(Rows).in_sight)
        rows = (row for row in seen if row.state is JobState.QUEUED and not self._is_fresh(row))
        try:
            reasons = self.session.explain({each.id: each for each in (job, *rows)}.values())
        except ConsoleError:
            # The journal cannot be read now; earlier answers stay.
            return
        if len(self._reasons) > MOST_REASONS:
            self._reasons.clear()
        now = self.picture.now
        self._reasons |= {id_: (self._jobs[id_], now, why) for id_, why in reasons.items()}

    def under_cursor(self) -> tuple[Host | None, Device | None, Job | None]:
        """Return the job under the cursor."""
        return None, None, self._chosen

    @property
    def _chosen(self) -> Job | None:
        return self._jobs.get(self.query_one(Rows).current)

    def _with_job(self, verb: Callable[[Job], None]) -> None:
        job = self._chosen
        if job is None:
            self.tell("There is no job to choose.")
        else:
            verb(job)

    def _with_jobs(self, verb: Callable[[ConsoleScreen, Sequence[Job]], None]) -> None:
        """Do something to the marked jobs, or to the chosen one when none is marked."""
        marked = self._marked
        if marked:
            verb(self, marked)
        else:
            self._with_job(lambda job: verb(self, (job,)))

    @property
    def _marked(self) -> list[Job]:
        marked = self.query_one(Rows).marked
        return [job for job_id, job in self._jobs.items() if job_id in marked]

    @property
    def _acted_on(self) -> Sequence[Job]:
        """The jobs that a verb acts on now."""
        job = self._chosen
        return self._marked or ((job,) if job is not None else ())


def _is_of_sweep(job: Job) -> bool:
    """Whether a job is one of a sweep: replicas of a service are a group, too, and try nothing."""
    return bool(job.task.sweep) and job.task.service is None


def _same(first: object, other: object) -> bool:
    return first is other


def _unseen(devices: int) -> str:
    count = "1 device" if devices == 1 else f"{devices:,} devices"
    return f"{count} held by other queues"

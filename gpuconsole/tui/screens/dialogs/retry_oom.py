"""Retrying ended jobs, on every screen alike: one that ran out of memory is offered what should
fit, again as it was, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.session.dispatch.oom_retry import Offer
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens import job_actions
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import name_box

Answer = Literal["offered", "same", ""]


class AgainScreen(Dialog[Answer]):
    """Offer a smaller batch size, with its reason and its cost."""

    BINDINGS = bindings("again")
    AUTO_FOCUS = "#offered"

    def __init__(self, offer: Offer) -> None:
        super().__init__()
        self._offer = offer

    def compose(self) -> ComposeResult:
        """What is offered, and three buttons."""
        offer, say = self._offer, ink_of(self).say
        parts = [
            f"It ran out of memory with batch size {offer.was}.",
            msg("Batch size {n} is {why}.", n=offer.batch, why=say(offer.why)),
        ]
        if offer.costs:
            parts.append(msg("It costs: {text}.", text=say(offer.costs).rstrip(".。")))
        if offer.task.edits != offer.job.task.edits:
            parts.append("It is changed in the shipped copy; your file stays as it is.")
        parts.append("Unchanged, it will probably run out again.")
        words = " ".join(map(say, parts))
        with Vertical(id="dialog", classes="panel"):
            yield Static(clean(words), markup=False, id="dialog-text")
            with Horizontal(id="dialog-buttons"):
                yield Button(say("Cancel"), id="leave", compact=True)
                yield Button(say("As it was"), id="same", compact=True)
                yield Button(say(f"With {offer.batch}"), id="offered", compact=True)

    def on_mount(self) -> None:
        """Name the box."""
        name = clean(self._offer.job.task.name)
        title = msg("Try {name} again with batch size {n}?", name=name, n=self._offer.batch)
        name_box(self.query_one("#dialog"), title, "y yes  s as it was  n no")

    def action_answer(self, answer: Answer) -> None:
        """Take an answer."""
        self.dismiss(answer)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        answers: dict[str | None, Answer] = {"offered": "offered", "same": "same"}
        self.dismiss(answers.get(event.button.id, ""))


def retry(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Queue ended jobs again; those that ran out of memory with what should fit, one by one."""
    short = [job for job in jobs if job.state is JobState.OOM]
    others = [job for job in jobs if job.state is not JobState.OOM]
    if others or not short:
        job_actions.retry(screen, others)
    if short:
        screen.tell("Looking for a batch size that fits.")
        aside(screen, partial(_offer_each, screen, short), group="offer", exclusive=True)


async def _offer_each(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    for job in jobs:
        try:
            offer = await screen.session.retrying.offer(job)
        except ConsoleError as error:
            screen.tell(
                msg("There is nothing smaller to offer: {why}", why=screen.ink.say(error.message))
            )
            job_actions.retry(screen, (job,))
            continue
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        screen.app.push_screen(AgainScreen(offer), answered.set_result)
        _again(screen, offer, await answered)


def _again(screen: ConsoleScreen, offer: Offer, answer: Answer | None) -> None:
    if answer == "same":
        job_actions.retry(screen, (offer.job,))
    elif answer == "offered":
        name = clean(offer.job.task.name)
        screen.ask_session(
            lambda: screen.session.queue.retry(offer.job.id, offer),
            lambda _: screen.tell(
                msg("{name} is queued again with batch size {n}.", name=name, n=offer.batch)
            ),
        )

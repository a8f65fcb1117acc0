"""What if: a change typed, and below it when the waiting jobs would start then. Nothing is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.errors import ConsoleError
from gpuconsole.placement.forecast.what_if import Comparison, Moved, sentences
from gpuconsole.session.queue.forecast import Change, parse_change
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.text_cells import fit
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.field import Field
from gpuconsole.tui.widgets.panel import name_box

if TYPE_CHECKING:
    from gpuconsole.tui.app import ConsoleApp

_SHOWN = 8
"""How many jobs are listed."""
_EXPLANATION = (
    "The queue is run forward on a copy; nothing is changed.\n"
    "Type one of:  drain HOST   add COUNT MODEL   priority JOB NUMBER"
)


class WhatIfScreen(Dialog[None]):
    """Ask about a change, see the answer, ask the next."""

    BINDINGS = bindings("dialog")
    AUTO_FOCUS = "#answer"
    TYPED_INTO = True

    def __init__(self, job: str = "") -> None:
        """`job` is the waiting job that was chosen, for a first question."""
        super().__init__()
        self._first = f"priority {clean(job)} 10" if job else ""

    def compose(self) -> ComposeResult:
        """Explanation, input, what is wrong, the answer."""
        say = ink_of(self).say
        explanation = "\n".join(map(say, _EXPLANATION.split("\n")))
        with Vertical(id="dialog", classes="panel wide"):
            yield Static(explanation, markup=False, id="dialog-text")
            yield Field(
                self._first,
                placeholder="e.g. add 4 RTX_4090",
                id="answer",
                compact=True,
                type="text",
            )
            yield Static("", markup=False, id="dialog-wrong")
            yield Static("", markup=False, id="what-if-answer")

    def on_mount(self) -> None:
        """Name the box."""
        name_box(self.query_one("#dialog"), "what if", "enter asks  esc leaves")

    def action_yes(self) -> None:
        """Letters are typed here; enter asks."""

    def action_no(self) -> None:
        """Leave."""
        self.dismiss(None)

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        try:
            change = parse_change(event.value)
        except ConsoleError as error:
            self._say_wrong(error)
            return
        self._say(ink_of(self).say("looking ahead …"))

        async def asked() -> None:
            session = cast("ConsoleApp", self.app).session
            try:
                comparison = await session.foresight.what_if(change)
            except ConsoleError as error:
                self._say_wrong(error)
                return
            self._say("\n".join(lines(change, comparison, session.now(), ink_of(self).say)))

        aside(self, asked, group="what-if", exclusive=True)

    def _say(self, answer: str) -> None:
        self.query_one("#dialog-wrong", Static).update("")
        self.query_one("#what-if-answer", Static).update(answer)

    def _say_wrong(self, error: ConsoleError) -> None:
        self.query_one("#what-if-answer", Static).update("")
        self.query_one("#dialog-wrong", Static).update(clean(ink_of(self).say(error.message)))


def lines(
    change: Change, comparison: Comparison, now: float, say: Callable[[str], str] = str
) -> list[str]:
    """Return the answer: sentences, then the jobs that move most."""
    texts = [clean(say(sentence)) for sentence in sentences(change.text, comparison)]
    if comparison.moved:
        names = [(say("job"), 22), (say("user"), 8), (say("starts in"), 11)]
        heading = " ".join(fit(name, width) for name, width in names)
        texts += ["", f"{heading} {say('then in')}"]
        texts += [_moved_line(moved, now, say) for moved in comparison.moved[:_SHOWN]]
    if len(comparison.moved) > _SHOWN:
        texts.append(say(f"and {len(comparison.moved) - _SHOWN} more"))
    return texts


def _moved_line(moved: Moved, now: float, say: Callable[[str], str]) -> str:
    before, after = (say(_in(at, now)) for at in (moved.before, moved.after))
    return f"{fit(clean(moved.name), 22)} {fit(clean(moved.user), 8)} {fit(before, 11)} {after}"


def _in(at: float | None, now: float) -> str:
    if at is None:
        return "unknown"
    return "now" if at - now < 1 else format_duration(at - now)

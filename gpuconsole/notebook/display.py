"""Where a cell's answer goes: into a notebook's front end, or onto a terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

from IPython import display as front_end

from gpuconsole.cli.output import show
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.errors import ConsoleError
from gpuconsole.notebook.html import joined, tag
from gpuconsole.notebook.views import View, job_view
from gpuconsole.session.logs.updates import Update

TAIL = 20
"""Lines of a log that stay on the page while a job is followed."""


class Screen:
    """The front end of a shell; without a kernel there is none, and text is printed."""

    def __init__(self, shell: object) -> None:
        self.rich = getattr(shell, "kernel", None) is not None

    def show(self, view: View) -> None:
        """Show one answer."""
        if self.rich:
            _display(view.bundle())
        else:
            show(*view.parts)

    def offer(self, label: str, act: Callable[[], View]) -> None:
        """Show a button that does `act`, where the front end can have one."""
        if self.rich and can_show():
            show_button(label, act)

    def follow(self, updates: Iterable[Update], tail: int, simulated: bool) -> Job | None:
        """Show a job and its log while it goes on; returns it as it ended."""
        follow = _Page(tail, simulated) if self.rich else _Lines()
        job = None
        for update in updates:
            job = update.job
            follow.tell(update)
        return job


class _Page:
    """One place on the page that changes: the state above, the end of the log below."""

    def __init__(self, tail: int, simulated: bool) -> None:
        self._tail: deque[str] = deque(maxlen=tail)
        self._simulated = simulated
        self._handle: Any = None

    def tell(self, update: Update) -> None:
        self._tail.extend(update.lines)
        bundle = job_view(update.job, tuple(self._tail), self._simulated).bundle()
        if self._handle is None:
            self._handle = _display(bundle, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class _Lines:
    """A terminal: the log as it comes, and a line whenever the job's state changes."""

    def __init__(self) -> None:
        self._state: JobState | None = None

    def tell(self, update: Update) -> None:
        for line in update.lines:
            print(line, flush=True)
        if update.job.state is not self._state:
            self._state = update.job.state
            show(job_view(update.job, (), False).parts[0])


def _display(bundle: dict[str, str], **options: Any) -> object:
    return front_end.display(bundle, raw=True, **options)  # type: ignore[no-untyped-call]


def can_show() -> bool:
    """Tell whether the kernel has ipywidgets; a page without them shows a line of text."""
    return find_spec("ipywidgets") is not None


def show_button(label: str, act: Callable[[], View]) -> None:
    """Show a button that does `act` once and shows what it returns. After an error, which is shown
    too, it may be pressed again."""
    import ipywidgets

    button = ipywidgets.Button(description=label)
    said = ipywidgets.HTML()

    def pressed(_: object) -> None:
        button.disabled = True
        try:
            said.value = act().bundle()["text/html"]
        except ConsoleError as error:
            lines = (f"{error.title}: {error.message}", *error.hint.splitlines())
            said.value = joined(tag("div", line) for line in lines)
            button.disabled = False

    button.on_click(pressed)
    front_end.display(ipywidgets.VBox([button, said]))  # type: ignore[no-untyped-call]

"""What one can do to a job, from the queue and from its own screen alike."""

from __future__ import annotations

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs import AskScreen, ConfirmScreen


def cancel(screen: ConsoleScreen, job: Job) -> None:
    """Ask, naming the consequence, then cancel."""
    name = clean(job.task.name)
    if job.state.ended:
        screen.tell(f"{name} has ended already.")
        return
    attempt = job.attempt
    if job.state.active and attempt is not None:
        count = len(attempt.device_uuids)
        place = f"{attempt.host}, {count} device{'' if count == 1 else 's'},"
        consequence = (
            f"Its container on {place} gets SIGTERM, then SIGKILL after the grace time. "
            "What it wrote to its results folder stays."
        )
    else:
        consequence = "It leaves the queue. Nothing runs yet, so nothing is lost."
    if job.user != screen.session.user:
        consequence += f" The job belongs to {job.user}."

    def answered(yes: bool | None) -> None:
        if yes:
            done = lambda _: screen.tell(f"{name} is being cancelled.")  # noqa: E731
            screen.ask_session(lambda: screen.session.cancel(job.id), done)

    screen.app.push_screen(ConfirmScreen(f"Cancel {name}?", consequence, "Cancel job"), answered)


def retry(screen: ConsoleScreen, job: Job) -> None:
    """Queue an ended job again."""
    name = clean(job.task.name)
    if not job.state.ended:
        screen.tell(f"{name} has not ended; only an ended job can be retried.")
        return
    screen.ask_session(
        lambda: screen.session.retry(job.id), lambda _: screen.tell(f"{name} is queued again.")
    )


def hold(screen: ConsoleScreen, job: Job) -> None:
    """Hold a queued job, or let a held one go."""
    name = clean(job.task.name)
    if job.state not in (JobState.QUEUED, JobState.HELD):
        screen.tell(f"{name} is {job.state.value}; only a waiting job can be held.")
        return
    words = "may start again" if job.state is JobState.HELD else "is held"
    screen.ask_session(
        lambda: screen.session.hold(job.id), lambda _: screen.tell(f"{name} {words}.")
    )


def preempt(screen: ConsoleScreen, job: Job) -> None:
    """Ask, then stop a running job that goes on from its checkpoint later."""
    name = clean(job.task.name)
    if job.state is not JobState.RUNNING:
        screen.tell(f"{name} is {job.state.value}; only a running job can be preempted.")
        return
    if not job.task.checkpoint_dir:
        screen.tell(f"{name} keeps no checkpoints, so it could not go on; c cancels it.")
        return
    consequence = (
        "It gets SIGTERM, then SIGKILL after the grace time, and joins the queue again. What it"
        " did after its last checkpoint is done once more."
    )

    def answered(yes: bool | None) -> None:
        if yes:
            done = lambda _: screen.tell(f"{name} is queued again.")  # noqa: E731
            screen.ask_session(lambda: screen.session.preempt(job.id), done)

    screen.app.push_screen(ConfirmScreen(f"Preempt {name}?", consequence, "Preempt"), answered)


def priority(screen: ConsoleScreen, job: Job) -> None:
    """Ask for a priority and set it."""
    name = clean(job.task.name)
    if job.state not in (JobState.QUEUED, JobState.HELD):
        screen.tell(f"{name} is {job.state.value}; only a waiting job has a place in the queue.")
        return

    def answered(typed: str | None) -> None:
        if typed is not None:
            wanted = int(typed)
            done = lambda _: screen.tell(f"{name} has priority {wanted}.")  # noqa: E731
            screen.ask_session(lambda: screen.session.set_priority(job.id, wanted), done)

    asked = AskScreen(
        f"Priority of {name}", "A higher number starts earlier; 0 is ordinary.",
        value=str(job.task.priority), number=True,
    )  # fmt: skip
    screen.app.push_screen(asked, answered)

"""What one can do to jobs, from the queue and from a job's own screen alike.

Each verb takes one job or many, does what it can to those that it suits, and asks first where it
harms. Of many jobs, and of those that belong to others, it asks for more than a key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.base import AskScreen, ConfirmScreen

MANY_DEVICES = 8
"""Ending jobs on more devices than so is confirmed by a typed word."""
WAITING = (JobState.QUEUED, JobState.HELD)


def cancel(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Ask, naming the consequence, then cancel."""
    able = [job for job in jobs if not job.state.ended]
    if not able:
        screen.tell(f"{_names(jobs)} {_have(jobs)} ended already.")
        return
    running = [job for job in able if job.state.active and job.attempt is not None]
    if running:
        consequence = (
            f"{_containers(running)} SIGTERM, then SIGKILL after the grace time. What was written"
            " to results folders stays."
        )
    else:
        consequence = f"{_it(able)} the queue. Nothing runs yet, so nothing is lost."
    _ask(
        screen, able, "Cancel", "Cancel job" if len(able) == 1 else "Cancel jobs", consequence,
        lambda job: screen.session.queue.cancel(job.id), "being cancelled",
    )  # fmt: skip


def preempt(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Ask, then stop running jobs that go on from their checkpoints later."""
    running = [job for job in jobs if job.state is JobState.RUNNING]
    if not running:
        screen.tell(f"{_names(jobs)} {_is(jobs)} {_state(jobs)}; only a running job is preempted.")
        return
    able = [job for job in running if job.task.checkpoint_dir]
    if not able:
        keeps = "keeps" if len(running) == 1 else "keep"
        screen.tell(f"{_names(running)} {keeps} no checkpoints, to go on from; c cancels.")
        return
    consequence = (
        f"{_containers(able)} SIGTERM, then SIGKILL after the grace time, and the queue has"
        f" {'it' if len(able) == 1 else 'them'} again. What was done after its last checkpoint is"
        " done once more."
    )
    _ask(
        screen, able, "Preempt", "Preempt", consequence,
        lambda job: screen.session.queue.preempt(job.id), "queued again",
    )  # fmt: skip


def retry(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Queue ended jobs again."""
    able = [job for job in jobs if job.state.ended]
    if not able:
        screen.tell(f"{_names(jobs)} {_have(jobs)} not ended; only an ended job can be retried.")
        return
    _each(screen, able, lambda job: screen.session.queue.retry(job.id), "queued again")


def hold(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Hold waiting jobs; when all of them are held, let them go."""
    able = [job for job in jobs if job.state in WAITING]
    if not able:
        screen.tell(f"{_names(jobs)} {_is(jobs)} {_state(jobs)}; only a waiting job can be held.")
        return
    queued = [job for job in able if job.state is JobState.QUEUED]
    words = "held" if queued else "free to start again"
    _each(screen, queued or able, lambda job: screen.session.queue.hold(job.id), words)


def priority(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Ask for a priority and set it."""
    able = [job for job in jobs if job.state in WAITING]
    if not able:
        screen.tell(
            f"{_names(jobs)} {_is(jobs)} {_state(jobs)}; only a waiting job has a place in the"
            " queue."
        )
        return

    def answered(typed: str | None) -> None:
        if typed is not None:
            wanted = int(typed)
            _each(
                screen, able, lambda job: screen.session.queue.set_priority(job.id, wanted),
                f"at priority {wanted}",
            )  # fmt: skip

    asked = AskScreen(
        f"Priority of {_names(able)}", "A higher number starts earlier; 0 is ordinary.",
        value=str(able[0].task.priority), number=True,
    )  # fmt: skip
    screen.app.push_screen(asked, answered)


def pass_by(screen: ConsoleScreen, job: Job, other: Job, step: int) -> None:
    """Bring a waiting job before another (`step` -1) or behind it, by its priority."""
    wanted = other.task.priority - step
    side = "before" if step < 0 else "behind"
    _each(
        screen, (job,), lambda job: screen.session.queue.set_priority(job.id, wanted),
        f"{side} {clean(other.task.name)} now, at priority {wanted}",
    )  # fmt: skip


def _ask(
    screen: ConsoleScreen,
    jobs: Sequence[Job],
    verb: str,
    yes: str,
    consequence: str,
    call: Callable[[Job], Awaitable[object]],
    done: str,
) -> None:
    """Ask before harm, then do it to each job."""
    others = sorted({clean(job.user) for job in jobs if job.user != screen.session.user})
    if others:
        consequence += f" {_belongs(jobs)} to {', '.join(others)}."
    question = f"{verb} {_names(jobs)}?"

    def answered(answer: bool | str | None) -> None:
        if answer:
            _each(screen, jobs, call, done)

    devices = sum(_devices(job) for job in jobs)
    if devices > MANY_DEVICES:
        word = clean(jobs[0].task.name) if len(jobs) == 1 else str(len(jobs))
        consequence += f" {devices} devices are given up. Type {word} to do it."
        screen.app.push_screen(AskScreen(question, consequence, must_be=word), answered)
    else:
        # To cancel a cancellation is what nobody understands.
        no = "No" if verb == "Cancel" else "Cancel"
        screen.app.push_screen(ConfirmScreen(question, consequence, yes, no), answered)


def _each(
    screen: ConsoleScreen,
    jobs: Sequence[Job],
    call: Callable[[Job], Awaitable[object]],
    done: str,
) -> None:
    """Do something to each job; one that refuses keeps none of the others from it."""

    async def work() -> list[ConsoleError]:
        refused = []
        for job in jobs:
            try:
                await call(job)
            except ConsoleError as error:
                refused.append(error)
        return refused

    def told(refused: list[ConsoleError]) -> None:
        for error in refused:
            screen.console.tell_error(error)
        if len(jobs) == 1 and not refused:
            screen.tell(f"{_names(jobs)} is {done}.")
        elif len(refused) < len(jobs):
            screen.tell(f"{len(jobs) - len(refused)} of {len(jobs)} jobs are {done}.")

    screen.ask_session(work, told)


def _names(jobs: Sequence[Job]) -> str:
    return clean(jobs[0].task.name) if len(jobs) == 1 else f"{len(jobs)} jobs"


def _state(jobs: Sequence[Job]) -> str:
    states = {job.state.value for job in jobs}
    return states.pop() if len(states) == 1 else "of other states"


def _is(jobs: Sequence[Job]) -> str:
    return "is" if len(jobs) == 1 else "are"


def _have(jobs: Sequence[Job]) -> str:
    return "has" if len(jobs) == 1 else "have"


def _it(jobs: Sequence[Job]) -> str:
    return "It leaves" if len(jobs) == 1 else "They leave"


def _belongs(jobs: Sequence[Job]) -> str:
    return "The job belongs" if len(jobs) == 1 else "Some belong"


def _devices(job: Job) -> int:
    parts = job.attempt.parts if job.attempt is not None and job.state.active else ()
    return sum(len(part.device_uuids) for part in parts)


def _containers(jobs: Sequence[Job]) -> str:
    """Say whose containers end: the places of one job, or the names of several."""
    if len(jobs) > 1:
        names = ", ".join(clean(job.task.name) for job in jobs[:6])
        more = f" and {len(jobs) - 6} more" if len(jobs) > 6 else ""
        return f"The containers of {names}{more} get"
    parts = jobs[0].attempt.parts if jobs[0].attempt is not None else ()
    hosts = " and ".join(part.host for part in parts)
    count = _devices(jobs[0])
    place = f"{hosts}, {count} device{'' if count == 1 else 's'},"
    return f"Its container on {place} gets" if len(parts) == 1 else f"Its containers on {place} get"

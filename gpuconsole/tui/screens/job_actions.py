"""What one can do to jobs, from the queue and from a job's own screen alike.

Each verb takes one job or many, does what it can to those that it suits, and asks first where it
harms. Of many jobs, and of those that belong to others, it asks for more than a key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg, name, sentences
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.base import AskScreen, ConfirmScreen

MANY_DEVICES = 8
"""Ending jobs on more devices than so is confirmed by a typed word."""
WAITING = (JobState.QUEUED, JobState.HELD)


@dataclass(frozen=True, slots=True)
class Done:
    """What is said once something was done to jobs."""

    template: str
    """Of one job, `{name}`."""
    several: str
    """What several jobs are then."""
    values: Mapping[str, object] = field(default_factory=dict)


QUEUED_AGAIN = Done("{name} is queued again.", "queued again")


def cancel(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Ask, naming the consequence, then cancel."""
    able = [job for job in jobs if not job.state.ended]
    if not able:
        template = "{name} has ended already." if _one(jobs) else "{name} have ended already."
        screen.tell(msg(template, name=_names(jobs)))
        return
    running = [job for job in able if job.state.active and job.attempt is not None]
    if running:
        consequence = sentences(
            _containers(running, " SIGTERM, then SIGKILL after the grace time."),
            "What was written to results folders stays.",
        )
    else:
        leaves = "It leaves the queue." if _one(able) else "They leave the queue."
        consequence = sentences(leaves, "Nothing runs yet, so nothing is lost.")
    _ask(
        screen, able, msg("Cancel {name}?", name=_names(able)),
        "Cancel job" if _one(able) else "Cancel jobs", consequence,
        lambda job: screen.session.queue.cancel(job.id),
        Done("{name} is being cancelled.", "being cancelled"),
    )  # fmt: skip


def preempt(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Ask, then stop running jobs that go on from their checkpoints later."""
    running = [job for job in jobs if job.state is JobState.RUNNING]
    if not running:
        screen.tell(_refusal(jobs, "only a running job is preempted."))
        return
    able = [job for job in running if job.task.resumable]
    if not able:
        keeps = "keeps" if _one(running) else "keep"
        template = f"{{name}} {keeps} no checkpoints, to go on from; c cancels."
        screen.tell(msg(template, name=_names(running)))
        return
    them = "it" if _one(able) else "them"
    consequence = sentences(
        _containers(
            able, f" SIGTERM, then SIGKILL after the grace time, and the queue has {them} again."
        ),
        "What was done after its last checkpoint is done once more.",
    )
    _ask(
        screen, able, msg("Preempt {name}?", name=_names(able)), "Preempt", consequence,
        lambda job: screen.session.queue.preempt(job.id), QUEUED_AGAIN,
    )  # fmt: skip


def retry(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Queue ended jobs again."""
    able = [job for job in jobs if job.state.ended]
    if not able:
        has = "has" if _one(jobs) else "have"
        template = f"{{name}} {has} not ended; only an ended job can be retried."
        screen.tell(msg(template, name=_names(jobs)))
        return
    _each(screen, able, lambda job: screen.session.queue.retry(job.id), QUEUED_AGAIN)


def hold(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Hold waiting jobs; when all of them are held, let them go."""
    able = [job for job in jobs if job.state in WAITING]
    if not able:
        screen.tell(_refusal(jobs, "only a waiting job can be held."))
        return
    queued = [job for job in able if job.state is JobState.QUEUED]
    words = (
        Done("{name} is held.", "held")
        if queued
        else Done("{name} is free to start again.", "free to start again")
    )
    _each(screen, queued or able, lambda job: screen.session.queue.hold(job.id), words)


def priority(screen: ConsoleScreen, jobs: Sequence[Job]) -> None:
    """Ask for a priority and set it."""
    able = [job for job in jobs if job.state in WAITING]
    if not able:
        screen.tell(_refusal(jobs, "only a waiting job has a place in the queue."))
        return

    def answered(typed: str | None) -> None:
        if typed is not None:
            wanted = int(typed)
            _each(
                screen, able, lambda job: screen.session.queue.set_priority(job.id, wanted),
                Done("{name} is at priority {n}.", f"at priority {wanted}", {"n": wanted}),
            )  # fmt: skip

    asked = AskScreen(
        msg("Priority of {name}", name=_names(able)),
        "A higher number starts earlier; 0 is ordinary.",
        value=str(able[0].task.priority), number=True,
    )  # fmt: skip
    screen.app.push_screen(asked, answered)


def is_kept_running(job: Job) -> bool:
    """Tell whether a job is a replica of a service that has not ended."""
    return job.task.service is not None and not job.state.ended


def scale(screen: ConsoleScreen, job: Job) -> None:
    """Ask for a number of replicas, and have the service of a job run so many."""
    service = job.task.service
    if service is None or job.state.ended:
        screen.tell(msg("{name} is no replica of a service that runs.", name=_names((job,))))
        return

    def answered(typed: str | None) -> None:
        if typed is not None:
            wanted = int(typed)
            template = "The service {service} is to have {n} replicas."
            _each(
                screen, (job,), lambda job: screen.session.queue.scale(job.task.sweep, wanted),
                Done(template, "", {"service": clean(job.task.sweep), "n": wanted}),
            )  # fmt: skip

    asked = AskScreen(
        msg("Replicas of {name}", name=name(clean(job.task.sweep))),
        "Those that are too many finish their connections first.",
        value=str(service.replicas), number=True,
    )  # fmt: skip
    screen.app.push_screen(asked, answered)


def pass_by(screen: ConsoleScreen, job: Job, other: Job, step: int) -> None:
    """Bring a waiting job before another (`step` -1) or behind it, by its priority."""
    wanted = other.task.priority - step
    side = "before" if step < 0 else "behind"
    template = f"{{name}} is {side} {{other}} now, at priority {{n}}."
    _each(
        screen, (job,), lambda job: screen.session.queue.set_priority(job.id, wanted),
        Done(template, "", {"other": clean(other.task.name), "n": wanted}),
    )  # fmt: skip


def _ask(
    screen: ConsoleScreen,
    jobs: Sequence[Job],
    question: str,
    yes: str,
    consequence: str,
    call: Callable[[Job], Awaitable[object]],
    done: Done,
) -> None:
    """Ask before harm, then do it to each job."""
    others = sorted({clean(job.user) for job in jobs if job.user != screen.session.user})
    if others:
        template = "The job belongs to {users}." if _one(jobs) else "Some belong to {users}."
        consequence = sentences(consequence, msg(template, users=", ".join(others)))

    def answered(answer: bool | str | None) -> None:
        if answer:
            _each(screen, jobs, call, done)

    devices = sum(_devices(job) for job in jobs)
    if devices > MANY_DEVICES:
        word = clean(jobs[0].task.name) if len(jobs) == 1 else str(len(jobs))
        consequence = sentences(
            consequence,
            f"{devices} devices are given up.",
            msg("Type {word} to do it.", word=name(word)),
        )
        screen.app.push_screen(AskScreen(question, consequence, must_be=word), answered)
    else:
        # A button "Cancel" would be ambiguous for a cancellation.
        no = "No" if yes.startswith("Cancel") else "Cancel"
        screen.app.push_screen(ConfirmScreen(question, consequence, yes, no), answered)


def _each(
    screen: ConsoleScreen,
    jobs: Sequence[Job],
    call: Callable[[Job], Awaitable[object]],
    done: Done,
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

    def report(refused: list[ConsoleError]) -> None:
        for error in refused:
            screen.console.tell_error(error)
        if len(jobs) == 1 and not refused:
            screen.tell(msg(done.template, name=_names(jobs), **done.values))
        elif len(refused) < len(jobs):
            screen.tell(
                msg(
                    "{n} of {all} jobs are {done_text}.",
                    n=len(jobs) - len(refused),
                    all=len(jobs),
                    done_text=done.several,
                )
            )

    screen.ask_session(work, report)


def _names(jobs: Sequence[Job]) -> str:
    return name(clean(jobs[0].task.name)) if _one(jobs) else msg("{n} jobs", n=len(jobs))


def _state(jobs: Sequence[Job]) -> str:
    states = {job.state.value for job in jobs}
    return states.pop() if len(states) == 1 else "of other states"


def _one(jobs: Sequence[Job]) -> bool:
    return len(jobs) == 1


def _refusal(jobs: Sequence[Job], rule: str) -> str:
    """Return why none of the jobs can have this done."""
    template = f"{{name}} {'is' if _one(jobs) else 'are'} {{state_word}}; {rule}"
    return msg(template, name=_names(jobs), state_word=_state(jobs))


def _devices(job: Job) -> int:
    parts = job.attempt.parts if job.attempt is not None and job.state.active else ()
    return sum(len(part.device_uuids) for part in parts)


def _containers(jobs: Sequence[Job], what: str) -> str:
    """Return what is done to which containers: the places of one job, or the names of several."""
    if len(jobs) > 1:
        names = ", ".join(clean(job.task.name) for job in jobs[:6])
        more = f" and {len(jobs) - 6} more" if len(jobs) > 6 else ""
        return msg(f"The containers of {{names}} get{what}", names=names + more)
    parts = jobs[0].attempt.parts if jobs[0].attempt is not None else ()
    hosts = " and ".join(part.host for part in parts)
    count = _devices(jobs[0])
    devices = f"{{n}} device{'' if count == 1 else 's'},"
    if len(parts) == 1:
        return msg(f"Its container on {{host}}, {devices} gets{what}", host=hosts, n=count)
    return msg(f"Its containers on {{hosts}}, {devices} get{what}", hosts=hosts, n=count)

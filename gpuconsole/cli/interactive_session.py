"""What `shell` and `jupyter` have in common: options, and how a session's place is waited for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuconsole.cli.output import note
from gpuconsole.cli.tasks import Pair, TaskValue, Variable
from gpuconsole.core.jobs import Job, JobState, Mount
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

    _Parameter = click.ParamType[object]
else:
    _Parameter = click.ParamType

Command = TypeVar("Command", bound=Callable[..., object])
PICTURE_S = 3.0
"""How long a command waits for hosts before it places a session on those it has."""
LOOK_S = 0.3


class Moment(_Parameter):
    """A moment to come: 18:00, +2h, 2030-01-31T18:00."""

    name = "time"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        """Return it in seconds since the epoch."""
        from gpuconsole.core.util.human_time import coming

        if isinstance(value, float):
            return value
        try:
            return coming(str(value), time.time())
        except ValueError as error:
            self.fail(f"{value!r}: {error}", parameter, context)


def session_options(command: Command) -> Command:
    """Give a command the options of a new session."""
    settings: list[Callable[[Any], Any]] = [
        click.option(
            "--devices", type=click.IntRange(1, 64), default=1, metavar="N", help="How many."
        ),
        click.option(
            "--image", default="", metavar="IMAGE", help="Image; else the host's default."
        ),
        click.option(
            "--memory", "memory_mib", type=TaskValue("memory_limit", "size"),
            help="Device memory that it takes: 8g; else all of it.",
        ),
        click.option(
            "--idle-stop", "idle_stop_s", type=TaskValue("run_time", "duration"),
            help="End it when for so long nothing is typed and no device used: 1h.",
        ),
        click.option(
            "--until", type=Moment(), help="End it at 18:00, in +2h, or at 2030-01-31T18:00."
        ),
        click.option(
            "--workspace", default="", metavar="NAME",
            help="Work in a folder that is kept on the host.",
        ),
        click.option(
            "--name", default="", metavar="NAME", help="What the queue calls it; else by its kind."
        ),
        click.option(
            "--label", type=Pair(), multiple=True, metavar="K=V", help="Label a host must have."
        ),
        click.option(
            "--mount", type=TaskValue("mounts", "src:dst[:ro|rw]", lambda text: [text]),
            multiple=True, help="Folder of the host; ro by default.",
        ),
        click.option(
            "--env", type=Variable(), multiple=True, metavar="K[=V]",
            help="Environment variable; K alone takes its value from here, and hides it.",
        ),
        click.option(
            "--network", type=click.Choice(["none", "lab", "full"]),
            help="What the container may reach.",
        ),
    ]  # fmt: skip
    for setting in reversed(settings):
        command = setting(command)
    return command


def wanted(said: dict[str, Any]) -> dict[str, Any]:
    """Return what `Session.shell` is asked for."""
    from gpuconsole.cli.tasks import variables

    plain, secrets = variables(said.pop("env"))
    mounts = [Mount(mount.source, mount.target, mount.read_only) for (mount,) in said.pop("mount")]
    given = {name: value for name, value in said.items() if value not in (None, "")}
    labels = dict(given.pop("label"))
    return {**given, "env": plain, "secrets": secrets, "mounts": mounts, "labels": labels}


async def begun(session: Session, job: Job) -> Job:
    """Return the session once it runs or has ended, and tell what it waits for."""
    said = ""
    while not (job.state is JobState.RUNNING or job.state.ended):
        if job.state is JobState.QUEUED:
            words = session.why_now(job.id).reason
        else:
            words = job.detail or job.state.value
        if words and words != said:
            note(words)
            said = words
        await asyncio.sleep(LOOK_S)
        job = session.job(job.id)
    return job


async def ended_job(session: Session, job: Job) -> Job:
    """Return the job of an interactive session after the queue has noted its end."""
    while not job.state.ended:
        await asyncio.sleep(LOOK_S)
        job = session.job(job.id)
    return job


def over(session: Session, job: Job) -> RefusedError:
    """Return why a session that has ended cannot be used, and which images could run one."""
    images = ", ".join(session.shells.images_for(job))
    hint = msg("Images of that host that have what it needs: {images}.", images=images)
    return RefusedError(
        "The session is over",
        msg("{name} is {state_word}. {cause_text}", name=job.task.name, state_word=job.state_word,
            cause_text=job.cause),
        hint if images else "",
    )  # fmt: skip

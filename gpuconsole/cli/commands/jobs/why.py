"""`why`: why a job is where it is, and what would help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import print_document, say
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg

if TYPE_CHECKING:
    from gpuconsole.session.queue.planner import Why
    from gpuconsole.session.session import Session


_PICTURE_S = 5.0
"""How long a command waits for hosts before it answers with those it has."""


@click.command()
@click.argument("job", shell_complete=shell_completion.jobs())
@common
def why(job: str) -> int:
    """Explain why a job is where it is, and what would help.

    For a sweep, each of its jobs is explained.
    """

    async def from_journal(session: Session) -> dict[str, Why]:
        group = session.group(job)
        # Only what waits for devices, or is held against one, needs a look at the hosts.
        looks = any(each.state is JobState.QUEUED or _has_steps(each) for each in group)
        return {} if looks else session.explain(group)

    async def from_hosts(session: Session) -> dict[str, Why]:
        group = session.group(job)
        if any(each.state is JobState.QUEUED for each in group):
            await session.look_around(_PICTURE_S)
        else:
            await session.first_frames(_PICTURE_S)
        return session.explain(session.group(job))

    reasons = drive(from_journal, fleet=False) or drive(from_hosts)
    documents = {name: each.as_json() for name, each in reasons.items()}
    if options().as_json:
        several = [{"id": name, **document} for name, document in documents.items()]
        print_document({"jobs": several} if len(several) > 1 else next(iter(documents.values())))
        return 0
    for name, document in documents.items():
        _print_why(document, f"{name}  " if len(documents) > 1 else "")
    return 0


def _has_steps(job: Job) -> bool:
    """Tell whether a job runs, and what its first steps took is known."""
    taken = job.attempt.steps_mib if job.attempt else None
    return job.state is JobState.RUNNING and taken is not None


def _print_why(document: Mapping[str, Any], mark: str) -> None:
    print(clean(f"{mark}{say(document['state'])}: {say(document['reason'])}"))
    for blocker in document["blockers"]:
        print(clean(f"  {say('held up by')} {say(blocker_text(blocker))}"))
    if document["estimated_start"]:
        print(f"  {say('estimated start')} {document['estimated_start']}")
    for option in document["options"]:
        print(clean(f"  → {say(option)}"))


def blocker_text(blocker: Mapping[str, Any]) -> str:
    """Return the text for what blocks a job: a device's holder or something else."""
    if "text" in blocker:
        return str(blocker["text"])
    values = {key: str(blocker.get(key, "?")) for key in ("name", "user", "host")}
    return msg("{name} of {user} on {host}", **values)

"""The queue: what is in it, why a job stands where it does, and what to do with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuconsole.cli import completing
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, say, show
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.wording import msg
from gpuconsole.errors import UnreachableError, UsageError

if TYPE_CHECKING:
    from gpuconsole.core.containers import ResultFile
    from gpuconsole.session.queue.planner import Why
    from gpuconsole.session.results import FetchedResults
    from gpuconsole.session.session import Session

_PICTURE_S = 5.0
"""How long a command waits for hosts before it answers with those it has."""
_RECENT = 20
"""How many ended jobs a person sees without --all."""
_LEFT_OUT = 20
"""How many things that could not be copied a person sees; --json has more."""


@click.command()
@click.argument("job", required=False, shell_complete=completing.jobs())
@click.option("--all", "show_all", is_flag=True, help="Show every ended job too.")
@common
def jobs(job: str | None, show_all: bool) -> int:
    """List the queue, or one job, or the jobs of one sweep.

    What waits, what runs, and what ended lately.
    """

    async def work(session: Session) -> tuple[tuple[Job, ...], float]:
        return session.jobs() if job is None else session.group(job), session.now()

    listed, now = drive(work, fleet=False)
    if options().as_json:
        print_document({"jobs": [one.as_json() for one in listed]})
        return 0
    if not listed:
        note("The queue is empty. Queue a script with: gpuconsole submit SCRIPT")
        return 0
    from gpuconsole.cli import views

    ended = [one for one in listed if one.state.ended]
    hidden = set() if show_all or job is not None else {one.id for one in ended[:-_RECENT]}
    show(views.jobs([one for one in listed if one.id not in hidden], now))
    if hidden:
        note(msg("{n} older jobs are not shown; see them with --all.", n=len(hidden)))
    return 0


@click.command()
@click.argument("job", metavar="JOB|HOST:CONTAINER", shell_complete=completing.jobs())
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the job ends.")
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Last N lines only.")
@click.option(
    "--search", default="", metavar="TEXT", help="Only lines that contain TEXT; `a|b` is either."
)
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Of a gang: the number of the host.",
)
@common
def logs(job: str, follow: bool, tail: int | None, search: str, rank: int) -> int:
    """Print the log of a job's latest attempt, or of any container.

    A job comes first where both have the name. Of a container, HOST:CONTAINER, the engine's own
    log is read, with the rights of your account there.
    """
    from gpuconsole.cli import container_logs

    async def known(session: Session) -> str:
        try:
            return session.job(job).id
        except UsageError:
            if ":" in job:
                return ""
            raise

    job_id = drive(known, fleet=False)
    if not job_id:
        return container_logs.print_log(job, follow=follow, tail=tail, search=search)

    async def work(session: Session) -> None:
        lines = session.logs(job_id, follow=follow, rank=rank)
        await container_logs.print_lines(
            lines, {"job": job_id}, follow=follow, tail=tail, search=search
        )

    drive(work, fleet=follow)
    return 0


@click.command()
@click.argument("job", shell_complete=completing.jobs(*completing.LIVE))
@common
def wait(job: str) -> int:
    """Wait for the end of a job or a sweep; exit 0 if all succeeded."""

    async def work(session: Session) -> list[Job]:
        found = session.group(job)
        for one in found:
            if not one.state.ended and not options().as_json:
                note(_line(one))
        return list(await asyncio.gather(*(session.wait(one.id) for one in found)))

    ended = drive(work)
    _tell_all(job, ended)
    return 0 if all(one.state is JobState.SUCCEEDED for one in ended) else 1


@click.command()
@click.argument("job", shell_complete=completing.jobs())
@common
def why(job: str) -> int:
    """Explain why a job is where it is, and what would help.

    For a sweep, each of its jobs is explained.
    """

    async def told(session: Session) -> dict[str, Why]:
        found = session.group(job)
        # Only what waits for devices, or is held against one, needs a look at the hosts.
        looks = any(one.state is JobState.QUEUED or _has_steps(one) for one in found)
        return {} if looks else session.whys(found)

    async def asked(session: Session) -> dict[str, Why]:
        found = session.group(job)
        if any(one.state is JobState.QUEUED for one in found):
            await session.look_around(_PICTURE_S)
        else:
            await session.first_frames(_PICTURE_S)
        return session.whys(session.group(job))

    found = drive(told, fleet=False) or drive(asked)
    documents = {name: each.as_json() for name, each in found.items()}
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


@click.command()
@click.argument("job", shell_complete=completing.jobs(*completing.LIVE))
@common
def cancel(job: str) -> int:
    """End a job or a sweep: SIGTERM, a grace time, SIGKILL.

    A waiting job only leaves the queue.
    """

    async def work(session: Session) -> list[Job]:
        found = session.group(job)
        # Of a sweep, what has ended stays; one job that has ended is a mistake worth telling.
        left = [one for one in found if not one.state.ended] or found
        return await session.queue.cancel_all(one.id for one in left)

    _tell_all(job, drive(work))
    return 0


@click.command()
@click.argument("job", shell_complete=completing.jobs("unknown", *completing.ENDED))
@click.option(
    "--env-file", type=click.Path(dir_okay=False, path_type=Path), multiple=True, metavar="FILE",
    help="Its secret variables, which are removed when a job ends.",
)  # fmt: skip
@common
def retry(job: str, env_file: tuple[Path, ...]) -> int:
    """Queue an ended job again, or what did not succeed of a sweep."""
    from gpuconsole.cli.tasks import secrets_in

    secrets = secrets_in(env_file)

    async def lost(session: Session) -> bool:
        return any(one.state is JobState.UNKNOWN for one in session.group(job))

    async def work(session: Session) -> list[Job]:
        found = session.group(job)
        bad = [one for one in found if one.state.ended and one.state is not JobState.SUCCEEDED]
        return [await session.queue.retry(one.id, secrets=secrets) for one in bad or found[:1]]

    # Only the inventory tells that a host is gone for good.
    _tell_all(job, drive(work, fleet=drive(lost, fleet=False)))
    return 0


@click.command()
@click.argument("job", shell_complete=completing.jobs("running"))
@common
def preempt(job: str) -> int:
    """Stop a running job; it resumes later from its checkpoint."""

    async def work(session: Session) -> Job:
        return await session.queue.preempt(job)

    _tell(drive(work))
    return 0


@click.command()
@click.argument("job", shell_complete=completing.jobs(*completing.WAITING))
@common
def hold(job: str) -> int:
    """Keep a queued job or sweep from starting; release a held one."""

    async def work(session: Session) -> list[Job]:
        found = session.group(job)
        queued = [one for one in found if one.state is JobState.QUEUED]
        held = [one for one in found if one.state is JobState.HELD]
        return await session.queue.hold_all(one.id for one in queued or held or found[:1])

    _tell_all(job, drive(work, fleet=False))
    return 0


@click.command()
@click.argument("job", shell_complete=completing.jobs("held"))
@common
def release(job: str) -> int:
    """Release a held job, or those of a sweep, into the queue."""

    async def work(session: Session) -> list[Job]:
        found = session.group(job)
        held = [one for one in found if one.state is JobState.HELD] or found[:1]
        return await session.queue.release_all(one.id for one in held)

    _tell_all(job, drive(work, fleet=False))
    return 0


@click.command()
@click.argument("job", shell_complete=completing.jobs(*completing.WAITING))
@click.argument("number", type=click.IntRange(-1000, 1000))
@common
def priority(job: str, number: int) -> int:
    """Change the priority of a waiting job or sweep; higher is first.

    Write a negative number after `--`.
    """

    async def work(session: Session) -> list[Job]:
        found = session.group(job)
        waiting = (JobState.QUEUED, JobState.HELD)
        able = [one for one in found if one.state in waiting] or found[:1]
        return await session.queue.set_priority_all([one.id for one in able], number)

    said = msg("priority {n}", n=number)
    _tell_all(job, drive(work, fleet=False), f", {say(said)}")
    return 0


@click.command()
@click.argument("job", shell_complete=completing.jobs())
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where the results folder is made; else here.",
)
@click.option("--list", "listing", is_flag=True, help="Only list what there is to copy.")
@common
def fetch(job: str, folder: Path, listing: bool) -> int:
    """Copy a job's results folder here."""
    if listing:
        return _list_results(job)

    target = folder.expanduser().absolute()

    async def work(session: Session) -> tuple[str, FetchedResults]:
        return session.job(job).id, await session.fetch_results(job, target)

    job_id, fetched = drive(work)
    left = fetched.left_out
    if options().as_json:
        named = [{"name": one.name, "reason": one.reason} for one in left.named]
        print_document(
            {
                "job": job_id,
                "folder": str(fetched.folder),
                "left_out": named,
                "left_out_count": left.count,
            }
        )
        return 0
    print(fetched.folder)
    if left.count:
        note(msg("Left out of them: {n}", n=left.count))
    for line in left.lines(_LEFT_OUT):
        note("  " + line)
    return 0


def _list_results(reference: str) -> int:
    async def work(session: Session) -> tuple[str, tuple[ResultFile, ...]]:
        return session.job(reference).id, await session.results(reference)

    job_id, files = drive(work)
    if options().as_json:
        listed = [{"name": file.name, "size_bytes": file.size_bytes} for file in files]
        print_document({"job": job_id, "files": listed})
        return 0
    for file in files:
        print(f"{format_mib(file.size_bytes / MIB):>10}  {file.name}")
    note(msg("{n} files of {job}", n=len(files), job=job_id))
    return 0


@click.command()
@common
def prune() -> int:
    """Remove what ended jobs left on reachable hosts; results stay."""

    async def work(session: Session) -> dict[str, dict[str, int]]:
        done = await session.prune()
        return {
            host: {
                "containers": found.containers,
                "leases": found.leases,
                "results_kept": found.results_kept,
                "results_removed": found.results_removed,
            }
            for host, found in done.items()
        }

    hosts = drive(work)
    if not hosts:
        raise UnreachableError(
            "No host could be reached",
            "Nothing was removed.",
            "gpuconsole check says what is wrong.",
        )
    if options().as_json:
        print_document({"hosts": hosts})
        return 0
    for host, counts in hosts.items():
        print(clean(f"{host}: " + ", ".join(f"{n} {what}" for what, n in counts.items())))
    return 0


def blocker_text(blocker: Mapping[str, Any]) -> str:
    """Say who stands in the way, whether a device's holder or something else."""
    if "text" in blocker:
        return str(blocker["text"])
    known = {key: str(blocker.get(key, "?")) for key in ("name", "user", "host")}
    return msg("{name} of {user} on {host}", **known)


def _tell_all(asked: str, jobs: Sequence[Job], more: str = "") -> None:
    """Tell of one job as itself, of those of a sweep as a list; `more` follows each line."""
    if len(jobs) == 1 and jobs[0].task.sweep != asked:
        _tell(jobs[0], more)
    elif options().as_json:
        print_document({"jobs": [job.as_json() for job in jobs]})
    else:
        for job in jobs:
            print(_line(job) + more)


def _tell(job: Job, more: str = "") -> None:
    if options().as_json:
        print_document(job.as_json())
    else:
        print(_line(job) + more)


def _line(job: Job) -> str:
    from gpuconsole.cli import views

    return clean(views.job(job))

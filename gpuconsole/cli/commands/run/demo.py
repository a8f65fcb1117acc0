"""`demo`: everything on the simulated lab, with a screen or without."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show, tell
from gpuconsole.cli.sessions import show_console
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import joined, msg, name, sentences
from gpuconsole.errors import ReadOnlyError, UsageError

if TYPE_CHECKING:
    from gpuconsole.core.estimate import Report
    from gpuconsole.session.session import Session
    from gpuconsole.tui.runtime.awaited_session import AwaitedSession

_HEADLESS_SPEED = 30.0
"""Lab seconds a second of a headless run: its job takes a few seconds."""
_TAIL = 12
_JUDGED_HOSTS = 6
_LOOK_S = 0.1
"""Seconds between two looks at the job of a headless run."""
_MOST_COUNTED_S = 2 * _LOOK_S
"""Most of `--seconds` that one look uses up; the rest is time in which the machine was busy."""


@click.command()
@click.option(
    "--hosts", type=click.IntRange(1, 10_000), default=6, show_default=True, help="Hosts."
)
@click.option("--seed", type=int, default=7, show_default=True, help="Another seed, another lab.")
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 100.0),
    metavar="X",
    help=f"Lab seconds a second; 1, and {_HEADLESS_SPEED:g} with --headless.",
)
@click.option("--slurm", is_flag=True, help="Add a Slurm cluster.")
@click.option("--elastic", is_flag=True, help="Add a host that is suspended until a job needs it.")
@click.option("--headless", is_flag=True, help="Run one job to its end without a terminal.")
@click.option(
    "--seconds",
    type=click.FloatRange(1.0, 3600.0),
    default=120.0,
    show_default=True,
    help="With --headless: give up on a job that has not ended after this time.",
)
@common
def demo(
    hosts: int,
    seed: int,
    speed: float | None,
    slurm: bool,
    elastic: bool,
    headless: bool,
    seconds: float,
) -> int:
    """Open the console on a simulated lab.

    No hosts, GPUs or Docker are needed. Queue, placement and screens are the real ones; hosts and
    containers are simulated and marked so. The queue is in a folder that is removed at the end,
    unless --state names one.
    """
    if options().as_json and not headless:
        raise UsageError("Wrong usage", "demo --json needs --headless.", "Add --headless.")
    with _state() as folder:
        if not headless:
            return _open(Laboratory(hosts, seed, speed or 1.0, Path(folder), slurm, elastic))
        if options().read_only:
            raise ReadOnlyError(
                "Read-only", "A headless demo queues a job.", "Leave --read-only out."
            )
        laboratory = Laboratory(hosts, seed, speed or _HEADLESS_SPEED, Path(folder), slurm, elastic)
        report, document = asyncio.run(_run(laboratory, seconds))
    if options().as_json:
        print_document(document)
    else:
        _tell(report, document)
    return 0 if document["result"]["state"] == JobState.SUCCEEDED.value else 1


def _state() -> AbstractContextManager[Any]:
    named = options().state
    if named is not None:
        return nullcontext(named)
    return tempfile.TemporaryDirectory(prefix="gpuconsole-demo-", ignore_cleanup_errors=True)


@dataclass(frozen=True, slots=True)
class Laboratory:
    """The simulated lab of a demo, and the state folder that its sessions share."""

    hosts: int
    seed: int
    speed: float
    state: Path
    slurm: bool = False
    elastic: bool = False
    user: str = ""
    """The user of the sessions; "" for the user of this process."""

    def session(self, *, dispatching: bool) -> Session:
        """Return a session on the lab, not entered yet."""
        from gpuconsole.session.factory import DemoOptions, open_session

        return open_session(
            None,
            self.state,
            read_only=options().read_only,
            demo=DemoOptions(
                self.hosts, self.seed, self.speed, self.slurm, self.elastic, self.user
            ),
            dispatch=dispatching,
        )


def _open(lab: Laboratory) -> int:
    from gpuconsole.cli.opening import Opening
    from gpuconsole.config import load_settings

    with Opening() as opening:
        settings, awaited = load_settings(), _awaited_session(lab)
        if awaited.read_only:
            return show_console(awaited, settings, "demo", opening)
        # The console does not wait for its jobs: they come into the queue while one looks.
        return show_console(awaited, settings, "demo", opening, lambda: _fill(lab))


def _awaited_session(lab: Laboratory) -> AwaitedSession:
    """Return the session on the lab, to be opened once the console has drawn its first frame."""
    from gpuconsole.core.fleet import FleetSnapshot
    from gpuconsole.tui.runtime.awaited_session import AwaitedSession

    read_only = options().read_only

    async def opened() -> Session:
        await asyncio.to_thread(import_module, "gpuconsole.session.factory")
        return lab.session(dispatching=not read_only)

    return AwaitedSession(opened, FleetSnapshot(simulated=True), read_only)


async def _fill(lab: Laboratory) -> None:
    """Queue the demo's jobs; the console's own session starts them, as it would anyone's."""
    from gpuconsole.simulated_lab.jobs import RIVALS, submit_demo_jobs
    from gpuconsole.simulated_lab.slurm import cluster_tasks

    # The first hosts are the same in a lab of any size, and a few are judged in no time.
    few = replace(lab, hosts=min(lab.hosts, _JUDGED_HOSTS))
    async with few.session(dispatching=False) as session:
        if session.jobs():
            return
        await submit_demo_jobs(session.queue)
        for task in cluster_tasks() if lab.slurm else ():
            await session.queue.submit(task, force=True)
    for rival in RIVALS:
        async with replace(few, user=rival).session(dispatching=False) as session:
            await submit_demo_jobs(session.queue, rival)


async def _run(lab: Laboratory, seconds: float) -> tuple[Report, dict[str, Any]]:
    """Run the main job from estimate to result; give up when it takes longer than `seconds`."""
    from gpuconsole.simulated_lab.jobs import main_task

    async with lab.session(dispatching=True) as session:
        await session.first_frames(2.0)
        task = main_task()
        note(msg("preflight of {script}", script=Path(task.script).name))
        report = await session.estimates.report(task)
        job = await session.queue.submit(task, force=True)
        note(msg("queued as {job}", job=job.id))
        job = await followed(session, job, seconds, asyncio.get_running_loop().time)
        gave_up = None if job.state.ended else _awaited(session, job, seconds)
        lines = [line async for line in session.logs(job.id, follow=False)]
        results = await _results(session, job)
        return report, {**_document(report, job, lines, results), "gave_up": gave_up}


async def followed(session: Session, job: Job, seconds: float, clock: Callable[[], float]) -> Job:
    """Return the job once it has ended, or as it is when `seconds` are used up.

    Time in which a busy machine did not let this process run is not counted.
    """
    left, seen = seconds, job.state
    while not job.state.ended and left > 0:
        began = clock()
        await asyncio.sleep(_LOOK_S)
        job = session.job(job.id)
        if job.state is not seen:
            seen = job.state
            note(sentences(job.state.value, job.detail or job.cause))
        left -= min(clock() - began, _MOST_COUNTED_S)
    return job


def _awaited(session: Session, job: Job, seconds: float) -> str:
    """Return what a headless run waited for in vain."""
    gave_up = msg(
        "Gave up after {time}: {job} has not ended, it is {state_word}.",
        time=f"{seconds:g} s", job=job.id, state_word=job.state.value,
    )  # fmt: skip
    return sentences(gave_up, session.why_now(job.id).reason)


async def _results(session: Session, job: Job) -> dict[str, object] | None:
    if not job.state.ended:
        return None
    with tempfile.TemporaryDirectory(prefix="gpuconsole-demo-") as folder:
        fetched = await session.fetch_results(job.id, Path(folder))
        summary = fetched.folder / "summary.json"
        results: dict[str, object] = json.loads(summary.read_text(encoding="utf-8"))
        return results


def _document(
    report: Report, job: Job, lines: list[str], results: dict[str, object] | None
) -> dict[str, object]:
    attempt, estimate = job.attempt, report.as_json()
    return {
        "simulated": True,
        "script": job.task.script,
        "estimate": {key: estimate[key] for key in estimate if key != "verdicts"},
        "verdicts": estimate["verdicts"],
        "placement": None
        if attempt is None
        else {
            "host": attempt.host,
            "devices": list(attempt.device_uuids),
            "indexes": list(attempt.device_indexes),
            "reasons": list(attempt.placement_reasons),
        },
        "log_tail": lines[-_TAIL:],
        "result": {**job.as_json(), "summary": results},
    }


def _tell(report: Report, document: dict[str, Any]) -> None:
    """Print the same for a person."""
    from gpuconsole.cli.views import preflight

    tell("SIMULATED: hosts, devices and containers are made up; the rest is the product itself.")
    show(*preflight.report(report))
    placement = document["placement"]
    if placement is not None:
        tell(
            msg(
                "placed on {host}, device {indexes}",
                host=placement["host"], indexes=placement["indexes"],
            )
        )  # fmt: skip
        for reason in placement["reasons"]:
            tell(joined("", ("  · ", reason)))
    for line in document["log_tail"]:
        print(clean(f"  | {line}"))
    result = document["result"]
    tell(sentences(name(result["id"]), result["state"], result["cause"] or ""))
    if document["gave_up"]:
        note(document["gave_up"])

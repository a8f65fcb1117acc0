"""`Session`: everything gpuconsole can do, without a face.

CLI, console, web page and tests drive this object. It joins the fleet (`Hosts`), the journal and
the dispatcher; read-only mode is refused here, not in a screen.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuconsole.core.containers import Hosts, PruneResult
from gpuconsole.core.estimate import Report
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job, Task


@dataclass(frozen=True, slots=True)
class Event:
    """A rare fact, told once. `kind`: job, host, dispatcher, error."""

    kind: str
    subject: str
    message: str
    at: float
    severity: Literal["information", "warning", "error"] = "information"


class Session:
    """Drive the fleet, the queue and preflight. Use as `async with Session(...) as session`."""

    read_only: bool
    simulated: bool
    user: str
    hosts: Hosts

    async def __aenter__(self) -> Session:
        """Start polling and, unless read-only, try to become the dispatcher."""
        raise NotImplementedError

    async def __aexit__(self, *exc: object) -> None:
        """Stop polling and hand back the dispatcher's role; jobs run on."""
        raise NotImplementedError

    def now(self) -> float:
        """Return the session's clock, seconds since the epoch."""
        raise NotImplementedError

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture of the fleet."""
        raise NotImplementedError

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs of the journal, oldest first. The same tuple while nothing changed."""
        raise NotImplementedError

    def job(self, reference: str) -> Job:
        """Return a job by id, unique id prefix, or unique name; UsageError when there is none."""
        raise NotImplementedError

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` on the event loop for each event; the result unsubscribes."""
        raise NotImplementedError

    async def preflight(self, task: Task, *, tier: str = "") -> Report:
        """Estimate a task and hold it against the fleet; never blocks the event loop."""
        raise NotImplementedError

    async def placements(self, task: Task, report: Report) -> object:
        """Return the placement engine's decision for a task as if it were queued now."""
        raise NotImplementedError

    async def submit(self, task: Task, *, force: bool = False) -> Job:
        """Pack the project, preflight it and queue it.

        RefusedError when the estimate says it will not fit or will fail and `force` is not set.
        """
        raise NotImplementedError

    async def cancel(self, reference: str) -> Job:
        """End a job: leave the queue, or SIGTERM, grace, SIGKILL."""
        raise NotImplementedError

    async def retry(self, reference: str) -> Job:
        """Queue an ended job again as a new attempt."""
        raise NotImplementedError

    async def hold(self, reference: str) -> Job:
        """Keep a queued job from starting; a held one is released."""
        raise NotImplementedError

    async def set_priority(self, reference: str, priority: int) -> Job:
        """Change the priority of a queued or held job."""
        raise NotImplementedError

    def why(self, reference: str) -> object:
        """Say why a job stands where it does: reason, blockers, estimated start, options."""
        raise NotImplementedError

    def log_path(self, reference: str, attempt: int | None = None) -> Path:
        """Return the file into which an attempt's log is followed (it may not exist yet)."""
        raise NotImplementedError

    def logs(self, reference: str, *, follow: bool) -> AsyncIterator[str]:
        """Give cleaned log lines of the latest attempt; with `follow`, until the job ends."""
        raise NotImplementedError

    async def wait(self, reference: str) -> Job:
        """Return the job once it has ended, dispatching meanwhile if nobody else does."""
        raise NotImplementedError

    async def fetch(self, reference: str, destination: Path) -> Path:
        """Copy a job's results folder here; returns the folder made."""
        raise NotImplementedError

    def render(self, reference: str, target: str = "docker") -> str:
        """Return the equal command for another engine."""
        raise NotImplementedError

    async def prune(self) -> dict[str, PruneResult]:
        """Clear on every reachable host what finished jobs left; results stay."""
        raise NotImplementedError

"""The hosts of an attempt, driven as one. A job on one host is a gang of one.

Each part is an attempt as if its host were alone, with the engine there and what that engine says
of its container.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence

from gpuconsole.core.containers import ContainerStatus, Engine
from gpuconsole.core.jobs import Attempt, Job
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import ConsoleError, EngineError, UnreachableError
from gpuconsole.session.async_helpers import together
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.container_spec import attempt_key
from gpuconsole.session.dispatch.attempt.recovery import Step, is_own, joint_step, next_step

LIVE = ("running", "paused", "restarting", "pending")
"""States in which an engine has something to stop."""


@dataclass(frozen=True, slots=True)
class Part:
    """One host of an attempt."""

    rank: int
    attempt: Attempt
    engine: Engine
    status: ContainerStatus | None = None

    @property
    def live(self) -> bool:
        """Whether its container ran when it was looked at."""
        return self.status is not None and self.status.state in LIVE


class HostLostError(UnreachableError):
    """A host of an attempt is out of sight. `seen` are the parts on the others."""

    def __init__(self, host: str, error: UnreachableError, seen: Sequence[Part] = ()) -> None:
        super().__init__(error.title, error.message, error.hint)
        self.host = host
        self.seen = tuple(seen)


@contextlib.contextmanager
def on_host(host: str) -> Iterator[None]:
    """Name the host in what cannot be reached, and in what goes wrong there."""
    try:
        yield
    except HostLostError:
        raise
    except UnreachableError as error:
        raise HostLostError(host, error) from error
    except ConsoleError as error:
        error.host = error.host or host
        raise


async def look(context: Context, attempt: Attempt, but: Sequence[str] = ()) -> tuple[Part, ...]:
    """Look at every container of an attempt, `but` those on some hosts; HostLostError when a host
    is out of sight."""
    seen: list[Part] = []
    lost: HostLostError | None = None
    for rank, alone in enumerate(attempt.parts):
        if alone.host in but:
            continue
        try:
            with on_host(alone.host):
                engine = await context.hosts.engine(alone.host)
                status = await engine.inspect(alone.container_name)
            seen.append(Part(rank, alone, engine, status))
        except HostLostError as error:
            lost = lost or error
    if lost is not None:
        lost.seen = tuple(seen)
        raise lost
    return tuple(seen)


def step_of(parts: Sequence[Part], job: Job, journal: str) -> Step:
    """Return the next step for a job from the state of its parts."""
    assert job.attempt is not None
    steps = [
        next_step(alone, part.status, journal=journal, cancel=unwanted(job))
        for part, alone in zip(parts, job.attempt.parts, strict=True)
    ]
    return joint_step(steps, [part.status for part in parts])


def unwanted(job: Job) -> bool:
    """Whether what runs of a job is to be stopped: for good, or to go on later."""
    return job.cancel_requested or (job.attempt is not None and job.attempt.ended_by != "")


async def each(parts: Sequence[Part], call: Callable[[Part], Awaitable[None]]) -> None:
    """Do something on all hosts at once; the first error ends the others."""

    async def one(part: Part) -> None:
        with on_host(part.attempt.host):
            await call(part)

    await together(*(one(part) for part in parts))


async def stop(parts: Sequence[Part], journal: str, grace_s: float) -> None:
    """Stop the attempt's containers that live; those of others are left alone."""

    async def one(part: Part) -> None:
        assert part.status is not None
        await part.engine.stop(part.status.id, grace_s)

    own = [
        part
        for part in parts
        if part.live and part.status and is_own(part.attempt, part.status, journal)
    ]
    await each(own, one)


async def release(parts: Sequence[Part], job_id: str) -> None:
    """Give back the devices on all hosts."""

    async def one(part: Part) -> None:
        key = attempt_key(job_id, part.attempt.number)
        await part.engine.release(key, part.attempt.device_uuids)

    await each(parts, one)


async def remove_own(parts: Sequence[Part], journal: str) -> None:
    """Remove the attempt's containers, as they are now; those of others are left alone."""

    async def one(part: Part) -> None:
        status = await part.engine.inspect(part.attempt.container_name)
        step = next_step(part.attempt, status, journal=journal, cancel=False)
        if status is not None and step is not Step.FOREIGN:
            await part.engine.remove(status.id)

    await each(parts, one)


async def try_release(parts: Sequence[Part], job_id: str) -> None:
    """Give back what can be given back; a lease that stays goes stale by itself."""
    for part in parts:
        with contextlib.suppress(UnreachableError, EngineError):
            await release([part], job_id)

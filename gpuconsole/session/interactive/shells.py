"""Shells on leased devices: opened as jobs, attached to by users with the right, from anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.engines.terminals import (
    JUPYTER,
    JUPYTER_PORT,
    JUPYTER_TOKEN,
    SESSION,
    SOCKET,
    WORKSPACE,
)
from gpuconsole.core.fleet import HOST_LABEL
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.tasks import absolute
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import NotHereError, RefusedError, UsageError
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.slurm_jobs import cluster_of, resolved
from gpuconsole.session.interactive.attached import AttachedTerminal
from gpuconsole.session.interactive.notebooks import Tokens, answers
from gpuconsole.session.ports.forwards import Forwards, running_attempt
from gpuconsole.session.queue.service import JobQueue
from gpuconsole.session.submit.submit import free_name
from gpuconsole.state.files.images import ImageNotes

LEAST_IDLE_S = 60.0
BEGIN_S = 60.0
"""How long a terminal may take to listen after its container has started: on a busy host its
Python alone takes tens of seconds."""
TRY_EVERY_S = 0.2
JUPYTER_S = 120.0
"""How long JupyterLab may take to begin: on a slow disk its imports take tens of seconds."""


class Shells:
    """The sessions of a queue, as its user opens and uses them."""

    def __init__(self, context: Context, queue: Callable[[], JobQueue]) -> None:
        self._context = context
        self._queue = queue
        self.tokens = Tokens(context.scripts)

    async def open(self, task: Task, memory_mib: float | None = None) -> Job:
        """Queue a session; it takes `memory_mib` of each device, or all of it where None.

        UsageError for what cannot be; ReadOnlyError.
        """
        self._context.require_writable("Opening a session")
        now = self._context.clock.now()
        _require_form(task, memory_mib, now)
        _require_engine(resolved(task, self._context.hosts.snapshot()))
        jobs = self._context.journal.jobs()
        prepared = replace(
            task,
            name=free_name(task.name or ("shell" if task.kind == SESSION else task.kind), jobs),
            script="",
            project=absolute(Path(task.project)) if task.project else "",
            # A shell that was lost is not begun again behind its user's back.
            retries=0,
            folder="",
        )
        if task.workspace:
            prepared = replace(
                prepared, labels={**self._where_kept(prepared, jobs), **prepared.labels}
            )
        return await self._queue().open_session(prepared, memory_mib)

    async def open_jupyter(self, task: Task, memory_mib: float | None = None) -> Job:
        """Queue a session that runs JupyterLab, with a token of its own; as `open`."""
        for job in self._context.journal.jobs():
            if job.task.kind == JUPYTER and job.state.ended:
                self.tokens.forget(job.id)
        token = self.tokens.new()
        queued = await self.open(
            replace(task, secrets={**task.secrets, JUPYTER_TOKEN: token}), memory_mib
        )
        self.tokens.keep(queued.id, token)
        return queued

    async def jupyter_address(self, job: Job, forwards: Forwards, local_port: int) -> str:
        """Return the address of a session's JupyterLab on this machine once that answers, through a
        forward that is open or a new one; with its token where the session was opened from here.

        RefusedError where the job is none, does not run, or does not answer within `JUPYTER_S`.
        """
        await self._until_jupyter_answers(job)
        info = forwards.known(job.id, JUPYTER_PORT, local_port)
        if info is None:
            self._context.require_writable("Forwarding a port")
            info = (await forwards.open(job, JUPYTER_PORT, local_port)).info
        token = self.tokens.of(job)
        return f"{info.url}lab?token={token}" if token else f"{info.url}lab"

    async def _until_jupyter_answers(self, job: Job) -> None:
        if job.task.kind != JUPYTER:
            raise RefusedError(
                "Not a JupyterLab",
                msg("Job {id} is another kind of job.", id=job.id),
                "`gpuconsole jupyter` opens one.",
            )
        deadline = self._context.clock.now() + JUPYTER_S
        while True:
            attempt = running_attempt(self._queue().job(job.id))
            engine = await self._context.hosts.engine(attempt.host)
            try:
                if await answers(await engine.connect(attempt.container_id, str(JUPYTER_PORT))):
                    return
            except NotHereError:
                raise
            except RefusedError:
                # It does not listen yet.
                pass
            if self._context.clock.now() >= deadline:
                raise RefusedError(
                    "JupyterLab does not answer",
                    msg("Job {id} has run for a while, and nothing listens there.", id=job.id),
                    msg("Its log may say why: gpuconsole logs {id}", id=job.id),
                )
            await self._context.clock.sleep(TRY_EVERY_S)

    async def attach(
        self, reference: str, columns: int, rows: int, *, watch: bool = False
    ) -> AttachedTerminal:
        """Attach to a session's terminal, and type into it unless `watch` is set: an earlier viewer
        that typed watches from then on. Detaching does not end the shell.

        RefusedError where the job is no session, or does not run; UnreachableError where its host
        is out of sight.
        """
        self._context.require_writable("Attaching to a session")
        job = self._queue().job(reference)
        require_session(job)
        deadline = self._context.clock.now() + BEGIN_S
        while True:
            attempt = running_attempt(self._queue().job(job.id))
            engine = await self._context.hosts.engine(attempt.host)
            try:
                stream = await engine.connect(attempt.container_id, SOCKET)
                break
            except RefusedError:
                if self._context.clock.now() >= deadline:
                    raise
            await self._context.clock.sleep(TRY_EVERY_S)
        terminal = AttachedTerminal(stream)
        await terminal.begin(columns, rows, self._context.user, watch=watch)
        return terminal

    def images_for(self, job: Job) -> tuple[str, ...]:
        """Return images that have what a session needs on the host of one that ended at once: those
        that sessions of its kind have run in there, and, of a shell, those in which a check found
        Python. None where it did not fail."""
        attempt = job.attempt
        if attempt is None or job.state is not JobState.FAILED:
            return ()
        host, now = attempt.host, self._context.clock.now()
        ran = [
            past_job.task.image
            for past_job in self._context.journal.jobs()
            if past_job.task.kind == job.task.kind and _has_run(past_job, host, now)
        ]
        checks = ImageNotes(self._context.journal.folder).checks().values()
        able = job.task.kind == SESSION
        checked_images = [
            check.image for check in checks if able and check.host == host and check.python
        ]
        return tuple(name for name in dict.fromkeys((*ran, *checked_images)) if name)

    def _where_kept(self, task: Task, jobs: tuple[Job, ...]) -> dict[str, str]:
        """Return the label of the host that has the workspace; none where it is new."""
        for job in reversed(jobs):
            used = job.user == self._context.user and job.task.workspace == task.workspace
            for attempt in reversed(job.attempts if used else ()):
                if attempt.creating_at is not None:
                    return {HOST_LABEL: attempt.host}
        return {}


def require_session(job: Job) -> None:
    """Raise RefusedError for a job that keeps no terminal."""
    if job.task.kind != SESSION:
        raise RefusedError(
            "Not a session",
            msg("Job {id} runs a script, and has no shell to attach to.", id=job.id),
            "`gpuconsole shell` opens one.",
        )


def _has_run(job: Job, host: str, now: float) -> bool:
    """Return True if a session ended well on a host, or runs or ran there for longer than one does
    in an image that lacks something."""
    attempt = job.attempt
    if attempt is None or attempt.host != host or job.state is JobState.FAILED:
        return False
    if job.state is JobState.SUCCEEDED:
        return True
    begun_at = attempt.started_at
    return begun_at is not None and (attempt.ended_at or now) - begun_at >= JUPYTER_S


def _require_form(task: Task, memory_mib: float | None, now: float) -> None:
    """Raise UsageError for a session that cannot be."""
    if task.project and not Path(task.project).expanduser().is_dir():
        raise UsageError(
            "No such folder", msg("{path} is not a folder.", path=task.project), "Check the path."
        )
    if task.workspace and not WORKSPACE.fullmatch(task.workspace):
        raise UsageError(
            "Wrong name of a workspace",
            msg("{name} is none.", name=clean(repr(task.workspace), 80)),
            "Use letters, figures, `_`, `.` and `-`, 64 at most.",
        )
    if task.workspace and task.project:
        raise UsageError(
            "A project or a workspace",
            "A workspace is kept on its host, a project is copied there for one session.",
            "Name one of them; copy what you need into the workspace from within.",
        )
    if task.devices is None or task.devices < 1:
        raise UsageError("No devices", "A session has one device or more.", "Use --devices N.")
    if memory_mib is not None and memory_mib <= 0:
        raise UsageError("No memory", "A session needs some of its device.", "")
    if task.idle_stop_s is not None and task.idle_stop_s < LEAST_IDLE_S:
        raise UsageError(
            "Too short an idle time",
            msg("A session may be idle for {n} s at least.", n=f"{LEAST_IDLE_S:.0f}"),
            "Such as --idle-stop 1h.",
        )
    if task.until is not None and task.until <= now:
        raise UsageError("That time is past", "A session ends at a time to come.", "")


def _require_engine(task: Task) -> None:
    """Raise UsageError for a session that could go to a cluster alone."""
    if cluster_of(task):
        raise UsageError(
            "Not on a Slurm cluster",
            "The console has no way into what Slurm runs on a node.",
            "Use Slurm's own commands there, such as `srun --pty bash`.",
        )

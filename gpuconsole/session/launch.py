"""From a journalled attempt to a started container, in steps that may each be done again."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.containers import Engine, Lease
from gpuconsole.core.dockerline import docker_line
from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.errors import EngineError, JournalError, UsageError
from gpuconsole.remote import reporter
from gpuconsole.session.bench import Bench
from gpuconsole.session.render import line_file
from gpuconsole.session.spec import WORKING_DIR, attempt_key, container_spec

PROGRESS_EVERY_S = 1.0


class Launch:
    """The launch of a job's latest attempt on its host's engine."""

    def __init__(self, bench: Bench, epoch: int, job_id: str, engine: Engine) -> None:
        self._bench = bench
        self._epoch = epoch
        self._job_id = job_id
        self._engine = engine
        self._told_at = 0.0

    @property
    def _job(self) -> Job:
        job = self._bench.journal.job(self._job_id)
        if job is None or job.attempt is None:
            raise JournalError("No such job", f"Job {self._job_id} has left the journal.")
        return job

    @property
    def image(self) -> str:
        """The task's image, or the host's."""
        job = self._job
        assert job.attempt is not None
        image = job.task.image or self._bench.default_image(job.attempt.host)
        if not image:
            raise UsageError(
                "No image",
                f"Neither the task nor {job.attempt.host} names a container image.",
                "Set `image:` in the task file or the inventory.",
            )
        return image

    async def fetch_image(self) -> None:
        """Make the image present. It comes before the claim: a pull may take an hour, and a lease
        without a container is anyone's to remove after its grace time."""
        self._say("looking for the image")
        await self._engine.ensure_image(self.image, self._progress)

    async def start(self) -> None:
        """Claim the devices, make the container, put the code in, start it."""
        await self._claim()
        container = await self._create()
        bundle = self._bench.bundle(self._job_id)
        if self._job.task.script:
            if not bundle.exists():
                raise UsageError(
                    "Packed project is gone", f"{bundle} does not exist.", "Submit the job again."
                )
            await self._engine.put(container, bundle, WORKING_DIR)
            await self._put_reporter(container)
        job = self._job
        if job.cancel_requested:
            return
        assert job.attempt is not None
        # Written before the start, as only this tells "never started" from "ran and was removed".
        # It also proves, at the last moment, that this console still is the dispatcher.
        starting = replace(job.attempt, container_id=container, starting_at=self._bench.clock.now())
        self._bench.journal.save(
            job, replace(job, attempts=(*job.attempts[:-1], starting)), epoch=self._epoch
        )
        await self._engine.start(container)

    async def _put_reporter(self, container: str) -> None:
        """Lay the reporter beside the code; a job runs without it where that cannot be done."""
        with (
            contextlib.suppress(OSError, EngineError),
            tempfile.TemporaryDirectory(prefix="gpuconsole-") as folder,
        ):
            packed = Path(folder) / "reporter.tar"
            reporter.pack_reporter(packed)
            await self._engine.put(container, packed, reporter.FOLDER)

    async def _claim(self) -> None:
        job = self._job
        attempt = job.attempt
        assert attempt is not None
        self._say("claiming the devices")
        await self._engine.claim(
            [
                Lease(
                    uuid=uuid,
                    job=job.id,
                    attempt=attempt_key(job.id, attempt.number),
                    user=job.user,
                    journal=self._bench.journal.id,
                    since=self._bench.clock.now(),
                )
                for uuid in sorted(attempt.device_uuids)
            ]
        )

    async def _create(self) -> str:
        account = await self._engine.prepare(self._job_id)
        job = self._job
        assert job.attempt is not None
        spec = container_spec(
            job,
            job.attempt,
            command=self._bench.command(job.task, len(job.attempt.device_uuids)),
            image=self.image,
            account=account,
            journal=self._bench.journal.id,
            settings=self._bench.settings,
            host=self._bench.hosts.snapshot().host(job.attempt.host),
        )
        kept = line_file(self._bench.state, job.id, job.attempt.number)
        # A full disk must not keep a job from starting for the sake of a line to read.
        with contextlib.suppress(OSError):
            kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            kept.write_text(docker_line(spec) + "\n", encoding="utf-8")
        # Written before: only this tells "nothing is there" while the engine cannot be asked.
        creating = replace(job.attempt, creating_at=self._bench.clock.now())
        attempts = (*job.attempts[:-1], creating)
        self._bench.journal.save(
            job, replace(job, attempts=attempts, detail="starting"), epoch=self._epoch
        )
        return await self._engine.create(spec)

    def _progress(self, sentence: str) -> None:
        # Each is a write that reaches the disk, and a pull has many a second to tell.
        now = self._bench.clock.now()
        if now - self._told_at >= PROGRESS_EVERY_S:
            self._told_at = now
            self._say(sentence)

    def _say(self, detail: str) -> None:
        job = self._job
        shown = clean(detail, 200)
        if job.detail != shown:
            self._bench.journal.save(job, replace(job, detail=shown), epoch=self._epoch)

"""`SlurmEngine`: a cluster as an engine with a queue of its own, through its login node.

What Docker calls a container is a run here: a folder on the cluster's shared filesystem and a job
of Slurm. Slurm decides where and when; there are no leases and no images to pull.
"""

from __future__ import annotations

import asyncio
import io
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.containers import (
    LABEL_PREFIX,
    ByteStream,
    ContainerSpec,
    ContainerStatus,
    EngineInfo,
    HostAccount,
    HostNetwork,
    ImageFacts,
    LeadMark,
    Lease,
    LogTail,
    PruneResult,
    ResultFile,
)
from gpuconsole.core.engines.batch_job import Batch, Script, Shell, array_script
from gpuconsole.core.engines.transfers import LeftOut, TransferLimits
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, NotHereError, RefusedError, UnreachableError, UsageError
from gpuconsole.remote import injected
from gpuconsole.remote.inventory import SlurmSection
from gpuconsole.remote.links.protocol import Link
from gpuconsole.remote.slurm import run_folder, scripts
from gpuconsole.remote.slurm.calls import NO_FOLDER, SlurmCalls, controller_away
from gpuconsole.remote.slurm.cluster import Cluster
from gpuconsole.remote.slurm.job_arrays import Gatherer
from gpuconsole.remote.slurm.parse import ENDS
from gpuconsole.remote.slurm.run_folder import Look
from gpuconsole.remote.transfer.job_folders import JobFolders
from gpuconsole.remote.transfer.small_files import ARCHIVE_BYTES, small_files

LIVE = ("pending", "running", "paused")
STOP_LOOK_S = 1.0
BELIEVED_S = 30.0
"""How long Slurm must deny a job that left no exit code before it is believed."""
KILL_MARGIN_S = 10.0
"""How much longer than the grace time a run is given to be gone."""
FOLLOWED, TRANSFERS = 3, 2
"""Logs followed live at once, and other streams; see `calls.COMMANDS`."""
REST_EVERY_S = 3.0
"""How often further logs are read on."""
GZIP = b"\x1f\x8b"
_PATH = re.compile(r"/[A-Za-z0-9._/+@-]{1,400}")
"""What the folder of all runs may be called: an `#SBATCH` line must hold it."""
_IDENTITY = tuple(LABEL_PREFIX + word for word in ("job", "attempt", "nonce", "journal"))


class SlurmEngine:
    """Runs jobs on one cluster. Implements `core.containers.Engine`."""

    def __init__(self, link: Link, host: str, settings: SlurmSection, cluster: Cluster) -> None:
        self.host = host
        self._link = link
        self._settings = settings
        self._cluster = cluster
        self._calls = SlurmCalls(link, host, settings)
        self._base = ""
        self._labels: dict[str, Mapping[str, str]] = {}
        self._made: dict[str, Script] = {}
        self._forgotten: dict[str, float] = {}
        self._followed = asyncio.Semaphore(FOLLOWED)
        self._transfers = asyncio.Semaphore(TRANSFERS)
        self._gatherer = Gatherer(self._submit_all)

    async def close(self) -> None:
        """Nothing is held open; runs go on."""

    async def info(self) -> EngineInfo:
        """Ask Slurm for its version."""
        said = await self._calls.ask("scontrol --version", doing="asking for its version")
        return EngineInfo(clean(said.strip(), 60), runtimes=("slurm",), gpu_runtime=True)

    async def ping(self) -> None:
        """Does nothing: the polling of the cluster reports a controller that is away."""

    async def claim(self, leases: Sequence[Lease]) -> None:
        """Nothing to claim: Slurm assigns devices to one job each."""

    async def leases(self) -> tuple[Lease, ...]:
        """There are none."""
        return ()

    async def release(self, attempt: str, uuids: Sequence[str]) -> None:
        """Nothing to give back."""

    async def sign(self, journal: str) -> str:
        """Nothing to show: no run is another console's to remove."""
        return ""

    async def lead_marks(self, journal: str) -> tuple[LeadMark, ...]:
        """Refuse: a cluster has no place for marks."""
        raise EngineError(
            "No witness", msg("{host}: Slurm bears no witness of who leads.", host=self.host)
        )

    async def mark_lead(self, journal: str, mark: LeadMark) -> tuple[LeadMark, ...]:
        """Refuse: a cluster has no place for marks."""
        return await self.lead_marks(journal)

    async def image_facts(self, image: str) -> ImageFacts | None:
        """Nothing is known of images: what runs them is the cluster's matter."""
        return None

    async def ensure_image(self, image: str, progress: Callable[[str], None]) -> None:
        """Images are the matter of the configured container command."""

    async def network(self) -> HostNetwork:
        """Refuse: nodes find each other through Slurm."""
        raise EngineError(
            "Not known", msg("{host}: nodes meet where Slurm has put them.", host=self.host)
        )

    async def prepare(
        self, job_id: str, *, checkpoint: bool = False, owner: str = ""
    ) -> HostAccount:
        """Make the job's folders on the shared filesystem, and tell who owns them.

        RefusedError for an `owner`: Slurm runs a job as the account that hands it over.
        """
        if owner:
            raise RefusedError(
                "Slurm runs jobs as this account",
                msg("{host} cannot run a job as user {owner}.", host=self.host, owner=owner),
                "Run it on other hosts, or without `run_as: user`.",
            )
        folders = await self._job_folders()
        account = await folders.prepare(job_id, checkpoint=checkpoint)
        # By the name that the nodes know, which need not be where it lies for the login node.
        return replace(account, results_dir=f"{await self._folder()}/results/{job_id}")

    async def create(self, spec: ContainerSpec) -> str:
        """Make the run's folder; one of the same name is taken only if it is this attempt's."""
        _require_name(spec.name)
        batch = spec.batch or Batch()
        script = Script(
            name=spec.name,
            command=spec.command,
            batch=replace(batch, partition=batch.partition or self._settings.partition),
            env=spec.env,
            secrets=spec.secrets,
            shell=Shell(
                self._settings.python,
                tuple(self._settings.container),
                self._settings.preamble or "",
            ),
            image=spec.image,
            start=spec.working_dir.removeprefix("/workspace").lstrip("/"),
            folder=await self._run_folder(spec.name),
        )
        packed = run_folder.pack(script, spec.labels)
        doing = f"making {spec.name}"
        await self._calls.ask(scripts.CREATE, script.folder, doing=doing, stdin=packed)
        look = await self._look(spec.name)
        if look is None or any(look.labels.get(key) != spec.labels.get(key) for key in _IDENTITY):
            raise EngineError(
                "The run's name is taken",
                msg(
                    "{folder} on {host} belongs to something else; it was left alone.",
                    folder=script.folder,
                    host=self.host,
                ),
                "Look at it, and remove it if it is yours.",
            )
        self._made[spec.name] = script
        return spec.name

    async def put(self, container: str, bundle: Path, target: str) -> None:
        """Unpack a tar of code into the run's folder."""
        content = await asyncio.to_thread(bundle.read_bytes)
        kind = "z" if content.startswith(GZIP) else ""
        folder = await self._inside(container, target)
        doing = f"copying code into {container}"
        await self._calls.ask(scripts.UNPACK, folder, kind, doing=doing, stdin=content)

    async def start(self, container: str) -> None:
        """Hand the run to Slurm; one that was handed over is left alone."""
        folder = await self._run_folder(container)
        script = self._made.pop(container, None)
        if script is not None and script.batch.array:
            number = await self._gatherer.add(script)
        else:
            number = await self._submit(folder, container)
        self._cluster.know(container, number)

    async def logs(self, container: str, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """Give the run's output from its beginning."""
        folder = await self._run_folder(container)
        given, ended = 0, False
        while True:
            live = follow and not ended and not self._followed.locked()
            argv = self._calls.argv(
                scripts.FOLLOW if live else scripts.REST, folder, str(given + 1)
            )
            async with self._followed if live else self._transfers:
                async for chunk in self._link.stream(argv):
                    given += len(chunk)
                    yield chunk
            if not follow:
                return
            if not live and not ended:
                await asyncio.sleep(REST_EVERY_S)
            # What was written between the last look at the log and the run's end is read once more.
            if ended:
                return
            seen = await self.inspect(container)
            ended = seen is None or seen.state not in LIVE

    async def log_tail(self, container: str, size: int) -> LogTail:
        """Return the end of the run's output, `size` bytes at most."""
        folder = await self._run_folder(container)
        argv = self._calls.argv(scripts.TAIL, folder, str(size + 1))
        data = b""
        async with self._transfers:
            async for chunk in self._link.stream(argv):
                data = (data + chunk)[-size - 1 :]
        return LogTail(data[-size:], whole=len(data) <= size)

    async def connect(self, container: str, target: str) -> ByteStream:
        """Refuse: the console has no way into what Slurm runs on a node."""
        raise NotHereError(
            "Not on a Slurm cluster",
            msg("{host} runs it on a node, to which the console has no way.", host=self.host),
            "Use Slurm's own commands there, such as `srun --jobid`.",
        )

    async def inspect(self, container: str) -> ContainerStatus | None:
        """Look at a run; None when there is none. UnreachableError while Slurm is away, unless the
        run is known to have ended well."""
        _require_name(container)
        row, labels = self._cluster.row(container), self._labels.get(container)
        if row is not None and labels is not None:
            seen = run_folder.status_of_row(container, self.host, row, labels)
            if seen is not None:
                return seen
        look = await self._look(container)
        if look is None:
            return None
        if look.away and look.exit_code != 0:
            raise controller_away(self.host, look.said)
        self._require_believable(container, look)
        return run_folder.status_of(container, self.host, look)

    async def own(self, journal: str) -> tuple[ContainerStatus, ...]:
        """List the runs that carry this journal's label."""
        line = f"{LABEL_PREFIX}journal={journal}"
        said = await self._calls.ask(
            scripts.OWN, await self._folder(), line, doing="listing its runs"
        )
        names = [name for line in said.splitlines() if (name := line.rpartition("/")[0])]
        seen = [await self.inspect(name) for name in names if run_folder.NAME.fullmatch(name)]
        return tuple(status for status in seen if status is not None)

    async def stop(self, container: str, grace_s: float) -> None:
        """Cancel the run: Slurm sends SIGTERM, after its own KillWait or the grace time SIGKILL."""
        look = await self._look(container)
        if look is None or not look.number:
            return
        await self._cancel(scripts.CANCEL, look)
        if await self._gone(container, grace_s):
            return
        await self._cancel(scripts.KILL, look)
        await self._gone(container, KILL_MARGIN_S)

    async def remove(self, container: str) -> None:
        """Remove the run's folder, and what Slurm still has of it; its results stay."""
        folder = await self._run_folder(container)
        doing = f"removing {container}"
        await self._calls.ask(scripts.REMOVE, folder, container, doing=doing)
        self._cluster.forget(container)
        self._labels.pop(container, None)
        self._forgotten.pop(container, None)

    async def read_files(self, container: str, folder: str) -> Mapping[str, bytes]:
        """Return the small files of a folder inside a run, by name."""
        path = await self._inside(container, folder)
        done = await self._calls.run(scripts.FILES, path, str(ARCHIVE_BYTES))
        return small_files(io.BytesIO(done.stdout)) if done.exit_status == 0 else {}

    async def results(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the job's results folder as a tar stream."""
        folders = await self._job_folders()
        async with self._transfers:
            async for chunk in folders.results(job_id):
                yield chunk

    async def records(self, job_id: str) -> AsyncIterator[bytes]:
        """Give VisualDL's record files among the job's results as a tar stream."""
        folders = await self._job_folders()
        async with self._transfers:
            async for chunk in folders.records(job_id):
                yield chunk

    async def checkpoint(self, job_id: str) -> AsyncIterator[bytes]:
        """Give the job's checkpoint as a tar stream; nothing where it has none."""
        folders = await self._job_folders()
        async with self._transfers:
            # A run that is under way knows its folder by name: only a new attempt moves it.
            async for chunk in folders.checkpoint(job_id, adopt=False):
                yield chunk

    async def restore(
        self,
        job_id: str,
        container: str,
        archive: AsyncIterator[bytes],
        target: str,
        limits: TransferLimits,
    ) -> LeftOut:
        """Refuse: all nodes share one folder, and a job never goes from or to another engine."""
        raise EngineError(
            "Nothing to bring", msg("{host}: its nodes share the checkpoint.", host=self.host)
        )

    async def list_results(self, job_id: str) -> tuple[ResultFile, ...]:
        """List the files of results and checkpoint, the largest first."""
        folders = await self._job_folders()
        return await folders.listed(job_id)

    async def prune(self, keep_jobs: frozenset[str], journal: str) -> PruneResult:
        """Remove this journal's ended runs of jobs not in `keep_jobs`, and their results folders
        where those are empty."""
        jobs = []
        for status in await self.own(journal):
            job = status.labels.get(LABEL_PREFIX + "job", "")
            if job not in keep_jobs and status.state not in LIVE:
                await self.remove(status.id)
                jobs.append(job)
        await self._calls.ask(scripts.TIDY, await self._folder(), doing="tidying arrays")
        folders = await self._job_folders()
        removed, left = await folders.tidy(sorted(set(jobs)), keep_jobs)
        return PruneResult(len(jobs), 0, results_kept=left, results_removed=removed)

    def _require_believable(self, container: str, look: Look) -> None:
        """Raise UnreachableError, for a while, for a run with an unknown end: its exit code
        may still be on its way through the filesystem, or the run may go on."""
        if not look.forgotten:
            self._forgotten.pop(container, None)
            return
        now = asyncio.get_running_loop().time()
        if now - self._forgotten.setdefault(container, now) < BELIEVED_S:
            raise UnreachableError(
                "Slurm does not know the job now",
                msg(
                    "{host} has no job {number} of that name, and it left no exit code yet.",
                    host=self.host,
                    number=look.number,
                ),
            )

    async def _submit(self, folder: str, container: str) -> str:
        doing = f"handing over {container}"
        said = await self._calls.ask(scripts.SUBMIT, folder, container, doing=doing)
        return clean(said, 40).strip()

    async def _submit_all(self, batch: Sequence[Script]) -> Sequence[str]:
        first = batch[0]
        if len(batch) == 1:
            return [await self._submit(first.folder, first.name)]
        name = f"gpuconsole-array-{secrets.token_hex(8)}"
        said = await self._calls.ask(
            scripts.ARRAY,
            await self._folder(),
            name,
            *(script.name for script in batch),
            doing=f"handing over {len(batch)} runs",
            stdin=array_script(batch, name).encode(),
        )
        number = clean(said, 40).strip()
        return [f"{number}_{task}" for task in range(len(batch))]

    async def _look(self, container: str) -> Look | None:
        folder = await self._run_folder(container)
        nonce = secrets.token_hex(16)
        done = await self._calls.run(scripts.LOOK, folder, nonce)
        if done.exit_status == NO_FOLDER:
            return None
        if done.exit_status != 0:
            raise self._calls.fault(done.exit_status, done.stderr, f"looking at {container}")
        look = run_folder.read_look(container, done.stdout.decode("utf-8", "replace"), nonce)
        self._labels[container] = look.labels
        if look.record is None or look.record.state in ENDS:
            # The picture may be older than this: it must not bring back what has ended.
            self._cluster.forget(container)
        else:
            self._cluster.know(container, look.number, look.record.submitted_at)
        return look

    async def _cancel(self, script: str, look: Look) -> None:
        number = look.number
        done = await self._calls.run(script, number, look.name)
        if done.exit_status != 0 and b"nvalid job id" not in done.stderr:
            raise self._calls.fault(done.exit_status, done.stderr, f"cancelling job {number}")

    async def _gone(self, container: str, within_s: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while True:
            look = await self._look(container)
            if look is None:
                return True
            if not look.away and run_folder.status_of(container, self.host, look).state not in LIVE:
                return True
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(STOP_LOOK_S)

    async def _folder(self) -> str:
        """Return the folder of all runs; EngineError when a batch script could not name it."""
        if not self._base:
            base = self._settings.folder
            if base is None:
                base = (await self._calls.ask(scripts.HOME, doing="asking for its home")).strip()
            if not _PATH.fullmatch(base):
                raise EngineError(
                    "The folder of runs has a name that Slurm cannot take",
                    msg("{host}: {value}.", host=self.host, value=f"{clean(base, 200)!r}"),
                    "Name another with `slurm: {folder: /shared/gpuconsole}` in the inventory: "
                    "letters, digits and . _ / + @ -",
                )
            self._base = base.rstrip("/")
        return self._base

    async def _run_folder(self, container: str) -> str:
        _require_name(container)
        return f"{await self._folder()}/runs/{container}"

    async def _job_folders(self) -> JobFolders:
        base = f"{await self._folder()}/results"
        return JobFolders(self._link, self.host, base, self._calls.run)

    async def _inside(self, container: str, target: str) -> str:
        """Return where a path of a container lies in a run's folder."""
        base = await self._run_folder(container)
        for outside, inside in ((injected.FOLDER, "reporter"), ("/workspace", "work")):
            if target == outside or target.startswith(outside + "/"):
                return f"{base}/{inside}{target.removeprefix(outside)}"
        raise EngineError(
            "No such folder in a run",
            msg("{host}: {value}.", host=self.host, value=clean(target, 200)),
        )


def _require_name(name: str) -> None:
    if not run_folder.NAME.fullmatch(name):
        raise UsageError(
            "Not a name", msg("{value} cannot name a folder.", value=f"{clean(name, 80)!r}")
        )

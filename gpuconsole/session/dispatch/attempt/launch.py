"""From a journalled attempt to started containers, in steps that may each be done again."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from gpuconsole.core.containers import ContainerSpec, Lease
from gpuconsole.core.devices.device_sharing import Share
from gpuconsole.core.engines.terminals import FOLDER, PROGRAM, SESSIONS
from gpuconsole.core.file_trust import make_private, private
from gpuconsole.core.jobs import Attempt
from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.wording import msg
from gpuconsole.errors import Blame, ConsoleError, EngineError, ImageError, UsageError
from gpuconsole.placement.launch_command import Meeting, meeting_port
from gpuconsole.remote import injected
from gpuconsole.remote.injected import pack, pack_own_folder
from gpuconsole.remote.inside import source
from gpuconsole.session.async_helpers import Work, to_its_end
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt import gang
from gpuconsole.session.dispatch.attempt.checkpoint import bring, pack_parents
from gpuconsole.session.dispatch.attempt.container_spec import (
    WORKING_DIR,
    attempt_key,
    container_spec,
    require_gang_network,
    workspace_folder,
)
from gpuconsole.session.dispatch.attempt.gang import Part
from gpuconsole.session.dispatch.attempt.launch_heartbeat import shown
from gpuconsole.session.dispatch.attempt.recovery import may_have_run
from gpuconsole.session.dispatch.attempt.vendor_runtime import maker_of, runtime_of
from gpuconsole.session.dispatch.device_sharing import share_of
from gpuconsole.session.dispatch.job_record import Entry
from gpuconsole.session.dispatch.slurm_jobs import batch_of, batch_spec, cluster_of
from gpuconsole.session.export.render import docker_lines, line_file
from gpuconsole.session.submit.secrets import values_of

PROGRESS_EVERY_S = 1.0
FINISH_S = 5.0
"""How long a launch that is called off waits for the step that it is in."""
T = TypeVar("T")
PULL_PAUSES_S = (3.0, 10.0, 30.0)
"""Pauses between tries of a pull that a network or a registry broke off, doubled at the most."""


class Launch:
    """The launch of a job's latest attempt on its hosts, all of them or none."""

    def __init__(self, context: Context, entry: Entry, parts: Sequence[Part]) -> None:
        self._context = context
        self._entry = entry
        self._parts = parts
        self._told_at = 0.0

    async def fetch_images(self) -> None:
        """Make the image present on every host. It comes before the claim: a pull may take an
        hour, and a lease without a container is anyone's to remove after its grace time."""
        self._entry.say("looking for the image")
        await gang.each(self._parts, self._fetch_image)

    async def _fetch_image(self, part: Part) -> None:
        """Make the image present on one host; a registry that cannot be reached, or is out of
        order, is asked again a few times."""
        image = self._image(part)
        for tries, pause in enumerate(PULL_PAUSES_S, start=1):
            try:
                await part.engine.ensure_image(image, self._progress)
                return
            except ImageError as error:
                if error.blame is not Blame.IMAGE:
                    raise
                wait = pause * (1.0 + self._context.chance())
                again = f"trying again in {wait:.0f} s ({tries} of {len(PULL_PAUSES_S)})"
                self._entry.say(f"{again}: {error.message}", 500)
                await self._context.clock.sleep(wait)
        await part.engine.ensure_image(image, self._progress)

    async def start(self) -> None:
        """Claim the devices, make the containers, put the code in, start them. What a launch that
        is cancelled has made is there when this ends: a step that makes something is not cut."""
        async with shown(self._context, [part.engine for part in self._parts]):
            await self._start()

    async def _start(self) -> None:
        job, attempt = self._entry.present()
        await self._claim()
        if may_have_run(attempt):
            # Some of a gang may run: the rest is as complete as they are.
            containers = {part.rank: part.attempt.container_name for part in self._parts}
            self._entry.require_role()
        else:
            if attempt.members:
                require_gang_network(job.task, self._context.settings)
                # Containers of a dead console may have been given another rendezvous.
                await gang.remove_own(self._parts, self._context.journal.id)
            containers = await self._create()
            await gang.each(self._parts, lambda part: self._fill(part, containers[part.rank]))
            await bring(self._context, self._entry, self._parts, containers)
            if not self._may_start(containers):
                return
        await gang.each(
            self._parts, lambda part: self._whole(part.engine.start(containers[part.rank]))
        )

    async def _whole(self, step: Work[T]) -> T:
        return await to_its_end(step, lambda: self._context.clock.sleep(FINISH_S))

    def _image(self, part: Part) -> str:
        """Return the task's image, or the host's."""
        job, host = self._entry.job, part.attempt.host
        image = job.task.image or self._context.default_image(host)
        if not image:
            raise UsageError(
                "No image",
                msg("Neither the task nor {host} names a container image.", host=host),
                "Set `image:` in the task file or the inventory, or `images:` by kind of device "
                "in the lab's settings.",
                blame=Blame.PLACE,
            )
        return image

    async def _claim(self) -> None:
        """Claim host by host in the order of their names, as every console does; what was claimed
        before another console won is given back."""
        job = self._entry.job
        self._entry.say("claiming the devices")
        claimed: list[Part] = []
        for part in sorted(self._parts, key=lambda part: part.attempt.host):
            leases = [
                Lease(
                    uuid=uuid,
                    job=job.id,
                    attempt=attempt_key(job.id, part.attempt.number),
                    user=job.user,
                    journal=self._context.journal.id,
                    since=self._context.clock.now(),
                    share=self._share(part),
                )
                for uuid in sorted(part.attempt.device_uuids)
            ]
            try:
                with gang.on_host(part.attempt.host):
                    await self._whole(part.engine.claim(leases))
            except ConsoleError:
                await gang.try_release(claimed, job.id)
                raise
            claimed.append(part)

    def _share(self, part: Part) -> Share | None:
        host = self._context.hosts.snapshot().host(part.attempt.host)
        return share_of(self._entry.job, part.attempt, self._context.settings, host)

    async def _create(self) -> dict[int, str]:
        """Make the containers; returns their ids by rank."""
        meetings = await self._meet()
        specs = [await self._spec(part, meetings.get(part.rank)) for part in self._parts]
        job, attempt = self._entry.present()
        if not cluster_of(job.task):
            self._keep_lines(attempt, specs)
        # Written before: only this tells "nothing is there" while an engine cannot be asked.
        creating = replace(attempt, creating_at=self._context.clock.now())
        self._entry.keep(job, creating, detail="starting")
        containers = {}
        for part, spec in zip(self._parts, specs, strict=True):
            with gang.on_host(part.attempt.host):
                containers[part.rank] = await self._whole(part.engine.create(spec))
        return containers

    def _keep_lines(self, attempt: Attempt, specs: Sequence[ContainerSpec]) -> None:
        """Keep the equal `docker run` lines beside the log."""
        path = line_file(self._context.state, self._entry.job_id, attempt.number)
        # A full disk must not keep a job from starting for the sake of lines to read.
        with contextlib.suppress(OSError):
            make_private(path.parent)
            with open(path, "w", encoding="utf-8", opener=private) as file:
                file.write(docker_lines(attempt, specs) + "\n")

    async def _spec(self, part: Part, meeting: Meeting | None) -> ContainerSpec:
        job = self._entry.job
        checkpoint = bool(job.task.checkpoint_dir)
        with gang.on_host(part.attempt.host):
            account = await part.engine.prepare(job.id, checkpoint=checkpoint, owner=job.run_as)
        if cluster_of(job.task):
            context = self._context
            batch = batch_of(
                job, context.hosts.snapshot(), context.journal.jobs(), context.settings.limits
            )
            image, journal = self._image(part), context.journal.id
            spec = batch_spec(
                job, part.attempt, batch, image=image, account=account, journal=journal
            )
            return replace(spec, secrets=values_of(context, job))
        host = self._context.hosts.snapshot().host(part.attempt.host)
        with gang.on_host(part.attempt.host):
            runtime = await runtime_of(maker_of(job.task, part.attempt, host), part.engine)
        workspace = await self._workspace(part)
        spec = container_spec(
            job,
            part.attempt,
            command=self._context.command(job.task, len(part.attempt.device_uuids), meeting),
            image=self._image(part),
            account=account,
            journal=self._context.journal.id,
            settings=self._context.settings,
            host=host,
            meeting=meeting,
            runtime=runtime,
            workspace=workspace,
        )
        return replace(spec, secrets=values_of(self._context, job))

    async def _workspace(self, part: Part) -> str:
        """Return the folder on the host that a session works in, made where it is not there."""
        job = self._entry.job
        if not job.task.workspace:
            return ""
        with gang.on_host(part.attempt.host):
            name = workspace_folder(job.user, job.task.workspace)
            return (await part.engine.prepare(name, owner=job.run_as)).results_dir

    async def _meet(self) -> Mapping[int, Meeting]:
        """Agree where the hosts of a gang meet, by rank; a job on one host needs no such place."""
        if len(self._parts) == 1:
            return {}
        networks = []
        for part in self._parts:
            with gang.on_host(part.attempt.host):
                networks.append(await part.engine.network())
        _, attempt = self._entry.present()
        key = attempt_key(self._entry.job_id, attempt.number)
        master = f"{networks[0].address}:{meeting_port(key, networks[0].busy_ports)}"
        return {
            rank: Meeting(master, key, len(networks), rank, network.address, network.interface)
            for rank, network in enumerate(networks)
        }

    async def _fill(self, part: Part, container: str) -> None:
        """Put the code in, with the reporter beside it."""
        task = self._entry.job.task
        if task.kind in SESSIONS:
            await self._put_session(part, container)
        elif not task.script:
            return
        if task.workspace:
            # What lies there is kept, and nothing is put between it.
            return
        bundle = self._context.bundle(self._entry.job_id)
        if not bundle.exists():
            raise UsageError(
                "Packed project is gone",
                msg("{path} does not exist.", path=bundle),
                "Submit the job again.",
            )
        size = format_mib(bundle.stat().st_size / MIB)
        self._progress(f"copying the code to {part.attempt.host}, {size}")
        with tempfile.TemporaryDirectory(prefix="gpuconsole-") as folder:
            parents = Path(folder) / "parents.tar"
            if pack_parents(task, parents):
                await part.engine.put(container, parents, WORKING_DIR)
        await part.engine.put(container, bundle, WORKING_DIR)
        if task.kind not in SESSIONS:
            await self._put_reporter(part, container)

    async def _put_session(self, part: Part, container: str) -> None:
        """Lay what keeps a session's terminal into its container, and make it its user's."""
        with tempfile.TemporaryDirectory(prefix="gpuconsole-") as folder:
            packed = Path(folder) / "terminal.tar"
            pack(packed, {PurePosixPath(PROGRAM).name: source("terminal.py")})
            await part.engine.put(container, packed, FOLDER)
            # Where the shell begins is its user's, also where no project is put there.
            own = Path(folder) / "own.tar"
            pack_own_folder(own)
            await part.engine.put(container, own, WORKING_DIR)

    async def _put_reporter(self, part: Part, container: str) -> None:
        """Lay the reporter beside the code; a job runs without it where that cannot be done."""
        with (
            contextlib.suppress(OSError, EngineError),
            tempfile.TemporaryDirectory(prefix="gpuconsole-") as folder,
        ):
            packed = Path(folder) / "reporter.tar"
            injected.pack_reporter(packed)
            await part.engine.put(container, packed, injected.FOLDER)

    def _may_start(self, containers: Mapping[int, str]) -> bool:
        """Write that the attempt starts, unless it is not wanted any more.

        Written before the start, as only this tells "never started" from "ran and was removed".
        It also proves, at the last moment, that this console still is the dispatcher.
        """
        job, attempt = self._entry.present()
        if gang.unwanted(job):
            return False
        ids = [containers[part.rank] for part in self._parts]
        starting = replace(attempt.with_containers(ids), starting_at=self._context.clock.now())
        self._entry.keep(job, starting)
        return True

    def _progress(self, sentence: str) -> None:
        # Each is a write that reaches the disk, and a pull has many a second to tell.
        now = self._context.clock.now()
        if now - self._told_at >= PROGRESS_EVERY_S:
            self._told_at = now
            self._entry.say(sentence)

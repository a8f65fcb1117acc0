"""Measurements of scripts: made on a host or here, and stored for the estimates that follow."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.estimate import Isolation
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.projects import start_folder
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.preflight.tiers.ladder import NO_LIMIT_S, PLANNED
from gpuconsole.session.context import Context
from gpuconsole.session.estimate import measurement_run
from gpuconsole.session.estimate.measurement_on_device import measure_on_device
from gpuconsole.session.estimate.measurement_on_host import Asked, clear, measure_on_host
from gpuconsole.session.estimate.measurement_run import Progress
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.reading.questions import Checking, Naming, Requested, Requesting
from gpuconsole.session.reading.recordings import Mode, python_path
from gpuconsole.session.submit.validate import Packer
from gpuconsole.state.files.measurement_turn import Turn, measuring_turn
from gpuconsole.state.files.probe_recordings import MeasuredScripts

if TYPE_CHECKING:
    from gpuconsole.remote.isolation.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Spot:
    """Where on a host is measured."""

    host: Host
    image: str
    device: Device | None = None
    """The one that the device tier takes."""
    patient: bool = True
    """Whether to wait while the host measures for others."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A measurement under way."""

    task: Task
    mode: Mode
    image: str
    """Of the container; "" for this machine."""
    name: str
    """Under which its recording is stored."""
    since_ns: int


class Measurements:
    """The measurements of one state folder."""

    def __init__(self, state: Path, reader: AsyncReader) -> None:
        """`reader` reads the scripts, and what measuring them gave."""
        self._state = state
        self._stored = MeasuredScripts(state)
        self._reader = reader

    async def here(
        self,
        task: Task,
        mode: Mode,
        progress: Progress,
        agreed: Isolation = "bubblewrap",
        *,
        limit_s: float = NO_LIMIT_S,
    ) -> None:
        """Measure on this machine, in its sandbox, and store the recording. Runs are planned for
        `limit_s` seconds.

        UsageError for a tier that needs a device, and where less holds the script than the user
        `agreed` to.
        """
        if mode == "device":
            raise UsageError(
                "Not on this machine",
                "The device tier takes a device of a host.",
                "Leave out --local, or name a host with --host.",
            )
        from gpuconsole.remote.isolation.filesystem_view import is_shared
        from gpuconsole.remote.isolation.sandbox import Sandbox

        sandbox = Sandbox()
        await asyncio.to_thread(_require_agreed, sandbox, agreed)
        begun = await self._begin(task, mode)
        root = await asyncio.to_thread(_root, task)
        folders = {root, Path(task.script).parent}
        paths = tuple(filter(Path.is_dir, python_path(task)))
        asked = await self._reader.asked(Requesting(task, mode, root, _start(task, root), paths))
        folders.update(
            path for path in paths if not path.is_relative_to(root) and not is_shared(path)
        )
        shown = [folder for folder in folders if not is_shared(folder)]
        alone = len(shown) < len(folders)
        if alone:
            # A home, say, is not shown for the sake of one script in it.
            shown += map(Path, asked.modules)
        try:
            async with self._turn(progress):
                request = within_time(asked.request, limit_s)
                document = await measurement_run.here(sandbox, shown, request, progress)
        except RefusedError as error:
            if alone:
                error.hint += f" Of {root} it sees only the script and what that imports."
            raise
        await self._store(begun, document)

    async def on_host(
        self,
        task: Task,
        mode: Mode,
        progress: Progress,
        *,
        context: Context,
        at: Spot,
        limit_s: float = NO_LIMIT_S,
    ) -> None:
        """Measure in a container on a host, and keep the recording; in the device tier on the
        device of the spot. Runs are planned for `limit_s` seconds."""
        begun = await self._begin(task, mode, at.image)
        async with self._packed(
            task, mode, context.pack, context.settings.code_size_limit
        ) as packed:
            bundle, asked = packed
            async with self._turn(progress) as turn:
                if left := turn.left_on:
                    with suppress(ConsoleError):
                        await clear(context, left, alone=True)
                request = within_time(asked.request, limit_s)
                wanted = Asked(task, at.image, bundle, request, progress, at.patient, turn.note)
                if context.measure_on_host is not None:
                    document = await context.measure_on_host(at.host, at.device, wanted)
                elif at.device is None:
                    document = await measure_on_host(context, at.host, wanted)
                else:
                    document = await measure_on_device(context, at.host, at.device, wanted)
        await self._store(begun, document)

    @asynccontextmanager
    async def _packed(
        self, task: Task, mode: Mode, pack: Packer, limit_mib: float
    ) -> AsyncIterator[tuple[Path, Requested]]:
        """Give the packed project and what the probe is asked of it."""
        script = Path(task.script)
        with tempfile.TemporaryDirectory(prefix="gpuconsole-") as folder:
            bundle = Path(folder) / "project.tar.gz"
            packed = await asyncio.to_thread(pack, task, bundle, limit_mib)
            root = script.parents[len(Path(packed.script).parts) - 1]
            paths = tuple(path for path in python_path(task) if path.is_relative_to(root))
            asked = Requesting(task, mode, root, _start(task, root), paths)
            yield bundle, await self._reader.asked(asked)

    def _turn(self, progress: Progress) -> AbstractAsyncContextManager[Turn]:
        words = "waiting for another measurement"
        return measuring_turn(self._state, asyncio.sleep, lambda: progress(0.0, words))

    async def _begin(self, task: Task, mode: Mode, image: str = "") -> _Begun:
        """Return what is measured, as it is before anything of it is packed or run."""
        since_ns = time.time_ns()
        return _Begun(task, mode, image, await self._reader.asked(Naming(task, mode)), since_ns)

    async def _store(self, begun: _Begun, document: bytes) -> None:
        """Store a recording with what it was made with. RefusedError where the script, or a file
        that it read, has changed since it began."""
        check = Checking(begun.task, document, begun.mode, begun.name, begun.image, begun.since_ns)
        inputs = await self._reader.asked(check)
        await asyncio.to_thread(self._stored.put, begun.name, begun.image, inputs, document)


def within_time(request: Mapping[str, object], limit_s: float) -> Mapping[str, object]:
    """Return what the probe is asked, with the time for which its runs are planned, seconds."""
    return request if limit_s == NO_LIMIT_S else {**request, "limit_s": PLANNED * limit_s}


def _require_agreed(sandbox: Sandbox, agreed: Isolation) -> None:
    if agreed == "bubblewrap" and sandbox.kind != agreed:
        raise UsageError(
            "Not measured here",
            msg(
                "The script would run {isolation}; you have not agreed to that.",
                isolation=sandbox.isolation,
            ),
            "Install bubblewrap. Or agree: `gpuconsole preflight SCRIPT --tier meta --local` asks "
            "in a terminal.",
        )


def choose_host(
    snapshot: FleetSnapshot, wanted: str, image_of: Callable[[str], str]
) -> tuple[str, str]:
    """Return a host that can measure, and the image for it; UsageError when there is none."""
    if wanted and snapshot.host(wanted) is None:
        names = ", ".join(host.name for host in snapshot.hosts[:6])
        raise UsageError(
            "No such host",
            msg("{name} is not in the inventory.", name=wanted),
            msg("Hosts: {names}.", names=names),
        )
    for host in snapshot.hosts:
        if host.cluster or wanted not in ("", host.name):
            continue
        if host.state is HostState.UP and image_of(host.name):
            return host.name, image_of(host.name)
    raise UsageError(
        "No host to measure on",
        msg("{value} is up and has an image to measure with.", value=wanted or "No host"),
        "Set `image:` in the task file or the inventory, or measure on this machine (--local).",
    )


def _root(task: Task) -> Path:
    """Return the project's folder: the one that would be shipped, else the script's own."""
    from gpuconsole.core.submission.projects import project_of

    script = Path(task.script).resolve()
    if task.project:
        return Path(task.project)
    return project_of(script, task.args, Path.cwd()) or script.parent


def _start(task: Task, root: Path) -> Path:
    """Return the folder in which the script is started, as that of its job is."""
    return root / start_folder(root, task.folder, Path.cwd())

"""Measurements of scripts: made on a host or here, kept, and used by the estimates that follow."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from gpuconsole import preflight
from gpuconsole.core.containers import Hosts
from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.preflight import request
from gpuconsole.preflight.digest import script_digest, settings_of
from gpuconsole.session import measuring
from gpuconsole.session.measuring import Progress
from gpuconsole.session.submission import Packer
from gpuconsole.state.measured import MeasuredScripts, key_of

Mode = Literal["traced", "symbolic"]
MODES: tuple[Mode, ...] = ("traced", "symbolic")
"""The better one first."""
NOBODY = "65534:65534"
"""The account that a measurement has in its container; it owns nothing on the host."""


class Measurements:
    """The measurements of one state folder."""

    def __init__(self, state: Path) -> None:
        self._kept = MeasuredScripts(state)

    def known(
        self, task: Task, analysis: preflight.Analysis | None, tier: str = ""
    ) -> preflight.Measured | None:
        """Return the best measurement of a task's script as it is now, or None.

        With a tier that has to be measured, RefusedError when it was not.
        """
        if not task.script or tier not in ("", *MODES):
            return None
        batch = None if analysis is None else analysis.outcome(None, "gpu").batch
        for mode in (tier,) if tier else MODES:
            document = self._kept.get(_key(task, batch, mode))
            if document is not None:
                return _read(task, document, analysis)
        if tier:
            raise RefusedError(
                "The script was not measured",
                f"There is no {tier} recording of {task.script} as it is now.",
                "Measure it: F8 in the console, or `gpuconsole preflight --tier traced`.",
            )
        return None

    async def here(self, task: Task, mode: Mode, progress: Progress) -> None:
        """Measure on this machine, in its sandbox, and keep the recording."""
        from gpuconsole.remote.sandbox import Sandbox

        script, root = Path(task.script), _root(task)
        asked = await asyncio.to_thread(_request, task, mode, root)
        document = await measuring.here(Sandbox(), script, root, asked, progress)
        self._keep(task, asked, document)

    async def on_host(
        self,
        task: Task,
        mode: Mode,
        progress: Progress,
        *,
        hosts: Hosts,
        host: str,
        image: str,
        journal: str,
        pack: Packer,
        limit_mib: float,
    ) -> None:
        """Measure in a container on a host, and keep the recording."""
        script = Path(task.script)
        with tempfile.TemporaryDirectory(prefix="gpuconsole-") as folder:
            bundle = Path(folder) / "project.tar.gz"
            packed = await asyncio.to_thread(pack, task, bundle, limit_mib)
            root = script.parents[len(Path(packed.script).parts) - 1]
            asked = await asyncio.to_thread(_request, task, mode, root)
            place = measuring.Place(
                await hosts.engine(host), image, NOBODY, f"gpuconsole-measure-{journal}"
            )
            there = {**asked, "root": measuring.WORKING_DIR}
            document = await measuring.on_host(place, bundle, there, progress)
        self._keep(task, asked, document)

    def _keep(self, task: Task, asked: dict[str, Any], document: dict[str, Any]) -> None:
        # A document that is not one must not lie in wait for later estimates.
        _read(task, document)
        self._kept.put(_key(task, asked["batch"]["value"], asked["mode"]), document)


def choose_host(
    snapshot: FleetSnapshot, wanted: str, image_of: Callable[[str], str]
) -> tuple[str, str]:
    """Return a host that can measure, and the image for it; UsageError when there is none."""
    if wanted and snapshot.host(wanted) is None:
        names = ", ".join(host.name for host in snapshot.hosts[:6])
        raise UsageError("No such host", f"{wanted} is not in the inventory.", f"Hosts: {names}.")
    for host in snapshot.hosts:
        if host.cluster or wanted not in ("", host.name):
            continue
        if host.state is HostState.UP and image_of(host.name):
            return host.name, image_of(host.name)
    raise UsageError(
        "No host to measure on",
        f"{wanted or 'No host'} is up and has an image to measure with.",
        "Set `image:` in the task file or the inventory, or measure on this machine (--local).",
    )


def _key(task: Task, batch: int | None, mode: str) -> str:
    project = Path(task.project) if task.project else None
    digest = script_digest(Path(task.script), task.args, project)
    return key_of(digest, settings_of(task.args, batch), mode)


def _root(task: Task) -> Path:
    return Path(task.project) if task.project else Path(task.script).resolve().parent


def _read(
    task: Task, document: dict[str, Any], analysis: preflight.Analysis | None = None
) -> preflight.Measured:
    """Return what a recording says; UsageError when it is none."""
    # All that reads scripts comes with it: not at the start of a console.
    from gpuconsole.preflight import measured

    return measured.load(document, script=task.script, analysis=analysis)


def _request(task: Task, mode: Mode, root: Path) -> dict[str, Any]:
    script = Path(task.script)
    analysis = preflight.analyse(script, task.args, assumptions=task.assumptions, project=root)
    return request.build(analysis, script, task.args, mode, root=root)

"""Which cards preflight holds a script against: the fleet's, one asked for, or common ones."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from gpuconsole import preflight
from gpuconsole.cli import measuring
from gpuconsole.cli.output import note
from gpuconsole.core.catalogue import Catalogue
from gpuconsole.core.estimate import MEMORY_THRESHOLD, Report
from gpuconsole.core.fleet import Backend, FleetSnapshot
from gpuconsole.core.jobs import Task
from gpuconsole.core.places import JOURNAL_NAME, config_path, state_folder
from gpuconsole.errors import JournalError, UsageError

if TYPE_CHECKING:
    from gpuconsole.config import LabSettings
    from gpuconsole.remote.inventory import Inventory

COMMON_CARDS = (
    "Tesla T4",
    "GeForce RTX 3090",
    "GeForce RTX 4090",
    "Tesla V100-PCIE-32GB",
    "A100-SXM4-40GB",
    "A100-SXM4-80GB",
    "Ascend 910A",
    "Ascend 910B3",
    "R300",
    "P800 OAM",
    "DCU Z100",
    "DCU K100_AI",
    "Instinct MI210",
    "MLU370-X4",
    "S60",
    "BI-V100 (Tiangai 100)",
    "C500",
    "MTT S4000",
)
"""Models of the catalogue that a lab is likely to have, for an answer without any host."""


def estimate(
    task: Task,
    *,
    tier: str,
    memory_mib: float | None,
    inventory: Path | None,
    offline: bool,
    wait_s: float,
    remembered: Mapping[str, str] = MappingProxyType({}),
    state: Path | None = None,
    explain: bool = False,
    curve: bool = False,
) -> Report:
    """Estimate a task and hold it against cards.

    The fleet is asked for at most `wait_s` seconds. `remembered` are earlier answers for the
    script; the task's own win. What the journal of the `state` folder has seen corrects the answer,
    unless a tier is asked for. UsageError for a wrong inventory, batch size, tier or answer.
    """
    given, task = task.assumptions, preflight.with_remembered(task, remembered)
    if tier == "formula":
        task = dataclasses.replace(task, script="")
    elif tier == "static" and not task.script:
        raise UsageError("Nothing to read", "The static tier needs a script.", "Name one.")
    cards = _cards(task, memory_mib, inventory, offline, wait_s)
    analysis = _analysis(task, given) if task.script else None
    report = preflight.report(
        task,
        cards,
        backend=cast("Backend", task.backend),
        analysis=analysis,
        calibration=None if tier else _history(state),
        measured=measuring.known(task, analysis, tier),
    )
    report = preflight.noted(report, task, remembered)
    if explain and analysis is not None:
        backend = cast("Backend", task.backend)
        report = dataclasses.replace(report, explanation=analysis.explain(task.batch_size, backend))
    if curve:
        estimator = analysis if analysis is not None else preflight.Formula(task)
        most = max((one.limit_mib for one in cards), default=0.0)
        report = dataclasses.replace(
            report, curve=preflight.curve(estimator, report.estimate, most)
        )
    return report


def _analysis(task: Task, given: Mapping[str, str]) -> preflight.Analysis:
    project = Path(task.project) if task.project else None
    analysis = preflight.analyse(
        Path(task.script), task.args, assumptions=task.assumptions, project=project
    )
    preflight.require_known(analysis, given)
    return analysis


def _history(state: Path | None) -> preflight.Calibration | None:
    """Return what was seen of runs and cards; without it where the journal cannot be read."""
    folder = state_folder(state)
    if not (folder / JOURNAL_NAME).exists():
        return preflight.Calibration()
    from gpuconsole.session.history import recorded

    try:
        return recorded(folder)
    except JournalError as error:
        note(f"History is not used. {error.title}: {error.message} {error.hint}")
        return None


def _cards(
    task: Task, memory_mib: float | None, inventory: Path | None, offline: bool, wait_s: float
) -> tuple[preflight.Card, ...]:
    backend = cast("Backend", task.backend)
    if memory_mib is not None:
        name = f"card of {memory_mib:g} MiB"
        return (preflight.Card(name, "", backend, memory_mib, exact=True),)
    lab = None if offline else _inventory(inventory)
    if lab is None:
        return common_cards(backend, task.threshold(_threshold()))
    from gpuconsole.config import combined, load_settings

    settings = combined(load_settings(), lab.lab)
    import asyncio

    snapshot = asyncio.run(_look(lab, settings, wait_s))
    return preflight.cards(snapshot, task.threshold(settings.memory_threshold))


def _threshold() -> float:
    """Return the user's threshold; without settings there is no need to know how to read them."""
    if not config_path().exists():
        return MEMORY_THRESHOLD
    from gpuconsole.config import load_settings

    return load_settings().memory_threshold


def common_cards(backend: Backend, threshold: float) -> tuple[preflight.Card, ...]:
    """Return empty cards of the common models of a back end."""
    catalogue = {spec.model: spec for spec in Catalogue.load().specs}
    return tuple(
        preflight.Card(spec.model, "", backend, spec.memory_gib * 1024, threshold=threshold)
        for spec in (catalogue[model] for model in COMMON_CARDS)
        if spec.memory_gib is not None and spec.backend == backend
    )


def _inventory(given: Path | None) -> Inventory | None:
    from gpuconsole.remote.inventory import find_inventory, load_inventory, local_inventory

    path = find_inventory(given, os.environ)
    return load_inventory(path) if path is not None else local_inventory()


async def _look(lab: Inventory, settings: LabSettings, wait_s: float) -> FleetSnapshot:
    from gpuconsole.remote.hosts import RemoteHosts
    from gpuconsole.session.arrivals import first_frames
    from gpuconsole.session.clock import WallClock

    hosts = RemoteHosts(lab, settings)
    await hosts.start()
    try:
        return await first_frames(hosts, WallClock(), wait_s)
    finally:
        await hosts.close()

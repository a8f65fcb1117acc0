"""What preflight holds a script against: the fleet's devices, one asked for, or common ones; and
the answers that are remembered for a script."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from gpuconsole import preflight
from gpuconsole.cli.output import error_text, note
from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.estimate import MEMORY_THRESHOLD, Report
from gpuconsole.core.fleet import Backend, FleetSnapshot
from gpuconsole.core.jobs import Task
from gpuconsole.core.util.user_dirs import JOURNAL_NAME, config_path, find_inventory, state_folder
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import JournalError, UsageError
from gpuconsole.remote.local_drivers import has_driver
from gpuconsole.session.reading.analyses import Analyses
from gpuconsole.session.reading.questions import Estimating
from gpuconsole.session.reading.reader import Reader
from gpuconsole.state.files.assumptions import Assumptions

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
"""Common device models of the catalogue, for an answer without any host."""


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
    reader: Reader | None = None,
) -> Report:
    """Estimate a task and hold it against cards.

    The fleet is asked for at most `wait_s` seconds. `remembered` are earlier answers for the
    script; the task's own win. What the journal of the `state` folder has seen corrects the answer,
    unless a tier is asked for. `reader` reads the script; one is started where there is none.
    UsageError for a wrong inventory, batch size, tier or answer.
    """
    if tier == "formula":
        task = dataclasses.replace(task, script="")
    elif tier == "static" and not task.script:
        raise UsageError("Nothing to read", "The static tier needs a script.", "Name one.")
    with contextlib.nullcontext(reader) if reader is not None else Reader() as reading:
        if task.script:
            # It starts while hosts are asked.
            reading.warm()
        cards, learned = _cards(task, memory_mib, inventory, offline, wait_s, state)
        question = Estimating(
            task,
            cards,
            tier,
            remembered=dict(remembered),
            calibration=None if tier else learned or _history(state),
            state=state_folder(state),
            images=_images(task, state),
            explain=explain,
            curve=curve,
        )
        return reading.ask(question) if task.script else question.answer(Analyses())


def _images(task: Task, state: Path | None) -> frozenset[str] | None:
    """Return the image that a task runs in as it is pinned; None where its hosts decide that."""
    if not task.image:
        return None
    from gpuconsole.state.files.images import ImageNotes

    return frozenset({ImageNotes(state_folder(state)).resolved(task.image)})


def _history(state: Path | None) -> preflight.Calibration | None:
    """Return what was seen of runs and cards; without it where the journal cannot be read."""
    folder = state_folder(state)
    if not (folder / JOURNAL_NAME).exists():
        return preflight.Calibration()
    from gpuconsole.session.estimate.history import recorded

    try:
        return recorded(folder)
    except JournalError as error:
        note(sentences("History is not used.", error_text(error), error.hint))
        return None


def _cards(
    task: Task,
    memory_mib: float | None,
    inventory: Path | None,
    offline: bool,
    wait_s: float,
    state: Path | None,
) -> tuple[tuple[preflight.Card, ...], preflight.Calibration | None]:
    """Return the cards, and what the lab's queue has seen of runs and cards, where one is asked."""
    backend = cast("Backend", task.backend)
    if memory_mib is not None:
        name = f"card of {memory_mib:g} MiB"
        return (preflight.Card(name, "", backend, memory_mib, exact=True),), None
    lab = None if offline else _inventory(inventory)
    if lab is None:
        return common_cards(backend, task.threshold(_threshold())), None
    import asyncio

    if lab.queue is not None:
        return asyncio.run(_cards_of_queue(task, inventory, state))
    from gpuconsole.config import combined, load_settings

    settings = combined(load_settings(), lab.lab)
    snapshot = asyncio.run(_look(lab, settings, wait_s))
    return preflight.cards(snapshot, task.threshold(settings.memory_threshold)), None


async def _cards_of_queue(
    task: Task, inventory: Path | None, state: Path | None
) -> tuple[tuple[preflight.Card, ...], preflight.Calibration]:
    """Return the devices of a lab with hosts that only its service knows, and its calibration."""
    from gpuconsole.session.factory import open_session

    async with open_session(inventory, state, read_only=True) as session:
        threshold = task.threshold(session.settings.memory_threshold)
        return preflight.cards(session.snapshot(), threshold), session.estimates.calibration()


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
    path = find_inventory(given, os.environ)
    if path is None and not has_driver():
        # Reading inventories takes longer to load than a script takes to read.
        return None
    from gpuconsole.remote.inventory import load_inventory, local_inventory

    return load_inventory(path) if path is not None else local_inventory()


async def _look(lab: Inventory, settings: LabSettings, wait_s: float) -> FleetSnapshot:
    from gpuconsole.remote.hosts import RemoteHosts
    from gpuconsole.session.clock import WallClock
    from gpuconsole.session.fleet.first_answers import first_frames

    hosts = RemoteHosts(lab, settings)
    await hosts.start()
    try:
        return await first_frames(hosts, WallClock(), wait_s)
    finally:
        await hosts.close()


def recalled(task: Task, state: Path | None, *, forget: bool) -> Mapping[str, str]:
    """Return the remembered answers for a task's script, and say that they are used."""
    if not task.script:
        return {}
    store = _store(state)
    if forget:
        _try(lambda: store.forget(task.script))
        return {}
    answers = store.of(task.script)
    used = [f"{name}={value}" for name, value in answers.items() if name not in task.assumptions]
    if used:
        note(
            msg(
                "Remembered for this script: {answers} (--forget-assumptions forgets).",
                answers=", ".join(used),
            )
        )
    return answers


def remember(task: Task, state: Path | None) -> None:
    """Keep a task's own answers; an answer that cannot be kept still held for this time."""
    if task.script and task.assumptions:
        _try(lambda: _store(state).remember(task.script, task.assumptions))


def _store(state: Path | None) -> Assumptions:
    return Assumptions(state_folder(state))


def _try(change: Callable[[], object]) -> None:
    try:
        change()
    except JournalError as error:
        note(error_text(error))

"""Preflight beside the event loop; a script is read again only when it changed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import cast

from gpuconsole import preflight
from gpuconsole.config import LabSettings
from gpuconsole.core.estimate import Report
from gpuconsole.core.fleet import Backend, FleetSnapshot
from gpuconsole.core.jobs import Task
from gpuconsole.errors import RefusedError
from gpuconsole.preflight.calibration import Calibration
from gpuconsole.session.measurements import MODES, Measurements

REMEMBERED = 32
SIBLINGS = 500
"""Files beside the script whose change counts as one of the script, which may import them."""
Versions = frozenset[tuple[str, int, int]]
"""Files with change time and size."""
TIERS = ("", "static", "formula", *MODES)


class Preflights:
    """Reports on demand; the scripts asked about last are remembered as analysed."""

    def __init__(self, measurements: Measurements | None = None) -> None:
        self._measurements = measurements
        self._known: OrderedDict[tuple[object, ...], tuple[preflight.Analysis, Versions]] = (
            OrderedDict()
        )
        # An analysis fills in what it is asked for: one question at a time.
        self._asking = asyncio.Lock()

    async def report(
        self,
        task: Task,
        snapshot: FleetSnapshot,
        settings: LabSettings,
        tier: str = "",
        *,
        empty: bool = False,
        remembered: Mapping[str, str] = MappingProxyType({}),
        calibration: Calibration | None = None,
    ) -> Report:
        """Hold a task against each device as it is, or, with `empty`, against one device of each
        kind as if nobody used it.

        `remembered` are answers of earlier times; the task's own win. `calibration` corrects the
        answer by what was seen, unless a tier is asked for. RefusedError for a tier that
        is not to be had; UsageError for a script that cannot be read, or a task's own answer that
        is for nothing in it.
        """
        if tier not in TIERS:
            raise RefusedError(
                "Tier is not available",
                f"There is no {tier} tier here.",
                "Leave out --tier: the best tier there is answers.",
            )
        threshold = task.threshold(settings.memory_threshold)
        cards = preflight.cards(snapshot, threshold)
        if empty:
            cards = _kinds(cards)
        if tier == "formula":
            task = replace(task, script="")
        async with self._asking:
            return await asyncio.to_thread(
                self._answer, task, cards, tier, remembered, None if tier else calibration
            )

    def _answer(
        self,
        task: Task,
        cards: tuple[preflight.Card, ...],
        tier: str,
        remembered: Mapping[str, str],
        calibration: Calibration | None,
    ) -> Report:
        given, task = task.assumptions, preflight.with_remembered(task, remembered)
        analysis = self._analysis(task) if task.script else None
        if analysis is not None:
            preflight.require_known(analysis, given)
        backend = cast(Backend, task.backend)
        measured = self._measured(task, analysis, tier)
        report = preflight.report(
            task, cards, backend=backend, analysis=analysis, calibration=calibration,
            measured=measured,
        )  # fmt: skip
        return preflight.noted(report, task, remembered)

    def _measured(
        self, task: Task, analysis: preflight.Analysis | None, tier: str
    ) -> preflight.Measured | None:
        """Return what was measured of the script, where that tells more than reading it."""
        if self._measurements is None:
            return None
        found = self._measurements.known(task, analysis, tier)
        return None if found is None or (found.refusal and not tier) else found

    def _analysis(self, task: Task) -> preflight.Analysis:
        script = Path(task.script)
        project = Path(task.project) if task.project else None
        answers = tuple(sorted(task.assumptions.items()))
        key = (script, project, _stamp(script), task.args, answers)
        known, then = self._known.pop(key, (None, frozenset()))
        if known is None or _versions(known.files()) != then:
            known = preflight.analyse(
                script, task.args, assumptions=task.assumptions, project=project
            )
        self._known[key] = known, _versions(known.files())
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return known


def _kinds(cards: Iterable[preflight.Card]) -> tuple[preflight.Card, ...]:
    """Return one empty card of each kind; the first host that has it stands for the others."""
    kinds: dict[tuple[object, ...], preflight.Card] = {}
    for card in cards:
        key = (card.device, card.backend, card.capacity_mib)
        if key not in kinds:
            kinds[key] = replace(card, held_mib=0.0, uuid="", index=None)
    return tuple(kinds.values())


def _stamp(script: Path) -> Versions:
    """Return what changes when the script, or a file beside it, does."""
    try:
        return _versions([script, *islice(script.parent.glob("*.py"), SIBLINGS)])
    except OSError:
        return frozenset()


def _versions(files: Iterable[Path | str]) -> Versions:
    found = set()
    for file in files:
        try:
            found.add((str(file), *_version(Path(file))))
        except OSError:
            found.add((str(file), 0, -1))
    return frozenset(found)


def _version(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size

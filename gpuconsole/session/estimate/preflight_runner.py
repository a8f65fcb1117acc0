"""Preflight beside the event loop: a task is held against the fleet as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from gpuconsole import preflight
from gpuconsole.config import LabSettings
from gpuconsole.core.estimate import Report
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Task
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError
from gpuconsole.preflight.accuracy.calibration import Calibration
from gpuconsole.session.reading.analyses import Analyses
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.reading.questions import Estimating
from gpuconsole.session.reading.recordings import MODES

TIERS = ("", "static", "formula", *MODES)


class Preflights:
    """Reports on demand."""

    def __init__(self, reader: AsyncReader, state: Path | None = None) -> None:
        """`reader` reads the scripts; recordings of them are in the folder `state`."""
        self._reader = reader
        self._state = state

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
        images: frozenset[str] | None = None,
    ) -> Report:
        """Hold a task against each device that its labels allow as it is, or, with `empty`, against
        one device of each kind as if it were unused.

        `remembered` are answers of earlier times; the task's own win. `calibration` corrects the
        answer by what was seen, unless a tier is asked for. `images` are those that the task may
        run in: a recording of another is not used. RefusedError for a tier that is not available;
        UsageError for a script that cannot be read, or a task's own answer that is for nothing in
        it.
        """
        if tier not in TIERS:
            raise RefusedError(
                "Tier is not available",
                msg("There is no {tier} tier here.", tier=tier),
                "Leave out --tier: the best tier there is answers.",
            )
        threshold = task.threshold(settings.memory_threshold)
        cards = preflight.cards(_labelled(snapshot, task), threshold)
        if empty:
            cards = _kinds(cards)
        if tier == "formula":
            task = replace(task, script="")
        question = Estimating(
            task,
            cards,
            tier,
            remembered=dict(remembered),
            calibration=None if tier else calibration,
            state=self._state,
            images=images,
        )
        if not task.script:
            return await asyncio.to_thread(question.answer, Analyses())
        return await self._reader.asked(question)


def _labelled(snapshot: FleetSnapshot, task: Task) -> FleetSnapshot:
    """Return the fleet without hosts that the task's labels exclude, so that no verdict is about a
    device that placement would not take. Where they exclude all hosts, as placement then says, the
    verdict is about all."""
    hosts = tuple(host for host in snapshot.hosts if host.has_labels(task.labels, task.anti_labels))
    return replace(snapshot, hosts=hosts) if hosts else snapshot


def _kinds(cards: Iterable[preflight.Card]) -> tuple[preflight.Card, ...]:
    """Return one empty device of each kind; the first host that has it represents the others."""
    kinds: dict[tuple[object, ...], preflight.Card] = {}
    for card in cards:
        key = (card.device, card.backend, card.capacity_mib)
        if key not in kinds:
            kinds[key] = replace(card, held_mib=0.0, uuid="", index=None)
    return tuple(kinds.values())

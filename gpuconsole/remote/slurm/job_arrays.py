"""Runs of one sweep that are handed over within a moment become one array of Slurm's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace

from gpuconsole.core.engines.batch_job import Batch, Script
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import UnreachableError

GATHER_S = 1.0
"""How long the first of a sweep waits for its companions."""

HandOver = Callable[[Sequence[Script]], Awaitable[Sequence[str]]]
"""Hands runs over together; returns Slurm's number of each."""


@dataclass(slots=True)
class _Group:
    scripts: list[Script] = field(default_factory=list)
    handed_over: asyncio.Future[dict[str, str]] | None = None


class Gatherer:
    """Brings together those that ask for the same."""

    def __init__(self, hand_over: HandOver) -> None:
        self._hand_over = hand_over
        self._groups: dict[Batch, _Group] = {}

    async def add(self, script: Script) -> str:
        """Hand a run over with its companions; return Slurm's number of it.

        The first hands all of them over; what goes wrong goes wrong for each.
        """
        key = replace(script.batch, link=None)
        group = self._groups.get(key)
        if group is not None and group.handed_over is not None:
            group.scripts.append(script)
            return (await asyncio.shield(group.handed_over))[script.name]
        group = _Group([script], asyncio.get_running_loop().create_future())
        self._groups[key] = group
        await self._lead(key, group)
        assert group.handed_over is not None
        return group.handed_over.result()[script.name]

    async def _lead(self, key: Batch, group: _Group) -> None:
        future = group.handed_over
        assert future is not None
        try:
            try:
                await asyncio.sleep(GATHER_S)
            finally:
                del self._groups[key]
            numbers = await self._hand_over(group.scripts)
            names = (script.name for script in group.scripts)
            future.set_result(dict(zip(names, numbers, strict=True)))
        except asyncio.CancelledError:
            # The companions were not cancelled: they look again, and are handed over by themselves.
            future.set_exception(
                UnreachableError("Not handed over", "The run that others waited for was stopped.")
            )
            # There may be no companion to hear of it.
            future.exception()
            raise
        except Exception as error:
            future.set_exception(error)

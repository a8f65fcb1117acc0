"""Vendors' tools on a host without Python: each is run through the link, round by round.

The pause between two rounds grows with what one costs. The host's own `timeout` kills a tool that
hangs, so that it is not left behind when the console has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import field

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import EngineError, UnreachableError
from gpuconsole.remote.agent.tool_runs import DEADLINE_S, LIMIT
from gpuconsole.remote.agent.vendor_tools import FOLDERS, pause_after
from gpuconsole.remote.links.protocol import Completed, Link
from gpuconsole.remote.vendors import readers
from gpuconsole.remote.vendors.latest_readings import Round, Shelf, is_foreign
from gpuconsole.remote.vendors.model import Family, Way

_PATH = f'PATH="$PATH:{FOLDERS}"; export PATH LC_ALL=C; '
_WHICH = _PATH + 'for t in "$@"; do command -v "$t" >/dev/null && echo "$t"; done; true'
_LIMITED = (
    _PATH + "if command -v timeout >/dev/null;"
    f' then exec timeout -s KILL {DEADLINE_S:g} "$@"; fi; exec "$@"'
)
_MACHINE = "cat /etc/machine-id 2>/dev/null || echo; uname -n"
_SLACK_S = 5.0
"""What the link may add to the tool's own time."""


@dataclass(slots=True)
class _Settled:
    """The state of one family: the way that works, its rounds, and what it printed last."""

    way: int | None = None
    rounds: int = 0
    texts: dict[str, str] = field(default_factory=dict)


class ToolRounds:
    """The tools of one host; `shelf` holds what they said."""

    def __init__(self, link: Link, interval: float, clock: Callable[[], float]) -> None:
        self.shelf = Shelf()
        self._link = link
        self._interval = interval
        self._clock = clock
        self._machine = ""

    async def find(self) -> frozenset[str]:
        """Return which tools the host has; UnreachableError, or EngineError where it has no
        shell."""
        names = [way.tool for family in readers().families.values() for way in family.ways]
        done = await self._link.run(_shell(_WHICH, list(dict.fromkeys(names))), timeout=20.0)
        said = (await self._link.run(_shell(_MACHINE, []), timeout=20.0)).stdout
        machine_id, _, name = said.decode("utf-8", "replace").strip("\n").rpartition("\n")
        self._machine = hashlib.sha256(f"{machine_id.strip()} {name}".encode()).hexdigest()[:8]
        return frozenset(done.stdout.decode("utf-8", "replace").split()) & frozenset(names)

    async def follow(self, tools: frozenset[str]) -> None:
        """Ask these tools again and again, until the link breaks."""
        families = [
            family
            for family in readers().families.values()
            if any(way.tool in tools for way in family.ways)
        ]
        followers = [asyncio.ensure_future(self._follow(family, tools)) for family in families]
        try:
            with contextlib.suppress(UnreachableError):
                await asyncio.gather(*followers)
        finally:
            # What ended one says nothing to the others, which would ask on a link of the past.
            for follower in followers:
                follower.cancel()

    async def _follow(self, family: Family, tools: frozenset[str]) -> None:
        settled = _Settled()
        while True:
            began = time.monotonic()
            result = await self._ask(family, tools, settled)
            if result is not None:
                self.shelf.take(result)
            await asyncio.sleep(pause_after(time.monotonic() - began, self._interval))

    async def _ask(self, family: Family, tools: frozenset[str], settled: _Settled) -> Round | None:
        """Return a round of the first way that works, else of the first that failed."""
        failed: Round | None = None
        for number, way in enumerate(family.ways):
            if way.tool not in tools or settled.way not in (None, number):
                continue
            failure = await self._round(family, number, way, settled)
            if failure is None:
                continue
            if not failure.fault and failure.status == 0:
                settled.way = number
                return failure
            failed = failed or failure
        settled.way = None
        return failed

    async def _round(
        self, family: Family, number: int, way: Way, settled: _Settled
    ) -> Round | None:
        """Run a way's commands that are due; None when the tool is another vendor's."""
        at = self._clock()
        if settled.way is None:
            settled.rounds, settled.texts = 0, {}
        status, words = 0, ""
        for place, command in enumerate(way.commands):
            if settled.rounds % command.every:
                continue
            done = await self._run(command.argv)
            settled.texts.pop(command.key, None)
            if done is None:
                fault = f"{way.tool} did not answer within {DEADLINE_S:g} s and was ended"
                if place == 0:
                    return Round(family.name, number, self._machine, at, fault=fault)
                continue
            text = done.stdout[:LIMIT].decode("utf-8", "replace")
            if place == 0:
                status, words = done.exit_status, _last_words(done)
                if is_foreign(way, text):
                    return None
            if place == 0 or done.exit_status == 0:
                settled.texts[command.key] = text
        settled.rounds += 1
        texts = dict(settled.texts)
        return Round(family.name, number, self._machine, at, texts, status, words)

    async def _run(self, argv: Sequence[str]) -> Completed | None:
        """Run a tool; None when it hung."""
        began = time.monotonic()
        try:
            done = await self._link.run(_shell(_LIMITED, argv), timeout=DEADLINE_S + _SLACK_S)
        except EngineError:
            return None
        hung = time.monotonic() - began >= DEADLINE_S and done.exit_status != 0
        return None if hung else done


def _shell(script: str, argv: Sequence[str]) -> list[str]:
    return ["sh", "-c", script, "gpuconsole", *argv]


def _last_words(done: Completed) -> str:
    said = (done.stderr.strip() or done.stdout.strip())[-300:]
    return clean(said.decode("utf-8", "replace"), 300)

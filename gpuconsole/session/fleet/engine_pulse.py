"""Whether the engines that jobs depend on answer at all: a small question every second or two.

A call on a frozen engine takes a minute to fail, and nothing tells it from a slow one meanwhile.
The question has an answer without any work, so an engine that owes it for some seconds is silent;
its jobs say so then, and are looked at again as soon as it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from gpuconsole.errors import ConsoleError, UnreachableError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.fleet.silent_engines import Silences

EVERY_S = 1.5
"""Pause between two questions to a host. It has three seconds to answer, so that a silence is
known after five at the most."""
A_SECOND = 20
"""Questions to all hosts together in a second: with many the pauses are longer."""

OnChange = Callable[[str, UnreachableError | None], None]


class Pulse:
    """Asks the engines of some hosts, each by itself, so that one delays no other. `on_change`
    hears when one falls silent, with the reason, and when it answers again."""

    def __init__(self, context: Context, silences: Silences, on_change: OnChange) -> None:
        self._context = context
        self._silences = silences
        self._on_change = on_change
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._silent: dict[str, UnreachableError] = {}

    @property
    def silent(self) -> Mapping[str, UnreachableError]:
        """The hosts that were asked and do not answer, and why."""
        return self._silent

    def watch(self, hosts: Collection[str], up: Collection[str]) -> None:
        """Ask the engines of these hosts from now on. One that has been silent is asked until it is
        believed, needed or not, while its host is among those that are `up`."""
        doubted = self._asking.keys() & self._silences.current().keys() & set(up)
        wanted = {*hosts, *doubted}
        for host in self._asking.keys() - wanted:
            self._asking.pop(host).cancel()
            self._change(host, None)
        for host in wanted:
            if host not in self._asking:
                self._asking[host] = asyncio.ensure_future(self._ask(host))

    async def close(self) -> None:
        """Ask no more."""
        asking, self._asking = self._asking, {}
        self._silent.clear()
        await cancel_all(asking.values())

    async def _ask(self, host: str) -> None:
        while True:
            try:
                engine = await self._context.hosts.engine(host)
                await engine.ping()
            except UnreachableError as error:
                self._silences.note(host, error)
                self._change(host, error)
            except ConsoleError:
                # It answers, if not well: that is for those who want more of it.
                self._change(host, None)
            else:
                self._silences.heard(host)
                self._change(host, None)
            await self._context.clock.sleep(max(EVERY_S, len(self._asking) / A_SECOND))

    def _change(self, host: str, error: UnreachableError | None) -> None:
        if (host in self._silent) == (error is not None):
            return
        if error is None:
            del self._silent[host]
        else:
            self._silent[host] = error
        self._on_change(host, error)

"""One host followed for ever: connect, read frames, notice silence, try again with back-off."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

from gpuconsole.core.fleet import Host, HostState
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, EngineError, UnreachableError
from gpuconsole.remote.inventory import HostEntry, unread
from gpuconsole.remote.links.protocol import Link
from gpuconsole.remote.links.ssh import SshLink
from gpuconsole.remote.polling import sources
from gpuconsole.remote.polling.sources import NoSourceError
from gpuconsole.waiting import within

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 30.0
SILENT_S = 20.0
"""If no line comes for so long (s) while the link is up, the program at its end is dead."""
CLOSE_S = 2.0
"""How long the far end's program may take to be let go of."""


class HostPoller:
    """Follows one host and publishes its record whenever it changes."""

    def __init__(
        self,
        entry: HostEntry,
        link: Link,
        publish: Callable[[Host], None],
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
        stale_after: float,
        together: bool = False,
    ) -> None:
        self.entry = entry
        self._link = link
        self._publish = publish
        self._clock = clock
        self._random = random
        self._stale_after = stale_after
        self._together = together
        self._base = unread(entry)
        self.host = self._base
        self._heard: float | None = None
        self._follow: asyncio.Task[None] | None = None
        self._ways = list(sources.WAYS)
        self._hurried = asyncio.Event()

    @property
    def hosts(self) -> tuple[Host, ...]:
        """What it follows: one host."""
        return (self.host,)

    async def run(self) -> None:
        """Follow the host until cancelled."""
        failures = 0
        while True:
            self._heard = None
            self._follow = asyncio.ensure_future(self._try())
            try:
                # In a task of its own, so that silence can end it without ending us.
                await asyncio.wait({self._follow})
            finally:
                self._follow.cancel()
                await asyncio.wait({self._follow}, timeout=CLOSE_S)
            reason = _reason(self._follow)
            failures = 1 if self._heard is not None else failures + 1
            self._show(replace(self.host, state=HostState.DOWN, error=reason))
            # Full jitter: hosts that went away together must not come back together.
            longest = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(failures, 8))
            self._hurried.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(self._random() * longest, self._hurried.wait())

    def tick(self, now: float) -> None:
        """Look for missing frames; `now` is the event loop's time. Call about once a second."""
        if self._heard is None or self._follow is None:
            return
        silent = now - self._heard
        if silent > SILENT_S:
            self._follow.cancel()
        elif silent > self._stale_after and self.host.state is HostState.UP:
            error = f"no frame for more than {self._stale_after:g} s"
            self._show(replace(self.host, state=HostState.STALE, error=error))

    def hurry(self) -> None:
        """Try again now, if it rests between two tries: the host is expected back."""
        self._hurried.set()

    async def _try(self) -> None:
        if isinstance(self._link, SshLink):
            await self._link.connect()
        refused: list[str] = []
        for way in list(self._ways):
            try:
                await self._read(way)
            except NoSourceError as error:
                refused.append(str(error))
                continue
            if isinstance(self._link, SshLink) and not self._link.connected:
                raise UnreachableError(
                    "Link lost", msg("{name}: the connection ended.", name=self.entry.name)
                )
            raise EngineError(
                "Agent ended",
                msg("{way} on {name} ended by itself.", way=way, name=self.entry.name),
            )
        self._ways = list(sources.WAYS)
        raise EngineError(
            "Host cannot be read",
            msg("{name}: {names}.", name=self.entry.name, names="; ".join(refused)),
        )

    async def _read(self, way: str) -> None:
        loop = asyncio.get_running_loop()
        interval = self.entry.poll_interval
        frames = sources.frames(
            self._link, self._base, way, interval, self._clock, together=self._together
        )
        async with contextlib.aclosing(frames):
            async for host in frames:
                if self._heard is None:
                    # What works here is tried first from now on.
                    self._ways.remove(way)
                    self._ways.insert(0, way)
                self._heard = loop.time()
                if host.state is HostState.UP:
                    self._show(host)
                else:
                    self._show(replace(self.host, error=host.error))

    def _show(self, host: Host) -> None:
        self.host = host
        self._publish(host)


def _reason(task: asyncio.Task[None]) -> str:
    if task.cancelled():
        return "no frame for a long time; starting again"
    error = task.exception()
    if isinstance(error, ConsoleError):
        return f"{error.title}: {error.message}" + (f" {error.hint}" if error.hint else "")
    # A fault of ours costs this host its frames, is shown, and is tried again like any other.
    return f"internal error: {type(error).__name__}: {error}"

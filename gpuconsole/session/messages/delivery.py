"""Brings one user's messages to them: in order, at a pace, by the first way that works."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from gpuconsole.config import NotifySection, WaySection
from gpuconsole.core.lab_service.messages import Message, Notice, message_of
from gpuconsole.core.lab_service.receivers import require_mailbox
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import ConsoleError
from gpuconsole.session.clock import Clock
from gpuconsole.session.messages.programs import mailed, shown
from gpuconsole.session.messages.webhooks import ANYWHERE, Guard, posted
from gpuconsole.session.triage.webhook import host_of

EVERY_S = 5.0
"""Least time between two messages to a user: chats take 20 a minute. What happens meanwhile goes
into one."""
PAUSES_S = (30.0, 60.0, 300.0, 900.0)
"""Rests after a message that no way took."""
STALE_S = 86400.0
"""What happened so long (s) ago is not reported any more."""
MOST_WAITING = 1000
"""Of a user's; the oldest are given up."""

Send = Callable[[WaySection, Message], Awaitable[str]]
"""Sends a message one way; returns why that failed, or ""."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How messages are sent from here. `mail` None lets mail go to any address; `desktop` says
    whether there is one."""

    now: Callable[[], float]
    sendmail: str
    guard: Guard = ANYWHERE
    mail: Sequence[str] | None = None
    desktop: bool = True

    async def send(self, way: WaySection, message: Message) -> str:
        """Send a message one way; return why that failed, or ""."""
        if way.address is not None:
            kind, url = way.address
            return await posted(kind, url, way.secret, message, self.now(), self.guard)
        if way.mail is not None:
            try:
                if self.mail is not None:
                    require_mailbox(way.mail, self.mail)
            except ConsoleError as error:
                return error.message
            return await mailed(self.sendmail, way.mail, message)
        return await shown(message) if self.desktop else "the lab's service has no desktop"


def named(way: WaySection) -> str:
    """Return a way for a person, without what is secret in it."""
    if way.address is not None:
        kind, url = way.address
        return f"{kind} ({host_of(url)})"
    return f"mail ({clean(way.mail, 100)})" if way.mail is not None else "desktop"


async def sent(ways: Iterable[WaySection], message: Message, send: Send) -> tuple[str, list[str]]:
    """Try ways in their order until one works; return that, "" for none, and why others failed."""
    failed: list[str] = []
    for way in ways:
        trouble = await send(way, message)
        if not trouble:
            return named(way), failed
        failed.append(f"{named(way)}: {trouble}")
    return "", failed


class Courier:
    """Sends what happens to one user's jobs."""

    def __init__(
        self,
        settings: Callable[[], NotifySection],
        send: Send,
        clock: Clock,
        on_trouble: Callable[[Notice, str], None],
    ) -> None:
        """`settings` are the user's as they are now; `on_trouble` hears once when no way works."""
        self._settings = settings
        self._send = send
        self._clock = clock
        self._on_trouble = on_trouble
        self._waiting: deque[Notice] = deque(maxlen=MOST_WAITING)
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def oldest(self) -> int | None:
        """The number of the oldest notice that is not sent yet; None while none waits."""
        return self._waiting[0].number if self._waiting else None

    def take(self, notice: Notice) -> None:
        """Have a notice sent; returns at once."""
        self._waiting.append(notice)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What sends now."""
        return self._task

    async def _run(self) -> None:
        while self._waiting:
            now = self._clock.now()
            fresh = [notice for notice in self._waiting if now - notice.at <= STALE_S]
            settings = self._settings()
            if fresh and settings.ways and not await self._tell(fresh, settings):
                pause = PAUSES_S[min(self._failures, len(PAUSES_S)) - 1]
                await self._clock.sleep(pause)
                continue
            last = fresh[-1].number if fresh else self._waiting[-1].number
            while self._waiting and self._waiting[0].number <= last:
                self._waiting.popleft()
            await self._clock.sleep(EVERY_S)

    async def _tell(self, notices: Sequence[Notice], settings: NotifySection) -> bool:
        """Send one message of these; whether a way worked."""
        way, failed = await sent(settings.ways, message_of(notices), self._send)
        if way:
            self._failures = 0
            return True
        self._failures += 1
        if self._failures == 1:
            self._on_trouble(notices[-1], "; ".join(failed))
        return False

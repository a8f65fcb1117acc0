"""Limits on an account's requests, so that one account cannot block the others."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

from gpuconsole.errors import RefusedError

NEW_PER_SECOND = 1000 / 3600
"""New jobs of an account, over time."""
NEW_AT_ONCE = 20_000.0
"""New jobs of an account at once after a pause: what ended stays in the journal, and all consoles
hear of it."""
PER_SECOND = 50.0
"""Requests of an account, over time; a console makes a few a minute, and four a second for each log
that is followed."""
AT_ONCE = 600.0
"""Requests that an account may make at once after it has made none: as many as it may have
connections (`connections.MOST`), when all its consoles connect again, and more."""
_MOST_ACCOUNTS = 10_000


class Rates:
    """Counts the requests of accounts; `clock` returns monotonic seconds."""

    def __init__(
        self,
        clock: Callable[[], float],
        per_second: float = PER_SECOND,
        at_once: float = AT_ONCE,
        words: tuple[str, str, str] | None = None,
    ) -> None:
        """`words` are what an account hears that has made too many: title, message and hint."""
        self._clock = clock
        self._per_second = per_second
        self._at_once = at_once
        self._words = words or (
            "Too many requests",
            f"An account has {per_second:g} requests a second, and each twenty jobs of an act "
            "count as one more; yours has made more.",
            "Wait a few seconds. A script that asks in a loop should use `gpuconsole wait`.",
        )
        self._left: dict[int, tuple[float, float]] = {}
        """The requests that an account may still make, and when that was so."""

    def take(self, uid: int, count: float = 1) -> None:
        """Count requests. RefusedError where the account has made too many."""
        now = self._clock()
        left, then = self._left.get(uid, (self._at_once, now))
        left = min(self._at_once, left + (now - then) * self._per_second) - count
        if left < 0:
            raise RefusedError(*self._words)
        self._left[uid] = (left, now)
        if len(self._left) > _MOST_ACCOUNTS:
            self._forget(now)

    def _forget(self, now: float) -> None:
        """Forget accounts that could make all requests again."""
        for uid, (left, then) in tuple(self._left.items()):
            if left + (now - then) * self._per_second >= self._at_once:
                del self._left[uid]


def new_jobs(clock: Callable[[], float], at_once: float = NEW_AT_ONCE) -> Rates:
    """Return what counts the new jobs of accounts."""
    per_hour = NEW_PER_SECOND * 3600
    return Rates(
        clock,
        NEW_PER_SECOND,
        at_once,
        (
            "Too many new jobs",
            f"An account may queue {at_once:g} new jobs, and {per_hour:g} more an hour.",
            "Wait, or retry jobs that have ended.",
        ),
    )


class Underway:
    """Counts what is being done for each account."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def of(self, uid: int) -> int:
        """Return how much is being done for an account."""
        return self._counts[uid]

    def total(self) -> int:
        """Return how much is being done for all accounts."""
        return self._counts.total()

    @contextlib.contextmanager
    def one_more(self, uid: int) -> Iterator[None]:
        """Count one more for an account while the context is open."""
        self._counts[uid] += 1
        try:
            yield
        finally:
            self._counts[uid] -= 1
            if not self._counts[uid]:
                del self._counts[uid]

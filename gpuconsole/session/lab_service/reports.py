"""Reports for callers of the lab's queue: operators see the hours of all users, others their own;
idle leases are shown to everybody."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from gpuconsole.core.lab_service.rights import Caller, Rights
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.report.model import Key, Query, UsageReport
from gpuconsole.session.report.service import report

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

_LONGEST = 200


class Reports:
    """Makes one report at a time for each account: it reads the whole journal."""

    def __init__(self, session: Session, rights: Rights) -> None:
        self._context = session._context
        self._rights = rights
        self._under_way: Counter[int] = Counter()

    async def make(self, caller: Caller, words: Mapping[str, str]) -> UsageReport:
        """Return the report that is asked for. ConsoleError where it cannot be made."""
        query = _query(words)
        if not caller.name:
            raise RefusedError("Who asks is not known", "Its account has no name.")
        if self._under_way[caller.uid]:
            raise RefusedError("A report is being made", "Wait for the other to end.")
        self._under_way[caller.uid] += 1
        try:
            user = "" if self._rights.is_operator(caller) else caller.name
            return await report(self._context, query, user)
        finally:
            self._under_way[caller.uid] -= 1


def words_of(query: Query) -> dict[str, str]:
    """Return a query as it is sent."""
    return {"since": repr(query.since), "until": repr(query.until), "by": ",".join(query.by)}


def _query(words: Mapping[str, str]) -> Query:
    keys = words.get("by", "")[:_LONGEST].split(",")
    # Words that are no keys are refused by the query.
    return Query(_time(words, "since"), _time(words, "until"), tuple(cast(list[Key], keys)))


def _time(words: Mapping[str, str], name: str) -> float:
    try:
        seconds = float(words.get(name, "")[:40])
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise UsageError("Wrong request", msg("`{name}` is no time.", name=name))
    return seconds

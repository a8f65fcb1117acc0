"""The hosts as witnesses of who leads: each grants an epoch to one head, and a majority decides.

A head that leads in epoch e may be followed by another one in epoch e+1 only. A head that wants
that epoch asks every host for it; two majorities have a host in common, so at most one head gets
it. The head that leads takes it itself to dismiss a standby that is gone. A user with rights on a
host's engine can write any mark there, so what fewer hosts than a majority say changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gpuconsole.core.containers import Engine, Hosts, LeadMark
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import ConsoleError
from gpuconsole.waiting import within

ASK_S = 8.0
"""How long a host may take to answer; connecting to it counts."""
Votes = Mapping[str, tuple[LeadMark, ...]]
"""The marks on each host that has answered."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of asking for an epoch."""

    epoch: int
    won: bool
    by: LeadMark | None = None
    """The mark of the head that leads instead."""
    silent: tuple[str, ...] = ()
    """Hosts that did not answer."""


class Witnesses:
    """Asks the hosts for their marks of one journal."""

    def __init__(self, names: Sequence[str], hosts: Hosts) -> None:
        """`names` are the hosts that bear witness: all of the inventory but clusters."""
        self.names = tuple(names)
        self.hosts = hosts

    @property
    def majority(self) -> int:
        """How many hosts decide."""
        return len(self.names) // 2 + 1

    async def read(self, journal: str) -> Votes:
        """Return the marks of those hosts that answer."""
        return await self._ask(lambda engine: engine.lead_marks(journal))

    async def mark(self, journal: str, mark: LeadMark) -> Votes:
        """Leave a mark on every host that answers and has not given its epoch away; return all
        marks there."""
        return await self._ask(lambda engine: engine.mark_lead(journal, mark))

    async def win(self, journal: str, mark: LeadMark, rounds: int = 1) -> Outcome:
        """Ask all hosts for the mark's epoch. Where they are divided, the head that leads may ask
        for the next one, in as many `rounds`; a standby may not, as it knows of the first only."""
        for _ in range(rounds):
            outcome, divided = judged(await self.mark(journal, mark), self.names, mark)
            if not divided:
                break
            mark = LeadMark(mark.epoch + 1, mark.head, mark.name)
        return outcome

    async def _ask(
        self, question: Callable[[Engine], Awaitable[tuple[LeadMark, ...]]]
    ) -> dict[str, tuple[LeadMark, ...]]:
        async def asked(name: str) -> tuple[LeadMark, ...] | None:
            try:
                return await within(ASK_S, self._answer(name, question))
            except (ConsoleError, asyncio.TimeoutError):
                return None

        answers = await asyncio.gather(*map(asked, self.names))
        by_name = zip(self.names, answers, strict=True)
        return {name: marks for name, marks in by_name if marks is not None}

    async def _answer(
        self, name: str, question: Callable[[Engine], Awaitable[tuple[LeadMark, ...]]]
    ) -> tuple[LeadMark, ...]:
        return await question(await self.hosts.engine(name))


def leader_after(votes: Votes, voters: Sequence[str], head: str, epoch: int) -> LeadMark | None:
    """Return the latest mark by which another head leads in a later epoch than `epoch`: of its
    marks the latest that a majority of the hosts reaches. None where no head has a majority."""
    latest: dict[str, list[LeadMark]] = defaultdict(list)
    for marks in votes.values():
        for other in {mark.head for mark in marks if mark.epoch > epoch and mark.head != head}:
            own = (mark for mark in marks if mark.head == other)
            latest[other].append(max(own, key=lambda mark: mark.epoch))
    majority = len(voters) // 2 + 1
    won = (
        sorted(marks, key=lambda mark: -mark.epoch)[majority - 1]
        for marks in latest.values()
        if len(marks) >= majority
    )
    return max(won, key=lambda mark: mark.epoch, default=None)


def epoch_reached(votes: Votes, voters: Sequence[str]) -> int:
    """Return the latest epoch that may have been given by a majority of the hosts. The epochs that
    fewer hosts name are left out: one host could name the last there is."""
    majority = len(voters) // 2 + 1
    latest = sorted(max((mark.epoch for mark in marks), default=0) for marks in votes.values())
    return latest[majority - 1] if len(latest) >= majority else 0


def judged(votes: Votes, voters: Sequence[str], mark: LeadMark) -> tuple[Outcome, bool]:
    """Return the outcome of asking for a mark's epoch, and whether all hosts have answered and are
    divided, so that no head has that epoch or ever will."""
    silent = tuple(name for name in voters if name not in votes)
    by = leader_after(votes, voters, mark.head, mark.epoch - 1)
    if by is not None:
        return Outcome(mark.epoch, False, by, silent), False
    own = sum(_grants(marks, mark) for marks in votes.values())
    won = own >= len(voters) // 2 + 1
    return Outcome(mark.epoch, won, None, silent), not won and not silent


def _grants(marks: Sequence[LeadMark], mark: LeadMark) -> bool:
    """Whether a host grants a mark's epoch to its head: it has not granted a later one."""
    own = any((each.epoch, each.head) == (mark.epoch, mark.head) for each in marks)
    return own and not any(each.epoch > mark.epoch and each.head != mark.head for each in marks)

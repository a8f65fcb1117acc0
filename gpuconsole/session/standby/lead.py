"""Leading the lab's queue: whether this head still may, and what its standby has of the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from gpuconsole.core.containers import Engine, LeadMark
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UnreachableError
from gpuconsole.session.context import Context
from gpuconsole.session.standby.copying import Copying
from gpuconsole.session.standby.witnesses import Votes, Witnesses, leader_after
from gpuconsole.state.files.head_state import StandingFile
from gpuconsole.waiting import within

LOOK_S = 0.5
WITNESS_EVERY_S = 5.0
"""How often all hosts are asked whether another head leads."""
LOST_S = 5.0
"""A standby of which nothing was heard for so long is dismissed."""
BEHIND_S = 60.0
"""One that lives is dismissed when it confirms nothing that is waited for in so long: a large
project may take a while."""
ROUNDS = 5
"""Epochs that are asked for at once where hosts are divided."""
CONFIRM_S = 15.0
"""How long a caller waits for a standby of which nothing is heard."""


class Lead:
    """One head's claim to lead. Without a standby that ever was, nothing is asked or waited for.

    `gated` means that a standby may take over by itself: it is waited for then. To wait no longer,
    this head first takes the next epoch from it, on a majority of the hosts.
    """

    def __init__(
        self,
        standing: StandingFile,
        name: str,
        witnesses: Witnesses,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """`name` is this head's, for a person; `say` hears sentences for the service's log."""
        self.standing = standing
        self.name = name
        self.witnesses = witnesses
        self.deposed = asyncio.Event()
        """Set once another head leads."""
        self.leader: LeadMark | None = None
        """Which one."""
        self.gated = standing.present.in_step
        self._say = say
        self._said = ""
        self._copying: Copying | None = None
        self._journal = ""
        self._wanted = 0
        self._confirmed = 0
        self._begun = 0
        self._heard_at = self._confirmed_at = self._asked_at = 0.0
        self._looked_at = 0.0
        self._suspected = False
        self._news = asyncio.Event()

    @property
    def standby(self) -> str:
        """The standby's name; "" while none follows."""
        return self._copying.name if self._copying is not None else ""

    async def may_lead(self, journal: str) -> bool | None:
        """Tell whether this head may begin to lead; None while too few hosts answer."""
        if not self.standing.present.followed:
            return True
        votes = await self.witnesses.read(journal)
        if self._deposer(votes) is not None:
            return False
        return True if len(votes) >= self.witnesses.majority else None

    async def run(self, context: Context) -> None:
        """Look after the standby and the hosts' marks until cancelled, or another head leads."""
        now = asyncio.get_running_loop().time
        self._journal = context.journal.id
        self._heard_at = self._confirmed_at = now()
        while not self.deposed.is_set():
            try:
                await self._look(now())
            except (ConsoleError, OSError) as error:
                self._note(f"The standby cannot be looked after: {error}")
            await asyncio.sleep(LOOK_S)

    def fence(self, host: str, engine: Engine) -> Engine:
        """Return an engine that is asked only while this head leads."""

        return fenced(engine, host, self)

    async def copied(self) -> None:
        """Return once a standby that may take over has all that is written now.

        UnreachableError where another head leads.
        """
        if self.gated:
            # All that is written now is in every copy that is begun later.
            wanted = self._begun + 1
            if wanted > self._wanted:
                self._wanted = wanted
            if self._confirmed_at >= self._asked_at:
                self._asked_at = asyncio.get_running_loop().time()
            if self._copying is not None:
                self._copying.hurry()
            while self.gated and self._confirmed < wanted and not self.deposed.is_set():
                await self._news.wait()
        self.require_lead()

    async def confirmed(self) -> None:
        """Return once what a caller has asked for cannot be lost with this head.

        UnreachableError if that is unknown: another head may lead, without it.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CONFIRM_S + BEHIND_S
        while True:
            try:
                return await within(CONFIRM_S, self.copied())
            except asyncio.TimeoutError:
                if loop.time() - self._heard_at > LOST_S or loop.time() > deadline:
                    break
        raise UnreachableError(
            "The lab's queue cannot confirm it",
            msg(
                "{name} hears neither its standby nor enough hosts: another head may lead.",
                name=self.name,
            ),
            "It is done if this head goes on, and lost otherwise: look again before you repeat it.",
        )

    def require_lead(self) -> None:
        """Raise UnreachableError where another head leads."""
        if self.deposed.is_set():
            raise UnreachableError(
                "Another head leads",
                msg(
                    "{value} leads the lab's queue now.",
                    value=self.leader.name if self.leader else "Another head",
                ),
                "This one changes nothing any more.",
            )

    async def require(self, host: str, engine: Engine) -> None:
        """Raise UnreachableError where a host has given a later epoch to another head."""
        self.require_lead()
        if not self.standing.present.followed or host not in self.witnesses.names:
            return
        own = self.standing.present
        marks = await engine.lead_marks(self._journal)
        later = [mark for mark in marks if mark.epoch > own.epoch and mark.head != own.head]
        if later:
            mark = max(later, key=lambda mark: mark.epoch)
            # A head asks for the next epoch. One far off was written by somebody else, and no
            # epoch that this head takes would help.
            self._suspected = mark.epoch <= own.epoch + ROUNDS
            raise UnreachableError(
                "Another head may lead",
                msg(
                    "{host} has given epoch {epoch} of the lab's queue to {name}.",
                    host=host,
                    epoch=mark.epoch,
                    name=mark.name,
                ),
                "The other hosts are asked; nothing is started until then.",
            )

    async def follow(
        self, context: Context, name: str, head: str, send: Callable[[bytes], Awaitable[None]]
    ) -> Copying:
        """Begin to send copies to a standby. RefusedError where another one follows."""
        present = self._copying
        if not self.witnesses.names:
            raise RefusedError(
                "No host can bear witness", "The lab has no hosts but clusters.",
                "A standby needs a Docker host that both heads reach.",
            )  # fmt: skip
        if present is not None and present.head != head:
            raise RefusedError(
                "Another head is on standby",
                msg("{name} follows {name2} already.", name=present.name, name2=self.name),
                "One standby at a time can.",
            )  # fmt: skip
        self.standing.change(followed=True)
        copying_ = Copying(context, self, name, head, send)
        self._copying = copying_
        self._heard_at = asyncio.get_running_loop().time()
        return copying_

    def left(self, copying: Copying) -> None:
        """Note that a standby's connection has ended."""
        if self._copying is copying:
            self._copying = None

    def begin(self) -> int:
        """Return the number of a copy that begins now."""
        self._begun += 1
        return self._begun

    @property
    def asked(self) -> bool:
        """Whether a copy is waited for that was not begun."""
        return self._wanted > self._begun

    def heard(self, copying: Copying, number: int) -> None:
        """Note that a standby has the copy of that number on its disk."""
        if copying is not self._copying or number > self._begun:
            return
        self._heard_at = asyncio.get_running_loop().time()
        if number > self._confirmed:
            self._confirmed, self._confirmed_at = number, self._heard_at
            self._wake()
        if not self.gated and number == self._begun and copying.whole:
            # It is waited for first, then informed: with the next copy.
            self.standing.change(in_step=True)
            self.gated = True
            self._note(f"{copying.name} follows and may take over.", "information")

    async def _look(self, now: float) -> None:
        quiet = now - self._heard_at > LOST_S
        waiting = self._confirmed < self._wanted
        behind = waiting and now - max(self._confirmed_at, self._asked_at) > BEHIND_S
        if self.gated and (quiet or behind):
            why = "was not heard" if quiet else "confirms nothing"
            await self._dismiss(f"The standby {why} for {LOST_S if quiet else BEHIND_S:.0f} s")
        elif self.standing.present.followed and (
            self._suspected or now - self._looked_at >= WITNESS_EVERY_S
        ):
            self._looked_at = now
            await self._ask_witnesses()

    async def _ask_witnesses(self) -> None:
        own = self.standing.present
        votes = await self.witnesses.read(self._journal)
        deposer = self._deposer(votes)
        if deposer is not None:
            self._step_down(deposer)
        elif self._suspected:
            self._suspected = False
            await self._dismiss("Another head has asked for the lead")
        elif own.epoch and any(
            not any(mark.head == own.head and mark.epoch == own.epoch for mark in marks)
            for marks in votes.values()
        ):
            # A host that was away, or on which somebody has pruned containers.
            await self.witnesses.mark(self._journal, self._mark(own.epoch))

    async def _dismiss(self, why: str) -> None:
        """Take the next epoch, so that a standby cannot; only then it is waited for no more."""
        own = self.standing.present
        outcome = await self.witnesses.win(self._journal, self._mark(own.epoch + 1), ROUNDS)
        if outcome.by is not None:
            self._step_down(outcome.by)
        elif outcome.won:
            self.standing.change(epoch=outcome.epoch, in_step=False)
            self.gated = False
            self._wake()
            self._note(f"{why}; this head goes on alone.")
        else:
            silent = ", ".join(outcome.silent[:5])
            self._note(
                f"{why}, and too few hosts answer to go on without it ({silent}): nothing is"
                " started until it or they are back."
            )

    def _deposer(self, votes: Votes) -> LeadMark | None:
        own = self.standing.present
        return leader_after(votes, self.witnesses.names, own.head, own.epoch)

    def _step_down(self, by: LeadMark) -> None:
        self.leader = by
        self.standing.change(leads=False, in_step=False)
        self.deposed.set()
        self._wake()
        self._note(f"{by.name} leads the lab's queue now; this head is on standby.")

    def _mark(self, epoch: int) -> LeadMark:
        return LeadMark(epoch, self.standing.present.head, self.name)

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _note(self, words: str, severity: str = "warning") -> None:
        if words != self._said:
            self._said = words
            self._say(f"{severity}: {words}")


class FencedEngine:
    """An engine that is asked only while its head leads.

    A container starts, and one that has run goes away, only once the standby has what was written
    before; so a head that takes over knows of all that has run. And each time the host itself is
    asked whether it has granted a later epoch to another head: it is a witness that cannot be
    bypassed.
    """

    def __init__(self, engine: Engine, host: str, lead: Lead) -> None:
        self._engine = engine
        self._host = host
        self._lead = lead

    async def start(self, container: str) -> None:
        """Start the container; starting a running one is no error."""
        await self._lead.copied()
        await self._lead.require(self._host, self._engine)
        await self._engine.start(container)

    async def stop(self, container: str, grace_s: float) -> None:
        """SIGTERM, then SIGKILL after the grace time; a stopped container is no error."""
        await self._lead.require(self._host, self._engine)
        await self._engine.stop(container, grace_s)

    async def remove(self, container: str) -> None:
        """Remove the container; one that is gone is no error."""
        await self._lead.copied()
        await self._lead.require(self._host, self._engine)
        await self._engine.remove(container)

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)


def fenced(engine: Engine, host: str, lead: Lead) -> Engine:
    """Return the engine as a head uses it."""
    return cast(Engine, FencedEngine(engine, host, lead))

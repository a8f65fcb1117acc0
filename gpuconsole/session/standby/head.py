"""One head of the lab's queue: it leads, or is the standby until it takes over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from gpuconsole.core.containers import Hosts, LeadMark
from gpuconsole.core.lab_service.audit import Act
from gpuconsole.core.lab_service.rights import Caller, Rights
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, JournalError, RefusedError, UsageError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.lab_service.console.client import Way
from gpuconsole.session.lab_service.protocol import HeadState
from gpuconsole.session.standby.follower import Follower
from gpuconsole.session.standby.lead import ROUNDS, Lead
from gpuconsole.session.standby.standby_server import TAKE_OVER, StandbyServer
from gpuconsole.session.standby.witnesses import Outcome, Witnesses, epoch_reached
from gpuconsole.state import Journal
from gpuconsole.state.backup.backups import install
from gpuconsole.state.backup.copies import STORE_NAME, CopyStore, Held
from gpuconsole.state.files.head_state import StandingFile
from gpuconsole.state.journal_guard import identity_of

LOOK_S = 0.2
AGAIN_S = 5.0
"""Rest after a take-over by time-out that the hosts have not given."""


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """What a head is started with."""

    name: str
    """For a person: the host's name."""
    folder: Path
    """State folder."""
    socket: Path
    rights: Rights
    voters: Sequence[str]
    """Hosts that bear witness of who leads."""
    hosts: Callable[[], Hosts]
    """Makes the links to them, not yet started."""
    ways: Callable[[], Sequence[Way]]
    """Makes the ways to the other heads, of which one may lead to this one."""
    standby: bool = False
    """Whether this head waits for another to lead where it has never led."""
    after_s: float | None = None
    """After how long without a word of the other head this one takes over; None means never by
    itself."""


class Head:
    """Is leader and standby in turn."""

    def __init__(self, settings: HeadSettings, say: Callable[[str], None]) -> None:
        """`say` hears sentences for the service's log. JournalError where the state folder does
        not say whether this head leads."""
        self._settings = settings
        self._say = say
        self._standing = StandingFile(settings.folder)
        self._taking = asyncio.Lock()
        self._follower: Follower | None = None
        self._following: asyncio.Future[None] | None = None
        self._won = asyncio.Event()
        self._note = ""

    async def run(self, serve: Callable[[Lead], Awaitable[None]], stop: asyncio.Event) -> None:
        """Lead and stand by in turn until `stop`. `serve` leads: it returns once `stop` is set or
        another head leads."""
        if not self._standing.path.exists():
            self._standing.change(leads=not self._settings.standby)
        while not stop.is_set():
            if not self._standing.present.leads:
                await self._stand_by(stop)
                continue
            hosts = self._settings.hosts()
            lead = Lead(
                self._standing,
                self._settings.name,
                Witnesses(self._settings.voters, hosts),
                self._say,
            )
            try:
                may = await self._may_lead(lead, stop)
            finally:
                await hosts.close()
            if may:
                self._forget_copy()
                await serve(lead)

    def _forget_copy(self) -> None:
        """Forget what another head once sent: it is older than the journal here."""
        if (self._settings.folder / STORE_NAME).exists():
            with contextlib.closing(CopyStore(self._settings.folder)) as store:
                store.clear()

    async def _may_lead(self, lead: Lead, stop: asyncio.Event) -> bool:
        """Ask the hosts whether another head leads meanwhile, until enough of them answer."""
        try:
            journal = identity_of(self._settings.folder)
        except JournalError:
            # A new queue: no standby can have followed it.
            return True
        if (may_lead := await lead.may_lead(journal)) is None:
            words = "Too few hosts answer to tell whether another head leads"
            self._say(f"warning: {words}; nothing is started until a majority does.")
            async with self._answering(words):
                while may_lead is None and not stop.is_set():
                    await asyncio.sleep(1.0)
                    may_lead = await lead.may_lead(journal)
        if may_lead is False:
            self._say("warning: Another head leads the lab's queue now; this head is on standby.")
            self._standing.change(leads=False, in_step=False)
        return bool(may_lead) and not stop.is_set()

    @contextlib.asynccontextmanager
    async def _answering(self, note: str) -> AsyncIterator[None]:
        """Answer consoles that this head does not lead yet."""

        async def refused(force: bool, caller: Caller) -> None:
            raise RefusedError("No take-over", msg("{note}.", note=note), "It leads once they do.")

        state = HeadState(False, self._settings.name, note=note)
        settings = self._settings
        async with StandbyServer(settings.socket, settings.rights, lambda: state, refused):
            yield

    async def _stand_by(self, stop: asyncio.Event) -> None:
        settings = self._settings
        ways = settings.ways()
        if not ways:
            raise UsageError(
                "No other head is known",
                "A standby follows the heads that its inventory names.",
                "Say `queue: {host: [HEAD, HEAD]}` there.",
            )
        head = self._standing.present.head
        self._won.clear()
        self._follower = follower = Follower(
            ways, settings.folder, settings.name, head, settings.voters, self._say
        )
        self._say(f"information: {settings.name} is on standby.")
        try:
            async with StandbyServer(
                settings.socket, settings.rights, self._state, self._asked_to_take_over
            ):
                self._following = asyncio.ensure_future(follower.run())
                await self._until_leading(stop)
        finally:
            await self._pause()
            follower.close()
            self._follower = None
            for way in ways:
                await way.close()

    async def _until_leading(self, stop: asyncio.Event) -> None:
        now = asyncio.get_running_loop().time
        after_s, tried_at = self._settings.after_s, now() - AGAIN_S
        assert self._follower is not None
        while not (stop.is_set() or self._won.is_set()):
            await asyncio.sleep(LOOK_S)
            following = self._following
            if following is not None and following.done():
                following.result()
            silent_s = now() - self._follower.heard_at
            due = after_s is not None and silent_s > after_s and now() - tried_at > AGAIN_S
            if due and not self._taking.locked():
                tried_at = now()
                await self._take_over_by_itself(silent_s)

    async def _take_over_by_itself(self, silent_s: float) -> None:
        assert self._follower is not None
        other = self._follower.active or "The other head"
        try:
            await self._take_over(False, None, silent_s)
            self._say(f"warning: {other} was silent for {silent_s:.0f} s: took over.")
        except ConsoleError as error:
            words = f"{other} is silent, and it cannot be taken over: {error.message}"
            if words != self._note:
                self._note = words
                self._say(f"warning: {words}")

    async def _asked_to_take_over(self, force: bool, caller: Caller) -> None:
        """Take over for an operator, or raise the ConsoleError that says why not."""
        who = f"{caller.name} (uid {caller.uid}, {caller.origin or 'here'})"
        try:
            await self._take_over(force, caller)
        except ConsoleError as error:
            self._say(f"warning: {clean(who, 200)} asked for a take-over: {error.message}")
            raise
        self._say(f"warning: took over for {clean(who, 200)}.")

    async def _take_over(
        self, force: bool, caller: Caller | None = None, silent_s: float = 0.0
    ) -> None:
        """Take over, or raise the ConsoleError that says why not. Without a caller it is by itself,
        after the other head was silent for so long (s)."""
        async with self._taking:
            if self._won.is_set():
                return
            follower = self._follower
            assert follower is not None
            # From here on nothing is confirmed: what the other head writes now, it does not act on.
            await self._pause()
            try:
                outcome, sure = await self._won_epoch(follower.store.held, force)
                await asyncio.to_thread(self._install, follower, hold=not sure)
                how = "by force" if force else "by command"
                how = how if caller is not None else f"by itself after {silent_s:.0f} s of silence"
                other = clean(follower.active, 128) or "another head"
                detail = f"epoch {outcome.epoch}, from {other}, {how}"
                await asyncio.to_thread(self._record, caller or _service(), detail)
            except BaseException:
                self._following = asyncio.ensure_future(follower.run())
                raise
            self._standing.change(leads=True, epoch=outcome.epoch, followed=True, in_step=False)
            self._note = ""
            self._won.set()

    async def _pause(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            await cancel_all([following])

    async def _won_epoch(self, held: Held, force: bool) -> tuple[Outcome, bool]:
        """Get an epoch from the hosts; returns it, and whether the copy has all that was begun.
        RefusedError where they do not give one."""
        if not held.journal:
            raise RefusedError("No take-over", "No copy of the journal is here yet.", "")
        settings = self._settings
        hosts = settings.hosts()
        witnesses = Witnesses(settings.voters, hosts)
        own = self._standing.present.head
        try:
            outcome = None
            if held.in_step:
                mark = LeadMark(held.epoch + 1, own, settings.name)
                outcome = await witnesses.win(held.journal, mark)
                if outcome.won:
                    return outcome, True
            if not force:
                raise _not_given(held, outcome, witnesses.majority)
            votes = await witnesses.read(held.journal)
            latest = max(epoch_reached(votes, witnesses.names), held.epoch)
            mark = LeadMark(latest + 1, own, settings.name)
            outcome = await witnesses.win(held.journal, mark, ROUNDS)
            if outcome.won:
                return outcome, False
            raise _not_given(held, outcome, witnesses.majority)
        finally:
            await hosts.close()

    def _record(self, caller: Caller, detail: str) -> None:
        """Write the take-over into the audit of the queue that this head leads now."""
        name = self._settings.name
        act = Act(time.time(), caller.name, caller.uid, caller.origin, TAKE_OVER, name, detail)
        with contextlib.closing(Journal(self._settings.folder, clock=time.time)) as journal:
            journal.record(act)

    def _install(self, follower: Follower, *, hold: bool) -> None:
        held = follower.store.held
        path = follower.store.written()
        install(self._settings.folder, path, time.time(), made_at=held.made_at, hold=hold)

    def _state(self) -> HeadState:
        follower = self._follower
        held = follower.store.held if follower is not None else Held()
        active = follower.active if follower is not None else ""
        note = self._note
        if not note and not held.journal:
            note = "no copy of the journal is here yet"
        return HeadState(
            False, self._settings.name, clean(active, 128), in_step=held.in_step, note=note
        )


def _service() -> Caller:
    """Return the account of this service as one that asks."""
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return Caller(uid, name, origin="the service")


def _not_given(held: Held, outcome: Outcome | None, needed: int) -> RefusedError:
    """Return why a take-over cannot be."""
    if outcome is None:
        return RefusedError(
            "The copy may lack something",
            "The other head did not wait for this one when it was heard last.",
            "`gpuconsole takeover --force` takes over all the same; what waits is held until all"
            " hosts were asked.",
        )
    if outcome.by is not None:
        return RefusedError(
            "Another head leads",
            msg(
                "The hosts have given epoch {epoch} to {name}.",
                epoch=outcome.epoch,
                name=outcome.by.name,
            ),
            "If that head is gone for good: `gpuconsole takeover --force`.",
        )
    silent = ", ".join(outcome.silent[:5])
    return RefusedError(
        "Too few hosts answer",
        msg(
            "{needed} must give their word, and these are silent: {value}.",
            needed=needed,
            value=silent or "none",
        ),
        "Where hosts are gone for good, remove them from the inventory of this head and start it"
        " again.",
    )

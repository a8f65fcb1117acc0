"""Triage at work: the rules at each look, incidents in the journal, and notifications.

Every console of a journal watches; what one has noted the others take up, so an incident is one row
however many see it. A user's mark on it is seen by all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuconsole.core.events import Event
from gpuconsole.core.history import sampling_s
from gpuconsole.core.incidents import Action, Incident, Severity, without_mark
from gpuconsole.core.jobs import Job
from gpuconsole.core.roll import roll_of
from gpuconsole.core.text import clean
from gpuconsole.core.units import iso_utc
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError, ReadOnlyError, UsageError
from gpuconsole.session.async_helpers import together
from gpuconsole.session.context import Context
from gpuconsole.session.fleet.leases import LeaseBoard
from gpuconsole.session.triage.webhook import Webhook
from gpuconsole.state.tables.incidents import event_of
from gpuconsole.triage import Changes, Surroundings, Watch, actions_for, ticket

if TYPE_CHECKING:
    from gpuconsole.core.fleet import Host

LOOK_EVERY_S = 2.0
"""The hosts of a large fleet take turns, as long as those in which its history is sampled. A host
that is lost, comes back, or has changed jobs is looked at at once."""
REFRESH_EVERY_S = 20.0
"""How often (s) figures in evidence are refreshed: a recorder of incidents writes each change."""
RENEW_EVERY_S = 60.0
"""How often (s) the journal notes that an incident is still open, unless it changed."""
SLICE = 64
"""Hosts looked at before others may work: a large fleet must not hold up a key."""
LONGEST_SNOOZE_S = 30 * 86400.0


class Triage:
    """What is wrong in the lab, since when, and what a person said of it."""

    def __init__(self, context: Context, leases: LeaseBoard, tell: Callable[[Event], None]) -> None:
        self._context = context
        self._journal = context.journal
        self._clock = context.clock
        self._fleet = context.hosts
        self._leases = leases
        self._tell = tell
        self._settings = context.settings.triage
        self._around = Surroundings()
        self._watch: Watch | None = None
        self._standing: dict[str, Incident] = {}
        self._renewed = self._refreshed = 0.0
        self._shown: tuple[tuple[Incident, ...] | None, dict[str, Incident], bool] | None = None
        self._answer: tuple[Incident, ...] = ()
        self._webhook = Webhook(self._settings.webhook, self._tell_webhook)
        self.shared: Callable[[tuple[Incident, ...]], tuple[Incident, ...]] = lambda incidents: (
            incidents
        )
        """Adds the marks of users that hold for everybody; the lab's service sets it."""
        self.looked_at: float | None = None
        """When the lab was last looked at."""

    async def run(self) -> None:
        """Look until cancelled."""
        await together(self._looking(), self._webhook.run())

    def remember(self, earlier: Iterable[Incident]) -> None:
        """Take what was noted elsewhere where the journal has no incidents of its own."""
        if self._journal.incidents():
            return
        for incident in earlier:
            if self._writable:
                self._journal.open_incident(incident)
            elif incident.ended_at is None:
                self._standing[incident.id] = incident

    async def look(self) -> None:
        """Ask the rules about everything that changed, and note what opened and ended."""
        watch = self._watch
        if watch is None:
            noted_by_id = {incident.id: incident for incident in self._noted()}
            watch = self._watch = Watch(
                self._settings.limits, (self._standing | noted_by_id).values()
            )
        snapshot, now = self._fleet.snapshot(), self._clock.now()
        touched = self._around.take(
            self._jobs(), self._leases.others(self._journal.id), self._leases.silent()
        )
        turn_s = sampling_s(roll_of(snapshot.hosts).all_devices)
        every = turn_s if turn_s > LOOK_EVERY_S else 0.0
        for number, host in enumerate(watch.due(snapshot, touched, now, every), start=1):
            watch.examine(host, self._around, now)
            if number % SLICE == 0:
                await asyncio.sleep(0)
        changes, standing = watch.settle(now), watch.current()
        self.looked_at = now
        if now - self._refreshed >= REFRESH_EVERY_S or _is_news(standing, self._standing):
            self._standing, self._refreshed = standing, now
        if self._writable:
            # Without the journal the incidents are shown as this console sees them.
            with contextlib.suppress(JournalError):
                self._note(watch, changes, standing, now)
        else:
            for incident in changes.opened:
                if all(other.id != incident.id for other in self._noted()):
                    self._tell(event_of(incident, now))

    def incidents(self) -> tuple[Incident, ...]:
        """Return what is wrong and the latest that was; the same tuple while nothing changed."""
        try:
            noted: tuple[Incident, ...] | None = self._journal.incidents()
        except JournalError:
            noted = None
        alone = noted is None or not self._writable
        key = (noted, self._standing, alone)
        if self._shown is None or any(a is not b for a, b in zip(key, self._shown, strict=True)):
            self._shown = key
            self._answer = _merged(noted or (), self._standing, alone=alone)
        return self.shared(self._answer)

    def incident(self, reference: str) -> Incident:
        """Return the incident of an id, or of the beginning of the id of an open one, with what can
        be done about it. UsageError when there is none or there are several."""
        by_id = {incident.id: incident for incident in self.incidents()}
        exact = by_id.get(reference)
        if exact is None:
            stand = [incident for incident in self.incidents() if incident.ended_at is None]
            begun = [each for each in stand if each.id.startswith(reference)] if reference else []
            if len(begun) != 1:
                raise _unclear(reference, begun)
            exact = begun[0]
        return replace(exact, actions=self.actions(exact))

    def actions(self, incident: Incident) -> tuple[Action, ...]:
        """Return what a person can do about an incident, the most useful first."""
        if incident.ended_at is not None:
            return ()
        host = self._fleet.snapshot().host(incident.host)
        return actions_for(incident, host, self._near(incident))

    def ticket(self, incident: Incident) -> str:
        """Return what is known of an incident as plain text, for the person who repairs it."""
        host: Host | None = self._fleet.snapshot().host(incident.host)
        return ticket(incident, host, self._clock.now())

    async def acknowledge(self, reference: str, by: str = "") -> Incident:
        """Say that it has been seen; `by` is who says so where that is not the session's user."""
        return await self._marked("acknowledge", reference, by, marked="acknowledged")

    async def snooze(self, reference: str, seconds: float, by: str = "") -> Incident:
        """Put it off for so long; UsageError unless that is more than nothing, at most 30 days."""
        if not 0.0 < seconds <= LONGEST_SNOOZE_S:
            raise UsageError(
                "Wrong time", "An incident can be put off for up to 30 days.", "Such as 1h or 2d."
            )
        until = self._clock.now() + seconds
        return await self._marked("snooze", reference, by, marked="snoozed", until=until)

    async def resolve(self, reference: str, by: str = "") -> Incident:
        """Say that it is no fault: closed until it has gone away and comes back."""
        return await self._marked("resolve", reference, by, marked="resolved")

    async def reopen(self, reference: str, by: str = "") -> Incident:
        """Take back what was said of it."""
        return await self._marked("reopen", reference, by, marked="")

    # -- within -----------------------------------------------------------------------------

    @property
    def _writable(self) -> bool:
        return not (self._context.read_only or self._journal.read_only)

    async def _looking(self) -> None:
        while True:
            await self.look()
            await self._clock.sleep(LOOK_EVERY_S)

    def _jobs(self) -> tuple[Job, ...]:
        try:
            return self._journal.jobs()
        except JournalError:
            return ()

    def _noted(self) -> tuple[Incident, ...]:
        """Return the incidents that stand in the journal."""
        try:
            return tuple(
                incident for incident in self._journal.incidents() if incident.ended_at is None
            )
        except JournalError:
            return ()

    def _near(self, incident: Incident) -> list[Job]:
        """Return the jobs that an incident hits, and those on its host."""
        around = {job.id for job in self._around.on_host.get(incident.host, ())}
        try:
            jobs = [self._journal.job(job_id) for job_id in sorted(around | set(incident.jobs))]
        except JournalError:
            return []
        return [job for job in jobs if job is not None]

    def _note(
        self, watch: Watch, changes: Changes, standing: Mapping[str, Incident], now: float
    ) -> None:
        """Bring the journal and this watch together."""
        for incident in changes.closed:
            if self._journal.close_incident(incident):
                self._announce("ended", incident)
        noted = {each.id: each for each in self._noted()}
        for key, incident in standing.items():
            # What another console has ended is not opened again by one that merely has not yet.
            if key in noted or not watch.in_sight(key):
                continue
            if self._journal.open_incident(without_mark(incident)):
                self._announce("opened", incident)
        for key, noted_incident in noted.items():
            if key not in standing:
                watch.adopt(noted_incident)
        became = [
            each for key, each in standing.items() if key in noted and _differ(each, noted[key])
        ]
        if now - self._renewed >= RENEW_EVERY_S:
            self._renewed = now
            became = [each for key, each in standing.items() if key in noted]
        if became:
            self._journal.renew_incidents(became)

    def _announce(self, what: str, incident: Incident) -> None:
        if incident.severity.rank <= Severity(self._settings.notify).rank:
            now = self._clock.now()
            document = {"event": what, "at": iso_utc(now), "incident": incident.as_json(now)}
            self._webhook.post(document)

    def _tell_webhook(self, message: str) -> None:
        self._tell(Event("error", "webhook", message, self._clock.now(), "error"))

    async def _marked(self, verb: str, reference: str, by: str, **said: object) -> Incident:
        self._require_marks()
        incident = self.incident(reference)
        now = self._clock.now()
        who = by or self._context.user
        marked = replace(incident, until=None, marked_by=who, marked_at=now)
        marked = replace(marked, **said)  # type: ignore[arg-type]
        await self._keep_mark(verb, marked)
        return marked

    def _require_marks(self) -> None:
        """Raise ReadOnlyError where nothing may be said of incidents."""
        if not self._writable:
            raise ReadOnlyError(
                "Read-only",
                "A mark on an incident was refused: this console was opened to look only.",
                "Open it again without --read-only.",
            )

    async def _keep_mark(self, verb: str, marked: Incident) -> None:
        """Write what was said of an incident, for all to see. UsageError where it is over."""
        if not self._journal.mark_incident(marked):
            raise UsageError("It is resolved", msg("{id} ended by itself.", id=marked.id))


def _merged(
    noted: tuple[Incident, ...], standing: dict[str, Incident], *, alone: bool
) -> tuple[Incident, ...]:
    """Return the journal's incidents as they look now; `alone` adds what only this console sees."""
    merged = [
        _fresh(each, standing.get(each.id)) if each.ended_at is None else each for each in noted
    ]
    if alone:
        open_ids = {each.id for each in noted if each.ended_at is None}
        merged += [each for key, each in standing.items() if key not in open_ids]
    return tuple(merged)


def _fresh(noted: Incident, seen: Incident | None) -> Incident:
    """Return an incident of the journal with what this console sees of it."""
    if seen is None:
        return noted
    return replace(
        noted,
        severity=seen.severity,
        title=seen.title,
        last_seen=max(seen.last_seen, noted.last_seen),
        jobs=seen.jobs or noted.jobs,
        evidence=seen.evidence or noted.evidence,
        confidence=seen.confidence,
        reason=seen.reason or noted.reason,
    )


def _is_news(now: Mapping[str, Incident], before: Mapping[str, Incident]) -> bool:
    """Whether more than figures has changed: which incidents are open, their severity, or the
    affected jobs."""
    return now.keys() != before.keys() or any(
        each.title != before[key].title or _differ(each, before[key]) for key, each in now.items()
    )


def _differ(seen: Incident, noted: Incident) -> bool:
    return seen.severity is not noted.severity or seen.jobs != noted.jobs


def _unclear(reference: str, begun: list[Incident]) -> UsageError:
    shown = clean(reference, 80)
    if begun:
        ids = ", ".join(clean(incident.id, 80) for incident in begun[:4])
        return UsageError(
            "Not one incident",
            msg("{shown} begins {begun} ids.", shown=f"{shown!r}", begun=len(begun)),
            ids,
        )
    return UsageError(
        "No such incident",
        msg("Nothing that is wrong has the id {shown}.", shown=f"{shown!r}"),
        "`gpuconsole incidents`",
    )

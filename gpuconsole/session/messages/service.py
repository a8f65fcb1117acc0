"""`Messages`: what happens to jobs, taken from the journal and sent to their users.

The console that dispatches does it. Up to which event all is sent lies in the state folder, so what
a console did not send any more the next one does; one that dies in between may repeat a message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast, get_args

from pydantic import ValidationError

from gpuconsole.config import NotifySection
from gpuconsole.core.events import Event
from gpuconsole.core.jobs import JobState
from gpuconsole.core.lab_service.messages import Notice, What, message_of
from gpuconsole.core.lab_service.receivers import require_mailbox
from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError, RefusedError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.messages.delivery import Courier, Ways, sent
from gpuconsole.state.files.json_file import KeptFile

FILE = "messages.json"
USERS_FILE = "notify.json"
MAX_BYTES = 8 * 2**20
LARGEST_SETTINGS = 16 * 1024
"""Letters of what a user of the lab's service may leave there."""
MOST_USERS = 10_000
_WHATS = frozenset(get_args(What))

SettingsOf = Callable[[str], NotifySection]
"""How a user wants to be notified."""


class Messages:
    """Sends messages about jobs, while this console dispatches."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._file = KeptFile(context.state / FILE, _number, MAX_BYTES)
        self._ways = Ways(context.clock.now, context.settings.sendmail)
        self._settings_of: SettingsOf = lambda user: context.settings.notify
        self._couriers: dict[str, Courier] = {}
        self._seen: int | None = None
        self._kept: int | None = None

    def serve(self, ways: Ways, settings_of: SettingsOf) -> None:
        """Send as the lab's service does: within its policy, to each user as they want it."""
        self._ways, self._settings_of = ways, settings_of

    def look(self) -> None:
        """Take what is new; nothing is awaited here."""
        journal = self._context.journal
        if self._seen is None:
            stored = self._file.content()
            last = journal.last_event()
            self._seen = last if stored is None else min(stored, last)
        for number, event in journal.events_after(self._seen):
            self._seen = number
            notice = self._notice(number, event)
            if notice is not None and notice.what in self._settings_of(notice.user).about:
                self._courier(notice.user).take(notice)
        self._keep(self._seen)

    async def test(self, user: str, settings: NotifySection) -> tuple[str, list[str]]:
        """Send a test message; return the way that worked, and why others did not. RefusedError
        where none did, or none is set."""
        if not settings.ways:
            raise RefusedError(
                "No way is set", "There is no `notify: {ways: …}` in your settings.",
                "`docs/notifications.md` lists what is allowed there.",
            )  # fmt: skip
        notice = Notice(0, "test", self._context.clock.now(), user, "-", "this message")
        way, failed = await sent(settings.ways, message_of((notice,)), self._ways.send)
        if not way:
            raise RefusedError("No message was sent", clean("; ".join(failed), 1000))
        return way, failed

    async def close(self) -> None:
        """Stop sending; what is left is sent by who dispatches next."""
        tasks = [courier.task for courier in self._couriers.values() if courier.task is not None]
        await cancel_all(tasks)
        self._couriers.clear()

    def _notice(self, number: int, event: Event) -> Notice | None:
        """Return the notice of an event for its user; None if it has none."""
        what = "started" if event.what == JobState.RUNNING.value else event.what
        job = self._context.journal.job(event.subject) if what in _WHATS else None
        if job is None or event.kind != "job":
            return None
        attempt = job.attempt
        host = attempt.host if attempt is not None else ""
        # After the name and the state, which the notice has itself, comes the cause.
        _, _, cause = event.message.removeprefix(f"{job.task.name}: ").partition(". ")
        if what == "rule" and job.task.goal:
            # A trial that is given up is how a search goes on, and no news.
            return None
        if what == "time-warning":
            cause = event.message.removeprefix(f"{job.task.name}: ")
        return Notice(
            number, cast(What, what), event.at, job.user, job.id, job.task.name, host, cause
        )

    def _courier(self, user: str) -> Courier:
        courier = self._couriers.get(user)
        if courier is None:
            courier = self._couriers[user] = Courier(
                lambda: self._settings_of(user),
                lambda way, message: self._ways.send(way, message),
                self._context.clock,
                self._trouble,
            )
        return courier

    def _trouble(self, notice: Notice, why: str) -> None:
        words = clean(f"{notice.name}: no message could be sent. {why}", 500)
        self._context.journal.tell("job", notice.job, words, "warning")

    def _keep(self, seen: int) -> None:
        """Write down up to which event all is sent."""
        oldest = [
            courier.oldest for courier in self._couriers.values() if courier.oldest is not None
        ]
        done = min((seen, *(number - 1 for number in oldest)))
        # Without recipients there is nothing to remember.
        if done != self._kept and (self._couriers or self._file.content() is not None):
            self._file.write(json.dumps({"done": done}).encode())
        self._kept = done


class UserSettings:
    """How the users of the lab's service want to be notified, as they stored it there."""

    def __init__(self, context: Context) -> None:
        self._file = KeptFile(context.state / USERS_FILE, _users, MAX_BYTES)

    def of(self, user: str) -> NotifySection:
        """Return what a user wants; no way to anybody who left nothing."""
        return self._file.content().get(user, NotifySection())

    def keep(self, user: str, settings: NotifySection) -> bool:
        """Keep what a user wants; whether it is new. RefusedError where there is no room."""
        stored = self._file.content()
        if stored.get(user, NotifySection()) == settings:
            return False
        if user not in stored and len(stored) >= MOST_USERS:
            raise RefusedError("Too many users", "The lab keeps no settings of more users.")
        wanted = {**stored, user: settings}
        document = {
            name: section.model_dump(exclude_unset=True) for name, section in wanted.items()
        }
        content = json.dumps(document).encode()
        if len(content) > MAX_BYTES:
            # No more is read back: everybody's would be lost.
            raise RefusedError("Too many settings", "The lab has no room for settings of more.")
        self._file.write(content)
        return True


def read_settings(text: str) -> NotifySection:
    """Return settings that came as JSON. RefusedError for others; no word of them is quoted, as
    addresses in them are secret."""
    try:
        if len(text) > LARGEST_SETTINGS:
            raise ValueError("too long")
        return NotifySection.model_validate_json(text)
    except ValueError:
        raise RefusedError(
            "Wrong settings", "Your notification settings cannot be read.",
            "Update gpuconsole on both machines; see `docs/notifications.md`.",
        ) from None  # fmt: skip


def _users(content: bytes) -> Mapping[str, NotifySection]:
    try:
        document: Any = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    sections: dict[str, NotifySection] = {}
    for user, part in document.items() if isinstance(document, dict) else ():
        try:
            sections[user] = NotifySection.model_validate(part)
        except ValidationError:
            continue
    return sections


def _number(content: bytes) -> int | None:
    try:
        document: Any = json.loads(content)
    except (ValueError, RecursionError):
        return None
    done = document.get("done") if isinstance(document, dict) else None
    return done if isinstance(done, int) and not isinstance(done, bool) else None


def refused_ways(settings: NotifySection, ways: Ways) -> list[str]:
    """Return why ways of a user lead nowhere from the lab's service, as sentences."""
    refused = []
    for way in settings.ways:
        try:
            if way.address is not None:
                ways.guard.private(way.address[1])
            elif way.mail is not None and ways.mail is not None:
                require_mailbox(way.mail, ways.mail)
        except ConsoleError as error:
            refused.append(error.message)
    return refused

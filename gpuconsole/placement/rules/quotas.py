"""What a lab does not let start: quotas of users and accounts, and windows kept for somebody.

Each answer names the limit, what is in use of it, and when it lifts. Periods are calendar days,
weeks (from Monday) and months in UTC: everybody can tell when the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Literal

from gpuconsole.core.units import format_duration, iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg, sentences
from gpuconsole.placement.model import Request

Kind = Literal["user", "account"]
Period = Literal["day", "week", "month"]
Repeat = Literal["", "day", "week"]
EACH = "*"
"""Instead of a name: each one that no quota of its own is set for."""
_HOUR_S = 3600.0
_REPEATS_S: Mapping[str, float] = {"day": 86400.0, "week": 7 * 86400.0}


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that one user or one account may have."""

    name: str = EACH
    kind: Kind = "user"
    devices: int | None = None
    """At once."""
    device_hours: float | None = None
    """Per period; once they are used up nothing more starts in it."""
    period: Period = "week"


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which hosts or models are kept for somebody."""

    name: str
    begins_at: float
    ends_at: float
    repeat: Repeat = ""
    hosts: tuple[str, ...] = ()
    """Which hosts; with no model named either, all."""
    models: tuple[str, ...] = ()
    """Models as the catalogue knows them; empty means any on the hosts."""
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """A task that asks for all of these may use it too."""
    clear_s: float = 0.0
    """For so long (s) before it, jobs of unknown run time do not start there."""

    def span(self, now: float) -> tuple[float, float] | None:
        """Return beginning and end of the time that is on or comes next; None when it is over."""
        length = self.ends_at - self.begins_at
        begins = self.begins_at
        if self.repeat and now >= self.ends_at:
            step = _REPEATS_S[self.repeat]
            begins += step * ((now - self.ends_at) // step + 1)
        return (begins, begins + length) if now < begins + length else None

    def admits(self, request: Request) -> bool:
        """Tell whether it is kept for this job."""
        task = request.task
        labels = self.labels.items()
        return (
            request.user in self.users
            or (bool(task.account) and task.account in self.accounts)
            or (bool(labels) and all(task.labels.get(key) == value for key, value in labels))
        )

    @property
    def whom(self) -> str:
        """For whom it is kept, as words for a sentence."""
        marked = [f"{key}={value}" for key, value in self.labels.items()]
        labelled = f"jobs that ask for {', '.join(marked)}" if marked else ""
        parts = [", ".join((*self.users, *self.accounts)), labelled]
        return " and ".join(part for part in parts if part) or "no user"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a job may not start now, or not there."""

    code: Literal["quota", "host-quota", "window"]
    sentence: str


@dataclass(slots=True)
class _Running:
    user: str
    account: str
    devices: int
    began: float
    ends_at: float | None

    def name(self, kind: Kind) -> str:
        return self.user if kind == "user" else self.account


class Use:
    """What users and accounts hold now, and what they have had in the present periods."""

    def __init__(self) -> None:
        self._running: dict[str, _Running] = {}
        self._held: dict[tuple[Kind, str], int] = {}
        self._had: dict[tuple[Kind, str, Period], tuple[float, float]] = {}
        """Beginning of a period, and the device-seconds of what has ended in it."""

    def begin(
        self,
        job: str,
        user: str,
        account: str,
        devices: int,
        at: float,
        ends_at: float | None = None,
    ) -> None:
        """Note that a job holds devices from now on; one that is noted already stays."""
        if job not in self._running:
            self._running[job] = _Running(user, account, devices, at, ends_at)
            self._count(self._running[job], 1)

    def expect(self, job: str, ends_at: float | None) -> None:
        """Note when a job that holds devices should end."""
        if job in self._running:
            self._running[job].ends_at = ends_at

    def end(self, job: str, at: float) -> None:
        """Note that a job has given its devices back; one that held none changes nothing."""
        run = self._running.pop(job, None)
        if run is None:
            return
        self._count(run, -1)
        for kind in _KINDS:
            if name := run.name(kind):
                for period in _PERIODS:
                    self._add(kind, name, period, run, at)

    def copy(self) -> Use:
        """Return a copy that may be led on by itself."""
        copy = Use()
        copy._running = {job: replace(run) for job, run in self._running.items()}
        copy._held = dict(self._held)
        copy._had = dict(self._had)
        return copy

    def devices(self, kind: Kind, name: str) -> int:
        """Return the devices that a user or an account holds now."""
        return self._held.get((kind, name), 0)

    def device_hours(self, kind: Kind, name: str, period: Period, now: float) -> float:
        """Return the device-hours of the present period, those of running jobs included."""
        since = period_start(period, now)
        begun, seconds = self._had.get((kind, name, period), (since, 0.0))
        ended = seconds if begun == since else 0.0
        running = sum(
            run.devices * max(0.0, now - max(since, run.began))
            for run in self._running.values()
            if run.name(kind) == name
        )
        return (ended + running) / _HOUR_S

    def next_end(self, kind: Kind, name: str, spare: int) -> float | None:
        """Return when so many devices of a user or an account should have come free."""
        ends = sorted(
            (run.ends_at, run.devices)
            for run in self._running.values()
            if run.name(kind) == name and run.ends_at is not None
        )
        for moment, devices in ends:
            spare -= devices
            if spare <= 0:
                return moment
        return None

    def _count(self, run: _Running, sign: int) -> None:
        for kind in _KINDS:
            if name := run.name(kind):
                self._held[kind, name] = self._held.get((kind, name), 0) + sign * run.devices

    def _add(self, kind: Kind, name: str, period: Period, run: _Running, at: float) -> None:
        since = period_start(period, at)
        begun, seconds = self._had.get((kind, name, period), (since, 0.0))
        if begun > since:
            return
        if begun < since:
            seconds = 0.0
        seconds += run.devices * max(0.0, at - max(since, run.began))
        self._had[kind, name, period] = since, seconds


@dataclass(frozen=True, slots=True)
class Limits:
    """All that a lab sets."""

    quotas: tuple[Quota, ...] = ()
    windows: tuple[Window, ...] = ()
    max_devices_per_host: int | None = None
    """Devices that one user may have on one host."""

    def refused(
        self, request: Request, use: Use, now: float, held: Mapping[str, int] | None = None
    ) -> Refusal | None:
        """Return why a job may start nowhere now, whatever is free; None when it may.

        `held` counts devices by `user:NAME` and `account:NAME`, where more are held than `use`
        knows of: those that start in the same moment.
        """
        for quota, name in self._for(request):
            present = use.devices(quota.kind, name)
            if held is not None:
                present = max(present, held.get(f"{quota.kind}:{name}", 0))
            refusal = _at_once(quota, name, request, use, present) or _hours(quota, name, use, now)
            if refusal is not None:
                return refusal
        return None

    def kept(
        self, request: Request, host: str, has: Callable[[str], bool], now: float
    ) -> Refusal | None:
        """Return why a job may not start on a host, of which `has` tells whether it has devices
        of a model; None when it may."""
        for window in self.windows:
            if window.hosts and host not in window.hosts:
                continue
            if window.models and not any(has(model) for model in window.models):
                continue
            refusal = _reserved(window, request, now)
            if refusal is not None:
                return refusal
        return None

    def crowded(self, request: Request, host: str, held: int, count: int) -> Refusal | None:
        """Return why a job may not have `count` devices of a host of which its user holds so many
        already; None when it may."""
        most = self.max_devices_per_host
        if most is None or held + count <= most:
            return None
        has = f"{request.user} holds {held} on {host}" if held else f"it asks for {count}"
        return Refusal("host-quota", f"One user may have {_devices(most)} on one host; {has}.")

    def room(self, request: Request, use: Use) -> int | None:
        """Return how many devices a job may take now at most; None for any number."""
        left = [
            quota.devices - use.devices(quota.kind, name)
            for quota, name in self._for(request)
            if quota.devices is not None
        ]
        if self.max_devices_per_host is not None:
            left.append(self.max_devices_per_host * request.task.hosts)
        return min(left, default=None)

    def never(self, request: Request) -> Refusal | None:
        """Return why a job could not start even if its owner had nothing else; None when it
        could."""
        for quota, name in self._for(request):
            if quota.devices is not None and request.devices > quota.devices:
                asks = f"It asks for {_devices(request.devices)}; {quota.kind} {name}"
                return Refusal("quota", f"{asks} may have {quota.devices} at once.")
        return None

    def _for(self, request: Request) -> Iterator[tuple[Quota, str]]:
        """Yield the quotas that apply to a job, each with the name for which use is counted."""
        if self.quotas:
            for quota in self._of("user", request.user) if request.user else ():
                yield quota, request.user
            account = request.task.account
            for quota in self._of("account", account) if account else ():
                yield quota, account

    def _of(self, kind: Kind, name: str) -> Sequence[Quota]:
        """Return the quotas that hold for a name: its own, else those for each."""
        of_kind = [quota for quota in self.quotas if quota.kind == kind]
        own = [quota for quota in of_kind if quota.name == name]
        return own or [quota for quota in of_kind if quota.name == EACH]


_KINDS: tuple[Kind, ...] = ("user", "account")
_PERIODS: tuple[Period, ...] = ("day", "week", "month")


def period_start(period: Period, now: float) -> float:
    """Return when the calendar period of that time began, in UTC."""
    return _period_of(period, int(now // 86400))


@lru_cache(maxsize=4096)
def _period_of(period: Period, number: int) -> float:
    """Return when the period of a day began; days count from the epoch."""
    day = datetime.fromtimestamp(number * 86400, tz=timezone.utc)
    if period == "week":
        day -= timedelta(days=day.weekday())
    elif period == "month":
        day = day.replace(day=1)
    return day.timestamp()


def period_end(period: Period, now: float) -> float:
    """Return when the next period begins."""
    longest = {"day": 1, "week": 7, "month": 31}[period]
    since = datetime.fromtimestamp(period_start(period, now), tz=timezone.utc)
    return period_start(period, (since + timedelta(days=longest)).timestamp())


def _at_once(quota: Quota, name: str, request: Request, use: Use, held: int) -> Refusal | None:
    if quota.devices is None:
        return None
    beyond = held + request.devices - quota.devices
    if beyond <= 0:
        return None
    more = "" if request.devices == 1 else "; this one asks for {low}"
    when = use.next_end(quota.kind, name, beyond)
    devices = "device" if quota.devices == 1 else "devices"
    said = msg(
        f"{_owner(quota)} may have {{n}} {devices} at once and holds {{all}}{more}.",
        name=name, n=quota.devices, all=held, low=request.devices,
    )  # fmt: skip
    lifts = (
        "It lifts when one of those jobs ends."
        if when is None
        else msg("It lifts when one of those jobs ends, about {when}.", when=_at(when))
    )
    return Refusal("quota", sentences(said, lifts))


def _hours(quota: Quota, name: str, use: Use, now: float) -> Refusal | None:
    if quota.device_hours is None:
        return None
    had = use.device_hours(quota.kind, name, quota.period, now)
    if had < quota.device_hours:
        return None
    when = period_end(quota.period, now)
    return Refusal(
        "quota",
        sentences(
            msg(
                f"{_owner(quota)} may have {{n}} device-hours a {quota.period}: {{all}} are used.",
                name=name,
                n=f"{quota.device_hours:g}",
                all=f"{had:.1f}",
            ),
            msg(f"The next {quota.period} begins {{when}}.", when=_at(when)),
        ),
    )


def _reserved(window: Window, request: Request, now: float) -> Refusal | None:
    span = window.span(now)
    if span is None or window.admits(request):
        return None
    begins, ends = span
    text = f"Kept for {window.whom} ({window.name}) from {_at(begins)} to {_at(ends)}"
    if now >= begins:
        return Refusal("window", f"{text}.")
    length = request.run_time_s
    if length is None:
        if begins - now > window.clear_s:
            return None
        left = format_duration(begins - now)
        return Refusal("window", f"{text}, which begins in {left}; the run time of this job"
                       " is unknown.")  # fmt: skip
    if now + length <= begins:
        return None
    about = format_duration(length)
    return Refusal("window", f"{text}; this job should run {about} and would not be done.")


def _owner(quota: Quota) -> str:
    return "Account {name}" if quota.kind == "account" else "User {name}"


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def _at(moment: float) -> str:
    return (iso_utc(moment) or "")[:16].replace("T", " ") + " UTC"

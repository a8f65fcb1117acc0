"""Who has had how much of the lab lately, and how that compares with their due.

Use is device-seconds, forgotten by half in each half-life: use of a week ago counts half of
today's when the half-life is a week. All use fades at the same pace, so sums are kept as of one
moment and only scaled when they are read: an answer costs the same however long the history is.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import field
from math import log

from gpuconsole.core.util.lazy_dataclass import dataclass

HALF_LIFE_S = 7 * 86400.0
_FURTHEST = 400.0
"""Half-lives after which sums are brought forward to a new moment, before figures overflow."""
_FORGOTTEN_S = 1.0
"""Use that has faded to so little is none: who had it does not share any more."""


@dataclass(slots=True)
class _Tally:
    """Use of one name: what has ended, and devices that are in use now, as of the moment."""

    ended: float = 0.0
    devices: int = 0
    begun: float = 0.0
    """Sum of the growth at the beginnings of what is in use."""


@dataclass(slots=True)
class Meter:
    """Faded device-seconds by name."""

    half_life_s: float = HALF_LIFE_S
    _moment: float | None = None
    _tallies: dict[str, _Tally] = field(default_factory=dict)
    _all: _Tally = field(default_factory=_Tally)

    def begin(self, name: str, devices: int, at: float) -> None:
        """Note that devices are in use from now on."""
        growth = self._growth(at)
        for tally in (self._tallies.setdefault(name, _Tally()), self._all):
            tally.devices += devices
            tally.begun += devices * growth

    def end(self, name: str, devices: int, began: float, at: float) -> None:
        """Note that they no longer are; the use so far stays and fades."""
        now = self._growth(at)
        growth = self._growth(began)
        for tally in (self._tallies.setdefault(name, _Tally()), self._all):
            tally.devices -= devices
            # Without running devices the sum is exactly 0, despite rounding.
            tally.begun = tally.begun - devices * growth if tally.devices else 0.0
            tally.ended += devices * max(0.0, now - growth)

    def used(self, name: str, now: float) -> float:
        """Return the device-seconds of a name as they count now."""
        tally = self._tallies.get(name)
        return 0.0 if tally is None else self._faded(tally, now)

    def total(self, now: float) -> float:
        """Return the device-seconds of all as they count now."""
        return self._faded(self._all, now)

    def names(self, now: float) -> list[str]:
        """Return those with use that still counts."""
        return [
            name
            for name, tally in self._tallies.items()
            if tally.devices or self._faded(tally, now) > _FORGOTTEN_S
        ]

    def _growth(self, at: float) -> float:
        """Return by how much use of that time counts more than use of the moment."""
        if self._moment is None:
            self._moment = at
        lives = (at - self._moment) / self.half_life_s
        if lives > _FURTHEST:
            self._bring_forward(2.0**-lives)
            self._moment, lives = at, 0.0
        return float(2.0**lives)

    def _bring_forward(self, factor: float) -> None:
        for tally in (*self._tallies.values(), self._all):
            tally.ended *= factor
            tally.begun *= factor

    def _faded(self, tally: _Tally, now: float) -> float:
        growth = self._growth(now)
        running = max(0.0, tally.devices * growth - tally.begun)
        return (tally.ended + running) / growth * self.half_life_s / log(2.0)


@dataclass(frozen=True, slots=True)
class Share:
    """What one user, or one account, has had of all recent use, and what they are due."""

    name: str
    used: float
    """Part of all recent use, 0-1."""
    due: float
    """Part that is theirs, 0-1."""

    @property
    def over(self) -> float:
        """Use beyond what is due, in parts of it: 0 at par, 1 at twice the due, -1 for none."""
        return self.used / self.due - 1.0 if self.due > 0 else (1.0 if self.used > 0 else 0.0)

    def sentence(self) -> str:
        """Return the sentence shown to users."""
        word = "above" if self.over > 0.05 else "below" if self.over < -0.05 else "at"
        return (
            f"{self.name} had {self.used:.0%} of recent use, {word} the {self.due:.0%} that are"
            " due."
        )


class Usage:
    """Recent use by user and by account. Feed it with beginnings and ends of jobs."""

    def __init__(
        self,
        half_life_s: float = HALF_LIFE_S,
        shares: Mapping[str, float] | None = None,
        account_shares: Mapping[str, float] | None = None,
    ) -> None:
        """`shares` are parts by name, in any unit; who is not named has 1."""
        self._users = Meter(half_life_s)
        self._accounts = Meter(half_life_s)
        self._shares = dict(shares or {})
        self._account_shares = dict(account_shares or {})
        self._running: dict[str, tuple[str, str, int, float]] = {}
        # A pass over the queue asks for the same few people at one moment, again and again.
        self._asked: dict[tuple[str, str], Share] = {}
        self._asked_at: float | None = None

    def copy(self) -> Usage:
        """Return the same use, to go on by itself: for looking ahead."""
        return deepcopy(self)

    def begin(self, job: str, user: str, account: str, devices: int, at: float) -> None:
        """Note that a job holds devices from now on; one that is noted already stays."""
        if job in self._running:
            return
        self._asked_at = None
        self._running[job] = (user, account, devices, at)
        self._users.begin(user, devices, at)
        if account:
            self._accounts.begin(account, devices, at)

    def end(self, job: str, at: float) -> None:
        """Note that a job has given its devices back; one that held none changes nothing."""
        run = self._running.pop(job, None)
        if run is None:
            return
        self._asked_at = None
        user, account, devices, began = run
        self._users.end(user, devices, began, max(began, at))
        if account:
            self._accounts.end(account, devices, began, max(began, at))

    def user(self, name: str, now: float) -> Share:
        """Return the share of a user."""
        return _share(self._users, self._shares, name, now)

    def account(self, name: str, now: float) -> Share:
        """Return the share of an account."""
        return _share(self._accounts, self._account_shares, name, now)

    def share(self, user: str, account: str, now: float) -> Share:
        """Return the share that decides: the user's, or the account's where that is worse."""
        if now != self._asked_at:
            self._asked, self._asked_at = {}, now
        share = self._asked.get((user, account))
        if share is None:
            own = self.user(user, now)
            theirs = self.account(account, now) if account else own
            share = self._asked[user, account] = theirs if theirs.over > own.over else own
        return share

    def overuse(self, user: str, account: str, now: float) -> float:
        """Return by how much that share is beyond its due: see `Share.over`."""
        return self.share(user, account, now).over


def _share(meter: Meter, shares: Mapping[str, float], name: str, now: float) -> Share:
    total = meter.total(now)
    # In one order, so that rounding is the same in every process.
    present = sorted({*meter.names(now), name})
    weight = sum(shares.get(name, 1.0) for name in present)
    due = shares.get(name, 1.0) / weight if weight > 0 else 0.0
    used = meter.used(name, now) / total if total > _FORGOTTEN_S else due
    return Share(name, used, due)

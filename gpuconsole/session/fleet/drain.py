"""Hosts that take no new jobs: drained by the inventory, by a person through the journal, or set
aside by the console because they could not start jobs; and those with an engine that does not
answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from gpuconsole.core.containers import Hosts
from gpuconsole.core.devices.host_faults import FaultStreak, Streaks
from gpuconsole.core.fleet import FleetSnapshot, Host
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError, RefusedError, UsageError
from gpuconsole.session.fleet.host_faults import is_closed
from gpuconsole.state import Drain, Journal

LONGEST = 200
"""Letters of a reason."""


@dataclass(frozen=True, slots=True)
class DrainMarks:
    """What keeps jobs from hosts: drains, faults, and engines that do not answer."""

    now: Callable[[], float] = field(compare=False)
    drains: Mapping[str, Drain] = field(default_factory=dict)
    faults: Mapping[str, tuple[FaultStreak, ...]] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)

    def mark(self, host: Host) -> Host:
        """Return a host's record with what keeps jobs from it; a person's word goes first."""
        drain, faults = self.drains.get(host.name), self.faults.get(host.name, ())
        silent = "" if host.cluster else self.silent.get(host.name, "")
        if drain is not None:
            host = replace(host, drained=drain.text)
        elif faults and not host.drained:
            aside = next((fault for fault in faults if not fault.image and fault.closed), None)
            drained = "" if aside is None else aside.words(self.now())
            host = replace(host, drained=drained, faults=faults)
        return replace(host, engine_error=silent) if silent else host


class Drains:
    """Hosts that take no new jobs, by a person's word or because they could not start any."""

    def __init__(
        self,
        hosts: Hosts,
        journal: Journal,
        clock: Callable[[], float],
        silent: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`silent` returns the hosts with an engine that does not answer, and why."""
        self._hosts = hosts
        self._silent = silent
        self._journal = journal
        self._clock = clock
        self._known: DrainMarks | None = None

    def marks(self) -> DrainMarks | None:
        """Return what keeps jobs from hosts now; an overlay of the fleet."""
        # Without the journal the last that was known of it holds.
        with contextlib.suppress(JournalError):
            streaks, drains, silent = (
                self._journal.streaks(),
                self._journal.drains(),
                self._silent(),
            )
            if streaks or drains or silent or self._known is not None:
                self._known = DrainMarks(self._clock, drains, self._faults(streaks), silent)
        return self._known

    async def drain(self, host: str, reason: str, by: str) -> Drain | None:
        """Let no new job start on a host, for every console of this journal; what runs there goes
        on. Return how a person had drained it before, which stays so where no reason is given now.
        UsageError for a host that is not in the inventory, RefusedError for a cluster's node."""
        snapshot = self._hosts.snapshot()
        _require(snapshot, host)
        found_host = snapshot.host(host)
        if found_host is not None and found_host.node:
            name = found_host.name.partition("/")[2]
            raise RefusedError(
                "Slurm drains its own nodes",
                msg("{name} takes the jobs that Slurm assigns to it.", name=found_host.name),
                msg(
                    "On {cluster}: scontrol update nodename={name} state=drain reason=WHY",
                    cluster=found_host.cluster,
                    name=name,
                ),
            )
        before = self._journal.drains().get(host)
        if before is None or reason:
            self._journal.drain(host, clean(reason, LONGEST), by)
        return before

    async def undrain(self, host: str) -> None:
        """Let jobs start on a host again; RefusedError when it was neither drained nor set aside,
        or is drained by the inventory, UsageError when there is no such host."""
        was = self._journal.undrain(host)
        found_host = self._hosts.snapshot().host(host)
        if found_host is not None and found_host.drained:
            raise RefusedError(
                "The inventory drains it",
                msg("{host} has `drain:` there.", host=host),
                "Remove it there.",
            )
        if not was:
            # A host that left the inventory may still be drained.
            _require(self._hosts.snapshot(), host)
            raise RefusedError(
                "Host is not drained", msg("{host} takes jobs.", host=clean(host, 80))
            )

    def _faults(self, streaks: Streaks) -> dict[str, tuple[FaultStreak, ...]]:
        """Return the streaks of each host as they are now."""
        now = self._clock()
        faults: dict[str, tuple[FaultStreak, ...]] = {}
        for streak in streaks.values():
            seen = replace(streak, closed=is_closed(streak, self._journal, now))
            faults[streak.host] = (*faults.get(streak.host, ()), seen)
        return faults


def _require(snapshot: FleetSnapshot, name: str) -> None:
    if snapshot.host(name) is None:
        names = ", ".join(host.name for host in snapshot.hosts[:10])
        raise UsageError(
            "No such host",
            msg("The inventory has no host {name}.", name=f"{clean(name, 80)!r}"),
            msg("It has: {names}.", names=names) if names else "",
        )

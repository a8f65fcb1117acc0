"""The fleet with its drained hosts marked: by the inventory, by a person through the journal, or
set aside by the console because they could not start jobs; and those whose engine is silent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuconsole.core.containers import Engine, Hosts
from gpuconsole.core.faults import FaultStreak, Streaks
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot, Host
from gpuconsole.core.text import clean
from gpuconsole.errors import JournalError, RefusedError, UsageError
from gpuconsole.session.fleet.host_faults import is_closed
from gpuconsole.state import Drain, Journal

LONGEST = 200
"""Letters of a reason."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What the journal knows of hosts that take no jobs, and which engines do not answer."""

    drains: Mapping[str, Drain] = field(default_factory=dict)
    faults: Mapping[str, tuple[FaultStreak, ...]] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)


class DrainedHosts:
    """Hosts whose pictures say what the journal knows of drains."""

    def __init__(
        self,
        hosts: Hosts,
        journal: Journal,
        clock: Callable[[], float],
        silent: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`silent` returns the hosts whose engine does not answer, and why."""
        self._hosts = hosts
        self._silent = silent
        self._journal = journal
        self._clock = clock
        self._known = _Known()
        self._changes = 0
        self._made: tuple[FleetSnapshot, int, FleetSnapshot] | None = None
        self._marked: dict[str, tuple[Host, Host]] = {}

    async def start(self) -> None:
        """Begin to poll."""
        await self._hosts.start()

    async def close(self) -> None:
        """End all links."""
        await self._hosts.close()

    async def engine(self, host: str) -> Engine:
        """Return the engine of a host."""
        return await self._hosts.engine(host)

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """Send a signal to a process of a host."""
        await self._hosts.signal(host, process, signal)

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture; the same one while nothing changed."""
        # Without the journal the last that was known of it holds.
        with contextlib.suppress(JournalError):
            faults = self._faults(self._journal.streaks())
            known = _Known(self._journal.drains(), faults, self._silent())
            self._changes += known != self._known
            self._known = known
        plain = self._hosts.snapshot()
        if not self._changes:
            return plain
        if self._made is None or self._made[0] is not plain or self._made[1] != self._changes:
            hosts = tuple(self._mark(host) for host in plain.hosts)
            # Both only grow, so equal sums are equal pictures.
            revision = plain.revision + self._changes
            self._made = (plain, self._changes, replace(plain, hosts=hosts, revision=revision))
        return self._made[2]

    def drain(self, host: str, reason: str, by: str) -> Drain | None:
        """Let no new job start on a host, for every console of this journal; what runs there goes
        on. Return how a person had drained it before, which stays so where no reason is given now.
        UsageError for a host that is not in the inventory, RefusedError for a cluster's node."""
        snapshot = self._hosts.snapshot()
        _require(snapshot, host)
        found = snapshot.host(host)
        if found is not None and found.node:
            name = found.name.partition("/")[2]
            raise RefusedError(
                "Slurm drains its own nodes",
                f"{found.name} takes the jobs that Slurm gives it.",
                f"On {found.cluster}: scontrol update nodename={name} state=drain reason=WHY",
            )
        before = self._journal.drains().get(host)
        if before is None or reason:
            self._journal.drain(host, clean(reason, LONGEST), by)
        return before

    def undrain(self, host: str) -> None:
        """Let jobs start on a host again; RefusedError when it was neither drained nor set aside,
        or is drained by the inventory, UsageError when there is no such host."""
        was = self._journal.undrain(host)
        found = self._hosts.snapshot().host(host)
        if found is not None and found.drained:
            raise RefusedError(
                "The inventory drains it", f"{host} has `drain:` there.", "Remove it there."
            )
        if not was:
            # A host that left the inventory may still be drained.
            _require(self._hosts.snapshot(), host)
            raise RefusedError("Host is not drained", f"{clean(host, 80)} takes jobs.")

    def _faults(self, streaks: Streaks) -> dict[str, tuple[FaultStreak, ...]]:
        """Return the streaks of each host as they are now."""
        now = self._clock()
        found: dict[str, tuple[FaultStreak, ...]] = {}
        for streak in streaks.values():
            seen = replace(streak, closed=is_closed(streak, self._journal, now))
            found[streak.host] = (*found.get(streak.host, ()), seen)
        return found

    def _mark(self, host: Host) -> Host:
        """Return a host's record; the same one while neither it nor what is known of it changed."""
        drain, faults = self._known.drains.get(host.name), self._known.faults.get(host.name, ())
        silent = "" if host.cluster else self._known.silent.get(host.name, "")
        if drain is None and not faults and not silent:
            self._marked.pop(host.name, None)
            return host
        before = self._marked.get(host.name)
        wanted = _marked(host, drain, faults, self._clock())
        if silent:
            wanted = replace(wanted, engine_error=silent)
        if before is None or before[0] is not host or before[1] != wanted:
            before = (host, wanted)
            self._marked[host.name] = before
        return before[1]


def _marked(host: Host, drain: Drain | None, faults: Sequence[FaultStreak], now: float) -> Host:
    """Return a host's record with what keeps jobs from it; a person's word goes first."""
    if drain is not None:
        return replace(host, drained=drain.text)
    if host.drained:
        return host
    aside = next((streak for streak in faults if not streak.image and streak.closed), None)
    drained = "" if aside is None else aside.words(now)
    return replace(host, drained=drained, faults=tuple(faults))


def _require(snapshot: FleetSnapshot, name: str) -> None:
    if snapshot.host(name) is None:
        names = ", ".join(host.name for host in snapshot.hosts[:10])
        raise UsageError(
            "No such host",
            f"The inventory has no host {clean(name, 80)!r}.",
            f"It has: {names}." if names else "",
        )

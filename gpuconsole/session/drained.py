"""The fleet with its drained hosts marked: by the inventory, or by a person through the journal."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

from gpuconsole.core.containers import Engine, Hosts
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot, Host
from gpuconsole.core.text import clean
from gpuconsole.errors import JournalError, RefusedError, UsageError
from gpuconsole.state import Drain, Journal

LONGEST = 200
"""Letters of a reason."""


class DrainedHosts:
    """Hosts whose pictures say what the journal knows of drains."""

    def __init__(self, hosts: Hosts, journal: Journal) -> None:
        self._hosts = hosts
        self._journal = journal
        self._known: Mapping[str, Drain] = {}
        self._changes = 0
        self._made: tuple[FleetSnapshot, int, FleetSnapshot] | None = None
        self._marked: dict[str, tuple[Host, str, Host]] = {}

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
            known = self._journal.drains()
            if known is not self._known:
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
        """Let jobs start on a host again; RefusedError when it was not drained, or is by the
        inventory, UsageError when there is no such host."""
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

    def _mark(self, host: Host) -> Host:
        """Return a host's record; the same one while neither it nor its drain changed."""
        drain = self._known.get(host.name)
        if drain is None:
            self._marked.pop(host.name, None)
            return host
        before = self._marked.get(host.name)
        if before is None or before[0] is not host or before[1] != drain.text:
            before = (host, drain.text, replace(host, drained=drain.text))
            self._marked[host.name] = before
        return before[2]


def _require(snapshot: FleetSnapshot, name: str) -> None:
    if snapshot.host(name) is None:
        names = ", ".join(host.name for host in snapshot.hosts[:10])
        raise UsageError(
            "No such host",
            f"The inventory has no host {clean(name, 80)!r}.",
            f"It has: {names}." if names else "",
        )

"""Waiting for the first answers of the hosts, for callers that ask only once."""

from __future__ import annotations

from gpuconsole.core.containers import Hosts
from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.session.clock import Clock

LOOK_EVERY_S = 0.05


async def first_frames(hosts: Hosts, clock: Clock, wait_s: float, host: str = "") -> FleetSnapshot:
    """Wait until every host, or the named one, has answered or failed, at most `wait_s` seconds.

    Returns the picture as it is then.
    """
    deadline = clock.now() + wait_s
    while True:
        snapshot = hosts.snapshot()
        silent = any(
            (each.state is HostState.CONNECTING or each.unsettled) and host in ("", each.name)
            for each in snapshot.hosts
        )
        if not silent or clock.now() >= deadline:
            return snapshot
        await clock.sleep(LOOK_EVERY_S)

"""Makes reports of a journal, beside the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gpuconsole.session.report.making import Known, made
from gpuconsole.session.report.model import Query, UsageReport

if TYPE_CHECKING:
    from gpuconsole.session.context import Context


async def report(context: Context, query: Query, user: str = "") -> UsageReport:
    """Return what was held, used and drawn in a time: by all, or by one user. Who holds devices
    idly now is listed of all in either case: where jobs run is public, and others wait for them.

    JournalError where the journal cannot be read.
    """
    now, snapshot = context.clock.now(), context.hosts.snapshot()
    facts = Known(
        {host.name: host.price_per_hour for host in snapshot.hosts},
        {
            (host.name, device.uuid): device.model
            for host in snapshot.hosts
            for device in host.devices
        },
    )
    return await asyncio.to_thread(made, context.journal, context.settings, query, facts, now, user)

"""Makes reports of a journal, beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

from gpuconsole.config import PriceSection
from gpuconsole.core.catalogue import Catalogue
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.session.context import Context
from gpuconsole.session.report.model import Query, UsageReport
from gpuconsole.session.report.tally import Prices, Tally, idle_leases


async def report(context: Context, query: Query, user: str = "") -> UsageReport:
    """Return what was held, used and drawn in a time: by all, or by one user. Who holds devices
    idly now is listed of all in either case: where jobs run is public, and others wait for them.

    JournalError where the journal cannot be read.
    """
    now, snapshot = context.clock.now(), context.hosts.snapshot()
    made = await asyncio.to_thread(_made, context, query, user, snapshot, now)
    return made.made_safe()


def _made(
    context: Context, query: Query, user: str, snapshot: FleetSnapshot, now: float
) -> UsageReport:
    settings = context.settings
    models = {
        (host.name, device.uuid): device.model for host in snapshot.hosts for device in host.devices
    }
    hourly = {host.name: host.price_per_hour for host in snapshot.hosts}
    prices = prices_of(settings.prices, hourly)
    # What holds devices now is asked for too, whatever the time of the report.
    accounts = "account" in query.by or "project" in query.by
    held = context.journal.holdings(query.since, max(query.until, now), accounts=accounts)
    tally = Tally(query, prices, models, now)
    tally.take(held, user)
    return UsageReport(
        query,
        tally.rows(),
        tally.total(),
        idle_leases(held, models, now, settings.triage.limits.idle_for),
        user,
        settings.prices.currency,
        datetime.fromtimestamp(now).astimezone().tzname() or "",
    )


def prices_of(section: PriceSection, hosts: Mapping[str, float | None]) -> Prices:
    """Return what devices cost: as their host's entry says, else as the lab's list says of the
    model."""
    catalogue = Catalogue.load()

    def hourly(host: str, model: str) -> float | None:
        own = hosts.get(host)
        if own is not None:
            return own
        if model in section.per_hour:
            return section.per_hour[model]
        named = (
            price for name, price in section.per_hour.items() if catalogue.matches(name, model)
        )
        return next(named, None) if model else None

    return Prices(hourly, section.per_kwh)

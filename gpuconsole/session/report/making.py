"""A report made of a journal, by what the inventory says of prices; without a session."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from pathlib import Path

from gpuconsole.config import LabSettings, PriceSection, combined, load_settings
from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.user_dirs import find_inventory, state_folder
from gpuconsole.session.report.model import Query, UsageReport
from gpuconsole.session.report.totals import Prices, Tally, idle_leases, month_edges
from gpuconsole.state.journal import Journal
from gpuconsole.state.tables.use_sums import Asked


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of hosts."""

    hourly: Mapping[str, float | None] = field(default_factory=dict)
    """What a device of a host costs for an hour, by host."""
    models: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The model of a device, by host and UUID."""


def offline(inventory: Path | None, state: Path | None, query: Query) -> UsageReport | None:
    """Return the report of the journal in a state folder, without a session: that takes longer to
    import than most reports to make. None if the inventory names the lab's queue: its service has
    the journal.

    UsageError for a wrong inventory or settings, JournalError where the journal cannot be read.
    """
    settings, known_hosts = load_settings(), Known()
    if find_inventory(inventory, os.environ) is not None:
        from gpuconsole.remote.inventory import open_inventory

        lab = open_inventory(inventory, os.environ)
        if lab.queue is not None:
            return None
        settings = combined(settings, lab.lab)
        known_hosts = Known({host.name: host.price_per_hour for host in lab.hosts})
    journal = Journal(state_folder(state), clock=time.time, read_only=True)
    try:
        return made(journal, settings, query, known_hosts, time.time())
    finally:
        journal.close()


def made(
    journal: Journal,
    settings: LabSettings,
    query: Query,
    facts: Known,
    now: float,
    user: str = "",
) -> UsageReport:
    """Return the report of a journal, with all words fit for a terminal. May be called in a
    thread."""
    tally = Tally(query, prices_of(settings.prices, facts.hourly), facts.models, now)
    months = month_edges(query.since, query.until) if "month" in query.by else ()
    # What holds devices now is asked for too, whatever the time of the report.
    latest = max(query.until, now)
    sums, held = journal.held(Asked(query.since, query.until, latest, query.by, months, user))
    tally.add(sums)
    tally.take(held, user)
    return UsageReport(
        query,
        tally.rows(),
        tally.total(),
        idle_leases(held, facts.models, now, settings.triage.limits.idle_for),
        user,
        settings.prices.currency,
        datetime.fromtimestamp(now).astimezone().tzname() or "",
    ).made_safe()


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

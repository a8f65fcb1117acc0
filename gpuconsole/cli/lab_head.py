"""A head of the lab's queue as a command: it leads, or is the standby, until it is stopped."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Awaitable, Callable
from pathlib import Path

from gpuconsole.cli.options import options
from gpuconsole.cli.output import note
from gpuconsole.cli.sessions import tell_stray
from gpuconsole.config import combined, load_settings
from gpuconsole.core.util.user_dirs import state_folder
from gpuconsole.errors import ReadOnlyError
from gpuconsole.remote.inventory import open_inventory
from gpuconsole.remote.lazy_hosts import LazyHosts
from gpuconsole.session import factory
from gpuconsole.session.async_helpers import cancel_all, first
from gpuconsole.session.lab_service.http.connections import make_room
from gpuconsole.session.lab_service.protocol import SOCKET
from gpuconsole.session.lab_service.service import LabService
from gpuconsole.session.session import Session
from gpuconsole.session.standby.head import Head, HeadSettings
from gpuconsole.session.standby.lead import Lead

Counts = dict[str, int]
Work = Callable[[Session, asyncio.Event, Lead], Awaitable[Counts]]
"""Leads with a session until an event is set."""


def run_head(work: Work, path: Path | None, *, standby: bool, after_s: float | None) -> Counts:
    """Lead and stand by in turn until SIGTERM; return what `work` reported last."""
    return asyncio.run(_run(work, path, standby, after_s))


def lab_service(session: Session, path: Path | None, lead: Lead) -> LabService:
    """Return the service of the lab's queue, not yet entered."""
    make_room()
    return LabService(session, path or SOCKET, lead)


async def _run(work: Work, path: Path | None, standby: bool, after_s: float | None) -> Counts:
    from gpuconsole.cli.interrupts import stopping

    asyncio.get_running_loop().set_exception_handler(tell_stray)
    if options().read_only:
        raise ReadOnlyError("Read-only", "A head of the lab's queue writes its journal.", "")
    counts: Counts = {"events": 0, "jobs": 0}
    stop = asyncio.Event()

    async def serve(lead: Lead) -> None:
        nonlocal counts
        counts = await _served(work, lead, stop)

    with stopping(stop):
        await Head(_settings(path, standby, after_s), note).run(serve, stop)
    return counts


async def _served(work: Work, lead: Lead, stop: asyncio.Event) -> Counts:
    """Lead with a session of its own until `stop`, or until another head leads."""
    chosen = options()
    session = factory.open_session(chosen.inventory, chosen.state, own_queue=True, lead=lead)
    lead.witnesses.hosts = session.hosts
    over = asyncio.Event()

    async def end() -> None:
        await first(stop.wait(), lead.deposed.wait())
        over.set()

    ending = asyncio.ensure_future(end())
    try:
        async with session:
            counts = await work(session, over, lead)
    finally:
        await cancel_all([ending])
    if over.is_set() and not lead.deposed.is_set():
        # The service itself asks to end as well, such as with a journal that was lost.
        stop.set()
    return counts


def _settings(path: Path | None, standby: bool, after_s: float | None) -> HeadSettings:
    chosen = options()
    lab = open_inventory(chosen.inventory, os.environ)
    settings = combined(load_settings(), lab.lab)
    return HeadSettings(
        name=platform.node() or "this host",
        folder=state_folder(chosen.state),
        socket=path or SOCKET,
        rights=settings.rights.rights(),
        voters=tuple(host.name for host in lab.hosts if host.slurm is None),
        hosts=lambda: LazyHosts(lab, settings),
        ways=lambda: factory.ways_to(lab, lab.queue, settings) if lab.queue is not None else (),
        standby=standby,
        after_s=after_s,
    )

"""Sessions put together: the real one on an inventory's hosts, the demo on the simulated lab."""

from __future__ import annotations

import getpass
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.config import LabSettings, PriceSection, combined, load_settings
from gpuconsole.core.containers import Engine, Hosts
from gpuconsole.core.devices.host_power import NOTHING, Power
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot
from gpuconsole.core.images import DEFAULT_IMAGE
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.user_dirs import find_inventory, state_folder
from gpuconsole.core.wording import msg
from gpuconsole.errors import UnreachableError
from gpuconsole.session.clock import WallClock
from gpuconsole.session.dispatch.attempt.vendor_runtime import by_kind
from gpuconsole.session.images.service import pinned
from gpuconsole.session.session import Context, Session
from gpuconsole.session.submit.pack import pack_project
from gpuconsole.state import Journal
from gpuconsole.state.files.images import ImageNotes

if TYPE_CHECKING:
    from gpuconsole.remote.inventory import Inventory, QueueEntry
    from gpuconsole.session.lab_service.console.client import Way
    from gpuconsole.session.standby.lead import Lead


class NoHosts:
    """No fleet at all, for questions that the journal answers alone."""

    async def start(self) -> None:
        """Nothing to poll."""

    async def close(self) -> None:
        """Nothing to end."""

    def snapshot(self) -> FleetSnapshot:
        """Return the empty picture."""
        return FleetSnapshot()

    async def engine(self, host: str) -> Engine:
        """Refuse: this session contacts no host."""
        raise UnreachableError("No hosts", msg("This session does not contact {host}.", host=host))

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """Refuse: this session contacts no host."""
        raise UnreachableError("No hosts", msg("This session does not contact {host}.", host=host))


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The simulated lab: how many hosts, which dice, and how many seconds pass in one."""

    hosts: int = 6
    seed: int = 7
    speed: float = 1.0
    slurm: bool = False
    """Whether it has a Slurm cluster beside its hosts."""
    elastic: bool = False
    """Whether one more host sleeps until a job needs it."""
    user: str = ""
    """The user of the session; "" for the user of this process."""


def open_session(
    inventory: Path | None,
    state: Path | None,
    *,
    read_only: bool = False,
    demo: DemoOptions | None = None,
    dispatch: bool = True,
    fleet: bool = True,
    own_queue: bool = False,
    lead: Lead | None = None,
    lab: Inventory | None = None,
    hosts: Hosts | None = None,
) -> Session:
    """Return a session, not yet entered.

    Where the inventory names the lab's queue, it is a session on that, unless `own_queue` is set,
    as the service itself does; with `lead` its engines are asked only while this head leads.

    Without an inventory the user's own is read, else this machine alone is shown. The demo keeps
    its state in a folder of its own that goes with it, unless `state` names one. Without `fleet`
    no host is contacted and none is needed: the journal alone answers. `lab` is the inventory where
    the caller has read it, `hosts` its hosts where the caller has begun to connect them. UsageError
    for a wrong inventory or settings, JournalError for a state folder that cannot be used.
    """
    if demo is not None:
        return _demo_session(state, demo, read_only=read_only, dispatch=dispatch)
    from gpuconsole.remote.inventory import Inventory, open_inventory

    if lab is None:
        needed = fleet or find_inventory(inventory, os.environ) is not None
        lab = open_inventory(inventory, os.environ) if needed else Inventory("none", ())
    settings = combined(load_settings(), lab.lab)
    if lab.queue is not None and not own_queue:
        return _lab_session(lab, lab.queue, settings, state_folder(state), read_only=read_only)
    images = {host.name: host.image for host in lab.hosts}
    return _session(
        hosts or (_remote_hosts(lab, settings) if fleet else NoHosts()),
        state_folder(state),
        settings,
        lambda host: images.get(host, DEFAULT_IMAGE),
        read_only=read_only,
        dispatch=dispatch and fleet,
        power=_power(lab),
        lead=lead,
        reads_scripts=not own_queue,
    )


def _power(inventory: Inventory) -> Power:
    if not any(entry.wake for entry in inventory.hosts):
        return NOTHING
    from gpuconsole.session.elastic.power_commands import CommandPower

    return CommandPower(inventory)


def _lab_session(
    lab: Inventory, queue: QueueEntry, settings: LabSettings, state: Path, *, read_only: bool
) -> Session:
    """Return a session on the lab's queue. Its settings are those that were heard last; the first
    time they are asked for."""
    from gpuconsole.session.lab_service.console.client import HeadsWay, first_hello
    from gpuconsole.session.lab_service.console.lab_session import (
        LabQueueSession,
        known_settings,
        with_looks,
    )

    def way() -> Way:
        ways = ways_to(lab, queue, settings)
        return ways[0] if len(ways) == 1 else HeadsWay(ways)

    chosen = way()
    folder = state / "labs" / re.sub(r"[^A-Za-z0-9.-]", "-", chosen.name)
    settings_known = known_settings(folder, settings)
    if settings_known is None:
        settings_known = with_looks(first_hello(way).settings, settings)
    return LabQueueSession(
        chosen, settings_known, user_name(), folder, own_folder=state, read_only=read_only
    )


def ways_to(lab: Inventory, queue: QueueEntry, settings: LabSettings) -> Sequence[Way]:
    """Return the ways to the hosts on which the lab's service may run."""
    from gpuconsole.session.lab_service.console.client import LocalWay

    if queue.entries[0].local:
        return (LocalWay(Path(queue.socket)),)
    from gpuconsole.remote.links.lab_service import SshWay

    return tuple(SshWay(entry, queue.socket, lab, settings) for entry in queue.entries)


def _remote_hosts(lab: Inventory, settings: LabSettings) -> Hosts:
    from gpuconsole.remote.lazy_hosts import LazyHosts

    return LazyHosts(lab, settings)


def _demo_session(
    state: Path | None, demo: DemoOptions, *, read_only: bool, dispatch: bool
) -> Session:
    from gpuconsole.simulated_lab import SimulatedHosts
    from gpuconsole.simulated_lab.incidents import noted_before
    from gpuconsole.simulated_lab.slurm import ClusterHosts

    hosts = SimulatedHosts(
        demo.hosts, demo.seed, clock=WallClock().now, speed=demo.speed, elastic=demo.elastic
    )
    fleet: Hosts = ClusterHosts(hosts, demo.seed) if demo.slurm else hosts
    scratch = tempfile.TemporaryDirectory(prefix="gpuconsole-demo-") if state is None else None
    folder = Path(scratch.name) if scratch is not None else Path(str(state)).expanduser()
    mine = load_settings()
    session = _session(
        fleet,
        folder,
        LabSettings(
            gang_network="host",
            # Its hosts have prices by the hour.
            prices=PriceSection(currency="EUR", per_kwh=0.3),
            theme=mine.theme,
            symbols=mine.symbols,
            language=mine.language,
            tour=mine.tour,
            keys=mine.keys,
            # Simulated incidents are not reported outside.
            triage=mine.triage.model_copy(update={"webhook": ""}),
        ),
        lambda host: hosts.default_image(host) or DEFAULT_IMAGE,
        read_only=read_only,
        dispatch=dispatch,
        simulated=True,
        user=demo.user,
        power=hosts.power,
        on_close=scratch.cleanup if scratch is not None else lambda: None,
    )
    session.triage.remember(noted_before(hosts.snapshot()))
    return session


def _session(
    hosts: Hosts,
    state: Path,
    settings: LabSettings,
    default_image: Callable[[str], str],
    *,
    read_only: bool,
    dispatch: bool,
    simulated: bool = False,
    user: str = "",
    power: Power = NOTHING,
    on_close: Callable[[], None] = lambda: None,
    lead: Lead | None = None,
    reads_scripts: bool = True,
) -> Session:
    clock = WallClock()
    journal = Journal(state, clock=clock.now, read_only=read_only)
    # Not a journal in which somebody's real jobs are.
    if simulated and not read_only and not journal.jobs():
        journal.mark_simulated()
    context = Context(
        hosts=hosts,
        journal=journal,
        settings=settings,
        user=user or user_name(),
        pack=pack_project,
        default_image=pinned(
            ImageNotes(state), by_kind(hosts, settings.images, DEFAULT_IMAGE, default_image)
        ),
        clock=clock,
        read_only=read_only,
        simulated=simulated,
        reads_scripts=reads_scripts,
        dispatch=dispatch and not read_only,
        power=power,
        on_close=on_close,
    )
    return Session(context if lead is None else replace(context, fence=lead.fence))


def user_name() -> str:
    """Return the name of the user of this process, or the number where it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user id may have no name.
        return str(os.getuid())

"""How a command gets its session, and how long it waits for hosts."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from gpuconsole.cli.options import Options, options
from gpuconsole.cli.output import note
from gpuconsole.core.util.user_dirs import NO_TOUR_VARIABLE, state_dir
from gpuconsole.errors import UnreachableError, UsageError

if TYPE_CHECKING:
    from gpuconsole.cli.opening import Opening
    from gpuconsole.config import LabSettings
    from gpuconsole.core.containers import Hosts
    from gpuconsole.remote.inventory import Inventory
    from gpuconsole.session.session import Session
    from gpuconsole.tui.runtime.awaited_session import AwaitedSession

Answer = TypeVar("Answer")


def drive(
    work: Callable[[Session], Awaitable[Answer]],
    *,
    fleet: bool = True,
    links: bool = True,
    dispatching: bool = False,
    own_queue: bool = False,
) -> Answer:
    """Open the session that the options name, do one piece of work, and close it.

    Without `fleet` no host is contacted and no inventory needed: the journal alone answers. Without
    `links` none is contacted either, but the inventory says which there are. With `dispatching` the
    session launches jobs for as long as it is open, unless another one does.
    """

    async def opened() -> Answer:
        asyncio.get_running_loop().set_exception_handler(tell_stray)
        session = open_session(options(), dispatching=dispatching, fleet=fleet, own_queue=own_queue)
        if (fleet and links) or session.elsewhere:
            async with session:
                return await work(session)
        # A session that is not entered has no links and starts nothing.
        try:
            return await work(session)
        finally:
            await session.__aexit__(None, None, None)

    return asyncio.run(opened())


def tell_stray(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Tell in one line what went wrong beside the work, instead of asyncio's traceback."""
    error = context.get("exception")
    # A host that cannot be reached is the picture's to tell, and it does.
    if not isinstance(error, (UnreachableError, asyncio.CancelledError)):
        note(f"{context.get('message', 'Error')}: {error or ''}")


def open_session(
    chosen: Options,
    *,
    dispatching: bool,
    fleet: bool = True,
    own_queue: bool = False,
    lab: Inventory | None = None,
    hosts: Hosts | None = None,
) -> Session:
    """Return the session that the options name, not entered yet; with `own_queue` on the queue of
    this account, though the inventory names the lab's. `lab` is the inventory where the caller has
    read it, `hosts` its hosts where the caller has begun to connect them."""
    from gpuconsole.session import factory

    return factory.open_session(
        chosen.inventory,
        chosen.state,
        read_only=chosen.read_only,
        dispatch=dispatching,
        fleet=fleet,
        own_queue=own_queue,
        lab=lab,
        hosts=hosts,
    )


def awaited_session(chosen: Options, lab: Inventory, settings: LabSettings) -> AwaitedSession:
    """Return the session that the options name, to be opened once the console has drawn its first
    frame.

    Then its hosts are connected, and while they answer the rest of the session is imported. Where
    the inventory names the lab's queue, its service is asked instead.
    """
    from gpuconsole.core.fleet import FleetSnapshot
    from gpuconsole.remote.inventory import unread
    from gpuconsole.remote.lazy_hosts import LazyHosts
    from gpuconsole.tui.runtime.awaited_session import AwaitedSession

    async def opened() -> Session:
        if lab.queue is not None:
            # Of a service that was never heard the settings are waited for: not in the loop, which
            # draws.
            dispatching = not chosen.read_only
            return await asyncio.to_thread(open_session, chosen, dispatching=dispatching, lab=lab)
        hosts = LazyHosts(lab, settings)
        try:
            await hosts.start()
            await asyncio.to_thread(import_module, "gpuconsole.session.factory")
            return open_session(chosen, dispatching=not chosen.read_only, lab=lab, hosts=hosts)
        except BaseException:
            await hosts.close()
            raise

    first = FleetSnapshot(hosts=tuple(map(unread, lab.hosts)))
    return AwaitedSession(opened, first, chosen.read_only)


def show_console(
    session: Session | AwaitedSession,
    settings: LabSettings,
    site: str,
    opening: Opening,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> int:
    """Open the console over a session, with the looks that the settings name; `meanwhile` runs
    beside it. It draws over what `opening` shows."""
    from gpuconsole.tui import run_console

    # Textual reads keys from stdin and draws on stderr.
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "No terminal",
            "The console needs a terminal to read keys from and to draw on.",
            "Without one: `gpuconsole status`, or `gpuconsole demo --headless`.",
        )
    opening.hand_over()
    toured = None
    if settings.tour and not os.environ.get(NO_TOUR_VARIABLE):
        toured = (options().state or state_dir()).expanduser() / "tour-seen"
    return run_console(
        session,
        site=site,
        theme=settings.theme,
        keys=settings.keys,
        symbols=settings.symbols,
        language=settings.language,
        bell=settings.triage.notify if settings.triage.bell else "",
        tour=toured,
        meanwhile=meanwhile,
    )

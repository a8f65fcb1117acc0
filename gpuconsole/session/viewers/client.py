"""A session of its own on the hosts that another session polls: what a viewer in a browser has."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import NoReturn

from gpuconsole.core.containers import Engine, Lease
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot
from gpuconsole.core.images import DEFAULT_IMAGE
from gpuconsole.core.wording import msg
from gpuconsole.errors import UnreachableError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.clock import WallClock
from gpuconsole.session.context import Context
from gpuconsole.session.factory import user_name
from gpuconsole.session.fleet.changes import applied
from gpuconsole.session.session import Session
from gpuconsole.session.submit.pack import pack_project
from gpuconsole.session.viewers.server import GREETING, NEWS, Greeting, received
from gpuconsole.state import Journal

LONGEST_LINE = 2**16


class SharedHosts:
    """The fleet as another session sees it. Implements `core.containers.Hosts`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._snapshot = FleetSnapshot()
        self._leases: dict[str, tuple[Lease, ...]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to listen. UnreachableError if there is no sharer."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._path, limit=LONGEST_LINE)
        except OSError as error:
            raise UnreachableError(
                "The shared session is gone",
                msg("{path}: {error}.", path=self._path, error=error),
                "Start it again.",
            ) from error
        GREETING.validate_json(await received(reader))
        self._tasks = [asyncio.ensure_future(self._listen(reader, writer))]

    async def close(self) -> None:
        """Stop listening."""
        await cancel_all(self._tasks)

    def snapshot(self) -> FleetSnapshot:
        """Return the last picture; it grows old when its sender has gone."""
        return self._snapshot

    async def engine(self, host: str) -> Engine:
        """Return an engine that knows what the other session knows, and does nothing."""
        return _Absent(host, self._leases.get(host, ()))

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """Refuse: only the session that polls a host has a link to it."""
        _refuse(host)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    changes = NEWS.validate_json(await received(reader))
                    self._snapshot = applied(self._snapshot, changes)
                    self._leases = dict(changes.leases)
        finally:
            writer.close()


class _Absent:
    """An engine on which nothing can be done from here."""

    def __init__(self, host: str, leases: tuple[Lease, ...]) -> None:
        self._host = host
        self._leases = leases

    async def leases(self) -> tuple[Lease, ...]:
        """Return the leases as the other session has last seen them."""
        return self._leases

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(self._host)


def open_shared(path: Path, greeting: Greeting, state: Path, *, read_only: bool) -> Session:
    """Return a session on a shared picture and the same queue, not entered yet.

    It neither polls nor dispatches nor records: the session that shares does.
    """
    clock = WallClock()
    recording = greeting.settings.recording.model_copy(update={"enabled": False})
    return Session(
        Context(
            hosts=SharedHosts(path),
            journal=Journal(state, clock=clock.now, read_only=read_only),
            settings=greeting.settings.model_copy(update={"recording": recording}),
            user=user_name(),
            pack=pack_project,
            default_image=lambda host: greeting.images.get(host, DEFAULT_IMAGE),
            clock=clock,
            read_only=read_only,
            simulated=greeting.simulated,
            dispatch=False,
        )
    )


def _refuse(host: str) -> NoReturn:
    raise UnreachableError(
        "Not from the browser",
        msg(
            "{host} is reached by the session behind this page, which does no such thing for it.",
            host=host,
        ),
        "Do it in a terminal, with the same command or key.",
    )

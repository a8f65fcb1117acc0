"""One session's picture for several viewers: a server on a unix socket, and what goes over it.

Hosts are polled once however many look. Viewers read the queue from its journal themselves; what
they cannot see on their own, the fleet and the leases on it, is sent to them when it changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.util.adapter import Adapter
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UnreachableError
from gpuconsole.session.fleet.changes import FleetChanges, changes

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

BEAT_S = 0.4
"""How often the picture is looked at for news."""
CONNECT_S = 10.0
LONGEST = 256 * 1024 * 1024
"""Bytes of a message; a lab of 10,000 hosts stays far below."""
_LENGTH = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a viewer must know before the first picture."""

    settings: LabSettings
    site: str
    simulated: bool
    images: Mapping[str, str]
    """The default image of each host."""


GREETING = Adapter(Greeting)
NEWS = Adapter(FleetChanges)


class Share:
    """Serves a session's picture on a socket while it is entered."""

    def __init__(self, session: Session, path: Path, site: str = "") -> None:
        """The folder of the socket must be its owner's alone: who reaches it sees everything."""
        self._session = session
        self._path = path
        self._site = site
        self._server: asyncio.Server | None = None
        self._viewers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Share:
        """Begin to serve."""
        self._server = await asyncio.start_unix_server(self._greet, self._path)
        self._path.chmod(0o600)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End all viewers' connections."""
        assert self._server is not None
        self._server.close()
        for viewer in self._viewers:
            viewer.cancel()
        await asyncio.gather(*self._viewers, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._feed(writer))
        self._viewers.add(task)
        task.add_done_callback(self._viewers.discard)
        # A viewer says nothing: what comes is the end.
        with contextlib.suppress(ConnectionError):
            await reader.read()
        task.cancel()

    async def _feed(self, writer: asyncio.StreamWriter) -> None:
        session = self._session
        snapshot = session.hosts.snapshot()
        images = {host.name: session._context.default_image(host.name) for host in snapshot.hosts}
        greeting = Greeting(session.settings, self._site, session.simulated, images)
        sent: FleetSnapshot | None = None
        leases: Mapping[str, tuple[Lease, ...]] = {}
        try:
            await _send(writer, GREETING.dump_json(greeting))
            while True:
                snapshot, seen = session.hosts.snapshot(), session._leases.seen()
                if sent is None or snapshot.revision != sent.revision or seen != leases:
                    # A viewer that is slow waits here, and next gets what is new by then.
                    await _send(writer, NEWS.dump_json(changes(sent, snapshot, seen)))
                    sent, leases = snapshot, seen
                await asyncio.sleep(BEAT_S)
        except ConnectionError:
            return
        finally:
            writer.close()


def greeting_of(path: Path) -> Greeting:
    """Ask a server who it is, before there is an event loop. UnreachableError when it is gone."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(CONNECT_S)
            link.connect(str(path))
            with link.makefile("rb") as stream:
                (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
                return GREETING.validate_json(stream.read(length))
    except (OSError, struct.error, ValueError) as error:
        raise UnreachableError(
            "The shared session is gone",
            msg("{path} does not answer: {error}.", path=path, error=error),
            "Start it again.",
        ) from error


async def received(reader: asyncio.StreamReader) -> bytes:
    """Return the next message; IncompleteReadError at the end."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > LONGEST:
        raise asyncio.IncompleteReadError(b"", length)
    return await reader.readexactly(length)


async def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(_LENGTH.pack(len(message)) + message)
    await writer.drain()

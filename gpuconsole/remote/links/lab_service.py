"""The way to the lab's service: its socket on this machine, or through an SSH connection."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path

from gpuconsole.config import LabSettings
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, UnreachableError
from gpuconsole.remote.hosts import make_links
from gpuconsole.remote.inventory import HostEntry, Inventory
from gpuconsole.remote.links import relay
from gpuconsole.remote.links.ssh import SshLink
from gpuconsole.remote.links.ssh_process import SshSession

CHUNK = 64 * 1024


class SshWay:
    """Reaches the service's socket through SSH: identity there is the account that logs in.

    Where the sshd forwards no sockets, a relay of a few lines, run as that account, does the same.
    """

    def __init__(
        self, entry: HostEntry, path: str, inventory: Inventory, settings: LabSettings
    ) -> None:
        """`entry` is the service's host as it is reached, `path` its socket there."""
        self.name = entry.name if inventory.host(entry.name) else entry.address
        jumps = tuple(host for host in inventory.hosts if host.name != entry.name)
        links = make_links(Inventory(inventory.source, (entry, *jumps)), settings)
        link = links[entry.name]
        assert isinstance(link, SshLink)
        self._link = link
        self._links = links
        self._path = path
        self._relay: Relay | None = None
        self._lock = asyncio.Lock()

    async def socket(self) -> Path:
        """Return a local socket that reaches the service. UnreachableError where there is none."""
        async with self._lock:
            if self._relay is None and not await self._link.forwards_socket(self._path):
                await self._require_socket()
                self._relay = Relay(self._link, self._path)
                await self._relay.start()
            if self._relay is not None:
                return self._relay.socket
            return Path(await self._link.forward_socket(self._path))

    async def _require_socket(self) -> None:
        """Raise UnreachableError where the host has no such socket."""
        done = await self._link.run(["test", "-S", self._path])
        if done.exit_status != 0:
            raise UnreachableError(
                "The lab's queue does not answer",
                msg("{name} has no socket {path}.", name=self.name, path=self._path),
                "Jobs that run go on. Ask whether `gpuconsole dispatch --lab` runs there.",
            )

    def lost(self) -> None:
        """Nothing to forget: a connection that has broken is made again."""

    async def close(self) -> None:
        """End the connection."""
        if self._relay is not None:
            await self._relay.close()
        for link in self._links.values():
            await link.close()


class Relay:
    """A local socket, each connection of which runs a relay on the host."""

    def __init__(self, link: SshLink, path: str) -> None:
        self._link = link
        self._folder = Path(tempfile.mkdtemp(prefix="gpuconsole-"))
        self.socket = self._folder / "queue.sock"
        # The file is sent whole, as a word of the command.
        text = Path(relay.__file__).read_text("utf-8")
        self._command = ("python3", "-c", text, path)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_unix_server(self._serve, self.socket)

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        session: SshSession | None = None
        try:
            with contextlib.suppress(ConsoleError, ConnectionError):
                session = await self._link.pipe(self._command)
                sending = asyncio.ensure_future(_send(reader, session))
                try:
                    await _receive(session, writer)
                finally:
                    sending.cancel()
        finally:
            self._open.discard(task)
            if session is not None:
                session.kill()
            writer.close()


async def _send(reader: asyncio.StreamReader, session: SshSession) -> None:
    while data := await reader.read(CHUNK):
        session.write(data)
    session.write_eof()


async def _receive(session: SshSession, writer: asyncio.StreamWriter) -> None:
    while (chunk := await session.queue.next()) is not None:
        writer.write(chunk)
        await writer.drain()

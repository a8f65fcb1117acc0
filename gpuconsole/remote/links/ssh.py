"""The link over SSH: one connection to a host, made again after it was lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, TrustError, UnreachableError, UsageError
from gpuconsole.remote.inventory import HostEntry
from gpuconsole.remote.links.connect_limits import ConnectGate
from gpuconsole.remote.links.errors import (
    LoginError,
    command_failed,
    command_too_slow,
    dropped,
    output_too_long,
    session_refused,
    unreachable,
)
from gpuconsole.remote.links.host_keys import HostKeyCheck
from gpuconsole.remote.links.protocol import OUTPUT_LIMIT, Completed
from gpuconsole.remote.links.ssh_library import asyncssh
from gpuconsole.remote.links.ssh_process import SshSession
from gpuconsole.remote.links.wakeups import Wakeups
from gpuconsole.remote.ssh_config import own_config, require_trusted
from gpuconsole.waiting import within

_LOG = logging.getLogger(__name__)
KEEPALIVE_S = 5
KEEPALIVE_COUNT = 3
"""A dead link is noticed after 5 s x (3 + 1); a cut of 4 s is survived."""
CONNECT_TIMEOUT_S = 5.0
# A private RSA key is the user's own. To test its primes takes 0.1 to 0.4 s of processor time for
# each host and key, and OpenSSH does not do it either: a damaged key fails to log in.
asyncssh.set_default_skip_rsa_key_validation(True)
_FAULTS = (OSError, ValueError, asyncssh.Error, asyncio.TimeoutError, TrustError)


class SshLink:
    """One host over SSH. `jump` is the link to the host in between, shared by all behind it.

    `gate` bounds how many connections are made at once: handshakes cost processor time, and
    sshd drops what comes in a rush. `wakeups` wakes those who read its commands' lines.
    """

    def __init__(
        self,
        entry: HostEntry,
        *,
        jump: SshLink | None = None,
        gate: ConnectGate | None = None,
        timeout: float = CONNECT_TIMEOUT_S,
        wakeups: Wakeups | None = None,
    ) -> None:
        self.entry = entry
        self.host = entry.name
        self.check = HostKeyCheck(entry.name, entry.known_hosts)
        self._jump = jump
        self._gate = gate or ConnectGate(1)
        self._failures = 0
        """Connections that could not be made since the last that could."""
        self._timeout = timeout
        self._wakeups = wakeups
        self._connecting = asyncio.Lock()
        self._options: asyncssh.SSHClientConnectionOptions | None = None
        self._connection: asyncssh.SSHClientConnection | None = None
        self._forwards: dict[str, tuple[str, asyncssh.SSHListener]] = {}
        self._folder: str | None = None
        self._closed = False

    @property
    def username(self) -> str:
        """The account on the host, as far as it is known."""
        return self._options.username if self._options else self.entry.user or ""

    @property
    def connected(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None

    async def connect(self) -> None:
        """Connect if there is no connection; raises UnreachableError with the reason if that
        fails."""
        async with self._connecting:
            if self._connection is not None:
                return
            if self._jump is not None:
                # Before the gate is entered: hosts that wait for their jump host must not fill it.
                await self._jump.connect()
            async with self._gate.turn(self._failures):
                try:
                    self._connection = await self._connect()
                except _FAULTS as error:
                    self._failures += 1
                    explained = self._explained(error)
                    _LOG.info("%s: %s (%r)", self.host, explained, error)
                    raise explained from error
            self._failures = 0
            _LOG.info("%s: connected", self.host)

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run a command to its end."""
        session = await self._start(argv, lines=False)
        try:
            return await within(timeout, self._complete(session, stdin, argv))
        except asyncio.TimeoutError as error:
            raise command_too_slow(self.host, argv, timeout) from error
        finally:
            session.kill()

    async def stream(self, argv: Sequence[str]) -> AsyncIterator[bytes]:
        """Give a command's output in chunks."""
        session = await self._start(argv, lines=False)
        try:
            session.write_eof()
            while (chunk := await session.queue.next()) is not None:
                yield chunk
            status = await session.finish()
            if status != 0:
                raise command_failed(self.host, argv, status, session.error_tail)
        finally:
            session.kill()

    async def open(self, argv: Sequence[str]) -> SshSession:
        """Start a command and talk with it line by line."""
        return await self._start(argv, lines=True)

    async def pipe(self, argv: Sequence[str]) -> SshSession:
        """Start a command and talk with it in chunks of bytes."""
        return await self._start(argv, lines=False)

    async def forwards_socket(self, path: str) -> bool:
        """Tell whether a socket of the host can be reached through its sshd: where it cannot,
        nothing listens there, or the sshd forwards none; it says the same of both."""
        await self.connect()
        opening = self._standing().open_unix_connection(path, encoding=None)
        try:
            _, writer = await within(self._timeout, opening)
        except asyncssh.ChannelOpenError:
            return False
        except (OSError, asyncssh.Error, asyncio.TimeoutError) as error:
            raise UnreachableError(
                "Cannot reach the socket",
                msg("{host}: {why}.", host=self.host, why=clean(str(error), 300)),
            ) from error
        writer.close()
        return True

    async def forward_socket(self, path: str) -> str:
        """Return a local socket that reaches the host's, private to this user."""
        await self.connect()
        if path in self._forwards:
            return self._forwards[path][0]
        connection = self._standing()
        if self._folder is None:
            # mkdtemp makes it 0700: access to a Docker socket is root on that host.
            self._folder = tempfile.mkdtemp(prefix="gpuconsole-")
        local = os.path.join(self._folder, f"{len(self._forwards)}.sock")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(local)
        try:
            listener = await connection.forward_local_path(local, path)
        except (OSError, asyncssh.Error) as error:
            raise UnreachableError(
                "Cannot forward the socket",
                msg("{host}: {why}.", host=self.host, why=clean(str(error), 300)),
            ) from error
        os.chmod(local, 0o600)
        self._forwards[path] = (local, listener)
        return local

    async def close(self) -> None:
        """End the connection and what runs through it."""
        self._closed = True
        connection, self._connection = self._connection, None
        self._drop_forwards()
        if connection is not None:
            connection.close()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(1.0, connection.wait_closed())
            connection.abort()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def drop(self) -> None:
        """Forget the connection at once, so that the next use makes a new one."""
        connection, self._connection = self._connection, None
        self._drop_forwards()
        if connection is not None:
            connection.abort()

    def _drop_forwards(self) -> None:
        for local, listener in self._forwards.values():
            listener.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(local)
        self._forwards.clear()

    def _standing(self) -> asyncssh.SSHClientConnection:
        if self._connection is None:
            raise UnreachableError("Not connected", msg("{host} is not connected.", host=self.host))
        return self._connection

    async def _connect(self) -> asyncssh.SSHClientConnection:
        if self._closed:
            raise UnreachableError(
                "Not connected", msg("The link to {host} is closed.", host=self.host)
            )
        options = await self._prepared()
        self.check.read()
        tunnel: dict[str, object] = {}
        if self._jump is not None:
            tunnel["tunnel"] = self._jump._standing()
        connecting = asyncssh.connect(self.entry.address, options=options, **tunnel)
        return await within(self._timeout, connecting, lost=asyncssh.SSHClientConnection.abort)

    async def target(self) -> tuple[str, int] | None:
        """Return address and port to which a direct connection goes; None where none does."""
        try:
            options = await self._prepared()
        except _FAULTS as error:
            raise self._explained(error) from error
        if self._jump is not None or options.tunnel or options.proxy_command:
            return None
        return options.host, options.port

    async def _prepared(self) -> asyncssh.SSHClientConnectionOptions:
        if self._options is None:
            # Reads ssh config and keys; built once, shared by all connections to come.
            self._options = await within(self._timeout, self._build_options())
        return self._options

    async def _build_options(self) -> asyncssh.SSHClientConnectionOptions:
        entry = self.entry
        require_trusted(own_config())
        given: dict[str, object] = {}
        if entry.user is not None:
            given["username"] = entry.user
        if entry.port is not None:
            given["port"] = entry.port
        if entry.identity_file is not None:
            given["client_keys"] = [str(entry.identity_file)]
        options: asyncssh.SSHClientConnectionOptions
        options = await asyncssh.SSHClientConnectionOptions.construct(
            host=entry.address,
            # The empty tuple, unlike None, means the user's own ssh config.
            config=(),
            client_factory=lambda: _Client(self),
            known_hosts=self.check.match,
            # How long connecting may take is bound where it is awaited.
            connect_timeout=None,
            login_timeout=self._timeout,
            keepalive_interval=KEEPALIVE_S,
            keepalive_count_max=KEEPALIVE_COUNT,
            # Measured: zlib costs more than it saves here, and this cipher is the cheapest.
            compression_algs=["none"],
            encryption_algs="^aes128-gcm@openssh.com",
            # A key with a passphrase is left to the agent, as ssh would without a terminal.
            ignore_encrypted=True,
            agent_forwarding=False,
            **given,
        )
        return options

    def lost(self, connection: asyncssh.SSHClientConnection | None) -> None:
        """Forget a connection that has ended."""
        if self._connection is not None and self._connection is connection:
            self._connection = None
            self._drop_forwards()

    async def _start(self, argv: Sequence[str], *, lines: bool) -> SshSession:
        await self.connect()
        starting = SshSession.start(
            self._standing(), self.host, argv, lines=lines, wakeups=self._wakeups
        )
        try:
            return await within(self._timeout, starting, lost=SshSession.kill)
        except ConsoleError:
            raise
        except asyncio.TimeoutError as error:
            raise unreachable(self.host, self._where(), error, self._timeout) from error
        except ValueError as error:
            raise UsageError(
                "Cannot run that", msg("{host}: {why}.", host=self.host, why=error)
            ) from error
        except (OSError, asyncssh.Error) as error:
            if isinstance(error, asyncssh.ChannelOpenError) and self.connected:
                raise session_refused(self.host) from error
            raise UnreachableError(
                "Cannot start a command",
                msg(
                    "{host}: {value}.",
                    host=self.host,
                    value=clean(str(error), 300) or "the link broke",
                ),
            ) from error

    async def _complete(self, session: SshSession, stdin: bytes, argv: Sequence[str]) -> Completed:
        session.write(stdin)
        session.write_eof()
        output = bytearray()
        while (chunk := await session.queue.next()) is not None:
            output += chunk
            if len(output) > OUTPUT_LIMIT:
                raise output_too_long(self.host, argv)
        return Completed(await session.finish(), bytes(output), session.error_tail)

    def _where(self) -> str:
        entry = self.entry
        port = entry.port or (self._options.port if self._options else None) or 22
        return f"{entry.address} port {port}"

    def _explained(self, error: BaseException) -> UnreachableError:
        if isinstance(error, TrustError):
            return UnreachableError(
                error.title,
                msg("{host}: {message}", host=self.host, message=error.message),
                error.hint,
            )
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return self.check.error(clean(str(error), 200))
        if isinstance(error, asyncssh.PermissionDenied):
            return LoginError(
                "Login refused",
                msg(
                    "{host}: {where} does not let {username} in with the available keys.",
                    host=self.host,
                    where=self._where(),
                    username=self.username,
                ),
                msg(
                    "Try `ssh-copy-id`, load the key with `ssh-add`, or name `identity_file` "
                    "and `user` for {host} in the inventory.",
                    host=self.host,
                ),
            )
        if isinstance(error, FileNotFoundError):
            named = clean(str(error.filename or Path("a file")), 200)
            return LoginError(
                "Key not found",
                msg("{host}: there is no {named}.", host=self.host, named=named),
                "Check `identity_file`.",
            )
        if isinstance(error, (asyncssh.KeyImportError, asyncssh.ConfigParseError)):
            return LoginError(
                "Cannot use the key or the ssh config",
                msg("{host}: {why}.", host=self.host, why=error),
            )
        if isinstance(error, (asyncssh.ConnectionLost, ConnectionResetError, BrokenPipeError)):
            return dropped(self.host, self._where())
        return unreachable(self.host, self._where(), error, self._timeout)


class _Client(asyncssh.SSHClient):
    """Tells the link about keys that are not trusted, and about its end."""

    def __init__(self, link: SshLink) -> None:
        self._link = link
        self._connection: asyncssh.SSHClientConnection | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._connection = conn

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.lost(self._connection)

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        self._link.check.refuse(host, port, key)
        return False

"""Keys of SSH. Those of hosts are always checked, an unknown one distinguished from a changed one,
and trusted on request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from gpuconsole.core.file_trust import open_trusted
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import HostKeyError, UsageError
from gpuconsole.remote.links.ssh_library import asyncssh
from gpuconsole.remote.ssh_config import own_config
from gpuconsole.waiting import within

AGENT_WAIT_S = 5.0
"""Seconds that an SSH agent has to answer."""


async def agent_keys(address: str) -> int | None:
    """Return how many keys the SSH agent holds; None where no agent answers."""
    if not address:
        return None
    try:
        agent = asyncssh.SSHAgentClient(address)
        try:
            return len(list(await within(AGENT_WAIT_S, agent.get_keys())))
        finally:
            agent.close()
    except (OSError, ValueError, asyncio.TimeoutError, asyncssh.Error):
        return None


def key_files() -> tuple[list[str], list[str]]:
    """Return the names of the user's usual key files: those that open, and those with a
    passphrase."""
    opened, locked = [], []
    for kind in ("ed25519", "ecdsa", "rsa"):
        path = own_config().with_name(f"id_{kind}")
        try:
            asyncssh.read_private_key(path)
            opened.append(path.name)
        except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError):
            # Without bcrypt, which asyncssh does not bring, these are one error.
            locked.append(path.name)
        except OSError:
            continue
    return opened, locked


SYSTEM_FILE = Path("/etc/ssh/ssh_known_hosts")


@dataclass(frozen=True, slots=True)
class OfferedKey:
    """A key that a host showed and that is not trusted."""

    pattern: str
    """What known_hosts calls the host: `address`, or `[address]:port`."""
    text: str
    """Algorithm and key, as in known_hosts."""
    algorithm: str
    fingerprint: str
    changed: bool
    """Whether other keys are known for this host."""


class HostKeyCheck:
    """Checks the key of one host against known_hosts, which is read for each connection."""

    def __init__(self, host: str, path: Path) -> None:
        self._host = host
        self._path = path
        self._trusted = b""
        self._known = False
        self.offered: OfferedKey | None = None

    def read(self) -> None:
        """Read the keys that are trusted; TrustError where others can change one of the files."""
        # Bytes, so that a missing file means "nothing known", never "do not check".
        self._trusted = b"".join(_read(path) for path in (self._path, SYSTEM_FILE))

    def match(self, host: str, address: str, port: int | None) -> Sequence[object]:
        """Return the keys known for a host, in the form that asyncssh wants."""
        self.offered = None
        keys = asyncssh.match_known_hosts(_parsed(self._trusted), host, address, port)
        self._known = any(keys[:2])
        return keys

    def refuse(self, host: str, port: int, key: asyncssh.SSHKey) -> None:
        """Note a key that is not trusted."""
        exported = key.export_public_key("openssh").decode().split()
        self.offered = OfferedKey(
            pattern=host if port == 22 else f"[{host}]:{port}",
            text=" ".join(exported[:2]),
            algorithm=exported[0],
            fingerprint=key.get_fingerprint(),
            changed=self._known,
        )

    def error(self, reason: str) -> HostKeyError:
        """Return the error for the key that was refused last."""
        offered = self.offered
        if offered is None:
            return HostKeyError(
                "Host key refused", msg("{host}: {reason}.", host=self._host, reason=reason)
            )
        shown = f"{offered.algorithm} {offered.fingerprint}"
        if offered.changed:
            return HostKeyError(
                "Host key has changed",
                msg(
                    "{host}: {pattern} shows {shown}, but {path} holds another key for it. "
                    "Somebody may be in between.",
                    host=self._host,
                    pattern=offered.pattern,
                    shown=shown,
                    path=self._path,
                ),
                msg(
                    "If the host was reinstalled, remove the old key with `ssh-keygen -f "
                    "{path} -R '{pattern}'`, then run `gpuconsole check --trust {host}`.",
                    path=self._path,
                    pattern=offered.pattern,
                    host=self._host,
                ),
            )
        return HostKeyError(
            "Unknown host key",
            msg(
                "{host}: {pattern} shows {shown}, which {path} does not hold.",
                host=self._host,
                pattern=offered.pattern,
                shown=shown,
                path=self._path,
            ),
            msg(
                "Compare the fingerprint, then run `gpuconsole check --trust {host}`.",
                host=self._host,
            ),
        )


def trust(offered: OfferedKey, path: Path) -> None:
    """Add a key to known_hosts; a changed key is never added over the old one."""
    if offered.changed:
        raise UsageError(
            "Host key has changed",
            msg("{path} holds another key for {pattern}.", path=path, pattern=offered.pattern),
            msg(
                "Remove it first: ssh-keygen -f {path} -R '{pattern}'",
                path=path,
                pattern=offered.pattern,
            ),
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = _read(path)
        with path.open("ab") as file:
            # A file edited by hand may lack its last line's end.
            if before and not before.endswith(b"\n"):
                file.write(b"\n")
            file.write(f"{offered.pattern} {offered.text}\n".encode())
    except OSError as error:
        raise UsageError(
            "Cannot write known_hosts",
            msg("{path}: {strerror}.", path=path, strerror=error.strerror),
        ) from error


@lru_cache(maxsize=4)
def _parsed(trusted: bytes) -> asyncssh.SSHKnownHosts:
    """Return the keys of known_hosts; parsed once for all hosts, as every host has a line in it."""
    return asyncssh.import_known_hosts(trusted.decode())


def _read(path: Path) -> bytes:
    try:
        handle = open_trusted(path)
    except FileNotFoundError:
        return b""
    try:
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)

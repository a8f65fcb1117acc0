"""The keys with which this user opens hosts, as far as they open without a passphrase."""

from __future__ import annotations

import asyncio

import asyncssh

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

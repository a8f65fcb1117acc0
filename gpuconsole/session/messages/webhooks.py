"""Posting a message to a web address: once, without redirects, bounded in time and size.

Such an address is often itself a password: no text from here has more of it than its host.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuconsole.core.lab_service.messages import Kind, Message, address_of, body_of, refusal_in
from gpuconsole.core.lab_service.receivers import Receiver, require_receiver
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import ConsoleError

if TYPE_CHECKING:
    from aiohttp import abc

TIMEOUT_S = 10.0
ANSWER_BYTES = 4096
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses that a NAT64 sends on to the IPv4 address in them (RFC 6052)."""
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_SITE = ipaddress.IPv6Network("fec0::/10")
"""Obsolete forms of addresses of one machine or site (RFC 4291)."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Where messages may go: `allowed` None is anywhere, as from a user's own console."""

    allowed: Sequence[str] | None = None

    def private(self, url: str) -> bool:
        """Tell whether an address of a private network will do. RefusedError for an address that
        is not allowed at all."""
        return self.allowed is None or require_receiver(url, self.allowed)


ANYWHERE = Guard()


class PublicAddresses:
    """Resolves names, and leaves out addresses that are not of the public network: the owner of a
    name decides to which address it leads."""

    def __init__(self, inner: abc.AbstractResolver) -> None:
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[abc.ResolveResult]:
        """Return the public addresses of a name. OSError where it has none."""
        addresses = await self._inner.resolve(host, port, family)
        public = [entry for entry in addresses if is_public(entry["host"])]
        if not public:
            raise OSError(None, "it has no public address")
        return public

    async def close(self) -> None:
        """End the resolver."""
        await self._inner.close()


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of sending a document: a status and the beginning of a body, or what was in the
    way, as words without the address."""

    status: int = 0
    body: bytes = b""
    trouble: str = ""


async def posted(
    kind: Kind, url: str, secret: str, message: Message, now: float, guard: Guard
) -> str:
    """Post a message; return why it was not taken, as words without the address, or ""."""
    try:
        private = guard.private(url)
    except ConsoleError as error:
        return error.message
    if not private and not Receiver.of(url).is_name:
        return "a pattern allows names alone"
    reply = await sent(
        address_of(kind, url, secret, now),
        body_of(kind, message, secret, now),
        public=not private,
        # A proxy of the environment would be contacted in place of what the lab allows.
        proxied=guard.allowed is None,
    )
    return reply.trouble or refusal_in(kind, reply.status, reply.body)


async def sent(
    url: str,
    document: Mapping[str, Any],
    *,
    public: bool = False,
    proxied: bool = True,
    timeout_s: float = TIMEOUT_S,
) -> Reply:
    """Post a JSON document once; with `public` to the public network alone, with `proxied` through
    a proxy that the environment names."""
    # Imported only when something is sent: the import is slow.
    import aiohttp
    from aiohttp.resolver import ThreadedResolver

    resolver = PublicAddresses(ThreadedResolver()) if public else None
    connector = aiohttp.TCPConnector(resolver=resolver, force_close=True, limit=1)  # type: ignore[arg-type]
    try:
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=timeout_s),
                trust_env=proxied, headers={"User-Agent": "gpuconsole"},
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.post(url, json=document, allow_redirects=False) as answer,
        ):  # fmt: skip
            if 300 <= answer.status < 400:
                return Reply(trouble=f"it answered {answer.status}: redirects are not followed")
            return Reply(answer.status, await answer.content.read(ANSWER_BYTES))
    except asyncio.TimeoutError:
        return Reply(trouble=f"it did not answer within {timeout_s:.0f} s")
    except (ssl.SSLError, aiohttp.ClientSSLError):
        return Reply(trouble="its certificate is not good")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Reply(trouble=_words(error))


def is_public(address: str) -> bool:
    """Tell whether an address is of the public network, as is every address within it."""
    ip = ipaddress.ip_address(address)
    if ip.is_multicast or not ip.is_global:
        return False
    if ip.version == 4:
        return True
    if ip in _COMPATIBLE or ip in _SITE:
        return False
    translated = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _TRANSLATED else None
    inner = translated or ip.sixtofour
    return inner is None or inner.is_global


def _words(error: Exception) -> str:
    """Return what went wrong: the text of such an error may have the whole address in it."""
    inner = getattr(error, "os_error", None) or error
    if isinstance(inner, socket.gaierror):
        return "its name is not known"
    if isinstance(inner, OSError) and (inner.errno or inner.strerror):
        return (os.strerror(inner.errno) if inner.errno else str(inner.strerror)).lower()
    return "it could not be reached"

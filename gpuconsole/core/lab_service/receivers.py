"""Where the lab's service may send messages: the addresses that the lab allows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError

_PORTS = {"https": 443, "http": 80}
_NAME = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z][a-z0-9-]*")
"""A name of the DNS: its last part begins with a letter; `127.1` and `0x7f.1` are addresses."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """The part of a web address that says who is contacted."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Receiver:
        """Read an address, or an entry of an allow-list, in which https is meant where nothing is
        said. ValueError for what is neither, and for one with a name or password in it."""
        parts = urlsplit(url if "://" in url else f"https://{url}")
        host = (parts.hostname or "").rstrip(".")
        if parts.scheme not in _PORTS or not host or "@" in parts.netloc:
            raise ValueError("expected a web address")
        # What is not ASCII becomes another name on its way, and may become an address.
        if not host.isascii() or any(letter.isspace() or letter in '\\%"' for letter in host):
            raise ValueError("expected the name of a host, in ASCII")
        return cls(parts.scheme, host, parts.port or _PORTS[parts.scheme])

    @property
    def is_name(self) -> bool:
        """Whether it is a name of the DNS, not an address in any form that a system reads."""
        return _NAME.fullmatch(self.host) is not None


def require_receiver(url: str, allowed: Iterable[str]) -> bool:
    """Tell whether the lab names the receiver of an address exactly, which makes addresses of its
    own network possible; False where only a pattern has it. RefusedError where neither does."""
    try:
        asked = Receiver.of(url)
    except ValueError:
        raise RefusedError("Wrong address", "It is no web address.") from None
    matches = []
    for entry in allowed:
        receiver = Receiver.of(entry)
        same = (receiver.scheme, receiver.port) == (asked.scheme, asked.port)
        if same and fnmatchcase(asked.host, receiver.host):
            matches.append(receiver.host == asked.host)
    if not matches:
        where = clean(asked.host, 100)
        raise RefusedError(
            "Not within the lab's policy",
            msg(
                "The lab's service sends no messages to {scheme}://{where}:{port}.",
                scheme=asked.scheme,
                where=where,
                port=asked.port,
            ),
            "Ask the lab's operators to list it under `allowed: {webhooks: …}`.",
        )
    return any(matches)


def require_mailbox(address: str, allowed: Iterable[str]) -> None:
    """Raise RefusedError for a mail address to which the lab's service does not send."""
    if not any(fnmatchcase(address.lower(), pattern.lower()) for pattern in allowed):
        raise RefusedError(
            "Not within the lab's policy",
            msg("The lab's service sends no mail to {value}.", value=clean(address, 100)),
            "Ask the lab's operators to list it under `allowed: {mail: …}`.",
        )

"""Who may see the page. On a host of many users loopback is no border: a token is.

The token stands in the address that is printed once. Whoever opens it gets a cookie and is sent on
to an address without it. Names of hosts other than loopback are refused, for a page elsewhere may
have its own name point here; so are requests that such a page makes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from urllib.parse import urlsplit

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Guard:
    """The token of one run, and the cookie that stands for it."""

    def __init__(self, token: str | None = None) -> None:
        """A test may name the token; else it is made of 256 random bits."""
        self._token = token or secrets.token_urlsafe(32)
        # Not the token itself: a cookie that leaks does not open the door to new browsers.
        self.cookie = hmac.digest(self._token.encode(), b"gpuconsole cookie", "sha256").hex()
        self.cookie_name = "gpuconsole-" + hashlib.sha256(self.cookie.encode()).hexdigest()[:8]

    def address(self, port: int) -> str:
        """Return the address to print."""
        return f"http://127.0.0.1:{port}/?token={self._token}"

    def knows(self, token: str) -> bool:
        """Whether that is the token; takes the same time for every wrong one."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def admits(self, cookie: str) -> bool:
        """Whether that is the cookie."""
        return hmac.compare_digest(cookie.encode(), self.cookie.encode())


def is_here(host: str) -> bool:
    """Whether a Host header names this machine; the port may be that of a tunnel."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name in LOOPBACK


def is_own(origin: str, host: str) -> bool:
    """Whether a request comes from our own page."""
    return origin in (f"http://{host}", f"https://{host}")

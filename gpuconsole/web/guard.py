"""Who may see the page. On a host of many users loopback is no border: a token is.

The token stands in the address that is printed once. Whoever opens it gets a cookie and is sent on
to an address without it. Names of hosts other than loopback are refused, for a page elsewhere may
have its own name point here; so are requests that such a page makes.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from gpuconsole.errors import UsageError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
SHORTEST_TOKEN = 16
"""Letters of a token that a person brings."""


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
        return _same(token, self._token)

    def admits(self, cookie: str) -> bool:
        """Whether that is the cookie."""
        return _same(cookie, self.cookie)

    def bears(self, authorization: str) -> bool:
        """Whether an Authorization header is `Bearer` with the token."""
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and self.knows(token.strip())


def _same(said: str, true: str) -> bool:
    # What a client sends may be no text at all.
    return hmac.compare_digest(said.encode(errors="replace"), true.encode())


def given_token(path: Path | None, variable: str, environ: Mapping[str, str]) -> str:
    """Return the token that a person brought in a file, else in a variable; "" where in neither.

    Never as an argument: those are seen by every user of a machine. UsageError for a file that
    others may read, and for a token that could be guessed.
    """
    source = str(path) if path is not None else f"${variable}"
    token = environ.get(variable, "") if path is None else _secret(path)
    token = token.strip()
    if path is None and not token:
        return ""
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise UsageError(
            "Token cannot be used",
            f"{source}: a token has {SHORTEST_TOKEN} or more letters, digits and signs.",
            "Make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token


def _secret(path: Path) -> str:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise UsageError(
                    "Token is open to others", f"{path} may be read by other users.",
                    f"Run: chmod 600 {path}",
                )  # fmt: skip
            return file.read(4096).decode(errors="replace")
    except OSError as error:
        raise UsageError("Token cannot be read", f"{path}: {error.strerror}.", "") from error


def is_here(host: str) -> bool:
    """Whether a Host header names this machine; the port may be that of a tunnel."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


def is_loopback(name: str) -> bool:
    """Whether a name or an address is this machine's alone. A name may mean anything, but
    `localhost`."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name in LOOPBACK


def is_own(origin: str, host: str) -> bool:
    """Whether a request comes from our own page."""
    return origin in (f"http://{host}", f"https://{host}")

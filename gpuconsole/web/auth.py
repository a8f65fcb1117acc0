"""Who may see the page. On a host of many users loopback is no border: a token is.

The token is part of the address that is printed once. A browser that opens it gets a cookie and is
sent on to an address without it. A token expires, and is revoked by removing its file. Names of
hosts other than the three of loopback are refused, for a page elsewhere may have its own name point
here; so are requests that such a page makes.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import math
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gpuconsole.core.file_trust import make_private, read_private
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

SHORTEST_TOKEN = 16
"""Letters of a token that a person brings."""
LARGEST_FILE = 4096
"""Bytes of a file with a token."""
TOKENS = "web"
"""The folder below the state folder with a file for each valid token of `serve`."""
_HERE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


def elapsed() -> float:
    """Return seconds on a clock that cannot be set, and goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Guard:
    """A token, and the cookie that represents it. Neither admits anybody once it has ended."""

    def __init__(self, token: str, ended: Callable[[], bool] = lambda: False) -> None:
        """`ended` is asked at each check."""
        self._token = token
        self._ended = ended
        # Not the token itself: a cookie that leaks does not open the door to new browsers.
        self.cookie = hmac.digest(self._token.encode(), b"gpuconsole cookie", "sha256").hex()
        self.cookie_name = "gpuconsole-" + hashlib.sha256(self.cookie.encode()).hexdigest()[:8]

    def address(self, port: int) -> str:
        """Return the address to print."""
        return f"http://127.0.0.1:{port}/?token={self._token}"

    @property
    def ended(self) -> bool:
        """Whether the token has expired or was revoked."""
        return self._ended()

    def knows(self, token: str) -> bool:
        """Return whether that is the token, and valid; takes equal time for every wrong one."""
        return _same(token, self._token) and not self.ended

    def admits(self, cookie: str) -> bool:
        """Return whether that is the cookie, and its token valid."""
        return _same(cookie, self.cookie) and not self.ended


@contextlib.contextmanager
def issued(folder: Path, age_s: float, clock: Callable[[], float] = elapsed) -> Iterator[Guard]:
    """Issue a token of 256 random bits that ends after `age_s` seconds, with the context, or as
    soon as its file in `folder` is removed. UsageError when no file can be made there."""
    token = secrets.token_urlsafe(32)
    until = clock() + age_s
    file = folder / hashlib.sha256(token.encode()).hexdigest()[:16]
    try:
        make_private(folder)
        file.touch(mode=0o600, exist_ok=False)
    except OSError as error:
        raise UsageError(
            "Token cannot be issued", f"{file}: {error.strerror}.",
            "Name a state folder that can be written, with --state.",
        ) from error  # fmt: skip
    try:
        yield Guard(token, lambda: clock() >= until or not file.exists())
    finally:
        file.unlink(missing_ok=True)


def revoke(folder: Path) -> int:
    """Revoke all tokens issued with a folder; returns how many. UsageError when one remains."""
    revoked = 0
    try:
        for file in folder.iterdir() if folder.is_dir() else ():
            file.unlink(missing_ok=True)
            revoked += 1
    except OSError as error:
        raise UsageError("Token cannot be revoked", f"{folder}: {error.strerror}.", "") from error
    return revoked


class Bearer:
    """The bearer token of a scrape, from a file or else a variable.

    It is read again for each scrape: a file that is replaced rotates the token, one that is removed
    revokes it. It expires `age_s` seconds after the file was written, or the program started. The
    time of day is used only for the age of a file that is first seen: setting the clock back later
    prolongs nothing.
    """

    def __init__(
        self,
        path: Path | None,
        variable: str,
        environ: Mapping[str, str],
        *,
        age_s: float = math.inf,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = elapsed,
    ) -> None:
        self._path, self._variable, self._environ = path, variable, environ
        self._age_s, self._clock, self._elapsed = age_s, clock, elapsed
        self._written_at = math.nan
        self._ends = elapsed() + age_s

    def token(self) -> str:
        """Return the token as it is now; "" where none was brought. UsageError for a file that
        others may read, a token that could be guessed, and one that has expired."""
        token, written_at = _given(self._path, self._variable, self._environ)
        if self._path is not None and written_at != self._written_at:
            self._written_at = written_at
            self._ends = self._elapsed() + self._age_s - max(0.0, self._clock() - written_at)
        if self._elapsed() >= self._ends:
            source = f"${self._variable}" if self._path is None else str(self._path)
            raise UsageError(
                "Token has expired",
                msg("{source} is older than --token-age allows.", source=source),
                "Restart with another one." if self._path is None else "Write another one into it.",
            )
        return token

    def bears(self, authorization: str) -> bool:
        """Return whether an Authorization header is `Bearer` with the token, and that valid."""
        scheme, _, said = authorization.partition(" ")
        try:
            token = self.token()
        except UsageError:
            return False
        return scheme.lower() == "bearer" and bool(token) and _same(said.strip(), token)


def _same(said: str, true: str) -> bool:
    # What a client sends may be no text at all.
    return hmac.compare_digest(said.encode(errors="replace"), true.encode())


def _given(path: Path | None, variable: str, environ: Mapping[str, str]) -> tuple[str, float]:
    """Return the token that a person brought in a file, else in a variable, and when the file was
    written: seconds since the epoch, 0 for none. The token is "" where it is in neither.

    Never as an argument: those are seen by every user of a machine. UsageError for a file that
    others may read, and for a token that could be guessed.
    """
    source, token, written_at = f"${variable}", environ.get(variable, ""), 0.0
    if path is not None:
        source = str(path)
        token, written_at = read_private(path, "Token", LARGEST_FILE)
    token = token.strip()
    if path is None and not token:
        return "", 0.0
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise UsageError(
            "Token cannot be used",
            msg(
                "{source}: a token has {shortest_token} or more letters, digits and signs.",
                source=source,
                shortest_token=SHORTEST_TOKEN,
            ),
            "Make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token, written_at


def is_here(host: str) -> bool:
    """Return whether a Host header is exactly one of the three names of loopback, with any port:
    that of a tunnel differs."""
    return _HERE.fullmatch(host) is not None


def is_loopback(name: str) -> bool:
    """Return whether a name or an address is this machine's alone. A name may mean anything, but
    `localhost`."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def is_own(origin: str, host: str) -> bool:
    """Whether a request comes from our own page."""
    return origin in (f"http://{host}", f"https://{host}")

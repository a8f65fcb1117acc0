"""Who is let in: the token, the cookie, names of this machine, our own page."""

from __future__ import annotations

import pytest

from gpuconsole.web.guard import Guard, is_here, is_own
from gpuconsole.web.page import headers, page


def test_every_run_has_a_token_of_its_own() -> None:
    one, other = Guard(), Guard()
    assert one.address(1) != other.address(1)
    assert one.cookie != other.cookie
    assert not one.admits(other.cookie)
    assert len(one.address(80).partition("token=")[2]) >= 43, "256 bits"


def test_token_and_cookie_open_and_nothing_else_does() -> None:
    guard = Guard("secret")
    assert guard.knows("secret")
    assert guard.admits(guard.cookie)
    for wrong in ("", "secre", "secret ", "SECRET", "sécret", guard.cookie):
        assert not guard.knows(wrong)
    for wrong in ("", "secret", guard.cookie[:-1], "é"):
        assert not guard.admits(wrong)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8765", "localhost", "localhost:9000", "[::1]:80", "LOCALHOST:1"]
)
def test_names_of_this_machine_are_served_whatever_the_tunnels_port(host: str) -> None:
    assert is_here(host)


@pytest.mark.parametrize(
    "host",
    ["", "example.org", "127.0.0.1.example.org:80", "localhost.evil:80", "10.0.0.1", "[::1", "a@b",
     "127.0.0.1@evil.org", "evil.org:127.0.0.1"],
)  # fmt: skip
def test_other_names_are_not(host: str) -> None:
    assert not is_here(host)


def test_only_our_own_page_may_ask() -> None:
    assert is_own("http://localhost:9000", "localhost:9000")
    for origin in ("null", "", "http://localhost:9001", "http://127.0.0.1:9000", "http://evil"):
        assert not is_own(origin, "localhost:9000")


def test_the_page_asks_nobody_else_and_runs_nothing_written_into_it() -> None:
    text = page("localhost:9000", secure=False)
    assert 'data-session-websocket-url="ws://localhost:9000/ws"' in text
    assert "https://" not in text
    assert "<script>" not in text
    policy = headers("localhost:9000")["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert '"><script>' not in page('x"><script>', secure=False)

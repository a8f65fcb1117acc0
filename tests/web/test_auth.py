"""Who is let in: the token, the cookie, names of this machine, our own page."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.errors import UsageError
from gpuconsole.web.auth import Guard, is_here, is_own, issued, revoke
from gpuconsole.web.html import headers, page


def token_of(guard: Guard) -> str:
    return guard.address(80).partition("token=")[2]


def test_every_run_has_a_token_of_its_own(tmp_path: Path) -> None:
    with issued(tmp_path, 60.0) as one, issued(tmp_path, 60.0) as other:
        assert one.address(1) != other.address(1)
        assert one.cookie != other.cookie
        assert not one.admits(other.cookie)
        assert len(token_of(one)) >= 43, "256 bits"
        assert token_of(one) not in "".join(path.name for path in tmp_path.iterdir())


def test_a_token_expires_with_its_cookie(tmp_path: Path) -> None:
    now = 1000.0
    with issued(tmp_path / "web", 60.0, lambda: now) as guard:
        token = token_of(guard)
        now = 1059.9
        assert guard.knows(token)
        assert guard.admits(guard.cookie)
        now = 1060.0
        assert guard.ended
        assert not guard.knows(token)
        assert not guard.admits(guard.cookie)
    assert not list((tmp_path / "web").iterdir()), "nothing is left of it"


def test_a_token_is_revoked_by_removing_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "web"
    with issued(folder, 60.0) as one, issued(folder, 60.0) as other:
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert {one.stat().st_mode & 0o777 for one in (folder, folder.parent)} == {0o700}
        assert revoke(folder) == 2
        for guard in (one, other):
            assert not guard.knows(token_of(guard))
            assert not guard.admits(guard.cookie)
    assert revoke(folder) == 0
    assert revoke(tmp_path / "nothing") == 0


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="Token cannot be issued"), issued(tmp_path / "file", 1.0):
        pass


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
     "127.0.0.1@evil.org", "evil.org:127.0.0.1", "127.0.0.2", "127.1", "user@127.0.0.1",
     "evil.org@127.0.0.1:80", "127.0.0.1:80/x", "127.0.0.1:", "127.0.0.1:999999", "[::1]]", "::1",
     "[0:0:0:0:0:0:0:1]", "localhost.", "127.0.0.1\n", " 127.0.0.1", "127.0.0.１"],
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


def test_the_state_folder_that_a_token_makes_is_for_its_user_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with issued(state / "web", 60.0):
        assert [folder.stat().st_mode & 0o777 for folder in (state, state / "web")] == [0o700] * 2

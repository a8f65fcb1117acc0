"""Checking the keys of many hosts costs what checking those of one does."""

from __future__ import annotations

from pathlib import Path

import asyncssh
import pytest

import gpuconsole.remote.links.ssh  # noqa: F401
from gpuconsole.remote.links.host_keys import HostKeyCheck


def line(address: str) -> str:
    key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().split()
    return f"{address} {key[0]} {key[1]}\n"


def test_known_hosts_is_parsed_once_for_all_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("".join(line(f"10.0.0.{number}") for number in range(5)))
    parsed: list[str] = []
    parse = asyncssh.import_known_hosts

    def counted(text: str) -> asyncssh.SSHKnownHosts:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(asyncssh, "import_known_hosts", counted)

    def known(number: int) -> bool:
        check = HostKeyCheck(f"host{number}", path)
        check.read()
        return bool(check.match(f"10.0.0.{number}", f"10.0.0.{number}", 22)[0])

    assert [known(number) for number in range(6)] == [True] * 5 + [False]
    assert len(parsed) == 1
    # A key that is trusted later is seen by the next connection.
    with path.open("a") as file:
        file.write(line("10.0.0.5"))
    assert known(5)
    assert len(parsed) == 2


def test_the_primes_of_the_users_own_key_are_not_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    key.write_private_key(str(tmp_path / "key"))
    numbers = asyncssh.crypto.RSAPrivateKey.construct
    asked: list[bool] = []

    def noted(*given: object, **more: object) -> object:
        asked.append(bool(given[-1] if given else more))
        return numbers(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncssh.crypto.RSAPrivateKey, "construct", noted)
    asyncssh.read_private_key(str(tmp_path / "key"))
    assert asked == [True]

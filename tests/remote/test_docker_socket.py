"""What is said of a Docker socket that cannot be used, also where the account's PATH is broken."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from gpuconsole.errors import UnreachableError
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.docker.thread_pool import _LOOK, socket_fault
from gpuconsole.remote.links.local import LocalLink
from gpuconsole.remote.links.protocol import Completed


def bound_in(folder: Path) -> Path:
    """Return a socket that no engine serves."""
    path = folder / "docker.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
    return path


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    """Return a socket that no engine serves."""
    return bound_in(tmp_path)


async def fault(path: Path, link: LocalLink | None = None) -> UnreachableError:
    engine = DockerEngine(link or LocalLink("box"), "box", str(path))
    try:
        with pytest.raises(UnreachableError) as caught:
            await engine.leases()
    finally:
        await engine.close()
    return caught.value


async def test_a_broken_path_does_not_hide_the_socket(
    dead: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    error = await fault(dead)
    assert error.title == "Docker does not answer"
    assert "the connection broke" in error.message


async def test_no_socket_and_no_socket_but_a_file(tmp_path: Path) -> None:
    assert "has no Docker socket at" in (await fault(tmp_path / "none" / "docker.sock")).message
    file = tmp_path / "file"
    file.write_text("")
    error = await fault(file)
    assert (error.title, error.message) == ("Docker is not there", f"{file} on box is no socket.")


async def test_a_host_that_cannot_look_says_what_it_said(dead: Path) -> None:
    class Odd(LocalLink):
        async def run(self, argv, *, stdin=b"", timeout=30.0) -> Completed:  # type: ignore[no-untyped-def]
            return Completed(127, b"", b"sh: \x1b[31mnot found\n")

    error = await fault(dead, Odd("box"))
    assert error.title == "Docker does not answer"
    assert "could not be looked at either: sh: not found" in error.message


def look(path: Path) -> int:
    """Look at a path as an account that is not root."""
    stranger = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    asks = ["/bin/sh", "-c", _LOOK, "sh", str(path)]
    return subprocess.run([*(stranger if os.geteuid() == 0 else []), *asks]).returncode


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another account")
def test_rights_are_told_from_absence() -> None:
    with tempfile.TemporaryDirectory(prefix="gpuconsole-") as name:
        _told_apart(bound_in(Path(name)))


def _told_apart(dead: Path) -> None:
    dead.parent.chmod(0o755)
    dead.chmod(0o600)
    assert "may not write to" in socket_fault("box", str(dead), look(dead), "").message
    absent = dead.with_name("absent.sock")
    assert socket_fault("box", str(absent), look(absent), "").title == "Docker is not there"
    dead.parent.chmod(0o700)
    for path in (dead, absent, dead.parent / "deeper" / "x.sock"):
        error = socket_fault("box", str(path), look(path), "")
        assert error.title == "Docker refuses this account"
        assert "may not enter the folder of" in error.message
    dead.parent.chmod(0o755)
    dead.chmod(0o666)
    assert look(dead) == 0


async def test_a_socket_that_may_be_used_has_no_fault(dead: Path) -> None:
    link = LocalLink("box")
    done = await asyncio.wait_for(link.run(["/bin/sh", "-c", _LOOK, "sh", str(dead)]), 60)
    assert done.exit_status == 0

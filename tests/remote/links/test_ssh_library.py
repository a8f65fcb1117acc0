"""asyncssh is imported without processes, and finds the libraries that it would find by itself."""

from __future__ import annotations

import ctypes.util
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconsole.remote.links import ssh_library

WATCHED = """
import sys
started = []
sys.addaudithook(lambda event, args: event in EVENTS and started.append((event, args[:2])))
EVENTS = {"subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "os.exec"}
import gpuconsole.remote.links.ssh
import asyncssh, ctypes.util
assert ctypes.util.find_library.__module__ == "ctypes.util"
print(started)
"""
needs_a_cache = pytest.mark.skipif(
    not ssh_library.CACHE.exists(), reason="the loader has no cache here"
)


@needs_a_cache
def test_the_links_over_ssh_are_imported_without_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@needs_a_cache
@pytest.mark.parametrize("name", ["c", "m", "no-such-library-anywhere", "."])
def test_a_library_is_found_as_python_finds_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert ssh_library.installed(name) == ctypes.util.find_library(name)


def test_one_that_cannot_be_loaded_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    cache = tmp_path / "ld.so.cache"
    cache.write_bytes(b"glibc-ld.so.cache1.1\0libnone.so.7\0/lib/libnone.so.7\0")
    monkeypatch.setattr(ssh_library, "CACHE", cache)
    assert ssh_library.installed("none") is None


@pytest.mark.parametrize("why", ["no cache", "folders of its own"])
def test_python_is_asked_where_the_cache_does_not_tell_all(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_library, "_find_library", lambda name: f"found {name}")
    if why == "no cache":
        monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
        monkeypatch.setattr(ssh_library, "CACHE", tmp_path / "none")
    else:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert ssh_library.installed("oqs") == "found oqs"

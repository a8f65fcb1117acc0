"""What others can change is not trusted: files, their folders, links, and the time in between."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuconsole.core import file_trust
from gpuconsole.errors import TrustError, UsageError

OTHER = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change an owner")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give a file in a folder of a folder, all of which only this user can write."""
    folder = tmp_path / "config" / "gpuconsole"
    folder.mkdir(parents=True)
    path = folder / "inventory.yaml"
    path.write_text("good")
    path.chmod(0o644)
    return path


@pytest.fixture(autouse=True)
def _shared_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the group of all files shared by several, whoever runs the tests."""
    _group(monkeypatch, "lab", members=["ann", "bob"])


def _group(
    monkeypatch: pytest.MonkeyPatch, name: str, *, members: list[str], gid: int | None = None
) -> None:
    """Make this user `ann`, and every group the one described; `gid` is ann's primary one."""
    real = os.getegid()
    ann = SimpleNamespace(pw_name="ann", pw_uid=os.geteuid(), pw_gid=real if gid is None else gid)
    monkeypatch.setattr(file_trust.pwd, "getpwuid", lambda uid: ann)
    monkeypatch.setattr(file_trust.pwd, "getpwall", lambda: [ann])
    monkeypatch.setattr(
        file_trust.grp,
        "getgrgid",
        lambda number: SimpleNamespace(gr_name=name, gr_gid=number, gr_mem=members),
    )


def read(path: Path) -> str:
    with os.fdopen(file_trust.open_trusted(path), encoding="utf-8") as file:
        return file.read()


def refused(path: Path) -> TrustError:
    with pytest.raises(TrustError) as caught:
        file_trust.open_trusted(path)
    return caught.value


def test_a_file_of_ones_own_is_read_also_by_links_and_steps_back(place: Path) -> None:
    assert read(place) == "good"
    link, relative = place.parent / "link", place.parent / "relative"
    link.symlink_to(place)
    relative.symlink_to("../gpuconsole/./link")
    assert read(link) == read(relative) == "good"
    assert read(place.parent / ".." / "gpuconsole" / "inventory.yaml") == "good"


@pytest.mark.parametrize(
    ("mode", "who", "command"),
    [
        (0o666, "everybody", "chmod go-w"),
        (0o646, "everybody", "chmod o-w"),
        (0o664, "the group lab", "chmod g-w"),
    ],
)
def test_a_file_that_others_can_write_is_refused(
    place: Path, mode: int, who: str, command: str
) -> None:
    place.chmod(mode)
    error = refused(place)
    assert f"{place} is writable by {who} (mode {mode:04o}, owner ann)" in error.message
    assert error.hint == f"Run: {command} {place}"


@pytest.mark.parametrize("levels", [1, 2])
def test_every_folder_above_counts_also_behind_a_link(place: Path, levels: int) -> None:
    folder = place.parents[levels - 1]
    folder.chmod(0o777)
    link = place.parents[2] / "link"
    link.symlink_to(place)
    for path in (place, link):
        error = refused(path)
        assert f"{folder} is writable by everybody (mode 0777" in error.message
        assert error.hint == f"Run: chmod go-w {folder}"


def test_the_folder_of_a_link_counts_as_well(place: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "link").symlink_to(place)
    assert read(shared / "link") == "good"
    shared.chmod(0o777)
    assert f"{shared} is writable" in refused(shared / "link").message


def test_a_sticky_folder_is_no_danger_to_what_lies_in_it(place: Path) -> None:
    place.parent.chmod(0o1777)
    assert read(place) == "good"
    place.chmod(0o666)
    assert f"{place} is writable" in refused(place).message


@as_root
@pytest.mark.parametrize("victim", ["file", "folder", "link"])
def test_what_belongs_to_somebody_else_is_refused(
    place: Path, victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = place.parent / "link"
    link.symlink_to(place)
    given = {"file": place, "folder": place.parent, "link": link}[victim]
    os.chown(given, OTHER, OTHER, follow_symlinks=False)
    monkeypatch.setattr(file_trust.pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name=f"u{uid}"))
    error = refused(link)
    assert f"{given} belongs to u{OTHER} (mode" in error.message
    assert f"chown -h u0 {given}" in error.hint


@as_root
def test_a_link_that_somebody_laid_into_a_sticky_folder_is_not_followed(place: Path) -> None:
    place.parent.chmod(0o1777)
    link = place.parent / "link"
    link.symlink_to(place)
    assert read(link) == "good"
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    assert f"{link} belongs to" in refused(link).message


@as_root
def test_files_of_root_are_fine_for_everybody(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_trust.os, "geteuid", lambda: OTHER)
    assert read(place) == "good"
    place.parent.chmod(0o777)
    assert refused(place).hint == f"Run as root: chmod go-w {place.parent}"


def test_the_private_group_of_the_owner_may_write(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.chmod(0o664)
    place.parent.chmod(0o775)
    _group(monkeypatch, "ann", members=[])
    assert read(place) == "good"
    _group(monkeypatch, "ann", members=["ann"])
    assert read(place) == "good"
    # Each of these makes it a group of several.
    _group(monkeypatch, "ann", members=["bob"])
    refused(place)
    _group(monkeypatch, "lab", members=[])
    refused(place)
    _group(monkeypatch, "ann", members=[], gid=OTHER)
    refused(place)
    _group(monkeypatch, "ann", members=[])
    bob = SimpleNamespace(pw_name="bob", pw_uid=OTHER, pw_gid=os.getegid())
    monkeypatch.setattr(file_trust.pwd, "getpwall", lambda: [bob])
    refused(place)


def test_an_access_list_behind_a_private_group_is_seen(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _group(monkeypatch, "ann", members=[])
    place.chmod(0o664)
    assert read(place) == "good"
    monkeypatch.setattr(file_trust.os, "listxattr", lambda path: ["system.posix_acl_access"])
    refused(place)


def test_links_that_go_round_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        file_trust.open_trusted(tmp_path / "a")


def test_nothing_stays_open_after_a_refusal(place: Path) -> None:
    place.chmod(0o666)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(8):
        refused(place)
        with pytest.raises(FileNotFoundError):
            file_trust.open_trusted(place.parent / "none" / "x")
    assert len(os.listdir("/proc/self/fd")) == before


SWAP = """
import os, sys, threading
good, evil, link = sys.argv[1:]
print("begun", flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    for target in (good, evil):
        os.symlink(target, link + ".new")
        os.replace(link + ".new", link)
"""


def test_what_was_checked_is_what_is_read(place: Path) -> None:
    """A link is swapped as fast as it goes: to read and then to look would see two files."""
    evil = place.parent / "evil"
    evil.write_text("evil")
    evil.chmod(0o666)
    link = place.parent / "link"
    link.symlink_to(place)
    words = [sys.executable, "-c", SWAP, str(place), str(evil), str(link)]
    found: list[str] = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"begun\n"
        for _ in range(400):
            try:
                found.append(read(link))
            except TrustError:
                found.append("refused")
        assert swapper.poll() is None
        assert swapper.stdin is not None
        swapper.stdin.close()
    assert set(found) <= {"good", "refused"}


# -- a folder for this user alone ------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o750, 0o755, 0o777, 0o1777])
def test_a_folder_that_others_may_enter_is_not_private(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "state of mine"
    folder.mkdir(mode=0o700)
    file_trust.require_private(folder)
    folder.chmod(mode)
    with pytest.raises(TrustError) as caught:
        file_trust.require_private(folder)
    assert f"(mode {mode:04o}, owner ann)" in caught.value.message
    command = caught.value.hint.partition("run: ")[2]
    subprocess.run(command, shell=True, check=True)
    assert stat.S_IMODE(folder.stat().st_mode) & 0o777 == 0o700
    file_trust.require_private(folder)


@as_root
def test_a_folder_of_somebody_else_is_not_private(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    os.chown(folder, OTHER, OTHER)
    with pytest.raises(TrustError) as caught:
        file_trust.require_private(folder)
    assert "belongs to" in caught.value.message
    assert "--state DIR" in caught.value.hint


def test_a_folder_that_others_could_exchange_is_not_private(tmp_path: Path) -> None:
    folder = tmp_path / "open" / "state"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    folder.parent.chmod(0o777)
    with pytest.raises(TrustError) as caught:
        file_trust.require_private(folder)
    assert f"{folder.parent} is writable by everybody" in caught.value.message


MOST = 10


def unread(path: Path) -> tuple[str, str, str]:
    with pytest.raises(UsageError) as caught:
        file_trust.read_private(path, "The token", MOST)
    return caught.value.title, caught.value.message, caught.value.hint


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
@pytest.mark.parametrize("text", ["", "é", "x" * MOST])
def test_a_secret_of_ones_own_is_read_with_its_time(tmp_path: Path, mode: int, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    os.utime(path, (5, 7))
    assert file_trust.read_private(path, "The token", MOST) == (text, 7.0)


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_a_secret_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "my token"
    path.write_text("x")
    path.chmod(mode)
    assert unread(path) == (
        "The token is open to others",
        f"{path} may be read by other users.",
        f"Run: chmod 600 '{path}'",
    )


@pytest.mark.parametrize(
    ("data", "title", "words"),
    [
        (b"x" * (MOST + 1), "The token is too large", f"has more than {MOST} bytes."),
        (b"\xff", "The token cannot be read", "is not UTF-8."),
    ],
)
def test_a_secret_that_is_none_is_refused(
    tmp_path: Path, data: bytes, title: str, words: str
) -> None:
    path = tmp_path / "token"
    path.write_bytes(data)
    path.chmod(0o600)
    assert unread(path) == (title, f"{path} {words}", "")


def test_a_secret_that_is_no_file_is_refused(tmp_path: Path) -> None:
    title = "The token cannot be read"
    pipe, missing = tmp_path / "pipe", tmp_path / "missing"
    os.mkfifo(pipe, 0o600)
    assert unread(pipe) == (title, f"{pipe} is not a regular file.", "")
    assert unread(missing) == (title, f"{missing}: No such file or directory.", "")


@as_root
def test_a_secret_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("x")
    path.chmod(0o600)
    os.chown(path, OTHER, OTHER)
    assert unread(path) == (
        "The token is open to others",
        f"{path} belongs to somebody else.",
        "Make a copy.",
    )


def test_new_files_and_folders_are_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open(tmp_path / "new", "w", opener=file_trust.private) as file:
            file.write("x")
        file_trust.make_private(tmp_path / "a" / "b")
        file_trust.make_private(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "a", "a/b")}
    assert modes == {"new": 0o600, "a": 0o700, "a/b": 0o700}


Reader = Callable[[Path], object]


def _settings(path: Path) -> object:
    from gpuconsole.config import load_settings

    return load_settings(path)


def _inventory(path: Path) -> object:
    from gpuconsole.remote.inventory import load_inventory

    return load_inventory(path)


def _known_hosts(path: Path) -> object:
    from gpuconsole.remote.links.host_keys import HostKeyCheck

    HostKeyCheck("a", path).read()
    return True


def _ssh_config(path: Path) -> object:
    from gpuconsole.remote.ssh_config import require_trusted

    outer = path.with_name("config")
    outer.write_text(f"Host x\n  Include {path.name}\n")
    require_trusted(outer)
    return True


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (_settings, "policy: best_fit\n"),
        (_inventory, "version: 1\nhosts:\n  - name: a\n"),
        (_known_hosts, "a ssh-ed25519 AAAA\n"),
        (_ssh_config, "Host a\n  ProxyCommand nc %h %p\n"),
    ],
)
def test_everything_that_decides_trust_is_read_so(place: Path, reader: Reader, text: str) -> None:
    place.write_text(text)
    assert reader(place)
    place.chmod(0o666)
    with pytest.raises(TrustError):
        reader(place)

"""The parts of the local sandbox that need no bubblewrap."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconsole.errors import UsageError
from gpuconsole.remote import confine, pidsgroup, sandbox_view
from gpuconsole.remote.sandbox import Limits, Sandbox
from tests.waiting import DEADLINE_S

TRIES = """
import json, resource, socket

def made(*kind, of=socket.socket):
    try:
        of(*kind)
    except OSError:
        return False
    return True

print(json.dumps({
    "file": made(socket.AF_UNIX), "datagram": made(socket.AF_UNIX, socket.SOCK_DGRAM),
    "packet": made(17, socket.SOCK_RAW), "host": made(40),
    "network": made(), "network 6": made(socket.AF_INET6),
    "pair": made(of=socket.socketpair),
    "pair of datagrams": made(socket.AF_UNIX, socket.SOCK_DGRAM, of=socket.socketpair),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
}))
"""


def confined(settings: dict[str, object], code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", confine.__file__, json.dumps(settings),
         sys.executable, "-I", "-S", "-c", code],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip


@pytest.mark.skipif(not confine.is_known(platform.machine()), reason="another machine")
def test_a_confined_process_opens_sockets_of_its_network_alone() -> None:
    done = confined({"sockets": False, "limits": {"RLIMIT_NOFILE": 40}}, TRIES)
    assert json.loads(done.stdout or done.stderr) == {
        "file": False, "datagram": False, "packet": False, "host": False,
        "network": True, "network 6": True, "pair": True, "pair of datagrams": False, "files": 40,
    }  # fmt: skip


def test_what_settings_do_not_name_stays_as_it_is(tmp_path: Path) -> None:
    group = tmp_path / "members"
    code = "import os, socket; socket.socket(socket.AF_UNIX); print(os.getpid())"
    done = confined({"join": str(group)}, code)
    assert done.stdout.strip() == group.read_text()


def test_jumps_of_the_filter_lead_to_its_verdicts() -> None:
    for machine in ("x86_64", "aarch64", "riscv64", "loongarch64"):
        text = confine.no_foreign_sockets(machine)
        lines = list(confine._INSTRUCTION.iter_unpack(text))
        for at, (code, true, false, _) in enumerate(lines):
            if code in (confine._IF_EQUAL, confine._IF_AT_LEAST):
                assert max(at + 1 + true, at + 1 + false) < len(lines)
        assert lines[-1] == (confine._RETURN, 0, 0, confine._ALLOWED)
    assert not confine.is_known("s390x")


def test_homes_and_places_where_everyone_writes_are_no_projects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home" / "ada"
    for folder in ("project/src", ".config/secret", "open"):
        (home / folder).mkdir(parents=True)
    (home / "open").chmod(0o777)
    (home / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    shared = [home, home / "link", home.parent, tmp_path, home / ".config", home / "open",
              home / ".config" / "secret", Path("/"), Path("/tmp"), Path("/etc")]  # fmt: skip
    assert [path for path in shared if not sandbox_view.is_shared(path)] == []
    assert not sandbox_view.is_shared(home / "project")
    assert not sandbox_view.is_shared(home / "project" / "src")


def test_the_view_names_all_that_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, libraries = tmp_path / "home", tmp_path / "libraries"
    for folder in (home, libraries, tmp_path / "linked"):
        folder.mkdir()
    (libraries / "own.pth").write_text(f"import sys\n{tmp_path / 'linked'}\n{home}\n/\nrelative\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(libraries))
    words = sandbox_view.view([tmp_path / "train.py"], tmp_path / "scratch")
    bound = [words[at + 1] for at, word in enumerate(words) if word == "--ro-bind"]
    assert {str(tmp_path / name) for name in ("train.py", "libraries", "linked")} <= set(bound)
    assert not {"/", str(home), str(tmp_path), "/etc", "/home", "/var"} & set(bound)
    writable = [words[at + 1] for at, word in enumerate(words) if word == "--bind"]
    assert writable == [str(tmp_path / "scratch"), str(tmp_path / "scratch" / "shm")]


def test_machines_without_the_means_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    with pytest.raises(UsageError, match="filters of system calls"):
        Sandbox().command(["-c", ""], readable=[], scratch=tmp_path)


@pytest.mark.parametrize(("root", "possible", "words"), [
    (True, False, "and 7 processes (but root starts as many as it likes here)"),
    (True, True, "and 7 processes"), (False, False, "and 7 processes"),
])  # fmt: skip
def test_the_question_says_what_is_not_limited(
    monkeypatch: pytest.MonkeyPatch, root: bool, possible: bool, words: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0 if root else 1000)
    monkeypatch.setattr(pidsgroup, "is_possible", lambda: possible)
    assert words in Sandbox(limits=Limits(processes=7)).isolation


def test_without_the_means_no_group_of_processes_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pidsgroup, "_UNIFIED", tmp_path / "none")
    monkeypatch.setattr(pidsgroup, "_SEPARATE", tmp_path / "none")
    assert not pidsgroup.is_possible()
    with pidsgroup.pids_group(3) as group:
        assert group is None
    monkeypatch.setattr(pidsgroup, "_base", lambda: tmp_path)
    with pidsgroup.pids_group(3) as group:
        # A folder that is no group takes what is written, and is not empty afterwards.
        assert group is not None
        assert (group.parent / "pids.max").read_text() == "3"


@pytest.mark.parametrize("sized", [True, False])
def test_a_project_has_a_folder_to_write_to_in_its_place(tmp_path: Path, sized: bool) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").touch()
    for shown, there in ((project, ""), (project / "train.py", "/train.py")):
        overlay = sandbox_view.Overlay(project, (shown,), size_mib=2)
        words = sandbox_view.view([], tmp_path / "scratch", overlay, sized=sized)
        at = words.index("--tmpfs")
        assert words[at + 1] == str(project)
        assert (words[at - 2 : at] == ["--size", str(2 * 2**20)]) is sized
        source = f"{sandbox_view.SOURCE}{there}"
        assert words[at + 2 : at + 5] == ["--ro-bind", str(shown), source]


def test_folders_outside_of_a_project_lie_in_the_scratch_folder(tmp_path: Path) -> None:
    project, scratch = tmp_path / "project", tmp_path / "scratch"
    overlay = sandbox_view.Overlay(project, (project,), outside=(Path("/data7"), tmp_path))
    words = sandbox_view.view([], scratch, overlay)
    for at, (path, stored) in enumerate(overlay.stored(scratch)):
        assert stored == scratch / f"outside-{at}"
        place = words.index(str(stored))
        assert words[place - 1 : place + 2] == ["--bind", str(stored), str(path)]
        # The project, and whatever else is shown, lies on top.
        assert place < words.index("--tmpfs")


def test_places_of_a_project_depend_on_the_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlay = sandbox_view.Overlay(tmp_path / "project", (tmp_path / "project",))
    for found, places in (
        ("/usr/bin/bwrap", (sandbox_view.SOURCE, overlay.root)),
        (None, (overlay.root, tmp_path / "scratch" / "project")),
    ):
        monkeypatch.setattr("shutil.which", lambda name, found=found: found)
        assert Sandbox().places(overlay, tmp_path / "scratch") == places

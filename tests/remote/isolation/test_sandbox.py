"""The parts of the local sandbox that need no bubblewrap."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconsole.errors import UsageError
from gpuconsole.remote.isolation import (
    confine,
    filesystem_view,
    process_usage,
    sandbox,
)
from gpuconsole.remote.isolation.process_usage import Tree
from gpuconsole.remote.isolation.sandbox import Limits, Sandbox
from tests.waiting import DEADLINE_S, wait_until

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
    done = confined({"filtered": True, "limits": {"RLIMIT_NOFILE": 40}}, TRIES)
    assert json.loads(done.stdout or done.stderr) == {
        "file": False, "datagram": False, "packet": False, "host": False,
        "network": True, "network 6": True, "pair": True, "pair of datagrams": False, "files": 40,
    }  # fmt: skip


CALLS = """
import ctypes, errno, json, sys

library = ctypes.CDLL(None, use_errno=True)

def said(number, *args):
    library.syscall(number, *args)
    return errno.errorcode.get(ctypes.get_errno(), "")

print(json.dumps({name: said(number, *args) for name, (number, *args) in json.loads(sys.argv[1])}))
"""


@pytest.mark.skipif(not confine.is_known(platform.machine()), reason="another machine")
def test_a_confined_process_makes_no_namespaces_and_no_memory_that_is_not_counted() -> None:
    table = 0 if platform.machine() == "x86_64" else 1
    calls = [(name, [numbers[table], -1, -1, -1]) for name, numbers in confine._CALLS.items()]
    clone = confine._MACHINES[platform.machine()][3]
    calls.append(("clone", [clone, 0x10000000 | 17, 0, 0, 0, 0]))
    code = CALLS.replace("sys.argv[1]", repr(json.dumps(calls)))
    code += "import subprocess, threading\nthreading.Thread(target=int).start()\n"
    code += "subprocess.run([sys.executable, '-I', '-S', '-c', ''], check=True)\n"
    done = confined({"filtered": True}, code)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said.pop("clone") == "EPERM"
    assert {name: word for name, word in said.items() if word != "ENOSYS"} == {}


@pytest.mark.parametrize("header", [
    (0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h"),
])  # fmt: skip
def test_calls_have_the_numbers_that_the_system_gives_them(header: tuple[int, str]) -> None:
    table, file = header
    if not Path(file).exists():
        pytest.skip("headers are not installed")
    text = Path(file).read_text()
    for name, numbers in confine._CALLS.items():
        found = re.search(rf"#define __NR(?:3264)?_{name}\s+(\d+)", text)
        assert found is None or int(found[1]) == numbers[table], name
    for machine, (_, *numbers) in confine._MACHINES.items():
        if (machine == "x86_64") is (table == 0):
            found = [re.search(rf"#define __NR_{name}\s+(\d+)", text)
                     for name in ("socket", "socketpair", "clone")]  # fmt: skip
            assert [int(one[1]) for one in found if one] == numbers


def test_a_process_ends_with_its_parent(tmp_path: Path) -> None:
    held = (sys.executable, "-I", "-S", confine.__file__, "SETTINGS", sys.executable, "-c",
            "import time; print('on', flush=True); time.sleep(600)")  # fmt: skip
    code = (
        "import json, os, subprocess, sys\n"
        f"held = {held!r}\n"
        "settings = json.dumps({'parent': os.getpid()})\n"
        "command = [settings if one == 'SETTINGS' else one for one in held]\n"
        "child = subprocess.Popen(command, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=DEADLINE_S, check=False
    )
    pid = int(done.stdout)
    wait_until(lambda: not process_usage.tree_of(pid).tasks or is_zombie(pid), "the child ends")


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_tree_is_a_process_with_all_that_it_started() -> None:
    code = (
        "import os, sys, time, threading\n"
        "if os.fork() == 0:\n    data = bytearray(64 * 2**20)\n    os.fork()\n"
        "    os.write(1, b'x')\n    time.sleep(600)\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "os.write(1, b'x')\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.read(3) == b"xxx"
            tree = process_usage.tree_of(child.pid)
            assert tree.pids[0] == child.pid
            assert (len(tree.pids), tree.tasks) == (3, 4)
            assert tree.taken_mib > 128
            # Both have the 64 MiB, which are there but once.
            assert 64 < process_usage.proportional_mib(tree) < tree.taken_mib - 32
        finally:
            for pid in process_usage.tree_of(child.pid).pids:
                os.kill(pid, 9)
    assert process_usage.tree_of(child.pid) == Tree((), 0, 0.0)


def test_the_space_of_a_folder_is_that_of_all_below(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "large").write_bytes(os.urandom(3 * 2**20))
    (tmp_path / "a" / "link").symlink_to("/usr")
    assert 3 <= process_usage.folder_mib(tmp_path) < 4
    assert process_usage.folder_mib(tmp_path / "none") == 0.0
    assert 0 < process_usage.available_mib() < float("inf")


def test_what_settings_do_not_name_stays_as_it_is(tmp_path: Path) -> None:
    group = tmp_path / "members"
    code = "import os, socket; socket.socket(socket.AF_UNIX); print(os.getpid())"
    done = confined({"join": str(group)}, code)
    assert done.stdout.strip() == group.read_text()


def test_jumps_of_the_filter_lead_to_its_verdicts() -> None:
    for machine in ("x86_64", "aarch64", "riscv64", "loongarch64"):
        text = confine.call_filter(machine)
        lines = list(confine._INSTRUCTION.iter_unpack(text))
        for at, (code, true, false, _) in enumerate(lines):
            if code in (confine._IF_EQUAL, confine._IF_AT_LEAST, confine._IF_ANY):
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
    assert [path for path in shared if not filesystem_view.is_shared(path)] == []
    assert not filesystem_view.is_shared(home / "project")
    assert not filesystem_view.is_shared(home / "project" / "src")


def test_the_view_names_all_that_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, libraries = tmp_path / "home", tmp_path / "libraries"
    for folder in (home, libraries, tmp_path / "linked"):
        folder.mkdir()
    (libraries / "own.pth").write_text(f"import sys\n{tmp_path / 'linked'}\n{home}\n/\nrelative\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(libraries))
    words = filesystem_view.view([tmp_path / "train.py"], tmp_path / "scratch")
    bound = [words[at + 1] for at, word in enumerate(words) if word == "--ro-bind"]
    assert {str(tmp_path / name) for name in ("train.py", "libraries", "linked")} <= set(bound)
    assert not {"/", str(home), str(tmp_path), "/etc", "/home", "/var"} & set(bound)
    # What can be written to is in memory, and bounded.
    assert "--bind" not in words
    writable = [words[at - 2 : at + 2] for at, word in enumerate(words) if word == "--tmpfs"]
    assert writable == [
        ["--size", str(2**30), "--tmpfs", str(tmp_path / "scratch")],
        ["--size", str(2**30), "--tmpfs", "/dev/shm"],
    ]


def test_machines_without_the_means_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    with pytest.raises(UsageError, match="filters of system calls"):
        Sandbox().command(["-c", ""], readable=[], scratch=tmp_path)


def test_the_question_says_why_files_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    for found, fault, words in (
        (None, "", "because bubblewrap (bwrap) is not installed here"),
        ("/usr/bin/bwrap", "bwrap: no namespaces", "does not work here (bwrap: no namespaces)"),
    ):
        monkeypatch.setattr("shutil.which", lambda name, found=found: found)
        monkeypatch.setattr(sandbox, "_fault", lambda path, fault=fault: fault)
        held = Sandbox(limits=Limits(processes=7))
        assert held.kind == "files-open"
        assert "read and write all your files" in held.isolation
        assert "and 7 processes" in held.isolation
        assert words in held.isolation
    monkeypatch.setattr(sandbox, "_fault", lambda path: "")
    assert Sandbox().kind == "bubblewrap"
    assert "your files" not in Sandbox().isolation


def test_a_bubblewrap_that_does_not_work_is_none(tmp_path: Path) -> None:
    for number, (text, fault) in enumerate((
        ("#!/bin/sh\nprintf 'bwrap: \\033[31mUnknown option --size\\n' >&2; exit 1\n",
         "bwrap: Unknown option --size"),
        ("#!/bin/sh\nexit 3\n", "it ended with code 3"),
        ("#!/bin/sh\nexit 0\n", ""),
    )):  # fmt: skip
        path = tmp_path / f"bwrap{number}"
        path.write_text(text)
        path.chmod(0o755)
        assert sandbox._fault(str(path)) == fault
    assert "No such file" in sandbox._fault(str(tmp_path / "none"))
    # What keeps it from working may pass.
    (tmp_path / "none").write_text("#!/bin/sh\n")
    (tmp_path / "none").chmod(0o755)
    assert sandbox._fault(str(tmp_path / "none")) == ""


def test_what_holds_a_child_stays_as_its_user_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_working_bubblewrap", lambda: "/usr/bin/bwrap")
    held = Sandbox()
    monkeypatch.setattr(sandbox, "_working_bubblewrap", lambda: None)
    assert held.kind == "bubblewrap"
    assert "/usr/bin/bwrap" in held.command(["-c", ""], readable=[], scratch=Path("/tmp/x"))
    assert Sandbox().kind == "files-open"


def test_root_without_bubblewrap_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_is_root", lambda: True)
    monkeypatch.setattr("shutil.which", lambda name: None if name == "bwrap" else f"/bin/{name}")
    with pytest.raises(UsageError, match="could change every file") as refused:
        Sandbox().command(["-c", ""], readable=[], scratch=tmp_path)
    assert "Install bubblewrap" in refused.value.hint
    monkeypatch.setattr(sandbox, "_is_root", lambda: False)
    words = Sandbox().command(["-c", ""], readable=[], scratch=tmp_path)
    # No process of this machine is seen: variables of the console's are in /proc.
    assert words[0] == "/bin/unshare"
    assert "--mount-proc" in words


@pytest.mark.parametrize(
    ("tree", "shared", "free", "written", "words"),
    [
        (Tree((1,), 50, 900.0), 0.0, 9999.0, 20.0, ""),
        (Tree((1,), 120, 1.0), 0.0, 9999.0, 0.0, "more than 100 processes and threads"),
        (Tree((1, 2), 2, 2000.0), 900.0, 9999.0, 0.0, ""),
        (Tree((1, 2), 2, 2000.0), 1025.0, 9999.0, 0.0, "more than 1 GiB of memory"),
        (Tree((1,), 2, 1.0), 0.0, 100.0, 0.0, "about to run out of memory"),
        (Tree((1,), 2, 1.0), 0.0, 9999.0, 21.0, "wrote more than 20 MiB"),
    ],
)
def test_what_is_used_together_is_held_against_the_limits(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tree: Tree,
    shared: float,
    free: float,
    written: float,
    words: str,
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(process_usage, "tree_of", lambda pid: tree)
    monkeypatch.setattr(process_usage, "proportional_mib", lambda tree: shared)
    monkeypatch.setattr(process_usage, "available_mib", lambda: free)
    monkeypatch.setattr(process_usage, "folder_mib", lambda folder: written)
    held = Sandbox(limits=Limits(memory_mib=1024, processes=100, written_mib=10))
    found = held._excess(1, tmp_path)
    assert words in found
    assert bool(words) is bool(found)


def test_without_the_means_no_group_of_processes_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_UNIFIED", tmp_path / "none")
    monkeypatch.setattr(sandbox, "_SEPARATE", tmp_path / "none")
    with sandbox.pids_group(3) as group:
        assert group is None
    monkeypatch.setattr(sandbox, "_groups_folder", lambda: tmp_path)
    with sandbox.pids_group(3) as group:
        # A folder that is no group takes what is written, and is not empty afterwards.
        assert group is not None
        assert (group.parent / "pids.max").read_text() == "3"


def test_a_project_has_a_folder_to_write_to_in_its_place(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").touch()
    for shown, there in ((project, ""), (project / "train.py", "/train.py")):
        overlay = filesystem_view.Overlay(project, (shown,))
        words = filesystem_view.view([], tmp_path / "scratch", overlay, size_mib=2)
        at = words.index("--tmpfs")
        assert words[at - 2 : at + 2] == ["--size", str(2 * 2**20), "--tmpfs", str(project)]
        source = f"{filesystem_view.SOURCE}{there}"
        assert words[at + 2 : at + 5] == ["--ro-bind", str(shown), source]


def test_folders_outside_of_a_project_are_in_memory_too(tmp_path: Path) -> None:
    project = tmp_path / "project"
    overlay = filesystem_view.Overlay(project, (project,), outside=(Path("/data7"), tmp_path))
    words = filesystem_view.view([], tmp_path / "scratch", overlay, size_mib=64)
    for path in overlay.outside:
        place = words.index(str(path))
        assert words[place - 3 : place + 1] == ["--size", str(32 * 2**20), "--tmpfs", str(path)]
        # The project, and whatever else is shown, lies on top.
        assert place < words.index(str(project))


def test_places_of_a_project_depend_on_the_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlay = filesystem_view.Overlay(tmp_path / "project", (tmp_path / "project",))
    for found, places in (
        ("/usr/bin/bwrap", (filesystem_view.SOURCE, overlay.root)),
        (None, (overlay.root, tmp_path / "scratch" / "project")),
    ):
        monkeypatch.setattr("shutil.which", lambda name, found=found: found)
        monkeypatch.setattr(sandbox, "_fault", lambda path: "")
        assert Sandbox().places(overlay, tmp_path / "scratch") == places

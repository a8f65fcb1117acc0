"""What is packed with a script, and what never leaves the machine."""

from __future__ import annotations

import os
import socket
import tarfile
import tempfile
from pathlib import Path

import pytest

from gpuconsole.core.submission.projects import is_too_wide, project_of
from gpuconsole.core.submission.script_edits import Edit
from gpuconsole.errors import UsageError
from gpuconsole.remote.transfer import bundle as bundle_module
from gpuconsole.remote.transfer.bundle import Bundle, make_bundle
from gpuconsole.remote.transfer.bundle_secrets import is_secret_name
from tests.remote.transfer.test_bundle_secrets import TOKENS


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name, text in {
        "train.py": "import pkg\n",
        "pkg/__init__.py": "",
        "pkg/model.py": "x = 1\n",
        ".git/config": "[core]\n",
        "pkg/__pycache__/model.pyc": "c",
        "env39/pyvenv.cfg": "home = /usr\n",
        "env39/lib/big.py": "",
    }.items():
        write(root / name, text)
    return root


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def pack(
    folder: Path, script: str = "train.py", *, limit_mib: float = 10, discover: bool = False
) -> Bundle:
    target = folder.parent / "bundle.tar.gz"
    return make_bundle(folder / script, None if discover else folder, target, limit_mib=limit_mib)


def names(bundle: Bundle) -> list[str]:
    with tarfile.open(bundle.path) as tar:
        return tar.getnames()


def test_packs_the_code_and_only_that(project: Path) -> None:
    bundle = pack(project)
    assert names(bundle) == ["pkg/__init__.py", "pkg/model.py", "train.py"]
    assert (bundle.files, bundle.script_name, bundle.skipped) == (3, "train.py", ())
    assert bundle.size_mib == pytest.approx(17 / 2**20)


def test_finds_the_project_above_the_script(project: Path) -> None:
    write(project / "jobs" / "deep" / "run.py")
    bundle = pack(project, "jobs/deep/run.py", discover=True)
    assert bundle.script_name == "jobs/deep/run.py"
    assert "pkg/model.py" in names(bundle)


def test_without_a_sign_of_a_project_takes_the_scripts_folder(tmp_path: Path) -> None:
    script = write(tmp_path / "a" / "b" / "run.py")
    write(tmp_path / "a" / "other.py")
    assert project_of(script) == tmp_path / "a" / "b"
    (tmp_path / "a" / ".gpuconsoleignore").touch()
    assert project_of(script) == tmp_path / "a"


def test_a_home_is_never_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "ann"
    monkeypatch.setenv("HOME", str(home))
    script = write(home / "train.py")
    write(home / "diary.txt")
    write(home / ".git" / "config")
    bundle = pack(home, discover=True)
    assert names(bundle) == ["train.py"]
    assert "goes alone" in bundle.skipped[0]
    for folder in (home, home.parent, Path("/")):
        with pytest.raises(UsageError, match="never shipped"):
            make_bundle(script, folder, tmp_path / "b", limit_mib=1)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("folder", ["/", "/tmp", "/home", "/home/ann", "/etc", "/usr/local"])
def test_the_systems_folders_are_too_wide(folder: str) -> None:
    assert is_too_wide(Path(folder))


def test_ignore_rules_as_git_reads_them(project: Path) -> None:
    write(project / ".gitignore", "*.log\n/data/\n!keep.log\nout/*\n!out/this\nbuild\n")
    for name in ("a.log", "keep.log", "data/x", "pkg/data/y", "out/a", "out/this", "build/z"):
        write(project / name)
    write(project / "pkg" / ".gitignore", "!b.log\n*.tmp\n")
    for name in ("pkg/b.log", "pkg/c.tmp", "c.tmp"):
        write(project / name)
    found = set(names(pack(project)))
    assert {"keep.log", "pkg/data/y", "out/this", "pkg/b.log", "c.tmp"} <= found
    assert not {"a.log", "data/x", "out/a", "build/z", "pkg/c.tmp"} & found


def test_own_ignore_file_has_the_last_word(project: Path) -> None:
    write(project / ".gitignore", "weights/\n")
    write(project / ".gpuconsoleignore", "!weights/\nnotes/\n")
    write(project / "weights" / "w")
    write(project / "notes" / "n")
    found = names(pack(project))
    assert "weights/w" in found
    assert "notes/n" not in found


def test_an_ignored_script_still_goes_along(project: Path) -> None:
    write(project / ".gitignore", "/scratch/\n")
    write(project / "scratch" / "run.py")
    write(project / "scratch" / "other.py")
    bundle = pack(project, "scratch/run.py")
    assert "scratch/run.py" in names(bundle)
    assert "scratch/other.py" not in names(bundle)


@pytest.mark.parametrize(
    "name",
    [
        "id_rsa",
        "ID_RSA.bak",
        "server.pem",
        "api.key",
        ".env",
        ".env.local",
        ".netrc",
        "credentials.json",
        "secrets.yaml",
        ".aws/config",
        ".ssh/config",
        ".kaggle/kaggle.json",
        "kaggle.json",
        ".huggingface/token",
        "application_default_credentials.json",
        "aws_credentials",
        ".dockercfg",
        ".envrc",
        ".s3cfg",
        ".boto",
        ".my.cnf",
        ".vault-token",
        ".config/gcloud/access_tokens.db",
        "x.keytab",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "prod.tfvars",
    ],
)
def test_keys_never_leave_whatever_the_rules_say(project: Path, name: str) -> None:
    write(project / "conf" / name)
    write(project / ".gpuconsoleignore", f"!{name}\n!*\n")
    bundle = pack(project)
    assert not any(name in found for found in names(bundle))
    assert len(bundle.skipped) == 1


def test_a_private_key_is_known_by_its_content(project: Path) -> None:
    write(project / "deploy", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")
    bundle = pack(project)
    assert "deploy" not in names(bundle)
    assert bundle.skipped == ("deploy: it holds a private key; `--ship deploy` ships it",)


def test_ordinary_names_are_not_keys() -> None:
    assert not any(map(is_secret_name, ("train.py", "monkey.py", "keys.py", "environment.yml")))


def test_links_inside_stay_and_links_outside_go(project: Path, tmp_path: Path) -> None:
    secret = write(tmp_path / "secret.txt", "s")
    (project / "out").symlink_to(secret)
    (project / "folder_out").symlink_to(tmp_path)
    (project / "chain").symlink_to("out")
    (project / "pkg" / "up").symlink_to("../train.py")
    (project / "absolute").symlink_to(project / "pkg")
    (project / "loop").symlink_to("loop")
    bundle = pack(project)
    with tarfile.open(bundle.path) as tar:
        links = {entry.name: entry.linkname for entry in tar if entry.issym()}
        assert not any(tar.extractfile(m).read() == b"s" for m in tar if m.isreg())  # type: ignore[union-attr]
    assert {key: links[key] for key in ("pkg/up", "absolute")} == {
        "pkg/up": "../train.py",
        "absolute": "pkg",
    }
    assert not {"out", "folder_out", "chain"} & set(links)
    assert sum("leads outside" in line for line in bundle.skipped) == 3


def test_pipes_and_sockets_are_passed_by(project: Path) -> None:
    os.mkfifo(project / "pipe")
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{short}/s")
        os.rename(f"{short}/s", project / "sock")
        bundle = pack(project)
    assert bundle.skipped == ("pipe: not a regular file", "sock: not a regular file")


def test_a_file_that_goes_while_its_folder_is_read_is_passed_by(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project / "pkg/half-written.tmp")
    scandir = os.scandir

    def listed(folder: Path) -> list[os.DirEntry[str]]:
        items = list(scandir(folder))
        if folder == project / "pkg":
            (folder / "half-written.tmp").unlink()
        return items

    monkeypatch.setattr(os, "scandir", listed)
    bundle = pack(project)
    assert names(bundle) == ["pkg/__init__.py", "pkg/model.py", "train.py"]
    assert bundle.skipped == ("pkg/half-written.tmp: No such file or directory",)


def test_too_large_names_the_three_largest(project: Path) -> None:
    for index, size in enumerate((100, 400, 200, 300)):
        (project / f"f{index}.bin").write_bytes(b"x" * size * 1024)
    with pytest.raises(UsageError) as caught:
        pack(project, limit_mib=0.5)
    message = caught.value.message
    assert [name in message for name in ("f1.bin", "f3.bin", "f2.bin", "f0.bin")] == [
        True,
        True,
        True,
        False,
    ]
    assert not (project.parent / "bundle.tar.gz").exists()
    assert pack(project, limit_mib=1).files == 7


def test_too_many_files_are_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_module, "FILE_LIMIT", 2)
    with pytest.raises(UsageError, match="too many files"):
        pack(project)


def test_equal_content_packs_to_equal_bytes(project: Path, tmp_path: Path) -> None:
    first = pack(project)
    content = first.path.read_bytes()
    for path in project.rglob("*"):
        os.utime(path, (1, 1))
    (project / "pkg" / "model.py").chmod(0o600)
    assert pack(project).sha256 == first.sha256
    assert first.path.read_bytes() == content
    write(project / "train.py", "changed")
    assert pack(project).sha256 != first.sha256


def test_nothing_of_this_machine_is_in_it(project: Path) -> None:
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o754)
    with tarfile.open(pack(project).path) as tar:
        assert {(e.uid, e.gid, e.uname, e.gname) for e in tar} == {(0, 0, "", "")}
        assert {e.name: e.mode for e in tar if e.mode != 0o644} == {"run.sh": 0o755}


def test_odd_names_survive(project: Path) -> None:
    odd = os.fsdecode(b"caf\xe9 \n \xf0\x9f\x98\x80.py")
    write(project / odd)
    deep = "/".join(["d" * 60] * 5) + "/f.py"
    write(project / deep)
    found = names(pack(project))
    assert odd in found
    assert deep in found


def test_wrong_scripts_are_refused_by_name(project: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nosuch\.py"):
        pack(project, "nosuch.py")
    with pytest.raises(UsageError, match="not a file"):
        pack(project, "pkg")
    (project / "circle.py").symlink_to("circle.py")
    with pytest.raises(UsageError, match="cannot be found"):
        pack(project, "circle.py")
    outside = write(tmp_path / "outside.py")
    with pytest.raises(UsageError, match="outside the project"):
        make_bundle(outside, project, tmp_path / "b", limit_mib=1)


def test_an_earlier_bundle_survives_a_failed_packing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pack(project).path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left") as caught:
        pack(project)
    assert "Free some space" in caught.value.hint
    folder = project.parent
    assert (folder / "bundle.tar.gz").read_bytes() == before
    assert not list(folder.glob(".bundle-*"))


def test_a_folder_that_is_missing_is_said(project: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be packed"):
        make_bundle(project / "train.py", project, tmp_path / "no" / "b", limit_mib=1)


def test_edits_change_the_shipped_copy_alone(project: Path) -> None:
    model = project / "pkg" / "model.py"
    edit = Edit(str(model), 1, "x = 1", "x = 2")
    target = project.parent / "bundle.tar.gz"
    bundle = make_bundle(project / "train.py", project, target, limit_mib=10, edits=[edit])
    with tarfile.open(bundle.path) as tar:
        inside = tar.extractfile("pkg/model.py")
        assert inside is not None
        assert inside.read() == b"x = 2\n"
    assert model.read_text() == "x = 1\n"


def test_an_edit_of_a_line_that_has_changed_is_refused(project: Path) -> None:
    edit = Edit(str(project / "pkg" / "model.py"), 1, "x = 7", "x = 2")
    with pytest.raises(UsageError, match="no longer"):
        make_bundle(
            project / "train.py", project, project.parent / "b.tar.gz", limit_mib=10, edits=[edit]
        )


def test_an_edit_outside_what_is_shipped_is_refused(project: Path) -> None:
    outside = write(project.parent / "other.py", "x = 1\n")
    with pytest.raises(UsageError, match="not part"):
        make_bundle(
            project / "train.py", project, project.parent / "b.tar.gz", limit_mib=10,
            edits=[Edit(str(outside), 1, "x = 1", "x = 2")],
        )  # fmt: skip


# --- what looks secret, and the user's word for it ------------------------------------------------


def test_a_file_is_shipped_on_the_user_s_word_alone(project: Path) -> None:
    for name in (".env", ".kaggle/kaggle.json", ".kaggle/other", "data/ignored", "notes.txt"):
        write(project / name, f"{TOKENS[0]}\n")
    write(project / ".gitignore", "data/\n")
    ship = [project / name for name in (".env", ".kaggle/kaggle.json", "data/ignored", "notes.txt")]
    target = project.parent / "b.tar.gz"
    bundle = make_bundle(project / "train.py", project, target, limit_mib=10, ship=ship)
    found = names(bundle)
    assert {".env", ".kaggle/kaggle.json", "data/ignored", "notes.txt"} <= set(found)
    assert len(found) == len(set(found))
    assert ".kaggle/other" not in found
    assert bundle.skipped == (".kaggle: a folder of keys",)


@pytest.mark.parametrize("name", ["nothing", "..", "../other", "out", "pkg"])
def test_only_files_of_the_project_can_be_shipped(project: Path, tmp_path: Path, name: str) -> None:
    write(tmp_path / "other")
    (project / "out").symlink_to(tmp_path / "other")
    with pytest.raises(UsageError, match="is no file below"):
        make_bundle(
            project / "train.py", project, tmp_path / "b", limit_mib=1, ship=[project / name]
        )


def test_a_script_with_a_token_is_not_packed(project: Path) -> None:
    write(project / "train.py", f"import os\nlogin({TOKENS[0]!r})\n")
    with pytest.raises(UsageError, match=r"train.py: line 2 holds a Hugging Face token") as caught:
        pack(project)
    assert TOKENS[0] not in f"{caught.value} {caught.value.hint}"
    assert "--env-file" in caught.value.hint
    target = project.parent / "b.tar.gz"
    script = project / "train.py"
    assert "train.py" in names(make_bundle(script, project, target, limit_mib=1, ship=[script]))


def test_a_hard_link_to_an_own_key_stays(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for key in (".ssh/deep/config", ".aws/x", ".netrc", "ordinary"):
        write(home / key, "host a\n")
    os.link(home / ".ssh" / "deep" / "config", project / "notes.txt")
    os.link(home / ".aws" / "x", project / "pkg" / "y.py")
    os.link(home / ".netrc", project / "hosts")
    os.link(home / "ordinary", project / "data")
    bundle = pack(project)
    assert {"notes.txt", "pkg/y.py", "hosts"}.isdisjoint(names(bundle))
    assert "data" in names(bundle)
    assert sum("a hard link to one of your own keys" in line for line in bundle.skipped) == 3


@pytest.mark.parametrize(
    ("text", "args", "root"),
    [
        ("import suite\n", (), "."),
        ("from suite.net import Net\n", (), "."),
        ("import os\n", ("-c", "configs/net.yml"), "."),
        ("import os\n", ("--config=configs/net.yml",), "."),
        ("import os\n", ("-c", "beside.yml"), "tools"),
        ("import os, beside\n", ("--epochs", "3"), "tools"),
        ("import (\n", ("/etc/passwd", "../other"), "tools"),
    ],
)
def test_the_working_folder_is_the_project_where_the_script_needs_what_is_there(
    tmp_path: Path, text: str, args: tuple[str, ...], root: str
) -> None:
    for name in ("tools", "suite", "configs"):
        (tmp_path / name).mkdir()
    (tmp_path / "configs" / "net.yml").touch()
    (tmp_path / "tools" / "beside.yml").touch()
    (tmp_path / "tools" / "beside.py").touch()
    script = tmp_path / "tools" / "train.py"
    script.write_text(text)
    assert project_of(script, args, tmp_path) == tmp_path / root
    assert project_of(script, args) == tmp_path / "tools"

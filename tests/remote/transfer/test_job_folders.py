"""The folders of a job on a host, with links laid where a script could lay them."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from gpuconsole.errors import EngineError, RefusedError, UsageError
from gpuconsole.remote.links.local import LocalLink
from gpuconsole.remote.transfer.job_folders import JobFolders

JOB = "2q22htckza"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the account's home, with a key in it; its state lies on another disk."""
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id").write_text("secret")
    (tmp_path / "disk").mkdir()
    (tmp_path / "home" / ".local").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def folders(home: Path) -> JobFolders:
    return JobFolders(LocalLink("box"), "box")


def base(home: Path) -> Path:
    return home / ".local/state/gpuconsole/results"


async def packed(folders: JobFolders, kind: str, *, adopt: bool = True) -> dict[str, str]:
    """Return what a stream holds: the content of files, where links lead."""
    ways = {"results": folders.results, "records": folders.records}
    stream = ways[kind](JOB) if kind in ways else folders.checkpoint(JOB, adopt=adopt)
    content = b"".join([chunk async for chunk in stream])
    if not content:
        return {}
    found = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            found[member.name] = file.read().decode() if file else member.linkname
    return found


async def test_results_and_checkpoint_lie_side_by_side(home: Path, folders: JobFolders) -> None:
    account = await folders.prepare(JOB, checkpoint=True)
    results, checkpoint = Path(account.results_dir), Path(account.checkpoint_dir)
    assert (account.uid, results) == (os.getuid(), base(home).resolve() / JOB)
    assert results.parent == checkpoint.parent
    assert {path.stat().st_mode & 0o777 for path in (results, checkpoint)} == {0o700}
    (results / "log").write_text("1")
    (checkpoint / "net").write_text("22")
    again = await folders.prepare(JOB, checkpoint=True)
    assert again == account
    assert (checkpoint / "net").read_text() == "22"
    assert await packed(folders, "results") == {".": "", "./log": "1"}
    assert await packed(folders, "checkpoint") == {".": "", "./net": "22"}
    listed = await folders.listed(JOB)
    assert [(one.name, one.size_bytes) for one in listed] == [("checkpoint/net", 2), ("log", 1)]


async def test_a_job_without_checkpoints_has_one_folder(home: Path, folders: JobFolders) -> None:
    await folders.prepare(JOB, checkpoint=False)
    assert [path.name for path in base(home).iterdir()] == [JOB]
    assert await packed(folders, "checkpoint") == {}
    # What the script itself calls so is a folder like others.
    (base(home) / JOB / "checkpoint").mkdir()
    assert await packed(folders, "results") == {".": "", "./checkpoint": ""}


async def test_links_in_the_folders_are_not_followed(home: Path, folders: JobFolders) -> None:
    account = await folders.prepare(JOB, checkpoint=True)
    for folder in (Path(account.results_dir), Path(account.checkpoint_dir)):
        (folder / "home").symlink_to(home)
        (folder / "key").symlink_to(home / ".ssh" / "id")
    for kind in ("results", "checkpoint"):
        found = await packed(folders, kind)
        assert found == {".": "", "./home": str(home), "./key": str(home / ".ssh" / "id")}
    assert await folders.listed(JOB) == ()


@pytest.mark.parametrize("place", [JOB, f"{JOB}.checkpoint", f"{JOB}.before"])
async def test_a_link_in_the_place_of_a_folder_is_refused(
    home: Path, folders: JobFolders, place: str
) -> None:
    await folders.prepare(JOB, checkpoint=True)
    at = base(home) / place
    if at.exists():
        at.rmdir()
    at.symlink_to(home)
    kind = "results" if place == JOB else "checkpoint"
    with pytest.raises(RefusedError, match="link is in the place"):
        await packed(folders, kind)
    if place != f"{JOB}.before":
        with pytest.raises(RefusedError, match="link is in the place"):
            await folders.prepare(JOB, checkpoint=True)
    assert (home / ".ssh" / "id").read_text() == "secret"


async def test_the_checkpoint_of_an_earlier_version_is_taken_over(
    home: Path, folders: JobFolders
) -> None:
    account = await folders.prepare(JOB, checkpoint=False)
    former = Path(account.results_dir) / "checkpoint"
    former.mkdir()
    (former / "net").write_text("old")
    assert await packed(folders, "checkpoint", adopt=False) == {}
    assert "./checkpoint/net" in await packed(folders, "results")
    await folders.prepare(JOB, checkpoint=True)
    assert not former.exists()
    assert (Path(account.checkpoint_dir) / "net").read_text() == "old"
    # Once it has one, a folder of that name in the results is the script's own.
    former.mkdir()
    await folders.prepare(JOB, checkpoint=True)
    assert former.exists()


async def test_a_link_in_the_place_of_an_earlier_checkpoint_is_left_and_said(
    home: Path, folders: JobFolders
) -> None:
    account = await folders.prepare(JOB, checkpoint=False)
    former = Path(account.results_dir) / "checkpoint"
    former.symlink_to(home)
    for call in (folders.prepare(JOB, checkpoint=True), packed(folders, "checkpoint")):
        with pytest.raises(RefusedError) as caught:
            await call
        assert f"box: $HOME/.local/state/gpuconsole/results/{JOB}" in caught.value.message
    assert former.is_symlink()
    assert not Path(account.checkpoint_dir).exists()


async def test_an_arrival_that_was_cut_off_is_undone(home: Path, folders: JobFolders) -> None:
    account = await folders.prepare(JOB, checkpoint=True)
    whole = base(home) / f"{JOB}.before"
    whole.mkdir()
    (whole / "net").write_text("whole")
    part = Path(account.checkpoint_dir) / "closed"
    part.mkdir()
    (part / "net").write_text("pa")
    part.chmod(0o500)
    assert (await packed(folders, "checkpoint"))["./net"] == "whole"
    await folders.prepare(JOB, checkpoint=True)
    assert [path.name for path in Path(account.checkpoint_dir).iterdir()] == ["net"]
    assert not whole.exists()


async def test_a_checkpoint_makes_way_until_the_other_has_arrived(
    home: Path, folders: JobFolders
) -> None:
    account = await folders.prepare(JOB, checkpoint=True)
    place, before = Path(account.checkpoint_dir), base(home) / f"{JOB}.before"
    (place / "net").write_text("old")
    for _ in range(2):
        await folders.make_way(JOB)
        assert not list(place.iterdir())
        assert (before / "net").read_text() == "old"
        (place / "net").write_text("pa")
    (place / "home").symlink_to(home)
    await folders.prepare(JOB, checkpoint=True)
    assert (place / "net").read_text() == "old"
    await folders.make_way(JOB)
    (place / "net").write_text("new")
    (before / "home").symlink_to(home)
    await folders.arrived(JOB)
    assert not before.exists()
    await folders.prepare(JOB, checkpoint=True)
    assert (place / "net").read_text() == "new"
    assert (home / ".ssh" / "id").read_text() == "secret"


async def test_results_that_are_gone_are_said_to_be_gone(home: Path, folders: JobFolders) -> None:
    for _ in range(2):
        with pytest.raises(RefusedError, match=f"box has no results folder of {JOB} any more"):
            await packed(folders, "results")
        with pytest.raises(RefusedError, match="gone"):
            await folders.listed(JOB)
        assert await packed(folders, "checkpoint") == {}
        base(home).mkdir(parents=True, exist_ok=True)


async def test_what_stands_in_the_way_of_folders_is_said(home: Path, folders: JobFolders) -> None:
    base(home).parent.mkdir(parents=True)
    base(home).write_text("")
    with pytest.raises(EngineError, match="cannot be used") as caught:
        await folders.prepare(JOB, checkpoint=False)
    assert "making the folders" in caught.value.message


async def test_only_empty_folders_are_tidied(home: Path, folders: JobFolders) -> None:
    for job, content in (("empty", ""), ("full", "full"), ("saved", "saved.checkpoint")):
        await folders.prepare(job, checkpoint=True)
        if content:
            (base(home) / content / "net").write_text("x")
    await folders.prepare("arriving", checkpoint=True)
    (base(home) / "arriving.before").mkdir()
    await folders.prepare("another", checkpoint=False)
    (base(home) / "link").symlink_to(home)
    jobs = ["arriving", "empty", "full", "link", "never", "saved"]
    assert await folders.tidy(jobs, frozenset({"another"})) == (1, 3)
    assert sorted(path.name for path in base(home).iterdir()) == [
        *("another", "arriving", "arriving.before", "arriving.checkpoint", "full", "link"),
        *("saved", "saved.checkpoint"),
    ]


@pytest.mark.parametrize("name", ["../x", "a/b", "-rf", "a b", "x\ny", ".."])
async def test_names_that_lead_elsewhere_are_refused(folders: JobFolders, name: str) -> None:
    with pytest.raises(UsageError, match="Not a job id"):
        await folders.prepare(name, checkpoint=True)
    with pytest.raises(UsageError, match="Not a job id"):
        await folders.tidy([name], frozenset())


async def test_of_the_records_only_small_files_of_that_name_are_given(
    home: Path, folders: JobFolders
) -> None:
    results = Path((await folders.prepare(JOB, checkpoint=False)).results_dir)
    assert await packed(folders, "records") == {}
    (results / "vdl").mkdir()
    (results / "vdl" / "vdlrecords.1.log").write_text("scalars")
    (results / "vdl" / "vdlrecords.2.log\n..").write_text("odd name")
    (results / "other.log").write_text("none of them")
    (results / "vdlrecords.3.log").symlink_to(home / ".ssh" / "id")
    with (results / "vdlrecords.4.log").open("wb") as file:
        file.truncate(17 * 2**20)
    assert await packed(folders, "records") == {
        "./vdl/vdlrecords.1.log": "scalars", "./vdl/vdlrecords.2.log\n..": "odd name",
    }  # fmt: skip
    results.rename(results.with_name("elsewhere"))
    with pytest.raises(RefusedError):
        await packed(folders, "records")

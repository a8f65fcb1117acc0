"""Results come from a tar that nobody here wrote."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuconsole.errors import UsageError
from gpuconsole.session import results
from gpuconsole.session.results import save_results


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, **values: object) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    for key, value in values.items():
        setattr(member, key, value)
    return member


def stream(content: bytes) -> dict[str, AsyncIterator[bytes]]:
    return {"": sent(content)}


async def sent(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1000):
        yield content[start : start + 1000]


async def test_files_and_folders_arrive_and_nothing_else(tmp_path: Path) -> None:
    content = archive(
        (entry(".", tarfile.DIRTYPE), b""),
        (entry("./a/b.txt", mode=0o4777), b"hello"),
        (entry("./link", tarfile.SYMTYPE, linkname="/etc/passwd"), b""),
        (entry("./hard", tarfile.LNKTYPE, linkname="a/b.txt"), b""),
        (entry("./device", tarfile.CHRTYPE), b""),
        (entry("./pipe", tarfile.FIFOTYPE), b""),
        (entry("./link/x"), b"below what would have been a link"),
    )
    folder = await save_results(stream(content), tmp_path / "out" / "job")
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {"a/b.txt", "link/x"}
    assert (folder / "a/b.txt").read_bytes() == b"hello"
    assert (folder / "a/b.txt").stat().st_mode & 0o7777 == 0o755
    assert [path.name for path in folder.parent.iterdir()] == ["job"]


@pytest.mark.parametrize("name", ["../out.txt", "/etc/x", "a/../../x"])
async def test_a_name_that_leads_out_is_refused_and_nothing_is_made(
    tmp_path: Path, name: str
) -> None:
    content = archive((entry("fine.txt"), b"x"), (entry(name), b"x"))
    with pytest.raises(UsageError, match="leads out"):
        await save_results(stream(content), tmp_path / "out" / "job")
    assert not list((tmp_path / "out").iterdir())


async def test_garbage_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no archive"):
        await save_results(stream(b"garbage" * 200), tmp_path / "job")


async def test_a_cut_stream_is_damaged(tmp_path: Path) -> None:
    content = archive((entry("big.bin"), b"x" * 50_000))
    with pytest.raises(UsageError, match=r"damaged|no archive"):
        await save_results(stream(content[:20_000]), tmp_path / "job")
    assert not (tmp_path / "job").exists()


async def test_more_than_the_disk_can_take_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "SPARE_BYTES", 2**60)
    with pytest.raises(UsageError, match="too large"):
        await save_results(stream(archive((entry("a"), b"x"))), tmp_path / "job")


@pytest.mark.parametrize("over", [0, 1])
async def test_half_of_what_is_free_beside_the_spare_space_may_be_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: int
) -> None:
    content = archive((entry("a"), b"x" * 5000))
    free = results.SPARE_BYTES + 2 * len(content) - over
    monkeypatch.setattr(results.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    saving = save_results(stream(content), tmp_path / "job")
    if over:
        with pytest.raises(UsageError, match="too large"):
            await saving
        assert list(tmp_path.iterdir()) == []
    else:
        assert (await saving / "a").stat().st_size == 5000


async def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    folder = await save_results(stream(archive((entry("a"), b"x"))), tmp_path / "job")
    with pytest.raises(UsageError, match="not empty"):
        await save_results(stream(archive((entry("a"), b"y"))), folder)
    assert (folder / "a").read_bytes() == b"x"

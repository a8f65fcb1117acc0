"""Results come from a tar that nobody here wrote."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import subprocess
import tarfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpuconsole.config import TransferSection
from gpuconsole.core.engines.transfers import LeftOut
from gpuconsole.errors import EngineError, RefusedError, UsageError
from gpuconsole.remote.transfer import stream_file
from gpuconsole.session import results
from gpuconsole.session.results import Stream, save_results

USUAL = TransferSection()


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


async def sent(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1000):
        yield content[start : start + 1000]


async def save(content: bytes, folder: Path, settings: TransferSection = USUAL) -> LeftOut:
    return await save_results([Stream(sent(content))], folder, settings)


def packed_sparse(folder: Path) -> bytes:
    command = ["tar", "-C", str(folder), "--sparse", "-cf", "-", "sparse"]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout


def reasons(left_out: LeftOut) -> dict[str, str]:
    return {one.name: one.reason for one in left_out.named}


async def test_what_stays_inside_arrives_and_the_rest_is_named(tmp_path: Path) -> None:
    content = archive(
        (entry(".", tarfile.DIRTYPE), b""),
        (entry("./a/b.txt", mode=0o4777), b"hello"),
        (entry("./latest", tarfile.SYMTYPE, linkname="a/b.txt"), b""),
        (entry("./own", tarfile.SYMTYPE, linkname="/results/a"), b""),
        (entry("./hard", tarfile.LNKTYPE, linkname="a/b.txt"), b""),
        (entry("./out", tarfile.SYMTYPE, linkname="/etc/passwd"), b""),
        (entry("./out/x"), b"below what would have been a link"),
        (entry("./own/x"), b"below a link"),
        (entry("./device", tarfile.CHRTYPE), b""),
        (entry("./pipe", tarfile.FIFOTYPE), b""),
    )
    folder = tmp_path / "out" / "job"
    left_out = await save(content, folder)
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert found == {"a", "a/b.txt", "hard", "latest", "out", "out/x", "own"}
    assert (folder / "a/b.txt").read_bytes() == b"hello"
    assert (folder / "a/b.txt").stat().st_mode & 0o7777 == 0o755
    assert (folder / "hard").samefile(folder / "a/b.txt")
    assert {name: os.readlink(folder / name) for name in ("latest", "own")} == {
        "latest": "a/b.txt",
        "own": "a",
    }
    assert reasons(left_out) == {
        "out": "is a link that leads out of the folder",
        "own/x": "lies below a link",
        "device": "is a device, or of an unknown kind",
        "pipe": "is a named pipe",
    }
    assert [path.name for path in folder.parent.iterdir()] == ["job"]


async def test_a_checkpoint_comes_as_a_folder_that_the_script_cannot_take(tmp_path: Path) -> None:
    own = archive(
        (entry("./checkpoint", tarfile.SYMTYPE, linkname="/etc"), b""),
        (entry("./checkpoint/net"), b"the script's"),
        (entry("./log"), b"1"),
    )
    kept = archive(
        (entry("./net"), b"22"),
        (entry("./latest", tarfile.SYMTYPE, linkname="/workspace/ckpt/net"), b""),
    )
    folder = tmp_path / "job"
    streams = [Stream(sent(kept), "checkpoint", "/workspace/ckpt"), Stream(sent(own))]
    left_out = await save_results(streams, folder, USUAL)
    assert (folder / "checkpoint" / "latest").read_bytes() == b"22"
    assert (folder / "log").read_bytes() == b"1"
    assert list(reasons(left_out)) == ["checkpoint", "checkpoint/net"]


async def test_a_checkpoint_that_cannot_be_read_keeps_no_results(tmp_path: Path) -> None:
    async def refused() -> AsyncIterator[bytes]:
        raise RefusedError("A link", "It is a link.")
        yield b""

    content = archive((entry("a"), b"1"))
    streams = [Stream(refused(), "checkpoint"), Stream(sent(content))]
    left_out = await save_results(streams, tmp_path / "job", USUAL)
    assert reasons(left_out) == {"checkpoint": "stays where it is: It is a link."}
    assert (tmp_path / "job" / "a").exists()
    with pytest.raises(RefusedError, match="It is a link"):
        await save_results([Stream(refused())], tmp_path / "gone", USUAL)
    assert not (tmp_path / "gone").exists()


async def test_a_sparse_file_takes_no_more_space_than_it_did(tmp_path: Path) -> None:
    size = 512 * 2**20
    with (tmp_path / "sparse").open("wb") as file:
        file.seek(size // 2)
        file.write(b"middle")
        file.truncate(size)
    packed = packed_sparse(tmp_path)
    assert not reasons(await save(packed, tmp_path / "job"))
    made = tmp_path / "job" / "sparse"
    with made.open("rb") as file:
        file.seek(size // 2)
        assert file.read(7) == b"middle\0"
    assert made.stat().st_size == size
    assert made.stat().st_blocks * 512 < size / 100


@pytest.mark.parametrize("name", ["../out.txt", "/etc/x", "a/../../x"])
async def test_a_name_that_leads_out_is_refused_and_nothing_is_made(
    tmp_path: Path, name: str
) -> None:
    content = archive((entry("fine.txt"), b"x"), (entry(name), b"x"))
    with pytest.raises(UsageError, match="leads out"):
        await save(content, tmp_path / "out" / "job")
    assert not list((tmp_path / "out").iterdir())


async def test_garbage_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no archive"):
        await save(b"garbage" * 200, tmp_path / "job")


async def test_a_cut_stream_is_damaged(tmp_path: Path) -> None:
    content = archive((entry("big.bin"), b"x" * 50_000))
    with pytest.raises(UsageError, match=r"damaged|no archive"):
        await save(content[:20_000], tmp_path / "job")
    assert not (tmp_path / "job").exists()


async def test_a_host_that_fails_at_the_end_is_heard(tmp_path: Path) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield archive((entry("a"), b"x"))
        raise EngineError("tar failed", "Permission denied.")

    with pytest.raises(EngineError, match="Permission denied"):
        await save_results([Stream(failing())], tmp_path / "job", USUAL)
    assert not list(tmp_path.iterdir())


class Usage(NamedTuple):
    free: int


async def test_the_disk_may_be_filled_up_to_its_reserve_and_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = results.SPARE_BYTES + 1000
    monkeypatch.setattr(results.shutil, "disk_usage", lambda folder: Usage(free))
    assert results.SPARE_BYTES == 64 * 2**20
    await save(archive((entry("a"), b"x" * 1000)), tmp_path / "job")
    with pytest.raises(UsageError, match=f"all that {tmp_path} can take") as caught:
        await save(archive((entry("a"), b"x" * 1001)), tmp_path / "more")
    assert "Free some space" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


async def test_the_lab_may_set_a_limit(tmp_path: Path) -> None:
    settings = TransferSection(size=1.0, files=3)
    with pytest.raises(UsageError, match=r"1\.0 MiB, all that the lab's setting `transfer\.size`"):
        await save(archive((entry("a"), b"x" * 2**21)), tmp_path / "job", settings)
    many = archive(*((entry(f"d{number}", tarfile.DIRTYPE), b"") for number in range(4)))
    with pytest.raises(UsageError, match=r"more than 3 files.*`transfer\.files`"):
        await save(many, tmp_path / "job", settings)
    assert not list(tmp_path.iterdir())


async def test_a_disk_without_hard_links_gets_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(results.os, "link", refuse)
    linked: Sequence[tuple[tarfile.TarInfo, bytes]] = [
        (entry("a"), b"x" * 700_000),
        (entry("b", tarfile.LNKTYPE, linkname="a"), b""),
    ]
    await save(archive(*linked), tmp_path / "job")
    assert (tmp_path / "job" / "b").read_bytes() == b"x" * 700_000
    with pytest.raises(UsageError, match="too large"):
        await save(archive(*linked), tmp_path / "more", TransferSection(size=1.0))


async def test_what_this_disk_cannot_name_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Path.open

    def narrow(path: Path, *args: Any, **options: Any) -> Any:
        if path.name.startswith("b"):
            raise OSError(errno.EILSEQ, "Invalid or incomplete multibyte character")
        return usual(path, *args, **options)

    monkeypatch.setattr(Path, "open", narrow)
    content = archive(
        (entry("a"), b"1"), (entry("b"), b"2"), (entry("c", tarfile.LNKTYPE, linkname="b"), b"")
    )
    left_out = await save(content, tmp_path / "job")
    assert [path.name for path in (tmp_path / "job").iterdir()] == ["a"]
    assert "Invalid or incomplete" in reasons(left_out)["b"]
    assert set(reasons(left_out)) == {"b", "c"}


async def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *args: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(UsageError, match="No space left on device"):
        await save(archive((entry("a"), b"1")), tmp_path / "job")
    assert not list(tmp_path.iterdir())


async def test_a_fetch_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield archive((entry("a"), b"x" * 50_000))[:20_000]
        begun.set()
        await asyncio.Event().wait()

    saving = asyncio.ensure_future(save_results([Stream(slow())], tmp_path / "job", USUAL))
    await begun.wait()
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert not list(tmp_path.iterdir())


async def test_a_stream_is_taken_no_faster_than_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a stream no more is held than a few chunks, however fast it comes."""
    taken = written = most = 0
    usual = results._write

    def counted(one: Any, file: Any) -> None:
        nonlocal written
        usual(one, file)
        written += 1

    async def fast() -> AsyncIterator[bytes]:
        nonlocal taken, most
        for number in range(200):
            yield archive((entry(f"f{number}"), b"x" * 512))[:1024]
            taken += 1
            most = max(most, taken - written)
        yield bytes(1024)

    monkeypatch.setattr(results, "_write", counted)
    await save_results([Stream(fast())], tmp_path / "job", USUAL)
    assert (taken, written) == (200, 200)
    assert most <= stream_file.CHUNKS + 3


async def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    await save(archive((entry("a"), b"x")), tmp_path / "job")
    with pytest.raises(UsageError, match="not empty"):
        await save(archive((entry("a"), b"y")), tmp_path / "job")
    assert (tmp_path / "job" / "a").read_bytes() == b"x"

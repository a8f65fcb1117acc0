"""Archives that nobody here wrote: what is taken out of them, and that nothing else happens."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tarfile
import tracemalloc
from collections import deque
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.engines.transfers import LeftOut, TransferLimits
from gpuconsole.core.units import MIB
from gpuconsole.errors import UsageError
from gpuconsole.remote.transfer.archives import Intake, packed

LIMITS = TransferLimits(size_bytes=MIB, files=100)
Member = tuple[str, bytes, Any]
FOLDER, FILE, LINK, HARD = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def archive(*members: Member, **fields: Any) -> bytes:
    """Return a tar of names, types, and contents or where they lead."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, given in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o6777
            content = given if isinstance(given, bytes) else b""
            info.size = len(content)
            if isinstance(given, str):
                info.linkname = given
            for field, value in fields.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def taken(
    content: bytes, limits: TransferLimits = LIMITS, **where: str
) -> tuple[dict[str, str | bytes], LeftOut]:
    """Return what is taken out of a tar: the content of files, where links lead."""
    intake = Intake("Results", limits)
    found: dict[str, str | bytes] = {}
    for entry in intake.entries(io.BytesIO(content), **where):
        found[entry.name] = b"".join(entry.content.whole()) if entry.content else entry.target
    return found, intake.left_out


def reasons(left_out: LeftOut) -> dict[str, str]:
    return {one.name: one.reason for one in left_out.named}


def test_what_stays_inside_is_taken() -> None:
    found, left_out = taken(
        archive(
            ("./", FOLDER, b""),
            ("./a/b.txt", FILE, b"hello"),
            ("./a/same", HARD, "./a/b.txt"),
            ("./a/again", HARD, "a/same"),
            ("./a/near", LINK, "b.txt"),
            ("./up", LINK, "a/../a"),
            ("./a/deep/over", LINK, "../../c"),
            ("./c", FILE, b""),
            ("./own", LINK, "/workspace/ckpt/a/b.txt"),
            ("./a/top", LINK, "/workspace/ckpt"),
        ),
        root="/workspace/ckpt",
    )
    assert found == {
        "a": "",
        "a/b.txt": b"hello",
        "a/same": "a/b.txt",
        "a/again": "a/same",
        "a/near": "b.txt",
        "a/deep": "",
        "a/deep/over": "../../c",
        "c": b"",
        "own": "a/b.txt",
        "a/top": "..",
    }
    assert reasons(left_out) == {"up": "is a link that leads out of the folder"}


OUT = "is a link that leads out of the folder"
HOSTILE: dict[str, tuple[list[Member], str, str]] = {
    "absolute link": ([("x", LINK, "/etc/passwd")], "x", OUT),
    "link above": ([("x", LINK, "../x")], "x", OUT),
    "link above from a folder": ([("a/x", LINK, "../../x")], "a/x", OUT),
    "up behind a link": ([("d", LINK, "."), ("x", LINK, "d/..")], "x", OUT),
    "beside the root": ([("x", LINK, "/workspace/ckpt2")], "x", OUT),
    "out of the root": ([("x", LINK, "/workspace/ckpt/../y")], "x", OUT),
    "nul in a link": ([("x", LINK, "a\0b")], "x", ""),
    "file through a link": ([("d", LINK, "."), ("d/x", FILE, b"")], "d/x", "lies below a link"),
    "link through a link": ([("d", LINK, "."), ("d/x", LINK, "..")], "d/x", "lies below a link"),
    "capitals": ([("D", LINK, "."), ("d/x", LINK, "..")], "d/x", "lies below a link"),
    "file below a file": ([("d", FILE, b""), ("d/x", FILE, b"")], "d/x", "lies below a file"),
    "link for a file": ([("x", FILE, b""), ("x", LINK, "y")], "x", "has the name"),
    "link for a folder": ([("x/y", FILE, b""), ("x", LINK, "z")], "x", "has the name"),
    "file for a folder": ([("x/y", FILE, b""), ("x", FILE, b"")], "x", "has the name"),
    "file twice": ([("x", FILE, b"1"), ("x", FILE, b"2")], "x", "has the name"),
    "hard link out": ([("x", HARD, "/etc/shadow")], "x", "is a hard link"),
    "hard link above": ([("x", HARD, "../y")], "x", "is a hard link"),
    "hard link to nothing": ([("x", HARD, "y")], "x", "is a hard link"),
    "hard link to a link": ([("y", LINK, "z"), ("x", HARD, "y")], "x", "is a hard link"),
    "hard link to a folder": ([("y", FOLDER, b""), ("x", HARD, "y")], "x", "is a hard link"),
    "pipe": ([("x", tarfile.FIFOTYPE, b"")], "x", "is a named pipe"),
    "block device": ([("x", tarfile.BLKTYPE, b"")], "x", "is a device"),
    "character device": ([("x", tarfile.CHRTYPE, b"")], "x", "is a device"),
    "unknown": ([("x", b"Z", b"content")], "x", "is a device, or of an unknown kind"),
    "long name": ([("n" * 256, FILE, b"")], "n" * 256, "has too long a name"),
    "deep": ([("/".join("a" * 101), FILE, b"")], "", "lies too deep"),
    "long path": ([("/".join(["n" * 250] * 13), FILE, b"")], "", "lies too deep"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_may_do_harm_is_left_out_and_named(case: str) -> None:
    members, name, reason = HOSTILE[case]
    found, left_out = taken(archive(*members, ("last", FILE, b"x")), root="/workspace/ckpt")
    assert found["last"] == b"x"
    assert reason in next(iter(reasons(left_out).values()), "")
    if reason and name:
        assert name[:299] in {one.rstrip("…") for one in reasons(left_out)}
    assert left_out.count == (1 if reason else 0)


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "a/.."])
@pytest.mark.parametrize("kind", [FILE, FOLDER, LINK, HARD, tarfile.FIFOTYPE])
def test_a_name_that_leads_out_refuses_the_whole(name: str, kind: bytes) -> None:
    with pytest.raises(UsageError, match="leads out of their folder"):
        taken(archive(("fine", FILE, b"x"), (name, kind, b"")))


def test_rights_and_times_are_not_believed() -> None:
    intake = Intake("Results", LIMITS)
    content = archive(("a/x", FILE, b"1"), ("d", FOLDER, b""), mtime=-5, mode=0o6444)
    modes = {entry.name: entry.mode for entry in intake.entries(io.BytesIO(content))}
    assert modes == {"a": 0o755, "a/x": 0o644, "d": 0o744}
    for time in (-5, 2**40, float("nan")):
        content = archive(("x", FILE, b""), pax_headers={"mtime": str(time)})
        (entry,) = Intake("Results", LIMITS).entries(io.BytesIO(content))
        assert entry.mtime == 0


def test_two_archives_make_one_folder_and_neither_leads_into_the_other() -> None:
    intake = Intake("Results", LIMITS)
    first = archive(("./net", FILE, b"1"), ("./out", LINK, "../log"), ("./same", HARD, "./net"))
    second = archive(
        ("./checkpoint", LINK, "/"), ("./checkpoint/net", FILE, b"2"), ("./log", FILE, b"3")
    )
    names = [
        *(entry.name for entry in intake.entries(io.BytesIO(first), "checkpoint")),
        *(entry.name for entry in intake.entries(io.BytesIO(second))),
    ]
    assert names == ["checkpoint", "checkpoint/net", "checkpoint/same", "log"]
    assert reasons(intake.left_out) == {
        "checkpoint/out": OUT,
        "checkpoint": "has the name of something else",
        "checkpoint/net": "has the name of something else",
    }
    assert list(intake.entries(io.BytesIO(b""), "nothing")) == []


@pytest.mark.parametrize("name", ["\x1b]0;owned\x07", "a\nb", "\u202egnp", "\udcff"])
def test_names_are_taken_as_they_are_and_cleaned_where_they_are_shown(name: str) -> None:
    found, left_out = taken(archive((name, FILE, b"x"), (f"{name}.fifo", tarfile.FIFOTYPE, b"")))
    assert found == {name: b"x"}
    (line,) = left_out.lines(5)
    assert line.isprintable()
    assert line.isascii()


def test_too_much_is_refused_with_its_limit() -> None:
    two = archive(("a", FILE, b"x" * 600_000), ("b", FILE, b"x" * 600_000))
    with pytest.raises(UsageError, match=r"more than 1\.0 MiB, all that the lab's setting"):
        taken(two)
    folders = archive(*((f"d{number}", FOLDER, b"") for number in range(101)))
    with pytest.raises(UsageError, match=r"more than 100 files.*transfer\.files"):
        taken(folders)
    deep = archive(("/".join("abc" * 20), FILE, b""), ("/".join("def" * 20), FILE, b""))
    with pytest.raises(UsageError, match="more than 100 files"):
        taken(deep)
    pipes = archive(*((f"d{number}", tarfile.FIFOTYPE, b"") for number in range(101)))
    with pytest.raises(UsageError, match="more than 100 files"):
        taken(pipes)


class Endless(io.RawIOBase):
    """A stream that begins with something and goes on for ever."""

    def __init__(self, begin: bytes, on: bytes = bytes(512)) -> None:
        self._begin, self._on = begin, on * 128

    def read(self, size: int = -1) -> bytes:
        piece, self._begin = self._begin[:size], self._begin[size:]
        return piece or self._on[:size]


def header(name: str, kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


ENDLESS = {
    "file": header("x", FILE, 2**50),
    "sparse": header("x", tarfile.GNUTYPE_SPARSE, 2**50),
    "pax": header("x", tarfile.XHDTYPE, 2**30),
    "global pax": header("x", tarfile.XGLTYPE, 64 * MIB),
    "long name": header("x", tarfile.GNUTYPE_LONGNAME, 64 * MIB),
    "long link": header("x", tarfile.GNUTYPE_LONGLINK, 2**60),
    "unknown": header("x", b"Z", 2**50),
    "nothing but zeros": archive(("x", FILE, b"")),
    "digits": header("x", tarfile.XHDTYPE, 60_000) + b"7" * 60_000,
}


@pytest.mark.parametrize("case", ENDLESS)
def test_no_stream_takes_memory_or_goes_on_for_ever(case: str) -> None:
    tracemalloc.start()
    try:
        intake = Intake("Results", LIMITS)
        pieces = packed(intake.entries(Endless(ENDLESS[case])), 1, 1)
        with pytest.raises(UsageError, match=r"too large|damaged"):
            deque(pieces, maxlen=0)
        assert tracemalloc.get_traced_memory()[1] < 6 * MIB
    finally:
        tracemalloc.stop()


def test_many_headers_in_a_row_and_attributes_for_all_take_no_memory() -> None:
    record = b"40000 comment=" + b"x" * (40_000 - 15) + b"\n"
    one = header("x", tarfile.XHDTYPE, len(record)) + record + bytes(-len(record) % 512)
    with pytest.raises(UsageError, match="damaged"):
        taken(one * 3000 + archive(("a", FILE, b"")))
    spread = header("x", tarfile.XGLTYPE, len(record)) + record + bytes(-len(record) % 512)
    piece = spread + archive(("a", FILE, b""))[:512]
    tracemalloc.start()
    try:
        taken(piece * 90 + bytes(1024))
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("end", [b"", b"garbage" * 100, header("y", FILE, 0)[:300]])
def test_an_archive_that_ends_too_early_is_damaged(end: bytes) -> None:
    whole = archive(("x", FILE, b"1"))
    with pytest.raises(UsageError, match="damaged"):
        taken(whole[:1024] + end)
    with pytest.raises(UsageError, match="damaged"):
        taken(b"garbage" * 200)
    with pytest.raises(UsageError, match="damaged"):
        taken(archive(("x", FILE, b"1" * 5000))[:3000])


class Failing(io.BytesIO):
    """A stream with a sender that says at its end that it has failed."""

    def read(self, size: int | None = -1, /) -> bytes:
        if piece := super().read(size):
            return piece
        raise UsageError("tar failed", "Permission denied.")


def test_what_a_stream_says_at_its_end_is_heard() -> None:
    with pytest.raises(UsageError, match="Permission denied"):
        list(Intake("Results", LIMITS).entries(Failing(archive(("x", FILE, b"1")))))


@pytest.fixture
def sparse(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with a sparse file of 512 KiB."""
    with (tmp_path / "s").open("wb") as file:
        file.seek(100_000)
        file.write(b"middle")
        file.truncate(512 * 1024)
    return tmp_path


def sparse_tar(folder: Path, options: list[str]) -> bytes:
    command = ["tar", *options, "-C", str(folder), "--sparse", "-cf", "-", "s"]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("form", ["gnu", "posix", "posix-0.1", "posix-0.0"])
def test_a_sparse_file_has_its_size_and_its_content(sparse: Path, form: str) -> None:
    kind, _, version = form.partition("-")
    options = [f"--format={kind}", *([f"--sparse-version={version}"] if version else [])]
    content = sparse_tar(sparse, options)
    assert len(content) < 100_000
    for limits in (LIMITS, TransferLimits(400_000, 10)):
        intake = Intake("Results", limits)
        found = list(intake.entries(io.BytesIO(content)))
        if limits is LIMITS:
            ((name, size),) = [(entry.name, entry.size) for entry in found]
            assert (name, size) == ("s", 512 * 1024)
        else:
            assert reasons(intake.left_out) == {
                "s": "says that it has 0.5 MiB, more than is allowed"
            }
    out = io.BytesIO(b"".join(packed(Intake("Results", LIMITS).entries(io.BytesIO(content)), 1, 1)))
    with tarfile.open(fileobj=out) as tar:
        (member,) = tar
        assert tar.extractfile(member).read() == (sparse / "s").read_bytes()  # type: ignore[union-attr]


@pytest.mark.parametrize("places", ["5,10,0,5", "0,-5", "500,50", "-3,2", "0,10,5,10"])
def test_a_sparse_file_whose_map_makes_no_sense_is_left_out(places: str) -> None:
    headers = {"GNU.sparse.map": places, "GNU.sparse.size": "100", "GNU.sparse.name": "s"}
    content = archive(("s", FILE, b"x" * 20), ("t", FILE, b"1"), pax_headers=headers)
    _, left_out = taken(content)
    assert reasons(left_out)["s"] == "is a sparse file that is damaged"


def test_what_is_passed_on_is_the_users_and_nothing_else() -> None:
    content = archive(
        ("./a/x", FILE, b"1" * 1000),
        ("./a/same", HARD, "./a/x"),
        ("./latest", LINK, "a/x"),
        ("./" + "long" * 50, FILE, b"2"),
        ("./pipe", tarfile.FIFOTYPE, b""),
        uid=0,
        gid=0,
        uname="root",
        pax_headers={"SCHILY.xattr.security.capability": "cap"},
    )
    intake = Intake("Checkpoint files", LIMITS)
    out = b"".join(packed(intake.entries(io.BytesIO(content)), 21000, 3_000_000))
    with tarfile.open(fileobj=io.BytesIO(out)) as tar:
        found = {member.name: member for member in tar}
        assert tar.extractfile("a/same").read() == b"1" * 1000  # type: ignore[union-attr]
    assert list(found) == ["a", "a/x", "a/same", "latest", "long" * 50]
    assert {(one.uid, one.gid, one.uname) for one in found.values()} == {(21000, 3_000_000, "")}
    assert {one.mode & 0o7000 for one in found.values()} == {0}
    assert all(not one.pax_headers for one in found.values())
    assert (found["a/same"].linkname, found["latest"].linkname) == ("a/x", "a/x")


NAMES = st.sampled_from(["a", "b", "A", "a/b", "a/b/c", "./a", "..", ".", "a/../b", "/a", "b/a"])
MEMBERS = st.tuples(
    NAMES,
    st.sampled_from([FILE, FOLDER, LINK, HARD, tarfile.FIFOTYPE, tarfile.CHRTYPE]),
    st.one_of(st.binary(max_size=3), NAMES, st.sampled_from(["../a", "a/..", "../../x", "/etc"])),
)


@given(st.lists(MEMBERS, max_size=8))
def test_whatever_is_in_it_nothing_leads_out(members: list[Member]) -> None:
    intake = Intake("Results", LIMITS)
    kinds: dict[str, str] = {".": "folder"}
    links: dict[str, str] = {}
    with contextlib.suppress(UsageError):
        for entry in intake.entries(io.BytesIO(archive(*members))):
            path = PurePosixPath(entry.name)
            assert ".." not in path.parts
            assert not path.is_absolute()
            assert entry.name not in kinds
            assert kinds[str(path.parent)] == "folder"
            kinds[entry.name] = entry.kind
            if entry.kind == "hardlink":
                assert kinds[entry.target] in ("file", "hardlink")
            if entry.kind == "link":
                links[entry.name] = entry.target
    for name in links:
        assert resolved(name, links)


def resolved(name: str, links: dict[str, str]) -> bool:
    """Tell whether a link stays inside where it is followed as a kernel does, even for ever."""
    at: list[str] = []
    waiting = list(reversed(PurePosixPath(name).parts))
    for _ in range(200):
        if not waiting:
            return True
        part = waiting.pop()
        if part == "..":
            if not at:
                return False
            at.pop()
        elif (target := links.get("/".join([*at, part]))) is not None:
            waiting += reversed(PurePosixPath(target).parts)
        else:
            at.append(part)
    return True


@given(st.binary(max_size=3000), st.integers(0, 4000))
def test_any_bytes_are_read_or_refused(garbage: bytes, place: int) -> None:
    whole = archive(("a/x", FILE, b"1" * 700), ("l", LINK, "a"), ("h", HARD, "a/x"))
    content = whole[:place] + garbage + whole[place + len(garbage) :]
    intake = Intake("Results", LIMITS)
    with contextlib.suppress(UsageError):
        b"".join(packed(intake.entries(io.BytesIO(content)), 1, 1))

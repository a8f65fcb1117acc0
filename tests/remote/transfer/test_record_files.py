"""Record files taken out of a tar that a job has filled."""

from __future__ import annotations

import io
import tarfile

from gpuconsole.remote.transfer.small_files import MOST_FILES, RECORD_BYTES, record_files


def archive(*files: tuple[str, bytes]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    made.seek(0)
    return made


def test_by_their_paths_and_no_others() -> None:
    made = archive(("./vdl/vdlrecords.1.log", b"one"), ("./vdlrecords.d/notes", b"no"))
    assert record_files(made) == {"vdl/vdlrecords.1.log": b"one"}
    assert record_files(io.BytesIO()) == {}
    assert record_files(io.BytesIO(b"no tar at all" * 100)) == {}


def test_within_bounds() -> None:
    many = [(f"vdlrecords.{number}", b"x") for number in range(MOST_FILES + 5)]
    assert len(record_files(archive(*many))) == MOST_FILES
    large = ("vdlrecords.large", bytes(RECORD_BYTES + 1))
    assert set(record_files(archive(large, ("vdlrecords.small", b"x")))) == {"vdlrecords.small"}
    whole = bytes(RECORD_BYTES)
    three = [(f"vdlrecords.{number}", whole) for number in range(3)]
    assert len(record_files(archive(*three))) == 2


def test_what_leads_out_ends_it() -> None:
    made = archive(("vdlrecords.1", b"x"), ("../vdlrecords.2", b"y"))
    assert record_files(made) == {"vdlrecords.1": b"x"}

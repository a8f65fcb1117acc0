"""Headers of packed projects are as hostile as their entries."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest

from gpuconsole.errors import UsageError
from gpuconsole.remote.transfer.packed_project import require_bounded


def header(kind: bytes, content: bytes) -> bytes:
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = kind, len(content)
    return entry.tobuf(tarfile.GNU_FORMAT) + content + b"\0" * (-len(content) % 512)


def packed(folder: Path, *headers: bytes) -> Path:
    path = folder / "project.tar.gz"
    path.write_bytes(gzip.compress(b"".join(headers) + tarfile.TarInfo("a").tobuf() + bytes(1024)))
    return path


@pytest.mark.parametrize("kind", [b"x", b"g", b"X", b"L", b"K"])
def test_a_long_header_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    bundle = packed(tmp_path, header(kind, b"1" * 20_000))
    with pytest.raises(UsageError, match="a header is too long"):
        require_bounded(bundle, 100.0)


def test_headers_of_headers_without_end_are_refused_in_words(tmp_path: Path) -> None:
    bundle = packed(tmp_path, *[header(tarfile.GNUTYPE_LONGNAME, b"a")] * 3000)
    with pytest.raises(UsageError, match="cannot be read"):
        require_bounded(bundle, 100.0)


def test_a_long_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "project.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("/".join(["\u6a21\u578b" * 20] * 10)))
    require_bounded(path, 100.0)

"""What lies in a container was written by its script: only small, plain files are read."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any

import docker
import pytest

from gpuconsole.remote.docker.files import read_files
from gpuconsole.remote.transfer.small_files import ARCHIVE_BYTES, FILE_BYTES, MOST_FILES


class Client:
    """An engine that answers with these bytes."""

    def __init__(self, content: bytes | None) -> None:
        self._content = content
        self.sent = 0

    def get_archive(self, container: str, folder: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        if self._content is None:
            raise docker.errors.NotFound("no such container")
        return self._chunks(self._content), {}

    def _chunks(self, content: bytes) -> Iterator[bytes]:
        for place in range(0, len(content), 65536):
            self.sent += 65536
            yield content[place : place + 65536]


def archive(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        folder = tarfile.TarInfo(".reports")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        link = tarfile.TarInfo(".reports/passwd")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def read(content: bytes | None) -> dict[str, bytes]:
    return read_files(Client(content), "c", "/gpuconsole/.reports")  # type: ignore[arg-type]


def test_plain_files_come_by_their_names() -> None:
    found = read(archive((".reports/7.json", b"{}"), (".reports/below/8.json", b"[]")))
    assert found == {"7.json": b"{}", "8.json": b"[]"}
    left = read(archive((".reports/7.json", b"{}"), (".reports/../../etc/8.json", b"[]")))
    assert left == {"7.json": b"{}"}


def test_large_files_and_too_many_are_left_out() -> None:
    large = (".reports/0.json", b"x" * (FILE_BYTES + 1))
    many = [(f".reports/{n}.json", b"{}") for n in range(1, MOST_FILES + 5)]
    found = read(archive(large, *many))
    assert "0.json" not in found
    assert len(found) == MOST_FILES


def test_a_flood_is_not_read_to_its_end() -> None:
    client = Client(b"\0" * (4 * ARCHIVE_BYTES))
    assert read_files(client, "c", "/x") == {}  # type: ignore[arg-type]
    assert client.sent <= 2 * ARCHIVE_BYTES


@pytest.mark.parametrize("content", [None, b"", b"no archive", archive(("a", b"b"))[:700]])
def test_what_is_not_there_or_damaged_is_nothing(content: bytes | None) -> None:
    assert read(content) == {}


def test_an_archive_made_to_do_harm_gives_what_came_before() -> None:
    header = tarfile.TarInfo("deeper")
    header.type = tarfile.XHDTYPE
    # Each says that the next one says more, thousands of times.
    deep = header.tobuf() * 5000
    assert read(archive(("a", b"b"))[: 4 * 512] + deep) == {"a": b"b"}
    # And each of these digits begins a number, for whoever looks for one with a pattern.
    header.size = ARCHIVE_BYTES // 2
    digits = header.tobuf() + b"7" * header.size
    assert read(archive(("a", b"b"))[: 4 * 512] + digits) == {"a": b"b"}

"""What a packed project may hold: nothing that leads out of it, and no more than was agreed."""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

FILE_LIMIT = 50_000
"""A project with more files is not one that should travel for every job."""
_SLACK = 1 * MIB
"""What edits of the console may add to a project that just fits."""
_PER_ENTRY = 4096
"""Bytes that an entry takes beside its content: its header, its long name, and padding."""


_LONGEST_HEADER = 4096
"""Bytes of a header that tells a long name: some versions of tarfile take time with the square of
its length, and let nothing else run meanwhile (CVE-2024-6232)."""
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class _Entry(tarfile.TarInfo):
    """An entry of an untrusted archive; its headers are bounded before they are read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Entry:
        """Read the head of an entry. TarError for a long header."""
        entry = super().frombuf(buf, encoding, errors)
        if entry.type in _HEADERS and not 0 <= entry.size <= _LONGEST_HEADER:
            raise tarfile.TarError("a header is too long")
        return entry


def require_harmless(member: tarfile.TarInfo, links: set[PurePosixPath]) -> None:
    """Raise TarError for an entry that no packed project has; `links` are those seen before.

    The engine unpacks as root, and follows links into what is mounted.
    """
    path = PurePosixPath(member.name)
    if not (member.isreg() or member.isdir() or member.issym()):
        raise tarfile.TarError("an entry is no file, folder or link")
    if path.is_absolute() or ".." in path.parts or links.intersection((path, *path.parents)):
        raise tarfile.TarError("an entry leads out of the project")
    if member.issym():
        links.add(path)
    member.mode &= 0o777


def require_bounded(bundle: Path, limit_mib: float) -> None:
    """Read a packed project of somebody else to its end.

    UsageError for one that unpacks to more than `limit_mib` or to too many files, that cannot be
    read, or that has an entry which would lead out of it.
    """
    limit = int(limit_mib * MIB) + _SLACK
    links: set[PurePosixPath] = set()
    size = count = 0
    try:
        with bundle.open("rb") as file:
            source = _Unpacking(file, limit + FILE_LIMIT * _PER_ENTRY)
            with tarfile.open(fileobj=source, mode="r|", tarinfo=_Entry) as tar:  # type: ignore[call-overload]
                for member in tar:
                    require_harmless(member, links)
                    size, count = size + member.size, count + 1
                    if size > limit or count > FILE_LIMIT:
                        raise _too_large(limit_mib)
                    # Else the archive remembers all its entries.
                    tar.members = []
    except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError, RecursionError) as error:
        raise UsageError(
            "The packed project cannot be read", f"{error}."[:300], "Submit the job again."
        ) from error


class _Unpacking:
    """Decompresses a gzip file up to a number of bytes: a header with a larger size is never
    believed."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file = file
        self._left = most
        self._unpacker = zlib.decompressobj(wbits=31)
        self._packed = b""

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end. EOFError where there are too many."""
        if size > self._left:
            size = self._left + 1
        out = bytearray()
        while len(out) < size and not self._unpacker.eof:
            data = self._unpacker.unconsumed_tail or self._file.read(64 * 1024)
            chunk = self._unpacker.decompress(data, size - len(out))
            if not data and not chunk:
                break
            out += chunk
        if self._unpacker.eof and (self._unpacker.unused_data or self._file.read(1)):
            # Others would read on where this one ends.
            raise EOFError("something follows it")
        self._left -= len(out)
        if self._left < 0:
            raise EOFError("it unpacks to more than the lab takes")
        return bytes(out)


def _too_large(limit_mib: float) -> UsageError:
    return UsageError(
        "Project is too large",
        msg(
            "The lab takes {file_limit} files and {amount} unpacked.",
            file_limit=FILE_LIMIT,
            amount=format_mib(limit_mib),
        ),
        "Leave data out with a .gitignore, or mount it.",
    )

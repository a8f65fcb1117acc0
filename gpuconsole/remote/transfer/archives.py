"""Archives that a container has filled: what of them may be taken out, and how it is passed on.

A script decides what lies in its folders, and a host what it sends for them. So names and types are
checked one by one, and nothing is believed about sizes: neither headers nor content can take more
memory, disk or time than the limits say.
"""

from __future__ import annotations

import io
import re
import tarfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import IO, Any, Literal, Protocol, TypeVar, cast

from gpuconsole.core.engines.transfers import LeftOut, TransferLimits
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

HEADER_BYTES, RECORD_BYTES = 4 * MIB, 64 * 1024
"""The most that describes one file, mostly the map of a sparse one; and a single record of that."""
OVERHEAD_BYTES = 4096
"""What describes a usual file, for bounding a whole archive."""
LONGEST_NAME, LONGEST_PART, DEEPEST = 3000, 255, 100
"""Bytes of a path and of a name in it, and folders above a file."""
LATEST = 2**33
"""Times after this, or before 1970, are not believed."""
PIECE = 64 * 1024
# Python searches records with a pattern that takes the square of their time.
_DIGITS = re.compile(rb"[0-9]{256}")

Kind = Literal["folder", "file", "link", "hardlink"]
T = TypeVar("T")


class Content:
    """The content of a file in an archive. UsageError where the archive ends before it."""

    def __init__(
        self, file: IO[bytes], size: int, parts: Sequence[tuple[int, int]], what: str
    ) -> None:
        """`parts` are offsets and sizes of what is not zeros."""
        self._file = file
        self._size = size
        self._parts = parts
        self._what = what

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Give offsets and bytes, without the zeros that a sparse file does not have."""
        try:
            for offset, size in self._parts:
                self._file.seek(offset)
                for start in range(0, size, PIECE):
                    yield offset + start, self._file.read(min(PIECE, size - start))
        except tarfile.TarError as error:
            raise _damaged(self._what, error) from error

    def whole(self) -> Iterator[bytes]:
        """Give all of it."""
        at = 0
        for offset, piece in chain(self.pieces(), [(self._size, b"")]):
            yield from _zeros(offset - at)
            yield piece
            at = offset + len(piece)


def _zeros(count: int) -> Iterator[bytes]:
    for start in range(0, count, PIECE):
        yield bytes(min(PIECE, count - start))


@dataclass(frozen=True, slots=True)
class Entry:
    """A thing that may be taken out. Its folder has been one before, and no link is above it."""

    name: str
    kind: Kind
    mode: int = 0o755
    mtime: int = 0
    size: int = 0
    target: str = ""
    """Where a link leads, relative to its folder and never out of the archive's; of a hard link the
    name of the file that it is one more name of, which came before."""
    content: Content | None = None
    """Of a file; to be read before the next entry is asked for."""


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to so many bytes; none at the end."""
        ...


class Intake:
    """Takes entries out of archives that make one folder together.

    `what` names that for messages, as in "The results". `left_out` tells what was not taken.
    """

    def __init__(self, what: str, limits: TransferLimits) -> None:
        self.left_out = LeftOut()
        self._what = what
        self._limits = limits
        self._kinds: dict[str, Kind] = {}
        self._links: set[str] = set()
        self._members = 0
        self._size = 0

    def entries(self, stream: Readable, below: str = "", root: str = "") -> Iterator[Entry]:
        """Give what may be taken out of a tar, as names below `below`; folders come before what is
        in them. A link to a path below `root`, where the container had the folder, is kept. A
        stream without a byte has nothing in it.

        UsageError for what is no archive, leads out of its folder by name, or is too large.
        """
        most = self._limits.size_bytes + self._limits.files * OVERHEAD_BYTES + HEADER_BYTES
        source = _Source(stream, most, self._too_large)
        try:
            tar = source.header(lambda: _opened(source))
            if tar is None:
                return
            while (member := source.header(tar.next)) is not None:
                _forget(tar)
                self._count()
                path = self._path(member, below)
                if path is not None:
                    yield from self._taken(tar, member, path, below, root)
            source.end()
        except (tarfile.TarError, ValueError, OverflowError, RecursionError, EOFError) as error:
            raise _damaged(self._what, error) from error

    def leave_out(self, name: str, reason: str) -> None:
        """Note that a thing is not taken."""
        self.left_out = self.left_out.add(name, reason)

    def count_bytes(self, size: int) -> None:
        """Note that so much is taken; UsageError when it is too much."""
        self._size += size
        if self._size > self._limits.size_bytes:
            raise self._too_large()

    def _path(self, member: tarfile.TarInfo, below: str) -> PurePosixPath | None:
        """Return where a member goes; None for one that cannot."""
        if member.size < 0:
            raise tarfile.ReadError("a size is less than nothing")
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts or "\0" in member.name:
            raise UsageError(
                msg("{what_text} are refused", what_text=self._what),
                msg(
                    "A file in them leads out of their folder: {name}.",
                    name=clean(member.name, 200),
                ),
                "Look at the job's folder on its host.",
            )
        parts = [part.encode("utf-8", "surrogateescape") for part in name.parts]
        if sum(map(len, parts)) + len(parts) > LONGEST_NAME or len(parts) > DEEPEST:
            self.leave_out(member.name, "lies too deep")
            return None
        if any(len(part) > LONGEST_PART for part in parts):
            self.leave_out(member.name, "has too long a name")
            return None
        return PurePosixPath(below, name)

    def _taken(
        self,
        tar: tarfile.TarFile,
        member: tarfile.TarInfo,
        path: PurePosixPath,
        below: str,
        root: str,
    ) -> Iterator[Entry]:
        """Give the entry of a member, after those of folders above it that had none."""
        name = str(path)
        if (member.isdir() and self._kinds.get(name) == "folder") or not path.parts:
            return
        reason = self._obstacle(path)
        if not reason:
            entry = self._entry(tar, member, path, below, root)
            if isinstance(entry, Entry):
                yield from self._folders(path)
                self._kinds[name] = "file" if entry.kind == "hardlink" else entry.kind
                if entry.kind == "link":
                    self._links.add(_alike(name))
                yield entry
                return
            reason = entry
        self.leave_out(name, reason)

    def _obstacle(self, path: PurePosixPath) -> str:
        """Return what keeps anything from being made at a path, or ""."""
        if str(path) in self._kinds:
            return "has the name of something else"
        for parent in path.parents:
            if self._links and _alike(str(parent)) in self._links:
                return "lies below a link"
            if self._kinds.get(str(parent), "folder") != "folder":
                return "lies below a file"
        return ""

    def _folders(self, path: PurePosixPath) -> Iterator[Entry]:
        """Give the folders above a path that are new."""
        for parent in [*path.parents][-2::-1]:
            if str(parent) not in self._kinds:
                self._count()
                self._kinds[str(parent)] = "folder"
                yield Entry(str(parent), "folder")

    def _entry(
        self,
        tar: tarfile.TarFile,
        member: tarfile.TarInfo,
        path: PurePosixPath,
        below: str,
        root: str,
    ) -> Entry | str:
        """Return a member's entry, or why it is left out."""
        name, mode = str(path), member.mode & 0o777
        mtime = int(member.mtime) if 0 <= member.mtime <= LATEST else 0
        if member.isdir():
            return Entry(name, "folder", mode | 0o700, mtime)
        if member.isreg():
            if member.issparse() and self._size + member.size > self._limits.size_bytes:
                return f"says that it has {format_mib(member.size / MIB)}, more than is allowed"
            parts = _parts(member)
            if parts is None:
                return "is a sparse file that is damaged"
            self.count_bytes(member.size)
            file = cast(IO[bytes], tar.extractfile(member))
            content = Content(file, member.size, parts, self._what)
            return Entry(name, "file", mode | 0o600, mtime, member.size, content=content)
        if member.issym():
            target = _inside(member.linkname, path.relative_to(below or "."), root)
            if target is None:
                return "is a link that leads out of the folder"
            return Entry(name, "link", 0o777, mtime, target=target)
        if member.islnk():
            first = str(PurePosixPath(below, member.linkname))
            if self._kinds.get(first) != "file":
                return "is a hard link to something that was not taken"
            return Entry(name, "hardlink", mode | 0o600, mtime, target=first)
        return "is a named pipe" if member.isfifo() else "is a device, or of an unknown kind"

    def _count(self) -> None:
        self._members += 1
        if self._members > self._limits.files:
            raise UsageError(
                msg("{what_text} are too many", what_text=self._what),
                msg(
                    "They have more than {files} files, folders and links, the most that the "
                    "lab's setting `transfer.files` allows.",
                    files=self._limits.files,
                ),
                "Pack them in the script, or raise the setting.",
            )

    def _too_large(self) -> UsageError:
        size = format_mib(max(0, self._limits.size_bytes) / MIB)
        return UsageError(
            msg("{what_text} are too large", what_text=self._what),
            msg(
                "They have more than {size}, all that {from_text}.",
                size=size,
                from_text=self._limits.size_from,
            ),
            self._limits.hint,
        )


def packed(entries: Iterable[Entry], uid: int, gid: int) -> Iterator[bytes]:
    """Give entries as a tar in which all belong to one user."""
    gathered = bytearray()
    for piece in _pieces(entries, uid, gid):
        gathered += piece
        if len(gathered) >= PIECE:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def _pieces(entries: Iterable[Entry], uid: int, gid: int) -> Iterator[bytes]:
    kinds = {
        "folder": tarfile.DIRTYPE,
        "file": tarfile.REGTYPE,
        "link": tarfile.SYMTYPE,
        "hardlink": tarfile.LNKTYPE,
    }
    for entry in entries:
        info = tarfile.TarInfo(entry.name)
        info.type, info.linkname, info.size = kinds[entry.kind], entry.target, entry.size
        info.mode, info.mtime, info.uid, info.gid = entry.mode, entry.mtime, uid, gid
        yield info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        if entry.content is not None:
            yield from entry.content.whole()
            yield bytes(-entry.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


class _Source(io.RawIOBase):
    """A stream as a TarFile wants it, read once and forwards, and no further than is allowed."""

    def __init__(self, stream: Readable, most: int, too_large: Callable[[], UsageError]) -> None:
        self._stream = stream
        self._left = most
        self._too_large = too_large
        self._at = 0
        self._header: int | None = None
        self._last = b""

    def header(self, call: Callable[[], T]) -> T:
        """Return what `call` does, which may read no more than describes one file."""
        self._header = HEADER_BYTES
        try:
            return call()
        finally:
            self._header = None

    def end(self) -> None:
        """Read what is behind the archive, where the stream may yet say that it failed. ReadError
        when what was read last is no end: a TarFile takes anything that is no header for one."""
        if self._last.count(0) != tarfile.BLOCKSIZE:
            raise tarfile.ReadError("it ends too early")
        while self.read(PIECE):
            pass

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes, or what is left."""
        if size < 0:
            raise tarfile.ReadError("a size is less than nothing")
        record = self._header is not None and size > tarfile.BLOCKSIZE
        if self._header is not None:
            self._header -= size
            if self._header < 0 or size > RECORD_BYTES:
                raise tarfile.ReadError("what describes a file is too long")
        pieces, wanted = [], size
        while wanted and (piece := self._stream.read(min(wanted, PIECE))):
            pieces.append(piece)
            wanted -= len(piece)
        self._last = b"".join(pieces)
        self._at += len(self._last)
        self._left -= len(self._last)
        if self._left < 0:
            raise self._too_large()
        if record and _DIGITS.search(self._last):
            raise tarfile.ReadError("what describes a file has a number without end")
        return self._last

    def tell(self) -> int:
        """Return how much was read."""
        return self._at

    def seekable(self) -> bool:
        """Return True: forwards it is."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Skip to an offset further on."""
        if whence or offset < self._at:
            raise tarfile.ReadError("it leads backwards")
        header, self._header = self._header, None
        while self._at < offset and self.read(min(offset - self._at, PIECE)):
            pass
        self._header = header
        return self._at


def _damaged(what: str, error: Exception) -> UsageError:
    said = clean(str(error), 200)
    return UsageError(
        msg("{what_text} are damaged", what_text=what),
        msg("What the host sent is no archive: {said}.", said=said),
        "Try again.",
    )


def _opened(source: _Source) -> tarfile.TarFile | None:
    try:
        return tarfile.TarFile(fileobj=source, mode="r", encoding="utf-8", errors="surrogateescape")
    except tarfile.ReadError:
        if source.tell():
            raise
        return None


def _forget(tar: Any) -> None:
    """Drop what a TarFile keeps of every member, and what one said of all to come."""
    tar.members.clear()
    tar.pax_headers.clear()


def _alike(name: str) -> str:
    """Return what a name has in common with those that some disks take for the same."""
    return unicodedata.normalize("NFC", name).casefold()


def _parts(member: tarfile.TarInfo) -> tuple[tuple[int, int], ...] | None:
    """Return where a file has content; None where what it says of that makes no sense."""
    if not member.issparse():
        return ((0, member.size),)
    # Empty ones fill the rest of a block, or say where the file ends.
    parts = tuple((offset, size) for offset, size in cast(Any, member).sparse if size)
    end = 0
    for offset, size in parts:
        if offset < end or size < 0:
            return None
        end = offset + size
    return None if end > member.size else parts


def _inside(target: str, path: PurePosixPath, root: str) -> str | None:
    """Return a link's target relative to the link's folder; None where it may lead out.

    It may go up only at its beginning: there folders are what they are called, while behind the
    name of another link a step up leads anywhere.
    """
    depth = len(path.parts) - 1
    aim = PurePosixPath(target)
    if aim.is_absolute():
        if not root or not aim.is_relative_to(root):
            return None
        aim = PurePosixPath(*[".."] * depth, aim.relative_to(root))
    ups = next((at for at, part in enumerate(aim.parts) if part != ".."), len(aim.parts))
    if ups > depth or ".." in aim.parts[ups:] or "\0" in target or len(target) > LONGEST_NAME:
        return None
    return str(aim)

"""The file of a recording: a header, then blocks that each say how long they are.

A reader learns what is in a file from the blocks' heads alone and reads only the block it needs.
A writer only ever adds blocks, so a crash or a full disk costs the last block at most.

    header  8 letters, version u16, length u32, JSON, CRC-32 u32
    block   4 letters, log length u32, frames length u32, first f64, last f64, CRC-32 u32,
            log (zlib), frames (zlib)

Numbers are little-endian; times are seconds since the epoch.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import asdict, field
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

MAGIC = b"GPUCREC\n"
VERSION = 1
SUFFIX = ".gpurec"
LONGEST_HEADER = 2**20
LONGEST_PART = 2**25
"""Bytes of a block's log or frames, unpacked: a block of the largest fleet has a tenth of that."""
LATEST = 2e11
"""Times beyond are wrong: calendars end there."""
_HEADER = Struct("<8sHI")
_CHECK = Struct("<I")
_BLOCK = Struct("<4sIIddI")
_MARK = b"BLCK"


class RecordingError(UsageError):
    """A recording cannot be read; the message names file and offset."""

    def __init__(self, path: Path, offset: int, what: str) -> None:
        super().__init__(
            "Recording cannot be read",
            f"{path}, byte {offset}: {what}.",
            "Look at a time before, or at another recording.",
        )


@dataclass(frozen=True, slots=True)
class Header:
    """What a recording says of itself."""

    started_at: float
    session: str
    """Names the session that wrote it."""
    user: str = ""
    simulated: bool = False
    hosts: tuple[str, ...] = ()
    """Names of the hosts when it began."""
    written_by: str = ""
    """Version of gpuconsole."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block lies and which time it covers."""

    offset: int
    log_length: int
    frames_length: int
    first: float
    last: float
    check: int

    @property
    def end(self) -> int:
        """The byte after the block."""
        return self.offset + _BLOCK.size + self.log_length + self.frames_length


@dataclass(slots=True)
class Index:
    """A file's header and where its blocks are; `torn` is the byte where it stops to make sense."""

    path: Path
    header: Header
    blocks: list[Place] = field(default_factory=list)
    end: int = 0
    size: int = 0
    torn: int | None = None


def header_bytes(header: Header) -> bytes:
    """Encode the header as in a file."""
    text = json.dumps(asdict(header), separators=(",", ":")).encode()
    whole = _HEADER.pack(MAGIC, VERSION, len(text)) + text
    return whole + _CHECK.pack(zlib.crc32(whole))


def block_bytes(log: bytes, frames: bytes, first: float, last: float) -> bytes:
    """Encode a block as in a file."""
    parts = [zlib.compress(log, 6), zlib.compress(frames, 6)]
    check = zlib.crc32(parts[1], zlib.crc32(parts[0]))
    return _BLOCK.pack(_MARK, *map(len, parts), first, last, check) + b"".join(parts)


def read_index(path: Path) -> Index:
    """Read a file's header and the heads of its blocks. RecordingError when it is no recording,
    is of a newer version, or cannot be read at all."""
    with _opened(path) as file:
        header, end = _read_header(path, file)
        index = Index(path, header, end=end)
        _add_blocks(index, file)
    return index


def refresh(index: Index) -> bool:
    """Find the blocks that were written since; tell whether there are any."""
    before = len(index.blocks)
    if _size(index.path) == index.size:
        return False
    with _opened(index.path) as file:
        _add_blocks(index, file)
    return len(index.blocks) > before


def read_parts(path: Path, place: Place, *, frames: bool) -> tuple[bytes, bytes]:
    """Return a block's log and frames, unpacked; without `frames` those are empty."""
    with _opened(path) as file:
        file.seek(place.offset + _BLOCK.size)
        log = file.read(place.log_length)
        rest = file.read(place.frames_length)
    if len(log) + len(rest) < place.log_length + place.frames_length:
        raise RecordingError(path, place.offset, "the block is cut off")
    if zlib.crc32(rest, zlib.crc32(log)) != place.check:
        raise RecordingError(path, place.offset, "the block is damaged (its checksum is wrong)")
    return _unpacked(path, place, log), _unpacked(path, place, rest) if frames else b""


def _unpacked(path: Path, place: Place, packed: bytes) -> bytes:
    machine = zlib.decompressobj()
    try:
        plain = machine.decompress(packed, LONGEST_PART)
    except zlib.error as error:
        raise RecordingError(
            path, place.offset, msg("the block is damaged ({error})", error=error)
        ) from error
    if not machine.eof:
        size = LONGEST_PART // 2**20
        raise RecordingError(
            path,
            place.offset,
            msg("the block unpacks to more than {given_size} MiB", given_size=size),
        )
    return plain


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        # Reported when the file is opened next.
        return -1


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError(
            "Recording cannot be opened",
            msg("{path}: {value}.", path=path, value=os.strerror(error.errno or 0)),
        ) from error


def _read_header(path: Path, file: BinaryIO) -> tuple[Header, int]:
    try:
        head = file.read(_HEADER.size)
    except OSError as error:
        raise RecordingError(path, 0, os.strerror(error.errno or 0)) from error
    if len(head) < _HEADER.size or not head.startswith(MAGIC):
        raise RecordingError(path, 0, "this is no recording of gpuconsole")
    _, version, length = _HEADER.unpack(head)
    if version > VERSION:
        raise UsageError(
            "Recording is too new",
            msg(
                "{path} was written in version {version} of the format; this "
                "gpuconsole reads up to {version2}.",
                path=path,
                version=version,
                version2=VERSION,
            ),
            "Update gpuconsole.",
        )
    if version != VERSION or length > LONGEST_HEADER:
        raise RecordingError(path, 8, "the header makes no sense")
    text, check = file.read(length), file.read(_CHECK.size)
    if len(check) < _CHECK.size or _CHECK.unpack(check)[0] != zlib.crc32(head + text):
        raise RecordingError(path, _HEADER.size, "the header is damaged")
    try:
        document = json.loads(text)
        return _header(document), _HEADER.size + length + _CHECK.size
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordingError(path, _HEADER.size, "the header makes no sense") from error


def _header(document: dict[str, Any]) -> Header:
    texts = {name: str(document.get(name, "")) for name in ("user", "written_by")}
    return Header(
        started_at=moment(document["started_at"]),
        session=str(document["session"]),
        simulated=document.get("simulated") is True,
        hosts=tuple(str(name) for name in document.get("hosts", ())),
        **texts,
    )


def moment(value: object) -> float:
    """Return a time that a calendar knows; ValueError when it is none."""
    if isinstance(value, (int, float)) and 0 <= value <= LATEST:
        return float(value)
    raise ValueError("a time makes no sense")


def _add_blocks(index: Index, file: BinaryIO) -> None:
    size = index.size = os.fstat(file.fileno()).st_size
    index.torn = None
    for place in _places(file, index.end, size):
        index.blocks.append(place)
        index.end = place.end
    if index.end < size:
        index.torn = index.end


def _places(file: BinaryIO, offset: int, size: int) -> Iterator[Place]:
    while offset + _BLOCK.size <= size:
        file.seek(offset)
        mark, log, frames, first, last, check = _BLOCK.unpack(file.read(_BLOCK.size))
        place = Place(offset, log, frames, first, last, check)
        # What is no whole block is what a crash left, or is being written just now.
        if mark != _MARK or place.end > size or not 0 <= first <= last <= LATEST:
            return
        yield place
        offset = place.end

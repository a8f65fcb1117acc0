"""What goes between the head that leads and its standby: one WebSocket, `GET /v1/journal`.

The leading head sends frames: a `Frame` as JSON, its length before it, and after it the blocks that
it names, as zlib. Each frame is a sign of life. The standby answers with the number of the copy
that it has, once that and all files that its jobs need are on its disk. These files it fetches with
`GET /v1/journal/file`. Both are for the service's own account and root alone.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, TypeAdapter

from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.state.backup.copies import BLOCK

BEAT_S = 0.5
"""Rest between two looks at the journal, and between two signs of life."""
PART = 256
"""Blocks of one frame."""
FRAME_BYTES = 64 * MIB
"""Of one frame: its blocks, and the files that 10,000 jobs of each of many accounts need."""
_LENGTH = struct.Struct(">I")
_ID = re.compile(r"[0-9a-z-]{1,64}")
_HEX = re.compile(r"[0-9a-f]{1,64}")


def _job_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError("expected the id of a job")
    return text


def _hex(text: str) -> str:
    if not _HEX.fullmatch(text):
        raise ValueError("expected hexadecimal digits")
    return text


def _shown(text: str) -> str:
    return clean(text, 128)


JobId = Annotated[str, AfterValidator(_job_id)]
Hex = Annotated[str, AfterValidator(_hex)]
Shown = Annotated[str, AfterValidator(_shown)]
KeptName = Literal["notify.json", "incident-marks.json"]
KEPT_NAMES: tuple[KeptName, ...] = get_args(KeptName)
"""Files of the state folder that users of the lab's service have filled, beside the journal: how
they want to be notified of jobs, and their marks of incidents."""
KEPT_BYTES = 8 * MIB
"""Of one of them."""


@dataclass(frozen=True, slots=True)
class Need:
    """Files that a job which has not ended needs to start."""

    job: JobId
    project: str = ""
    """Equal for jobs that share one packed project; "" where there is none."""
    secrets: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """What a standby hears: a part of a copy, or only that the other head lives."""

    number: Annotated[int, Field(ge=0)]
    """Of the copy: all that was written before it was begun is in it."""
    epoch: Annotated[int, Field(ge=0, lt=10**9)]
    in_step: bool
    """Whether the standby is waited for from this copy on."""
    name: Shown
    """The leading head's name."""
    journal: Hex
    voters: tuple[str, ...]
    """The hosts that bear witness."""
    made_at: float = 0.0
    size: Annotated[int, Field(ge=0)] = 0
    digest: str = ""
    """Of the whole copy; "" in a frame that is no copy's last."""
    blocks: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Their numbers; each has `BLOCK` bytes, the last of the copy as many as are left."""
    changed: bool = False
    """Whether the frame belongs to a copy."""
    needs: tuple[Need, ...] = ()
    over: tuple[JobId, ...] = ()
    """Jobs that need nothing any more."""
    files: Annotated[Mapping[KeptName, str] | None, Field(alias="kept")] = None
    """What small files of the state folder say beside the journal; "" where there is none. None
    where that has not changed."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What a standby says: the number of the copy that is on its disk."""

    number: Annotated[int, Field(ge=0)]


FRAME = TypeAdapter(Frame)
CONFIRMED = TypeAdapter(Confirmed)


def packed(frame: Frame, data: bytes = b"") -> bytes:
    """Return a frame as it is sent."""
    head = FRAME.dump_json(frame, by_alias=True)
    return _LENGTH.pack(len(head)) + head + zlib.compress(data, 1)


def unpacked(message: bytes) -> tuple[Frame, dict[int, bytes]]:
    """Return a frame that was sent, with its blocks by number. ValueError for one that is damaged
    or too large."""
    if len(message) < _LENGTH.size:
        raise ValueError("a frame is too short")
    (length,) = _LENGTH.unpack_from(message)
    end = _LENGTH.size + length
    frame = FRAME.validate_json(message[_LENGTH.size : end])
    if len(frame.blocks) > PART:
        raise ValueError(f"a frame has more than {PART} blocks")
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(message[end:], PART * BLOCK + 1)
    except zlib.error as error:
        raise ValueError(f"a frame is damaged: {error}") from error
    sizes = [min(BLOCK, frame.size - number * BLOCK) for number in frame.blocks]
    if len(data) != sum(sizes) or any(size <= 0 for size in sizes):
        raise ValueError("a frame has other blocks than it says")
    return frame, _split(frame.blocks, sizes, data)


def _split(numbers: Sequence[int], sizes: Sequence[int], data: bytes) -> dict[int, bytes]:
    blocks, at = {}, 0
    for number, size in zip(numbers, sizes, strict=True):
        blocks[number] = data[at : at + size]
        at += size
    return blocks

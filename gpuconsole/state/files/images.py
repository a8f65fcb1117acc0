"""Pinned images, and what checks found in images: remembered in `images.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.state.files.json_file import KeptFile

FILE = "images.json"
MOST = 500
"""Pins and checks that are kept; the oldest go first."""
MAX_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Pin:
    """The one image that a name means for this queue."""

    image: str
    """The name as tasks write it."""
    reference: str
    """What is run: a name with a digest, or an id."""
    id: str = ""
    """The image's own id, where a host had it."""
    by: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ImageCheck:
    """What a check found in an image."""

    id: str
    image: str
    host: str
    at: float
    paddle: str = ""
    cuda: str = ""
    """The CUDA that its Paddle is built for: a version, or `none`."""
    cudnn: str = ""
    python: str = ""
    built_for: str = ""
    """Paddle's word for the kind of device: `gpu`, `npu`, `xpu`, `dcu`, `cpu`."""
    device: str = ""
    """Where Paddle computed: `gpu:0`, `cpu`."""
    given: str = ""
    """The device that the container had, for a person; "" for none."""
    error: str = ""
    """Why Paddle could not be imported or did not compute."""


Kept = TypeVar("Kept", Pin, ImageCheck)


@dataclass(frozen=True, slots=True)
class _Notes:
    pins: Mapping[str, Pin]
    checks: Mapping[str, ImageCheck]


class ImageNotes:
    """The notes of one state folder."""

    def __init__(self, folder: Path) -> None:
        self._file = KeptFile(folder / FILE, decode, MAX_BYTES)

    def pins(self) -> Mapping[str, Pin]:
        """Return pins by the names they pin."""
        return self._file.content().pins

    def checks(self) -> Mapping[str, ImageCheck]:
        """Return checks by image id."""
        return self._file.content().checks

    def resolved(self, image: str) -> str:
        """Return what an image's name means here: its pin, or itself."""
        pin = self.pins().get(image)
        return pin.reference if pin is not None else image

    def pin(self, pin: Pin) -> None:
        """Remember a pin; JournalError when it cannot be written."""
        notes = self._file.content()
        self._write(replace(notes, pins=_with(notes.pins, pin.image, pin)))

    def unpin(self, image: str) -> bool:
        """Forget a pin; whether there was one."""
        notes = self._file.content()
        if image not in notes.pins:
            return False
        rest = {name: pin for name, pin in notes.pins.items() if name != image}
        self._write(replace(notes, pins=rest))
        return True

    def keep(self, check: ImageCheck) -> None:
        """Remember what a check found; JournalError when it cannot be written."""
        notes = self._file.content()
        self._write(replace(notes, checks=_with(notes.checks, check.id, check)))

    def _write(self, notes: _Notes) -> None:
        self._file.write(encode(notes))


def encode(notes: _Notes) -> bytes:
    """Return the file."""
    document = {
        "pins": [asdict(pin) for pin in notes.pins.values()],
        "checks": [asdict(check) for check in notes.checks.values()],
    }
    return f"{json.dumps(document, indent=1, ensure_ascii=False)}\n".encode(errors="replace")


def decode(content: bytes) -> _Notes:
    """Return what a file says; what is not of its form is left out."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = {}
    if not isinstance(document, dict):
        document = {}
    pins = _all(Pin, document.get("pins"))
    checks = _all(ImageCheck, document.get("checks"))
    return _Notes({pin.image: pin for pin in pins}, {check.id: check for check in checks})


def _all(kind: type[Kept], listed: object) -> list[Kept]:
    records = (_one(kind, item) for item in listed) if isinstance(listed, list) else ()
    return [record for record in records if record is not None]


def _one(kind: type[Kept], item: Any) -> Kept | None:
    if not isinstance(item, dict):
        return None
    given: dict[str, Any] = {}
    for field in fields(kind):
        value = item.get(field.name)
        wanted = (int, float) if field.name == "at" else str
        if isinstance(value, wanted):
            given[field.name] = value
    try:
        return kind(**given)
    except TypeError:
        # What makes it one at all is missing.
        return None


def _with(records: Mapping[str, Kept], key: str, value: Kept) -> dict[str, Kept]:
    """Return the mapping with one more record, which is last."""
    changed: dict[str, Kept] = {name: record for name, record in records.items() if name != key}
    changed[key] = value
    return dict(list(changed.items())[-MOST:])

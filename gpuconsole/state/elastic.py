"""What is remembered of hosts that sleep and wake: `elastic.json`, written by who dispatches."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpuconsole.errors import JournalError
from gpuconsole.placement.waking import Past
from gpuconsole.state.filesystem import make_folder

FILE = "elastic.json"
MAX_BYTES = 8 * 2**20

_PASTS: TypeAdapter[dict[str, Past]] = TypeAdapter(dict[str, Past])


class ElasticNotes:
    """The hosts of one state folder; read anew when the file changed, as another console writes."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._read: tuple[tuple[int, int], dict[str, Past]] | None = None

    def all(self) -> Mapping[str, Past]:
        """Return what is remembered, by host. The same object while nothing changed."""
        try:
            with self._file.open("rb") as file:
                found = os.fstat(file.fileno())
                # A file that is replaced has another number, whatever its clock says.
                stamp = (found.st_mtime_ns, found.st_ino)
                if self._read is None or self._read[0] != stamp:
                    self._read = (stamp, decode(file.read(MAX_BYTES)))
        except OSError:
            return _NONE
        return self._read[1]

    def keep(self, host: str, past: Past) -> None:
        """Remember a host; JournalError when that cannot be written."""
        known = self.all()
        if known.get(host) == past:
            return
        content = _PASTS.dump_json({**known, host: past})
        draft = self._file.with_name(f".{FILE}.{os.getpid()}")
        try:
            make_folder(self._file.parent)
            with os.fdopen(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
            ) as to:
                to.write(content)
            os.replace(draft, self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise JournalError(
                "It cannot be remembered",
                f"{self._file}: {os.strerror(error.errno or 0)}.",
                "Choose another folder with --state DIR.",
            ) from error


_NONE: Mapping[str, Past] = {}


def decode(content: bytes) -> dict[str, Past]:
    """Return what a file says; a host whose part is not of the form is left out."""
    try:
        document: Any = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, Past] = {}
    for host, part in document.items() if isinstance(document, dict) else ():
        with contextlib.suppress(ValidationError):
            found |= _PASTS.validate_python({host: part})
    return found

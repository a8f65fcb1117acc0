"""What is remembered of hosts that sleep and wake: `elastic.json`, written by who dispatches."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpuconsole.placement.elastic.wake import Past
from gpuconsole.state.files.json_file import KeptFile

FILE = "elastic.json"
MAX_BYTES = 8 * 2**20

_PASTS: TypeAdapter[dict[str, Past]] = TypeAdapter(dict[str, Past])


class ElasticNotes:
    """The hosts of one state folder."""

    def __init__(self, folder: Path) -> None:
        self._file = KeptFile(folder / FILE, decode, MAX_BYTES)

    def all(self) -> Mapping[str, Past]:
        """Return what is remembered, by host. The same object while nothing changed."""
        return self._file.content()

    def keep(self, host: str, past: Past) -> None:
        """Remember a host; JournalError when that cannot be written."""
        known = self.all()
        if known.get(host) != past:
            self._file.write(_PASTS.dump_json({**known, host: past}))


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

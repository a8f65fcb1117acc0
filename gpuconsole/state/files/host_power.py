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
        pasts = self.all()
        if pasts.get(host) != past:
            self._file.write(_PASTS.dump_json({**pasts, host: past}))


def decode(content: bytes) -> dict[str, Past]:
    """Parse the file; the entry of a host that is malformed is left out."""
    try:
        document: Any = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    pasts: dict[str, Past] = {}
    for host, part in document.items() if isinstance(document, dict) else ():
        with contextlib.suppress(ValidationError):
            pasts |= _PASTS.validate_python({host: part})
    return pasts

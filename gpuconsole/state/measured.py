"""What measurements of scripts recorded, kept so that they need not be run again."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuconsole.core.places import MEASURED_NAME
from gpuconsole.state.filesystem import make_folder

MOST_FILES = 64
"""Measurements kept; the oldest goes first."""
MAX_BYTES = 32 * 2**20
"""The longest recording. One of a small convolutional network is of 0.01 MiB, one of a large
project's training of some MiB."""


def key_of(digest: str, settings: Sequence[str], tier: str) -> str:
    """Return the name of a measurement: one script with one set of arguments, batch aside."""
    whole = "\0".join((digest, *settings)).encode("utf-8", "surrogatepass")
    return f"{hashlib.sha256(whole).hexdigest()[:32]}-{tier}"


class MeasuredScripts:
    """The recordings of one state folder, a file each."""

    def __init__(self, state: Path) -> None:
        self._folder = state / MEASURED_NAME

    def get(self, key: str) -> dict[str, Any] | None:
        """Return a recording; None where there is none that can be read."""
        try:
            with gzip.open(self._folder / f"{key}.json.gz", "rb") as file:
                document = json.loads(file.read(MAX_BYTES))
        except (OSError, EOFError, zlib.error, ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    def put(self, key: str, document: bytes) -> None:
        """Store a recording, a JSON object that has been checked.

        A full disk stores none: it can be measured again.
        """
        with contextlib.suppress(OSError):
            make_folder(self._folder)
            handle, name = tempfile.mkstemp(prefix=".", dir=self._folder)
            try:
                with os.fdopen(handle, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb") as file:
                    file.write(document)
                os.replace(name, self._folder / f"{key}.json.gz")
            except BaseException:
                os.unlink(name)
                raise
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        files = sorted(self._folder.glob("*.json.gz"), key=lambda file: file.stat().st_mtime)
        for file in files[:-MOST_FILES]:
            file.unlink(missing_ok=True)

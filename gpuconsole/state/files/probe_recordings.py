"""What measurements of scripts recorded, kept so that they need not be run again."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuconsole.core.util.user_dirs import MEASURED_NAME
from gpuconsole.state.filesystem import make_folder

MOST_FILES = 64
"""Measurements kept; the oldest goes first."""
MAX_BYTES = 32 * 2**20
"""The longest recording. That of a ResNet-50 is of 0.15 MiB, that of a recurrent network over 512
steps of 3.3 MiB."""
MAX_INPUTS = 8 * 2**20
"""Bytes of what a recording was made with."""


def key_of(digest: str, settings: Mapping[str, object], tier: str) -> str:
    """Return the name of a measurement: one script with one set of settings, batch size aside."""
    said = json.dumps([digest, settings], sort_keys=True)
    return f"{hashlib.sha256(said.encode()).hexdigest()[:32]}-{tier}"


class MeasuredScripts:
    """The recordings of one state folder: a file for each place where one was made."""

    def __init__(self, state: Path) -> None:
        self._folder = state / MEASURED_NAME

    def get(
        self, key: str, holds: Callable[[Mapping[str, Any]], bool] = lambda inputs: True
    ) -> dict[str, Any] | None:
        """Return the newest recording with valid inputs; None if none can be read."""
        for path in reversed(self._files(f"{key}.*.json.gz")):
            for recording in _read(path, holds):
                return recording
        return None

    def put(self, key: str, place: str, inputs: Mapping[str, object], document: bytes) -> None:
        """Store a recording, a JSON object that has been checked, with what it was made with.

        It takes the place of one of the same place. A full disk stores none: it can be measured
        again.
        """
        where = hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        with contextlib.suppress(OSError):
            make_folder(self._folder)
            handle, name = tempfile.mkstemp(prefix=".", dir=self._folder)
            try:
                with os.fdopen(handle, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb") as file:
                    file.write(json.dumps(inputs).encode() + b"\n")
                    file.write(document)
                os.replace(name, self._folder / f"{key}.{where}.json.gz")
            except BaseException:
                os.unlink(name)
                raise
            for old in self._files("*.json.gz")[:-MOST_FILES]:
                old.unlink(missing_ok=True)

    def _files(self, pattern: str) -> list[Path]:
        """Return files of the folder, the oldest first."""
        return sorted(self._folder.glob(pattern), key=_changed)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        # Another console has removed it.
        return 0


def _read(path: Path, holds: Callable[[Mapping[str, object]], bool]) -> Iterator[dict[str, object]]:
    """Give the recording of a file, where it can be read and its inputs hold."""
    try:
        with gzip.open(path, "rb") as file:
            inputs = json.loads(file.readline(MAX_INPUTS))
            if isinstance(inputs, dict) and holds(inputs):
                document = json.loads(file.read(MAX_BYTES))
                if isinstance(document, dict):
                    yield document
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return

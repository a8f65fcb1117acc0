"""The small files of an archive that came from a job: whoever ran there wrote them."""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath
from typing import IO

from gpuconsole.core.engines.transfers import TransferLimits
from gpuconsole.errors import UsageError
from gpuconsole.remote.transfer.archives import Intake

FILE_BYTES = 64 * 1024
MOST_FILES = 64
ARCHIVE_BYTES = 2 * FILE_BYTES * MOST_FILES
"""Bounds of what is read of a job's folder."""
_LIMITS = TransferLimits(ARCHIVE_BYTES, 64 * MOST_FILES)


def small_files(archive: IO[bytes]) -> dict[str, bytes]:
    """Return the regular files of a tar by name, as far as it can be read.

    One that is large, or one too many, is left out.
    """
    found: dict[str, bytes] = {}
    # Of an archive that is damaged, or made to do harm, what came before counts.
    with contextlib.suppress(UsageError):
        for entry in Intake("Reports", _LIMITS).entries(archive):
            small = entry.size <= FILE_BYTES and len(found) < MOST_FILES
            if entry.content is not None and small:
                found[PurePosixPath(entry.name).name] = b"".join(entry.content.whole())
    return found

"""The small files of an archive that came from a job: whoever ran there wrote them."""

from __future__ import annotations

import tarfile
from pathlib import PurePosixPath
from typing import IO

FILE_BYTES = 64 * 1024
MOST_FILES = 64
ARCHIVE_BYTES = 2 * FILE_BYTES * MOST_FILES
"""Bounds of what is read of a job's folder."""


def small_files(archive: IO[bytes]) -> dict[str, bytes]:
    """Return the regular files of a tar by name, as far as it can be read.

    One that is large, or one too many, is left out.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for member in tar:
                small = member.isreg() and not member.issparse() and member.size <= FILE_BYTES
                source = tar.extractfile(member) if small and len(found) < MOST_FILES else None
                if source is not None:
                    found[PurePosixPath(member.name).name] = source.read()
    except (tarfile.TarError, ValueError, RecursionError):
        # Of an archive that is damaged, or made to do harm, what came before counts.
        return found
    return found

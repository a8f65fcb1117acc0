"""Small files, and VisualDL's record files, of an archive that came from a job: a script wrote
them."""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath
from typing import IO

from gpuconsole.core.engines.transfers import TransferLimits
from gpuconsole.core.training.visualdl import RECORD_FILES
from gpuconsole.errors import UsageError
from gpuconsole.remote.transfer.archives import Intake, Readable

FILE_BYTES = 64 * 1024
MOST_FILES = 64
ARCHIVE_BYTES = 2 * FILE_BYTES * MOST_FILES
"""Bounds of what is read of a job's folder."""
_LIMITS = TransferLimits(ARCHIVE_BYTES, 64 * MOST_FILES)
RECORD_BYTES = 16 * 2**20
"""A larger record file is not read: it is full of images or histograms."""
ALL_RECORDS_BYTES = 32 * 2**20
_RECORD_LIMITS = TransferLimits(2 * ALL_RECORDS_BYTES, 16 * MOST_FILES)


def small_files(archive: IO[bytes]) -> dict[str, bytes]:
    """Return the regular files of a tar by name, as far as it can be read.

    One that is large, or one too many, is left out.
    """
    files: dict[str, bytes] = {}
    # Of an archive that is damaged, or made to do harm, what came before counts.
    with contextlib.suppress(UsageError):
        for entry in Intake("Reports", _LIMITS).entries(archive):
            small = entry.size <= FILE_BYTES and len(files) < MOST_FILES
            if entry.content is not None and small:
                files[PurePosixPath(entry.name).name] = b"".join(entry.content.whole())
    return files


def record_files(archive: Readable) -> dict[str, bytes]:
    """Return the record files of a tar by path, as far as it can be read.

    `ALL_RECORDS_BYTES` of them are read at most.
    """
    files: dict[str, bytes] = {}
    left = ALL_RECORDS_BYTES
    # Of an archive that is damaged, or made to do harm, what came before counts.
    with contextlib.suppress(UsageError):
        for entry in Intake("Records", _RECORD_LIMITS).entries(archive):
            if entry.content is None or RECORD_FILES not in entry.name.rpartition("/")[2]:
                continue
            if entry.size <= min(RECORD_BYTES, left) and len(files) < MOST_FILES:
                files[entry.name] = b"".join(entry.content.whole())
                left -= entry.size
    return files

"""VisualDL's record files of a tar that came from a job: whoever ran there wrote them."""

from __future__ import annotations

import contextlib

from gpuconsole.core.engines.transfers import TransferLimits
from gpuconsole.core.training.visualdl import RECORD_FILES
from gpuconsole.errors import UsageError
from gpuconsole.remote.transfer.archives import Intake, Readable

FILE_BYTES = 16 * 2**20
"""A larger file is not read: it is full of images or histograms."""
MOST_FILES = 64
MOST_BYTES = 32 * 2**20
_LIMITS = TransferLimits(2 * MOST_BYTES, 16 * MOST_FILES)


def record_files(archive: Readable) -> dict[str, bytes]:
    """Return the record files of a tar by path, as far as it can be read, up to `MOST_BYTES`."""
    found: dict[str, bytes] = {}
    left = MOST_BYTES
    # Of an archive that is damaged, or made to do harm, what came before counts.
    with contextlib.suppress(UsageError):
        for entry in Intake("Records", _LIMITS).entries(archive):
            if entry.content is None or RECORD_FILES not in entry.name.rpartition("/")[2]:
                continue
            if entry.size <= min(FILE_BYTES, left) and len(found) < MOST_FILES:
                found[entry.name] = b"".join(entry.content.whole())
                left -= entry.size
    return found

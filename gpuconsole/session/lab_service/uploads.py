"""Packed projects that callers send: bounded on their way, and read to their end before use."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from aiohttp import BodyPartReader

from gpuconsole.core.lab_service.rights import Caller
from gpuconsole.core.units import MIB
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.remote.transfer.packed_project import require_bounded
from gpuconsole.state.filesystem import make_folder

MOST_UPLOADS = 4
"""Projects that an account may send at once."""
_MOST_READ = 2
"""Projects of all accounts that are read at once: logs and reports need threads too."""
SPARE_BYTES = 256 * MIB
"""What projects leave free on the service's disk: without it no job could be followed."""
_PREFIX = ".upload-"
"""How the names of projects begin that are still being received."""


class Uploads:
    """Receives projects into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sending: Counter[int] = Counter()
        self._reading = asyncio.Semaphore(_MOST_READ)

    def clear(self) -> None:
        """Remove what a killed service left: nothing else would ever do so."""
        for left in self._folder.glob(f"{_PREFIX}*"):
            left.unlink(missing_ok=True)

    @contextlib.contextmanager
    def turn(self, caller: Caller) -> Iterator[None]:
        """Let an account send a few projects at once: each takes space on the disk."""
        if self._sending[caller.uid] >= MOST_UPLOADS:
            raise RefusedError("Too many submissions at once", "Wait for the others to end.")
        self._sending[caller.uid] += 1
        try:
            yield
        finally:
            self._sending[caller.uid] -= 1
            if not self._sending[caller.uid]:
                del self._sending[caller.uid]

    @contextlib.asynccontextmanager
    async def received(
        self, part: object, limit_mib: float, stored: int = 0
    ) -> AsyncIterator[Path]:
        """Yield the file that a request's part `bundle` is written to; it is removed unless it was
        moved. UsageError for one that is no packed project, or has more than so much; RefusedError
        where the disk is nearly full, or an account with projects of `stored` bytes would have more
        of it than it leaves to the others."""
        if not isinstance(part, BodyPartReader) or part.name != "bundle":
            raise UsageError("Wrong request", "It has no packed project.")
        make_folder(self._folder)
        self._require_space(stored)
        handle, name = tempfile.mkstemp(dir=self._folder, prefix=_PREFIX)
        bundle, size, limit = Path(name), 0, int(limit_mib * MIB)
        try:
            with os.fdopen(handle, "wb") as file:
                while chunk := await part.read_chunk(256 * 1024):
                    size += len(chunk)
                    if size > limit:
                        raise UsageError(
                            "Project is too large",
                            msg("The lab takes {value} MiB packed.", value=limit // MIB),
                            "Leave data out with a .gitignore, or mount it.",
                        )
                    self._require_space(stored + size)
                    await asyncio.to_thread(file.write, chunk)
            async with self._reading:
                await asyncio.to_thread(require_bounded, bundle, limit_mib)
            yield bundle
        finally:
            await asyncio.to_thread(bundle.unlink, missing_ok=True)

    def _require_space(self, held: int) -> None:
        """Raise RefusedError where the disk is nearly full, or an account that holds so many bytes
        of it would leave less than that to the others."""
        free = shutil.disk_usage(self._folder).free - SPARE_BYTES
        if free < 0:
            raise RefusedError(
                "The lab's disk is nearly full",
                msg(
                    "The service's host has less than {value} MiB for projects.",
                    value=SPARE_BYTES // MIB,
                ),
                "Ask an operator to cancel jobs that wait, or to free some space there.",
            )
        if held > free:
            raise RefusedError(
                "Your projects take too much of the lab's disk",
                msg(
                    "Those of your jobs take {value} MiB, and {value2} MiB are left there.",
                    value=held // MIB,
                    value2=free // MIB,
                ),
                "Submit more once some of your jobs have ended, or leave data out of the project.",
            )


async def read_document(part: object, name: str, most: int) -> bytes:
    """Return the part of a request that has its document. UsageError for another, and for one of
    more than `most` bytes."""
    if not isinstance(part, BodyPartReader) or part.name != name:
        raise UsageError("Wrong request", msg("It begins with no {name}.", name=name))
    data = bytearray()
    while chunk := await part.read_chunk():
        data += chunk
        if len(data) > most:
            raise UsageError(
                "Request is too large", msg("It has more than {most} bytes.", most=most)
            )
    return bytes(data)

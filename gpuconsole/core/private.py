"""Files with secrets in them: read only if nobody else can read them."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from gpuconsole.core.text import clean
from gpuconsole.errors import UsageError


def read_private(path: Path, what: str, most: int) -> tuple[str, float]:
    """Return the text of a small file that only this user and root can read, and when it was
    written (seconds since the epoch). `what` names it in errors; it has `most` bytes at most.

    UsageError when it cannot be read, is no regular file, no UTF-8, too large, somebody else's, or
    open to others in any way.
    """
    name = clean(str(path), 512)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            _require_private(found, name, what)
            data = file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{what} cannot be read", f"{name}: {error.strerror}.") from error
    if len(data) > most:
        raise UsageError(f"{what} is too large", f"{name} has more than {most} bytes.")
    try:
        return data.decode(), found.st_mtime
    except UnicodeDecodeError:
        raise UsageError(f"{what} cannot be read", f"{name} is not UTF-8.") from None


def _require_private(found: os.stat_result, name: str, what: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{what} cannot be read", f"{name} is not a regular file.")
    if found.st_uid not in (os.geteuid(), 0):
        raise UsageError(
            f"{what} is open to others", f"{name} belongs to somebody else.", "Make a copy."
        )
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(
            f"{what} is open to others",
            f"{name} may be read by other users.",
            f"Run: chmod 600 {shlex.quote(name)}",
        )

"""Small files of the state folder that several consoles read and write whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError
from gpuconsole.state.filesystem import make_folder

Content = TypeVar("Content")


class KeptFile(Generic[Content]):
    """One such file; read again when it changed, as other consoles write too."""

    def __init__(self, path: Path, decode: Callable[[bytes], Content], most: int) -> None:
        """`decode` reads the file, of which no more than `most` bytes, or b"" where there is
        none."""
        self._path = path
        self._decode = decode
        self._most = most
        self._nothing = decode(b"")
        self._read: tuple[tuple[int, int], Content] | None = None

    def content(self) -> Content:
        """Return what the file says; the same object while nothing changed."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                # A file that is replaced has another number, whatever its clock says.
                stamp = (status.st_mtime_ns, status.st_ino)
                if self._read is None or self._read[0] != stamp:
                    self._read = (stamp, self._decode(file.read(self._most)))
        except OSError:
            return self._nothing
        return self._read[1]

    def write(self, content: bytes) -> None:
        """Replace the file by one that this user alone can read; JournalError when it cannot be."""
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            make_folder(self._path.parent)
            with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
                file.write(content)
            os.replace(draft, self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise JournalError(
                "It cannot be remembered",
                msg("{path}: {value}.", path=self._path, value=os.strerror(error.errno or 0)),
                "Choose another folder with --state DIR.",
            ) from error

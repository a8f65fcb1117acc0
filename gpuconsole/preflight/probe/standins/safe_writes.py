"""Files and folders that are made below a folder: no link on the way is followed, wherever a
script has put one, so that nothing is made elsewhere."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@contextlib.contextmanager
def opened(root: str, path: str) -> Iterator[int]:
    """Yield the descriptor of a folder below `root`, which is made with those above it.

    OSError where something else is in the way, or a path leads out.
    """
    name = os.path.relpath(path, root)
    parts = [] if name == "." else name.split(os.sep)
    if ".." in parts:
        raise OSError(f"{path} is not below {root}")
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            below = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def write(root: str, path: str, data: bytes) -> None:
    """Make a file below `root`, with the folders above it. OSError where it cannot be new."""
    with opened(root, os.path.dirname(path)) as folder:
        write_in(folder, os.path.basename(path), data)


def write_in(folder: int, name: str, data: bytes) -> None:
    """Make a file in a folder that is open."""
    with open(os.open(name, _NEW, 0o644, dir_fd=folder), "wb") as file:
        file.write(data)


def remove(root: str, path: str) -> None:
    """Remove a file below `root`."""
    with opened(root, os.path.dirname(path)) as folder:
        os.unlink(os.path.basename(path), dir_fd=folder)

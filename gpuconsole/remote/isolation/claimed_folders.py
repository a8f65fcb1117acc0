"""Folders that are one process's own: the next process removes what a killed one left.

A folder is locked as long as its process lives; the kernel releases the lock when it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

Remove = Callable[[Path], None]
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextlib.contextmanager
def claimed_folder(parent: Path, prefix: str, remove: Remove) -> Iterator[Path]:
    """Make a folder, and remove it afterwards; first those that killed processes of this user left
    in `parent` under the same prefix. OSError where none can be made."""
    _sweep(parent, prefix, remove)
    folder, lock = _claimed(parent, prefix)
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


@contextlib.asynccontextmanager
async def scratch_folder(prefix: str) -> AsyncIterator[Path]:
    """Make a folder for temporary files, which is removed with all that is in it."""
    with contextlib.ExitStack() as stack:
        claimed = claimed_folder(Path(tempfile.gettempdir()), prefix, remove_tree)
        # There may be much to remove.
        folder = await asyncio.to_thread(stack.enter_context, claimed)
        try:
            yield folder
        finally:
            await asyncio.to_thread(stack.close)


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, also where a script took its own rights away."""
    for parent, names, _ in os.walk(folder):
        for path in (os.path.join(parent, name) for name in names):
            with contextlib.suppress(OSError):
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path, prefix: str, remove: Remove) -> None:
    for name in os.listdir(parent):
        if name.startswith(prefix):
            # Other users' folders cannot be opened, and another process may be as fast.
            with contextlib.suppress(OSError):
                _remove_if_left(parent / name, remove)


def _remove_if_left(folder: Path, remove: Remove) -> None:
    lock = os.open(folder, _FOLDER)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(folder)
    finally:
        os.close(lock)


def _claimed(parent: Path, prefix: str) -> tuple[Path, int]:
    """Return a new folder and what locks it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock = os.open(folder, _FOLDER)
        except FileNotFoundError:
            # Another process took it for one that was left.
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)

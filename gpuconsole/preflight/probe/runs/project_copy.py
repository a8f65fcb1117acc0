"""The project as a script sees it while it is measured: a copy to write to, thrown away after.

Small files are copied, so that code and settings lie where they always do; large ones, and folders
past a number of entries, are links to the project itself, which can only be read. A link that is
opened for writing is replaced before, as a file of an overlay would be. Where the project itself
could be written to, nothing in the copy leads out of it: files are copied, and the rest is left
out.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

COPIED_BYTES = 2**20
"""The largest file that is copied."""
ALL_COPIED_BYTES = 128 * 2**20
ALL_ALONE_BYTES = 512 * 2**20
"""Bytes that are copied where nothing is linked."""
MOST_ENTRIES = 20_000
MOST_BELOW = 200_000
"""Entries below a folder, beyond which nothing in it is thrown away."""
APART = {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox"}
"""Folders of tools: linked as they are."""


def lay(source: str, root: str, files: Iterable[str] | None = None, linked: bool = True) -> None:
    """Lay the project out below `root`: all of `source`, or these of its files.

    What is there already stays: folders that are mounted into it. `linked` tells whether links may
    lead to `source`, because it can only be read.
    """
    os.makedirs(root, exist_ok=True)
    laying = Laying(source, root, linked)
    for name, is_folder in _entries(source) if files is None else ((file, False) for file in files):
        laying.place(name, is_folder)


def _entries(source: str) -> Iterator[tuple[str, bool]]:
    """Yield the names of a folder's content, relative to it, level by level, and whether each is
    a folder to be made: one with no more entries than the limit."""
    waiting = [("", _inside(source, MOST_ENTRIES) or [])]
    left = MOST_ENTRIES
    while waiting:
        folder, entries = waiting.pop(0)
        for entry in entries:
            name = os.path.join(folder, entry.name)
            below = None
            if entry.is_dir(follow_symlinks=False) and entry.name not in APART:
                below = _inside(entry.path, left)
            if below is not None:
                left -= len(below)
                waiting.append((name, below))
            yield name, below is not None


def _inside(folder: str, most: int) -> list[os.DirEntry[str]] | None:
    """Return the entries of a folder in order of name, None where they are too many."""
    try:
        with os.scandir(folder) as listing:
            entries = list(itertools.islice(listing, most + 1))
    except OSError:
        return None
    return sorted(entries, key=lambda entry: entry.name) if len(entries) <= most else None


class Laying:
    """Lays a project out, entry by entry."""

    def __init__(self, source: str, root: str, linked: bool) -> None:
        self.source = source
        self.root = root
        self.linked = linked
        self.left = ALL_COPIED_BYTES if linked else ALL_ALONE_BYTES
        self.largest = COPIED_BYTES if linked else ALL_ALONE_BYTES

    def place(self, name: str, is_folder: bool) -> None:
        """Make a folder, copy a small file, link whatever else."""
        source, target = os.path.join(self.source, name), os.path.join(self.root, name)
        if os.path.lexists(target) or os.path.islink(os.path.dirname(target)):
            return
        if is_folder:
            os.mkdir(target)
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not self.copied(source, target) and not os.path.lexists(target):
            self.link(source, target)

    def copied(self, source: str, target: str) -> bool:
        """Copy a file; returns whether it is one, and small enough."""
        try:
            size = os.path.getsize(source)
            if not os.path.isfile(source) or size > min(self.largest, self.left):
                return False
            self.left -= size
            shutil.copy(source, target)
            os.chmod(target, 0o600 | os.stat(source).st_mode & 0o111)
        except OSError:
            return False
        return True

    def link(self, source: str, target: str) -> None:
        """Link to the project, or to what a link of the project leads to in the copy."""
        if self.linked:
            os.symlink(source, target)
            return
        there = os.path.relpath(os.path.realpath(source), os.path.realpath(self.source))
        if os.path.islink(source) and there.split(os.sep)[0] != os.pardir:
            inside = os.path.join(self.root, there)
            os.symlink(os.path.relpath(inside, os.path.dirname(target)), target)


def cleared(root: str, mounted: Collection[str]) -> None:
    """Throw away what a run left, but for these names."""
    for entry in list(os.scandir(root)):
        if entry.name in mounted:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def home_of(environment: Mapping[str, str]) -> list[str]:
    """Return the folders in which libraries store what they download."""
    home = environment.get("HOME", "")
    return [home] if os.path.isdir(home) else []


def below(root: str) -> set[str] | None:
    """Return the paths of what lies below a folder, links not followed; None where that is more
    than any run leaves there."""
    paths: set[str] = set()
    for folder, folders, files in os.walk(root):
        paths.update(os.path.join(folder, name) for name in (*folders, *files))
        if len(paths) > MOST_BELOW:
            return None
    return paths


def without_new(root: str, before: set[str] | None) -> None:
    """Throw away what is below a folder and was not before."""
    now = below(root)
    for path in sorted(now - before) if now is not None and before is not None else ():
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)


def guard_links(source: str) -> None:
    """From now on replace a link into the project when Python opens it for writing."""
    prefix = os.path.join(source, "")

    def heard(event: str, args: tuple[object, ...]) -> None:
        if event != "open":
            return
        path, flags = args[0], args[2]
        if not isinstance(path, (str, bytes)) or not isinstance(flags, int):
            return
        # What has to be new is never opened through a link.
        if flags & (os.O_WRONLY | os.O_RDWR) and not flags & os.O_EXCL:
            _own(os.fsdecode(path), prefix, flags)

    sys.addaudithook(heard)


def _own(path: str, prefix: str, flags: int) -> None:
    """Make a link into the project a file of its own: empty, or a copy where it is added to."""
    if not os.path.islink(path):
        return
    there = os.path.realpath(path)
    if not there.startswith(prefix):
        return
    os.unlink(path)
    if not flags & os.O_TRUNC and os.path.isfile(there):
        shutil.copyfile(there, path)

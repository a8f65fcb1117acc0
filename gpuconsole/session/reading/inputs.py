"""The files that a measured script read: its recording holds while they are as they were.

A measured process names them, and may name anything. Only files below the project, or below a
folder in which the script finds modules, are looked at, and of these only what regular files hold.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError

MOST_NAMES = 20_000
LONGEST_NAME = 4096
HASHED_BYTES = 2**16
"""The largest file of which the content counts; of a larger one size and time of change do. All are
looked at for each estimate."""
ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Tree:
    """Where a script's files lie on this machine."""

    root: Path
    """The project's folder."""
    others: tuple[Path, ...] = ()
    """Other folders in which the script finds modules."""
    edited: frozenset[str] = frozenset()
    """Files of which another text was measured, on purpose."""

    def place(self, name: str) -> Path | None:
        """Return the path of a file by its name in the project, None for one that is not of it."""
        if len(name) > LONGEST_NAME or "\0" in name or ".." in name.split(os.sep):
            return None
        if not os.path.isabs(name):
            return self.root / name
        path = Path(name)
        return path if any(path.is_relative_to(other) for other in self.others) else None


def marks(document: Mapping[str, object], tree: Tree, since_ns: int) -> dict[str, str]:
    """Return what tells each file that a document says was read from a later state of it.

    RefusedError where one changed since the measurement began, at `since_ns`.
    """
    marks_found: dict[str, str] = {}
    read = document.get("read")
    for name, said in _entries(read, "files"):
        path = tree.place(name)
        if path is None:
            continue
        now = mark(path)
        if said is None and now != ABSENT:
            # It was left out of what was measured, unless it came meanwhile.
            _require(_changed_ns(path) < since_ns, name)
            continue
        same = name in tree.edited or (_is_same(said, now) and _is_old(path, now, since_ns))
        _require(same, name)
        marks_found[name] = now
    for name, _ in _entries(read, "folders"):
        path = tree.place(name)
        if path is not None:
            now = folder_mark(path)
            _require(_is_old(path, now, since_ns), name)
            marks_found[name] = now
    return marks_found


def hold(stored: object, tree: Tree) -> bool:
    """Tell whether all files are as they were when a recording was stored with these marks."""
    if not isinstance(stored, dict) or len(stored) > MOST_NAMES:
        return False
    for name, then in stored.items():
        path = tree.place(name)
        if path is None or not isinstance(then, str):
            return False
        if then != (folder_mark(path) if then.startswith("folder") else mark(path)):
            return False
    return True


def mark(path: Path) -> str:
    """Return what changes when a file does."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return ABSENT
        if status.st_size > HASHED_BYTES:
            return f"size {status.st_size} {status.st_mtime_ns}"
        with open(path, "rb") as file:
            content = file.read(HASHED_BYTES)
    except (OSError, ValueError):
        return ABSENT
    return f"sha256 {len(content)} {hashlib.sha256(content).hexdigest()}"


def folder_mark(path: Path) -> str:
    """Return what changes when something is added to a folder or removed from it."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return f"folder {ABSENT}"
    is_folder = stat.S_ISDIR(status.st_mode)
    return f"folder {status.st_mtime_ns if is_folder else ABSENT}"


def _entries(read: object, kind: str) -> Iterator[tuple[str, object]]:
    """Give the names of a document with what it says of each; RefusedError where it has none."""
    named = read.get(kind) if isinstance(read, dict) else None
    pairs = named.items() if isinstance(named, dict) else ((name, None) for name in named or ())
    count = len(named) if isinstance(named, (dict, list)) else MOST_NAMES + 1
    if count > MOST_NAMES or not isinstance(named, dict if kind == "files" else list):
        raise RefusedError(
            "The measurement cannot be used",
            "It does not say which files were read.",
            "The static tier answers without running the script.",
        )
    for name, said in pairs:
        if isinstance(name, str):
            yield name, said


def _is_same(said: object, now: str) -> bool:
    """Tell whether a file is what a measured process says that it read."""
    if said is None or now == ABSENT:
        return said is None and now == ABSENT
    if not isinstance(said, list) or len(said) != 2:
        return False
    kind, size, mark = now.split(" ")
    return said == [int(size), mark if kind == "sha256" else ""]


def _is_old(path: Path, now: str, since_ns: int) -> bool:
    """Return True if what is not identified by its content was last changed before a time."""
    return now.startswith("sha256") or ABSENT in now or _changed_ns(path) < since_ns


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _require(same: bool, name: str) -> None:
    if not same:
        raise RefusedError(
            "The script changed while it was measured",
            msg("{value} is no longer what was measured.", value=clean(name, 200)),
            "Measure it again.",
        )

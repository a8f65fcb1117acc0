"""Which files of the project a run read: its answer holds while these are as they were.

What a script opens or imports is heard by an audit hook, however it came by the name; files that
are opened outside of Python (by an extension) are not heard. A file that was looked for and is not
there counts too. What belongs to the installation or to a tool is no file of the project.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from typing import TYPE_CHECKING

from . import project_copy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from types import FrameType

    from ..documents import Read, Request, Run

MOST = 4000
"""Files, and folders that were listed; of a large data set the first ones."""
HASHED_BYTES = 2**16
"""The largest file that is identified by its content; a larger one by its size."""
APART = {*project_copy.APART, "site-packages", "dist-packages"}


class Reads:
    """What is read from now on."""

    def __init__(self, request: Request) -> None:
        self.root = os.path.join(os.path.abspath(request["root"]), "")
        self.source = os.path.join(request.get("source") or self.root, "")
        self.others = [
            os.path.join(folder, "") for folder in request.get("path", ()) if os.path.isabs(folder)
        ]
        self.files: dict[str, None] = {}
        self.folders: dict[str, None] = {}
        self.done = False

    def heard(self, event: str, args: tuple[object, ...]) -> None:
        """Something is about to be opened or listed."""
        if self.done or event not in ("open", "os.listdir", "os.scandir"):
            return
        path = args[0] if args[0] is not None else "."
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        if event != "open":
            if not _of_imports():
                self.note(self.folders, path)
        else:
            flags = args[2]
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_TRUNC):
                self.note(self.files, path)

    def note(self, names: dict[str, None], path: str | bytes | PathLike[str]) -> None:
        """Remember a path by its name in the project."""
        name = self.name_of(os.path.abspath(os.fsdecode(path)))
        if name is not None and len(names) < MOST:
            names[name] = None

    def name_of(self, path: str) -> str | None:
        """Return a path as it is named in the project, in full below other folders that modules
        are found in; None for any other."""
        for folder in (self.root, self.source, *self.others):
            if os.path.join(path, "").startswith(folder):
                name = os.path.relpath(path, folder)
                if APART.intersection(name.split(os.sep)):
                    return None
                return path if folder in self.others else name
        return None

    def told(self) -> Read:
        """Return the files with size and digest, null for one that is not there, and folders."""
        self.done = True
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str):
                self.note(self.files, file)
        files = {name: _told(os.path.join(self.source, name)) for name in self.files}
        return {"files": files, "folders": list(self.folders)}


def _told(path: str) -> list[int | str] | None:
    """Return size and digest of a file; None where there is none that can be read."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > HASHED_BYTES:
            return [status.st_size, ""]
        with open(path, "rb") as file:
            return [status.st_size, hashlib.sha256(file.read()).hexdigest()]
    except OSError:
        return None


def _of_imports() -> bool:
    """Tell whether it is the search for a module that lists a folder."""
    frame: FrameType | None = sys._getframe(2)
    return frame is not None and "importlib" in frame.f_code.co_filename


def united(runs: Sequence[Run]) -> Read:
    """Take what several runs read out of them; return it as one."""
    files: dict[str, list[int | str] | None] = {}
    folders: dict[str, None] = {}
    for run in runs:
        read = run.pop("read", None)
        if read:
            files.update(read["files"])
            folders.update(dict.fromkeys(read["folders"]))
    return {"files": files, "folders": list(folders)}

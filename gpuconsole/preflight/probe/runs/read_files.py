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
from typing import TYPE_CHECKING, Any

from . import project_copy

if TYPE_CHECKING:
    from os import PathLike

    from ..documents import Request

MOST = 4000
"""Files, and folders that were listed; of a large data set the first ones."""
HASHED_BYTES = 2**16
"""The largest file that is told by its content; a larger one by its size."""
APART = {*project_copy.APART, "site-packages", "dist-packages"}


class Reads:
    """What is read from now on."""

    def __init__(self, request: Request) -> None:
        self.root = os.path.join(os.path.abspath(request["root"]), "")
        self.source = os.path.join(request.get("source") or self.root, "")
        self.others = [
            os.path.join(one, "") for one in request.get("path", ()) if os.path.isabs(one)
        ]
        self.files: dict[Any, Any] = {}
        self.folders: dict[Any, Any] = {}
        self.done = False

    def heard(self, event: object, args: Any) -> None:
        """Something is about to be opened or listed."""
        if self.done or event not in ("open", "os.listdir", "os.scandir"):
            return
        path = args[0] if args[0] is not None else "."
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        if event != "open":
            if not _of_imports():
                self.note(self.folders, path)
        elif not isinstance(args[2], int) or not args[2] & (os.O_WRONLY | os.O_TRUNC):
            self.note(self.files, path)

    def note(self, found: dict[str, None], path: Any) -> None:
        """Remember a path by its name in the project."""
        name = self.name_of(os.path.abspath(os.fsdecode(path)))
        if name is not None and len(found) < MOST:
            found[name] = None

    def name_of(self, path: str | PathLike[str]) -> Any:
        """Return a path as it is named in the project, in full below other folders that modules
        are found in; None for any other."""
        for folder in (self.root, self.source, *self.others):
            if os.path.join(path, "").startswith(folder):
                name = os.path.relpath(path, folder)
                if APART.intersection(name.split(os.sep)):
                    return None
                return path if folder in self.others else name
        return None

    def told(self) -> Any:
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
    frame: Any = sys._getframe(2)
    return frame is not None and "importlib" in frame.f_code.co_filename


def united(runs: Any) -> Any:
    """Take what several runs read out of them; return it as one."""
    files: dict[Any, Any] = {}
    folders: dict[Any, Any] = {}
    for one in runs:
        read = one.pop("read", None) or {}
        files.update(read.get("files", {}))
        folders.update(dict.fromkeys(read.get("folders", ())))
    return {"files": files, "folders": list(folders)}

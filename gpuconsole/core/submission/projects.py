"""Which folder a script belongs to: the one that travels with it, and is read with it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

PROJECT_MARKS = (".git", "pyproject.toml", ".gpuconsoleignore")
_SCRIPT_LIMIT = 2**20
_LONGEST_NAME = 255
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<of>\w[\w.]*)[ \t]+import\b|import[ \t]+(?P<names>[\w., \t]+))", re.M
)
_SYSTEM = frozenset(
    Path(name)
    for name in (
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/opt"),
        *("/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local"),
        *("/var", "/var/lib", "/var/tmp", "/Users", "/Volumes", "/private/tmp"),
    )
)


def project_of(script: Path, args: Sequence[str] = (), cwd: Path | None = None) -> Path | None:
    """Return the folder to ship with a script, or None when it must travel alone.

    That is the nearest folder above it with a sign of a project; else the working folder `cwd`,
    where that is above the script and has what its arguments name or it imports; else its own
    folder. A folder that belongs to more than one project (a home, `/`, `/tmp`) is never shipped.
    """
    script = script.resolve()
    folder = script.parent
    for candidate in (folder, *folder.parents):
        if is_too_wide(candidate):
            break
        if any((candidate / mark).exists() for mark in PROJECT_MARKS):
            return candidate
    if cwd is not None and cwd.resolve() in folder.parents and not is_too_wide(cwd.resolve()):
        wanted = (*(word.rpartition("=")[2] for word in args), *_imported(script))
        if any(_is_from(cwd.resolve(), folder, name) for name in wanted):
            return cwd.resolve()
    return None if is_too_wide(folder) else folder


def start_folder(root: Path, folder: str | None, cwd: Path) -> str:
    """Return the folder of a project in which a script starts, relative to it and "" for the
    project itself: `folder` where it is known, else the user's working folder `cwd`."""
    if folder is not None:
        return folder
    here, top = cwd.resolve(), root.resolve()
    inside = here.relative_to(top) if here.is_relative_to(top) else Path()
    return "" if inside == Path() else inside.as_posix()


def _is_from(cwd: Path, folder: Path, name: str) -> bool:
    """Tell whether a name is of something in the working folder, and of nothing beside a script."""
    if not name or os.path.isabs(name) or ".." in Path(name).parts or len(name) > _LONGEST_NAME:
        return False
    return os.path.lexists(cwd / name) and not os.path.lexists(folder / name)


def _imported(script: Path) -> Iterator[str]:
    """Give the files and folders that the modules which a script imports could be.

    Its lines are looked at, and no more: the parser can be made to hold or to end the process that
    calls it, and this one is the console's.
    """
    try:
        with open(script, "rb") as file:
            text = file.read(_SCRIPT_LIMIT).decode("utf-8", "replace")
    except OSError:
        return
    for line in _IMPORT.finditer(text):
        for name in (line["of"] or line["names"]).split(","):
            first = name.strip().partition(" ")[0].partition(".")[0]
            yield from (first, f"{first}.py")


def is_too_wide(folder: Path) -> bool:
    """Tell whether a folder holds more than one project: a home, one above it, the system's."""
    home = Path(os.path.realpath(Path.home()))
    above_home = home.is_relative_to(folder)
    return above_home or folder in _SYSTEM or folder.parent in (Path("/home"), Path("/Users"))

"""What a sandboxed process sees of this machine's files: a view built from nothing.

Only what is named here is there: the system's programs and libraries, the Python that runs it, the
files that the caller names, and one folder to write to.
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuconsole.core.util.lazy_dataclass import dataclass

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_CONFIGURATION = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
"""Of /etc: where libraries are, and what time it is here."""
_STORES = ("/nix/store", "/gnu/store")
"""Where some systems have all that /usr has elsewhere."""
_SHARED = ("/", "/home", "/root", "/tmp", "/run", "/var", "/var/tmp", "/mnt", "/media", "/srv",
           "/opt", "/etc", "/dev/shm")  # fmt: skip
_MOST_PTH = 64 * 1024
SOURCE = Path("/gpuconsole-project")
"""Where a project is seen that has a folder to write to in its own place."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """Replaces a project: the process sees an empty, writable folder, which is removed with it."""

    root: Path
    shown: tuple[Path, ...]
    """What of it is seen at `SOURCE`: the root itself, or files below it."""
    outside: tuple[Path, ...] = ()
    """Other folders that are empty and written to, in order; together as large as the first."""


def is_shared(folder: Path) -> bool:
    """Tell whether a folder is no project of its own: a home, a folder above one, a hidden folder
    of one, or a place where everyone writes. Of these no process is shown all."""
    folder, home = folder.resolve(), Path.home().resolve()
    if _holds_homes(folder):
        return True
    if folder.is_relative_to(home) and folder.relative_to(home).parts[0].startswith("."):
        return True
    return bool(folder.stat().st_mode & stat.S_IWOTH)


def _holds_homes(folder: Path) -> bool:
    """Tell whether a folder is a home, or one in which other people's things are too."""
    return str(folder) in _SHARED or Path.home().resolve().is_relative_to(folder)


def view(
    readable: Sequence[Path],
    scratch: Path,
    overlay: Overlay | None = None,
    *,
    size_mib: int = 1024,
) -> list[str]:
    """Return the arguments by which bubblewrap builds the view.

    All that can be written to is in memory, `size_mib` for each of the folders, and goes with the
    process: the scratch folder, /dev/shm and the project's place.
    """
    options: list[str] = []
    for name in (*_SYSTEM, *(f"/etc/{name_}" for name_ in _CONFIGURATION), *_STORES):
        path = Path(name)
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), name]
        elif path.exists():
            options += ["--ro-bind", name, name]
    if overlay is not None:
        each = size_mib // max(1, len(overlay.outside))
        for path in overlay.outside:
            options += _in_memory(path, each)
        options += _in_place_of(overlay, size_mib)
    shown = {*_interpreter(), *(path.resolve() for path in readable)}
    for path in sorted(shown):
        options += ["--ro-bind", str(path), str(path)]
    return [
        *options, "--proc", "/proc", "--dev", "/dev", *_in_memory(scratch, size_mib),
        *_in_memory(Path("/dev/shm"), size_mib), "--remount-ro", "/dev", "--remount-ro", "/",
        "--chdir", str(scratch),
    ]  # fmt: skip


def _in_memory(folder: Path, size_mib: int) -> tuple[str, ...]:
    return ("--size", str(size_mib * 2**20), "--tmpfs", str(folder))


def _in_place_of(overlay: Overlay, size_mib: int) -> Iterator[str]:
    """Give the arguments for a project's place and for the project itself."""
    root = overlay.root.resolve()
    yield from _in_memory(root, size_mib)
    for path in sorted(overlay.shown):
        yield from ("--ro-bind", str(path), str(SOURCE / path.resolve().relative_to(root)))


def _interpreter() -> Iterator[Path]:
    """Give the folders of the Python that runs this, and of the libraries installed for it."""
    libraries = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    own = [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.realpath(sys.base_prefix)]
    for path in (*map(Path, own), *libraries, *_linked(libraries)):
        if path.is_dir() and not path.is_relative_to("/usr") and not _holds_homes(path.resolve()):
            yield path


def _linked(libraries: Sequence[Path]) -> Iterator[Path]:
    """Give the folders that `.pth` files add to libraries, such as of packages in development."""
    for folder in libraries:
        for file in sorted(folder.glob("*.pth")):
            with open(file, "rb") as opened:
                lines = opened.read(_MOST_PTH).decode("utf-8", "replace").splitlines()
            yield from (Path(line.strip()) for line in lines if line.startswith("/"))

"""Folders outside of a project that its files name: data lies there on the machine it was written
for, and on none other.

A sandbox shows nothing of these places. It has empty folders instead, so that a measured script
finds there what is made up for it, as it does inside of its project.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST_FOLDERS = 16
MOST_FILES = 500
MOST_ENTRIES = 20_000
_LONGEST_FILE = 64 * 1024
"""Bytes that are read of a file."""
_SUFFIXES = (".py", ".yml", ".yaml", ".json", ".sh", ".txt", ".cfg", ".ini", ".toml")
_NAMED = re.compile(r"(?<![\w./:~-])/([A-Za-z0-9][\w-]*)/[\w.]")
"""The first folder of a path from the root on."""
_SYSTEM = {"bin", "boot", "dev", "etc", "gnu", "gpuconsole-project", "lib", "lib32", "lib64",
           "libx32", "nix", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}  # fmt: skip


def named_outside(shown: Sequence[Path], root: Path, args: Sequence[str]) -> tuple[Path, ...]:
    """Return the folder that `root` lies in, and the folders of `/` that are named in the files
    `shown` of a project (or below them) or on the command line; none of the system's."""
    read = map(_text, itertools.islice(_files(shown), MOST_FILES))
    texts = itertools.chain([" ".join(args)], read)
    names = (name for text in texts for name in _NAMED.findall(text) if name not in _SYSTEM)
    first = itertools.islice(dict.fromkeys(names), MOST_FOLDERS)
    folders = [Path("/", name) for name in first]
    parent = root.parent
    if len(parent.parts) > 1 and parent.parts[1] not in _SYSTEM - {"tmp"}:
        folders.append(parent)
    # A folder comes before those in it.
    return tuple(sorted(dict.fromkeys(folders)))


def _files(shown: Sequence[Path]) -> Iterator[Path]:
    left = MOST_ENTRIES
    for place in shown:
        if place.is_file():
            yield place
        for folder, folders, files in os.walk(place):
            left -= len(folders) + len(files)
            if left < 0:
                return
            folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
            yield from (Path(folder, file) for file in sorted(files) if file.endswith(_SUFFIXES))


def _text(file: Path) -> str:
    try:
        # A pipe, say, would be waited for.
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                return ""
            return opened.read(_LONGEST_FILE).decode("utf-8", "replace")
    except OSError:
        return ""

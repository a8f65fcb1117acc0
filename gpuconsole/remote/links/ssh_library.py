"""asyncssh, imported without the dozen processes that it starts to look for optional libraries.

It asks `ctypes.util.find_library` for liboqs and nettle. That asks ldconfig, and where the library
is not installed the compiler and the linker too: a tenth of a second at each start of a console.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
from pathlib import Path

CACHE = Path("/etc/ld.so.cache")
"""What the loader of glibc has of libraries; ldconfig writes and prints it."""
_find_library = ctypes.util.find_library


def installed(name: str) -> str | None:
    """Return the file name of an installed library that can be loaded, as `find_library` does.

    Asks the loader's cache; `find_library` itself where there is none, and where a variable names
    further folders.
    """
    try:
        cache = CACHE.read_bytes()
    except OSError:
        return _find_library(name)
    if os.environ.get("LD_LIBRARY_PATH"):
        return _find_library(name)
    for file in re.findall(rb"[\0/](lib%s\.so[^\0/]*)(?=\0)" % re.escape(name.encode()), cache):
        library: str = file.decode("ascii", "replace")
        try:
            ctypes.CDLL(library)
        except OSError:  # of another kind of processor
            continue
        return library
    return None


ctypes.util.find_library = installed
try:
    import asyncssh
finally:
    ctypes.util.find_library = _find_library

__all__ = ["asyncssh"]

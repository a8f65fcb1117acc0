"""Commands in an inventory: they run on this machine, so nobody else may have written them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.documents import Document
from gpuconsole.errors import DocumentError

if TYPE_CHECKING:
    from gpuconsole.remote.inventory import HostSection, InventorySection

KEYS = ("wake", "sleep")


def require_safe(document: Document[InventorySection], path: Path) -> None:
    """Raise DocumentError where an inventory has commands and somebody else could change them.

    The file, and the folder it lies in, must belong to this user or to root and be writable by
    nobody else. Without commands anybody may write it, as before.
    """
    for index, host in enumerate(document.value.hosts):
        key = next((key for key in KEYS if getattr(host, key)), None)
        if key is None:
            continue
        fault = _fault(path)
        if fault:
            raise document.error(
                ("hosts", index, key),
                f"{host.name} has a command, and {fault}",
                "Whoever can change it could run commands as you:"
                f" chown it to yourself and chmod go-w {path} {path.parent}",
            )
        return


def check(document: Document[InventorySection], index: int, host: HostSection) -> None:
    """Raise DocumentError for keys of elastic hosts that make no sense together."""
    if host.sleep and not host.wake:
        raise _wrong(document, index, "sleep", f"{host.name} could not be woken again", "wake")
    if host.elastic is not None and not host.wake:
        raise _wrong(document, index, "elastic", f"{host.name} cannot be woken", "wake")
    if host.wake and (host.local or host.engine == "slurm"):
        what = "this machine" if host.local else "a cluster, which wakes its own nodes"
        raise document.error(
            ("hosts", index, "wake"), f"{host.name} is {what}", "Remove `wake` and `sleep`."
        )


def _wrong(
    document: Document[InventorySection], index: int, key: str, what: str, missing: str
) -> DocumentError:
    return document.error(("hosts", index, key), f"{what}: it has no `{missing}`", "Add it.")


def _fault(path: Path) -> str:
    """Return what lets others change a file, or ""."""
    real = path.resolve()
    for place, what in ((real, "the inventory"), (real.parent, "the inventory's folder")):
        try:
            found = place.stat()
        except OSError as error:
            return f"{what} cannot be looked at: {error.strerror}"
        if found.st_uid not in (os.geteuid(), 0):
            return f"{what} belongs to somebody else"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"{what} is writable by others"
    return ""

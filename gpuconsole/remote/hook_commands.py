"""Commands of an inventory that wake hosts and put them to sleep: what makes sense together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconsole.errors import DocumentError
from gpuconsole.yamldoc import Document

if TYPE_CHECKING:
    from gpuconsole.remote.inventory import HostSection, InventorySection


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

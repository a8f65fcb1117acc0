"""Readers of other vendors' tools: text that a tool printed, to devices. Pure, on the console's
side.

The host only runs argument lists that it receives and sends what they printed. Reading that here
keeps what runs on the host small and the same for all vendors, lets a host without Python be read
by a loop of the shell, and puts nine formats that change with every driver where types, tests and
the rules for hostile text are. What a table does not say is unknown, never 0; what cannot be read
is said with its reason, and costs only itself.

Packages may add readers of further tools by entry points (docs/extensions.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import get_args

from gpuconsole.core.fleet import Backend
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.extensions import VENDORS as ENTRY_POINTS
from gpuconsole.extensions import extensions
from gpuconsole.remote.vendors import (
    amd,
    ascend,
    cambricon,
    enflame,
    iluvatar,
    kunlunxin,
    metax,
    moorethreads,
    rocm,
)
from gpuconsole.remote.vendors.model import Family, Vendor, VendorReader

VENDORS = (
    ascend.VENDOR,
    kunlunxin.VENDOR,
    rocm.VENDOR,
    amd.VENDOR,
    cambricon.VENDOR,
    metax.VENDOR,
    iluvatar.VENDOR,
    moorethreads.VENDOR,
    enflame.VENDOR,
)
FAMILIES = (
    ascend.FAMILY,
    kunlunxin.FAMILY,
    rocm.FAMILY,
    cambricon.FAMILY,
    metax.FAMILY,
    iluvatar.FAMILY,
    moorethreads.FAMILY,
    enflame.FAMILY,
)


@dataclass(frozen=True, slots=True)
class Readers:
    """All that can be read: what is built in, and what packages add."""

    vendors: tuple[Vendor, ...]
    families: Mapping[str, Family]
    """By name, in the order in which a host is asked."""
    faults: tuple[str, ...] = ()
    """Why readers of packages were left out."""


@lru_cache(maxsize=1)
def readers() -> Readers:
    """Return the readers of this process."""
    added = extensions(ENTRY_POINTS, VendorReader)
    vendors = {vendor.name: vendor for vendor in VENDORS}
    families = {family.name: family for family in FAMILIES}
    faults = list(added.faults)
    for each in added.loaded:
        reader = each.value
        if reader.vendor.backend not in get_args(Backend):
            faults.append(
                msg("{name} of {package} was left out: {backend} is no kind of device",
                    name=each.name, package=each.package, backend=reader.vendor.backend)
            )  # fmt: skip
            continue
        vendors.setdefault(reader.vendor.name, reader.vendor)
        families[reader.family.name] = reader.family
    return Readers(tuple(vendors.values()), families, tuple(faults))

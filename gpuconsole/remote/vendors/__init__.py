"""Readers of other vendors' tools: text that a tool printed, to devices. Pure, on the console's
side.

The host only runs argument lists that it receives and sends what they printed. Reading that here
keeps what runs on the host small and the same for all vendors, lets a host without Python be read
by a loop of the shell, and puts nine formats that change with every driver where types, tests and
the rules for hostile text are. What a table does not say is unknown, never 0; what cannot be read
is said with its reason, and costs only itself.
"""

from __future__ import annotations

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
BY_NAME = {family.name: family for family in FAMILIES}

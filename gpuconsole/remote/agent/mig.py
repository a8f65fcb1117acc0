"""MIG instances of a device: which there are, and what they are called."""

import re
from typing import Any, Dict, List, Optional, Tuple

import pynvml

from gpuconsole.remote.agent.nvml_device import call
from gpuconsole.remote.agent.watchdog import LostError, UnsupportedError

_PROFILE = re.compile(r"\bMIG (\S+)")
FAULTS = (pynvml.NVMLError, LostError, UnsupportedError)
Instance = Tuple[object, Optional[int], Dict[str, object]]
"""A handle, the number of its GPU instance on the device, and what does not change."""


def handles(device: object) -> List[object]:
    """Return the handles of a device's MIG instances; none where it is not divided."""
    try:
        if call("nvmlDeviceGetMigMode", device)[0] != 1:
            return []
        most = int(call("nvmlDeviceGetMaxMigDeviceCount", device))
    except FAULTS:
        return []
    parts = []
    # Places stay empty in between.
    for place in range(most):
        try:
            parts.append(call("nvmlDeviceGetMigDeviceHandleByIndex", device, place))
        except FAULTS:
            continue
    return parts


def uuids(device: object) -> List[str]:
    """Return the UUIDs of a device's MIG instances."""
    uuids_found = []
    for handle in handles(device):
        try:
            uuids_found.append(text(call("nvmlDeviceGetUUID", handle)))
        except FAULTS:
            continue
    return uuids_found


def instances(device: object, parent: Dict[str, Any]) -> List[Instance]:
    """Return a device's MIG instances; `parent` is what does not change of the device."""
    parts = []
    for handle in handles(device):
        # As in `uuids`: what has one is listed, or the two would never agree.
        try:
            uuid = text(call("nvmlDeviceGetUUID", handle))
        except FAULTS:
            continue
        try:
            name = text(call("nvmlDeviceGetName", handle))
        except FAULTS:
            name = parent["n"]
        profile = _profile(name, handle)
        if profile and not _PROFILE.search(name):
            # By its name it is known how much of the device it is.
            name = "%s MIG %s" % (name, profile)
        static = dict(parent, u=uuid, n=name, P=parent["u"], g=profile)
        parts.append((handle, _number(handle), static))
    return parts


def _profile(name: str, handle: object) -> str:
    written = _PROFILE.search(name)
    if written:
        return written.group(1)
    try:
        facts = call("nvmlDeviceGetAttributes_v2", handle)
    except FAULTS:
        return ""
    return "%dg.%dgb" % (facts.gpuInstanceSliceCount, round(facts.memorySizeMB / 1024.0))


def _number(handle: object) -> Optional[int]:
    try:
        return int(call("nvmlDeviceGetGpuInstanceId", handle))
    except FAULTS:
        return None


def text(value: object) -> str:
    """Return NVML's bytes or text as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

"""How a container is given its devices and nothing else, per kind of device.

NVIDIA's toolkit adds the device nodes itself when asked by UUID. The other makers' devices are
handed over as nodes, driver folders and groups, or by a runtime of theirs: see `core.vendors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gpuconsole.core.containers import LABEL_PREFIX, ContainerSpec
from gpuconsole.core.devices.device_sharing import share_label
from gpuconsole.core.jobs import Mount
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.vendors import Vendor, vendor_of

NO_DEVICE = "void"
"""The NVIDIA toolkit's word for "none": an image may say `all`, and a host with NVIDIA's runtime as
the default would then expose every GPU."""

DEVICES_LABEL = LABEL_PREFIX + "devices"
"""On a job's container: the UUIDs handed to it, with commas between. A console that claims a
device sees by it that the device is in use, even where its lease was swept away."""

SHARE_LABEL = LABEL_PREFIX + "share"
"""On a lease and on a job's container: what it takes of the device where it shares it."""


@dataclass(frozen=True, slots=True)
class Handover:
    """What a container needs to see its devices.

    `uuids` go to the NVIDIA toolkit; `nodes` are paths below /dev, the same inside and outside.
    """

    uuids: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    groups: tuple[str, ...] = ()
    security: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    runtime: str = ""
    privileged: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


def handover(spec: ContainerSpec) -> Handover:
    """Return what this container's devices need; nothing for a job without devices.

    ValueError for a kind of device that is not known.
    """
    if not spec.device_uuids or spec.backend == "cpu":
        return Handover(env={"NVIDIA_VISIBLE_DEVICES": NO_DEVICE})
    if spec.backend == "gpu":
        visible = ",".join(spec.device_uuids)
        return Handover(
            uuids=spec.device_uuids,
            env={"NVIDIA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        )
    return _handed(spec, vendor_of(spec.backend, spec.vendor))


def _handed(spec: ContainerSpec, vendor: Vendor) -> Handover:
    numbers = ",".join(str(index) for index in spec.device_indexes)
    env = {"NVIDIA_VISIBLE_DEVICES": NO_DEVICE}
    env.update({name: numbers for name in (vendor.selects, vendor.visible) if name})
    if vendor.runtime and spec.runtime == vendor.runtime:
        # It adds nodes and driver by itself; given twice, they would be in each other's way.
        return Handover(runtime=spec.runtime, env=env)
    each = (node.format(index) for index in spec.device_indexes for node in vendor.nodes)
    mounts = (*vendor.mounts, *(vendor.network_mounts if spec.network == "host" else ()))
    groups = vendor.groups if spec.node_groups is None else map(str, spec.node_groups)
    return Handover(
        nodes=() if vendor.privileged else (*each, *vendor.shared),
        mounts=tuple(Mount(path, path) for path in mounts),
        groups=tuple(groups),
        security=vendor.security,
        capabilities=vendor.capabilities,
        privileged=vendor.privileged,
        env=env,
    )


def environment(spec: ContainerSpec) -> dict[str, str]:
    """Return all variables that the container starts with.

    The user of the container has no entry in the image's passwd, so HOME would be `/`, where
    nothing can be written; output is unbuffered so that a log is live. The task's own variables
    win over both, but never over those that decide which devices are seen.
    """
    defaults = {"HOME": spec.working_dir, "PYTHONUNBUFFERED": "1"}
    return {**defaults, **spec.secrets, **spec.env, **handover(spec).env}


def container_labels(spec: ContainerSpec) -> dict[str, str]:
    """Return all labels of the container: the spec's own, and the devices handed to it."""
    devices = {DEVICES_LABEL: ",".join(spec.device_uuids)} if spec.device_uuids else {}
    share = {} if spec.share is None else {SHARE_LABEL: share_label(spec.share)}
    return {**spec.labels, **devices, **share}

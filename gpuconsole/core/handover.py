"""How a container is given its devices and nothing else, per kind of device.

NVIDIA's toolkit adds the device nodes itself when asked by UUID. The other vendors' devices are
handed over as nodes, driver folders and groups, as their container guides and Paddle's own
installation pages name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuconsole.core.containers import LABEL_PREFIX, ContainerSpec
from gpuconsole.core.jobs import Mount
from gpuconsole.core.sharing import share_label

NO_DEVICE = "void"
"""The NVIDIA toolkit's word for "none": an image may say `all`, and a host whose default runtime
is NVIDIA's would then hand over every card."""

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
    makers = {"npu": _ascend, "xpu": _kunlunxin, "dcu": _hygon}
    if spec.backend not in makers:
        raise ValueError(f"unknown kind of device: {spec.backend}")
    return makers[spec.backend](spec.device_indexes)


def environment(spec: ContainerSpec) -> dict[str, str]:
    """Return all variables that the container starts with.

    The user of the container has no entry in the image's passwd, so HOME would be `/`, where
    nothing can be written; output is unbuffered so that a log is live. The task's own variables
    win over both, but never over those that decide which devices are seen.
    """
    defaults = {"HOME": spec.working_dir, "PYTHONUNBUFFERED": "1"}
    return {**defaults, **spec.env, **handover(spec).env}


def container_labels(spec: ContainerSpec) -> dict[str, str]:
    """Return all labels of the container: the spec's own, and the devices handed to it."""
    devices = {DEVICES_LABEL: ",".join(spec.device_uuids)} if spec.device_uuids else {}
    share = {} if spec.share is None else {SHARE_LABEL: share_label(spec.share)}
    return {**spec.labels, **devices, **share}


def _ascend(indexes: tuple[int, ...]) -> Handover:
    # N of /dev/davinciN is the physical id; inside, the framework counts from 0 again.
    return Handover(
        nodes=(
            *(f"/dev/davinci{index}" for index in indexes),
            "/dev/davinci_manager",
            "/dev/devmm_svm",
            "/dev/hisi_hdc",
        ),
        mounts=_same_inside(
            "/usr/local/Ascend/driver",
            "/usr/local/dcmi",
            "/usr/local/bin/npu-smi",
            "/etc/ascend_install.info",
        ),
        env={"NVIDIA_VISIBLE_DEVICES": NO_DEVICE, "ASCEND_VISIBLE_DEVICES": _listed(indexes)},
    )


def _kunlunxin(indexes: tuple[int, ...]) -> Handover:
    return Handover(
        nodes=(*(f"/dev/xpu{index}" for index in indexes), "/dev/xpuctrl"),
        env={"NVIDIA_VISIBLE_DEVICES": NO_DEVICE},
    )


def _hygon(indexes: tuple[int, ...]) -> Handover:
    # Render nodes are numbered with other display devices among them, so the whole folder is
    # handed over and the variable chooses: cooperation, not a wall.
    return Handover(
        nodes=("/dev/kfd", "/dev/mkfd", "/dev/dri"),
        mounts=_same_inside("/opt/hyhal"),
        groups=("video",),
        security=("seccomp=unconfined",),
        env={"NVIDIA_VISIBLE_DEVICES": NO_DEVICE, "HIP_VISIBLE_DEVICES": _listed(indexes)},
    )


def _same_inside(*paths: str) -> tuple[Mount, ...]:
    return tuple(Mount(path, path) for path in paths)


def _listed(indexes: tuple[int, ...]) -> str:
    return ",".join(str(index) for index in indexes)

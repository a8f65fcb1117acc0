"""What a container needs to see a maker's devices: nodes, folders, groups, runtime, variables.

One row a maker. The rows follow the makers' container guides and the installation pages of
PaddlePaddle (docs/hardware_support of PaddlePaddle/docs: npu, xpu, dcu, mlu, gcu, iluvatar_gpu),
without the `--privileged` of their lines where the nodes are known: such a container sees every
device of its host, whatever was asked for. Only NVIDIA's row has been run on the maker's hardware;
the others are made and started by a real engine with stand-in nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpuconsole.core.fleet import Backend
from gpuconsole.core.util.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Vendor:
    """A maker of devices, and how one of them is handed to a container."""

    name: str
    title: str
    backend: Backend
    nodes: tuple[str, ...] = ()
    """For each device, with `{}` for its number on the host."""
    shared: tuple[str, ...] = ()
    """Nodes, or folders of nodes, that every container with a device of it needs."""
    mounts: tuple[str, ...] = ()
    """Files and folders of the host's driver, the same inside, read-only."""
    network_mounts: tuple[str, ...] = ()
    """The same for a job on several hosts."""
    groups: tuple[str, ...] = ()
    """Who may open the nodes, by the usual names; a launch takes the host's own numbers."""
    security: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    runtime: str = ""
    """The engine's runtime by which the maker's toolkit adds all of these by itself."""
    selects: str = ""
    """The variable that selects devices in that runtime, by number on the host."""
    visible: str = ""
    """The variable by which programs inside keep to their devices, where more of them can be seen:
    cooperation, not a wall."""
    privileged: bool = False
    """Whether only a privileged container is known to work."""
    proven: bool = False
    """Whether a job has run in such a container on the maker's hardware."""


_ROWS = (
    Vendor("nvidia", "NVIDIA", "gpu", proven=True),
    Vendor(
        "ascend",
        "Huawei Ascend",
        "npu",
        # The number is the physical id; inside, the framework counts from 0 again.
        nodes=("/dev/davinci{}",),
        shared=("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
        mounts=(
            "/usr/local/Ascend/driver",
            "/usr/local/dcmi",
            "/usr/local/bin/npu-smi",
            "/etc/ascend_install.info",
        ),
        network_mounts=("/etc/hccn.conf",),
        runtime="ascend",
        selects="ASCEND_VISIBLE_DEVICES",
    ),
    Vendor(
        "kunlunxin",
        "Kunlunxin",
        "xpu",
        nodes=("/dev/xpu{}",),
        shared=("/dev/xpuctrl",),
    ),
    Vendor(
        "hygon",
        "Hygon",
        "dcu",
        # Render nodes are numbered with other display devices among them, so the whole folder is
        # handed over.
        shared=("/dev/kfd", "/dev/mkfd", "/dev/dri"),
        mounts=("/opt/hyhal",),
        groups=("video",),
        security=("seccomp=unconfined",),
        capabilities=("SYS_PTRACE",),
        visible="HIP_VISIBLE_DEVICES",
    ),
    Vendor(
        "amd",
        "AMD",
        "dcu",
        shared=("/dev/kfd", "/dev/dri"),
        groups=("video", "render"),
        security=("seccomp=unconfined",),
        # Not ROCR_VISIBLE_DEVICES beside it: the two would count twice.
        visible="HIP_VISIBLE_DEVICES",
    ),
    Vendor(
        "cambricon",
        "Cambricon",
        "mlu",
        nodes=("/dev/cambricon_dev{}",),
        shared=("/dev/cambricon_ctl",),
        mounts=("/usr/bin/cnmon",),
        selects="CAMBRICON_VISIBLE_DEVICES",
    ),
    Vendor(
        "enflame",
        "Enflame",
        "gcu",
        privileged=True,
        visible="TOPS_VISIBLE_DEVICES",
    ),
    Vendor(
        "iluvatar",
        "Iluvatar CoreX",
        "iluvatar_gpu",
        nodes=("/dev/iluvatar{}",),
        shared=("/dev/itrctl",),
        mounts=("/lib/modules", "/usr/src"),
        selects="IX_VISIBLE_DEVICES",
    ),
    Vendor(
        "metax",
        "MetaX",
        "metax_gpu",
        shared=("/dev/mxcd", "/dev/dri"),
        groups=("video",),
        visible="CUDA_VISIBLE_DEVICES",
    ),
    Vendor(
        "moorethreads",
        "Moore Threads",
        "musa",
        nodes=("/dev/mtgpu.{}",),
        shared=("/dev/dri",),
        mounts=("/usr/bin/mthreads-gmi",),
        groups=("video",),
        runtime="mthreads",
        selects="MTHREADS_VISIBLE_DEVICES",
    ),
)
VENDORS: Mapping[str, Vendor] = MappingProxyType({row.name: row for row in _ROWS})


def vendor_of(backend: str, name: str = "") -> Vendor:
    """Return the maker of a device; without its name the one that a back end is first known for.

    ValueError for a back end that no maker has.
    """
    named = VENDORS.get(name)
    if named is not None and named.backend == backend:
        return named
    row = next((row for row in _ROWS if row.backend == backend), None)
    if row is None:
        raise ValueError(f"unknown kind of device: {backend}")
    return row


def unproven(backend: str, name: str = "") -> str:
    """Return what has not been tried of such devices' containers, as a sentence; "" if nothing."""
    if backend == "cpu":
        return ""
    vendor = vendor_of(backend, name)
    return (
        ""
        if vendor.proven
        else f"Unproven: no job has run yet in such a container on {vendor.title} hardware."
    )

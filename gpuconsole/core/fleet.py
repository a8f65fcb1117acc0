"""The fleet as data: devices, hosts and an immutable picture of all of them.

A host's record is replaced whole by each frame, so `old.hosts[i] is new.hosts[i]` means that
nothing about that host changed: drawing costs O(change), not O(fleet). Sizes are MiB (2**20 bytes),
times are seconds since the epoch, `None` means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Literal

from gpuconsole.core.devices.host_faults import FaultStreak
from gpuconsole.core.util.lazy_dataclass import dataclass

Backend = Literal[
    "gpu", "npu", "xpu", "dcu", "mlu", "gcu", "iluvatar_gpu", "metax_gpu", "musa", "cpu"
]
"""Paddle's word for a kind of device: CUDA, Ascend, Kunlunxin, Hygon and AMD, Cambricon, Enflame,
Iluvatar, MetaX, none. `musa` (Moore Threads) is its maker's word: Paddle has no build for it."""


PENDING = "has not answered yet"
"""What an agent says of a driver or a tool that it has only just asked."""


class HostState(str, Enum):
    """How much the console knows about a host now."""

    CONNECTING = "connecting"
    UP = "up"
    STALE = "stale"
    """Data is overdue; the link is still up."""
    DOWN = "down"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """A process that holds memory on a device."""

    pid: int
    user: str = ""
    memory_mib: float | None = None
    command: str = ""
    """Cleaned: no control characters."""
    container_id: str = ""
    """Full container id, or "" when it runs outside a container."""


@dataclass(frozen=True, slots=True)
class PeerLink:
    """How a device reaches another on its host.

    `kind` uses the words of `nvidia-smi topo -m`: `NV<n>`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS`.
    """

    uuid: str
    kind: str


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator and its latest sample."""

    uuid: str
    index: int
    model: str
    backend: Backend = "gpu"
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    utilization: float | None = None
    """Percent of time with a kernel running, 0-100."""
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    throttle: tuple[str, ...] = ()
    """Reasons that slow it now, in words: `power-cap`, `hw-thermal`, `sw-thermal`,
    `power-brake`."""
    ecc_uncorrected: int | None = None
    retired_pages: int | None = None
    """Retired pages, or rows that were remapped to spare ones."""
    xid: int | None = None
    """The last XID seen since the agent started."""
    mig: bool = False
    pci_bus_id: str = ""
    numa_node: int | None = None
    peers: tuple[PeerLink, ...] = ()
    processes: tuple[DeviceProcess, ...] = ()
    lost: bool = False
    error: str = ""
    """Why the device or some of its fields cannot be read."""
    vendor: str = ""
    """Its vendor, as in `core.vendors`: `nvidia`, `ascend`, …; "" if unknown."""
    health: str = ""
    """What its own tool complains of, in words; "" when it complains of nothing."""
    ecc_corrected: int | None = None
    remap_pending: bool | None = None
    """Whether a bad row or page of its memory goes out of use only with the next reset."""
    remap_failed: bool | None = None
    """Whether a bad row found no spare one: the device needs repair."""
    clock_notes: tuple[str, ...] = ()
    """What else decides its clocks, and is no trouble: `application-clocks`, `sync-boost`,
    `display-clocks`."""
    energy_j: float | None = None
    """Joules since its driver was loaded."""
    nvlinks_up: int | None = None
    nvlinks_down: int | None = None
    nvlink_errors: int | None = None
    """Replays, recoveries and checksum errors of all its NVLinks."""
    parent_uuid: str = ""
    """Of a MIG instance: the device of which it is a part."""
    mig_profile: str = ""
    """Of a MIG instance: its profile, such as `1g.5gb`."""
    gres: str = ""
    """Of a device of a cluster: Slurm's name for its type, as in `gpu:a100`."""
    sampled_at: float | None = None
    """When it was read, on the console's clock, where that is not with its host's frame: a
    vendor's tool is a program, which runs seldom."""

    @property
    def divided(self) -> bool:
        """Whether only its MIG instances take jobs, not the device itself."""
        return self.mig and not self.parent_uuid and not self.uuid.startswith("MIG-")

    def age_s(self, now: float) -> float | None:
        """Seconds since it was read, where that is apart from its host's frame, else None."""
        return None if self.sampled_at is None else max(0.0, now - self.sampled_at)

    @property
    def memory_free_mib(self) -> float | None:
        """Memory that is not in use, or None when either figure is unknown."""
        if self.memory_total_mib is None or self.memory_used_mib is None:
            return None
        return max(0.0, self.memory_total_mib - self.memory_used_mib)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One reading of the host itself."""

    cpu_percent: float | None = None
    cpu_count: int | None = None
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    disk_total_mib: float | None = None
    disk_free_mib: float | None = None
    load_1m: float | None = None
    driver_version: str = ""
    runtime_version: str = ""
    """Highest CUDA (or vendor runtime) version that the driver supports."""
    kernel: str = ""
    numa_cpus: tuple[str, ...] = ()
    """Processors of each NUMA node by its number, as the kernel lists them: `0-15,32-47`."""
    source: str = ""
    """What produced the frame: `agent`, `nvidia-smi`, `simulated`."""


HOST_LABEL = "host"
"""The label by which a task asks for one host by its name."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host and what was last heard from it."""

    name: str
    state: HostState = HostState.CONNECTING
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    price_per_hour: float | None = None
    """Per device and hour, in the lab's own currency."""
    devices: tuple[Device, ...] = ()
    facts: HostFacts = HostFacts()
    sampled_at: float | None = None
    """When the host took the frame, on the console's clock."""
    error: str = ""
    """Why it is not up, for a person."""
    clock_skew_s: float | None = None
    engine_error: str = ""
    """Why its container engine could not be asked lately; the session, which asks, fills it in."""
    drained: str = ""
    """Why a person lets no new job start here, or ""; the session fills it in."""
    cluster: str = ""
    """The Slurm entry of the inventory that this is a node of, or is: Slurm alone places jobs
    there. "" for a host on which the console does."""
    power: str = ""
    """`asleep`, `waking` or `sleeping` (it is being put to sleep) of a host that the console may
    switch, with `error` or `drained` saying more; "" otherwise. The session fills it in."""
    interruptible: bool = False
    """Whether it may be taken away at any time, so that only jobs that resume may use it."""
    faults: tuple[FaultStreak, ...] = ()
    """Jobs that could not start on it lately, and whether it, or an image on it, is set aside; the
    session fills it in."""

    @property
    def aside(self) -> FaultStreak | None:
        """The faults for which the whole host was set aside, where it was."""
        streaks = (streak for streak in self.faults if streak.set_aside and not streak.image)
        return next(streaks, None)

    def has_labels(self, wanted: Mapping[str, str], unwanted: Mapping[str, str]) -> bool:
        """Return True if the host has all wanted labels and none of the unwanted ones. An unwanted
        value of "" matches any value. `host` is the host's name, unless a label is called so."""
        own = {HOST_LABEL: self.name, **self.labels}
        return all(own.get(key) == value for key, value in wanted.items()) and not any(
            key in self.labels and value in ("", self.labels[key])
            for key, value in unwanted.items()
        )

    @property
    def node(self) -> bool:
        """Whether it is a node of a cluster: reached through Slurm alone, without an engine."""
        return bool(self.cluster) and self.name != self.cluster

    @property
    def unsettled(self) -> bool:
        """Whether its driver, or a vendor's tool, was asked and may still tell of devices."""
        return PENDING in self.error

    def age_s(self, now: float) -> float | None:
        """Seconds since the last frame."""
        return None if self.sampled_at is None else max(0.0, now - self.sampled_at)


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """All hosts at one moment, in inventory order. Equal revisions mean equal content."""

    revision: int = 0
    taken_at: float = 0.0
    hosts: tuple[Host, ...] = ()
    simulated: bool = False

    def host(self, name: str) -> Host | None:
        """Return the host of that name."""
        return next((host for host in self.hosts if host.name == name), None)

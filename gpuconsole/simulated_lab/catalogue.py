"""Which hosts the simulated lab has: six named ones, then as many of the same kinds as asked for.

Capacities, power and temperatures are typical readings of the vendors' own tools, rounded.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from gpuconsole.core.fleet import Backend, PeerLink
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError


@dataclass(frozen=True, slots=True)
class Card:
    """A model of accelerator as its vendor's tool reports it."""

    model: str
    memory_mib: float
    backend: Backend = "gpu"
    idle_w: float = 30.0
    limit_w: float = 300.0
    idle_c: float = 32.0
    full_c: float = 72.0
    """Temperature after long full load in a well cooled host."""
    sm_clock_mhz: float = 1500.0
    memory_clock_mhz: float = 5000.0
    speed: float = 1.0
    """Training steps a second, relative to an RTX 3090."""
    baseline_mib: float = 4.0
    """What the driver itself holds."""
    vendor: str = "nvidia"
    prefix: str = "GPU"
    untold: tuple[str, ...] = ()
    """Fields of a device that its vendor's tool does not tell."""

    @property
    def by_tool(self) -> bool:
        """Whether a vendor's tool tells of it, which runs seldom, instead of NVML."""
        return self.vendor != "nvidia"


A100 = Card("NVIDIA A100-SXM4-40GB", 40960, "gpu", 54, 400, 30, 66, 1410, 1215, 2.4, 4)
V100 = Card("Tesla V100-PCIE-32GB", 32768, "gpu", 26, 250, 31, 74, 1380, 877, 1.3, 4)
RTX_3090 = Card("NVIDIA GeForce RTX 3090", 24576, "gpu", 22, 350, 34, 76, 1905, 9751, 1.0, 10)
_NO_COUNTERS = ("sm_clock_mhz", "memory_clock_mhz", "retired_pages")
ASCEND_910 = Card(
    "Ascend 910A", 32768, "npu", 65, 310, 38, 68, 1000, 1200, 1.6, 620,
    "ascend", "NPU", (*_NO_COUNTERS, "power_limit_w", "ecc_uncorrected"),
)  # fmt: skip
RTX_4090 = Card("NVIDIA GeForce RTX 4090", 24564, "gpu", 18, 450, 32, 70, 2520, 10501, 1.9, 12)
T4 = Card("Tesla T4", 15360, "gpu", 10, 70, 36, 78, 1590, 5001, 0.5, 3)
P800 = Card(
    "P800 OAM", 98304, "xpu", 85, 400, 38, 70, 1450, 2400, 1.8, 0,
    "kunlunxin", "XPU", _NO_COUNTERS,
)  # fmt: skip
K100_AI = Card(
    "DCU K100_AI", 65520, "dcu", 80, 400, 41, 72, 1300, 1800, 1.2, 2,
    "hygon", "DCU", (*_NO_COUNTERS, "power_limit_w", "ecc_uncorrected"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of host. `links` is how any two of its devices reach each other."""

    prefix: str
    card: Card
    count: int
    pool: str
    price_per_hour: float
    links: str
    cpu_count: int
    memory_gib: float
    driver: str
    runtime: str


_NVIDIA = ("550.127.05", "12.4")
KINDS = (
    Kind("a100", A100, 8, "train", 12.0, "all", 128, 1024, *_NVIDIA),
    Kind("v100", V100, 4, "train", 5.5, "pcie", 80, 384, "535.183.06", "12.2"),
    Kind("rtx3090", RTX_3090, 4, "dev", 2.1, "pairs", 64, 256, *_NVIDIA),
    Kind("ascend", ASCEND_910, 8, "train", 6.0, "quads", 192, 768, "23.0.3", "CANN 8.0"),
    Kind("rtx4090", RTX_4090, 2, "dev", 2.6, "pcie", 32, 128, *_NVIDIA),
    Kind("t4", T4, 4, "serve", 0.9, "pcie", 48, 192, "535.183.06", "12.2"),
)
MORE_KINDS = (
    Kind("p800", P800, 8, "train", 7.0, "pcie", 128, 1024, "5.0.21.26", "XPU-RT 5.0"),
    Kind("k100", K100_AI, 8, "train", 4.0, "pcie", 128, 512, "6.2.26", "DTK 24.04"),
)
"""Kinds that are met in larger labs only."""

# What each device of the named hosts does besides the queue's jobs; see `activity.shift_of`.
_NAMED_ROLES: tuple[tuple[str, ...], ...] = (
    ("train", "train", "leased", "free", "free", "free", "free", "free"),
    ("train", "starved", "free", "free"),
    ("notebook", "hot", "free", "free"),
    ("train", "train", "train", "train", "mixed", "free", "free", "free"),
    ("mixed", "free"),
    ("serve", "serve", "free", "free"),
)
_ROLES = ("free", "free", "free", "mixed", "mixed", "train", "train", "serve", "notebook")
_FLAKY_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class DeviceSite:
    """The place and the role of a device; nothing here changes with time."""

    uuid: str
    index: int
    card: Card
    role: str
    pci_bus_id: str
    numa_node: int
    peers: tuple[PeerLink, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """A host as the lab's inventory would describe it."""

    name: str
    address: str
    kind: Kind
    labels: Mapping[str, str]
    devices: tuple[DeviceSite, ...] = field(default=())
    flaky: bool = False
    """Whether it falls out of sight for a minute now and then."""
    outage_offset_s: float = 0.0
    full_disk: bool = False


def build_sites(hosts: int, seed: int) -> tuple[Site, ...]:
    """Return the lab's hosts; the first six are the same for every number of hosts.

    UsageError when `hosts` is not at least 1.
    """
    if hosts < 1:
        raise UsageError(
            "The lab cannot be opened",
            msg("It needs at least one host, not {hosts}.", hosts=hosts),
            "Ask for 6.",
        )
    return tuple(_site(number, random.Random(f"site:{seed}:{number}")) for number in range(hosts))


def _site(number: int, chance: random.Random) -> Site:
    every = (*KINDS, *MORE_KINDS)
    named = number < len(KINDS)
    kind = every[number % len(every)]
    roles = (
        _NAMED_ROLES[number] if named else tuple(chance.choice(_ROLES) for _ in range(kind.count))
    )
    rack = "r1" if number in (0, 1, 3) else "r2" if named else f"r{3 + number // 12}"
    name = f"{kind.prefix}-{1 + number // len(every):02d}"
    address = f"10.{20 + number // 62500}.{number // 250 % 250}.{11 + number % 250 % 240}"
    return replace(
        site_of(kind, name, address, rack, roles, chance),
        flaky=kind.prefix == "t4" if named else chance.random() < _FLAKY_SHARE,
        outage_offset_s=0.0 if named else chance.uniform(60.0, 400.0),
        full_disk=named and kind.prefix == "rtx4090",
    )


def site_of(
    kind: Kind, name: str, address: str, rack: str, roles: Sequence[str], chance: random.Random
) -> Site:
    """Return a host of a kind that is always in sight."""
    ids = _device_uuids(kind, chance)
    return Site(
        name=name,
        address=address,
        kind=kind,
        labels={"rack": rack, "pool": kind.pool},
        devices=tuple(
            DeviceSite(
                uuid=ids[index],
                index=index,
                card=kind.card,
                role=roles[index],
                pci_bus_id=_bus(index),
                numa_node=_numa(index, kind.count),
                peers=_peers(kind, ids, index),
            )
            for index in range(kind.count)
        ),
    )


def _device_uuids(kind: Kind, chance: random.Random) -> list[str]:
    """Return the devices' names: NVML has one for each, the other tools give an address only."""
    plain = [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(kind.count)]
    if not kind.card.by_tool:
        return [f"{kind.card.prefix}-{identity}" for identity in plain]
    buses = [_bus(index).replace(":", "-") for index in range(kind.count)]
    return [f"{kind.card.prefix}-{plain[0][:8]}-{bus}" for bus in buses]


def _bus(index: int) -> str:
    return f"00000000:{0x07 + 0x10 * index:02X}:00.0"


def _numa(index: int, count: int) -> int:
    return 0 if index < (count + 1) // 2 else 1


def _peers(kind: Kind, ids: list[str], index: int) -> tuple[PeerLink, ...]:
    return tuple(
        PeerLink(ids[other], _link(kind, index, other))
        for other in range(kind.count)
        if other != index
    )


def _link(kind: Kind, first: int, two: int) -> str:
    """Return the link of two devices in the words of `nvidia-smi topo -m`."""
    if kind.links == "all":
        return "NV12"
    if kind.links == "pairs" and first // 2 == two // 2:
        return "NV4"
    # Ascend's own links join four devices; the console's words have no other name for a fast link.
    if kind.links == "quads" and first // 4 == two // 4:
        return "NV1"
    return "PHB" if _numa(first, kind.count) == _numa(two, kind.count) else "SYS"

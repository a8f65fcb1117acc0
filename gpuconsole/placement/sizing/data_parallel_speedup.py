"""How much faster several devices train than one, before anybody has tried: data parallel steps.

Each device computes its own batch, of the same size as one device alone would, and all of them add
up their gradients. The sum begins with the backward pass, which is about two thirds of a step, and
runs beside it (Paddle's `DataParallel` sends gradients in buckets as they become ready):

    step = compute / 3 + max(2 / 3 compute, all-reduce)

A ring moves 2 (k - 1) / k of the gradients over its slowest link, in 2 (k - 1) hops a bucket.
"""

from __future__ import annotations

import math
import re

from gpuconsole.core.util.lazy_dataclass import dataclass

BACKWARD_SHARE = 2.0 / 3.0
"""The backward pass does two matrix products for each one of the forward pass."""
BUCKET_BYTES = 25 * 2**20
"""Gradients in one all-reduce: `comm_buffer_size` of Paddle's `DataParallel`."""
HOP_S = 3e-6
"""Half of the time of an 8-byte all-reduce between two cards (published nccl-tests runs, PCIe)."""
NETWORK_HOP_S = 30e-6
"""The same over TCP between two hosts (assumed)."""

NVLINK_GB_S = 20.0
"""One NVLink, one way, as NCCL counts it (src/graph/topo.h, SM70_NVLINK_BW, SM80_NVLINK_BW)."""
NVLINK_SHARE = 0.8
"""What NCCL counts of a link's nominal rate: 20 of 25 GB/s; measured on H20 up to 0.78."""
PCIE_GB_S = 12.0
"""PCIe 3.0 x16 through one switch (PCI_BW there): the generation is unknown, so the older one is
assumed."""
BRIDGE_GB_S = PCIE_GB_S / 1.2
"""Through a processor: Intel's divide what devices send each other (INTEL_P2P_OVERHEAD)."""
SOCKET_GB_S = 10.0 / 1.2
"""From one processor to another (SKL_QPI_BW), with the same overhead."""
NETWORK = "network"
NETWORK_GB_S = 1.0
"""Between hosts: 10 Gbit/s Ethernet less what TCP takes; labs differ most here (assumed)."""
_PCIE = {"PIX": PCIE_GB_S, "PXB": PCIE_GB_S, "PHB": BRIDGE_GB_S, "NODE": BRIDGE_GB_S}

_NVLINKS = re.compile(r"NV(\d{1,2})")
_NOMINAL = re.compile(r"(\d+(?:\.\d+)?)$")


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """What several devices are worth beside one."""

    devices: int
    step_s: float
    efficiency: float
    """Share of each device's time that is as useful as one alone, 0-1."""

    @property
    def factor(self) -> float:
        """How many times as many samples a second."""
        return self.devices * self.efficiency


def bandwidth_gb_s(link: str, interconnect: str = "") -> float:
    """Return what a ring gets from a kind of link, GB/s one way.

    `link` is a word of `nvidia-smi topo -m` or `network`; one that is not known counts as the way
    between two processors. `interconnect` is the catalogue's, with its nominal rate both ways
    (`NVLink3 600`): no card gets more from NVLink.
    """
    if link == NETWORK:
        return NETWORK_GB_S
    if match := _NVLINKS.fullmatch(link):
        links = int(match[1]) * NVLINK_GB_S
        nominal = _NOMINAL.search(interconnect)
        return links if nominal is None else min(links, float(nominal[1]) / 2 * NVLINK_SHARE)
    return _PCIE.get(link, SOCKET_GB_S)


def all_reduce_s(size_bytes: float, devices: int, gb_s: float, hop_s: float = HOP_S) -> float:
    """Return the time in which a ring adds up `size_bytes` that each of `devices` holds."""
    if devices < 2 or size_bytes <= 0:
        return 0.0
    hops = 2 * (devices - 1)
    buckets = math.ceil(size_bytes / BUCKET_BYTES)
    return hops / devices * size_bytes / (gb_s * 1e9) + buckets * hops * hop_s


def speed_up(
    compute_s: float, gradient_bytes: float, devices: int, link: str, interconnect: str = ""
) -> SpeedUp:
    """Return what `devices` are worth that reach each other by `link`, where one alone takes
    `compute_s` (above 0) for a step."""
    hop_s = NETWORK_HOP_S if link == NETWORK else HOP_S
    rate = bandwidth_gb_s(link, interconnect)
    reduce_s = all_reduce_s(gradient_bytes, devices, rate, hop_s)
    backward_s = BACKWARD_SHARE * compute_s
    step_s = compute_s - backward_s + max(backward_s, reduce_s)
    return SpeedUp(devices, step_s, compute_s / step_s)

"""Metrics of devices and hosts, from their last frames.

An unknown figure has no series, and neither have the figures of a host out of sight:
a graph with a gap is true, one with the last known value for ever is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.session.metrics.model import Family, Kind, Metric, Picture, Sample, Scope

LONGEST_LABEL = 80
"""Letters of a word that a host says of itself."""
MOST_DEVICES = 128
"""Most devices of one host that are exported; a frame has no more."""
THROTTLE_REASONS = ("power-cap", "hw-thermal", "sw-thermal", "power-brake")
SIGHT = (HostState.UP, HostState.STALE)
"""States in which a host's frame counts."""

_DEVICE = ("host", "device")


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric of each device or host with how it is read; None if it is unknown."""

    metric: Metric
    read: Callable[[Device], float | None]


@dataclass(frozen=True, slots=True)
class HostReading:
    """The same of a host, at a time."""

    metric: Metric
    read: Callable[[Host, float], float | None]


def _gauge(name: str, text: str, labels: tuple[str, ...], scope: Scope, most: int = 1) -> Metric:
    return Metric(f"gpuconsole_{name}", "gauge", text, labels, scope, most)


def _device(name: str, text: str, read: Callable[[Device], float | None]) -> Reading:
    kind: Kind = "counter" if name.endswith("_total") else "gauge"
    return Reading(Metric(f"gpuconsole_device_{name}", kind, text, _DEVICE, "device"), read)


def _host(name: str, text: str, read: Callable[[Host, float], float | None]) -> HostReading:
    return HostReading(_gauge(f"host_{name}", text, ("host",), "host"), read)


def _bytes(size_mib: float | None) -> float | None:
    return None if size_mib is None else size_mib * MIB


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _healthy(device: Device) -> float:
    # A tool that cannot tell some of its figures says so too, and that is no complaint.
    unread = bool(device.error) and device.memory_used_mib is None
    return float(not (device.lost or unread or device.health or device.remap_failed))


DEVICES: tuple[Reading, ...] = (
    _device("up", "1 while the driver lists the device.", lambda device: float(not device.lost)),
    _device("healthy", "1 while neither driver nor tool complains of it.", _healthy),
    _device("memory_total_bytes", "Memory of the device.", lambda d: _bytes(d.memory_total_mib)),
    _device("memory_used_bytes", "Memory that is held.", lambda d: _bytes(d.memory_used_mib)),
    _device(
        "utilization_ratio", "Share of time with a kernel running.",
        lambda device: _scaled(device.utilization, 0.01),
    ),
    _device("temperature_celsius", "Temperature.", lambda device: device.temperature_c),
    _device("power_watts", "Power that is drawn.", lambda device: device.power_w),
    _device("power_limit_watts", "Power that may be drawn.", lambda device: device.power_limit_w),
    _device("energy_joules_total", "Energy since its driver was loaded.", lambda d: d.energy_j),
    _device("sm_clock_hertz", "Clock of its cores.", lambda d: _scaled(d.sm_clock_mhz, 1e6)),
    _device("processes", "Processes that hold memory on it.", lambda d: float(len(d.processes))),
    _device(
        "ecc_uncorrected_errors_total", "Uncorrected memory errors that it counts.",
        lambda device: device.ecc_uncorrected,
    ),
    _device("retired_pages", "Pages or rows of its memory out of use.", lambda d: d.retired_pages),
    _device("last_xid", "Number of the last XID since the agent began.", lambda device: device.xid),
    _device("nvlinks_up", "NVLinks that work.", lambda device: device.nvlinks_up),
    _device("nvlinks_down", "NVLinks that do not work.", lambda device: device.nvlinks_down),
    _device(
        "nvlink_errors_total", "Errors of all its NVLinks.", lambda device: device.nvlink_errors
    ),
)  # fmt: skip

DEVICE_INFO = _gauge(
    "device_info", "1, with what the device is; `part_of`: the device of which it is an instance.",
    (*_DEVICE, "uuid", "model", "backend", "part_of"), "device",
)  # fmt: skip
DEVICE_AGE = _gauge(
    "device_sample_age_seconds",
    "Time since it was read, where that is not with its host's frame: a vendor's tool runs seldom.",
    _DEVICE, "device",
)  # fmt: skip
DEVICE_JOBS = _gauge("device_jobs", "Jobs of this queue that hold it.", _DEVICE, "device")
THROTTLED = _gauge(
    "device_throttled", "1 for each reason that slows it now.", (*_DEVICE, "reason"), "device",
    len(THROTTLE_REASONS),
)  # fmt: skip

HOSTS: tuple[HostReading, ...] = (
    _host("up", "1 while samples arrive.", lambda host, _: float(host.state is HostState.UP)),
    _host("frame_age_seconds", "Time since its last frame.", lambda host, now: host.age_s(now)),
    _host("clock_skew_seconds", "How far its clock is off.", lambda host, _: host.clock_skew_s),
    _host("engine_up", "0 while its container engine does not answer.",
          lambda host, _: float(not host.engine_error)),
    _host("drained", "1 while no new job starts there.", lambda h, _: float(bool(h.drained))),
    _host("asleep", "1 while it is switched off on purpose, or on its way there or back.",
          lambda host, _: float(bool(host.power))),
    _host("interruptible", "1 when it may be taken away at any time.",
          lambda host, _: float(host.interruptible)),
    _host("devices", "Devices that it has.", lambda host, _: float(len(host.devices))),
    _host("cpus", "Processors that it has.", lambda host, _: host.facts.cpu_count),
    _host("cpu_utilization_ratio", "Share of its processors that is busy.",
          lambda host, _: _scaled(host.facts.cpu_percent, 0.01)),
    _host("load1", "Load of the last minute.", lambda host, _: host.facts.load_1m),
    _host("memory_total_bytes", "Memory of the host.",
          lambda host, _: _bytes(host.facts.memory_total_mib)),
    _host("memory_used_bytes", "Memory of the host that is held.",
          lambda host, _: _bytes(host.facts.memory_used_mib)),
    _host("disk_total_bytes", "Disk of the host.",
          lambda host, _: _bytes(host.facts.disk_total_mib)),
    _host("disk_free_bytes", "Disk of the host that is free.",
          lambda host, _: _bytes(host.facts.disk_free_mib)),
)  # fmt: skip
ALWAYS = frozenset(
    f"gpuconsole_host_{name}"
    for name in ("up", "frame_age_seconds", "engine_up", "drained", "asleep")
)
"""What is exported of a host out of sight too."""

HOST_STATE = _gauge(
    "host_state", "1 for the state of the link to the host.", ("host", "state"), "host",
    len(HostState),
)  # fmt: skip
HOST_LOSSES = Metric(
    "gpuconsole_host_link_losses_total", "counter",
    "How often the link to the host was lost since this console began.", ("host",), "host",
)  # fmt: skip

METRICS: tuple[Metric, ...] = (
    *(reading.metric for reading in DEVICES), DEVICE_INFO, DEVICE_AGE, DEVICE_JOBS, THROTTLED,
    *(reading.metric for reading in HOSTS), HOST_STATE, HOST_LOSSES,
)  # fmt: skip


def families(picture: Picture) -> Iterator[Family]:
    """Give the metrics of all devices and hosts."""
    hosts = [(clean(host.name, LONGEST_LABEL), host) for host in picture.snapshot.hosts]
    devices = [
        (name, number, host, device)
        for name, host in hosts
        if host.state in SIGHT
        for number, device in numbered(host)
    ]
    for reading in DEVICES:
        samples: list[Sample] = [
            ((name, number), float(value))
            for name, number, _, device in devices
            if (value := reading.read(device)) is not None
        ]
        yield Family(reading.metric, samples)
    yield Family(DEVICE_INFO, [_info(*device) for device in devices])
    aged: list[Sample] = [
        ((name, number), max(0.0, picture.at - device.sampled_at))
        for name, number, _, device in devices
        if device.sampled_at is not None
    ]
    yield Family(DEVICE_AGE, aged)
    jobs = picture.queue.on_device
    held: list[Sample] = [
        ((device[0], device[1]), float(jobs.get(device[3].uuid, 0))) for device in devices
    ]
    yield Family(DEVICE_JOBS, held)
    slowed: list[Sample] = [
        ((name, number, reason), 1.0)
        for name, number, _, device in devices
        for reason in THROTTLE_REASONS
        if reason in device.throttle
    ]
    yield Family(THROTTLED, slowed)
    yield from _of_hosts(picture, hosts)


def _of_hosts(picture: Picture, hosts: list[tuple[str, Host]]) -> Iterator[Family]:
    for reading in HOSTS:
        samples: list[Sample] = [
            ((name,), float(value))
            for name, host in hosts
            if host.state in SIGHT or reading.metric.name in ALWAYS
            if (value := reading.read(host, picture.at)) is not None
        ]
        yield Family(reading.metric, samples)
    states: list[Sample] = [
        ((name, state.value), float(host.state is state))
        for name, host in hosts
        for state in HostState
    ]
    yield Family(HOST_STATE, states)
    lost: list[Sample] = [
        ((name,), float(picture.losses.get(host.name, 0))) for name, host in hosts
    ]
    yield Family(HOST_LOSSES, lost)


def numbered(host: Host) -> Iterator[tuple[str, Device]]:
    """Give a host's devices with the number by which series tell them apart: their own, and
    `0.1`, `0.2` for others that have the same, as instances of one card may."""
    seen: Counter[int] = Counter()
    for device in host.devices[:MOST_DEVICES]:
        again = seen[device.index]
        seen[device.index] += 1
        yield (f"{device.index}.{again}" if again else str(device.index)), device


def _info(name: str, number: str, host: Host, device: Device) -> Sample:
    words = (
        device.uuid, device.model, device.backend,
        _part_of(host, device.parent_uuid) if device.parent_uuid else "",
    )  # fmt: skip
    return (name, number, *(clean(word, LONGEST_LABEL) for word in words)), 1.0


def _part_of(host: Host, uuid: str) -> str:
    return next((number for number, device in numbered(host) if device.uuid == uuid), "")

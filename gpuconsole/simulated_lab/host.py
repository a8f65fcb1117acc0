"""A simulated host: its devices' frames, its containers and its leases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gpuconsole.core.containers import LeadMark, Lease
from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostFacts, HostState
from gpuconsole.simulated_lab.catalogue import DeviceSite, Site
from gpuconsole.simulated_lab.clock import LabTime
from gpuconsole.simulated_lab.containers import SimulatedContainer
from gpuconsole.simulated_lab.load_curves import HEAT_LAG_S, Load, Shift, read, shift_of

FRAME_S = 1.0
"""Console seconds between two frames of a host."""
TOOL_FRAMES = 4
"""Frames between two rounds of a vendor's tool, which is a program and runs seldom."""
_COOL_S = 5 * HEAT_LAG_S
_OUTAGE_PERIOD_S, _STALE_AT_S, _DOWN_AT_S, _BACK_AT_S = 480.0, 150.0, 158.0, 215.0
_AWAY_UNTIL_S, _AWAY_FOR_S = 60.0, 250.0
"""A flaky host is out of sight when the lab opens, and has been for a while."""
_BORROWED_S = 900.0
"""How long the job of another user's console holds its device."""


class SimulatedHost:
    """One host; `frame` is what a poller would have received by now."""

    def __init__(self, site: Site, seed: int, time: LabTime, phase: float) -> None:
        """Stand the host up. `phase`, 0-1, is where in each second its frames come."""
        self.site = site
        self.time = time
        self.containers: dict[str, SimulatedContainer] = {}
        borrowed = [_borrowed(device, time) for device in site.devices if device.role == "leased"]
        self.lead_marks: dict[int, LeadMark] = {}
        self.leases = {(lease.uuid, lease.attempt): lease for lease in borrowed}
        """By device and attempt: two that share a device hold one each."""
        self.images: set[str] = set()
        self.ran: dict[str, SimulatedContainer] = {}
        """The last container of each job: its results outlive it."""
        self.containers_made = 0
        self.up_at: float | None = -math.inf
        """Lab time from which it is switched on; None while it is off."""
        self._ended: dict[int, float] = {}
        """Lab times at which a person ended processes, by pid."""
        self._phase = phase
        self._seconds: int | None = None
        self._devices = tuple(SimulatedDevice(device, seed) for device in site.devices)
        self._host = Host(name=site.name, address=site.address, labels=site.labels)

    def frame(self, now: float) -> Host:
        """Return the host's record at console time `now`; the same object while it is the same."""
        second = math.floor((now - self.time.opened_at) / FRAME_S - self._phase)
        if second == self._seconds:
            return self._host
        self._seconds = second
        sampled_at = self.time.opened_at + (second + self._phase) * FRAME_S
        lab_now = self.time.lab(sampled_at)
        state = self.state_at(lab_now)
        if state is HostState.DOWN and self._host.sampled_at is None:
            last = sampled_at - _AWAY_FOR_S / self.time.speed
            self._host = self._sample(last, lab_now - _AWAY_FOR_S, state, last)
        elif state is HostState.UP or self._host.sampled_at is None:
            told_at = sampled_at - second % TOOL_FRAMES * FRAME_S
            self._host = self._sample(sampled_at, lab_now, state, told_at)
        elif state is not self._host.state:
            self._host = _out_of_sight(self._host, state)
        return self._host

    def state_at(self, lab_now: float) -> HostState:
        """Tell whether the host answers at a lab time."""
        if self.up_at is None or lab_now < self.up_at:
            return HostState.DOWN
        if not self.site.flaky:
            return HostState.UP
        if lab_now + self.site.outage_offset_s < _AWAY_UNTIL_S:
            return HostState.DOWN
        moment = (lab_now + self.site.outage_offset_s) % _OUTAGE_PERIOD_S
        if _STALE_AT_S <= moment < _DOWN_AT_S:
            return HostState.STALE
        return HostState.DOWN if _DOWN_AT_S <= moment < _BACK_AT_S else HostState.UP

    def available_mib(self, uuid: str) -> float:
        """Return what a device has left now for a container that starts."""
        device = next(device for device in self._devices if device.site.uuid == uuid)
        now = self.time.now()
        return (
            device.site.card.memory_mib
            - device.site.card.baseline_mib
            - sum(
                load.memory_mib for load in self._loads(device, now) if load.start <= now < load.end
            )
        )

    def end(self, meant: Callable[[Load], bool]) -> bool:
        """End the processes that are meant, for their containers too; False where there is none."""
        now = self.time.now()
        pids = {
            load.pid
            for device in self._devices
            for load in self._loads(device, now)
            if load.start <= now < load.end and meant(load)
        }
        for container in self.containers.values():
            load = container.load()
            if load is not None and load.pid in pids and container.stopped is None:
                container.stopped = now
        self._ended.update(dict.fromkeys(pids, now))
        return bool(pids)

    def runs(self, container: str) -> bool:
        """Tell whether somebody else's container of that id is at work here."""
        now = self.time.now()
        return any(
            load.container_id == container and load.start <= now < load.end
            for device in self._devices
            for load in self._loads(device, now)
        )

    def loads_of_others(self) -> list[tuple[int, Load]]:
        """Return what others run now, with the index of its device."""
        now = self.time.now()
        own = {container.id for container in self.containers.values()}
        return [
            (device.site.index, load)
            for device in self._devices
            for load in self._loads(device, now)
            if load.start <= now < load.end and load.container_id not in own
        ]

    def live_leases(self) -> dict[tuple[str, str], Lease]:
        """Return the live leases, without those past the end of their borrowed time."""
        over = [
            key
            for key, lease in self.leases.items()
            if lease.journal == _OTHER_JOURNAL and self.time.now() >= _BORROWED_S
        ]
        for key in over:
            del self.leases[key]
        return self.leases

    def _sample(self, sampled_at: float, lab_now: float, state: HostState, told_at: float) -> Host:
        """Return the host's record; `told_at` is when a vendor's tool, if any, ran last."""
        if self.site.kind.card.by_tool:
            at = self.time.lab(told_at)
            devices = tuple(
                replace(device.sample(self._loads(device, at), at), sampled_at=told_at)
                for device in self._devices
            )
        else:
            devices = tuple(
                device.sample(self._loads(device, lab_now), lab_now) for device in self._devices
            )
        busy = sum(device.utilization or 0.0 for device in devices) / max(1, len(devices))
        return Host(
            name=self.site.name,
            state=state,
            address=self.site.address,
            labels=self.site.labels,
            price_per_hour=self.site.kind.price_per_hour,
            devices=devices,
            facts=_facts(self.site, busy, lab_now),
            sampled_at=sampled_at,
            error="" if state is HostState.UP else _LOST[state],
            clock_skew_s=0.02,
        )

    def _loads(self, device: SimulatedDevice, lab_now: float) -> list[Load]:
        uuid = device.site.uuid
        lease = next((lease for lease in self.leases.values() if lease.uuid == uuid), None)
        # Nothing outside the queue starts on a device that is leased.
        leased_since = None if lease is None else self.time.lab(lease.since)
        loads = [self._cut(load) for load in device.others(lab_now, leased_since)]
        for container in self.containers.values():
            if uuid in container.spec.device_uuids:
                load = container.load()
                if load is not None and lab_now < load.end + _COOL_S:
                    loads.append(load)
        return loads

    def _cut(self, load: Load) -> Load:
        """Return a load, cut if it was ended early."""
        ended = self._ended.get(load.pid)
        return (
            load
            if ended is None or not load.start <= ended < load.end
            else replace(load, end=ended)
        )


class SimulatedDevice:
    """One device; keeps its last record so that an idle one costs nothing."""

    def __init__(self, site: DeviceSite, seed: int) -> None:
        """Stand the device up."""
        self.site = site
        self._seed = seed
        self._shift: Shift | None = None
        self._before: Load | None = None
        self._idle: Device | None = None
        self._processes: tuple[DeviceProcess, ...] = ()

    def others(self, now: float, leased_since: float | None) -> list[Load]:
        """Return what runs here outside the console's queue, still warm loads included."""
        if self.site.role == "leased":
            load = _borrowed_load(self.site)
            return [load] if now < load.end + _COOL_S else []
        shift = self._shift
        if shift is None or not shift.start <= now < shift.end:
            shift = self._shift = shift_of(self.site, self._seed, now)
            before = (
                shift_of(self.site, self._seed, shift.start - 1.0)
                if (math.isfinite(shift.start))
                else None
            )
            self._before = before.load if before is not None else None
        loads = []
        if self._before is not None and now < self._before.end + _COOL_S:
            loads.append(self._before)
        if shift.load is not None and (leased_since is None or shift.start <= leased_since):
            loads.append(shift.load)
        return loads

    def sample(self, loads: Sequence[Load], now: float) -> Device:
        """Return the device's record at lab time `now`."""
        if not loads:
            self._idle = self._idle or self._record((), now)
            return self._idle
        return self._record(loads, now)

    def _record(self, loads: Sequence[Load], now: float) -> Device:
        site, card = self.site, self.site.card
        processes = self._running(loads, now)
        reading = read(site, loads, now)
        held = sum(process.memory_mib or 0.0 for process in processes)
        device = Device(
            uuid=site.uuid,
            index=site.index,
            model=card.model,
            backend=card.backend,
            vendor=card.vendor,
            memory_total_mib=card.memory_mib,
            memory_used_mib=min(card.memory_mib, card.baseline_mib + held),
            utilization=reading.utilization,
            temperature_c=reading.temperature_c,
            power_w=reading.power_w,
            power_limit_w=card.limit_w,
            sm_clock_mhz=reading.sm_clock_mhz,
            memory_clock_mhz=card.memory_clock_mhz,
            throttle=reading.throttle,
            ecc_uncorrected=0 if card.memory_mib > 30000 else None,
            retired_pages=0 if card.memory_mib > 30000 else None,
            pci_bus_id=site.pci_bus_id,
            numa_node=site.numa_node,
            peers=site.peers,
            processes=processes,
        )
        untold: dict[str, Any] = dict.fromkeys(card.untold)
        return replace(device, **untold) if untold else device

    def _running(self, loads: Sequence[Load], now: float) -> tuple[DeviceProcess, ...]:
        figures = [(load, load.memory_at(now)) for load in loads if load.start <= now < load.end]
        processes = self._processes
        if len(processes) == len(figures) and all(
            process.pid == load.pid and process.memory_mib == memory
            for process, (load, memory) in zip(processes, figures, strict=True)
        ):
            return processes
        self._processes = tuple(
            DeviceProcess(load.pid, load.user, memory, load.command, load.container_id)
            for load, memory in figures
        )
        return self._processes


# --- another user's console ---------------------------------------------------------------------

_OTHER_JOURNAL = "journal-of-li"


def _borrowed(device: DeviceSite, time: LabTime) -> Lease:
    job = f"li-{device.uuid[-6:]}"
    return Lease(device.uuid, job, f"{job}.1", "li", _OTHER_JOURNAL, time.console(-1800.0))


def _borrowed_load(device: DeviceSite) -> Load:
    return Load(
        start=-1800.0,
        end=_BORROWED_S,
        mean=91.0,
        amplitude=4.0,
        period_s=41.0,
        memory_mib=device.card.memory_mib * 0.71,
        pid=31877,
        user="li",
        command="python train_gpt.py --config 1.3b.yaml",
        container_id=device.uuid.replace("-", "").lower()[-32:].rjust(64, "3"),
    )


# --- the host itself ----------------------------------------------------------------------------

_LOST = {
    HostState.STALE: "No frame for several seconds; the link is still up.",
    HostState.DOWN: "The link broke and the host does not answer; it is tried again.",
}


def _out_of_sight(host: Host, state: HostState) -> Host:
    return Host(
        name=host.name,
        state=state,
        address=host.address,
        labels=host.labels,
        price_per_hour=host.price_per_hour,
        devices=host.devices,
        facts=host.facts,
        sampled_at=host.sampled_at,
        error=_LOST[state],
        clock_skew_s=host.clock_skew_s,
    )


def _facts(site: Site, busy: float, now: float) -> HostFacts:
    kind = site.kind
    total = kind.memory_gib * 1024.0
    cpu = min(98.0, 3.0 + busy * 0.45 + 2.5 * math.sin(now / 23.0 + len(site.name)))
    return HostFacts(
        cpu_percent=round(max(0.5, cpu), 1),
        cpu_count=kind.cpu_count,
        memory_total_mib=total,
        memory_used_mib=round(total * (0.08 + 0.004 * busy)),
        disk_total_mib=3.5 * 2**20,
        disk_free_mib=round(
            ((0.11 if site.full_disk else 1.1) + 0.05 * math.sin(now / 900.0)) * 2**20
        ),
        load_1m=round(max(0.1, cpu / 100.0 * kind.cpu_count), 2),
        driver_version=kind.driver,
        runtime_version=kind.runtime,
        kernel="5.15.0-122-generic",
        numa_cpus=(f"0-{kind.cpu_count // 2 - 1}", f"{kind.cpu_count // 2}-{kind.cpu_count - 1}"),
        source="simulated",
    )


def phase_of(number: int) -> float:
    """Spread the hosts' frames over the second, as a real poller's jitter does."""
    return number * 0.6180339887 % 1.0

"""A simulated Slurm cluster beside the lab's hosts: two nodes, one partition, first come first
served.

Underneath is one simulated host with the devices of both nodes; Slurm's part, waiting until enough
of them are free, is played here.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import replace

from gpuconsole.core.containers import ContainerStatus, Engine, EngineInfo
from gpuconsole.core.engines.batch_job import CLUSTER_LABEL, WAITS, Batch
from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostFacts, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError
from gpuconsole.simulated_lab.catalogue import A100, DeviceSite, Kind, Site
from gpuconsole.simulated_lab.containers import SimulatedContainer
from gpuconsole.simulated_lab.engine import SimulatedEngine
from gpuconsole.simulated_lab.host import SimulatedHost
from gpuconsole.simulated_lab.hosts import SimulatedHosts
from gpuconsole.simulated_lab.jobs import example

CLUSTER = "hpc"
NODES, DEVICES = ("n1", "n2"), 4
_ROLES = ("train", "free", "free", "free", "mixed", "free", "free", "free")
_KIND = Kind("hpc", A100, 8, "hpc", 4.0, "pcie", 64, 512, "550.127.05", "12.4")


class ClusterHosts:
    """The lab's hosts and, after them, a cluster's. Implements `core.containers.Hosts`."""

    def __init__(self, hosts: SimulatedHosts, seed: int) -> None:
        self._lab = hosts
        self._cluster = SimulatedCluster(SimulatedHost(_site(seed), seed, hosts.time, 0.5))
        self._made: tuple[FleetSnapshot, Host, FleetSnapshot] | None = None
        self._more = 0

    async def start(self) -> None:
        """Nothing to connect."""
        await self._lab.start()

    async def close(self) -> None:
        """Nothing to end."""
        await self._lab.close()

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture; the same object while no frame is new."""
        plain = self._lab.snapshot()
        frame = self._cluster.frame(self._lab.time.clock())
        if self._made is None or self._made[0] is not plain or self._made[1] is not frame:
            self._more += 1
            hosts = (*plain.hosts, *self._cluster.hosts(frame))
            snapshot = replace(plain, revision=plain.revision + self._more, hosts=hosts)
            self._made = (plain, frame, snapshot)
        return self._made[2]

    async def engine(self, host: str) -> Engine:
        """Return the engine of a host, or of the cluster."""
        _refuse_node(host)
        return self._cluster if host == CLUSTER else await self._lab.engine(host)

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """End a process of a host; only Slurm does so on its nodes."""
        _refuse_node(host)
        await self._lab.signal(host, process, signal)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A run in the queue, and how many devices it waits for."""

    container: SimulatedContainer
    devices: int


class SimulatedCluster(SimulatedEngine):
    """The engine of the cluster: what it is handed waits for its turn."""

    def __init__(self, host: SimulatedHost) -> None:
        super().__init__(host)
        self._queue: list[_Waiting] = []

    def frame(self, now: float) -> Host:
        """Start the containers that are due; return the record of all devices together."""
        for waiting in list(self._queue):
            free = self._free()
            if len(free) < waiting.devices:
                break
            self._queue.remove(waiting)
            self._give(waiting, free[: waiting.devices])
        return self._host.frame(now)

    def hosts(self, frame: Host) -> tuple[Host, ...]:
        """Return login node and nodes."""
        login = Host(
            CLUSTER,
            frame.state,
            address=frame.address,
            labels={CLUSTER_LABEL: CLUSTER},
            facts=HostFacts(source="simulated"),
            sampled_at=frame.sampled_at,
            cluster=CLUSTER,
        )
        return (login, *(_node(frame, number) for number in range(len(NODES))))

    async def info(self) -> EngineInfo:
        """Ask the engine who it is."""
        return EngineInfo("simulated slurm", ("slurm",), gpu_runtime=True)

    async def start(self, container: str) -> None:
        """Put the run into the queue; one that was handed over is left alone."""
        target = self._require(container)
        queued = any(waiting.container is target for waiting in self._queue)
        if target.started is None and not queued:
            batch = target.spec.batch or Batch()
            self._queue.append(_Waiting(target, batch.devices * batch.nodes))

    async def inspect(self, container: str) -> ContainerStatus | None:
        """Look at a run; one that waits says why."""
        target = self._find(container)
        place = next(
            (n for n, waiting in enumerate(self._queue) if waiting.container is target), None
        )
        if target is None or place is None:
            return await SimulatedEngine.inspect(self, container)
        reason = (
            "Other jobs come before it (Slurm says Priority)."
            if place
            else "No node has free what it asks for; it is first in line (Slurm says Resources)."
        )
        status = target.status(self._host.time.now())
        return replace(status, state="pending", note=f"{WAITS}{reason} It is on {CLUSTER}.")

    async def stop(self, container: str, grace_s: float) -> None:
        """End the run, or take it out of the queue."""
        target = self._find(container)
        for waiting in [entry for entry in self._queue if entry.container is target]:
            self._queue.remove(waiting)
            await SimulatedEngine.start(self, container)
        await SimulatedEngine.stop(self, container, grace_s)

    def _free(self) -> list[str]:
        """Return devices that are not in use now."""
        frame = self._host.frame(self._host.time.clock())
        given = {uuid for live in self._live() for uuid in live.spec.device_uuids}
        return [
            device.uuid
            for device in frame.devices
            if not device.processes and device.uuid not in given
        ]

    def _live(self) -> list[SimulatedContainer]:
        now = self._host.time.now()
        return [
            container
            for container in self._host.containers.values()
            if container.state_at(now) == "running"
        ]

    def _give(self, waiting: _Waiting, devices: list[str]) -> None:
        target = waiting.container
        target.spec = replace(target.spec, device_uuids=tuple(devices))
        self.begin(target)


def cluster_tasks() -> tuple[Task, ...]:
    """Return what the demo hands to the cluster: more than it has devices for."""
    labels: Mapping[str, str] = {CLUSTER_LABEL: CLUSTER, "partition": "gpu"}
    script = example("text_encoder.py")
    return tuple(
        Task(
            f"on-slurm-{number}",
            str(script),
            ("--steps", str(400 + 200 * number)),
            project=str(script.parent),
            labels=labels,
            devices=2,
        )
        for number in range(1, 5)
    )


def _node(frame: Host, number: int) -> Host:
    first = number * DEVICES
    held = frame.devices[first : first + DEVICES]
    busy = sum(bool(device.processes) for device in held)
    state = "idle" if not busy else "allocated" if busy == len(held) else "mixed"
    return Host(
        f"{CLUSTER}/{NODES[number]}",
        HostState.UP,
        address=frame.address,
        labels={CLUSTER_LABEL: CLUSTER, "partition": "gpu", "node-state": state},
        price_per_hour=frame.price_per_hour,
        devices=tuple(_seen_by_slurm(device, index) for index, device in enumerate(held)),
        facts=HostFacts(
            cpu_count=_KIND.cpu_count,
            memory_total_mib=_KIND.memory_gib * 1024,
            source="simulated",
        ),
        sampled_at=frame.sampled_at,
        cluster=CLUSTER,
    )


def _seen_by_slurm(device: Device, index: int) -> Device:
    """Return what Slurm tells of a device: who has it, and nothing of how busy it is."""
    processes = tuple(
        DeviceProcess(0, process.user, None, "Slurm job", process.container_id)
        for process in device.processes
    )
    return Device(
        uuid=device.uuid,
        index=index,
        model=device.model,
        backend=device.backend,
        memory_total_mib=device.memory_total_mib,
        processes=processes,
        gres="a100",
    )


def _site(seed: int) -> Site:
    chance = random.Random(f"slurm:{seed}")
    devices = tuple(
        DeviceSite(
            uuid=f"GPU-{uuid.UUID(int=chance.getrandbits(128), version=4)}",
            index=index,
            card=A100,
            role=role,
            pci_bus_id=f"00000000:{0x07 + 0x10 * index:02X}:00.0",
            numa_node=0,
            peers=(),
        )
        for index, role in enumerate(_ROLES)
    )
    return Site(CLUSTER, "10.30.0.10", _KIND, {}, devices)


def _refuse_node(host: str) -> None:
    if host.startswith(f"{CLUSTER}/"):
        raise RefusedError(
            "Slurm runs this node",
            msg(
                "{host} is a node of {cluster}; the console has no way to it.",
                host=host,
                cluster=CLUSTER,
            ),
            msg("Use Slurm's own commands on {cluster}, such as scancel.", cluster=CLUSTER),
        )

"""`SimulatedHosts`: a lab without hardware, behind the same port as the real one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from gpuconsole.core.containers import Engine
from gpuconsole.core.devices.host_power import Elastic, Verb
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot, HostState
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.simulated_lab.catalogue import A100, Kind, Site, build_sites, site_of
from gpuconsole.simulated_lab.clock import LabTime
from gpuconsole.simulated_lab.engine import SimulatedEngine, unreachable
from gpuconsole.simulated_lab.host import SimulatedHost, phase_of

KIND = Kind("cloud", A100, 8, "train", 3.4, "all", 96, 768, "550.127.05", "12.4")
WAKES_S = 20.0
"""Lab seconds from the command to the first frame."""
IDLE_S = 60.0


def sleeping_site(seed: int) -> Site:
    """Return the host that is suspended when the lab opens; only the queue uses it."""
    chance = random.Random(f"cloud:{seed}")
    return site_of(KIND, "cloud-01", "10.90.0.11", "away", ("free",) * KIND.count, chance)


class SimulatedPower:
    """Implements `core.devices.host_power.Power` over simulated hosts; no command is run."""

    def __init__(self, hosts: Sequence[SimulatedHost]) -> None:
        """Switch these hosts, and put them to sleep now."""
        self._hosts = {host.site.name: host for host in hosts}
        for host in hosts:
            host.up_at = None
        speed = hosts[0].time.speed if hosts else 1.0
        limits = Elastic(wakes_per_hour=30, idle_s=IDLE_S / speed, wake_s=WAKES_S / speed)
        self._limits = dict.fromkeys(self._hosts, limits)

    @property
    def hosts(self) -> Mapping[str, Elastic]:
        """The hosts that can be woken, by name."""
        return self._limits

    async def switch(self, host: str, verb: Verb) -> str:
        """Do it; simulated hosts always obey."""
        simulated = self._hosts[host]
        simulated.up_at = simulated.time.now() + WAKES_S if verb == "wake" else None
        return ""


IMAGES = {
    "npu": "paddle-npu:cann800-ubuntu20-npu-910b-base-aarch64-gcc84",
    "xpu": "paddle-xpu:ubuntu20-x86_64-gcc84-py310",
    "dcu": "paddle-dcu:dtk24.04.1-kylinv10-gcc82-py310",
}
"""What hosts with devices other than NVIDIA's are set up with."""


class SimulatedHosts:
    """Implements `core.containers.Hosts`: a pure function of seed and time, and of what is run.

    Every time it reports is on `clock`; inside, the lab lives `speed` seconds for each of them.
    """

    def __init__(
        self,
        hosts: int = 6,
        seed: int = 7,
        *,
        clock: Callable[[], float],
        speed: float = 1.0,
        elastic: bool = False,
    ) -> None:
        """Open the lab now; `elastic` adds a host that sleeps."""
        self.time = LabTime(clock, clock(), speed)
        self._hosts = tuple(
            SimulatedHost(site, seed, self.time, phase_of(number))
            for number, site in enumerate(build_sites(hosts, seed))
        )
        if elastic:
            site = sleeping_site(seed)
            self._hosts += (SimulatedHost(site, seed, self.time, phase_of(len(self._hosts))),)
        self.power = SimulatedPower(self._hosts[hosts:])
        self._by_name = {host.site.name: host for host in self._hosts}
        self._snapshot = FleetSnapshot(simulated=True)

    def default_image(self, host: str) -> str:
        """Return an image made for the devices of a host; "" for the usual one."""
        simulated = self._by_name.get(host)
        return IMAGES.get(simulated.site.kind.card.backend, "") if simulated is not None else ""

    async def start(self) -> None:
        """Nothing to connect: the lab is there from its opening."""

    async def close(self) -> None:
        """Nothing to end: containers live only as long as this object."""

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture; the same object while no host's frame is new."""
        now, old = self.time.clock(), self._snapshot
        hosts = tuple(host.frame(now) for host in self._hosts)
        if len(old.hosts) != len(hosts) or any(
            new is not before for new, before in zip(hosts, old.hosts, strict=True)
        ):
            self._snapshot = FleetSnapshot(old.revision + 1, now, hosts, simulated=True)
        return self._snapshot

    async def engine(self, host: str) -> Engine:
        """Return the engine of a host; UnreachableError while it is out of sight."""
        simulated = self._by_name.get(host)
        if simulated is None:
            raise UsageError(
                "There is no such host",
                msg("The simulated lab has no host named {host}.", host=host),
                msg("It has {names}.", names=", ".join(list(self._by_name)[:6])),
            )
        if simulated.state_at(self.time.now()) is HostState.DOWN:
            raise unreachable(simulated)
        return SimulatedEngine(simulated)

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """End a process: simulated ones obey every signal."""
        simulated = self._by_name[host]
        if simulated.state_at(self.time.now()) is HostState.DOWN:
            raise unreachable(simulated)
        if not simulated.end(lambda load: load.pid == process.pid):
            raise RefusedError(
                "It has ended already",
                msg("{host} has no process {given_pid}.", host=host, given_pid=process.pid),
            )

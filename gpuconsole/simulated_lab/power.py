"""The simulated lab's sleeping host: off until the dispatcher wakes it, and off again when idle."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from gpuconsole.core.devices.host_power import Elastic, Verb
from gpuconsole.simulated_lab.catalogue import A100, Kind, Site, site_of
from gpuconsole.simulated_lab.host import SimulatedHost

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

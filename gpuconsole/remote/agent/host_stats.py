"""The host itself: processor, memory, disk, load."""

import os
from typing import Dict, List, Optional, Tuple

from gpuconsole.remote.agent.watchdog import Step


def steps() -> List[Step]:
    """Return the readings of this machine, by the keys that the console knows."""
    return [
        Step("cpu", ("c", "n"), Cpu().read),
        Step("memory", ("M", "m"), memory),
        Step("load", ("l",), load),
        Step("disk", ("D", "f"), disk, every=10),
        Step("processors by node", ("N",), numa, every=60),
    ]


class Cpu(object):
    """Share of processor time in use since the reading before."""

    def __init__(self) -> None:
        self._before: Optional[Tuple[int, int]] = None

    def read(self) -> Dict[str, object]:
        with open("/proc/stat") as file:
            times = [int(word) for word in file.readline().split()[1:9]]
        total, idle = sum(times), times[3] + times[4]
        before, self._before = self._before, (total, idle)
        percent = None
        if before is not None and total > before[0]:
            busy = 1 - (idle - before[1]) / float(total - before[0])
            percent = round(100 * min(1.0, max(0.0, busy)), 1)
        return {"c": percent, "n": os.cpu_count()}


def memory() -> Dict[str, object]:
    """Return total and used memory in KiB; what could be freed counts as free."""
    figures = {}
    with open("/proc/meminfo") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in ("MemTotal", "MemAvailable", "MemFree"):
                figures[name] = int(value.split()[0])
    free = figures.get("MemAvailable", figures.get("MemFree", 0))
    return {"M": figures["MemTotal"], "m": figures["MemTotal"] - free}


def numa() -> Dict[str, object]:
    """Return the processors of each NUMA node by its number, as the kernel lists them."""
    root = "/sys/devices/system/node"
    try:
        names = [name for name in os.listdir(root) if name[:4] == "node" and name[4:].isdigit()]
    except OSError:
        return {"N": None}
    lists = [""] * (1 + max([int(name[4:]) for name in names] or [-1]))
    for name in names:
        with open(os.path.join(root, name, "cpulist")) as file:
            lists[int(name[4:])] = file.read().strip()
    return {"N": lists}


def load() -> Dict[str, object]:
    """Return the load average over a minute."""
    return {"l": round(os.getloadavg()[0], 2)}


def disk() -> Dict[str, object]:
    """Return total and free KiB of the disk on which containers live, else of the root."""
    path = "/var/lib/docker" if os.path.isdir("/var/lib/docker") else "/"
    room = os.statvfs(path)
    unit = room.f_frsize
    # Steps of 64 MiB: free room moves all the time and must not fill every frame.
    free = room.f_bavail * unit >> 26 << 16
    return {"D": room.f_blocks * unit >> 10, "f": free}

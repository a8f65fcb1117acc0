"""What a process and all that it started use together, as the kernel tells it in /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass

_PARENT, _THREADS = 1, 17
"""Fields of /proc/PID/stat, counted from the one after the name."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A process with its descendants."""

    pids: tuple[int, ...]
    tasks: int
    """Processes and threads."""
    taken_mib: float
    """Memory and swap; a page that several of them share is counted for each."""


def tree_of(root: int) -> Tree:
    """Return a process and its descendants; an empty tree when it has ended."""
    children: dict[int, list[int]] = {}
    tasks = {}
    for pid, parent, count in _processes():
        children.setdefault(parent, []).append(pid)
        tasks[pid] = count
    pids = [root] if root in tasks else []
    for pid in pids:
        pids += children.get(pid, ())
    taken = sum(_told_mib(f"/proc/{pid}/status", ("VmRSS:", "VmSwap:")) for pid in pids)
    return Tree(tuple(pids), sum(tasks[pid] for pid in pids), taken)


def proportional_mib(tree: Tree) -> float:
    """Return the memory and swap of a tree in MiB, each shared page counted once.

    Slow for large processes. A process of which the kernel tells no shares counts in full.
    """
    return sum(
        _told_mib(f"/proc/{pid}/smaps_rollup", ("Pss:", "SwapPss:"))
        or _told_mib(f"/proc/{pid}/status", ("VmRSS:", "VmSwap:"))
        for pid in tree.pids
    )


def available_mib() -> float:
    """Return the memory of this machine that is free or can be freed, in MiB."""
    return _told_mib("/proc/meminfo", ("MemAvailable:",)) or float("inf")


def folder_mib(folder: Path) -> float:
    """Return the disk space of a folder and of all below it, in MiB. Links are not followed."""
    blocks = 0
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                blocks += os.lstat(os.path.join(parent, name)).st_blocks
    return blocks * 512 / MIB


def _processes() -> Iterator[tuple[int, int, int]]:
    """Give each process of this machine with its parent and its number of threads."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        # A process may end meanwhile.
        with contextlib.suppress(OSError, IndexError, ValueError):
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name is in brackets, and may contain some itself.
                fields = file.read().rpartition(b")")[2].split()
            yield int(name), int(fields[_PARENT]), int(fields[_THREADS])


def _told_mib(file: str, names: Collection[str]) -> float:
    """Return the sum of sizes in a file of /proc, in MiB; 0 where it tells none."""
    try:
        lines = [line.split() for line in Path(file).read_text().splitlines()]
        return sum(int(line[1]) for line in lines if line and line[0] in names) / 1024
    except (OSError, ValueError, IndexError):
        return 0.0

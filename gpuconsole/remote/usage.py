"""What a process and all that it started use together, as the kernel tells it in /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuconsole.core.units import MIB

_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / MIB
_PARENT, _THREADS, _PAGES = 1, 17, 21
"""Fields of /proc/PID/stat, counted from the one after the name."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A process with its descendants."""

    pids: tuple[int, ...]
    tasks: int
    """Processes and threads."""
    resident_mib: float
    """What is in memory; a page that several of them share is counted for each."""


@dataclass(frozen=True, slots=True)
class _Row:
    parent: int
    tasks: int
    pages: int


def tree_of(root: int) -> Tree:
    """Return a process and its descendants; an empty tree when it has ended."""
    rows = dict(_rows())
    children: dict[int, list[int]] = {}
    for pid, row in rows.items():
        children.setdefault(row.parent, []).append(pid)
    found = [root] if root in rows else []
    for pid in found:
        found += children.get(pid, ())
    tasks = sum(rows[pid].tasks for pid in found)
    return Tree(tuple(found), tasks, sum(rows[pid].pages for pid in found) * _PAGE_MIB)


def proportional_mib(tree: Tree) -> float:
    """Return the memory of a tree in MiB, each shared page counted once. Slow for large processes.

    Where the kernel does not tell it of a process, its pages count in full.
    """
    rows: Mapping[int, _Row] = dict(_rows())
    total = 0.0
    for pid in tree.pids:
        share = _proportional_mib(pid)
        row = rows.get(pid)
        total += share if share is not None else row.pages * _PAGE_MIB if row else 0.0
    return total


def available_mib() -> float:
    """Return the memory of this machine that is free or can be freed, in MiB."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) / 1024
    return float("inf")


def folder_mib(folder: Path) -> float:
    """Return the disk space of a folder and of all below it, in MiB. Links are not followed."""
    blocks = 0
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                blocks += os.lstat(os.path.join(parent, name)).st_blocks
    return blocks * 512 / MIB


def _rows() -> Iterator[tuple[int, _Row]]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        # A process may end meanwhile.
        with contextlib.suppress(OSError, IndexError, ValueError):
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name stands in brackets, and may hold some itself.
                fields = file.read().rpartition(b")")[2].split()
            row = _Row(int(fields[_PARENT]), int(fields[_THREADS]), int(fields[_PAGES]))
            yield int(name), row


def _proportional_mib(pid: int) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return None

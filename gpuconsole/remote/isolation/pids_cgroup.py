"""Groups of processes of which the kernel counts how many there are: for root alone.

Others are bounded by a limit that counts in their user namespace; root is never bound by that one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from gpuconsole.remote.isolation.claimed_folders import claimed_folder

_UNIFIED = Path("/sys/fs/cgroup")
_SEPARATE = Path("/sys/fs/cgroup/pids")
_PREFIX = "gpuconsole-measure-"


@contextlib.contextmanager
def pids_group(most: int) -> Iterator[Path | None]:
    """Make a group of at most so many processes; yields the file for a member's id.

    None where no group can be made.
    """
    base = _base()
    with contextlib.ExitStack() as stack:
        members = None
        with contextlib.suppress(OSError):
            if base is not None:
                group = stack.enter_context(claimed_folder(base, _PREFIX, _remove))
                (group / "pids.max").write_text(str(most))
                members = group / "cgroup.procs"
        yield members


def _remove(group: Path) -> None:
    # One that has members yet does no harm.
    with contextlib.suppress(OSError):
        group.rmdir()


def _base() -> Path | None:
    """Return the folder in which groups with a limit of processes are made."""
    try:
        enabled = (_UNIFIED / "cgroup.subtree_control").read_text().split()
    except OSError:
        enabled = []
    base = _UNIFIED if "pids" in enabled else _SEPARATE
    usable = os.geteuid() == 0 and (base / "cgroup.procs").exists() and os.access(base, os.W_OK)
    return base if usable else None

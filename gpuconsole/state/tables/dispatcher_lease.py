"""The dispatcher's role: one console at a time launches jobs, and every write proves it.

The role is one row with an epoch that grows with each change of owner. A dispatcher that slept
through its own succession still believes in its old epoch; its writes name that epoch and are
refused.
"""

from __future__ import annotations

import os
import platform
import sqlite3

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import JournalError

STALE_AFTER_S = 15.0
"""A heartbeat older than this means the dispatcher is gone or asleep."""


class RoleLostError(JournalError):
    """Another console has become the dispatcher; what this one wanted to write was not written."""

    def __init__(self) -> None:
        super().__init__(
            "Another console dispatches now",
            "It took over because this one did not answer for a while.",
            "Nothing needs to be done: jobs go on.",
        )


@dataclass(frozen=True, slots=True)
class Role:
    """The process that dispatches. `owner` is "" if there is none."""

    epoch: int
    owner: str
    pid: int
    host: str
    heartbeat: float

    def alive(self, now: float) -> bool:
        """Whether the owner still holds the role at `now`.

        A heartbeat from the future means that the clock was set back: it cannot be trusted.
        """
        if not self.owner or abs(now - self.heartbeat) > STALE_AFTER_S:
            return False
        return self.host != this_machine() or process_exists(self.pid)


NO_DISPATCHER = Role(0, "", 0, "", 0.0)


def this_machine() -> str:
    """Return a word for this machine and process namespace: in it, and only in it, a pid says
    something."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{platform.node()} {namespace}".strip()


def process_exists(pid: int) -> bool:
    """Whether a process of that id runs here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def read_role(row: sqlite3.Row) -> Role:
    """Return the role of a row of `dispatcher`."""
    return Role(row["epoch"], row["owner"], row["pid"], row["host"], row["heartbeat"])


def take(connection: sqlite3.Connection, owner: str, now: float) -> int | None:
    """Take the role if it is free; the new epoch, or None. Call inside a transaction."""
    role = read_role(connection.execute("SELECT * FROM dispatcher WHERE id = 1").fetchone())
    if role.alive(now):
        return None
    connection.execute(
        "UPDATE dispatcher SET epoch = ?, owner = ?, pid = ?, host = ?, heartbeat = ? WHERE id = 1",
        (role.epoch + 1, owner, os.getpid(), this_machine(), now),
    )
    return role.epoch + 1


def require(connection: sqlite3.Connection, epoch: int | None) -> None:
    """Raise RoleLostError unless `epoch` is the dispatcher's. None is a user's own action."""
    if epoch is None:
        return
    row = connection.execute("SELECT epoch, owner FROM dispatcher WHERE id = 1").fetchone()
    if row["epoch"] != epoch or not row["owner"]:
        raise RoleLostError


def renew(connection: sqlite3.Connection, epoch: int, now: float) -> None:
    """Say that the owner is alive. RoleLostError when another took over."""
    done = connection.execute(
        "UPDATE dispatcher SET heartbeat = ? WHERE id = 1 AND epoch = ? AND owner <> ''",
        (now, epoch),
    )
    if done.rowcount != 1:
        raise RoleLostError


def give_back(connection: sqlite3.Connection, epoch: int) -> None:
    """Free the role at once; nothing happens when another has it already."""
    connection.execute(
        "UPDATE dispatcher SET owner = '', heartbeat = 0 WHERE id = 1 AND epoch = ?", (epoch,)
    )

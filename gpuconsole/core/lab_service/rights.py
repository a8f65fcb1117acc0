"""What a caller of the lab's queue may do: to jobs, with priorities, and in its containers.

Pure rules: the service identifies the caller (`session.lab_service.http.callers`); the lab's
settings say what is allowed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Protocol

from gpuconsole.core.jobs import Job, Mount, Task
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError

ROOT_UID = 0
WRITABLE = ":rw"
"""Ends the entry of a folder into which jobs may write."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An account that asks something of the lab's queue."""

    uid: int
    name: str
    """The account's name on the service's host, or its number where it has none."""
    groups: frozenset[str] = frozenset()
    """Names of its Unix groups there."""
    gid: int = 0
    origin: str = ""
    """Where its process comes from, for the audit."""

    def is_in(self, names: Iterable[str]) -> bool:
        """Tell whether a list of users and groups (`@group`) has this account."""
        return any(
            name[1:] in self.groups if name.startswith("@") else name == self.name for name in names
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """What jobs of the lab's queue may have; the empty lists of `Policy()` allow no mount."""

    mounts: tuple[str, ...] = ()
    """Folders of hosts that may be mounted for reading, each with what is below it; with `:rw` at
    the end for writing too, and then as a whole only."""
    images: tuple[str, ...] = ("*",)
    """Patterns of images, as `fnmatch` reads them."""
    networks: tuple[str, ...] = ("none", "lab")
    devices: int | None = None
    """Most devices of one job; None means no limit."""
    memory_mib: float | None = None
    """Most memory of a host for one job there; None means no limit."""
    ids: Mapping[str, str] | None = None
    """Numbers of users and groups on hosts by user, `uid:gid`, where they differ from those of the
    service's host; None where all containers run under the service's account."""

    def run_as(self, caller: Caller) -> str:
        """Return the user of the caller's containers, as `uid:gid`; "" for the account.

        Raises RefusedError for root: its containers would run as root too.
        """
        if self.ids is None:
            return ""
        ids = self.ids.get(caller.name, f"{caller.uid}:{caller.gid}")
        if 0 in map(int, ids.split(":")):
            raise RefusedError(
                "Containers do not run as root",
                "The lab runs each job as its user, and none as root.",
                "Submit it from another account.",
            )
        return ids


class Kept(Protocol):
    """A time in which hosts are kept for somebody, as far as rights go."""

    @property
    def name(self) -> str:
        """What it is for."""
        ...

    @property
    def users(self) -> tuple[str, ...]:
        """For which users."""
        ...

    @property
    def accounts(self) -> tuple[str, ...]:
        """For which accounts."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """For tasks that ask for these labels."""
        ...


@dataclass(frozen=True, slots=True)
class Rights:
    """Who may do more than what everybody may with their own jobs."""

    operators: tuple[str, ...] = ()
    priority: tuple[str, ...] = ()
    """Who may ask for a priority above 0, beside the operators."""
    accounts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Accounts that only these users may name; all others anybody may."""
    measure_on_device: tuple[str, ...] | None = None
    """Who may have scripts measured on idle devices, beside the operators; None means anybody."""
    gangs: tuple[str, ...] | None = None
    """Who may submit jobs over several hosts, beside the operators; None means anybody."""
    windows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Users with jobs that may ask for a reserved window by its label or account, by the window's
    name, beside the operators. Its own users need no other right."""

    def is_operator(self, caller: Caller) -> bool:
        """Tell whether the caller may act on everything; root of the service's host always may."""
        return caller.uid == ROOT_UID or caller.is_in(self.operators)

    def require_operator(self, caller: Caller, doing: str) -> None:
        """Raise RefusedError for everybody else."""
        if not self.is_operator(caller):
            raise RefusedError(
                "Only an operator may do that",
                msg(
                    "{doing} is for the lab's operators; you are {name}.",
                    doing=doing,
                    name=clean(caller.name, 80),
                ),
                "Ask one of them.",
            )

    def may_act_on(self, caller: Caller, job: Job) -> bool:
        """Tell whether a job is the caller's own, or the caller an operator."""
        return job.user == caller.name or self.is_operator(caller)

    def require_own(self, caller: Caller, job: Job) -> None:
        """Raise RefusedError for a job of somebody else, unless the caller is an operator."""
        if not self.may_act_on(caller, job):
            raise RefusedError(
                "Not your job",
                msg(
                    "Job {id} belongs to {user}; you are {name}.",
                    id=job.id,
                    user=clean(job.user, 80),
                    name=clean(caller.name, 80),
                ),
                "Its owner and the lab's operators may act on it.",
            )

    def require_priority(self, caller: Caller, priority: int) -> None:
        """Raise RefusedError for a priority above 0 without the right to it."""
        if priority > 0 and not (self.is_operator(caller) or caller.is_in(self.priority)):
            raise RefusedError(
                "No right to that priority",
                msg(
                    "{name} may ask for priorities up to 0, not {priority}.",
                    name=clean(caller.name, 80),
                    priority=priority,
                ),
                "Submit it with 0 or less, or ask an operator to raise it.",
            )

    def require_device(self, caller: Caller) -> None:
        """Raise RefusedError for a caller without the right to measure scripts on devices."""
        users = self.measure_on_device
        if users is not None and not (self.is_operator(caller) or caller.is_in(users)):
            raise RefusedError(
                "No right to measure on a device",
                msg(
                    "{name} may have scripts measured without a device alone.",
                    name=clean(caller.name, 80),
                ),
                "Choose another tier: --tier meta or --tier traced.",
            )

    def require_gang(self, caller: Caller, task: Task) -> None:
        """Raise RefusedError for a job over several hosts of somebody who may have none."""
        if task.hosts == 1 or self.gangs is None:
            return
        if not (self.is_operator(caller) or caller.is_in(self.gangs)):
            raise RefusedError(
                "No right to several hosts",
                msg(
                    "Jobs over several hosts are in the hosts' own network; {name} may have "
                    "jobs on one host alone.",
                    name=clean(caller.name, 80),
                ),
                "Ask for one host, or an operator to submit it.",
            )

    def require_account(self, caller: Caller, account: str) -> None:
        """Raise RefusedError for an account that is kept for others."""
        users = self.accounts.get(account)
        if users is not None and not (self.is_operator(caller) or caller.is_in(users)):
            raise RefusedError(
                "No right to that account",
                msg(
                    "{name} may not use the account {account}.",
                    name=clean(caller.name, 80),
                    account=clean(account, 80),
                ),
                "Name another, or none.",
            )

    def require_windows(self, caller: Caller, task: Task, windows: Iterable[Kept]) -> None:
        """Raise RefusedError for a task that gets into a reserved window by a label or an account
        that anybody could name."""
        for window in windows:
            if caller.name in window.users or caller.is_in(self.windows.get(window.name, ())):
                continue
            labels = window.labels.items()
            by_label = bool(labels) and all(task.labels.get(key) == value for key, value in labels)
            # Who may name an account that is kept for some was asked already.
            by_account = task.account in window.accounts and task.account not in self.accounts
            if (by_label or by_account) and not self.is_operator(caller):
                what = f"account {task.account}" if by_account else f"label {next(iter(labels))[0]}"
                raise RefusedError(
                    "No right to that window",
                    msg(
                        "Jobs with the {what} get the time of {window}, to which {user} has no "
                        "right.",
                        what=clean(what, 80),
                        window=clean(window.name, 80),
                        user=clean(caller.name, 80),
                    ),
                    "Leave it out, or ask an operator to submit the job.",
                )


def require_image(image: str, policy: Policy) -> None:
    """Raise RefusedError for an image that the lab's policy does not give."""
    if not any(fnmatchcase(image, pattern) for pattern in policy.images):
        allowed = ", ".join(policy.images) or "none"
        raise _refused(f"The image {clean(image, 200)}", f"Allowed are: {allowed}.")


def require_allowed(task: Task, policy: Policy) -> None:
    """Raise RefusedError for a task that asks for more than the lab's policy allows."""
    for mount in task.mounts:
        _require_mount(mount, policy.mounts)
    if task.image:
        require_image(task.image, policy)
    if task.network and task.network not in policy.networks:
        allowed = ", ".join(policy.networks) or "none"
        raise _refused(f"`network: {clean(task.network, 20)}`", f"Allowed are: {allowed}.")
    if policy.devices is not None:
        most = f"A job may have {policy.devices} at most."
        if task.devices is None:
            # It may grow beyond.
            raise _refused("An open number of devices", f"Name one. {most}")
        if task.devices > policy.devices:
            raise _refused(f"{task.devices} devices", most)
    wanted, most_mib = task.memory_limit_mib, policy.memory_mib
    if wanted is not None and most_mib is not None and wanted > most_mib:
        most = f"A job may have {format_mib(most_mib)} of a host's memory at most."
        raise _refused(f"`memory_limit: {format_mib(wanted)}`", most)


def _require_mount(mount: Mount, allowed: Iterable[str]) -> None:
    source = PurePosixPath(posixpath.normpath(mount.source))
    named = [
        (PurePosixPath(posixpath.normpath(mount.removesuffix(WRITABLE))), mount)
        for mount in allowed
    ]
    writable = [folder for folder, mount in named if mount.endswith(WRITABLE)]
    # Below a folder into which jobs write, any part of a path may be a link that one of them made.
    if source.is_absolute() and not any(folder in source.parents for folder in writable):
        if source in writable:
            return
        if mount.read_only and any(source.is_relative_to(folder) for folder, _ in named):
            return
    what = "" if mount.read_only else " for writing"
    listed = ", ".join(mount for _, mount in named) or "no folder"
    raise _refused(f"Mounting {clean(mount.source, 300)}{what}", f"Allowed are: {listed}.")


def _refused(what: str, hint: str) -> RefusedError:
    return RefusedError(
        "Not within the lab's policy", msg("{what} is not allowed here.", what=what), hint
    )

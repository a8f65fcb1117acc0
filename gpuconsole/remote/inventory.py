"""The inventory: which hosts there are and how each is reached.

The YAML file is read strictly; what comes out are `HostEntry` records with the defaults applied.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import Host
from gpuconsole.core.images import DEFAULT_IMAGE
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.user_dirs import find_inventory, inventory_path
from gpuconsole.core.wording import msg
from gpuconsole.errors import DocumentError, UsageError
from gpuconsole.remote.local_drivers import has_driver
from gpuconsole.yamldoc import Document, Section, Text, load_document, parse_document

DEFAULT_SOCKET = "/var/run/docker.sock"
SLURM_INTERVAL_S = 5.0
"""Slurm's controller serves all users: it is asked less often than a host's own agent."""

_SSH_KEYS = ("user", "port", "identity_file", "jump")
_NOT_NAMED = "queue"
"""Name of the queue's host where the inventory has no host of that name."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# Nothing that a shell or ssh reads as more than a letter: the ssh config may put address and
# account into commands (`%h`, `%n`, `%r` of ProxyCommand), and they are put there as they are.
_ADDRESS = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}|[0-9A-Fa-f:][0-9A-Fa-f:.]{1,44}(%[A-Za-z0-9._-]{1,32})?"
)
_ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]{0,127}")


def _is_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("expected letters, digits, dots, dashes and underscores, at most 63")
    return value


def _is_address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError(
            "expected a host name, ssh alias or IP address: letters, digits, dots, dashes and"
            " underscores, or an IPv6 address with or without a zone"
        )
    return value


def _is_account(value: str) -> str:
    if not _ACCOUNT.fullmatch(value):
        raise ValueError(
            "expected the name of an account: letters, digits and any of . _ - @ +, none of"
            " . - @ + at the start"
        )
    return value


def _is_absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("expected an absolute path on the host")
    return value


def _is_word(value: str) -> str:
    if not value or len(value) > 4096 or "\0" in value:
        raise ValueError("expected a word of a command, at most 4096 letters long")
    return value


Word = Annotated[str, AfterValidator(_is_word)]
Name = Annotated[str, AfterValidator(_is_name)]
Address = Annotated[str, AfterValidator(_is_address)]
Account = Annotated[str, AfterValidator(_is_account)]
HostPath = Annotated[str, AfterValidator(_is_absolute)]
Port = Annotated[int, Field(ge=1, le=65535)]
Interval = Annotated[float, Field(ge=0.2, le=3600)]


class Access(Section):
    """How hosts are reached and polled; for all under `defaults`, or for one host."""

    user: Account | None = None
    """Account on the host; without it your ssh config decides, then your own name."""
    port: Port | None = None
    """Port of sshd; without it your ssh config decides, then 22."""
    identity_file: str | None = None
    """Private key; without it your ssh config, the agent and the usual files."""
    known_hosts: str | None = None
    """File of trusted host keys; it is always checked."""
    docker_socket: HostPath | None = None
    """Unix socket of the container engine on the host."""
    image: str | None = Field(None, min_length=1)
    """Image for tasks that name none."""
    poll_interval: Interval | None = None
    """Seconds between two samples."""
    jump: Address | None = None
    """Host of this inventory, or ssh alias, through which the host is reached."""
    interface: Name | None = None
    """Network interface over which hosts of one job talk; else the one that is reached by ssh."""


class SlurmSection(Section):
    """How jobs are handed to a cluster that Slurm runs."""

    folder: HostPath | None = None
    """Folder on a filesystem that login node and nodes share; without it one in your home."""
    commands: HostPath | None = None
    """Folder of Slurm's commands, where they are not on the login node's PATH."""
    conf: HostPath | None = None
    """Its slurm.conf, where that is not in the usual place."""
    python: str = Field("python3", min_length=1)
    """The Python that runs scripts there."""
    container: list[str] = Field(default_factory=list)
    """Words before the command, such as [apptainer, exec, --nv, "{image}"]."""
    preamble: HostPath | None = None
    """A file on the cluster that each batch script reads first: modules, a virtual environment."""
    devices: dict[str, Text] = Field(default_factory=dict)
    """Slurm's types of GPUs and the models they are: `a100: A100-SXM4-80GB`."""
    partition: str = ""
    """Partition of tasks that name none; without it the cluster's own default."""


class ElasticSection(Section):
    """Limits of waking a host and of putting it to sleep."""

    wakes_per_hour: int = Field(4, ge=1, le=60)
    """How often it may be woken within an hour."""
    idle_minutes: float = Field(15.0, ge=0.05, le=10080)
    """How long nothing must have used it before it is put to sleep."""
    max_awake_hours: float | None = Field(None, gt=0, le=8760)
    """After so long awake it takes no new jobs and sleeps when the last one has ended."""
    wake_minutes: float = Field(2.0, gt=0, le=120)
    """How long waking takes, until the console has seen it itself."""
    wake_timeout_minutes: float = Field(10.0, gt=0, le=240)
    """A host that is not up after so long has not woken."""
    model: Text = ""
    """Which devices it has, for the time until the console has seen it awake: A100-SXM4-40GB."""
    devices: int = Field(0, ge=0, le=64)
    """How many."""


class HostSection(Access):
    """One host."""

    name: Name
    """What the console calls it."""
    address: Address | None = None
    """Name, IP address or ssh alias; without it the host's name."""
    local: bool = False
    """This machine: no SSH."""
    labels: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Words that tasks can ask for."""
    price_per_hour: float | None = Field(None, ge=0, le=1e6)
    """Per device, in the lab's own currency."""
    drain: bool | Text = False
    """Let no new job start here; `true`, or the reason."""
    engine: Literal["docker", "slurm"] = "docker"
    """What runs jobs there; `slurm` makes it the login node of a cluster."""
    slurm: SlurmSection | None = None
    """How jobs are handed to the cluster."""
    wake: list[Word] | None = Field(None, min_length=1)
    """Words of a command that wakes it, run on this machine and by no shell: [wakeonlan, MAC]."""
    sleep: list[Word] | None = Field(None, min_length=1)
    """Words of a command that puts it to sleep, run on this machine likewise."""
    elastic: ElasticSection | None = None
    """When it is woken and put to sleep."""
    interruptible: bool = False
    """It may be taken away at any time: only jobs that resume from a checkpoint come here."""


class QueueSection(Section):
    """The lab's one queue, which a service owns (`gpuconsole dispatch --lab`)."""

    host: Address | list[Address] | None = None
    """Host on which the service runs: one of this inventory, or an address or ssh alias. Of several
    heads, tried in their order, whichever leads."""
    local: bool = False
    """The service runs on this machine."""
    socket: HostPath = "/run/gpuconsole/queue.sock"
    """The service's socket there."""

    @model_validator(mode="after")
    def _one_place(self) -> QueueSection:
        if self.local == (self.host is not None) or self.host == []:
            raise ValueError("expected either `host` or `local: true`")
        return self

    @property
    def heads(self) -> tuple[str, ...]:
        """The hosts on which the service may run; none where it runs on this machine."""
        if self.host is None:
            return ()
        return (self.host,) if isinstance(self.host, str) else tuple(dict.fromkeys(self.host))


class InventorySection(Section):
    """The whole file."""

    version: Literal[1]
    """Version of this format."""
    defaults: Access = Access()
    """Settings of every host that does not say otherwise."""
    hosts: list[HostSection] = Field(default_factory=list)
    """The hosts, in the order in which the console shows them; with `queue` there need be none."""
    queue: QueueSection | None = None
    """The lab's queue, where it has one for everybody; without it jobs are in your own."""
    lab: LabSettings = LabSettings()
    """Settings of this lab, over those of your own config file."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One host with all defaults applied. None means: as your ssh config says."""

    name: str
    address: str = ""
    local: bool = False
    user: str | None = None
    port: int | None = None
    identity_file: Path | None = None
    known_hosts: Path = field(default_factory=lambda: Path("~/.ssh/known_hosts").expanduser())
    docker_socket: str = DEFAULT_SOCKET
    image: str = DEFAULT_IMAGE
    poll_interval: float = 1.0
    jump: str | None = None
    interface: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    price_per_hour: float | None = None
    drain: str = ""
    """Why no new job starts here, or ""."""
    slurm: SlurmSection | None = None
    """Set where it is the login node of a cluster that Slurm runs."""
    wake: tuple[str, ...] = ()
    sleep: tuple[str, ...] = ()
    elastic: ElasticSection | None = None
    interruptible: bool = False


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """Where the lab's queue is."""

    socket: str
    entries: tuple[HostEntry, ...]
    """The hosts of the service, as they are reached; of this machine one that is `local`."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The hosts of a lab and the lab's own settings."""

    source: str
    """File it was read from, or a word for where it came from."""
    hosts: tuple[HostEntry, ...]
    lab: LabSettings = field(default_factory=LabSettings)
    queue: QueueEntry | None = None
    """Where the lab's queue is; None where each user has their own."""

    def host(self, name: str) -> HostEntry | None:
        """Return the host of that name."""
        return next((host for host in self.hosts if host.name == name), None)


def unread(entry: HostEntry) -> Host:
    """Return the record of a host from which nothing was heard yet."""
    return Host(
        entry.name,
        address="" if entry.local else entry.address,
        labels=entry.labels,
        price_per_hour=entry.price_per_hour,
        drained=entry.drain,
        cluster=entry.name if entry.slurm is not None else "",
        interruptible=entry.interruptible,
    )


def load_inventory(path: Path) -> Inventory:
    """Read an inventory; DocumentError names file, line and column of a mistake, TrustError what
    lets others change the file."""
    return _checked(load_document(path, InventorySection))


def parse_inventory(text: str, source: str) -> Inventory:
    """Read an inventory from text; `source` is the name that errors give to it."""
    return _checked(parse_document(text, source, InventorySection))


def open_inventory(given: Path | None, environ: Mapping[str, str]) -> Inventory:
    """Return the inventory to use; without a file, this machine if it has a GPU."""
    path = find_inventory(given, environ)
    if path is not None:
        return load_inventory(path)
    local = local_inventory()
    if local is None:
        raise UsageError(
            "No inventory",
            msg(
                "There is no {path}, and this machine has no NVIDIA driver.", path=inventory_path()
            ),
            "Write one with `gpuconsole init`, name one with --inventory, "
            "or try the simulated lab: gpuconsole demo",
        )
    return local


def local_inventory() -> Inventory | None:
    """Return an inventory of this machine alone, or None where there is no driver of any card."""
    if not has_driver():
        return None
    name = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip("._-")[:63]
    return Inventory("this machine", (HostEntry(name or "localhost", local=True),))


def _checked(document: Document[InventorySection]) -> Inventory:
    section = document.value
    if not section.hosts and section.queue is None:
        raise document.error(
            ("hosts",), "there are no hosts", "Name at least one, or the lab's `queue`."
        )
    seen: dict[str, int] = {}
    for index, host in enumerate(section.hosts):
        first = seen.setdefault(host.name, index)
        if first != index:
            raise document.error(
                ("hosts", index, "name"),
                f"a second host is named {host.name!r}",
                f"Number {first + 1} in the list has that name; give each host its own.",
            )
        if host.slurm is not None and host.engine != "slurm":
            raise document.error(
                ("hosts", index, "slurm"),
                f"{host.name} has `slurm:` settings and is no Slurm cluster",
                "Add `engine: slurm`, or remove them.",
            )
        _check_hooks(document, index, host)
        if host.local:
            for key in ("address", *_SSH_KEYS):
                if getattr(host, key) is not None:
                    raise document.error(
                        ("hosts", index, key),
                        f"{host.name} is `local: true`, which leaves no use for `{key}`",
                        f"Remove `{key}`, or remove `local` to reach the host over SSH.",
                    )
    hosts = tuple(_entry(host, section.defaults) for host in section.hosts)
    _check_jumps(document, hosts)
    return Inventory(document.source, hosts, section.lab, _queue(section, hosts))


def _queue(section: InventorySection, hosts: Sequence[HostEntry]) -> QueueEntry | None:
    """Return where the lab's queue is; a host that the inventory has is reached as it says."""
    queue = section.queue
    if queue is None:
        return None
    if queue.local:
        return QueueEntry(queue.socket, (HostEntry("this host", local=True),))
    named = {host.name: host for host in hosts}
    entries = (
        named.get(head) or _entry(HostSection(name=_NOT_NAMED, address=head), section.defaults)
        for head in queue.heads
    )
    return QueueEntry(queue.socket, tuple(entries))


def _entry(host: HostSection, defaults: Access) -> HostEntry:
    given = host.model_dump(exclude_none=True)
    merged = {**defaults.model_dump(exclude_none=True), **given}
    # The host that all others jump through by default must not jump through itself.
    if "jump" not in given and merged.get("jump") == host.name:
        del merged["jump"]
    merged["drain"] = _drain(host.drain)
    merged["slurm"], merged["elastic"] = None, host.elastic
    for key in ("wake", "sleep"):
        merged[key] = tuple(merged.get(key, ()))
    if merged.pop("engine") == "slurm":
        merged["slurm"] = host.slurm or SlurmSection()
        # What suits all hosts need not suit one controller; what it says itself counts.
        usual = max(SLURM_INTERVAL_S, merged.get("poll_interval", 0.0))
        merged["poll_interval"] = given.get("poll_interval", usual)
    merged["labels"] = {key: _label(value) for key, value in host.labels.items()}
    if host.local:
        for key in ("address", *_SSH_KEYS, "known_hosts"):
            merged.pop(key, None)
    else:
        merged.setdefault("address", host.name)
    for key in ("identity_file", "known_hosts"):
        if key in merged:
            merged[key] = Path(merged[key]).expanduser()
    return HostEntry(**merged)


def _drain(written: bool | str) -> str:
    if isinstance(written, bool):
        return "drained in the inventory" if written else ""
    return f"drained in the inventory: {clean(written, 200)}" if written else ""


def _label(value: str | float | bool) -> str:
    # YAML reads `pool: true` as a switch; a label is a word, spelled as in YAML.
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_jumps(document: Document[InventorySection], hosts: tuple[HostEntry, ...]) -> None:
    by_name = {host.name: host for host in hosts}
    for index, host in enumerate(hosts):
        chain = [host.name]
        jump = host.jump
        while jump in by_name:
            chain.append(jump)
            if by_name[jump].local:
                raise document.error(
                    ("hosts", index, "jump"),
                    f"{host.name} cannot jump through {jump}, which is this machine",
                    "Remove `jump`: the console itself connects from this machine.",
                )
            if jump in chain[:-1]:
                raise document.error(
                    ("hosts", index, "jump"),
                    f"jump hosts go round in a circle: {' → '.join(chain)}",
                    "A chain of jump hosts must end at one that is reached directly.",
                )
            jump = by_name[jump].jump


def _check_hooks(document: Document[InventorySection], index: int, host: HostSection) -> None:
    """Raise DocumentError for keys of elastic hosts that make no sense together."""
    if host.sleep and not host.wake:
        raise _needs(document, index, "sleep", f"{host.name} could not be woken again")
    if host.elastic is not None and not host.wake:
        raise _needs(document, index, "elastic", f"{host.name} cannot be woken")
    if host.wake and (host.local or host.engine == "slurm"):
        what = "this machine" if host.local else "a cluster, which wakes its own nodes"
        raise document.error(
            ("hosts", index), f"{host.name} is {what}", "Remove `wake` and `sleep`."
        )


def _needs(document: Document[InventorySection], index: int, key: str, what: str) -> DocumentError:
    return document.error(("hosts", index, key), f"{what}: it has no `wake`", "Add it.")

"""`gpuconsole doctor`: what this machine, on which the console runs, has and lacks.

Hosts are tested by `gpuconsole check`. Nothing is changed, and nothing is asked of a network.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata, util
from pathlib import Path

from gpuconsole import __version__
from gpuconsole.config import load_settings
from gpuconsole.core.file_trust import require_private
from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.user_dirs import JOURNAL_NAME, config_path, find_inventory, state_dir
from gpuconsole.core.wording import joined, msg, name, sentences
from gpuconsole.errors import ConsoleError
from gpuconsole.extensions import OFF, VENDORS, actions, extensions
from gpuconsole.remote.check_findings import Finding
from gpuconsole.remote.inventory import load_inventory
from gpuconsole.remote.isolation.sandbox import require_sandbox
from gpuconsole.remote.ssh_config import own_config, read_aliases, require_trusted
from gpuconsole.remote.vendors import readers
from gpuconsole.remote.vendors.model import VendorReader
from gpuconsole.state.filesystem import require_local

SMALLEST = (80, 24)
"""Columns and rows for which the screens are made."""
LOW_DISK_MIB = 1024.0
"""Room for the journal, logs and recordings of some weeks."""
META_PADDLE = 3
"""The first version of Paddle on which scripts run without data."""
SAMPLE = "▁▃▅▇ ⣀⣤⣶⣿ │─┼ ✓ 主机"
"""What the screens draw: blocks, braille, lines, marks, and Chinese where that is chosen."""
EXTRAS: Mapping[str, tuple[str, str]] = {
    "serve": ("textual_serve", "the console in a browser (`gpuconsole serve`)"),
    "metrics": ("prometheus_client", "figures for Prometheus (`gpuconsole metrics`)"),
    "mcp": ("mcp", "the lab for programs (`gpuconsole mcp`)"),
    "notebook": ("IPython", "the magics of notebooks"),
    "tune": ("optuna", "searches (`gpuconsole submit --goal`)"),
}
"""The optional parts: a module that each needs, and what it is for."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal that a command was started in."""

    name: str
    """`$TERM`; empty where there is none."""
    columns: int
    rows: int
    encoding: str
    """Of standard output."""
    interactive: bool
    """Whether a person can see and type."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the tests look at."""

    environ: Mapping[str, str]
    terminal: Terminal
    inventory: Path | None
    """The inventory that was named, else None."""
    state: Path | None
    """The state folder that was named, else None."""
    install: Callable[[str], str]
    """Returns the command that installs an optional part."""


async def examine(machine: Machine) -> tuple[Finding, ...]:
    """Test this machine, and return what each step found."""
    return (
        _python(),
        *_terminal(machine.terminal),
        *_ssh(),
        await _keys(machine.environ),
        _docker(),
        _sandbox(),
        _paddle(machine.install),
        _state(machine.state),
        _settings(),
        _inventory(machine),
        *_extras(machine.install),
        *_extensions(),
    )


def _failed(step: str, error: ConsoleError) -> Finding:
    return Finding(step, "fail", joined(": ", (error.title, error.message)), error.hint)


def _hosts(count: int) -> str:
    return msg("{n} host", n=count) if count == 1 else msg("{n} hosts", n=count)


def _python() -> Finding:
    version = platform.python_version()
    said = msg(
        "{version} on Python {python} ({path}), {system}",
        version=__version__, python=version, path=sys.executable, system=sys.platform,
    )  # fmt: skip
    return Finding("gpuconsole", "ok", said)


def _terminal(terminal: Terminal) -> Iterator[Finding]:
    if not terminal.interactive:
        yield Finding("terminal", "skip", "Output goes to a file or pipe, not to a terminal.")
        return
    size = f"{terminal.columns}x{terminal.rows}"
    if terminal.name in ("", "dumb"):
        remedy = "Start the console in a terminal, and set TERM to its name."
        yield Finding("terminal", "warn", "TERM names no terminal that draws.", remedy)
    elif terminal.columns < SMALLEST[0] or terminal.rows < SMALLEST[1]:
        remedy = msg("Make the window at least {size}.", size=f"{SMALLEST[0]}x{SMALLEST[1]}")
        small = msg("{name} of {size} is small.", name=terminal.name, size=size)
        yield Finding("terminal", "warn", small, remedy)
    else:
        yield Finding("terminal", "ok", f"{terminal.name}, {size}")
    ascii_only = "Set `symbols: ascii` in config.yaml."
    if terminal.encoding.lower().replace("-", "") != "utf8":
        remedy = sentences("Use a UTF-8 locale, such as LANG=C.UTF-8.", ascii_only)
        encoding = msg("Output is in {encoding}.", encoding=terminal.encoding)
        yield Finding("symbols", "warn", encoding, remedy)
    else:
        sample = msg("{sample}  (if boxes appear here: `symbols: ascii`)", sample=SAMPLE)
        yield Finding("symbols", "ok", sample)


def _ssh() -> Iterator[Finding]:
    config = own_config()
    if not config.exists():
        none = msg("There is no {path}; the inventory names the hosts.", path=config)
        yield Finding("ssh config", "ok", none)
    else:
        try:
            require_trusted(config)
            hosts = _hosts(len(read_aliases(config)))
            named = msg("{path} names {hosts_text}.", path=config, hosts_text=hosts)
            yield Finding("ssh config", "ok", named)
        except ConsoleError as error:
            yield _failed("ssh config", error)
        except OSError as error:
            yield Finding("ssh config", "fail", f"{config}: {error.strerror}.")
    known_hosts = config.with_name("known_hosts")
    if known_hosts.exists():
        yield Finding("known hosts", "ok", f"{known_hosts}")
    else:
        remedy = "`gpuconsole check --trust HOST` shows a host's key and adds it."
        none = msg("There is no {path}: no host is trusted.", path=known_hosts)
        yield Finding("known hosts", "warn", none, remedy)


async def _keys(environ: Mapping[str, str]) -> Finding:
    """Test whether there is a key that opens hosts without a passphrase being asked for."""
    # SSH's library is imported only once it is needed.
    from gpuconsole.remote.links.host_keys import agent_keys, key_files

    held = await agent_keys(environ.get("SSH_AUTH_SOCK", ""))
    files, locked = key_files()
    said = []
    if held is not None:
        keys = "the SSH agent holds {n} key" if held == 1 else "the SSH agent holds {n} keys"
        said.append(msg(keys, n=held))
    said += [name(", ".join(files))] if files else []
    if held or files:
        return Finding("ssh keys", "ok", joined("; ", said))
    said += [msg("{files} with a passphrase", files=", ".join(locked))] if locked else []
    remedy = "Start ssh-agent and run ssh-add: the console asks for no passphrase."
    if not locked:
        remedy = "Make a key with ssh-keygen and copy it to the hosts with ssh-copy-id."
    return Finding("ssh keys", "warn", joined("; ", said) or "There is no key.", remedy)


def _docker() -> Finding:
    version = metadata.version("docker")
    said = msg("{version}; the engines of hosts are reached over SSH.", version=version)
    return Finding("docker client", "ok", said)


def _sandbox() -> Finding:
    step = "sandbox"
    try:
        require_sandbox()
    except ConsoleError as error:
        return Finding(step, "warn", joined(": ", (error.title, error.message)), error.hint)
    if shutil.which("bwrap") is None:
        remedy = "Install bubblewrap: it holds a measured script better."
        return Finding(step, "warn", "Scripts are measured here without bubblewrap.", remedy)
    return Finding(step, "ok", "Scripts can be measured here, held by bubblewrap.")


def _paddle(install: Callable[[str], str]) -> Finding:
    for package in ("paddlepaddle", "paddlepaddle-gpu"):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        if int(version.split(".")[0]) < META_PADDLE:
            remedy = msg(
                "Scripts run without data on Paddle {version}: {command}",
                version=META_PADDLE, command=install("paddle"),
            )  # fmt: skip
            return Finding("paddle", "warn", f"{package} {version}", remedy)
        said = msg("{what}: scripts can be measured here.", what=f"{package} {version}")
        return Finding("paddle", "ok", said)
    message = "Not installed: scripts are read here, and measured on hosts with an image."
    return Finding(
        "paddle", "skip", message, msg("To measure here: {command}", command=install("paddle"))
    )


def _state(given: Path | None) -> Finding:
    folder = (given or state_dir()).expanduser()
    try:
        if folder.is_dir():
            require_private(folder)
        require_local(folder)
    except ConsoleError as error:
        return _failed("state folder", error)
    except OSError as error:
        return Finding("state folder", "fail", f"{folder}: {error.strerror}.")
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(there, os.W_OK):
        remedy = "Choose a folder of your own with --state DIR."
        return Finding("state folder", "fail", msg("{path} cannot be written.", path=there), remedy)
    free_mib = shutil.disk_usage(there).free / 2**20
    note = "" if folder.is_dir() else ", made when it is first used"
    free = msg("{n} free", n=format_mib(free_mib))
    said = joined("", (name(str(folder)), note, "; ", free))
    if free_mib < LOW_DISK_MIB:
        return Finding("state folder", "warn", said, "Free some room, or choose --state DIR.")
    journal = folder / JOURNAL_NAME
    if journal.exists():
        said += msg(", journal {size}", size=format_mib(journal.stat().st_size / 2**20))
    return Finding("state folder", "ok", said)


def _settings() -> Finding:
    path = config_path()
    try:
        load_settings()
    except ConsoleError as error:
        return _failed("settings", error)
    said = name(str(path)) if path.exists() else msg("No {path}: defaults.", path=path)
    return Finding("settings", "ok", said)


def _inventory(machine: Machine) -> Finding:
    path = find_inventory(machine.inventory, machine.environ)
    if path is None:
        return Finding("inventory", "warn", "There is none yet.", "Write one: gpuconsole init")
    try:
        hosts = _hosts(len(load_inventory(path).hosts))
    except ConsoleError as error:
        return _failed("inventory", error)
    return Finding("inventory", "ok", joined(", ", (name(str(path)), hosts)))


def _extras(install: Callable[[str], str]) -> Iterator[Finding]:
    for extra, (module, what) in EXTRAS.items():
        if util.find_spec(module) is not None:
            yield Finding(extra, "ok", msg("Installed: {what_text}.", what_text=what))
        else:
            yield Finding(
                extra, "skip", msg("Not installed: {what_text}.", what_text=what), install(extra)
            )


def _extensions() -> Iterator[Finding]:
    """Say what other packages add; nothing where there is none."""
    own_actions, vendors = actions(), extensions(VENDORS, VendorReader)
    named = [(each.name, each.package) for each in own_actions.loaded]
    named += [(each.name, each.package) for each in vendors.loaded]
    for extension, package in named:
        said = msg("{name} of {package}", name=extension, package=package)
        yield Finding("extension", "ok", said)
    for fault in (*own_actions.faults, *readers().faults):
        remedy = msg("Update or remove that package; {off}=1 runs without any.", off=OFF)
        yield Finding("extension", "warn", fault, remedy)


def as_document(findings: Sequence[Finding]) -> dict[str, object]:
    """Return the `doctor --json` document."""
    return {
        "ok": all(finding.result != "fail" for finding in findings),
        "version": __version__,
        "findings": [finding.as_json() for finding in findings],
    }

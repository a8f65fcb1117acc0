"""`gpuconsole doctor`: what this machine, on which the console runs, has and lacks.

Hosts are tested by `gpuconsole check`. Nothing is changed, and nothing is asked of a network.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from gpuconsole import __version__
from gpuconsole.config import load_settings
from gpuconsole.core.places import JOURNAL_NAME, config_path, find_inventory, state_dir
from gpuconsole.core.trust import require_private
from gpuconsole.core.units import format_mib
from gpuconsole.errors import ConsoleError
from gpuconsole.remote.findings import Finding
from gpuconsole.remote.inventory import load_inventory
from gpuconsole.remote.sandbox import require_sandbox
from gpuconsole.remote.sshconfig import own_config, read_aliases, require_trusted
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
    "notebook": ("IPython", "the magics of notebooks"),
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
    )


def _failed(step: str, error: ConsoleError) -> Finding:
    return Finding(step, "fail", f"{error.title}: {error.message}", error.hint)


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _python() -> Finding:
    version = platform.python_version()
    return Finding(
        "gpuconsole", "ok", f"{__version__} on Python {version} ({sys.executable}), {sys.platform}"
    )


def _terminal(terminal: Terminal) -> Iterator[Finding]:
    if not terminal.interactive:
        yield Finding("terminal", "skip", "Output goes to a file or pipe, not to a terminal.")
        return
    size = f"{terminal.columns}x{terminal.rows}"
    if terminal.name in ("", "dumb"):
        remedy = "Start the console in a terminal, and set TERM to its name."
        yield Finding("terminal", "warn", "TERM names no terminal that draws.", remedy)
    elif terminal.columns < SMALLEST[0] or terminal.rows < SMALLEST[1]:
        remedy = f"Make the window at least {SMALLEST[0]}x{SMALLEST[1]}."
        yield Finding("terminal", "warn", f"{terminal.name} of {size} is small.", remedy)
    else:
        yield Finding("terminal", "ok", f"{terminal.name}, {size}")
    ascii_only = "Set `symbols: ascii` in config.yaml."
    if terminal.encoding.lower().replace("-", "") != "utf8":
        remedy = f"Use a UTF-8 locale, such as LANG=C.UTF-8. {ascii_only}"
        yield Finding("symbols", "warn", f"Output is in {terminal.encoding}.", remedy)
    else:
        yield Finding("symbols", "ok", f"{SAMPLE}  (if boxes appear here: `symbols: ascii`)")


def _ssh() -> Iterator[Finding]:
    config = own_config()
    if not config.exists():
        yield Finding("ssh config", "ok", f"There is no {config}; the inventory names the hosts.")
    else:
        try:
            require_trusted(config)
            hosts = _hosts(len(read_aliases(config)))
            yield Finding("ssh config", "ok", f"{config} names {hosts}.")
        except ConsoleError as error:
            yield _failed("ssh config", error)
        except OSError as error:
            yield Finding("ssh config", "fail", f"{config}: {error.strerror}.")
    known = config.with_name("known_hosts")
    if known.exists():
        yield Finding("known hosts", "ok", f"{known}")
    else:
        remedy = "`gpuconsole check --trust HOST` shows a host's key and adds it."
        yield Finding("known hosts", "warn", f"There is no {known}: no host is trusted.", remedy)


async def _keys(environ: Mapping[str, str]) -> Finding:
    """Test whether there is a key that opens hosts without a passphrase being asked for."""
    # SSH's library is imported only once it is needed.
    from gpuconsole.remote.ssh_keys import agent_keys, key_files

    held = await agent_keys(environ.get("SSH_AUTH_SOCK", ""))
    files, locked = key_files()
    said = []
    if held is not None:
        said.append(f"the SSH agent holds {held} {'key' if held == 1 else 'keys'}")
    said += [", ".join(files)] if files else []
    if held or files:
        return Finding("ssh keys", "ok", "; ".join(said))
    said += [f"{', '.join(locked)} with a passphrase"] if locked else []
    remedy = "Start ssh-agent and run ssh-add: the console asks for no passphrase."
    if not locked:
        remedy = "Make a key with ssh-keygen and copy it to the hosts with ssh-copy-id."
    return Finding("ssh keys", "warn", "; ".join(said) or "There is no key.", remedy)


def _docker() -> Finding:
    version = metadata.version("docker")
    return Finding("docker client", "ok", f"{version}; the engines of hosts are reached over SSH.")


def _sandbox() -> Finding:
    step = "sandbox"
    try:
        require_sandbox()
    except ConsoleError as error:
        return Finding(step, "warn", f"{error.title}: {error.message}", error.hint)
    if shutil.which("bwrap") is None:
        remedy = "Install bubblewrap: it holds a measured script better."
        return Finding(step, "warn", "Scripts are measured here without bubblewrap.", remedy)
    return Finding(step, "ok", "Scripts can be measured here, held by bubblewrap.")


def _paddle(install: Callable[[str], str]) -> Finding:
    for name in ("paddlepaddle", "paddlepaddle-gpu"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if int(version.split(".")[0]) < META_PADDLE:
            remedy = f"Scripts run without data on Paddle {META_PADDLE}: {install('paddle')}"
            return Finding("paddle", "warn", f"{name} {version}", remedy)
        return Finding("paddle", "ok", f"{name} {version}: scripts can be measured here.")
    message = "Not installed: scripts are read here, and measured on hosts with an image."
    return Finding("paddle", "skip", message, f"To measure here: {install('paddle')}")


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
        return Finding("state folder", "fail", f"{there} cannot be written.", remedy)
    free_mib = shutil.disk_usage(there).free / 2**20
    what = "" if folder.is_dir() else ", made when it is first used"
    said = f"{folder}{what}; {format_mib(free_mib)} free"
    if free_mib < LOW_DISK_MIB:
        return Finding("state folder", "warn", said, "Free some room, or choose --state DIR.")
    journal = folder / JOURNAL_NAME
    size = f", journal {format_mib(journal.stat().st_size / 2**20)}" if journal.exists() else ""
    return Finding("state folder", "ok", said + size)


def _settings() -> Finding:
    path = config_path()
    try:
        load_settings()
    except ConsoleError as error:
        return _failed("settings", error)
    return Finding("settings", "ok", f"{path}" if path.exists() else f"No {path}: defaults.")


def _inventory(machine: Machine) -> Finding:
    path = find_inventory(machine.inventory, machine.environ)
    if path is None:
        return Finding("inventory", "warn", "There is none yet.", "Write one: gpuconsole init")
    try:
        hosts = _hosts(len(load_inventory(path).hosts))
    except ConsoleError as error:
        return _failed("inventory", error)
    return Finding("inventory", "ok", f"{path}, {hosts}")


def _extras(install: Callable[[str], str]) -> Iterator[Finding]:
    for extra, (module, what) in EXTRAS.items():
        if util.find_spec(module) is not None:
            yield Finding(extra, "ok", f"Installed: {what}.")
        else:
            yield Finding(extra, "skip", f"Not installed: {what}.", install(extra))


def as_document(findings: Sequence[Finding]) -> dict[str, object]:
    """Return the `doctor --json` document."""
    return {
        "ok": all(finding.result != "fail" for finding in findings),
        "version": __version__,
        "findings": [finding.as_json() for finding in findings],
    }

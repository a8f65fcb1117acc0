"""Where a user's own files lie. Apart from `config`, which pays for reading documents."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from gpuconsole.core.file_trust import require_private

INVENTORY_VARIABLE = "GPUCONSOLE_INVENTORY"
"""Environment variable that names the inventory."""
STATE_VARIABLE = "GPUCONSOLE_STATE"
"""Environment variable that names the state folder."""
READ_ONLY_VARIABLE = "GPUCONSOLE_READ_ONLY"
"""Environment variable that refuses every change, set to 1."""
DEBUG_VARIABLE = "GPUCONSOLE_DEBUG"
"""Environment variable that writes a log for reports of faults, set to 1."""
CONFIG_VARIABLE = "GPUCONSOLE_CONFIG"
"""Environment variable that names the user's settings."""
NO_TOUR_VARIABLE = "GPUCONSOLE_NO_TOUR"
"""Anything in it keeps the console from showing its tour."""
JOURNAL_NAME = "journal.sqlite"
"""The journal's file in the state folder."""
MEASURED_NAME = "measured"
"""The folder of measurements in the state folder."""


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the user's settings: named by the environment, else their own
    (`$XDG_CONFIG_HOME` counts on Linux)."""
    if named := environ.get(CONFIG_VARIABLE):
        return Path(named).expanduser()
    return platformdirs.user_config_path("gpuconsole") / "config.yaml"


def inventory_path() -> Path:
    """Return the path of the user's own inventory."""
    return platformdirs.user_config_path("gpuconsole") / "inventory.yaml"


def find_inventory(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the inventory to read: given, named by the environment, the user's own, or None."""
    if given is not None:
        return given
    if named := environ.get(INVENTORY_VARIABLE):
        return Path(named).expanduser()
    own = inventory_path()
    return own if own.exists() else None


def log_dir() -> Path:
    """Return the folder of logs about the console itself; not below a state folder that was named,
    which may be what is broken."""
    return platformdirs.user_log_path("gpuconsole")


def state_dir() -> Path:
    """Return the folder of journal and logs (`$XDG_STATE_HOME` counts on Linux)."""
    return platformdirs.user_state_path("gpuconsole")


def state_folder(given: Path | None) -> Path:
    """Return the state folder: the one given, else the user's own; it need not exist.

    TrustError where others may enter or change it.
    """
    folder = (given or state_dir()).expanduser()
    if folder.is_dir():
        require_private(folder)
    return folder

"""What travels beside a job's code: the reporter, and the script that calibrates a card.

`memory_reporter` and `context_probe` run inside containers with the Python found there; the console
only packs them.
"""

from __future__ import annotations

import io
import tarfile
from importlib import resources
from pathlib import Path

FOLDER = "/gpuconsole"
"""Where the reporter lies in a container; first on Python's path there."""
REPORTS = f"{FOLDER}/.reports"
"""Where it leaves one JSON file for each process that used Paddle."""
PROBE = "probe.py"
"""The name of the script that calibrates a card, in FOLDER."""

_SITE = """\
import os
import gpuconsole_reporter
gpuconsole_reporter.start(os.path.dirname(os.path.abspath(__file__)))
"""


def pack_reporter(target: Path) -> None:
    """Write a tar of the reporter, to be unpacked into FOLDER. OSError when it cannot."""
    pack(
        target, {"sitecustomize.py": _SITE, "gpuconsole_reporter.py": _source("memory_reporter.py")}
    )


def pack_probe(target: Path) -> None:
    """Write a tar of the script that calibrates a card, to be unpacked into FOLDER."""
    pack(target, {PROBE: _source("context_probe.py")})


def pack_file(target: Path, name: str) -> None:
    """Write a tar of one empty file."""
    pack(target, {name: ""})


def pack_own_folder(target: Path) -> None:
    """Write a tar of nothing but the folder into which it is unpacked."""
    with tarfile.open(target, "w") as tar:
        entry = tarfile.TarInfo(".")
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)


def _source(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text("utf-8")


def pack(target: Path, files: dict[str, str]) -> None:
    """Write a tar of files by their names and texts."""
    with tarfile.open(target, "w") as tar:
        for name, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))

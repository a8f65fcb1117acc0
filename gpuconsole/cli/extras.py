"""Optional parts: the command that installs one into the environment that the console runs in."""

from __future__ import annotations

import re
import shlex
import sys
from importlib import metadata
from pathlib import Path

_EXTRA = re.compile(r"""^(?P<what>[^;]+?)\s*;.*\bextra\s*==\s*['"](?P<extra>[^'"]+)['"]""")


def install_command(extra: str) -> str:
    """Return the command that installs what an extra of gpuconsole needs.

    It names the packages themselves: gpuconsole may have been installed from a checkout, from which
    alone its extras could be had.
    """
    needed = []
    for said in metadata.requires("gpuconsole") or ():
        match = _EXTRA.match(said)
        if match is not None and match["extra"] == extra:
            needed.append(match["what"])
    packages = " ".join(map(shlex.quote, needed))
    # `pipx` and `uv tool` keep one environment a tool, which has no pip of its own.
    if "pipx" in Path(sys.prefix).parts:
        return f"pipx inject gpuconsole {packages}"
    return f"{shlex.quote(sys.executable)} -m pip install {packages}"

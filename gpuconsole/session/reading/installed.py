"""Which Paddle is installed on this machine, without importing it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

_VERSION = re.compile(r"^full_version\s*=\s*['\"]([^'\"]{1,40})['\"]", re.MULTILINE)
_MOST = 64 * 1024


def paddle_version() -> str:
    """Return the version of the Paddle that is installed here; "" where there is none."""
    try:
        spec = importlib.util.find_spec("paddle")
        if spec is None or spec.origin is None:
            return ""
        with open(Path(spec.origin).parent / "version" / "__init__.py", "rb") as file:
            said = _VERSION.search(file.read(_MOST).decode("utf-8", "replace"))
    except (OSError, ImportError, ValueError):
        return ""
    return said[1] if said else ""

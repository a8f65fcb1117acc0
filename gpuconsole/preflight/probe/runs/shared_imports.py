"""Libraries that a script imports first, imported once for all of its runs.

Where the batch size is written in the script itself, runs divide before its first line. What is
imported here is found as it is by the script: installed, alike however and whenever it is imported,
and without a thread of its own, with which no process can be copied.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import os
import sysconfig
import threading
import warnings

LIBRARIES = frozenset({
    "PIL", "cv2", "h5py", "imageio", "matplotlib", "numpy", "pandas", "requests", "scipy",
    "seaborn", "skimage", "sklearn", "sympy", "tqdm", "yaml",
})  # fmt: skip


SETTLED_S = 1.0
"""How long threads are waited for that libraries start while they are imported, as for a warning
that it takes long."""


def import_first(text: bytes) -> None:
    """Import what the text of a script imports in its own lines, outside of any block."""
    try:
        names = imported(text)
    except (SyntaxError, ValueError):
        return
    before = threading.enumerate()
    for name in names:
        if is_installed(name.partition(".")[0]):
            # The script meets the same error, or warning, where it imports it.
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(name)
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(SETTLED_S)


def imported(text: bytes) -> list[str]:
    """Return the modules of known libraries that a text imports, in order."""
    names: dict[str, None] = {}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Import):
            names.update((alias.name, None) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            names.setdefault(statement.module)
    return [name for name in names if name.partition(".")[0] in LIBRARIES]


def is_installed(name: str) -> bool:
    """Tell whether a module is found among what is installed, and not in the project."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    origin = os.path.realpath(spec.origin) if spec is not None and spec.origin else ""
    folders = {os.path.realpath(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    return any(origin.startswith(os.path.join(folder, "")) for folder in folders)

"""Start the probe: `python DIR/probe.py` reads a request on its standard input and answers it;
`python DIR/probe.py --run` is one run of the script, in a process of its own.

The modules of this folder, and those of `meta` in it or beside it, are loaded as the package
`gpuconsole_sandbox`: no module of a script has that name.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType

PACKAGE = "gpuconsole_sandbox"


def load(name: str) -> ModuleType:
    """Return a module of this folder, as a part of the package."""
    here = os.path.dirname(os.path.abspath(__file__))
    meta = os.path.join(here, "meta")
    if not os.path.isdir(meta):
        meta = os.path.join(os.path.dirname(here), "meta")
    for part, folders in (("", []), (".probe", [here]), (".meta", [meta])):
        spec = importlib.machinery.ModuleSpec(PACKAGE + part, None, is_package=True)
        spec.submodule_search_locations = folders
        sys.modules[PACKAGE + part] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"{PACKAGE}.probe.{name}")


if __name__ == "__main__":
    load("run" if sys.argv[1:] == ["--run"] else "measure").main()

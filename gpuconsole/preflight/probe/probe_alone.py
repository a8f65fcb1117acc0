"""One process without a network or a compiler: other ranks, hubs and extensions that are built."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import probe_imports
from probe_notes import note


def install(paddle: Any, builds: Any) -> None:
    """Replace what would start processes or list what is elsewhere and, where nothing `builds`,
    what would compile."""
    importlib.import_module("paddle.distributed")
    # The function hides the module of its name.
    for place in (paddle.distributed, sys.modules["paddle.distributed.spawn"]):
        setattr(place, "spawn", spawn)  # noqa: B010
    paddle.hub.list = _listing(paddle.hub.list)
    if not builds:
        for name in ("paddle.utils.cpp_extension", "paddle.utils.cpp_extension.cpp_extension"):
            setattr(importlib.import_module(name), "load", extended)  # noqa: B010


def spawn(func: Any, args: Any = (), nprocs: Any = -1, join: Any = True, *_: Any, **__: Any) -> Any:
    """Call the function here, as the first of its processes; return what they would be joined
    by."""
    if nprocs not in (-1, 1):
        note(f"paddle.distributed.spawn: {nprocs} processes are measured as one.")
    func(*args)
    return types.SimpleNamespace(join=lambda *_, **__: True, processes=[])


def _listing(own: Any) -> Any:
    def listed(repo_dir: Any, source: Any = "github", *args: Any, **kwargs: Any) -> Any:
        if source == "local":
            return own(repo_dir, source, *args, **kwargs)
        note(f"Not downloaded: {repo_dir}; paddle.hub lists nothing of it.")
        return []

    return listed


def extended(name: Any, *_: Any, **__: Any) -> Any:
    """Return what stands for an extension that would be compiled: it may be looked at, and what it
    computes is needed."""
    note(f"Not built here: the extension {name}.")
    probe_imports.MISSING.setdefault(str(name))
    return probe_imports.Library(str(name))

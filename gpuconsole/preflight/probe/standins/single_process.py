"""One process without a network or a compiler: other ranks, hubs and extensions that are built."""

from __future__ import annotations

import importlib
import sys
import time
import types
from typing import TYPE_CHECKING

from ..notes import note
from . import missing_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from paddle import Tensor

    from .missing_modules import Library

PAUSE_S = 0.001
"""The longest that a script waits: what it waits for is not here, or is done in no time."""


def install(paddle: ModuleType, mode: str) -> None:
    """Replace what would start processes or list what is elsewhere, in the meta tier what would
    compile, and in the traced one what only cards compute; on a device scripts wait as they do."""
    if mode != "device":
        setattr(time, "sleep", _shortly(time.sleep))  # noqa: B010
    importlib.import_module("paddle.distributed")
    # The function hides the module of its name.
    for place in (paddle.distributed, sys.modules["paddle.distributed.spawn"]):
        setattr(place, "spawn", spawn)  # noqa: B010
    for place in (paddle.distributed, paddle.distributed.stream):
        for name, instead in COLLECTIVES.items():
            if hasattr(place, name):
                setattr(place, name, _alone(paddle, getattr(place, name), instead))
    fleet = importlib.import_module("paddle.distributed.fleet")
    setattr(fleet, "distributed_model", _whole(paddle, fleet))  # noqa: B010
    paddle.hub.list = _listing(paddle.hub.list)
    # It trains a network of its own, on a device.
    paddle.utils.run_check = lambda: None
    if mode == "traced":
        # Over one rank it holds what the plain operator does.
        paddle._C_ops.sync_batch_norm_ = paddle._C_ops.batch_norm
    if mode == "meta":
        for name in ("paddle.utils.cpp_extension", "paddle.utils.cpp_extension.cpp_extension"):
            setattr(importlib.import_module(name), "load", extended)  # noqa: B010


def _shortly(sleep: Callable[[float], None]) -> Callable[[float], None]:
    """Return a `sleep` that soon returns; what it refuses it refuses."""

    def paused(seconds: float) -> None:
        sleep(min(seconds, PAUSE_S))

    return paused


def spawn(
    func: Callable[..., object],
    args: Iterable[object] = (),
    nprocs: int = -1,
    join: bool = True,
    *_: object,
    **__: object,
) -> types.SimpleNamespace:
    """Call the function here, as the first of its processes; return what they would be joined
    by."""
    if nprocs not in (-1, 1):
        note(f"paddle.distributed.spawn: {nprocs} processes are measured as one.")
    func(*args)
    return types.SimpleNamespace(join=lambda *_, **__: True, processes=[])


def _stays(*_: object, **__: object) -> None:
    """What is reduced or sent among one process stays as it is."""


def _gathered(held: list[object], own: Tensor, *_: object, **__: object) -> None:
    if not held:
        held.append(own.clone() if hasattr(own, "clone") else own)


COLLECTIVES = {
    **dict.fromkeys(("barrier", "all_reduce", "broadcast", "reduce", "broadcast_object_list",
                     "scatter", "send", "isend", "recv", "irecv"), _stays),
    "all_gather": _gathered,
    "all_gather_object": _gathered,
}  # fmt: skip
"""What talks to other ranks, and what it is where there are none."""


def _alone(
    paddle: ModuleType, own: Callable[..., object], instead: Callable[..., object]
) -> Callable[..., object]:
    """Return a function that talks to other ranks, if there are any."""

    def called(*args: object, **kwargs: object) -> object:
        if paddle.distributed.is_initialized():
            return own(*args, **kwargs)
        instead(*args, **kwargs)
        return types.SimpleNamespace(wait=lambda: True, is_completed=lambda: True)

    return called


def _whole(paddle: ModuleType, fleet: ModuleType) -> Callable[..., object]:
    """Return a function that distributes a model: where there are no other ranks, one that is not
    cut into stages is held whole, as each rank holds it."""

    own, stages = fleet.distributed_model, fleet.meta_parallel.PipelineLayer

    def distributed(model: object, *args: object, **kwargs: object) -> object:
        if isinstance(model, stages) or paddle.distributed.get_world_size() > 1:
            return own(model, *args, **kwargs)
        return paddle.DataParallel(model)

    return distributed


def _listing(own: Callable[..., object]) -> Callable[..., object]:
    def listed(
        repo_dir: object, source: object = "github", *args: object, **kwargs: object
    ) -> object:
        if source == "local":
            return own(repo_dir, source, *args, **kwargs)
        note(f"Not downloaded: {repo_dir}; paddle.hub lists nothing of it.")
        return []

    return listed


def extended(name: str, *_: object, **__: object) -> Library:
    """Return a stand-in for an extension that would be compiled: it may be looked at, and what it
    computes is needed."""
    note(f"Not built here: the extension {name}.")
    missing_modules.MISSING.setdefault(str(name))
    return missing_modules.Library(str(name))

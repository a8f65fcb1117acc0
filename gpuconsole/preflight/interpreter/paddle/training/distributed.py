"""`paddle.distributed`: what one process of several holds."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.autograd import recompute
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.training.metrics import Quiet
from gpuconsole.preflight.interpreter.paddle.training.optimizers import SEGMENT, Optimizer

_UNPROVEN = ("Terms of distributed training (reducer buffers, sharded states) follow Paddle's "
             "sources; they were not measured on cards.")  # fmt: skip


def world(run: Run) -> int:
    """Return how many processes train together: one, unless a variant asks for more."""
    return max(1, run.setting.variant.shards)


def flag(run: Run) -> None:
    """Mark a run as distributed."""
    run.findings.flags.add("distributed")
    if _UNPROVEN not in run.findings.notes:
        run.findings.notes.append(_UNPROVEN)


def _init(run: Run, *_: Value, **__: Value) -> None:
    flag(run)


def _same(run: Run, value: Value = None, *_: Value, **__: Value) -> Value:
    flag(run)
    return value


def data_parallel(run: Run, layers: Value, *_: Value, **__: Value) -> Value:
    """`paddle.DataParallel`: with several processes the reducer copies gradients into groups."""
    flag(run)
    if world(run) > 1 and isinstance(layers, Layer):
        run.mode.reduced.update(id(parameter) for _, parameter in layers.parameters())
    return layers


def sharded(run: Run, model: Value, optimizer: Value, level: Value = "os", scaler: Value = None,
            *_: Value, segment_size: Value = SEGMENT, **__: Value) -> Value:  # fmt: skip
    """`group_sharded_parallel`: states, gradients, parameters spread over the processes."""
    flag(run)
    if isinstance(optimizer, Optimizer) and level in ("os", "os_g", "p_g_os"):
        segment = segment_size if isinstance(segment_size, int) else SEGMENT
        optimizer.spread(run, level, world(run), segment)
    return (model, optimizer, scaler)


def _spawn(run: Run, function: Value, args: Value = (), *_: Value, **__: Value) -> Value:
    flag(run)
    run.interp.call(function, list(args), {})
    return None


class Environment(Native):
    """`ParallelEnv`."""

    label = "ParallelEnv"

    @exposed.prop("rank", "local_rank", "device_id", "dev_id")
    def get_rank(self, run: Run) -> Value:
        """Give the rank."""
        return 0

    @exposed.prop("world_size", "nranks")
    def get_world_size(self, run: Run) -> Value:
        """Give how many processes there are."""
        return world(run)


def _functions(table: dict[str, Callable[..., Value]]) -> dict[str, Value]:
    return {name: NativeFunction(call, name) for name, call in table.items()}


def _nothing(run: Run, *_: Value, **__: Value) -> None:
    return None


_RECOMPUTE: dict[str, Callable[..., Value]] = {
    "recompute": recompute.recompute,
    "recompute_sequential": recompute.sequential,
}
_RANKS: dict[str, Callable[..., Value]] = {
    "get_rank": lambda run, *a: 0, "get_world_size": lambda run, *a: world(run),
}  # fmt: skip


class Fleet(Quiet):
    """`fleet.Fleet`: no optimizer or network of one process is one."""


def _fleet() -> Namespace:
    return Namespace("paddle.distributed.fleet", {
        **_functions({
            "init": _init, "distributed_optimizer": _same, "worker_index": lambda run: 0,
            "distributed_model": data_parallel, "worker_num": world,
            "is_first_worker": lambda run: True, "barrier_worker": _nothing,
            "stop_worker": _nothing, **_RECOMPUTE,
        }),
        **{name: NativeClass(Quiet, name) for name in (
            "DistributedStrategy", "UserDefinedRoleMaker", "PaddleCloudRoleMaker")},
        "Fleet": NativeClass(Fleet, "Fleet"),
        "utils": Namespace("paddle.distributed.fleet.utils", _functions(_RECOMPUTE)),
        "recompute": NativeFunction(recompute.recompute, "recompute"),
    })  # fmt: skip


def namespace() -> Namespace:
    """Return `paddle.distributed`."""
    quiet = ("barrier", "all_reduce", "broadcast", "all_gather", "reduce", "scatter",
             "all_gather_object", "broadcast_object_list", "destroy_process_group",
             "new_group", "wait")  # fmt: skip
    sharding = _functions({"group_sharded_parallel": sharded, "save_group_sharded_model": _nothing})
    return Namespace("paddle.distributed", {
        "fleet": _fleet(), "sharding": Namespace("paddle.distributed.sharding", sharding),
        **sharding, **_functions(_RANKS),
        **_functions({
            "init_parallel_env": _init, "spawn": _spawn, "is_initialized": lambda run: False,
            "is_available": lambda run: True, **dict.fromkeys(quiet, _nothing),
        }),
        "ParallelEnv": NativeClass(Environment, "ParallelEnv"),
        "ReduceOp": Namespace("paddle.distributed.ReduceOp", {"SUM": 0, "MAX": 1, "AVG": 4}),
    })  # fmt: skip

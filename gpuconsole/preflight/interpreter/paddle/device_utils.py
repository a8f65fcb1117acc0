"""What Paddle has beside tensors and training: devices, profiling, utilities, versions.

None of it changes what a training step holds; sizes that a script reads here are not known.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    NativeClass,
    NativeFunction,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib.no_effect import Silent

_AMOUNTS = (
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
    "get_device_capability",
)  # fmt: skip
_ACTIONS = (
    "synchronize", "empty_cache", "reset_max_memory_allocated", "reset_max_memory_reserved",
    "reset_peak_memory_stats", "set_stream", "ipc_collect", "set_rng_state", "manual_seed",
    "manual_seed_all", "memory_summary",
)  # fmt: skip
_OTHERS = (
    "xpu", "ipu", "cinn", "rocm", "distribute", "custom_device",
)  # fmt: skip


def _nothing(run: Run, *_: Value, **__: Value) -> None:
    return None


def _amount(run: Run, *_: Value, **__: Value) -> Value:
    return run.number("what the device reports while the script runs")


def _silent(run: Run, *_: Value, **__: Value) -> Value:
    return Silent()


def _functions(table: dict[str, Callable[..., Value]]) -> dict[str, Value]:
    return {name: NativeFunction(call, name) for name, call in table.items()}


def _cards() -> dict[str, Value]:
    return {
        **_functions({
            **dict.fromkeys(_AMOUNTS, _amount), **dict.fromkeys(_ACTIONS, _nothing),
            **dict.fromkeys(("get_device_properties", "current_stream", "get_rng_state",
                             "get_device_name"), _silent),
            "device_count": lambda run: 0 if run.on_cpu else 1,
            "is_available": lambda run: not run.on_cpu,
            "is_bf16_supported": lambda run, *_: not run.on_cpu,
        }),
        **{name: NativeClass(Silent, name) for name in ("Stream", "Event")},
        **{name: NativeClass(Silent, name) for name in ("stream_guard", "device_guard")},
    }  # fmt: skip


def device() -> Namespace:
    """Return `paddle.device`; only the cards of the back end that is asked for are there."""
    return Namespace("paddle.device", {
        **_functions({
            "set_device": lambda run, name=None: name,
            "get_device": lambda run: "cpu" if run.on_cpu else "gpu:0",
            "is_compiled_with_cuda": lambda run: not run.on_cpu,
            "get_cudnn_version": lambda run: None if run.on_cpu else 8900,
            "get_available_device": lambda run: ["cpu"] if run.on_cpu else ["cpu", "gpu:0"],
            "get_all_custom_device_type": lambda run: [],
            **{f"is_compiled_with_{vendor}": lambda run, *_: False for vendor in _OTHERS},
        }),
        **_cards(), "cuda": Namespace("paddle.device.cuda", _cards()),
    })  # fmt: skip


def _generate(run: Run, key: Value) -> Value:
    return run.unique(key) if isinstance(key, str) else run.unknown("a name")


def _unique() -> Namespace:
    return Namespace("paddle.utils.unique_name", {
        **_functions({"generate": _generate, "switch": _nothing}),
        "guard": NativeClass(Silent, "guard"),
    })  # fmt: skip


def _imported(run: Run, name: Value, *_: Value) -> Value:
    return run.interp.imports.named(name)


def _utils() -> Namespace:
    return Namespace("paddle.utils", {
        **_functions({
            "run_check": _nothing, "require_version": _nothing, "try_import": _imported,
            "deprecated": lambda run, *_, **__: NativeFunction(lambda run, fn: fn, "deprecated"),
        }),
        "unique_name": _unique(),
    })  # fmt: skip


def _from_hub(run: Run, *_: Value, **__: Value) -> Value:
    unknown = run.unknown("a network from a repository: its layers are not in the project")
    run.block(unknown)
    return unknown


def names() -> dict[str, Value]:
    """Return these modules, and what `paddle` itself has of them, by name."""
    places = ("CUDAPinnedPlace", "XPUPlace", "CustomPlace")
    states = ("get_rng_state", "get_cuda_rng_state")
    actions = (
        "set_rng_state", "set_cuda_rng_state", "set_printoptions", "disable_signal_handler",
        "check_shape", "enable_compat", "disable_compat", "manual_seed",
    )  # fmt: skip
    return {
        **_functions({
            **dict.fromkeys(places, lambda run, *_: "place"), **dict.fromkeys(states, _silent),
            **dict.fromkeys(actions, _nothing), "get_flags": lambda run, *_: {},
        }),
        "LazyGuard": NativeClass(Silent, "LazyGuard"),
        "Generator": NativeClass(Silent, "Generator"),
        "profiler": Namespace("paddle.profiler", {}, quiet=True),
        "utils": _utils(),
        "hub": Namespace("paddle.hub", _functions({
            "load": _from_hub, "list": lambda run, *_, **__: [], "help": lambda run, *_, **__: "",
        })),
        "onnx": Namespace("paddle.onnx", {}, quiet=True),
        "version": Namespace("paddle.version", _functions({
            "show": _nothing, "cuda": lambda run: "False" if run.on_cpu else "12.6",
            "cudnn": lambda run: "False" if run.on_cpu else "9.5.1",
        }) | {"full_version": "3.3.1", "major": "3", "minor": "3", "patch": "1", "rc": "0"}),
        "inf": float("inf"), "nan": float("nan"), "pi": 3.141592653589793, "e": 2.718281828459045,
        "newaxis": None,
    }  # fmt: skip

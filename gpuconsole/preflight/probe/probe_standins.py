"""What a sandbox does not have, stood in for: downloads, accelerators."""

from __future__ import annotations

import os
import sys
from typing import Any

import probe_datasets
import probe_guard
from probe_notes import note

NO_FILE = "gpuconsole-no-weights.pdparams"
POINTER = b"version https://git-lfs.github.com/spec/"
MOST_RAISED = 16
"""Errors of a chain that are looked at."""
CUDNN = 8907
"""The version of cuDNN that scripts are told of, as Paddle writes 8.9.7."""


def wants_network(error: Any) -> Any:
    """Tell whether an error comes from something that would have been downloaded, if only because
    it was raised while another that does was handled."""
    raised: list[Any] = []
    while error is not None and len(raised) < MOST_RAISED:
        raised.append(f"{type(error).__name__} {error}")
        error = error.__cause__ or error.__context__
    words = " ".join(raised).lower()
    signs = ("urlopen", "name or service", "name resolution", "max retries", "connectionerror",
             "network is unreachable", "download")  # fmt: skip
    return any(sign in words for sign in signs)


def install(paddle: Any, on_device: Any = False) -> None:
    """Replace what would reach for the network, and for a device where there is none to use."""
    if not on_device:
        _on_the_cpu(paddle)
    _weights(paddle)
    probe_datasets.install(paddle)


def _on_the_cpu(paddle: Any) -> None:
    set_device = paddle.set_device
    set_device("cpu")

    def on_cpu(*_: Any, **__: Any) -> Any:
        return set_device("cpu")

    paddle.set_device = paddle.device.set_device = on_cpu
    paddle.CUDAPlace = paddle.CUDAPinnedPlace = _no_card(paddle.CPUPlace)
    paddle.Tensor.cuda = lambda self, *_, **__: self
    engine = paddle.inference.Config
    for name in ("enable_use_gpu", "enable_tensorrt_engine"):
        setattr(engine, name, lambda *_, **__: None)
    cuda = paddle.device.cuda
    for name in ("synchronize", "empty_cache"):
        setattr(cuda, name, lambda *_, **__: None)
    for name in ("max_memory_allocated", "max_memory_reserved", "memory_allocated",
                 "memory_reserved", "reset_max_memory_allocated"):  # fmt: skip
        setattr(cuda, name, lambda *_, **__: 0)
    for place, name, answer in (
        (paddle, "is_compiled_with_cuda", True), (paddle.device, "is_compiled_with_cuda", True),
        (cuda, "device_count", 1), (paddle, "get_cudnn_version", CUDNN),
        (paddle.device, "get_cudnn_version", CUDNN),
    ):  # fmt: skip
        setattr(place, name, _to_scripts(getattr(place, name), answer))
    paddle.set_flags = _of_any_build(paddle.set_flags)


def _of_any_build(set_flags: Any) -> Any:
    """Return a function that sets flags, and passes over those that only builds for cards have."""

    def set_known(flags: Any) -> None:
        for name, value in flags.items():
            try:
                set_flags({name: value})
            except ValueError:
                note(f"{name} is no flag of Paddle on a CPU: it was not set.")

    return set_known


def _to_scripts(old: Any, answer: Any) -> Any:
    """Return a function that tells scripts of a card, as their job will have one; Paddle itself is
    told what there is."""

    def asked(*args: Any, **kwargs: Any) -> Any:
        asking = sys._getframe(1).f_globals.get("__name__", "")
        own = asking.partition(".")[0] == "paddle"
        return old(*args, **kwargs) if own else answer

    return asked


def _no_card(instead: Any) -> Any:
    """Return a class whose instances are another's; `isinstance` with it is always false."""

    class Place:
        def __new__(cls, *_: Any) -> Any:
            return instead()

    return Place


def _is_pointer(path: Any) -> Any:
    """Tell whether a file holds only the words by which Git LFS finds its content."""
    try:
        with open(path, "rb") as file:
            return file.read(len(POINTER)) == POINTER
    except OSError:
        return False


def _weights(paddle: Any) -> None:
    """Pretrained weights stay as initialised: their sizes are the same."""

    def no_weights(*_: Any, **__: Any) -> Any:
        return NO_FILE

    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("paddle") and hasattr(
            module, "get_weights_path_from_url"
        ):
            setattr(module, "get_weights_path_from_url", no_weights)  # noqa: B010
    load = paddle.load

    def loaded(path: Any, *args: Any, **kwargs: Any) -> Any:
        if path == NO_FILE:
            return {}
        named = isinstance(path, (str, os.PathLike))
        if named and not os.path.exists(path) and not probe_guard.is_caught(
            probe_guard.caller(()), ("ValueError", "OSError", "FileNotFoundError")
        ):  # fmt: skip
            note(f"{os.fsdecode(path)} is not here: nothing was loaded from it.")
            return {}
        if named and _is_pointer(path):
            note(f"{os.fsdecode(path)} stands for a file of Git LFS that was not fetched: nothing "
                 "was loaded from it.")  # fmt: skip
            return {}
        return load(path, *args, **kwargs)

    paddle.load = loaded

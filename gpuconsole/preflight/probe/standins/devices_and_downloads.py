"""What a sandbox does not have, stood in for: downloads, accelerators."""

from __future__ import annotations

import functools
import os
import sys
import types
import urllib.parse
from typing import TYPE_CHECKING

from ..notes import note
from . import exception_handlers, made_up_content, paddle_datasets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from paddle.base.core import Place as PaddlePlace

NO_FILE = "gpuconsole-no-weights.pdparams"
POINTER = b"version https://git-lfs.github.com/spec/"
MOST_RAISED = 16
"""Errors of a chain that are looked at."""
MOST_NAMED = 80
"""Letters of a file's name that a note has."""
CUDNN = 8907
"""The version of cuDNN that scripts see, as Paddle writes 8.9.7."""
CARD = types.SimpleNamespace(
    name="GPU", major=8, minor=0, total_memory=80 << 30, multi_processor_count=108
)
"""What scripts see of the GPU that they ask for."""


def wants_network(error: BaseException | None) -> bool:
    """Tell whether an error comes from something that would have been downloaded, if only because
    it was raised while another that does was handled."""
    raised: list[str] = []
    while error is not None and len(raised) < MOST_RAISED:
        raised.append(f"{type(error).__name__} {error}")
        error = error.__cause__ or error.__context__
    words = " ".join(raised).lower()
    signs = ("urlopen", "name or service", "name resolution", "max retries", "connectionerror",
             "network is unreachable", "download")  # fmt: skip
    return any(sign in words for sign in signs)


def install(paddle: ModuleType, on_device: bool = False) -> None:
    """Replace what would reach for the network, and for a device where there is none to use."""
    if not on_device:
        _on_the_cpu(paddle)
    _weights(paddle)
    paddle_datasets.install(paddle)


def _on_the_cpu(paddle: ModuleType) -> None:
    set_device, get_device = paddle.set_device, paddle.get_device
    set_device("cpu")
    chosen = ["gpu:0"]

    def on_cpu(device: object = "cpu", *_: object, **__: object) -> PaddlePlace:
        chosen[0] = "gpu:0" if _is_card(device) else str(device)
        return set_device("cpu")

    for place in (paddle, paddle.device):
        setattr(place, "set_device", on_cpu)  # noqa: B010
    _by_name(("_convert_to_place", "_get_paddle_place"), _placed)
    for place in (paddle, paddle.device):
        setattr(place, "get_device", _to_scripts(get_device, lambda: chosen[0]))  # noqa: B010
    for name in ("CUDAPlace", "CUDAPinnedPlace"):
        setattr(paddle, name, _no_card(paddle.CPUPlace))
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
        (paddle.device, "get_cudnn_version", CUDNN), (cuda, "get_device_name", CARD.name),
        (cuda, "get_device_capability", (CARD.major, CARD.minor)),
        (cuda, "get_device_properties", CARD),
    ):  # fmt: skip
        setattr(place, name, _to_scripts(getattr(place, name), functools.partial(_same, answer)))
    setattr(paddle, "set_flags", _of_any_build(paddle.set_flags))  # noqa: B010


def _same(answer: object) -> object:
    return answer


def _by_name(names: tuple[str, ...], instead_of: Callable[..., object]) -> None:
    """Replace functions wherever Paddle's modules hold them."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("paddle"):
            for name in names:
                if name in vars(module):
                    setattr(module, name, instead_of(vars(module)[name]))


def _placed(own: Callable[..., object]) -> Callable[..., object]:
    """Return a function that takes the CPU for the place of a card."""
    return lambda place: own("cpu" if _is_card(place) else place)


def _is_card(device: object) -> bool:
    """Tell whether the name of a device is that of a card."""
    return isinstance(device, str) and device.lower().startswith(("gpu", "cuda", "dcu"))


def _of_any_build(set_flags: Callable[..., object]) -> Callable[..., object]:
    """Return a function that sets flags, and passes over those that only builds for cards have."""

    def set_known(flags: Mapping[str, object]) -> None:
        for name, value in flags.items():
            try:
                set_flags({name: value})
            except ValueError:
                note(f"{name} is no flag of Paddle on a CPU: it was not set.")

    return set_known


def _to_scripts(old: Callable[..., object], answer: Callable[[], object]) -> Callable[..., object]:
    """Return a function that answers scripts as if there were a GPU, as their job will have one;
    Paddle itself hears what there is."""

    def asked(*args: object, **kwargs: object) -> object:
        asking = sys._getframe(1).f_globals.get("__name__", "")
        own = asking.partition(".")[0] == "paddle"
        return old(*args, **kwargs) if own else answer()

    return asked


def _no_card(instead: Callable[[], object]) -> type:
    """Return a class with instances of another; `isinstance` with it is always false."""

    class Place:
        def __new__(cls, *_: object) -> object:  # type: ignore[misc]
            return instead()

    return Place


class Nothing(dict):  # type: ignore[type-arg]
    """A checkpoint in which there is nothing: what a script takes for a part of it has nothing
    either, and what it takes for a count or a score is 0. Arithmetic takes it for 0 too."""

    def __missing__(self, key: object) -> int | float | Nothing:
        word = str(key).lower()
        if any(part in word for part in ("epoch", "iter", "step")):
            return 0
        scored = any(part in word for part in ("loss", "best_", "_best", "acc", "score"))
        return 0.0 if scored else Nothing()

    def __index__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __format__(self, form: str) -> str:
        return format(0, form) if form else str(self)

    def __add__(self, other: float) -> float:
        return 0 + other

    __radd__ = __add__

    def __sub__(self, other: float) -> float:
        return 0 - other

    def __rsub__(self, other: float) -> float:
        return other - 0

    def __lt__(self, other: float) -> bool:
        return other > 0

    def __le__(self, other: float) -> bool:
        return other >= 0

    def __gt__(self, other: float) -> bool:
        return other < 0

    def __ge__(self, other: float) -> bool:
        return other <= 0


def _is_pointer(path: str) -> bool:
    """Tell whether a file holds only the words by which Git LFS finds its content."""
    try:
        with open(path, "rb") as file:
            return file.read(len(POINTER)) == POINTER
    except OSError:
        return False


def _weights(paddle: ModuleType) -> None:
    """Pretrained weights stay as initialised: their sizes are the same."""

    def no_weights(url: str = "", *_: object, **__: object) -> str:
        name = urllib.parse.urlsplit(str(url)).path.rpartition("/")[2][:MOST_NAMED]
        note(f"Not downloaded: {name or 'weights'}; parameters stay as initialised, which is as "
             "large.")  # fmt: skip
        return NO_FILE

    _by_name(("get_weights_path_from_url",), lambda _: no_weights)
    load = paddle.load

    def loaded(path: str, *args: object, **kwargs: object) -> object:
        if path == NO_FILE:
            return Nothing()
        named = isinstance(path, (str, os.PathLike))
        if named and not os.path.exists(path) and not exception_handlers.is_caught(
            exception_handlers.caller(()), ("ValueError", "OSError", "FileNotFoundError")
        ):  # fmt: skip
            note(f"{os.fsdecode(path)} is not here: nothing was loaded from it.")
            return Nothing()
        if named and _is_pointer(path):
            note(f"{os.fsdecode(path)} stands for a file of Git LFS that was not fetched: nothing "
                 "was loaded from it.")  # fmt: skip
            return Nothing()
        content = load(path, *args, **kwargs)
        return Nothing(content) if made_up_content.is_weights(content) else content

    setattr(paddle, "load", loaded)  # noqa: B010

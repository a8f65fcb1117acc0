"""Modules and objects that change no sizes: logging, plotting, progress bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import (
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Plain,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

SILENT = frozenset([
    "logging", "warnings", "visualdl", "matplotlib", "seaborn", "signal", "traceback",
    "pprint", "wandb", "tensorboardX", "swanlab", "loguru", "termcolor", "colorama", "rich",
    "prettytable", "tabulate", "atexit", "faulthandler", "locale", "getpass", "colorlog", "mlflow",
    "nvidia", "shutil", "uuid", "platform",
    "socket", "resource", "subprocess", "pynvml", "coloredlogs", "icecream", "IPython", "cProfile",
    "pstats", "copyreg", "socketserver",
])  # fmt: skip
"""Roots of modules of which anything may be called without an effect on memory."""
OPAQUE = frozenset([
    "threading", "tempfile", "zipfile", "tarfile",
    "urllib", "requests", "queue",
    "decimal", "fractions", "select",
    "concurrent", "pkgutil", "ctypes", "weakref", "contextvars", "gzip", "bz2",
    "datetime", "hashlib", "zlib", "base64", "statistics", "unicodedata", "textwrap",
])  # fmt: skip
"""Standard modules with results that reading the script cannot determine."""


class Silent(Native):
    """Anything of a no-effect module: every name of it exists, every call returns another."""

    label = "object"

    def init(self, run: Run, *_: Value, **__: Value) -> None:
        """Take anything."""

    def anything(self, run: Run, name: str) -> Value:
        """Give whatever is asked for."""
        return Silent()

    def call(self, interp: Interpreter, *args: Value, **__: Value) -> Value:
        """Give another; as a decorator, the function itself."""
        return args[0] if len(args) == 1 and isinstance(args[0], Function) else Silent()

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Yield an unknown."""
        yield interp.run.unknown("what a module of no effect on memory returns")

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Return an unknown."""
        return interp.run.unknown("what a module of no effect on memory returns")

    def operate(self, interp: Interpreter, *_: Value, **__: Value) -> Value:
        """Return an unknown."""
        return interp.run.unknown("what a module of no effect on memory returns")


LOCKS = ("Lock", "RLock", "Semaphore", "BoundedSemaphore", "Event", "Condition", "Barrier")
"""Of `threading`: what runs nothing of the script's; a `Thread` does."""


def http() -> Namespace:
    """Return `http`, of which `http.server` has no effect. What its requests will take is not
    followed: a network that has not run before the server begins has no forward pass, and its
    memory is unknown."""
    return Namespace("http", {"server": Namespace("http.server", quiet=True)})


def threading() -> Namespace:
    """Return `threading`, of which threads themselves are unknown."""
    locks: dict[str, Value] = {name: NativeClass(Silent, name) for name in LOCKS}
    return Namespace("threading", {**locks, "local": NativeClass(Plain, "local")})


class Bar(Silent):
    """`tqdm(items)`: the items, and a progress bar."""

    label = "tqdm"

    def __init__(self) -> None:
        super().__init__()
        self.items: Value = None

    def init(self, run: Run, iterable: Value = None, *_: Value, **__: Value) -> None:
        """Keep the items."""
        self.items = iterable

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the items; the bar holds none of them."""
        return iter(interp.iterate(self.items))

    def count(self, interp: Interpreter) -> Value:
        """Number of items."""
        return interp.call(interp.builtins["len"], [self.items], {})


def tqdm() -> Namespace:
    """Return `tqdm`."""
    bar = NativeClass(Bar, "tqdm")

    def count(run: Run, *args: Value, **_: Value) -> Value:
        bar = Bar()
        bar.items = run.interp.call(run.interp.builtins["range"], list(args), {})
        return bar

    return Namespace("tqdm", {"tqdm": bar, "trange": NativeFunction(count, "trange"),
                              "tqdm_notebook": bar}, quiet=True)  # fmt: skip

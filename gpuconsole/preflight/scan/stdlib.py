"""The few standard modules that scripts set themselves up with."""

from __future__ import annotations

import math
import os.path
from collections.abc import Callable, Iterator
from typing import Any

from gpuconsole.preflight.scan.arguments import namespace as argparse_namespace
from gpuconsole.preflight.scan.calls import Calls
from gpuconsole.preflight.scan.documents import load_json, load_yaml
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.values import (
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Stop,
    Value,
    first_unknown,
)

QUIET = (
    "print", "random", "time", "logging", "warnings", "tqdm", "copy", "typing", "visualdl",
    "datetime", "signal", "gc", "shutil", "subprocess", "traceback", "pprint", "matplotlib",
    "matplotlib.pyplot", "abc", "enum", "re", "threading", "tempfile", "platform", "socket",
    "pickle", "csv", "string", "uuid", "itertools", "operator", "glob", "sys", "types", "inspect",
)  # fmt: skip


class Open(Native):
    """An opened file: its path, when the script says it."""

    label = "file"

    def init(self, run: Run, path: Value = None, *_: Value, **__: Value) -> None:
        """Keep the path; nothing is opened."""
        self.path = path

    def enter(self, run: Run) -> Callable[[], None]:
        """Open and close are free."""
        return lambda: None

    def iterate(self, calls: Calls) -> Iterator[Value]:
        """Give one line nobody knows."""
        why = calls.run.unknown("a line of a file that the analysis does not read")
        yield from calls.iterate(why)

    def do_read(self, run: Run, *_: Value) -> Value:
        """Give contents nobody knows."""
        return run.unknown("the contents of a file that the analysis does not read")

    do_readlines = do_readline = do_read

    def do_write(self, run: Run, *_: Value) -> None:
        """Write nothing."""

    do_close = do_flush = do_writelines = do_write


def quiet(run: Run, *args: Value, **kwargs: Value) -> None:
    """Stand for a function that changes no sizes."""
    return None


def namespace_for(name: str) -> Namespace | None:
    """Return a standard module, or None when it is not modelled."""
    makers: dict[str, Callable[[], Namespace]] = {
        "argparse": argparse_namespace, "os": _os, "os.path": lambda: _path(), "math": _math,
        "json": _json, "yaml": _yaml, "collections": _collections, "functools": _functools,
        "pathlib": _pathlib, "random": _random, "time": _time, "sys": _sys, "copy": _copy,
        "tqdm": _tqdm, "tqdm.auto": _tqdm, "itertools": _itertools, "dataclasses": _dataclasses,
    }  # fmt: skip
    if name in makers:
        return makers[name]()
    return Namespace(name) if name in QUIET else None


def _functions(name: str, table: dict[str, Any], **values: Value) -> Namespace:
    names = {key: NativeFunction(call, f"{name}.{key}") for key, call in table.items()}
    return Namespace(name, {**names, **values})


def _math() -> Namespace:
    def wrap(function: Callable[..., Any]) -> Callable[..., Value]:
        def call(run: Run, *args: Value) -> Value:
            return first_unknown(*args) or function(*args)

        return call

    names = ("sqrt", "log", "log2", "log10", "exp", "ceil", "floor", "cos", "sin", "pow", "tanh",
             "fabs", "gcd", "radians", "isnan", "isinf")  # fmt: skip
    table = {name: wrap(getattr(math, name)) for name in names}
    table["prod"] = lambda run, items: math.prod(items)
    return _functions("math", table, pi=math.pi, e=math.e, inf=math.inf)


def _path() -> Namespace:
    def text(function: Callable[..., str]) -> Callable[..., Value]:
        def call(run: Run, *args: Value) -> Value:
            return first_unknown(*args) or function(*args)

        return call

    def unknown(run: Run, *args: Value) -> Value:
        return run.unknown("what lies on the disk where the script will run")

    table: dict[str, Any] = {
        name: text(getattr(os.path, name)) for name in ("join", "dirname", "basename", "splitext")
    }
    table["abspath"] = table["realpath"] = lambda run, path: path
    table.update(exists=unknown, isfile=unknown, isdir=unknown, getsize=unknown,
                 expanduser=lambda run, path: path)  # fmt: skip
    return _functions("os.path", table)


def _os() -> Namespace:
    def environ(run: Run, name: Value = None, default: Value = None) -> Value:
        if default is not None:
            return default
        return run.unknown(f"the environment variable {name}")

    class Environ(Native):
        label = "os.environ"

        def do_get(self, run: Run, name: Value, default: Value = None) -> Value:
            # The usual meaning of a default here is a plain run on one device.
            return default

        def item(self, calls: Calls, key: Value) -> Value:
            return calls.run.unknown(f"the environment variable {key}")

        def store(self, calls: Calls, key: Value, value: Value) -> None:
            """Set a variable: nothing here."""

    def unknown(run: Run, *args: Value) -> Value:
        return run.unknown("what lies on the disk where the script will run")

    table = {"listdir": unknown, "walk": unknown, "getenv": environ, "makedirs": quiet,
             "getcwd": lambda run: ".", "mkdir": quiet, "cpu_count": unknown, "getpid": unknown,
             "remove": quiet}  # fmt: skip
    return _functions("os", table, path=_path(), environ=Environ(), sep="/")


def _json() -> Namespace:
    return _functions("json", {"load": load_json, "dump": quiet,
                               "dumps": lambda run, *a, **k: run.unknown("text")})  # fmt: skip


def _yaml() -> Namespace:
    table = {"safe_load": load_yaml, "load": load_yaml, "dump": quiet}
    return _functions("yaml", table, FullLoader=None, SafeLoader=None, Loader=None)


def _collections() -> Namespace:
    def mapping(run: Run, items: Value = None, **kwargs: Value) -> Value:
        made = dict(items) if items is not None else {}
        return {**made, **kwargs}

    table = {"OrderedDict": mapping, "defaultdict": lambda run, *a: {},
             "Counter": lambda run, *a: {}, "deque": lambda run, items=(), *a, **k: list(items),
             "namedtuple": lambda run, *a, **k: run.unknown("a namedtuple")}  # fmt: skip
    return _functions("collections", table)


class Partial(Native):
    """`functools.partial`."""

    label = "partial"

    def init(self, run: Run, function: Value, *args: Value, **kwargs: Value) -> None:
        """Keep the function and what was given."""
        self.function, self.args, self.kwargs = function, args, kwargs

    def call(self, calls: Calls, *args: Value, **kwargs: Value) -> Value:
        """Call with both."""
        return calls.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})


def _functools() -> Namespace:
    def keep(run: Run, *args: Value, **kwargs: Value) -> Value:
        return args[0] if args and isinstance(args[0], Function) else None

    table = {"wraps": keep, "lru_cache": keep, "cache": keep}
    return _functions("functools", table, partial=NativeClass(Partial, "partial"))


def _pathlib() -> Namespace:
    return _functions("pathlib", {"Path": lambda run, *a: run.unknown("a path on the disk")})


def _random() -> Namespace:
    def unknown(run: Run, *args: Value) -> Value:
        return run.number("a number drawn at random")

    names = ("random", "randint", "uniform", "choice", "randrange", "gauss", "sample")
    return _functions("random", {**dict.fromkeys(names, unknown), "seed": quiet,
                                 "shuffle": quiet})  # fmt: skip


def _time() -> Namespace:
    def now(run: Run) -> Value:
        return run.unknown("the time")

    names = ("time", "perf_counter", "monotonic", "strftime", "localtime")
    return _functions("time", {**dict.fromkeys(names, lambda run, *a: now(run)), "sleep": quiet})


def _sys() -> Namespace:
    def leave(run: Run, *args: Value) -> Value:
        raise Stop

    return _functions(
        "sys", {"exit": leave}, path=[], stdout=Open(), stderr=Open(), argv=["script"]
    )


def _copy() -> Namespace:
    def deep(calls: Run, value: Value) -> Value:
        clone = getattr(value, "clone", None)
        return clone(calls) if clone is not None else value

    return _functions("copy", {"copy": deep, "deepcopy": deep})


def _tqdm() -> Namespace:
    def wrap(run: Run, items: Value = None, *args: Value, **kwargs: Value) -> Value:
        return items

    return _functions("tqdm", {"tqdm": wrap, "trange": lambda run, n, **k: range(n)})


def _itertools() -> Namespace:
    def chain(run: Run, *parts: Value) -> Value:
        return [one for part in parts for one in part]

    return _functions("itertools", {"chain": chain})


def _dataclasses() -> Namespace:
    return _functions("dataclasses", {"field": lambda run, default=None, **k: default})

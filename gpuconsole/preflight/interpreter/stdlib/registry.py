"""The standard modules that scripts set themselves up with, by their names."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed, mappings
from gpuconsole.preflight.interpreter.domain.values import (
    Exit,
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    SomeNumber,
    Unknown,
    Value,
    Wrapped,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine import calls, operators
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy import random as numpy_random
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.interpreter.stdlib import (
    collections_itertools,
    dataclasses_enum,
    function_tools,
    futures,
    no_effect,
    os_listing,
    os_pathlib,
    small_modules,
    toml_ini,
)
from gpuconsole.preflight.interpreter.stdlib import csv as stdlib_csv
from gpuconsole.preflight.interpreter.stdlib import io as stdlib_io
from gpuconsole.preflight.interpreter.stdlib import re as stdlib_re
from gpuconsole.preflight.interpreter.stdlib.isinstance_checks import NUMBERS
from gpuconsole.preflight.interpreter.stdlib.json_yaml import load_json, load_yaml

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

MAX_FACTORIAL = 200
MAX_BITS = 2**16
"""Of all the whole numbers that a function is given."""


def quiet_function(run: Run, *args: Value, **kwargs: Value) -> None:
    """Stand for a function that changes no sizes."""
    return None


def modules(run: Run) -> dict[str, Callable[[], Namespace]]:
    """Return what makes the model of a module, by the module's name."""
    return {
        "os": os_pathlib.os_module, "math": _math, "json": _json,
        "yaml": _yaml, "configparser": toml_ini.ini,
        "tomllib": toml_ini.toml, "tomli": toml_ini.toml, "toml": toml_ini.toml,
        "collections": collections_itertools.collections,
        "functools": collections_itertools.functools,
        "pathlib": os_pathlib.pathlib, "random": _random, "time": _time, "sys": _sys, "copy": _copy,
        "threading": no_effect.threading, "weakref": _weakref,
        "numbers": _numbers, "multiprocessing": _multiprocessing,
        "concurrent": futures.concurrent, "http": no_effect.http,
        "tqdm": no_effect.tqdm, "gc": _gc, "itertools": collections_itertools.itertools_module,
        "enum": dataclasses_enum.enum, "dataclasses": dataclasses_enum.dataclasses,
        "typing": _typing, "typing_extensions": _typing,
        "abc": _abc, "types": _types, "contextlib": _contextlib, "asyncio": _asyncio,
        "importlib": _importlib, "glob": os_listing.glob,
        "io": stdlib_io.io, "codecs": stdlib_io.codecs,
        "string": _string, "re": stdlib_re.namespace, "regex": stdlib_re.namespace,
        "bisect": small_modules.bisect,
        "heapq": small_modules.heapq, "operator": function_tools.operator,
        "struct": small_modules.structs,
        "pickle": small_modules.pickle, "csv": stdlib_csv.namespace,
        "inspect": lambda: _inspecting().inspect(), "ast": lambda: _inspecting().syntax(),
        "six": lambda: _inspecting().six(run),
    }  # fmt: skip


def _inspecting() -> ModuleType:
    # Few scripts need it, and every estimate would pay for loading it.
    from gpuconsole.preflight.interpreter.stdlib import inspect_ast_six

    return inspect_ast_six


def _functions(name: str, table: dict[str, Callable[..., Value]], **values: Value) -> Namespace:
    names = {key: NativeFunction(call, f"{name}.{key}") for key, call in table.items()}
    return Namespace(name, {**names, **values})


def _math() -> Namespace:
    def wrap(function: Callable[..., Value]) -> Callable[..., Value]:
        def call(run: Run, *args: Value) -> Value:
            # A number that NumPy or Paddle holds is one all the same.
            numbers = [operators.plain_key(run, argument) for argument in args]
            if first_unknown(*args) is None and first_unknown(*numbers) is not None:
                return run.number("a number out of data")
            if sum(number.bit_length() for number in numbers if isinstance(number, int)) > MAX_BITS:
                return run.unknown("numbers too large to follow")
            return first_unknown(*args) or function(*numbers)

        return call

    def bounded(run: Run, n: Value, *more: Value) -> Value:
        if isinstance(n, int) and n > MAX_FACTORIAL:
            return run.unknown("a number too large to follow")
        return first_unknown(n, *more) or (math.comb(n, *more) if more else math.factorial(n))

    def usual(name: str, answer: bool) -> Callable[..., Value]:
        # A number out of training is taken to be finite: scripts ask in order to give up.
        plain = wrap(getattr(math, name))

        def call(run: Run, number: Value) -> Value:
            data = isinstance(number, (SomeNumber, Tensor, Array))
            return answer if data else plain(run, number)

        return call

    names = ("sqrt", "log", "log2", "log10", "log1p", "exp", "expm1", "ceil", "floor", "trunc",
             "cos", "sin", "tan", "pow", "tanh", "sinh", "cosh", "atan", "atan2", "acos", "asin",
             "fabs", "gcd", "lcm", "radians", "degrees", "isclose",
             "hypot", "fmod", "copysign", "erf", "isqrt")  # fmt: skip
    table = {name: wrap(getattr(math, name)) for name in names}
    table["prod"] = lambda run, items: _product(run, items)
    table["fsum"] = lambda run, items: run.interp.call(run.interp.builtins["sum"], [items], {})
    table.update(factorial=bounded, comb=bounded, isfinite=usual("isfinite", True),
                 isnan=usual("isnan", False), isinf=usual("isinf", False))  # fmt: skip
    return _functions("math", table, pi=math.pi, e=math.e, inf=math.inf, tau=math.tau)


def _product(run: Run, items: Value) -> Value:
    total: Value = 1
    for item in run.interp.iterate(items):
        total = run.interp.binary(ast.Mult, total, item)
    return total


def _json() -> Namespace:
    return _functions("json", {
        "load": load_json, "loads": load_json, "dump": quiet_function,
        "dumps": _dumped,
    })  # fmt: skip


def _dumped(run: Run, value: Value, *_: Value, **__: Value) -> Value:
    if first_unknown(value) is not None:
        return run.unknown("text made from a value that is not known")
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return run.unknown("text made from a value that is not known")
    run.interp.tick(len(text) // 64)
    return text


def _yaml() -> Namespace:
    loads = ("safe_load", "load", "full_load", "unsafe_load")
    table = {**dict.fromkeys(loads, load_yaml), "dump": quiet_function, "safe_dump": quiet_function,
             "add_constructor": quiet_function, "add_representer": quiet_function}  # fmt: skip
    loaders = ("FullLoader", "SafeLoader", "Loader", "CLoader", "CSafeLoader", "UnsafeLoader")
    return _functions("yaml", table, **dict.fromkeys(loaders), YAMLError=None, __version__="6.0.2")


def _random() -> Namespace:
    return _functions(
        "random",
        {
            **numpy_random.STANDARD,
            "seed": quiet_function,
            "shuffle": quiet_function,
            "getstate": quiet_function,
            "setstate": quiet_function,
        },
        Random=NativeClass(numpy_random.StandardRandom, "Random"),
        SystemRandom=NativeClass(numpy_random.StandardRandom, "SystemRandom"),
    )


def _time() -> Namespace:
    def now(run: Run, *_: Value) -> Value:
        return run.number("the time")

    def text(run: Run, *_: Value) -> Value:
        return run.unknown("the time")

    return _functions("time", {
        **dict.fromkeys(("time", "perf_counter", "monotonic", "process_time", "time_ns"), now),
        **dict.fromkeys(("strftime", "localtime", "ctime", "asctime", "gmtime"), text),
        "sleep": quiet_function,
    })  # fmt: skip


def _gc() -> Namespace:
    def collect(run: Run, *_: Value, **__: Value) -> Value:
        run.uncollected.clear()
        return run.number("how many objects were collected")

    silent = ("enable", "disable", "isenabled", "freeze", "unfreeze", "get_threshold",
              "set_threshold", "get_count", "get_stats", "get_objects", "get_referrers",
              "get_referents", "set_debug", "callbacks", "garbage")  # fmt: skip
    return Namespace("gc", {
        "collect": NativeFunction(collect, "collect"),
        **{name: no_effect.Silent() for name in silent},
    })  # fmt: skip


def _sys() -> Namespace:
    def leave(run: Run, *args: Value) -> Value:
        raise Exit

    silent = {name: no_effect.Silent() for name in ("stdout", "stderr", "stdin", "flags")}
    return _functions(
        "sys",
        {"exit": leave, "getsizeof": lambda run, *_: run.number("a size"),
         "setrecursionlimit": quiet_function, "getrecursionlimit": lambda run: 1000,
         "exc_info": lambda run: (None, None, None)},
        path=[], argv=["script"], platform="linux", maxsize=2**63 - 1, executable="python",
        version="3.11", version_info=(3, 11, 0, "final", 0), byteorder="little", **silent,
    )  # fmt: skip


def _weakref() -> Namespace:
    """Return `weakref`, of which the dictionary holds its values for as long as their keys live."""
    return _functions("weakref", {"WeakKeyDictionary": lambda run, items=None: dict(items or {})})


def _numbers() -> Namespace:
    return Namespace("numbers", {name: NativeClass(Native, name) for name in NUMBERS})


def _multiprocessing() -> Namespace:
    """Return `multiprocessing` as far as scripts set it up; what others compute is not followed."""
    quiet = ("set_start_method", "freeze_support", "set_executable", "log_to_stderr")
    return _functions("multiprocessing", {
        **dict.fromkeys(quiet, quiet_function),
        "cpu_count": lambda run: run.number("how many processors there are"),
    })  # fmt: skip


def _copy() -> Namespace:
    return _functions(
        "copy",
        {
            "copy": lambda run, value: run.interp.copied(value, deep=False),
            "deepcopy": lambda run, value, *_: run.interp.copied(value),
        },
    )


def _typing() -> Namespace:
    kinds = ("Generic", "Protocol", "TypedDict", "Any", "Optional", "Union", "List", "Dict",
             "Tuple", "Callable", "Iterable", "Sequence", "Type", "Set", "Iterator", "Literal",
             "Mapping", "Annotated", "ClassVar", "Final", "Generator", "Text", "Hashable",
             "MutableMapping", "DefaultDict", "OrderedDict", "Deque", "FrozenSet", "NoReturn",
             "Awaitable", "Coroutine", "AnyStr", "Self", "TypeAlias", "NewType")  # fmt: skip
    table: dict[str, Callable[..., Value]] = {
             "cast": lambda run, kind, value: value, "TypeVar": quiet_function,
             "NamedTuple": dataclasses_enum.namedtuple, "ParamSpec": quiet_function,
             "get_type_hints": lambda run, *_, **__: run.unknown("type hints"),
             **dict.fromkeys(("overload", "final", "runtime_checkable", "no_type_check"),
                             lambda run, value: value)}  # fmt: skip
    return _functions("typing", table, TYPE_CHECKING=False,
                      **{name: NativeClass(Native, name) for name in kinds})  # fmt: skip


def _abc() -> Namespace:
    def keep(run: Run, function: Value) -> Value:
        return function

    def attribute(run: Run, function: Value) -> Value:
        if isinstance(function, Function):
            function.kind = "property"
        return function

    names = {"abstractmethod": keep, "abstractproperty": attribute,
             "abstractclassmethod": keep, "abstractstaticmethod": keep}  # fmt: skip
    return _functions("abc", names, ABC=NativeClass(Native, "ABC"),
                      ABCMeta=NativeClass(Native, "ABCMeta"))  # fmt: skip


def _types() -> Namespace:
    def proxy(run: Run, mapping: Value) -> Value:
        return mapping

    def method(run: Run, function: Value, instance: Value) -> Value:
        if isinstance(function, (Function, Wrapped)):
            return run.interp.bind(function, instance)
        if isinstance(function, Unknown):
            return function
        return NativeFunction(
            lambda run, *args, **kwargs: run.interp.call(function, [instance, *args], kwargs),
            "method",
        )

    kinds = ("FunctionType", "ModuleType", "LambdaType", "GeneratorType")
    return _functions("types", {"MappingProxyType": proxy},
                      SimpleNamespace=NativeClass(mappings.SimpleNamespace, "SimpleNamespace"),
                      MethodType=NativeClass(Native, "MethodType", method),
                      **{name: NativeClass(Native, name) for name in kinds})  # fmt: skip


class Managed(Native):
    """What a function under `@contextmanager` returns."""

    label = "context"

    def __init__(self) -> None:
        super().__init__()
        self.given: Value = None

    def bound(self, interp: Interpreter) -> Value:
        """Give what the function yields."""
        return next(iter(interp.iterate(self.given)), None)

    def enter(self, run: Run) -> Callable[[], None]:
        """Run the function to its end when the block is left."""

        def leave() -> None:
            for item in run.interp.iterate(self.given):
                del item

        return leave if not isinstance(self.given, list) else lambda: None


class Stack(no_effect.Silent):
    """`contextlib.ExitStack`: contexts that are left together, the last first."""

    label = "ExitStack"

    def __init__(self) -> None:
        super().__init__()
        self.leaving: list[Callable[[], None]] = []

    def enter(self, run: Run) -> Callable[[], None]:
        """Leave what the block entered when it ends."""
        return partial(self.do_close, run)

    @exposed.method("enter_context")
    def do_enter_context(self, run: Run, context: Value) -> Value:
        """Enter one more."""
        value, leave = run.interp.entered(context)
        self.leaving.append(leave)
        return value

    @exposed.method("callback")
    def do_callback(self, run: Run, function: Value, *args: Value, **kwargs: Value) -> Value:
        """Call a function when the block is left."""
        call = partial(run.interp.call, function, list(args), kwargs)
        self.leaving.append(lambda: calls.void(call()))
        return function

    @exposed.method("close")
    def do_close(self, run: Run) -> None:
        """Leave them all."""
        while self.leaving:
            self.leaving.pop()()


def _contextlib() -> Namespace:
    def manager(run: Run, function: Value) -> Value:
        def call(run: Run, *args: Value, **kwargs: Value) -> Value:
            manager_ = Managed()
            manager_.given = run.interp.call(function, list(args), kwargs)
            return manager_

        return NativeFunction(call, "contextmanager")

    def holding(run: Run, value: Value = None, *_: Value) -> Value:
        manager_ = Managed()
        manager_.given = [value]
        return manager_

    def keep(run: Run, function: Value) -> Value:
        return function

    return _functions("contextlib", {
        "contextmanager": manager, "asynccontextmanager": manager, "nullcontext": holding,
        "closing": holding, "suppress": lambda run, *_: holding(run), "ContextDecorator": keep,
        "redirect_stdout": holding, "redirect_stderr": holding,
    }, ExitStack=NativeClass(Stack, "ExitStack"))  # fmt: skip


def _asyncio() -> Namespace:
    def result(run: Run, value: Value = None, *_: Value, **__: Value) -> Value:
        return value

    table = {"run": result, "create_task": result, "ensure_future": result, "wait_for": result,
             "gather": lambda run, *args, **_: list(args), "sleep": quiet_function}  # fmt: skip
    return _functions("asyncio", table)


def _importlib() -> Namespace:
    def load(run: Run, name: Value, package: Value = None) -> Value:
        return run.interp.imports.named(name, package)

    util = _functions("importlib.util", {
        "find_spec": lambda run, *_: run.unknown("whether a module is installed"),
        "spec_from_file_location": lambda run, *_, **__: run.unknown("a module by its file"),
    })  # fmt: skip
    return _functions("importlib", {"import_module": load, "reload": lambda run, module: module},
                      util=util)  # fmt: skip


def _string() -> Namespace:
    import string

    names = ("ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits", "punctuation",
             "printable", "hexdigits", "whitespace")  # fmt: skip
    return Namespace("string", {name: getattr(string, name) for name in names})

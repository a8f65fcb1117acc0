"""Names that libraries once had and lack here, for scripts that were written for those versions.

The job's image has the versions that its script needs; this machine has one of each library. A name
is given only to code of the project, only where the library lacks it, and the answer says so.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import types
from typing import TYPE_CHECKING, NamedTuple

from ..notes import note
from . import gym_environments
from .missing_files import when_imported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType, ModuleType

    from numpy import ndarray
    from numpy.typing import DTypeLike


_TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN = tuple(os.path.join(_TOP, part, "") for part in ("probe", "meta"))
"""The folders of what runs beside a script."""


class _ArgSpec(NamedTuple):
    """What `inspect.getargspec` returned."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[object, ...] | None


def install(root: str) -> None:
    """Give code below `root` what it asks of older versions of libraries."""
    import collections
    import collections.abc

    import numpy

    compat = types.SimpleNamespace(long=int, unicode=str)
    _types(numpy)
    _of_bytes(numpy, root)
    _uneven(numpy, root)
    _offer(numpy, {**_numpy_names(numpy), "compat": compat}, root)
    abstract = {name: getattr(collections.abc, name) for name in collections.abc.__all__}
    _offer(collections, abstract, root)
    clocks = importlib.import_module("time")
    _offer(clocks, {"clock": clocks.perf_counter}, root)
    _offer(inspect, {"getargspec": lambda f: _ArgSpec(*inspect.getfullargspec(f)[:4])}, root)
    when_imported(
        "PIL.Image",
        lambda module: _offer(
            module,
            {
                "ANTIALIAS": module.LANCZOS,
                "LINEAR": module.BILINEAR,
                "CUBIC": module.BICUBIC,
            },
            root,
        ),
    )
    when_imported("mmcv", lambda module: _moved(module, root))
    when_imported("yaml", lambda module: _load_without_loader(module, root))
    when_imported("pandas", lambda module: _older_pandas(module, root))
    when_imported("scipy.linalg", lambda module: _idle(module, "solve_triangular", "debug", root))
    gym_environments.install(root)


def _numpy_names(numpy: ModuleType) -> dict[str, object]:
    """Return what NumPy had before its second version: types, numbers and functions."""
    kinds = {
        "bool": bool,
        "int": int,
        "float": float,
        "complex": complex,
        "object": object,
        "str": str,
        "long": int,
        "unicode": str,
        "float_": numpy.float64,
        "complex_": numpy.complex128,
        "unicode_": numpy.str_,
        "string_": numpy.bytes_,
    }
    values = {"Inf": numpy.inf, "Infinity": numpy.inf, "PINF": numpy.inf, "infty": numpy.inf,
              "NINF": -numpy.inf, "NaN": numpy.nan, "NAN": numpy.nan}  # fmt: skip
    functions = {
        "product": numpy.prod,
        "cumproduct": numpy.cumprod,
        "alltrue": numpy.all,
        "sometrue": numpy.any,
        "in1d": numpy.isin,
        "row_stack": numpy.vstack,
        "round_": numpy.round,
        "mat": numpy.asmatrix,
        "msort": functools.partial(numpy.sort, axis=0),
        "asscalar": lambda array: array.item(),
        "asfarray": _as_floats,
        "trapz": getattr(numpy, "trapezoid", None),
    }
    return {**kinds, **values, **functions}


def _moved(mmcv: ModuleType, root: str) -> None:
    """Answer for what MMCV left to MMEngine."""
    try:
        engine = importlib.import_module("mmengine")
    except ImportError:
        return
    _offer(mmcv, {name: value for name, value in vars(engine).items() if name[0] != "_"}, root)


def _types(numpy: ModuleType) -> None:
    """Give libraries of NumPy's first version, too, the lists of its types by kind."""
    codes = {"int": "bhil", "uint": "BHIL", "float": "efdg", "complex": "FDG", "others": "?OSUV"}
    if "sctypes" not in vars(numpy):
        sctypes = {
            kind: [numpy.dtype(code).type for code in which] for kind, which in codes.items()
        }
        setattr(numpy, "sctypes", sctypes)  # noqa: B010


def _of_bytes(numpy: ModuleType, root: str) -> None:
    """Let `numpy.fromstring` copy bytes, as it did before NumPy 2.3."""
    inside = os.path.join(os.path.abspath(root), "")
    old = numpy.fromstring

    @functools.wraps(old)
    def copied(
        string: str | bytes,
        dtype: DTypeLike = float,
        count: int = -1,
        *,
        sep: str = "",
        **more: object,
    ) -> ndarray:
        if sep == "" and _asks(inside):
            note("numpy.fromstring takes no bytes in the version that is installed here; "
                 "they were copied, as in older ones.")  # fmt: skip
            content = string.encode() if isinstance(string, str) else string
            return numpy.frombuffer(content, dtype, count).copy()
        return old(string, dtype, count, sep=sep, **more)

    setattr(numpy, "fromstring", copied)  # noqa: B010


def _uneven(numpy: ModuleType, root: str) -> None:
    """Make an array of objects of rows that are not alike, as NumPy did before 1.24."""
    inside = os.path.join(os.path.abspath(root), "")
    for name in ("array", "asarray"):
        setattr(numpy, name, _objects(getattr(numpy, name), inside))


def _objects(make: Callable[..., object], inside: str) -> Callable[..., object]:
    @functools.wraps(make)
    def made(*given: object, **options: object) -> object:
        try:
            return make(*given, **options)
        except ValueError as error:
            if "inhomogeneous" not in str(error) or len(given) > 1 or "dtype" in options:
                raise
            if not _asks(inside):
                raise
            note(f"numpy.{make.__name__} takes no rows that are not alike in the version that is "
                 "installed here; they became objects, as in older ones.")  # fmt: skip
            return make(*given, dtype=object, **options)

    return made


def _as_floats(values: object, dtype: DTypeLike | None = None) -> ndarray:
    import numpy

    return numpy.asarray(values, dtype or numpy.float64)


def _offer(module: ModuleType, names: Mapping[str, object], root: str) -> None:
    """Answer for names that a module has no more."""
    inside = os.path.join(os.path.abspath(root), "")
    old = vars(module).get("__getattr__")

    def asked(name: str) -> object:
        if names.get(name) is not None and _asks(inside):
            note(f"{module.__name__}.{name} is no more in the version that is installed here; "
                 "what it was in older ones is in its place.")  # fmt: skip
            return names[name]
        if old is not None:
            return old(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    setattr(module, "__getattr__", asked)  # noqa: B010


def _asks(inside: str) -> bool:
    """Tell whether the caller of this is asked by code of the project; what this package has put
    in place of a function between the two does not count."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame is not None and os.path.abspath(frame.f_code.co_filename).startswith(inside)


def _load_without_loader(yaml: ModuleType, root: str) -> None:
    """Let `yaml.load` do without a loader, as it did before PyYAML 6."""
    inside = os.path.join(os.path.abspath(root), "")
    for name in ("load", "load_all"):
        old = getattr(yaml, name)
        if inspect.signature(old).parameters["Loader"].default is not inspect.Parameter.empty:
            continue

        setattr(yaml, name, _defaulted(old, yaml.FullLoader, inside))


def _older_pandas(pandas: ModuleType, root: str) -> None:
    """Let pandas be called as before its second and third version."""
    _by_place(pandas, root)
    inside = os.path.join(os.path.abspath(root), "")
    for name in ("read_csv", "read_table"):
        setattr(pandas, name, _separated(getattr(pandas, name), inside))

    def append(self: object, other: object, ignore_index: bool = False, **_: object) -> object:
        others = other if isinstance(other, (list, tuple)) else [other]
        rows = [pandas.DataFrame([row]) if isinstance(row, (dict, pandas.Series)) else row
                for row in others]  # fmt: skip
        return pandas.concat([self, *rows], ignore_index=ignore_index)

    for kind, name, method in (
        (pandas.DataFrame, "append", append),
        (pandas.DataFrame, "iteritems", pandas.DataFrame.items),
        (pandas.Series, "iteritems", pandas.Series.items),
    ):
        if not hasattr(kind, name):
            setattr(kind, name, _noted(method, name, inside))


def _noted(method: Callable[..., object], name: str, inside: str) -> Callable[..., object]:
    """Return a method that is no more, for code of the project."""

    @functools.wraps(method)
    def called(self: object, *given: object, **options: object) -> object:
        if not _asks(inside):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        note(f"pandas: {name} is no more in the version that is installed here; what it was in "
             "older ones is in its place.")  # fmt: skip
        return method(self, *given, **options)

    return called


def _separated(read: Callable[..., object], inside: str) -> Callable[..., object]:
    """Return a reader of tables that takes the options of older versions too."""
    options_ = set(inspect.signature(read).parameters)

    @functools.wraps(read)
    def called(*given: object, **options: object) -> object:
        dropped = OLD_OPTIONS & options.keys() - options_
        if dropped and _asks(inside):
            note(f"pandas.{read.__name__} takes no {', '.join(sorted(dropped))} in the version "
                 "that is installed here; it was taken as in older ones.")  # fmt: skip
            old = {name: options.pop(name) for name in dropped}
            if old.get("delim_whitespace"):
                options["sep"] = r"\s+"
            if old.get("error_bad_lines") is False:
                options["on_bad_lines"] = "skip"
        return read(*given, **options)

    return called


OLD_OPTIONS = {"delim_whitespace", "error_bad_lines", "warn_bad_lines", "infer_datetime_format",
               "mangle_dupe_cols", "keep_date_col"}  # fmt: skip
"""What `read_csv` took once and takes no more; but for the first two it changes no sizes."""


def _by_place(pandas: ModuleType, root: str) -> None:
    """Let what pandas takes by name only be given by place, as it was before pandas 2."""
    inside = os.path.join(os.path.abspath(root), "")
    for holder in (pandas, pandas.DataFrame, pandas.Series):
        for name in dir(holder):
            function = inspect.getattr_static(holder, name)
            if name[0] != "_" and isinstance(function, types.FunctionType):
                setattr(holder, name, _placed(function, inside))


def _placed(function: Callable[..., object], inside: str) -> Callable[..., object]:
    """Return a function that takes arguments by place, too, in the order of their names."""
    kinds = {
        name: parameter.kind for name, parameter in inspect.signature(function).parameters.items()
    }
    named = [name for name, kind in kinds.items() if kind is inspect.Parameter.KEYWORD_ONLY]
    if not named or inspect.Parameter.VAR_POSITIONAL in kinds.values():
        return function
    most = len([kind for kind in kinds.values() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD])

    @functools.wraps(function)
    def called(*given: object, **options: object) -> object:
        if len(given) > most and _asks(inside):
            note(f"pandas: {function.__name__} takes {named[0]} by name only in the version that "
                 "is installed here; it was taken by place, as in older ones.")  # fmt: skip
            by_place = zip(named, given[most:])
            options = {**dict(by_place), **options}
            given = given[:most]
        return function(*given, **options)

    return called


def _idle(module: ModuleType, name: str, option: str, root: str) -> None:
    """Let a function be given an option that did nothing and that it takes no more."""
    inside = os.path.join(os.path.abspath(root), "")
    function = getattr(module, name)
    if option in inspect.signature(function).parameters:
        return

    @functools.wraps(function)
    def called(*given: object, **options: object) -> object:
        if option in options and _asks(inside):
            del options[option]
            note(f"{module.__name__}.{name} has no option {option} in the version that is "
                 "installed here; in older ones it did nothing.")  # fmt: skip
        return function(*given, **options)

    setattr(module, name, called)


def _defaulted(load: Callable[..., object], loader: object, inside: str) -> Callable[..., object]:
    def loaded(stream: object, *given: object, **named: object) -> object:
        if given or named or not _asks(inside):
            return load(stream, *given, **named)
        note(f"yaml.{load.__name__} needs a Loader in the version that is installed here; it was "
             "called without one, as in older ones.")  # fmt: skip
        return load(stream, loader)

    return loaded

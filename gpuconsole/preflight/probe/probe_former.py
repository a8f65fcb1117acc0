"""Names that newer versions of common libraries and of Python dropped, for scripts that were
written for older ones: the job's image may have these.

A name is added only where the library that is here lacks it, and the answer says which were used.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any

from probe_files import when_imported
from probe_notes import note

_ABSTRACT = ("Callable", "Container", "Hashable", "ItemsView", "Iterable", "Iterator", "KeysView",
             "Mapping", "MutableMapping", "MutableSequence", "MutableSet", "Sequence", "Set",
             "Sized", "ValuesView")  # fmt: skip
_TYPES = ("bool", "complex", "float", "int", "object", "str")
FORMER: dict[Any, dict[Any, Any]] = {
    "collections": {name: f"collections.abc.{name}" for name in _ABSTRACT},
    "fractions": {"gcd": "math.gcd"},
    "time": {"clock": "time.perf_counter"},
    "numpy": {
        **{name: f"builtins.{name}" for name in _TYPES},
        "long": "builtins.int", "unicode": "builtins.str",
        "bool8": "numpy.bool_", "float_": "numpy.float64", "complex_": "numpy.complex128",
        "string_": "numpy.bytes_", "unicode_": "numpy.str_", "object0": "numpy.object_",
        "Inf": "numpy.inf", "Infinity": "numpy.inf", "PINF": "numpy.inf", "infty": "numpy.inf",
        "NaN": "numpy.nan", "NAN": "numpy.nan", "mat": "numpy.asmatrix",
        "alltrue": "numpy.all", "sometrue": "numpy.any", "product": "numpy.prod",
        "cumproduct": "numpy.cumprod", "round_": "numpy.round", "in1d": "numpy.isin",
        "trapz": "numpy.trapezoid", "row_stack": "numpy.vstack", "asfarray": "numpy.asarray",
        "issubclass_": "builtins.issubclass", "VisibleDeprecationWarning":
        "numpy.exceptions.VisibleDeprecationWarning", "AxisError": "numpy.exceptions.AxisError",
        "ComplexWarning": "numpy.exceptions.ComplexWarning",
    },
    "PIL.Image": {
        "ANTIALIAS": "PIL.Image.LANCZOS", "LINEAR": "PIL.Image.BILINEAR",
        "CUBIC": "PIL.Image.BICUBIC",
    },
}  # fmt: skip
"""By module: what a name that it no longer has was."""
MOVED = "numpy.lib"
"""A package whose modules were renamed: `x` is `_x_impl` now."""


def install() -> None:
    """Add the names from now on."""
    for module, names in FORMER.items():
        when_imported(module, lambda loaded, names=names: _answer(loaded, names))
    when_imported("numpy", _types)
    when_imported("yaml", _load)
    sys.meta_path.append(Renamed())


def _answer(module: Any, names: Any) -> None:
    own = vars(module).get("__getattr__")

    def found(name: Any) -> Any:
        try:
            if own is not None:
                return own(name)
        except AttributeError:
            if name not in names:
                raise
        if name not in names:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        place, _, last = names[name].rpartition(".")
        value = getattr(importlib.import_module(place), last)
        _tell(module.__name__, name)
        setattr(module, name, value)
        return value

    module.__getattr__ = found


def _tell(module: Any, name: Any) -> None:
    version = getattr(sys.modules.get(module.partition(".")[0]), "__version__", "")
    here = f"{module.partition('.')[0]} {version}" if version else "this Python"
    note(f"{module}.{name} is of an older version: {here} lacks it, it was stood in for.")


def _types(numpy: Any) -> None:
    """NumPy's lists of its types, by kind."""
    if "sctypes" in vars(numpy):
        return
    kinds = {"int": "bhil", "uint": "BHIL", "float": "efdg", "complex": "FDG", "others": "?OSUV"}
    numpy.sctypes = {
        kind: [numpy.dtype(one).type for one in codes] for kind, codes in kinds.items()
    }


def _load(yaml: Any) -> None:
    """`yaml.load` without a loader, which versions before 6 took."""
    load = yaml.load

    def loaded(stream: Any, Loader: Any = yaml.FullLoader) -> Any:  # noqa: N803 - PyYAML's own name
        return load(stream, Loader)

    yaml.load = loaded


class Renamed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of NumPy by the names that they had."""

    def find_spec(self, name: Any, path: Any = None, target: Any = None) -> Any:
        """Return a spec for a module that has another name now."""
        place, _, last = name.rpartition(".")
        if place != MOVED or last.startswith("_"):
            return None
        if importlib.util.find_spec(f"{MOVED}._{last}_impl") is None:
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec: Any) -> Any:
        """Return a module with what the renamed one holds."""
        place, _, last = spec.name.rpartition(".")
        now = importlib.import_module(f"{place}._{last}_impl")
        module = types.ModuleType(spec.name)
        module.__dict__.update({k: v for k, v in vars(now).items() if not k.startswith("__")})
        _tell(place, last)
        return module

    def exec_module(self, module: Any) -> None:
        """Nothing is run."""

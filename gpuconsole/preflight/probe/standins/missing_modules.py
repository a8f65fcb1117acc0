"""Modules that the script imports and this machine lacks: stood in for where they only prepare
data or log, refused by name where what they give would decide the memory.

A stand-in takes part in anything but computing: it is called, iterated, entered, derived from.
Where a number, an array or a path is wanted of it, or what it made of a tensor, network or
optimizer is used, that is the end: the answer names the library. What a script imports to try
whether it is there (`except ImportError`) stays missing.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import re
import sys
import types
from typing import TYPE_CHECKING, Any

from ..notes import note
from . import exception_handlers, small_libraries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType
    from typing import NoReturn

MISSING: dict[str, None] = {}
"""Names of libraries that were stood in for."""
ALIKE: dict[str, None] = {}
"""Names of libraries that others which do the same stand in for."""
KNOWN = small_libraries.LIBRARIES
"""What is in the place of their modules."""
COMPUTED: tuple[type, ...] = ()
"""Classes of what is computed with."""
_STANDARD = getattr(sys, "stdlib_module_names", ())
_RAISED = ("Error", "Exception", "Warning")
_SOURCES = (".pyx", ".c", ".cc", ".cpp", ".cu")
"""Of what is compiled into a module."""
_WEIGHTS = ("load_url", "load_state_dict_from_url")
"""Functions that return weights from an address: none, so that parameters stay as initialised."""


class NeededError(BaseException):
    """What a missing library would give decides the memory. No `except Exception` of the script
    takes it for a sample that cannot be read."""

    def __init__(self, path: str, what: str) -> None:
        library = next(
            (missing for missing in MISSING if f"{path}.".startswith(f"{missing}.")), path
        )
        super().__init__(
            f"needs {library}: it is not installed here, and {what} {path}; in the job's image it "
            "may be"
        )


def install(paddle: ModuleType, root: str) -> None:
    """Stand in for modules that the code below `root` imports and that are missing."""
    global COMPUTED
    COMPUTED = (paddle.Tensor, paddle.nn.Layer, paddle.optimizer.Optimizer)
    sys.meta_path.append(Finder(root))


def prefer_own(root: str) -> None:
    """Let modules in folders of the project that the script put on the path, and those of a library
    that the project itself is, go before libraries of the same name: these are installed here, and
    not where the script is known to run."""
    sys.meta_path.insert(0, OwnFirst(root))


class OwnFirst(importlib.abc.MetaPathFinder):
    """Finds modules of the project that an installed library would hide."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.replaced = replaced(self.root)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the project."""
        if path is not None or name in _STANDARD or not is_asked_below(self.root):
            return None
        places = self.places()
        if name in self.replaced:
            places += [self.root, os.path.join(self.root, "src")]
        spec = importlib.machinery.PathFinder.find_spec(name, places)
        # A folder without code in it, such as one of data, is no module.
        return spec if spec is not None and spec.loader is not None else None

    def places(self) -> list[str]:
        """Return folders of the project on the path, less those that are there for every script."""
        folders = [os.path.abspath(folder or ".") for folder in sys.path]
        for own in (self.root, os.path.join(self.root, "src")):
            if own in folders:
                del folders[len(folders) - 1 - folders[::-1].index(own)]
        return [
            folder for folder in folders if f"{folder}{os.sep}".startswith(f"{self.root}{os.sep}")
        ]


def replaced(root: str) -> set[str]:
    """Return the modules of an installed library that the project itself is: `pip install -e .`
    puts the project in its place."""
    for name in ("setup.py", "pyproject.toml", "setup.cfg"):
        path = os.path.join(root, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                said = _NAME.search(file.read(MOST_READ))
            if said is None:
                continue
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                files = importlib.metadata.files(said.group(1)) or ()
                return {file_.parts[0].partition(".")[0] for file_ in files}
    return set()


_NAME = re.compile(r"""\bname\s*=\s*["']?([\w.-]+)""")
"""How a project is named in the file that says how it is installed."""
MOST_READ = 65_536
"""Characters of such a file that are looked at."""


def is_asked_below(root: str) -> bool:
    """Tell whether a module is being imported by code below a folder."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    file = "" if frame is None else os.path.abspath(frame.f_code.co_filename)
    return file.startswith(os.path.join(os.path.abspath(root), ""))


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what no other finder did."""

    def __init__(self, root: str) -> None:
        self.root = os.path.join(os.path.abspath(root), "")

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Return a spec for a module that the script cannot do without."""
        parent, _, last = name.rpartition(".")
        if isinstance(sys.modules.get(parent), Library):
            return importlib.machinery.ModuleSpec(name, self)
        if parent:
            needed = self.is_unbuilt(last, path)
        else:
            needed = not name.startswith("_") and name not in _STANDARD and name != "paddle"
        if not needed or not self.is_asked_by_the_project():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def is_asked_by_the_project(self) -> bool:
        """Tell whether a module is being imported by code of the project that needs it."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            if frame.f_code.co_name == "find_spec":
                # Only the question is asked if the module is there.
                return False
            frame = frame.f_back
        if frame is None or not os.path.abspath(frame.f_code.co_filename).startswith(self.root):
            # An installed package knows what it does without.
            return False
        return not exception_handlers.is_caught(frame, ("ImportError", "ModuleNotFoundError"))

    def is_unbuilt(self, name: str, folders: Iterable[str] | None) -> bool:
        """Tell whether a folder of the project has what a compiled module of this name is built
        from: its own `setup.py` builds it there."""
        places = (os.path.join(os.path.abspath(folder), name) for folder in folders or ())
        return any(
            place.startswith(self.root) and os.path.isfile(place + suffix)
            for place in places
            for suffix in _SOURCES
        )

    def create_module(self, spec: ModuleSpec) -> Library:
        """Return a module of which everything can be imported."""
        content = KNOWN.get(spec.name)
        parent = sys.modules.get(spec.name.rpartition(".")[0])
        own = parent is not None and not isinstance(parent, Library)
        top = spec.name if own else spec.name.partition(".")[0]
        if content is None:
            MISSING.setdefault(top)
            names = ", ".join(sorted(MISSING))
            note(
                f"Not installed here, and taken to prepare data or to log, no more: {names}.",
                "libraries",
            )
        else:
            ALIKE.setdefault(top)
            names = ", ".join(sorted(ALIKE))
            note(f"Not installed here, and what does the same in their place: {names}.", "settings")
        library = Library(spec.name)
        library.__dict__.update(content or {})
        return library

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run."""


class Library(types.ModuleType):
    """A module in which every name is a stand-in."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__version__ = "99.0"

    def __getattr__(self, name: str) -> type | StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        stand_in = named(f"{self.__name__}.{name}")
        setattr(self, name, stand_in)
        return stand_in


def named(path: str) -> type | StandIn:
    """Return a stand-in for something of a library: an exception, or anything else."""
    word = path.rpartition(".")[2]
    if word.endswith(_RAISED):
        return type(word, (Exception,), {})
    return StandIn(path)


class StandIn:
    """Something of a missing library: a function, class, object or value."""

    _path: str
    _held: Any
    _computed: bool

    def __init__(self, path: str, held: object = None, computed: bool = False) -> None:
        """`held` is what it was made of, `computed` whether that is computed with."""
        self.__dict__.update(_path=path, _held=held, _computed=computed)

    def _use(self) -> None:
        if self._computed:
            raise NeededError(self._path, "the script computes with what is made by")

    def __getattr__(self, name: str) -> type | StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._use()
        stand_in = named(f"{self._path}.{name}")
        self.__dict__[name] = stand_in
        return stand_in

    def __call__(self, *args: object, **kwargs: object) -> object:
        self._use()
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            # A decorator.
            return args[0]
        if self._path.rpartition(".")[2] in _WEIGHTS:
            note(f"Not downloaded: weights by {self._path}; parameters stay as initialised.")
            return {}
        held = args[0] if args else None
        numbers = [arg for arg in args if isinstance(arg, int)]
        if self._path.endswith("range") and len(numbers) == len(args):
            held = range(*numbers)
        return StandIn(self._path, held, any(map(_is_computed, (*args, *kwargs.values()))))

    def __iter__(self) -> Iterator[object]:
        if self._held is None or isinstance(self._held, (str, bytes, StandIn)):
            raise NeededError(self._path, "a loop goes over what is made by")
        return iter(self._held)

    def __len__(self) -> int:
        if self._held is None or not hasattr(self._held, "__len__"):
            raise NeededError(self._path, "a length is asked of")
        return len(self._held)

    def __bool__(self) -> bool:
        self._use()
        return True

    def __enter__(self) -> StandIn:
        self._use()
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getitem__(self, key: object) -> StandIn:
        self._use()
        return StandIn(f"{self._path}[…]")

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float, str)):
            raise NeededError(self._path, "the script compares")
        return self is other

    __hash__ = object.__hash__

    def __instancecheck__(self, other: object) -> bool:
        return False

    def __subclasscheck__(self, other: object) -> bool:
        return False

    def __mro_entries__(self, bases: object) -> tuple[type]:
        return (type(self._path.rpartition(".")[2], (Base,), {"_path": self._path}),)

    def __or__(self, other: object) -> StandIn:
        return self

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<{self._path}, not installed here>"

    def __format__(self, spec: object) -> str:
        return repr(self)

    # What would be computed with cannot be made up.
    __array_ufunc__ = None

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise NeededError(self._path, "an array is wanted of")

    def _number(self, *_: object) -> NoReturn:
        raise NeededError(self._path, "a number is wanted of")

    __int__ = __float__ = __index__ = __round__ = __neg__ = __abs__ = _number
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _number
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _number
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _number
    __lt__ = __le__ = __gt__ = __ge__ = _number

    def __fspath__(self) -> NoReturn:
        raise NeededError(self._path, "a path is wanted of")


class Base:
    """What a class of the script has in place of a base of a missing library."""

    _path = ""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._path}.{name}")

    def __call__(self, *args: object, **kwargs: object) -> object:
        return StandIn(self._path)(*args, **kwargs)


def _is_computed(value: object) -> bool:
    """Tell whether a value is, or directly holds, something that is computed with."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, COMPUTED) for item in value)
    return isinstance(value, COMPUTED)


def reached_an_operator(words: str) -> bool:
    """Tell whether one of Paddle's operators refused a stand-in, going by its words."""
    return bool(MISSING) and f"got {StandIn.__name__}" in words


def blamed(words: str) -> str:
    """Return what to add to an error that may come of a stand-in."""
    if not MISSING or "not installed here" in words:
        return ""
    names = ", ".join(sorted(MISSING))
    return f" (not installed here, as they may be in the job's image: {names})"

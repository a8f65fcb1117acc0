"""`os`, `os.path` and `pathlib`: names of files, and what lies in the project."""

from __future__ import annotations

import ast
import os.path
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib import json_yaml, os_listing
from gpuconsole.preflight.interpreter.stdlib.io import Open
from gpuconsole.preflight.interpreter.stdlib.os_listing import ELSEWHERE

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


def nothing(run: Run, *_: Value, **__: Value) -> None:
    """Stand for a function that changes no sizes."""


class Place(Native):
    """A `pathlib` path."""

    label = "Path"

    def __init__(self, text: str = ".") -> None:
        super().__init__()
        self.text = text

    def init(self, run: Run, *parts: Value) -> Value:
        """Join the parts."""
        path = joined(run, *parts) if parts else "."
        self.text = path if isinstance(path, str) else ""
        return path if isinstance(path, Unknown) else None

    def operate(
        self, interp: Interpreter, kind: type[ast.operator], other: Value, *, first: bool
    ) -> Value:
        """Join with `/`."""
        path = joined(interp.run, self, other) if first else joined(interp.run, other, self)
        return Place(path) if isinstance(path, str) else path

    def equals(self, other: Value) -> bool:
        """Whether `==` holds."""
        return isinstance(other, Place) and other.text == self.text

    @exposed.prop("parent")
    def get_parent(self, run: Run) -> Value:
        """Give the folder."""
        return Place(os.path.dirname(self.text) or ".")

    @exposed.prop("parents")
    def get_parents(self, run: Run) -> Value:
        """Give the folders above, nearest first."""
        parents = []
        text = absolute(run, self.text)
        while os.path.dirname(text) != text:
            text = os.path.dirname(text)
            parents.append(Place(text))
        return parents

    @exposed.prop("name")
    def get_name(self, run: Run) -> Value:
        """Give the last part."""
        return os.path.basename(self.text)

    @exposed.prop("stem")
    def get_stem(self, run: Run) -> Value:
        """Give the last part without its ending."""
        return os.path.splitext(os.path.basename(self.text))[0]

    @exposed.prop("suffix")
    def get_suffix(self, run: Run) -> Value:
        """Give the ending."""
        return os.path.splitext(self.text)[1]

    @exposed.prop("parts")
    def get_parts(self, run: Run) -> Value:
        """Give the parts."""
        return tuple(self.text.split("/"))

    @exposed.method("resolve", "absolute", "expanduser")
    def do_resolve(self, run: Run, *_: Value, **__: Value) -> Value:
        """Make absolute."""
        return Place(absolute(run, self.text))

    @exposed.method("joinpath")
    def do_joinpath(self, run: Run, *parts: Value) -> Value:
        """Join."""
        path = joined(run, self, *parts)
        return Place(path) if isinstance(path, str) else path

    @exposed.method("with_suffix")
    def do_with_suffix(self, run: Run, suffix: Value) -> Value:
        """Change the ending."""
        return Place(os.path.splitext(self.text)[0] + suffix)

    @exposed.method("as_posix", "__str__", "__fspath__")
    def do_as_posix(self, run: Run) -> Value:
        """Give the text."""
        return self.text

    @exposed.method("exists", "is_file")
    def do_exists(self, run: Run) -> Value:
        """Whether it is there: known only of the project's files."""
        return exists(run, self.text)

    @exposed.method("open")
    def do_open(self, run: Run, *args: Value, **kwargs: Value) -> Value:
        """Open."""
        stream = Open()
        stream.init(run, self.text, *args, **kwargs)
        return stream

    @exposed.method("read_text")
    def do_read_text(self, run: Run, encoding: Value = None, errors: Value = None) -> Value:
        """Give the contents."""
        return self.do_open(run, "r", -1, encoding, errors).do_read(run)

    @exposed.method("mkdir", "write_text", "touch", "unlink", "rmdir")
    def do_mkdir(self, run: Run, *_: Value, **__: Value) -> None:
        """Write nothing."""

    @exposed.method("glob")
    def do_glob(self, run: Run, pattern: Value, *_: Value) -> Value:
        """Give the files below that match."""
        return _as_places(os_listing.found(run, joined(run, self, pattern), recursive=True))

    @exposed.method("rglob")
    def do_rglob(self, run: Run, pattern: Value, *_: Value) -> Value:
        """Give the files at any depth that match."""
        return self.do_glob(run, joined(run, "**", pattern))

    @exposed.method("iterdir")
    def do_iterdir(self, run: Run) -> Value:
        """Give what lies in the folder."""
        names = os_listing.listed(run, self.text)
        if isinstance(names, Unknown):
            return names
        return [Place(os.path.join(self.text, name)) for name in names]

    @exposed.method("is_dir")
    def do_is_dir(self, run: Run) -> Value:
        """Whether it is a folder: known only of the project's."""
        return os_listing.is_folder(run, self.text)

    @exposed.method("relative_to")
    def do_relative_to(self, run: Run, other: Value) -> Value:
        """Give the path from another one on."""
        start = json_yaml.path_text(other)
        is_below = start is not None and Place(self.text).text.startswith(start.rstrip("/") + "/")
        return Place(self.text[len(str(start).rstrip("/")) + 1 :]) if is_below else run.unknown(
            ELSEWHERE, other)  # fmt: skip

    @exposed.method("with_name")
    def do_with_name(self, run: Run, name: Value) -> Value:
        """Change the last part."""
        path = joined(run, os.path.dirname(self.text), name)
        return Place(path) if isinstance(path, str) else path

    @exposed.method("with_stem")
    def do_with_stem(self, run: Run, stem: Value) -> Value:
        """Change the last part, but for its ending."""
        return self.do_with_name(run, stem + os.path.splitext(self.text)[1])

    @exposed.method("stat")
    def do_stat(self, run: Run, *_: Value) -> Value:
        """Return an unknown."""
        return run.unknown(ELSEWHERE)

    @exposed.method("read_bytes")
    def do_read_bytes(self, run: Run) -> Value:
        """Give the contents."""
        return self.do_open(run, "rb").do_read(run)

    @staticmethod
    @exposed.static("cwd")
    def static_cwd(run: Run) -> Value:
        """Give the folder that a job starts in."""
        return Place(str(run.interp.imports.start))

    @staticmethod
    @exposed.static("home")
    def static_home(run: Run) -> Value:
        """Return an unknown."""
        return run.unknown(ELSEWHERE)


def _as_places(names: Value) -> Value:
    return [Place(name) for name in names] if isinstance(names, list) else names


def joined(run: Run, *parts: Value) -> Value:
    """Join path names."""
    unknown = first_unknown(*parts)
    texts = [json_yaml.path_text(part) for part in parts]
    if unknown is not None or not texts or not all(isinstance(text, str) for text in texts):
        return unknown or run.unknown("a path that is not known")
    return os.path.join(*[text for text in texts if text is not None])


def absolute(run: Run, text: str) -> str:
    """Return a path below the folder that a job starts in; no disk is asked."""
    return os.path.normpath(os.path.join(str(run.interp.imports.start), text))


def exists(run: Run, path: Value) -> Value:
    """Whether a file is there: known only of the project's files."""
    there = not isinstance(json_yaml.locate(run, path), Unknown)
    return there or os_listing.folder_of(run, path) is not None or run.unknown(ELSEWHERE)


def unknown(run: Run, *_: Value, **__: Value) -> Value:
    """Stand for a question to the disk."""
    return run.unknown(ELSEWHERE)


def path() -> Namespace:
    """Return `os.path`."""

    def of_text(function: Callable[[str], object]) -> Callable[..., Value]:
        def call(run: Run, value: Value) -> Value:
            text = json_yaml.path_text(value)
            return (
                first_unknown(value) or run.unknown(ELSEWHERE) if text is None else function(text)
            )

        return call

    def full(run: Run, value: Value) -> Value:
        text = json_yaml.path_text(value)
        return value if text is None else absolute(run, text)

    table: dict[str, Callable[..., Value]] = {
        name: of_text(getattr(os.path, name))
        for name in ("dirname", "basename", "splitext", "split", "normpath", "isabs")
    }
    table.update(join=joined, abspath=full, realpath=full, exists=exists, isfile=exists,
                 isdir=os_listing.is_folder, getsize=unknown, getmtime=unknown, islink=unknown,
                 expanduser=lambda run, path_: path_, expandvars=lambda run, path_: path_,
                 relpath=unknown, commonprefix=unknown)  # fmt: skip
    names: dict[str, Value] = {k: NativeFunction(v, f"os.path.{k}") for k, v in table.items()}
    return Namespace("os.path", {**names, "sep": "/"})


class Environ(Native):
    """`os.environ`: what the script itself set; the rest as in a plain run on one device."""

    label = "os.environ"

    @exposed.method("get")
    def do_get(self, run: Run, name: Value, default: Value = None) -> Value:
        """Give a variable or the default."""
        return self.attrs.get(name, default)

    @exposed.method("setdefault")
    def do_setdefault(self, run: Run, name: Value, default: Value = None) -> Value:
        """Give a variable, set before where the script has not."""
        return self.attrs.setdefault(name, default)

    @exposed.method("pop")
    def do_pop(self, run: Run, name: Value, default: Value = None) -> Value:
        """Take a variable out."""
        return self.attrs.pop(name, default)

    @exposed.method("copy")
    def do_copy(self, run: Run) -> Value:
        """Give a copy."""
        return self

    @exposed.method("update")
    def do_update(self, run: Run, values: Value) -> None:
        """Set many."""
        self.attrs.update(values)

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give a variable."""
        if key in self.attrs:
            return self.attrs[key]
        return interp.run.unknown(f"the environment variable {key}")

    def store(self, interp: Interpreter, key: Value, value: Value) -> None:
        """Set a variable."""
        if isinstance(key, str):
            self.attrs[key] = value


def os_module() -> Namespace:
    """Return `os`."""
    environ = Environ()
    quiet = ("makedirs", "mkdir", "remove", "rename", "chdir", "system", "rmdir", "kill", "umask",
             "unlink", "chmod", "nice", "putenv", "replace")  # fmt: skip
    asking = ("cpu_count", "getpid", "scandir", "stat", "popen", "uname",
              "getuid", "getppid", "sched_getaffinity")  # fmt: skip
    table: dict[str, Callable[..., Value]] = {
        **dict.fromkeys(quiet, nothing), **dict.fromkeys(asking, unknown),
        "getenv": environ.do_get, "listdir": os_listing.listed, "walk": os_listing.walked,
        "getcwd": lambda run: str(run.interp.imports.start),
        "fspath": lambda run, path_: json_yaml.path_text(path_) or run.unknown(ELSEWHERE),
    }  # fmt: skip
    names: dict[str, Value] = {k: NativeFunction(v, f"os.{k}") for k, v in table.items()}
    return Namespace("os", {**names, "path": path(), "environ": environ, "sep": "/",
                            "linesep": "\n", "name": "posix", "pathsep": ":"})  # fmt: skip


def pathlib() -> Namespace:
    """Return `pathlib`."""
    names = ("Path", "PurePath", "PosixPath", "PurePosixPath")
    return Namespace("pathlib", {name: NativeClass(Place, name) for name in names})

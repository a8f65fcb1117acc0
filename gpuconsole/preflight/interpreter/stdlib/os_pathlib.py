"""`os`, `os.path` and `pathlib`: names of files, and what lies in the project."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from typing import Any

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run import Run
from gpuconsole.preflight.interpreter.stdlib import json_yaml, os_listing
from gpuconsole.preflight.interpreter.stdlib.io import Open
from gpuconsole.preflight.interpreter.stdlib.os_listing import ELSEWHERE


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
        made = joined(run, *parts) if parts else "."
        self.text = made if isinstance(made, str) else ""
        return made if isinstance(made, Unknown) else None

    def operate(self, interp: Any, kind: Any, other: Value, *, first: bool) -> Value:
        """Join with `/`."""
        made = joined(interp.run, self, other) if first else joined(interp.run, other, self)
        return Place(made) if isinstance(made, str) else made

    def equals(self, other: Value) -> bool:
        """Whether `==` holds."""
        return isinstance(other, Place) and other.text == self.text

    def get_parent(self, run: Run) -> Value:
        """Give the folder."""
        return Place(os.path.dirname(self.text) or ".")

    def get_parents(self, run: Run) -> Value:
        """Give the folders above, nearest first."""
        found = []
        text = absolute(run, self.text)
        while os.path.dirname(text) != text:
            text = os.path.dirname(text)
            found.append(Place(text))
        return found

    def get_name(self, run: Run) -> Value:
        """Give the last part."""
        return os.path.basename(self.text)

    def get_stem(self, run: Run) -> Value:
        """Give the last part without its ending."""
        return os.path.splitext(os.path.basename(self.text))[0]

    def get_suffix(self, run: Run) -> Value:
        """Give the ending."""
        return os.path.splitext(self.text)[1]

    def get_parts(self, run: Run) -> Value:
        """Give the parts."""
        return tuple(self.text.split("/"))

    def do_resolve(self, run: Run, *_: Value, **__: Value) -> Value:
        """Make absolute."""
        return Place(absolute(run, self.text))

    do_absolute = do_expanduser = do_resolve

    def do_joinpath(self, run: Run, *parts: Value) -> Value:
        """Join."""
        made = joined(run, self, *parts)
        return Place(made) if isinstance(made, str) else made

    def do_with_suffix(self, run: Run, suffix: Value) -> Value:
        """Change the ending."""
        return Place(os.path.splitext(self.text)[0] + suffix)

    def do_as_posix(self, run: Run) -> Value:
        """Give the text."""
        return self.text

    do___str__ = do___fspath__ = do_as_posix

    def do_exists(self, run: Run) -> Value:
        """Whether it is there: known only of the project's files."""
        return exists(run, self.text)

    do_is_file = do_exists

    def do_open(self, run: Run, *args: Value, **kwargs: Value) -> Value:
        """Open."""
        made = Open()
        made.init(run, self.text, *args, **kwargs)
        return made

    def do_read_text(self, run: Run, encoding: Value = None, errors: Value = None) -> Value:
        """Give the contents."""
        return self.do_open(run, "r", -1, encoding, errors).do_read(run)

    def do_mkdir(self, run: Run, *_: Value, **__: Value) -> None:
        """Write nothing."""

    do_write_text = do_touch = do_unlink = do_rmdir = do_mkdir

    def do_glob(self, run: Run, pattern: Value, *_: Value) -> Value:
        """Give the files below that match."""
        return _as_places(os_listing.found(run, joined(run, self, pattern), recursive=True))

    def do_rglob(self, run: Run, pattern: Value, *_: Value) -> Value:
        """Give the files at any depth that match."""
        return self.do_glob(run, joined(run, "**", pattern))

    def do_iterdir(self, run: Run) -> Value:
        """Give what lies in the folder."""
        names = os_listing.listed(run, self.text)
        if isinstance(names, Unknown):
            return names
        return [Place(os.path.join(self.text, one)) for one in names]

    def do_is_dir(self, run: Run) -> Value:
        """Whether it is a folder: known only of the project's."""
        return os_listing.is_folder(run, self.text)

    def do_relative_to(self, run: Run, other: Value) -> Value:
        """Give the path from another one on."""
        start = json_yaml.path_text(other)
        known = start is not None and Place(self.text).text.startswith(start.rstrip("/") + "/")
        return Place(self.text[len(str(start).rstrip("/")) + 1 :]) if known else run.unknown(
            ELSEWHERE, other)  # fmt: skip

    def do_with_name(self, run: Run, name: Value) -> Value:
        """Change the last part."""
        made = joined(run, os.path.dirname(self.text), name)
        return Place(made) if isinstance(made, str) else made

    def do_with_stem(self, run: Run, stem: Value) -> Value:
        """Change the last part, but for its ending."""
        return self.do_with_name(run, stem + os.path.splitext(self.text)[1])

    def do_stat(self, run: Run, *_: Value) -> Value:
        """Give what nobody knows."""
        return run.unknown(ELSEWHERE)

    def do_read_bytes(self, run: Run) -> Value:
        """Give the contents."""
        return self.do_open(run, "rb").do_read(run)

    @staticmethod
    def static_cwd(run: Run) -> Value:
        """Give the folder that a job starts in."""
        return Place(str(run.interp.imports.project))

    @staticmethod
    def static_home(run: Run) -> Value:
        """Give what nobody knows."""
        return run.unknown(ELSEWHERE)


def _as_places(names: Value) -> Value:
    return [Place(one) for one in names] if isinstance(names, list) else names


def joined(run: Run, *parts: Value) -> Value:
    """Join path names."""
    unknown = first_unknown(*parts)
    texts = [json_yaml.path_text(one) for one in parts]
    if unknown is not None or not texts or not all(isinstance(one, str) for one in texts):
        return unknown or run.unknown("a path that is not known")
    return os.path.join(*[one for one in texts if one is not None])


def absolute(run: Run, text: str) -> str:
    """Return a path below the folder that a job starts in; no disk is asked."""
    return os.path.normpath(os.path.join(str(run.interp.imports.project), text))


def exists(run: Run, path: Value) -> Value:
    """Whether a file is there: known only of the project's files."""
    there = not isinstance(json_yaml.locate(run, path), Unknown)
    return there or os_listing.folder_of(run, path) is not None or run.unknown(ELSEWHERE)


def unknown(run: Run, *_: Value, **__: Value) -> Value:
    """Stand for a question to the disk."""
    return run.unknown(ELSEWHERE)


def path() -> Namespace:
    """Return `os.path`."""

    def of_text(function: Callable[[str], Any]) -> Callable[..., Value]:
        def call(run: Run, one: Value) -> Value:
            text = json_yaml.path_text(one)
            return first_unknown(one) or run.unknown(ELSEWHERE) if text is None else function(text)

        return call

    def full(run: Run, one: Value) -> Value:
        text = json_yaml.path_text(one)
        return one if text is None else absolute(run, text)

    table: dict[str, Any] = {
        name: of_text(getattr(os.path, name))
        for name in ("dirname", "basename", "splitext", "split", "normpath", "isabs")
    }
    table.update(join=joined, abspath=full, realpath=full, exists=exists, isfile=exists,
                 isdir=os_listing.is_folder, getsize=unknown, getmtime=unknown, islink=unknown,
                 expanduser=lambda run, one: one, expandvars=lambda run, one: one,
                 relpath=unknown, commonprefix=unknown)  # fmt: skip
    names: dict[str, Value] = {k: NativeFunction(v, f"os.path.{k}") for k, v in table.items()}
    return Namespace("os.path", {**names, "sep": "/"})


class Environ(Native):
    """`os.environ`: what the script itself set; the rest as in a plain run on one device."""

    label = "os.environ"

    def do_get(self, run: Run, name: Value, default: Value = None) -> Value:
        """Give a variable or the default."""
        return self.attrs.get(name, default)

    def do_setdefault(self, run: Run, name: Value, default: Value = None) -> Value:
        """Give a variable, set before where the script has not."""
        return self.attrs.setdefault(name, default)

    def do_pop(self, run: Run, name: Value, default: Value = None) -> Value:
        """Take a variable out."""
        return self.attrs.pop(name, default)

    def do_copy(self, run: Run) -> Value:
        """Give a copy."""
        return self

    def do_update(self, run: Run, values: Value) -> None:
        """Set many."""
        self.attrs.update(values)

    def item(self, interp: Any, key: Value) -> Value:
        """Give a variable."""
        if key in self.attrs:
            return self.attrs[key]
        return interp.run.unknown(f"the environment variable {key}")

    def store(self, interp: Any, key: Value, value: Value) -> None:
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
    table: dict[str, Any] = {
        **dict.fromkeys(quiet, nothing), **dict.fromkeys(asking, unknown),
        "getenv": environ.do_get, "listdir": os_listing.listed, "walk": os_listing.walked,
        "getcwd": lambda run: str(run.interp.imports.project),
        "fspath": lambda run, one: json_yaml.path_text(one) or run.unknown(ELSEWHERE),
    }  # fmt: skip
    names: dict[str, Value] = {k: NativeFunction(v, f"os.{k}") for k, v in table.items()}
    return Namespace("os", {**names, "path": path(), "environ": environ, "sep": "/",
                            "linesep": "\n", "name": "posix", "pathsep": ":"})  # fmt: skip


def pathlib() -> Namespace:
    """Return `pathlib`."""
    names = ("Path", "PurePath", "PosixPath", "PurePosixPath")
    return Namespace("pathlib", {name: NativeClass(Place, name) for name in names})

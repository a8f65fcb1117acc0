"""Data files of the project: read for what they hold only when small, and never outside it."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import exposed, lengths
from gpuconsole.preflight.interpreter.domain.values import (
    Bound,
    Native,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.frontend.source import within
from gpuconsole.preflight.interpreter.numpy.array import ALIASES, Array, dtype_name, make
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES
from gpuconsole.preflight.interpreter.stdlib.json_yaml import path_text

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_BYTES = 2**20
MAX_PACKED = 1000
HEADER_BYTES = 4096
_NPY = b"\x93NUMPY"
_TYPES = {"<f4": "float32", "<f8": "float64", "<f2": "float16", "<i8": "int64", "<i4": "int32",
          "<i2": "int16", "|u1": "uint8", "|i1": "int8", "|b1": "bool"}  # fmt: skip


def path_of(run: Run, name: Value) -> Path | Unknown:
    """Return a file of the project that the script names; an unknown where there is none."""
    name = getattr(name, "path", name)
    name = getattr(name, "text", name)
    if isinstance(name, Unknown):
        return name
    if not isinstance(name, str):
        return run.unknown("a file of unknown name")
    root: Path = run.interp.imports.project
    for base in dict.fromkeys((*run.interp.imports.starts(), Path(run.file).parent)):
        try:
            path = within(root, base / name)
            if path is not None and path.is_file():
                run.interp.imports.read.add(str(path))
                return path
        except (OSError, ValueError):
            break
    return run.unknown(msg("the file {name} is not in the project", name=name))


def text_of(run: Run, name: Value) -> str | Unknown:
    """Return the text of a small file of the project."""
    path = path_of(run, name)
    if isinstance(path, Unknown):
        return path
    try:
        if path.stat().st_size > MAX_BYTES:
            return run.unknown(msg("the file {name} is too large to be read", name=path.name))
        return path.read_text("utf-8-sig")
    except (OSError, ValueError):
        return run.unknown(msg("the file {name} cannot be read as text", name=path.name))


class Arrays(Native):
    """The result of `np.load` for an .npz file: arrays by name."""

    label = "NpzFile"

    def __init__(self, arrays: dict[str, Value] | None = None) -> None:
        super().__init__()
        self.arrays = arrays or {}

    @exposed.prop("files")
    def get_files(self, run: Run) -> Value:
        """Give the names."""
        return list(self.arrays)

    @exposed.method("keys")
    def do_keys(self, run: Run) -> Value:
        """Give the names."""
        return list(self.arrays)

    @exposed.method("items")
    def do_items(self, run: Run) -> Value:
        """Give names and arrays."""
        return list(self.arrays.items())

    @exposed.method("close")
    def do_close(self, run: Run) -> None:
        """Close nothing."""

    def enter(self, run: Run) -> Callable[[], None]:
        """Open and close are free."""
        return lambda: None

    def contains(self, key: Value) -> bool:
        """Whether there is an array of a name."""
        return key in self.arrays

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the names."""
        yield from list(self.arrays)

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give an array."""
        if isinstance(key, Unknown):
            return key
        if key in self.arrays:
            return self.arrays[key]
        return interp.lacking(f"there is no array {key!r}"[:200], "KeyError")


def save_array(run: Run, file: Value, value: Value = None, *_: Value, **__: Value) -> None:
    """Stand for `np.save`: nothing is written, but the script may load it again."""
    name = path_text(file)
    if name is not None and isinstance(value, Array) and value.keeps is None:
        run.interp.saved[name.removesuffix(".npy")] = value


def save_arrays(run: Run, file: Value, /, *values: Value, **named: Value) -> None:
    """Stand for `np.savez`."""
    name = path_text(file)
    given = {f"arr_{place}": array for place, array in enumerate(values)} | named
    plain = {key: make(run, array) for key, array in given.items()}
    if name is not None and all(getattr(array, "keeps", None) is None for array in plain.values()):
        run.interp.saved[name.removesuffix(".npz")] = Arrays(plain)


def load_array(run: Run, file: Value, *_: Value, **__: Value) -> Value:
    """Stand for `np.load`: headers of .npy and .npz files of the project say shapes and types."""
    name = path_text(file)
    if name is not None:
        for ending in (".npy", ".npz", ""):
            saved = run.interp.saved.get(name.removesuffix(ending))
            if saved is not None:
                return saved
    path = path_of(run, file)
    if isinstance(path, Unknown):
        return path
    try:
        if zipfile.is_zipfile(path):
            return Arrays(_packed(run, path))
        with path.open("rb") as opened:
            head = opened.read(HEADER_BYTES)
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return run.unknown(msg("the file {name} cannot be read", name=path.name))
    return _described(run, head, path.name)


def load_raw(run: Run, file: Value, dtype: Value = None, count: Value = -1, sep: Value = "",
             *_: Value, **__: Value) -> Value:  # fmt: skip
    """Stand for `np.fromfile`: a row of numbers, as many as the file holds."""
    kind = dtype_name(dtype, "float64")
    if isinstance(count, int) and count >= 0:
        return Array((int(count),), kind)
    path = path_of(run, file)
    size: Value = lengths.some(run, "how many numbers a file holds")
    if isinstance(path, Path) and sep == "":
        try:
            size = path.stat().st_size // ITEM_BYTES.get(kind, 8)
        except OSError:
            return run.unknown(msg("the file {name} cannot be read", name=path.name))
    elif isinstance(path, Path) and isinstance(sep, str):
        text = text_of(run, file)
        if isinstance(text, str):
            size = len(text.split() if not sep.strip() else text.split(sep))
    return Array((size if isinstance(size, int) else Bound.of(size),), kind)


def _packed(run: Run, path: Path) -> dict[str, Value]:
    arrays: dict[str, Value] = {}
    with zipfile.ZipFile(path) as whole:
        for name in whole.namelist()[:MAX_PACKED]:
            with whole.open(name) as member:
                arrays[name.removesuffix(".npy")] = _described(run, member.read(HEADER_BYTES), name)
    return arrays


def _described(run: Run, head: bytes, name: str) -> Value:
    start, end = head.find(b"{"), head.find(b"}")
    if not head.startswith(_NPY) or start < 0 or end < start:
        return run.unknown(msg("the file {name} is not a plain array", name=name))
    try:
        said = ast.literal_eval(head[start : end + 1].decode("latin-1"))
        shape = tuple(int(extent) for extent in said["shape"])
    except (ValueError, SyntaxError, KeyError, TypeError):
        return run.unknown(msg("the file {name} is not a plain array", name=name))
    descr = str(said.get("descr"))
    return Array(shape, _TYPES.get(descr, ALIASES.get(descr, "float64")))


def load_text(run: Run, file: Value, dtype: Value = None, comments: Value = "#",
              delimiter: Value = None, *_: Value, skiprows: Value = 0, skip_header: Value = 0,
              usecols: Value = None, unpack: Value = False, max_rows: Value = None,
              ndmin: Value = 0, **__: Value) -> Value:  # fmt: skip
    """Stand for `np.loadtxt` and `np.genfromtxt`: as many rows as the file has lines."""
    given = getattr(file, "whole", None)
    text = given(run) if given is not None else text_of(run, file)
    options = (skiprows, skip_header, max_rows, usecols, delimiter)
    unknown = first_unknown(*options)
    if unknown is not None or not isinstance(text, str):
        return unknown or text
    mark = comments if isinstance(comments, str) and comments else None
    lines = text.splitlines()[(skiprows or 0) + (skip_header or 0) :]
    rows = [line for line in lines if line.strip() and not (mark and line.startswith(mark))]
    rows = rows if max_rows is None else rows[:max_rows]
    if not rows:
        return run.unknown(msg("the file {file} holds no rows", file=file))
    columns = len(rows[0].split(delimiter if isinstance(delimiter, str) else None))
    if usecols is not None:
        columns = 1 if isinstance(usecols, int) else len(usecols)
    kind = dtype_name(dtype, "float64")
    if columns == 1 and ndmin != 2:
        return Array((len(rows),), kind)
    return Array((columns, len(rows)) if unpack is True else (len(rows), columns), kind)

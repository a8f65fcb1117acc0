"""Data files of the project: read for what they hold only when small, and never outside it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.preflight.scan.arrays import ALIASES, Array
from gpuconsole.preflight.scan.source import within
from gpuconsole.preflight.scan.values import Unknown, Value

if TYPE_CHECKING:
    from gpuconsole.preflight.scan.run import Run

MAX_BYTES = 2**20
MAX_LINES = 50_000
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
        return run.unknown("a file whose name is not known")
    root: Path = run.calls.project
    for base in dict.fromkeys((root, Path(run.file).parent)):
        try:
            found = within(root, base / name)
            if found is not None and found.is_file():
                run.calls.read.add(str(found))
                return found
        except (OSError, ValueError):
            break
    return run.unknown(f"the file {name} is not in the project")


def text_of(run: Run, name: Value) -> str | Unknown:
    """Return the text of a small file of the project."""
    path = path_of(run, name)
    if isinstance(path, Unknown):
        return path
    try:
        if path.stat().st_size > MAX_BYTES:
            return run.unknown(f"the file {path.name} is too large to be read")
        return path.read_text("utf-8-sig")
    except (OSError, ValueError):
        return run.unknown(f"the file {path.name} cannot be read as text")


def load_array(run: Run, file: Value, *_: Value, **__: Value) -> Value:
    """Stand for `np.load`: the header of a .npy file of the project says shape and type."""
    path = path_of(run, file)
    if isinstance(path, Unknown):
        return path
    try:
        with path.open("rb") as opened:
            head = opened.read(HEADER_BYTES)
    except OSError:
        return run.unknown(f"the file {path.name} cannot be read")
    start, end = head.find(b"{"), head.find(b"}")
    if not head.startswith(_NPY) or start < 0 or end < start:
        return run.unknown(f"the file {path.name} is not a plain array")
    try:
        said = ast.literal_eval(head[start : end + 1].decode("latin-1"))
        shape = tuple(int(one) for one in said["shape"])
    except (ValueError, SyntaxError, KeyError, TypeError):
        return run.unknown(f"the file {path.name} is not a plain array")
    descr = str(said.get("descr"))
    return Array(shape, _TYPES.get(descr, ALIASES.get(descr, "float64")))


def load_text(run: Run, file: Value, *_: Value, **__: Value) -> Value:
    """Stand for `np.loadtxt`: as many rows as the file has lines."""
    text = text_of(run, file)
    if isinstance(text, Unknown):
        return text
    rows = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    columns = len(rows[0].replace(",", " ").split()) if rows else 0
    return Array((len(rows), columns) if columns > 1 else (len(rows),), "float64")

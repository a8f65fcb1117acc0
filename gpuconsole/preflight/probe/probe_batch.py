"""The batch size put into a script: as an argument, in its text, or at its loaders.

No file is changed: edited text exists in memory only.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import inspect
import io
import json
import os
from typing import Any

MARK = "{batch}"
"""Stands in the request where the batch size of a run goes."""


def arguments(request: Any) -> Any:
    """Return the script's arguments for the batch size of this run."""
    batch = request["batch"]
    words = batch["args"] if batch["how"] == "argument" else request["args"]
    return [word.replace(MARK, str(request["size"])) for word in words]


def install(request: Any, paddle: Any) -> None:
    """Arrange for the batch size of this run."""
    batch = request["batch"]
    if batch["how"] == "edit":
        edit = batch["edit"]
        path = os.path.realpath(os.path.join(request["root"], edit["file"]))
        new = edit["new"].replace(MARK, str(request["size"]))
        _EDITED[path] = (edit["line"], edit["old"], new)
        _serve_edits()
    elif batch["how"] == "loader":
        _force(paddle, batch.get("value"), request["size"])


_EDITED: dict[Any, Any] = {}


def _text(path: Any) -> Any:
    line, old, new = _EDITED[path]
    with _open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    if lines[line - 1].strip() == old.strip():
        lines[line - 1] = lines[line - 1].replace(old.strip(), new.strip())
    return "\n".join(lines)


_open = builtins.open


def _serve_edits() -> None:
    """Give the edited text to whoever reads or imports an edited file."""
    loader: Any = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    def edited_code(self: Any, fullname: Any) -> Any:
        path = os.path.realpath(self.path)
        if path in _EDITED:
            return compile(_text(path), self.path, "exec")
        return get_code(self, fullname)

    def opened(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, (str, os.PathLike)) and not set(mode) & set("wax+"):
            path = os.path.realpath(file)
            if path in _EDITED:
                text = _text(path)
                return io.BytesIO(text.encode()) if "b" in mode else io.StringIO(text)
        return _open(file, mode, *args, **kwargs)

    loader.get_code = edited_code
    builtins.open = opened
    io.open = opened


def code_of(script: Any) -> Any:
    """Return the script compiled: as edited, or the cells of a notebook."""
    path = os.path.realpath(script)
    if path.endswith(".ipynb"):
        return compile(_cells(path), script, "exec")
    if path in _EDITED:
        return compile(_text(path), script, "exec")
    with _open(path, "rb") as file:
        return compile(file.read(), script, "exec")


def _cells(path: Any) -> Any:
    """Return a notebook's code cells as one text, without the lines that only notebooks know."""
    with _open(path, encoding="utf-8") as file:
        cells = json.load(file).get("cells", [])
    lines = []
    for cell in cells:
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        if text.lstrip().startswith("%%"):
            continue
        lines += ["pass" if one.lstrip()[:1] in ("%", "!") else one for one in text.split("\n")]
    return "\n".join(lines)


_FOUND: list[Any] = []


def own_size() -> Any:
    """Return the batch size that the script's first loader had of its own, if one was replaced."""
    return _FOUND[0] if _FOUND else None


def _force(paddle: Any, value: Any, size: Any) -> None:
    """Replace the batch size of loaders: of those that have the script's own, or of all."""

    def replaced(given: Any) -> Any:
        if given is not None:
            _FOUND.append(given)
        return size if given is not None and (value is None or given == value) else given

    io_module = paddle.io
    for name in ("DataLoader", "BatchSampler", "DistributedBatchSampler"):
        _replace(getattr(io_module, name), replaced)


def _replace(cls: Any, replaced: Any) -> None:
    old = cls.__init__
    signature = inspect.signature(old)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        if bound.arguments.get("batch_sampler") is None:
            bound.arguments["batch_size"] = replaced(bound.arguments["batch_size"])
        old(*bound.args, **bound.kwargs)

    cls.__init__ = init

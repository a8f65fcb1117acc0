"""The batch size put into a script: as an argument, in its text, or at its loaders.

No file is changed: edited text exists in memory only.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib.machinery
import inspect
import io
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from ..runs import forking
from . import watched_loops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType, ModuleType
    from typing import IO

    from paddle.io import DataLoader

    from ..documents import Edit, Request, Sizes

MARK = "{batch}"
"""Marks in the request where the batch size of a run goes."""


def arguments(request: Request) -> list[str]:
    """Return the script's arguments for the batch size of this run."""
    batch = request["batch"]
    words = batch["args"] if batch["how"] == "argument" else request["args"]
    if request["size"] is None:
        return list(words)
    return [word.replace(MARK, str(request["size"])) for word in words]


class Words(list):  # type: ignore[type-arg]
    """The command line of this run. Who looks beyond the script's name asks for the batch size."""

    def __init__(self, name: str, request: Request) -> None:
        super().__init__([name, *arguments(request)])
        self.request = request
        self.seen = False

    def _reached(self) -> None:
        request = self.request
        if request["batch"]["how"] == "argument" and not self.seen:
            self.seen = True
            forking.reached()
            # The size may be another than when this began.
            list.__setitem__(self, slice(1, None), arguments(request))

    @overload
    def __getitem__(self, key: SupportsIndex) -> str: ...

    @overload
    def __getitem__(self, key: slice) -> list[str]: ...

    def __getitem__(self, key: SupportsIndex | slice) -> str | list[str]:
        if key != 0:
            self._reached()
        return super().__getitem__(key)

    def __reduce__(self) -> tuple[object, ...]:
        return list, (list(self),)


def _asking(name: str) -> Callable[..., object]:
    def asked(self: Words, *args: object) -> object:
        self._reached()
        return getattr(list, name)(self, *args)

    return asked


for _name in ("__iter__", "__reversed__", "__contains__", "__eq__", "__ne__", "__add__", "__repr__",
              "__setitem__", "__delitem__", "__iadd__", "append", "copy", "count", "extend",
              "index", "insert", "pop", "remove", "clear"):  # fmt: skip
    setattr(Words, _name, _asking(_name))


def install(request: Request, paddle: ModuleType) -> None:
    """Arrange for the batch size of this run."""
    batch = request["batch"]
    for file, text in request.get("texts", {}).items():
        _EDITED[_place(request, file)] = (text, [], request)
    for edit in batch["edits"] if batch["how"] == "edit" else ():
        path = _place(request, edit["file"])
        _EDITED.setdefault(path, (None, [], request))[1].append(edit)
    if _EDITED:
        _serve_edits()
    if batch["how"] == "loader":
        _force(paddle, request)
    _watch_options()


def _place(request: Request, file: str) -> str:
    return os.path.realpath(os.path.join(request["root"], file))


_OPTIONS: dict[str, int] = {}
"""Whole numbers that the command line or its defaults give for a batch, by option."""


def _watch_options() -> None:
    """Note the options of the script's parsers that are named for a batch."""
    parse = argparse.ArgumentParser.parse_known_args

    def parsed(
        self: argparse.ArgumentParser,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        options: argparse.Namespace
        options, rest = parse(self, args, namespace)
        for action in self._actions:
            value = getattr(options, action.dest, None)
            if action.option_strings and "batch" in action.dest.lower() and type(value) is int:
                _OPTIONS[action.option_strings[-1]] = value
        return options, rest

    setattr(argparse.ArgumentParser, "parse_known_args", parsed)  # noqa: B010


def options(own: object) -> list[str]:
    """Return the options for a batch that hold this number."""
    return [name for name, value in _OPTIONS.items() if value == own]


_EDITED: dict[str, tuple[str | None, list[Edit], Request]] = {}
"""By file its text in the shipped copy, None where that is its own; the lines that the batch size
of this run is put into; and the request."""


def _text(path: str) -> str:
    text, edits, request = _EDITED[path]
    if text is None:
        with _open(path, encoding="utf-8") as file:
            text = file.read()
    if not edits:
        return text
    forking.reached()
    lines = text.split("\n")
    for edit in edits:
        line, old = edit["line"], edit["old"]
        new = edit["new"].replace(MARK, str(request["size"]))
        if lines[line - 1].strip() == old.strip():
            lines[line - 1] = lines[line - 1].replace(old.strip(), new.strip())
    return "\n".join(lines)


_open = builtins.open


def _serve_edits() -> None:
    """Serve the edited text to code that reads or imports an edited file."""
    loader = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    def edited_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        path = os.path.realpath(self.path)
        if path in _EDITED:
            return watched_loops.compiled(_text(path), self.path)
        return get_code(self, fullname)

    def opened(
        file: int | str | bytes | os.PathLike[str], mode: str = "r", *args: Any, **kwargs: Any
    ) -> IO[Any]:
        if isinstance(file, (str, os.PathLike)) and not set(mode) & set("wax+"):
            path = os.path.realpath(file)
            if path in _EDITED:
                return _edited_file(file, path, mode, *args, **kwargs)
        return _open(file, mode, *args, **kwargs)

    for place, name, edited in (
        (loader, "get_code", edited_code), (builtins, "open", opened), (io, "open", opened),
    ):  # fmt: skip
        setattr(place, name, edited)


def _edited_file(
    name: str | os.PathLike[str], path: str, mode: str, *args: Any, **kwargs: Any
) -> IO[Any]:
    """Return an open file of a name that has the edited text: readers ask files for their name,
    and some for more."""
    # First of all: a process may part here into one for each run, which share no file.
    content = _text(path).encode()
    with tempfile.TemporaryFile() as text:
        text.write(content)
        text.seek(0)
        file = _open(os.dup(text.fileno()), mode, *args, **kwargs)
    raw = getattr(file, "buffer", file)
    setattr(getattr(raw, "raw", raw), "name", os.fspath(name))  # noqa: B010
    return file


def code_of(script: str) -> CodeType:
    """Return the script compiled: as edited, or the cells of a notebook."""
    path = os.path.realpath(script)
    if path.endswith(".ipynb"):
        return watched_loops.compiled(_cells(path), script)
    if path in _EDITED:
        return watched_loops.compiled(_text(path), script)
    with _open(path, "rb") as file:
        return watched_loops.compiled(file.read(), script)


def edited(script: str) -> bytes:
    """Return the script as it is written, where its text is that of one batch size; else nothing.
    No batch size is asked for yet."""
    path = os.path.realpath(script)
    if path not in _EDITED:
        return b""
    with _open(path, "rb") as file:
        return file.read()


def _cells(path: str) -> str:
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
        lines += ["pass" if line.lstrip()[:1] in ("%", "!") else line for line in text.split("\n")]
    return "\n".join(lines)


_OWN = "gpuconsole_own_batch"
_SIZES: Sizes = {}
"""What batch sizes of loaders are replaced by, as `value`, `size` and `trains` of the request."""

_REACHED: list[int | None] = []
"""The script's own batch sizes of all loaders that were made."""

_ASKED: list[Request] = []
"""The request of this run, where loaders are given its batch size."""


def _settle() -> None:
    """A loader asks for the batch size of this run."""
    if _ASKED:
        forking.reached()
        (request,) = _ASKED
        value, trains = request["batch"].get("value"), request.get("trains")
        _SIZES.update({"value": value, "size": request["size"], "trains": trains})


_MAKING: list[int | None] = []
"""The script's own batch sizes of the loaders that are being made."""


def own_of(loader: object) -> int | None:
    """Return the batch size that a loader has in the script; None where it has none of its own."""
    sampler = getattr(loader, "batch_sampler", None)
    for thing in (sampler, loader):
        own = getattr(thing, _OWN, None) or _batched(thing)
        if own:
            return own
    return None


def _batched(thing: object) -> int | None:
    """Return how many samples a loader or sampler puts together; None where it does not say. One
    that puts batches of another together, as those do that hand a data set all places of a batch
    at once, has as many as these have."""
    size = getattr(thing, "batch_size", None)
    if not isinstance(size, int):
        return None
    inner = getattr(thing, "sampler", None)
    return size * (getattr(inner, _OWN, None) or _batched(inner) or 1)


def in_proportion() -> bool:
    """Tell whether loaders that nothing trains on were given sizes in proportion in this run: runs
    that are compared with it do as it does."""
    return _SIZES.get("size") is not None and not _SIZES.get("trains")


def size_of(loader: DataLoader) -> int:
    """Return the batch size that a loader has in this run, 0 where it has none of its own."""
    return replaced(own_of(loader)) or 0


def reached() -> bool:
    """Tell whether the script made a loader; its batch size is this run's."""
    return bool(_REACHED)


def sized(sampler: Iterable[Iterable[int]]) -> Iterator[list[int]]:
    """Yield the index lists of a batch sampler, as long as this run's batches are.

    One that the script wrote itself never passed through the places where sizes are replaced.
    """
    _settle()
    for indices in sampler:
        places = list(indices)
        if places and isinstance(places[0], (list, tuple)):
            # Batches of batches are as long as those already.
            yield places
            continue
        if getattr(sampler, _OWN, None) is None:
            _REACHED.append(len(places))
            with contextlib.suppress(AttributeError):
                setattr(sampler, _OWN, len(places))
        yield places[: replaced(getattr(sampler, _OWN, len(places)))] if _SIZES else places


def replaced(given: int | None) -> int | None:
    """Return the batch size of this run for a loader that has `given` in the script.

    The one that is put in where the script's own is known and this is it; in proportion to the
    others that train; its own where it has another number and another run has shown that nothing
    trains on it; the one that is put in where nothing is known.
    """
    own, size, trains = _SIZES.get("value"), _SIZES.get("size"), _SIZES.get("trains")
    if given is None or size is None or (trains and given not in trains):
        return given
    return size if own is None else max(1, round(size * given / own))


def share(given: int | None) -> float:
    """Return what a batch of this run's would be if samples could be parted, in its samples: the
    proportion of a small batch to others is rounded."""
    own, size, trains = _SIZES.get("value"), _SIZES.get("size"), _SIZES.get("trains")
    if not given or not own or size is None or (trains and given not in trains):
        return 1.0
    return (size * given / own) / (replaced(given) or 1)


def _force(paddle: ModuleType, request: Request) -> None:
    """Replace the batch sizes of loaders."""
    _ASKED.append(request)
    for name in ("DataLoader", "BatchSampler", "DistributedBatchSampler"):
        _replace(getattr(paddle.io, name))


def _replace(cls: type[DataLoader]) -> None:
    old = cls.__init__
    signature = inspect.signature(old)

    def init(self: object, *args: object, **kwargs: object) -> None:
        _settle()
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        if bound.arguments.get("batch_sampler") is not None:
            old(*bound.args, **bound.kwargs)
            return
        inner = getattr(bound.arguments.get("sampler"), _OWN, None)
        if inner is not None:
            # Of a sampler of batches the size is replaced already.
            setattr(self, _OWN, inner * (bound.arguments["batch_size"] or 1))
            old(*bound.args, **bound.kwargs)
            return
        # A loader makes itself a sampler; its size is replaced already.
        own = _MAKING[-1] if _MAKING else bound.arguments["batch_size"]
        _REACHED.append(own)
        setattr(self, _OWN, own)
        bound.arguments["batch_size"] = replaced(own)
        _MAKING.append(own)
        try:
            old(*bound.args, **bound.kwargs)
        finally:
            _MAKING.pop()

    cls.__init__ = init

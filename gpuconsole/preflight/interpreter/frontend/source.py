"""Reading a script: bounded, and never run."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

MAX_BYTES = 2 * 2**20
"""Far above any script that people write; keeps parsing well under a second."""
MAX_NOTEBOOK_BYTES = 32 * 2**20
"""A notebook carries its output, pictures as text included."""
NOTEBOOK = ".ipynb"


@dataclass(frozen=True, slots=True)
class Script:
    """A script as the interpreter runs it: one part, or one for each code cell of a notebook."""

    parts: tuple[tuple[str, ast.Module], ...]
    """Where each part lies, as shown to people, and its syntax tree."""
    notes: tuple[str, ...] = ()


_TEXTS: ContextVar[Mapping[Path, str]] = ContextVar("texts", default=MappingProxyType({}))
"""What is read in place of files, by where their paths lead."""


@contextmanager
def in_place_of(texts: Mapping[Path, str]) -> Iterator[None]:
    """Let these texts be read where their files would be."""
    before = _TEXTS.set(texts)
    try:
        yield
    finally:
        _TEXTS.reset(before)


def text_of(path: Path) -> str:
    """Return the text that is read for a file. OSError or UnicodeDecodeError as for the file."""
    edited = _edited(path)
    return path.read_text("utf-8") if edited is None else edited


def _edited(path: Path) -> str | None:
    texts = _TEXTS.get()
    return texts.get(path.resolve()) if texts else None


def read(path: Path) -> Script:
    """Return a script or notebook; UsageError says what is wrong with it and where."""
    if path.suffix != NOTEBOOK:
        return Script(((str(path), parse(path)),))
    changed, size = _stat(path, MAX_NOTEBOOK_BYTES)
    return _notebook(str(path), changed, size)


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file; UsageError says what is wrong with it and where."""
    edited = _edited(path)
    if edited is not None:
        return _parse_text(str(path), edited)
    return _parse(str(path), *_stat(path, MAX_BYTES))


def _stat(path: Path, most: int) -> tuple[int, int]:
    """Return change time and size of a readable, not too large file."""
    try:
        stat = path.stat()
        if not path.is_file():
            raise UsageError(
                "Not a script", msg("{path} is not a file.", path=path), "Name a Python file."
            )
    except OSError as error:
        raise UsageError(
            "Cannot read the script",
            msg("{path}: {strerror}.", path=path, strerror=error.strerror),
            "Check the path.",
        ) from None
    if stat.st_size > most:
        raise UsageError(
            "Script too large",
            msg(
                "{path} has {size} MiB; the analysis reads up to {most} MiB.",
                path=path,
                size=f"{stat.st_size / 2**20:.0f}",
                most=most // 2**20,
            ),
            "Move data out of the script into files of its own.",
        )
    return stat.st_mtime_ns, stat.st_size


def _bytes(name: str, most: int) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise UsageError(
            "Cannot read the script",
            msg("{name}: {strerror}.", name=name, strerror=error.strerror),
            "Check the path.",
        ) from None


MOST_PARSED = 1024
"""Most files with cached trees: a script is followed several times, with all that it imports."""


# The change time and size only key the caches.
@lru_cache(maxsize=8)
def _notebook(name: str, changed: int, size: int) -> Script:
    # Notebooks are a minority: plain scripts do not pay for reading JSON.
    from gpuconsole.preflight.interpreter.frontend.notebook import cells

    parts, skipped = cells(Path(name), _bytes(name, MAX_NOTEBOOK_BYTES), _tree)
    shown = ", ".join(skipped[:6]) + (f" and {len(skipped) - 6} more" if skipped[6:] else "")
    notes = (f"Notebook magics and shell lines were not followed: {shown}.",) if skipped else ()
    return Script(tuple(parts), notes)


@lru_cache(maxsize=MOST_PARSED)
def _parse(name: str, changed: int, size: int) -> ast.Module:
    return _tree(_bytes(name, MAX_BYTES), name)


@lru_cache(maxsize=32)
def _parse_text(name: str, text: str) -> ast.Module:
    return _tree(text, name)


def _tree(text: bytes | str, name: str) -> ast.Module:
    """Parse; bytes, not text, where it is a file: the parser honours the file's coding line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, name)
    except UnicodeDecodeError as error:
        raise UsageError(
            "Script is not text",
            msg(
                "{name}: {reason} at byte {start}.",
                name=name,
                reason=error.reason,
                start=error.start,
            ),
            "Save as UTF-8.",
        ) from None
    except SyntaxError as error:
        place = f"{name}:{error.lineno or 1}:{error.offset or 1}"
        raise UsageError(
            "Script has a syntax error",
            msg("{place}: {msg}.", place=place, msg=clean(error.msg, 200)),
            "Python itself would refuse this file; correct the line.",
        ) from None
    except (RecursionError, MemoryError, ValueError) as error:
        reason = "it is nested too deep" if not isinstance(error, ValueError) else str(error)
        raise UsageError(
            "Cannot read the script",
            msg("{name}: {reason}.", name=name, reason=clean(reason, 200)),
            "Simplify the file.",
        ) from None


def within(root: Path, path: Path) -> Path | None:
    """Return where a path leads, links followed, or None when that lies outside `root`."""
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError, ValueError):
        return None
    return resolved if resolved.is_relative_to(root) else None


class Lookup:
    """Looks for files and folders of a project, for each once: what is imported by many modules
    is looked for by each, in all folders that could have it."""

    def __init__(self, root: Path) -> None:
        """`root` is the project's folder, resolved: nothing outside is given."""
        self._root = root
        self._files: dict[tuple[str, str], tuple[tuple[Path, Path], ...]] = {}
        self._folders: dict[str, Path | None] = {}

    def modules(self, base: Path | str, name: str) -> tuple[tuple[Path, Path], ...]:
        """Return the files that could be the module `name` of a folder: a package, then a module.

        Each with where its links lead.
        """
        key = (str(base), name)
        candidates = self._files.get(key)
        if candidates is None:
            candidates = self._files[key] = tuple(self._candidates(*key))
        return candidates

    def folder(self, path: Path | str) -> Path | None:
        """Return where a folder's links lead, None for what is no folder of the project."""
        name = str(path)
        if name not in self._folders:
            # Most are not there, and as text that costs least to see.
            resolved = within(self._root, Path(name)) if os.path.isdir(name) else None
            self._folders[name] = resolved
        return self._folders[name]

    def file(self, name: str) -> Path | None:
        """Return where a file's links lead, None for what is no file of the project.

        A folder is followed once for all of its files: lists of data name thousands.
        """
        try:
            if not os.path.isfile(name):
                return None
            above, last = os.path.split(name)
            if not above or os.path.islink(name):
                return within(self._root, Path(name))
            folder = self.folder(above)
        except (OSError, ValueError):
            return None
        return None if folder is None else folder / last

    def _candidates(self, base: str, name: str) -> Iterator[tuple[Path, Path]]:
        if name and not name.isidentifier():
            return
        where = os.path.join(base, name) if name else base
        for candidate in (os.path.join(where, "__init__.py"), *([f"{where}.py"] if name else [])):
            resolved = self.file(candidate)
            if resolved is not None:
                yield Path(candidate), resolved

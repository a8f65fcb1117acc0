"""Reading a script: bounded, and never run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from gpuconsole.core.text import clean
from gpuconsole.errors import UsageError

MAX_BYTES = 2 * 2**20
"""Far above any script that people write; keeps parsing well under a second."""


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file; UsageError says what is wrong with it and where."""
    try:
        stat = path.stat()
        if not path.is_file():
            raise UsageError("Not a script", f"{path} is not a file.", "Name a Python file.")
        if stat.st_size > MAX_BYTES:
            raise UsageError(
                "Script too large",
                f"{path} has {stat.st_size / 2**20:.0f} MiB; "
                f"the analysis reads up to {MAX_BYTES // 2**20} MiB.",
                "Move data out of the script into files of its own.",
            )
    except OSError as error:
        raise UsageError(
            "Cannot read the script", f"{path}: {error.strerror}.", "Check the path."
        ) from None
    return _parse(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=64)
def _parse(name: str, changed: int, size: int) -> ast.Module:
    """Parse a file; the change time and size only key the cache."""
    try:
        with open(name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        # Bytes, not text: the parser honours the file's own coding line.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data, name)
    except OSError as error:
        raise UsageError(
            "Cannot read the script", f"{name}: {error.strerror}.", "Check the path."
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(
            "Script is not text", f"{name}: {error.reason} at byte {error.start}.", "Save as UTF-8."
        ) from None
    except SyntaxError as error:
        place = f"{name}:{error.lineno or 1}:{error.offset or 1}"
        raise UsageError(
            "Script has a syntax error",
            f"{place}: {clean(error.msg, 200)}.",
            "Python itself would refuse this file; correct the line.",
        ) from None
    except (RecursionError, MemoryError, ValueError) as error:
        reason = "it is nested too deep" if not isinstance(error, ValueError) else str(error)
        raise UsageError(
            "Cannot read the script", f"{name}: {clean(reason, 200)}.", "Simplify the file."
        ) from None


def candidates(base: Path, name: str) -> Iterator[Path]:
    """Give the files that could be the project's module `name` below `base`."""
    parts = [part for part in name.split(".") if part]
    if not all(part.isidentifier() for part in parts):
        return
    where = base.joinpath(*parts)
    for path in (where.with_suffix(".py") if parts else where, where / "__init__.py"):
        if path.is_file():
            yield path

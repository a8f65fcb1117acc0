"""Notebooks: their code cells as Python, cell by cell, with what Python cannot read left out.

A place in a notebook is written `train.ipynb[cell 3]:12`: line 12 of the third code cell, which is
`In [3]` after "run all".
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

MAX_CELLS = 2000
MAX_MAGICS = 200
MAX_CODE = 2 * 2**20
_FOREIGN_CELL = re.compile(
    r"\s*%%(?!time\b|timeit\b|capture\b|prun\b|python3?\b)(\w+)", re.IGNORECASE
)
"""Cells of another language, or that are written to a file. Timing and capturing run Python."""
_MAGIC = re.compile(r"\s*([%!?]|[\w.]+\s*\?{1,2}\s*$)")
_CAPTURED = re.compile(r"\s*[\w, ]+=\s*[%!]")


def cells(path: Path, data: bytes, parse: Callable[[str, str], ast.Module]) -> tuple[
    list[tuple[str, ast.Module]], tuple[str, ...]
]:  # fmt: skip
    """Return the code cells with their places, and a note on what was left out.

    UsageError when the file is no notebook, is not in Python, or a cell has a syntax error.
    """
    document = _document(path, data)
    parts: list[tuple[str, ast.Module]] = []
    skipped: list[str] = []
    for number, text in enumerate(_sources(path, document), 1):
        place = f"{path}[cell {number}]"
        foreign = _FOREIGN_CELL.match(text)
        if foreign is not None:
            skipped.append(f"cell {number} (%%{clean(foreign[1], 40)})")
            continue
        tree, lines = _python(text, place, parse)
        skipped.extend(f"cell {number} line {line}" for line in lines)
        parts.append((place, tree))
    return parts, tuple(skipped)


def _document(path: Path, data: bytes) -> dict[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"it is not JSON ({clean(str(error), 120)})") from None
    if not isinstance(document, dict):
        raise _refused(path, "it is JSON, but not a notebook")
    return document


def _sources(path: Path, document: dict[str, object]) -> list[str]:
    """Return the text of the code cells, of format 4 or, within worksheets, of format 3."""
    _require_python(path, document)
    cells = document.get("cells")
    sheets = document.get("worksheets")
    if cells is None and isinstance(sheets, list) and sheets and isinstance(sheets[0], dict):
        cells = sheets[0].get("cells")
    if not isinstance(cells, list):
        raise _refused(path, "it has no list of cells")
    if len(cells) > MAX_CELLS:
        raise _refused(path, f"it has {len(cells)} cells; the analysis reads {MAX_CELLS}")
    texts: list[str] = []
    for cell in cells:
        if not isinstance(cell, dict):
            raise _refused(path, "one of its cells is not a mapping")
        if cell.get("cell_type") != "code":
            continue
        text = cell.get("source", cell.get("input", ""))
        if isinstance(text, list) and all(isinstance(line, str) for line in text):
            text = "".join(text)
        if not isinstance(text, str):
            raise _refused(path, f"code cell {len(texts) + 1} has no text")
        texts.append(text)
    if sum(map(len, texts)) > MAX_CODE:
        raise _refused(path, f"its code is longer than {MAX_CODE // 2**20} MiB")
    return texts


def _require_python(path: Path, document: dict[str, object]) -> None:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    for key, field in (("kernelspec", "language"), ("language_info", "name")):
        part = metadata.get(key)
        language = part.get(field) if isinstance(part, dict) else None
        if isinstance(language, str) and "python" not in language.lower():
            raise _refused(path, f"its language is {clean(language, 40)}, not Python")


def _python(
    text: str, place: str, parse: Callable[[str, str], ast.Module]
) -> tuple[ast.Module, list[int]]:
    """Parse a cell; only where Python refuses it are magics and shell lines taken out.

    What looks like a magic may stand inside a string or continue an expression; then the cell is
    Python as it is. Lines keep their numbers.
    """
    lines = text.splitlines()
    maybe = [number for number, line in enumerate(lines, 1) if _left_out(line)]
    taken: list[int] = []
    while maybe and len(taken) < MAX_MAGICS and (wrong := _wrong_line(lines)):
        # The magic that Python stumbled over lies at that line, or the nearest above.
        number = max((line for line in maybe if line <= wrong), default=maybe[0])
        maybe.remove(number)
        taken.append(number)
        line = lines[number - 1]
        lines[number - 1] = line[: len(line) - len(line.lstrip())] + "pass"
    return parse("\n".join(lines), place), sorted(taken)


def _wrong_line(lines: list[str]) -> int:
    """Return the line that Python refuses, 0 when there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse("\n".join(lines))
    except SyntaxError as error:
        return error.lineno or 1
    except (RecursionError, MemoryError, ValueError):
        return 0
    return 0


def _left_out(line: str) -> bool:
    return _MAGIC.match(line) is not None or _CAPTURED.match(line) is not None


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        "Cannot read the notebook", msg("{path}: {why}.", path=path, why=why),
        "Open it in Jupyter and save it again, or export it as a script (.py).",
    )  # fmt: skip

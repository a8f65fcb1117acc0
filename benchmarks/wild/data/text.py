"""Recipes for data in lines: lists, label files, texts with labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write(file: Path, text: str) -> None:
    """Write a file, as a new one where there is one: it may be shared with the clone."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.write_text(text, "utf-8")


def lines(
    file: Path, *, line: str, count: int = 32, classes: int = 2, head: Sequence[str] = ()
) -> None:
    """Write a file of lines; in a line `{i}` is its number and `{c}` its class."""
    written = [line.format(i=i, c=i % classes) for i in range(count)]
    write(file, "\n".join([*head, *written]) + "\n")


def json_lines(
    file: Path, *, record: Any, count: int = 32, classes: int = 2, whole: bool = False
) -> None:
    """Write a JSON record a line, or all in a list; `{i}` and `{c}` in its texts as in `lines`."""
    records = [_filled(record, i, i % classes) for i in range(count)]
    texts = [json.dumps(one, ensure_ascii=False) for one in ([records] if whole else records)]
    write(file, "\n".join(texts) + "\n")


def _filled(value: Any, i: int, c: int) -> Any:
    if isinstance(value, str):
        return value.replace("{i}", str(i)).replace("{c}", str(c))
    if isinstance(value, list):
        return [_filled(one, i, c) for one in value]
    if isinstance(value, dict):
        return {name: _filled(one, i, c) for name, one in value.items()}
    return value

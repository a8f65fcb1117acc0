"""Documents that a script configures itself from; read, bounded, never executed.

Only files of the project are read. Whole numbers remember file and line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain.values import Unknown, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

if TYPE_CHECKING:
    import yaml

MAX_BYTES = 256 * 1024
MAX_DATA_BYTES = 2 * 2**20
"""Of a file of data that is read as text."""
MAX_LINES = 60_000
"""Lines of a file that a loop walks over one by one."""
MAX_DEPTH = 32
ENCODINGS = ("gbk", "gb2312", "gb18030", "latin-1", "latin1", "iso-8859-1", "ISO-8859-1", "cp1252",
             "utf-16", "big5", "euc-kr", "shift_jis")  # fmt: skip
"""Of the project's files, beside UTF-8."""
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?')


class FileText(str):
    """What was read from a file of the project."""

    path: Path


def path_text(value: Value) -> str | None:
    """Return a path as text, or None when it is not known."""
    text = value if isinstance(value, str) else getattr(value, "text", None)
    return text if isinstance(text, str) else None


def locate(run: Run, name: Value) -> Path | Unknown:
    """Return a file of the project that a script names."""
    if isinstance(name, Unknown):
        return name
    text = path_text(name)
    if text is None:
        return run.unknown("a file of unknown name")
    imports = run.interp.imports
    for start in imports.starts():
        path = imports.files.file(os.path.join(start, text))
        if path is not None:
            return path
    return run.unknown(msg("the file {name} is not in the project folder", name=text[:200]))


def text_at(
    run: Run, name: Value, most: int = MAX_BYTES, encoding: Value = None, errors: Value = None
) -> tuple[Path, str] | Unknown:
    """Return the text of a file of the project of at most so many bytes."""
    path = locate(run, name)
    if isinstance(path, Unknown):
        return path
    try:
        if path.stat().st_size > most:
            return run.unknown(msg("the file {name} is too large to read", name=path.name))
        run.interp.imports.read.add(str(path))
        kind = encoding if encoding in ENCODINGS else "utf-8"
        text = path.read_text(kind, errors if errors in ("ignore", "replace") else None)
        return path, text.removeprefix("\ufeff")
    except (OSError, ValueError):
        return run.unknown(msg("the file {name} cannot be read", name=path.name))


def opened_text(run: Run, file: Value) -> tuple[Path, str] | Unknown:
    """Return place and text of an opened file, or of text that was read before."""
    if isinstance(file, Unknown):
        return file
    if isinstance(file, FileText):
        return file.path, file
    if isinstance(file, str):
        return Path(run.file), file
    path = getattr(file, "path", file)
    return text_at(run, path)


def load_json(run: Run, file: Value, object_hook: Value = None, **_: Value) -> Value:
    """Stand for `json.load` and `json.loads`; `object_hook` makes each object, the inner first."""
    text = opened_text(run, file)
    if isinstance(text, Unknown):
        return text
    path, content = text
    lines = _number_lines(content)

    def whole(digits: str) -> Value:
        line, column = next(lines, (0, 0))
        return run.sourced(int(digits), str(path), line, "constant", f"{path}:{line}:{column}")

    def made(fields: dict[str, Value]) -> Value:
        return run.interp.call(object_hook, [fields], {})

    try:
        return json.loads(
            content, parse_int=whole, object_hook=None if object_hook is None else made
        )
    except (ValueError, RecursionError):
        return run.unknown(msg("{name} is not JSON", name=path.name))


def _number_lines(text: str) -> Iterator[tuple[int, int]]:
    """Give line and column of each whole number of a JSON text, in order."""
    line, start = 1, 0
    for token in _TOKENS.finditer(text):
        if token[0][0] != '"' and token[0].lstrip("-").isdigit():
            passed = text.count("\n", start, token.start())
            line, start = line + passed, token.start()
            yield line, token.start() - (text.rfind("\n", 0, token.start()) + 1)


def load_yaml(run: Run, file: Value, *_: Value, **__: Value) -> Value:
    """Stand for `yaml.safe_load`."""
    text = opened_text(run, file)
    return text if isinstance(text, Unknown) else _yaml(run, *text)


def yaml_at(run: Run, path: Value) -> Value:
    """Return a YAML document by its path."""
    text = text_at(run, path)
    return text if isinstance(text, Unknown) else _yaml(run, *text)


def scalar(run: Run, text: str) -> Value:
    """Return a word as YAML reads it."""
    return _yaml(run, Path(run.file), text[:1000])


def _yaml(run: Run, path: Path, text: str) -> Value:
    import yaml

    loader = yaml.SafeLoader("")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return _value(run, loader, str(path), node, 0) if node is not None else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return run.unknown(msg("{name} is not YAML that the analysis reads", name=path.name))


def _value(run: Run, loader: yaml.SafeLoader, file: str, node: yaml.Node, depth: int) -> Value:
    import yaml

    # Each reference to an anchor is read again: the budget bounds what that can grow to.
    run.interp.tick()
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)
        return {
            _value(run, loader, file, key, MAX_DEPTH): _value(run, loader, file, value, depth + 1)
            for key, value in node.value
            if isinstance(key, yaml.ScalarNode)
        }
    if isinstance(node, yaml.SequenceNode):
        return [_value(run, loader, file, item, depth + 1) for item in node.value]
    value = loader.construct_object(node)
    if type(value) is int:
        line = node.start_mark.line + 1
        key = f"{file}:{line}:{node.start_mark.column}"
        return run.sourced(value, file, line, "constant", key)
    return value

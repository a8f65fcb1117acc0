"""YAML and JSON files that a script configures itself from; read, bounded, never executed."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.values import Unknown, Value

MAX_BYTES = 256 * 1024


def _text(run: Run, file: Value) -> tuple[Path, str] | Unknown:
    path = getattr(file, "path", None)
    if isinstance(path, Unknown):
        return path
    if not isinstance(path, str):
        return run.unknown("a file whose name is not known")
    found = Path(path) if Path(path).is_absolute() else Path(run.file).parent / path
    try:
        if not found.is_file() or found.stat().st_size > MAX_BYTES:
            return run.unknown(f"the file {path} is not beside the script, or too large")
        return found, found.read_text("utf-8")
    except (OSError, ValueError):
        return run.unknown(f"the file {path} cannot be read")


def load_json(run: Run, file: Value, **_: Value) -> Value:
    """Stand for `json.load`."""
    text = _text(run, file)
    if isinstance(text, Unknown):
        return text
    try:
        return json.loads(text[1])
    except (ValueError, RecursionError):
        return run.unknown(f"{text[0].name} is not JSON")


def load_yaml(run: Run, file: Value, *_: Value, **__: Value) -> Value:
    """Stand for `yaml.safe_load`; whole numbers remember their line."""
    text = _text(run, file)
    if isinstance(text, Unknown):
        return text
    try:
        node = yaml.compose(text[1], Loader=yaml.SafeLoader)
        return _value(run, str(text[0]), node, 0) if node is not None else {}
    except (yaml.YAMLError, ValueError, RecursionError):
        return run.unknown(f"{text[0].name} is not YAML that the analysis reads")


def _value(run: Run, file: str, node: yaml.Node, depth: int) -> Value:
    if depth > 32:
        raise ValueError("nested too deep")
    if isinstance(node, yaml.MappingNode):
        return {
            _value(run, file, key, 32): _value(run, file, value, depth + 1)
            for key, value in node.value
            if isinstance(key, yaml.ScalarNode)
        }
    if isinstance(node, yaml.SequenceNode):
        return [_value(run, file, one, depth + 1) for one in node.value]
    value = yaml.SafeLoader("").construct_object(node)
    if type(value) is int:
        line = node.start_mark.line + 1
        key = f"{file}:{line}:{node.start_mark.column}"
        return run.sourced(value, file, line, "constant", key)
    return value

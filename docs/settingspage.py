"""The reference of settings, inventory and task file, from the models that read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from tables import descriptions

from gpuconsole.config import LabSettings
from gpuconsole.remote.inventory import Access, HostSection, InventorySection
from gpuconsole.taskfile import TaskFile
from gpuconsole.yamldoc import Seconds, SizeMib

_HEAD = """# Settings

Written by `docs/generate.py` from the code that reads these files; do not edit by hand.

| file | place | holds |
| --- | --- | --- |
| settings | `$GPUCONSOLE_CONFIG`, else `~/.config/gpuconsole/config.yaml` \
(`$XDG_CONFIG_HOME` counts) | your own settings |
| inventory | `--inventory FILE`, else `$GPUCONSOLE_INVENTORY`, \
else `~/.config/gpuconsole/inventory.yaml` |\
 the hosts, and under `lab:` the lab's settings, which \
replace yours key by key |
| task file | anywhere; `gpuconsole submit --task FILE` | one job |
| themes, `*.yaml` | `~/.config/gpuconsole/themes/` | [colours](themes.md) |
| state | `--state DIR`, else `$GPUCONSOLE_STATE`, \
else `~/.local/state/gpuconsole` (`$XDG_STATE_HOME` counts) \
| the [queue's journal](journal.md), logs, recordings |

Settings and inventory are read only if no other user can write them ([details](inventory.md)).
Every key is optional unless marked *required*; an unknown key is an error with its line.
A duration is written `90s`, `10m`, `8h` or `7d`, a size `512 MiB` or `8g`. In the tables
`a.b` means `b:` below `a:`, `[]` an item of a list, and `*` a name of your choice.

Your settings and your lab's are joined when a command starts: restart an open console after a
change. A theme is read again when its file is saved.

## Environment variables

| variable | read by | means |
| --- | --- | --- |
| `GPUCONSOLE_INVENTORY` | every command | the inventory |
| `GPUCONSOLE_STATE` | every command | the state folder |
| `GPUCONSOLE_CONFIG` | every command | the settings file, which must exist then |
| `GPUCONSOLE_READ_ONLY` | every command | `1` refuses every change |
| `GPUCONSOLE_DEBUG` | every command | `1` writes a log for reports of faults, as `--debug` does |
| `GPUCONSOLE_NO_EXTENSIONS` | every command | `1` loads nothing that other packages add |
| `GPUCONSOLE_METRICS_TOKEN` | `gpuconsole metrics` | the token that a scraper must send |
| `GPUCONSOLE_NO_TOUR` | the console | `1` shows no tour at the first start |
| `NO_COLOR` | every command | no colours |
| `LANG`, `LC_ALL`, `LC_MESSAGES` | the console | its language with `language: auto` |
| `GPUCONSOLE_RESULTS` | your script | the folder with the files that are brought back |
| `GPUCONSOLE_CHECKPOINT` | your script | the folder that a later attempt finds again |
| `GPUCONSOLE_JOB`, `GPUCONSOLE_ATTEMPT` | your script \
| the job's id and the number of this attempt |
| `GPUCONSOLE_TIME_LIMIT` | your script | its time limit in seconds |
| `GPUCONSOLE_ESTIMATE_MIB` | your script | the upper end of its memory estimate |
| `GPUCONSOLE_REPORT` | set in the job's `env` \
| `0` switches the [reporter](preflight.md#from-what-was-seen) off |
"""

_PARTS = (
    (
        "Settings of a user or a lab",
        LabSettings,
        "In `config.yaml` at the top level, or below `lab:` in an inventory. Of `measure` the "
        "stricter value counts.",
    ),
    (
        "Inventory",
        InventorySection,
        "The keys of `lab:` are those of the table above. A host may have every key of `defaults` "
        "too. "
        "[inventory/example.yaml](../inventory/example.yaml) shows them in use.",
    ),
    ("Task file", TaskFile, "Options of `gpuconsole submit` replace the keys of the file."),
)


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for title, model, words in _PARTS:
        parts += [f"\n## {title}\n\n{words}\n\n| key | default | meaning |\n| --- | --- | --- |\n"]
        parts += [f"| `{key}` | {default} | {text} |\n" for key, default, text in _rows(model)]
    return "".join(parts)


def _rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Give the keys of a model and of the models below it, with default and meaning."""
    texts = descriptions(model)
    for name, field in model.model_fields.items():
        if model is HostSection and name in Access.model_fields:
            continue
        below, mark = _below(field.annotation)
        key = f"{prefix}{name}"
        text = " ".join(texts.get(name, "").split()).replace("|", "\\|")
        yield key + mark, "" if below else _default(field), text
        if below and below is not LabSettings:
            yield from _rows(below, f"{key}{mark}.")


def _below(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """Return the model that a value of this type holds, and the placeholder of its place in it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    origin = getattr(annotation, "__origin__", None)
    for inner in get_args(annotation):
        found, mark = _below(inner)
        if found:
            return found, "[]" + mark if origin in (tuple, list) else mark
    return None, ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or value in ("", (), {}, []):
        return ""
    if value and _is(field, Seconds):
        value = _in_units(value, {"d": 86400, "h": 3600, "m": 60, "s": 1})
    elif value and _is(field, SizeMib):
        value = _in_units(value, {" TiB": 1024**2, " GiB": 1024, " MiB": 1})
    if isinstance(value, tuple):
        value = list(value)
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _is(field: FieldInfo, kind: Any) -> bool:
    """Tell whether a field is of an annotated type, such as `Seconds`."""
    return get_args(kind)[1] in field.metadata


def _in_units(value: float, units: dict[str, int]) -> str:
    """Return a value in the largest unit of which it is a whole number."""
    unit, size = next((unit, size) for unit, size in units.items() if value % size == 0)
    return f"{value / size:g}{unit}"

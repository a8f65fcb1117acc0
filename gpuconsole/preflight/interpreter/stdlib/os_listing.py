"""What lies in the project's folders: `os.listdir`, `os.walk`, `glob`, `Path.iterdir`.

Names alone are looked at, of the project's own folders and never of others; what a script will find
in a folder that is not there now is unknown.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from pathlib import Path

from gpuconsole.preflight.interpreter.domain.values import Namespace, NativeFunction, Unknown, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib import json_yaml

ELSEWHERE = "what lies on the disk where the script will run"
MAX_NAMES = 20_000
"""Names that are looked at in all, in one listing."""
MAX_DEPTH = 12
_WILD = "*?["


def folder_of(run: Run, name: Value) -> Path | None:
    """Return a folder of the project that a script names."""
    text = json_yaml.path_text(name)
    if text is None:
        return None
    imports = run.interp.imports
    for start in imports.starts():
        path = imports.files.folder(os.path.join(start, text))
        if path is not None:
            return path
    return None


def names_in(run: Run, folder: Path) -> list[str] | None:
    """Return the names in a folder in order; None where there are too many or it is closed."""
    try:
        with os.scandir(folder) as entries:
            names: list[str] = []
            for entry in entries:
                if len(names) >= MAX_NAMES:
                    return None
                if entry.name != "__pycache__":
                    names.append(entry.name)
    except OSError:
        return None
    run.interp.tick(len(names) // 4)
    return sorted(names)


def listed(run: Run, name: Value = ".") -> Value:
    """Stand for `os.listdir`; an empty folder will be filled before the script runs."""
    folder = folder_of(run, name)
    names = names_in(run, folder) if folder is not None else None
    return run.unknown(ELSEWHERE, name) if not names else list(names)


def walked(run: Run, name: Value = ".", *_: Value, **__: Value) -> Value:
    """Stand for `os.walk`."""
    folder, text = folder_of(run, name), json_yaml.path_text(name)
    if folder is None or text is None or not names_in(run, folder):
        return run.unknown(ELSEWHERE, name)
    rows: list[Value] = []
    pending = [(folder, text, 0)]
    while pending and len(rows) < MAX_NAMES:
        place, shown, depth = pending.pop(0)
        names = names_in(run, place) or []
        inner = [name for name in names if (place / name).is_dir()]
        rows.append((shown, list(inner), [name for name in names if name not in inner]))
        if depth < MAX_DEPTH:
            pending.extend((place / name, os.path.join(shown, name), depth + 1) for name in inner)
    return rows


def found(run: Run, pattern: Value, *_: Value, recursive: Value = False, **__: Value) -> Value:
    """Stand for `glob.glob`."""
    text = json_yaml.path_text(pattern)
    if text is None or isinstance(pattern, Unknown):
        return run.unknown(ELSEWHERE, pattern)
    parts = text.split("/")
    plain = next((at for at, part in enumerate(parts) if _is_wild(part)), len(parts) - 1)
    start = "/".join(parts[:plain]) or ("/" if text.startswith("/") else "")
    folder = folder_of(run, start or ".")
    if folder is None:
        return run.unknown(ELSEWHERE, pattern)
    matches = sorted(_matches(run, folder, start, parts[plain:], recursive is True))
    return list(matches) if matches else run.unknown(ELSEWHERE, pattern)


def _is_wild(part: str) -> bool:
    return any(letter in part for letter in _WILD)


def _matches(
    run: Run, folder: Path, shown: str, parts: list[str], recursive: bool, depth: int = 0
) -> Iterator[str]:
    """Give the paths below a folder that match, as the script would see them."""
    part, rest = parts[0], parts[1:]
    every = part == "**" and recursive
    if every and rest:
        yield from _matches(run, folder, shown, rest, recursive, depth)
    for name in names_in(run, folder) or ():
        place, text = folder / name, os.path.join(shown, name)
        if name.startswith(".") and not part.startswith("."):
            continue
        deeper = depth < MAX_DEPTH and place.is_dir()
        if every:
            if deeper:
                yield from _matches(run, place, text, parts, recursive, depth + 1)
            if not rest:
                yield text
        elif fnmatch.fnmatchcase(name, part):
            if not rest:
                yield text
            elif deeper:
                yield from _matches(run, place, text, rest, recursive, depth + 1)


def is_folder(run: Run, name: Value) -> Value:
    """Stand for `os.path.isdir`: known only of the project's folders and files."""
    if folder_of(run, name) is not None:
        return True
    there = not isinstance(json_yaml.locate(run, name), Unknown)
    return False if there else run.unknown(ELSEWHERE, name)


def glob() -> Namespace:
    """Return `glob`."""
    return Namespace("glob", {
        "glob": NativeFunction(found, "glob.glob"), "iglob": NativeFunction(found, "glob.iglob"),
        "escape": NativeFunction(lambda run, text: text, "glob.escape"),
    })  # fmt: skip

"""Answers to preflight's questions, remembered for each script in `assumptions.json`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from gpuconsole.errors import JournalError
from gpuconsole.state.filesystem import make_folder

FILE = "assumptions.json"
MAX_SCRIPTS = 500
"""Scripts remembered; the one answered longest ago goes first."""
MAX_BYTES = 4 * 2**20

Remembered = dict[str, dict[str, str]]
"""Answers by script, oldest first: name to value, as the user wrote both."""


def decode(text: str) -> Remembered:
    """Return what a file says; what is not of its form is left out."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        script: {name: value for name, value in given.items() if isinstance(value, str)}
        for script, given in document.items()
        if isinstance(given, dict)
    }


def encode(remembered: Remembered) -> str:
    """Return the file's text."""
    return json.dumps(remembered, indent=1, ensure_ascii=False) + "\n"


def changed(remembered: Remembered, script: str, given: Mapping[str, str]) -> Remembered:
    """Return the answers with a script's new ones; an empty value forgets one."""
    answers = {**remembered.get(script, {}), **given}
    rest = {name: known for name, known in remembered.items() if name != script}
    kept = {name: value for name, value in answers.items() if value.strip()}
    # The script that was answered last stands last.
    whole = {**rest, script: kept} if kept else rest
    return dict(list(whole.items())[-MAX_SCRIPTS:])


class Assumptions:
    """The remembered answers of one state folder, read anew each time: other consoles write too."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE

    def of(self, script: str | Path) -> dict[str, str]:
        """Return the answers for a script; none where nothing can be read."""
        return self._read().get(_key(script), {})

    def remember(self, script: str | Path, given: Mapping[str, str]) -> dict[str, str]:
        """Add answers for a script and return all of them; an empty value forgets one.

        JournalError when the file cannot be written.
        """
        before = self._read()
        after = changed(before, _key(script), given)
        if after != before:
            self._write(encode(after))
        return after.get(_key(script), {})

    def forget(self, script: str | Path) -> None:
        """Forget all answers for a script; JournalError when the file cannot be written."""
        before = self._read()
        if before.pop(_key(script), None) is not None:
            self._write(encode(before))

    def _read(self) -> Remembered:
        try:
            with self._file.open("rb") as file:
                return decode(file.read(MAX_BYTES).decode("utf-8", "replace"))
        except OSError:
            return {}

    def _write(self, text: str) -> None:
        draft = self._file.with_name(f".{FILE}.{os.getpid()}")
        try:
            make_folder(self._file.parent)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as to:
                to.write(text)
            os.replace(draft, self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise JournalError(
                "Answer cannot be remembered",
                f"{self._file}: {os.strerror(error.errno or 0)}.",
                "The answer held for this time; choose another folder with --state DIR.",
            ) from error


def _key(script: str | Path) -> str:
    """Return a script's own path: the same from wherever it is named, whatever its arguments."""
    return str(Path(script).expanduser().resolve())

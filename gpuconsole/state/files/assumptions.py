"""Answers to preflight's questions, remembered for each script in `assumptions.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from gpuconsole.errors import JournalError
from gpuconsole.state.files.json_file import KeptFile

FILE = "assumptions.json"
MAX_SCRIPTS = 500
"""Scripts remembered; the one answered longest ago goes first."""
MAX_BYTES = 4 * 2**20

Remembered = dict[str, dict[str, str]]
"""Answers by script, oldest first: name to value, as the user wrote both."""


def decode(content: bytes) -> Remembered:
    """Return what a file says; what is not of its form is left out."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        script: {name: value for name, value in given.items() if isinstance(value, str)}
        for script, given in document.items()
        if isinstance(given, dict)
    }


def encode(remembered: Remembered) -> bytes:
    """Return the file."""
    text = json.dumps(remembered, indent=1, ensure_ascii=False) + "\n"
    # A path that is no text cannot be found again, but must not keep the others from being kept.
    return text.encode(errors="replace")


def changed(remembered: Remembered, script: str, given: Mapping[str, str]) -> Remembered:
    """Return the answers with a script's new ones; an empty value forgets one."""
    answers = {**remembered.get(script, {}), **given}
    rest = {name: values for name, values in remembered.items() if name != script}
    non_empty = {name: value for name, value in answers.items() if value.strip()}
    # The script answered most recently is last.
    whole = {**rest, script: non_empty} if non_empty else rest
    return dict(list(whole.items())[-MAX_SCRIPTS:])


class Assumptions:
    """The remembered answers of one state folder."""

    def __init__(self, folder: Path) -> None:
        self._file = KeptFile(folder / FILE, decode, MAX_BYTES)

    def of(self, script: str | Path) -> dict[str, str]:
        """Return the answers for a script; none where nothing can be read."""
        return dict(self._file.content().get(_key(script), {}))

    def remember(self, script: str | Path, given: Mapping[str, str]) -> dict[str, str]:
        """Add answers for a script and return all of them; an empty value forgets one.

        JournalError when the file cannot be written.
        """
        before = self._file.content()
        after = changed(before, _key(script), given)
        if after != before:
            self._write(after)
        return after.get(_key(script), {})

    def forget(self, script: str | Path) -> None:
        """Forget all answers for a script; JournalError when the file cannot be written."""
        before, own = self._file.content(), _key(script)
        if own in before:
            self._write({name: values for name, values in before.items() if name != own})

    def _write(self, remembered: Remembered) -> None:
        try:
            self._file.write(encode(remembered))
        except JournalError as error:
            raise JournalError(
                "Answer cannot be remembered",
                error.message,
                "The answer held for this time; choose another folder with --state DIR.",
            ) from error


def _key(script: str | Path) -> str:
    """Return a script's own path: the same from wherever it is named, whatever its arguments."""
    return str(Path(script).expanduser().resolve())

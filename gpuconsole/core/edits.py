"""Lines changed in the copy of a script that is shipped; the user's file stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuconsole.errors import UsageError


@dataclass(frozen=True, slots=True)
class Edit:
    """One line to replace. `line` counts from 1; `old` and `new` are without their line end."""

    file: str
    line: int
    old: str
    new: str


def apply_edits(text: str, edits: Sequence[Edit], file: str) -> str:
    """Return a file's text with its edits made; UsageError when a line is no longer as it was."""
    lines = text.splitlines(keepends=True)
    for edit in edits:
        line = lines[edit.line - 1] if 0 < edit.line <= len(lines) else ""
        body = line.rstrip("\r\n")
        if body != edit.old:
            raise UsageError(
                "The script has changed",
                f"Line {edit.line} of {file} is no longer what the suggestion was made for.",
                "Run preflight again.",
            )
        lines[edit.line - 1] = edit.new + line[len(body) :]
    return "".join(lines)


def diff_of(edits: Sequence[Edit]) -> tuple[str, ...]:
    """Return edits as lines of a unified diff."""
    made: list[str] = []
    for edit in edits:
        made += [f"--- {edit.file}", f"+++ {edit.file} (shipped copy)",
                 f"@@ -{edit.line} +{edit.line} @@", f"-{edit.old}", f"+{edit.new}"]  # fmt: skip
    return tuple(made)

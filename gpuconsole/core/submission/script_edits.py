"""Lines changed in the copy of a script that is shipped; the user's file stays as it is."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

EditKind = Literal["batch-size", "accumulate", "amp", "recompute"]
BATCH: EditKind = "batch-size"
CHANGES: Mapping[EditKind, str] = MappingProxyType(
    {
        "batch-size": "batch size",
        "accumulate": "gradients accumulated",
        "amp": "mixed precision",
        "recompute": "blocks recomputed",
    }
)
"""Changes of the shipped copy, in a word or two."""
CONTEXT = 3
"""Unchanged lines around a change in a diff."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines to replace by others: `old` and `new` are lines joined by newlines, without a last one.

    `line` counts from 1 in the text that the edits before it have made.
    """

    file: str
    line: int
    old: str
    new: str
    kind: EditKind = BATCH
    """The change that it is part of."""
    sha256: str = ""
    """Of the file as the user has it; "" where only the lines themselves must be as they were."""

    def as_json(self) -> dict[str, str | int]:
        """Return the edit as it is printed and stored."""
        return {
            "file": self.file, "line": self.line, "old": self.old, "new": self.new,
            "kind": self.kind, "sha256": self.sha256,
        }  # fmt: skip


def apply_edits(text: str, edits: Sequence[Edit], file: str) -> str:
    """Return a file's text with its edits made, one after the other.

    UsageError when a line is no longer as it was, or the file another than the edits are for.
    """
    if any(edit.sha256 not in ("", digest_of(text)) for edit in edits):
        raise UsageError(
            "The script has changed",
            msg("{file} is no longer the file that the suggestion was made for.", file=file),
            "Run preflight again.",
        )
    lines = text.splitlines(keepends=True)
    for edit in edits:
        first, last = edit.line - 1, edit.line + edit.old.count("\n")
        bodies = [line.rstrip("\r\n") for line in lines[first:last]] if first >= 0 else []
        if bodies != edit.old.split("\n"):
            raise UsageError(
                "The script has changed",
                msg(
                    "Line {line} of {file} is no longer what the suggestion was made for.",
                    line=edit.line,
                    file=file,
                ),
                "Run preflight again.",
            )
        end = lines[last - 1][len(bodies[-1]) :]
        within = end or "\n"
        replacement = [f"{line}{within}" for line in edit.new.split("\n")]
        replacement[-1] = replacement[-1].removesuffix(within) + end
        lines[first:last] = replacement
    return "".join(lines)


def digest_of(text: str) -> str:
    """Return what tells a file's text from any other."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def edited_texts(edits: Iterable[Edit]) -> dict[Path, str]:
    """Return the files of edits with their text as it is shipped; UsageError where one cannot be
    read, or has changed."""
    by_file: dict[Path, list[Edit]] = {}
    for edit in edits:
        by_file.setdefault(Path(edit.file).resolve(), []).append(edit)
    return {path: apply_edits(_text(path), own, str(path)) for path, own in by_file.items()}


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UsageError(
            "Cannot read the script",
            msg("{path}: {strerror}.", path=path, strerror=error.strerror),
            "Check the path.",
        ) from None
    except UnicodeDecodeError:
        raise UsageError(
            "Script is not text", msg("{path} is not UTF-8.", path=path), "Save as UTF-8."
        ) from None


def with_edits(edits: Sequence[Edit], more: Sequence[Edit]) -> tuple[Edit, ...]:
    """Return edits with others that were made from their result. A batch size that is put in where
    one was put in before takes its place."""
    result = list(edits)
    for edit in more:
        last = result[-1] if result else None
        again = last is not None and edit.kind == last.kind == BATCH
        if last is not None and again and _place(last) == _place(edit) and last.new == edit.old:
            result[-1] = replace(edit, old=last.old)
        else:
            result.append(edit)
    return tuple(result)


def of_batch(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Return the edits that hold for one batch size: the first that is for one, and all that were
    made from its result."""
    kinds = [edit.kind for edit in edits]
    first = min(
        (kinds.index(kind) for kind in (BATCH, "accumulate") if kind in kinds), default=None
    )
    return () if first is None else tuple(edits[first:])


def kinds_of(edits: Iterable[Edit]) -> tuple[EditKind, ...]:
    """Return the changes that edits make, each once, in their order."""
    return tuple(dict.fromkeys(edit.kind for edit in edits))


def _place(edit: Edit) -> tuple[str, int]:
    return edit.file, edit.line


def diff_of(edits: Sequence[Edit]) -> tuple[str, ...]:
    """Return edits as lines of a unified diff, without other lines of the file around them."""
    lines: list[str] = []
    file, shift = "", 0
    for edit in sorted(edits, key=_place):
        if edit.file != file:
            file, shift = edit.file, 0
            lines += [f"--- {file}", f"+++ {file} (shipped copy)"]
        old, new = edit.old.split("\n"), edit.new.split("\n")
        lines.append(f"@@ -{_span(edit.line, old)} +{_span(edit.line + shift, new)} @@")
        lines += _body(old, new)
        shift += len(new) - len(old)
    return tuple(lines)


def whole_diff_of(edits: Sequence[Edit]) -> tuple[str, ...]:
    """Return what the shipped copy of each file has otherwise than the user's file, all edits
    together, as lines of a unified diff; UsageError where a file has changed."""
    lines: list[str] = []
    for path, text in edited_texts(edits).items():
        old, new = _text(path).splitlines(), text.splitlines()
        name = str(path)
        lines += difflib.unified_diff(
            old, new, name, f"{name} (shipped copy)", n=CONTEXT, lineterm=""
        )
    return tuple(lines)


def _span(line: int, lines: Sequence[str]) -> str:
    return str(line) if len(lines) == 1 else f"{line},{len(lines)}"


def _body(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return what differs between two runs of lines, each line with its sign."""
    most = len(old) + len(new)
    return [
        line.rstrip("\n") for line in list(difflib.unified_diff(old, new, n=most, lineterm=""))[3:]
    ]

"""What the reader of an answer has to know: what was made up or taken for granted."""

from __future__ import annotations

from typing import Any

MOST = 20
_NOTES: dict[Any, Any] = {}


def note(sentence: Any) -> None:
    """Remember a sentence, once."""
    if len(_NOTES) < MOST:
        _NOTES.setdefault(sentence)


def notes() -> Any:
    """Return the sentences in the order in which they came."""
    return list(_NOTES)

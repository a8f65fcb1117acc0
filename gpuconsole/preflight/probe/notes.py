"""What the reader of an answer has to know: what was made up or taken for granted."""

from __future__ import annotations

MOST = 20
_NOTES: dict[object, str] = {}

LATER_MEMORY = "What comes after the first steps takes more memory than there is here."
UNENDING = (
    "Unsupported: an evaluation keeps {:.2f} MiB of each batch, and how many there are is not known"
)
"""Said of an evaluation that is left before its end."""
GROWS = "memory still grows at step"
"""Said of a script that holds more after each step: no measurement of a few steps tells how much it
takes."""


def note(sentence: str, about: object = None) -> None:
    """Remember a sentence, once; it takes the place of an earlier one about the same."""
    if len(_NOTES) < MOST or about in _NOTES:
        _NOTES[about or sentence] = sentence


def notes() -> list[str]:
    """Return the sentences in the order in which they came."""
    return list(_NOTES.values())

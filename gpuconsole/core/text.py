"""Foreign text made safe: what comes from a host, a process name or a log is hostile."""

from __future__ import annotations

import re
import unicodedata

from gpuconsole.core.wording import Message

# CSI (7- and 8-bit), OSC/DCS/SOS/PM/APC strings with their terminators, then two-byte escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# What Unicode calls default-ignorable beside the format characters: fillers, variation selectors,
# and the reserved ranges in which further such characters will be defined.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Categories of controls, format characters such as bidirectional marks and tag letters,
surrogates, and separators of lines and paragraphs."""


def clean(text: str, limit: int = 4096) -> str:
    """Return one printable line: no escape sequences, no controls, nothing that is not seen, at
    most `limit` characters.

    A carriage return keeps only what a terminal would show last, as progress bars intend. A message
    that is not too long stays one, with its values cleaned.
    """
    if isinstance(text, Message) and len(text) <= limit:
        return text.mapped(clean)
    # Twice the limit is enough to cut after cleaning, and bounds the work on a 10 MB line.
    cut = text[: limit * 2 + 64]
    if "\r" in cut:
        parts = [part for part in cut.rstrip("\r\n").split("\r") if part]
        cut = parts[-1] if parts else ""
    plain = _visible(_ESCAPES.sub("", cut).replace("\n", " ").replace("\t", "    "))
    if len(plain) > limit or len(text) > len(text[: limit * 2 + 64]):
        return plain[: max(0, limit - 1)] + "…"
    return plain


def _visible(text: str) -> str:
    """Return the text without the characters that a person does not see."""
    if not text.isascii():
        text = _IGNORABLE.sub("", text)
    if text.isprintable():
        return text
    return "".join(letter for letter in text if unicodedata.category(letter) not in _UNSEEN)

"""Foreign text made safe: what comes from a host, a process name or a log is hostile."""

from __future__ import annotations

import re

# CSI (7- and 8-bit), OSC/DCS/SOS/PM/APC strings with their terminators, then two-byte escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# C0 and C1 controls, surrogates, and the bidirectional and invisible marks that reorder a line.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ufff9-\ufffb\ud800-\udfff]"
)


def clean(text: str, limit: int = 4096) -> str:
    """Return one printable line: no escape sequences, no controls, at most `limit` characters.

    A carriage return keeps only what a terminal would show last, as progress bars intend.
    """
    # Twice the limit is enough to cut after cleaning, and bounds the work on a 10 MB line.
    cut = text[: limit * 2 + 64]
    if "\r" in cut:
        parts = [part for part in cut.rstrip("\r\n").split("\r") if part]
        cut = parts[-1] if parts else ""
    plain = _CONTROLS.sub("", _ESCAPES.sub("", cut).replace("\n", " ").replace("\t", "    "))
    if len(plain) > limit or len(text) > len(text[: limit * 2 + 64]):
        return plain[: max(0, limit - 1)] + "…"
    return plain

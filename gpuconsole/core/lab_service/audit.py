"""Acts on the lab's queue, as its audit keeps them."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.text import clean
from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass

LONGEST = 500
"""Letters of what the audit says of an act."""


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody asked of the queue, and whether it was done."""

    at: float
    user: str
    uid: int
    origin: str
    """Where the process that asked comes from."""
    verb: str
    """What was asked: submit, cancel, priority, drain …"""
    subject: str
    """Upon what: the id of a job, or a host."""
    detail: str = ""
    """With what, such as the new priority."""
    refused: str = ""
    """Why it was not done; "" where it was."""

    def cleaned(self) -> Act:
        """Return the act with its words bounded and without control characters."""
        words = (self.verb, self.subject, self.detail, self.refused)
        verb, subject, detail, refused = (clean(text, LONGEST) for text in words)
        return replace(self, verb=verb, subject=subject, detail=detail, refused=refused)

    def as_json(self) -> dict[str, object]:
        """Return the act as `audit --json` shows it."""
        return {
            "at": iso_utc(self.at),
            "user": self.user,
            "uid": self.uid,
            "from": self.origin,
            "verb": self.verb,
            "subject": self.subject,
            "detail": self.detail or None,
            "refused": self.refused or None,
        }

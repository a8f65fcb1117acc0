"""Rare facts, told once: a job ended, a host was lost, another console took over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["information", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Event:
    """A rare fact, told once. `kind`: job, host, dispatcher, error."""

    kind: str
    subject: str
    message: str
    at: float
    severity: Severity = "information"
    what: str = ""
    """What happened to a job: its new state, `time-limit`, `idle` or `time-warning`; else ""."""

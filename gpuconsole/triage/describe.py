"""Rules and thresholds in words."""

from __future__ import annotations

import re

from gpuconsole.config import Thresholds
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.triage.model import Rule

_TIMES = ("_for", "_within", "_after", "_skew")
_SIZES = ("idle_memory",)


def worded(limits: Thresholds, name: str) -> str:
    """Return a threshold as a person writes it: `30m00s`, `256 MiB`, `97`."""
    value = getattr(limits, name)
    if name.endswith(_TIMES):
        return format_duration(value)
    return format_mib(value) if name in _SIZES else f"{value:g}"


def when(rule: Rule, limits: Thresholds) -> str:
    """Return when a rule holds, with the active thresholds."""
    return re.sub(r"\{(\w+)\}", lambda match: worded(limits, match.group(1)), rule.when)


def described(rule: Rule, limits: Thresholds) -> str:
    """Return when a rule holds, with the active thresholds, and for how long it must."""
    return f"{when(rule, limits)} Held for {worded(limits, rule.holds)}."

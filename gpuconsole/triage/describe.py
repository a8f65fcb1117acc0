"""Rules and thresholds in words: for the screen, and for the page that documents them."""

from __future__ import annotations

import re

from gpuconsole.config import Thresholds, TriageSection
from gpuconsole.core.generated_pages import with_part
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.triage.model import Rule
from gpuconsole.triage.rules import RULES
from gpuconsole.triage.xids import XIDS
from gpuconsole.yamldoc.descriptions import descriptions

_TIMES = ("_for", "_within", "_after", "_skew")
_SIZES = ("idle_memory",)


def worded(limits: Thresholds, name: str) -> str:
    """Return a threshold as a person writes it: `30m00s`, `256 MiB`, `97`."""
    value = getattr(limits, name)
    if name.endswith(_TIMES):
        return format_duration(value)
    return format_mib(value) if name in _SIZES else f"{value:g}"


def described(rule: Rule, limits: Thresholds) -> str:
    """Return when a rule holds, with the active thresholds, and for how long it must."""
    when = re.sub(r"\{(\w+)\}", lambda match: worded(limits, match.group(1)), rule.when)
    return f"{when} Held for {worded(limits, rule.holds)}."


def rules_table() -> str:
    """Return the table of rules as Markdown, with the thresholds as they are unless set."""
    limits = Thresholds()
    lines = ["| rule | severity | about | holds when | for |", "| --- | --- | --- | --- | --- |"]
    for rule in RULES:
        when = re.sub(r"\{(\w+)\}", lambda match: worded(limits, match.group(1)), rule.when)
        held = f"`{rule.holds}` ({worded(limits, rule.holds)})"
        cells = (f"`{rule.name}`", rule.severity.value, rule.about, when, held)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def thresholds_table() -> str:
    """Return the table of thresholds as Markdown."""
    limits = Thresholds()
    lines = ["| key below `triage: limits:` | unless set | what it says |", "| --- | --- | --- |"]
    for name, meaning in descriptions(Thresholds).items():
        lines.append(f"| `{name}` | {worded(limits, name)} | {meaning} |")
    return "\n".join(lines)


def telling_table() -> str:
    """Return the table of the settings for who is notified, as Markdown."""
    lines = ["| key below `triage:` | unless set | what it says |", "| --- | --- | --- |"]
    settings = TriageSection()
    for name, meaning in descriptions(TriageSection).items():
        if name != "limits":
            value = getattr(settings, name)
            shown = f"`{value}`" if isinstance(value, str) and value else "off"
            lines.append(f"| `{name}` | {shown} | {meaning} |")
    return "\n".join(lines)


def xids_table() -> str:
    """Return the table of known XID numbers as Markdown."""
    lines = ["| XID | what happened | look first at | what to do |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {xid.number} | {xid.words} | the {xid.side} | {xid.advice} |" for xid in XIDS.values()
    ]
    return "\n".join(lines)


def page(text: str) -> str:
    """Return docs/triage.md with its tables as the code has them now."""
    tables = {
        "rules": rules_table(),
        "thresholds": thresholds_table(),
        "telling": telling_table(),
        "xids": xids_table(),
    }
    for name, table in tables.items():
        text = with_part(text, name, table)
    return text

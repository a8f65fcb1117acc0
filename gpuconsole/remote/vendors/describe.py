"""The table of docs/vendors.md, as the readers have it."""

from __future__ import annotations

from gpuconsole.core.generated_pages import with_part
from gpuconsole.remote.vendors import FAMILIES, VENDORS
from gpuconsole.remote.vendors.model import FIELDS


def tells_table() -> str:
    """Return what each maker's tools tell of a device, as Markdown."""
    lines = [
        f"| maker | back end | {' | '.join(FIELDS)} |",
        f"| --- | --- |{' :-: |' * len(FIELDS)}",
    ]
    for vendor in VENDORS:
        cells = " | ".join("yes" if name in vendor.tells else "-" for name in FIELDS)
        lines.append(f"| {vendor.title} | `{vendor.backend}` | {cells} |")
    lines.append("")
    lines += [f"- **{vendor.title}.** {vendor.notes}" for vendor in VENDORS if vendor.notes]
    return "\n".join(lines)


def asked_table() -> str:
    """Return the commands that are run, as Markdown: of each family the first way that works."""
    lines = ["| tools for | tried in this order | every so many rounds |", "| --- | --- | --- |"]
    lines += [
        f"| {family.name} | `{' '.join(command.argv)}` | {command.every} |"
        for family in FAMILIES
        for way in family.ways
        for command in way.commands
    ]
    return "\n".join(lines)


def page(text: str) -> str:
    """Return docs/vendors.md with its tables as the code has them now."""
    return with_part(with_part(text, "tells", tells_table()), "asked", asked_table())

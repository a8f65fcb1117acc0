"""An action for the command palette, and the reader of a tool that the console does not know."""

from __future__ import annotations

import csv
import shlex

from gpuconsole.extensions import Action, Selected
from gpuconsole.remote.vendors.model import (
    Command,
    Family,
    Reading,
    Texts,
    Vendor,
    VendorError,
    VendorReader,
    Way,
    device,
)


def ssh_line(selected: Selected) -> str:
    """Say how to log in to the host under the cursor."""
    host = selected.host or {}
    return f"ssh {shlex.quote(str(host.get('address') or host['name']))}"


SSH_LINE = Action("Show the SSH line of the host", ssh_line, on="host")

VENDOR = Vendor(
    "acme",
    "Acme",
    ("acme-smi",),
    "gpu",
    "ACME",
    frozenset(("memory in use", "memory in all", "utilisation")),
)
COLUMNS = ("index", "model", "memory_used_mib", "memory_total_mib", "utilization_percent")


def read(texts: Texts) -> Reading:
    """Read `acme-smi --csv`: a row a card, below the names of the columns."""
    rows = csv.DictReader(texts["cards"].splitlines())
    if rows.fieldnames is None or not set(COLUMNS) <= set(rows.fieldnames):
        raise VendorError(f"a table without {', '.join(COLUMNS)}")
    return Reading(
        tuple(
            device(
                VENDOR,
                row["index"],
                _number(row["index"]),
                row["model"],
                memory_used_mib=_figure(row["memory_used_mib"]),
                memory_total_mib=_figure(row["memory_total_mib"]),
                utilization=_figure(row["utilization_percent"]),
            )
            for row in rows
        )
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _figure(text: str | None) -> float | None:
    """Return a figure; None where the tool says none: unknown is never 0."""
    number = _number(text)
    return None if number is None else float(number)


ACME = VendorReader(
    VENDOR,
    Family("acme", (Way("acme-smi", (Command("cards", ("acme-smi", "--csv")),), read),)),
)

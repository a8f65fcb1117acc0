"""A report as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io

from gpuconsole.session.report.model import UsageReport


def csv_text(usage: UsageReport) -> str:
    """Return the rows of a report as CSV with a line of names; figures as in `as_json`."""
    rows = usage.as_json()["rows"]
    names = list(rows[0]) if rows else [*usage.query.by, *usage.total.as_json()]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "currency"])
    for row in rows:
        writer.writerow([*(_cell(row[name]) for name in names), _cell(usage.currency)])
    return text.getvalue()


def _cell(value: object) -> object:
    """Return the text of a cell: a spreadsheet must not take a name for a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    return "" if value is None else value

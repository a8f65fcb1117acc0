"""How a command speaks: documents and tables on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from gpuconsole.remote.check import Finding

_PIPED_WIDTH = 120
"""Columns where no terminal says how many there are."""


def print_document(document: Mapping[str, Any]) -> None:
    """Print the command's one JSON document."""
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_error(error: ConsoleError, as_json: bool) -> None:
    """Tell a person on stderr, or a program on stdout, what went wrong."""
    if as_json:
        print_document(error.as_json())
        return
    # Messages may be of several lines (a list of mistakes in a file); each is made safe by itself.
    for line in f"{error.title}: {error.message}".splitlines():
        print(clean(line), file=sys.stderr)
    if error.hint:
        print(clean(error.hint), file=sys.stderr)


def note(text: str) -> None:
    """Tell progress to a person, never to a pipe."""
    print(clean(text), file=sys.stderr, flush=True)


def print_findings(findings: Iterable[Finding]) -> None:
    """Print what tests found, a line each, with what to do below it."""
    for finding in findings:
        print(clean(f"  {finding.result:<4}  {finding.step}: {finding.message}"))
        if finding.remedy:
            print(clean(f"        → {finding.remedy}"))


def console() -> Console:
    """Return a console for tables; foreign text is never read as markup."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH
    return Console(markup=False, highlight=False, emoji=False, width=width, soft_wrap=False)


def show(*parts: RenderableType) -> None:
    """Print tables and texts."""
    screen = console()
    for part in parts:
        screen.print(part)


def text(words: str, style: str = "") -> Text:
    """Return words of any origin, made safe."""
    from rich.text import Text

    return Text(clean(words), style=style)


def table(*columns: str, right: Iterable[str] = ()) -> Table:
    """Return an open table: a header line, no rules; columns named in `right` hold figures."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    rights = set(right)
    for number, column in enumerate(columns, start=1):
        # Where there is too little room only the last column gives way, by wrapping.
        last = number == len(columns)
        made.add_column(
            column,
            justify="right" if column in rights else "left",
            no_wrap=not last,
            overflow="fold" if last else "ellipsis",
        )
    return made

"""How a command speaks: documents and tables on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from gpuconsole.core.text import clean
from gpuconsole.core.util.user_dirs import config_path
from gpuconsole.core.wording import Message, joined
from gpuconsole.errors import ConsoleError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from gpuconsole.language import Language
    from gpuconsole.remote.check_findings import Finding

_PIPED_WIDTH = 120
"""Columns where no terminal says how many there are."""


@cache
def _language() -> Language:
    """Return the language of the user's settings, else that of the environment.

    Of the settings one line is read: to read them all takes longer than most commands.
    """
    from gpuconsole.language import language, spoken

    try:
        settings = config_path().read_text(encoding="utf-8", errors="replace")
    except OSError:
        settings = ""
    match = re.search(r"^language:\s*[\"']?(\w+)", settings, re.MULTILINE)
    return language(spoken(match[1] if match else "auto", os.environ))


def say(text: str) -> str:
    """Return a sentence, or a word of the program, in the user's language."""
    return _language().say(text)


def tell(*texts: str) -> None:
    """Print sentences, a line each."""
    for text in texts:
        print(say(clean(text)))


def print_document(document: Mapping[str, object]) -> None:
    """Print the command's one JSON document."""
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_error(error: ConsoleError, as_json: bool) -> None:
    """Tell a person on stderr, or a program on stdout, what went wrong."""
    if as_json:
        print_document(error.as_json())
        return
    # Messages may be of several lines (a list of mistakes in a file); each is made safe by itself.
    title, *lines = (say(clean(line)) for line in (error.title, *_lines(error.message)))
    hint = (say(clean(line)) for line in _lines(error.hint))
    for line in (f"{title}: {lines[0] if lines else ''}", *lines[1:], *hint):
        print(line, file=sys.stderr)


def _lines(text: str) -> list[str]:
    """Return the lines of a text; one that is a single line stays a message."""
    return text.splitlines() if "\n" in text else [text] if text else []


def error_text(error: ConsoleError) -> str:
    """Return an error's title and message, as one sentence."""
    return joined(": ", (error.title, error.message))


def note(text: str) -> None:
    """Tell progress to a person, never to a pipe."""
    print(say(clean(text)), file=sys.stderr, flush=True)


def print_findings(findings: Iterable[Finding]) -> None:
    """Print what tests found, a line each, with what to do below it."""
    from rich.cells import set_cell_size

    for finding in findings:
        result = set_cell_size(say(finding.result), 4)
        print(f"  {result}  {say(clean(finding.step))}: {say(clean(finding.message))}")
        if finding.remedy:
            print(f"        → {say(clean(finding.remedy))}")


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
    """Return words of any origin, made safe; a message is said in the user's language."""
    from rich.text import Text

    words = clean(words)
    return Text(say(words) if isinstance(words, Message) else words, style=style)


def said(words: str, style: str = "") -> Text:
    """Return words of the program, such as a state or a reason, in the user's language."""
    from rich.text import Text

    return Text(say(clean(words)), style=style)


def table(*columns: str, right: Iterable[str] = ()) -> Table:
    """Return an open table: a header line, no rules; columns named in `right` hold figures."""
    from rich.table import Table

    view = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    rights = set(right)
    for number, column in enumerate(columns, start=1):
        # If the terminal is too narrow only the last column shrinks, by wrapping.
        last = number == len(columns)
        view.add_column(
            say(column),
            justify="right" if column in rights else "left",
            no_wrap=not last,
            overflow="fold" if last else "ellipsis",
        )
    return view

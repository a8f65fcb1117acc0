"""What `curves` and `compare` have in common: their options, and the CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpuconsole.cli.output import note
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

NOTHING = "Its log reports nothing of training in a form that is known."


FORMS = "Own forms are set as `metrics: patterns:` in the settings."


csv_option = click.option(
    "--csv", "csv_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write the points into this file; `-` prints them.",
)  # fmt: skip


metric_option = click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="Only this one, such as val_loss."
)


def require_metrics(wanted: Sequence[str], known_metrics: Any) -> None:
    """Raise UsageError for a metric that no log reports."""
    missing = [name for name in wanted if name not in known_metrics]
    if missing:
        raise UsageError(
            "No such metric",
            msg("{name} is not reported.", name=missing[0]),
            msg("Reported are: {names}.", names=", ".join(sorted(known_metrics)) or "none"),
        )


def write_csv(path: Path, text: str) -> None:
    """Write a file, or with `-` print it."""
    if str(path) == "-":
        print(text, end="")
        return
    try:
        path.expanduser().write_text(text, encoding="utf-8")
    except OSError as error:
        words = msg("{path} cannot be written ({why}).", path=path, why=error.strerror)
        raise UsageError("File not written", words, "Name another file.") from None
    note(msg("{n} points are in {path}.", n=text.count("\n") - 1, path=path))

"""Device-hours, use, energy and cost, and who holds devices without using them."""

from __future__ import annotations

import contextlib
import gc
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.sessions import drive
from gpuconsole.core.util.human_time import parse_moment
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.report.model import Query, UsageReport
    from gpuconsole.session.session import Session

_MONTH = re.compile(r"(\d{4})-(\d{2})")


@click.command()
@click.option(
    "--by", default="user", show_default=True, metavar="KEYS",
    help="One or several of user, account, project, host, model and month: user,month.",
)  # fmt: skip
@click.option(
    "--since", default="-30d", show_default=True, metavar="TIME",
    help="From when: 2030-01, 2030-01-31T03:00 or -7d.",
)  # fmt: skip
@click.option("--until", default="now", show_default=True, metavar="TIME", help="Until when.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the rows as CSV.")
@common
def report(by: str, since: str, until: str, as_csv: bool) -> int:
    """Show device-hours, use, energy and cost of jobs.

    Jobs that hold devices now without using them come first. Device-hours are those of whole
    devices, from the placement of each attempt to its end; wasted are those in which nothing ran on
    the device. What was not measured counts as unknown, never as 0. In a lab's queue operators see
    the hours of all users, others their own; jobs that hold devices without using them are shown to
    all users.
    """
    if as_csv and options().as_json:
        raise UsageError("Wrong usage", "--csv and --json exclude each other.", "")
    query = _query(by, since, until)

    async def work(session: Session) -> UsageReport:
        return await session.usage_report(query)

    from gpuconsole.session.report.making import offline

    options().read_only = True
    with _without_garbage():
        usage_report = offline(options().inventory, options().state, query)
        if usage_report is None:
            usage_report = drive(work)
    if options().as_json:
        print_document(usage_report.as_json())
        return 0
    if as_csv:
        from gpuconsole.session.report.csv_sheet import csv_text

        print(csv_text(usage_report), end="")
        return 0
    if not usage_report.rows and not usage_report.idle:
        note("No device was in use in that time.")
        return 0
    from gpuconsole.cli.views import usage

    show(*usage.report(usage_report, time.time()))
    return 0


@contextlib.contextmanager
def _without_garbage() -> Iterator[None]:
    """Look for no garbage: what is read is needed to the end, and a look takes as long again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _query(by: str, since: str, until: str) -> Query:
    from gpuconsole.session.report.model import KEYS, Query

    keys = tuple(key.strip() for key in by.split(","))
    valid_keys = tuple(key for word in keys for key in KEYS if key == word)
    if len(valid_keys) != len(keys):
        raise UsageError(
            "Wrong keys", msg("--by takes each of {keys} once.", keys=", ".join(KEYS)), ""
        )
    now = time.time()
    return Query(_moment("since", since, now), _moment("until", until, now), valid_keys)


def _moment(option: str, text: str, now: float) -> float:
    """Return the time that is meant; of a month its beginning on this machine's clock."""
    month = _MONTH.fullmatch(text.strip())
    try:
        return parse_moment(f"{text.strip()}-01" if month else text, now, now)
    except ValueError as error:
        why = msg("{option}: {why_text}.", option=f"--{option}", why_text=error.args[0])
        raise UsageError("Wrong time", why, "") from error

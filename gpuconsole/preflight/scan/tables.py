"""`csv`: the rows of a table that lies in the project; of any other, rows nobody knows."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from gpuconsole.preflight.scan.quiet import Silent
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
)

FORMAT = ("delimiter", "quotechar", "escapechar", "doublequote", "skipinitialspace", "quoting",
          "strict")  # fmt: skip
_CONSTANTS = {name: getattr(csv, name) for name in dir(csv) if name.startswith("QUOTE_")}


class Table(Native):
    """A reader of rows of text, each given once."""

    def __init__(self) -> None:
        super().__init__()
        self.walk: Iterator[Value] = iter(())

    def opened(self, run: Run, lines: Value, dialect: Value, options: dict[str, Value]) -> Value:
        """Keep what gives the lines; an unknown where the format is not known."""
        form = {name: options[name] for name in FORMAT if name in options}
        try:
            csv.reader((), dialect, **form)
        except (TypeError, csv.Error):
            return run.unknown("a table in a format that is not known")
        self.walk = _rows(run, lines, dialect, form)
        return None

    def iterate(self, calls: Any) -> Iterator[Value]:
        """Give the rows that are left; leaving early does not end the reader."""
        for row in self.walk:
            calls.tick()
            yield row


class Rows(Table):
    """`csv.reader`: rows as lists."""

    label = "csv.reader"

    def init(self, run: Run, lines: Value = None, dialect: Value = "excel",
             **options: Value) -> Value:  # fmt: skip
        """Keep what gives the lines."""
        return self.opened(run, lines, dialect, options)


class NamedRows(Table):
    """`csv.DictReader`: rows by the names of their columns."""

    label = "csv.DictReader"

    def __init__(self) -> None:
        super().__init__()
        self.names: Value = None
        self.spare: tuple[Value, Value] = (None, None)

    def init(self, run: Run, lines: Value = None, fieldnames: Value = None,
             restkey: Value = None, restval: Value = None, dialect: Value = "excel",
             **options: Value) -> Value:  # fmt: skip
        """Keep what gives the lines, and the names where they are given."""
        self.names = None if fieldnames is None else list(run.calls.iterate(fieldnames))
        self.spare = (restkey, restval)
        return self.opened(run, lines, dialect, options)

    def get_fieldnames(self, run: Run) -> Value:
        """Give the names of the columns: without others those of the first row."""
        if self.names is None:
            self.names = next(self.walk, None)
        return self.names

    def iterate(self, calls: Any) -> Iterator[Value]:
        """Give the rows that are left."""
        names = self.get_fieldnames(calls.run)
        if isinstance(names, Unknown):
            yield from calls.iterate(names)
            return
        if names is None:
            return
        rest, missing = self.spare
        for row in super().iterate(calls):
            if isinstance(row, Unknown):
                yield row
            elif row:
                made = dict(zip(names, row, strict=False))
                made.update(dict.fromkeys(names[len(row) :], missing))
                if len(row) > len(names):
                    made[rest] = row[len(names) :]
                yield made


def _rows(run: Run, lines: Value, dialect: Value, form: dict[str, Value]) -> Iterator[Value]:
    foreign: list[Value] = []

    def known() -> Iterator[str]:
        for line in run.calls.iterate(lines):
            if not isinstance(line, str):
                foreign.append(line)
                return
            yield line

    try:
        yield from csv.reader(known(), dialect, **form)
    except csv.Error:
        yield run.unknown("a row of a table that cannot be read")
        return
    for line in foreign:
        yield line if isinstance(line, Unknown) else run.unknown("a row of a table", line)


def namespace() -> Namespace:
    """Return `csv`; what writes tables changes no sizes."""
    writing = NativeFunction(lambda run, *_, **__: Silent(), "csv.writer")
    return Namespace("csv", {
        "reader": NativeClass(Rows, "csv.reader"),
        "DictReader": NativeClass(NamedRows, "csv.DictReader"),
        "writer": writing, "DictWriter": writing, **_CONSTANTS,
    })  # fmt: skip

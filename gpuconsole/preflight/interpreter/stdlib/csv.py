"""`csv`: the rows of a table that lies in the project; of any other, unknown rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    UserClass,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib.no_effect import Silent

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

MAX_SNIFFED = 4096
"""Characters that a format is guessed from."""
FORMAT = ("delimiter", "quotechar", "escapechar", "doublequote", "skipinitialspace", "quoting",
          "strict")  # fmt: skip
_CONSTANTS = {name: getattr(csv, name) for name in dir(csv) if name.startswith("QUOTE_")}


class Dialect(Native):
    """A format of tables: a class of the script's own, or what a sniffer found."""

    label = "csv.Dialect"

    def form(self) -> dict[str, Value]:
        """Return what it says of the format."""
        said = {name: self.cls.find(name) for name in FORMAT} if self.cls is not None else {}
        said.update({name: self.attrs[name] for name in FORMAT if name in self.attrs})
        return {name: option for name, option in said.items() if option is not MISSING}


class Sniffer(Native):
    """`csv.Sniffer`."""

    label = "csv.Sniffer"

    @exposed.method("sniff")
    def do_sniff(self, run: Run, sample: Value, delimiters: Value = None) -> Value:
        """Guess the format of a sample."""
        if not isinstance(sample, str):
            return run.unknown("the format of a table", sample)
        dialect = Dialect()
        try:
            guessed = csv.Sniffer().sniff(sample[:MAX_SNIFFED], delimiters)
        except (csv.Error, TypeError):
            return run.unknown("the format of a table")
        dialect.attrs.update({name: getattr(guessed, name) for name in FORMAT
                           if hasattr(guessed, name)})  # fmt: skip
        return dialect

    @exposed.method("has_header")
    def do_has_header(self, run: Run, sample: Value) -> Value:
        """Guess whether the first row names the columns."""
        try:
            return csv.Sniffer().has_header(sample[:MAX_SNIFFED])
        except (csv.Error, TypeError):
            return run.unknown("whether a table has a head", sample)


class Table(Native):
    """A reader of rows of text, each given once."""

    is_data = True

    def __init__(self) -> None:
        super().__init__()
        self.walk: Iterator[Value] = iter(())

    def opened(self, run: Run, lines: Value, dialect: Value, options: dict[str, Value]) -> Value:
        """Store the source of the lines; an unknown if the format is unknown."""
        form = {name: options[name] for name in FORMAT if name in options}
        if isinstance(dialect, UserClass) and dialect.native is Dialect:
            dialect = run.interp.call(dialect, [], {})
        if isinstance(dialect, Dialect):
            dialect, form = "excel", {**dialect.form(), **form}
        try:
            csv.reader((), dialect, **form)
        except (TypeError, csv.Error):
            return run.unknown("a table in a format that is not known")
        self.walk = _rows(run, lines, dialect, form)
        return None

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the rows that are left; leaving early does not end the reader."""
        for row in self.walk:
            interp.tick()
            yield row


class Rows(Table):
    """`csv.reader`: rows as lists."""

    label = "csv.reader"

    def init(self, run: Run, lines: Value = None, dialect: Value = "excel",
             **options: Value) -> Value:  # fmt: skip
        """Store the source of the lines."""
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
        """Store the source of the lines, and the names where they are given."""
        self.names = None if fieldnames is None else list(run.interp.iterate(fieldnames))
        self.spare = (restkey, restval)
        return self.opened(run, lines, dialect, options)

    @exposed.prop("fieldnames")
    def get_fieldnames(self, run: Run) -> Value:
        """Give the names of the columns: without others those of the first row."""
        if self.names is None:
            self.names = next(self.walk, None)
        return self.names

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the rows that are left."""
        names = self.get_fieldnames(interp.run)
        if isinstance(names, Unknown):
            yield from interp.iterate(names)
            return
        if names is None:
            return
        rest, missing = self.spare
        for row in super().iterate(interp):
            if isinstance(row, Unknown):
                yield row
            elif row:
                entries = dict(zip(names, row, strict=False))
                entries.update(dict.fromkeys(names[len(row) :], missing))
                if len(row) > len(names):
                    entries[rest] = row[len(names) :]
                yield entries


def _rows(run: Run, lines: Value, dialect: Value, form: dict[str, Value]) -> Iterator[Value]:
    foreign: list[Value] = []

    def known() -> Iterator[str]:
        for line in run.interp.iterate(lines):
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
        "Dialect": NativeClass(Dialect, "csv.Dialect"),
        "excel": NativeClass(Dialect, "csv.excel"), "Sniffer": NativeClass(Sniffer, "csv.Sniffer"),
        "writer": writing, "DictWriter": writing, **_CONSTANTS,
    })  # fmt: skip

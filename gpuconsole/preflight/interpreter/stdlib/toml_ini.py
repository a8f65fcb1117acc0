"""`tomllib`, `tomli`, `toml` and `configparser`: files that a script configures itself from.

Only files of the project are read, bounded, and never executed. Whole numbers remember file, line
and column.
"""

from __future__ import annotations

import configparser
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.mappings import Mapping
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib.json_yaml import MAX_DEPTH, opened_text, text_at

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

DEFAULT = "DEFAULT"
_HEADER = re.compile(r"\s*\[\s*([\w.\-]+)\s*\]\s*(?:#.*)?$")
_TOML_NUMBER = re.compile(r"\s*([\w\-]+)\s*=\s*(\d[\d_]*)\s*(?:#.*)?$")
_SECTION = re.compile(r"\[([^\]]+)\]")
_OPTION = re.compile(r"([^\s=:#;\[][^=:]*?)\s*[=:]\s*(\d+)\s*$")
_BOOLEANS = configparser.ConfigParser.BOOLEAN_STATES
Spot = tuple[int, int]
"""Line from 1 and column from 0 of a number."""


# -- TOML ---------------------------------------------------------------------------------------


def load_toml(run: Run, file: Value, *_: Value, **__: Value) -> Value:
    """Stand for `tomllib.load` and `tomllib.loads`."""
    text = opened_text(run, file)
    if isinstance(text, Unknown):
        return text
    path, content = text
    try:
        reader = importlib.import_module("tomllib")
    except ImportError:
        return run.unknown(msg("{name} is TOML, which Python 3.11 and later read", name=path.name))
    try:
        document = reader.loads(content)
    except (ValueError, RecursionError):
        return run.unknown(msg("{name} is not TOML", name=path.name))
    spots = _toml_spots(content)
    return _with_places(run, document, str(path), spots, ())


def _toml_spots(text: str) -> dict[tuple[str, ...], Spot]:
    """Return where whole numbers stand by their keys; none where a text of several lines could look
    like them."""
    if '"""' in text or "'''" in text:
        return {}
    table: tuple[str, ...] = ()
    result: dict[tuple[str, ...], Spot] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("["):
            header = _HEADER.match(line)
            # What is in an array of tables has no key of its own.
            table = tuple(header[1].split(".")) if header else ("",)
        elif match := _TOML_NUMBER.match(line):
            place = (*table, match[1])
            result[place] = number, match.start(2)
    return result


def _with_places(
    run: Run, value: object, file: str, spots: dict[tuple[str, ...], Spot], key: tuple[str, ...]
) -> Value:
    run.interp.tick()
    if len(key) > MAX_DEPTH:
        return run.unknown("a document that is nested too deep")
    if isinstance(value, dict):
        return {
            name: _with_places(run, each, file, spots, (*key, name)) for name, each in value.items()
        }
    if isinstance(value, list):
        return [_with_places(run, each, file, spots, (*key, "[]")) for each in value]
    if type(value) is int and key in spots:
        line, column = spots[key]
        return run.sourced(value, file, line, "constant", f"{file}:{line}:{column}")
    return value if isinstance(value, str | int | float) else run.unknown("a time of a document")


def toml() -> Namespace:
    """Return the module, under any of its names."""
    load = NativeFunction(load_toml, "tomllib.load")
    return Namespace("tomllib", {"load": load, "loads": load, "TOMLDecodeError": None})


# -- INI ----------------------------------------------------------------------------------------


class NumberText(str):
    """A number as text that remembers its place: `int` of it does too."""

    file: str
    line: int
    column: int


class Section(Mapping):
    """A section: its options, those of `[DEFAULT]` among them."""

    label = "configparser.SectionProxy"

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give an option, whatever its case."""
        return super().item(interp, key.lower() if isinstance(key, str) else key)

    def contains(self, key: Value) -> bool:
        """Whether there is such an option."""
        return super().contains(key.lower() if isinstance(key, str) else key)

    def option(self, run: Run, key: Value, fallback: Value) -> Value:
        """Give an option, or the fallback where it is not there."""
        if isinstance(key, Unknown):
            return key
        name = key.lower() if isinstance(key, str) else key
        if name in self.entries:
            return self.entries[name]
        if fallback is not MISSING:
            return fallback
        return run.interp.lacking(f"there is no option {key!r}"[:200], "NoOptionError")

    @exposed.method("get")
    def do_get(self, run: Run, key: Value, default: Value = None, **more: Value) -> Value:
        """Give an option as text."""
        return self.option(run, key, more.get("fallback", default))

    @exposed.method("getint")
    def do_getint(self, run: Run, key: Value, fallback: Value = None, **_: Value) -> Value:
        """Give an option as a whole number."""
        return _converted(run, "int", self.option(run, key, fallback))

    @exposed.method("getfloat")
    def do_getfloat(self, run: Run, key: Value, fallback: Value = None, **_: Value) -> Value:
        """Give an option as a number."""
        return _converted(run, "float", self.option(run, key, fallback))

    @exposed.method("getboolean")
    def do_getboolean(self, run: Run, key: Value, fallback: Value = None, **_: Value) -> Value:
        """Give an option as a truth value."""
        return _truth(run, self.option(run, key, fallback))


def _converted(run: Run, kind: str, value: Value) -> Value:
    """Return a text as the script's own `int` or `float` would."""
    return (
        run.interp.call(run.interp.builtins[kind], [value], {}) if isinstance(value, str) else value
    )


def _truth(run: Run, value: Value) -> Value:
    if not isinstance(value, str):
        return value
    truth = _BOOLEANS.get(value.lower())
    return (
        run.interp.lacking(f"Not a boolean: {value[:40]}", "ValueError") if truth is None else truth
    )


class Parser(Native):
    """`configparser.ConfigParser`, also with other names."""

    label = "configparser.ConfigParser"

    def __init__(self) -> None:
        super().__init__()
        self.sections: dict[str, Section] = {}
        self.why: Unknown | None = None
        """Why what it has read is not truth."""

    def init(self, run: Run, *_: Value, **__: Value) -> None:
        """How names and values are written is taken to be as usual."""

    def _take(self, run: Run, text: tuple[Path, str] | Unknown) -> None:
        if isinstance(text, Unknown):
            self.why = text
            return
        path, content = text
        parser = configparser.ConfigParser()
        try:
            parser.read_string(content)
            said = {name: dict(parser.items(name)) for name in parser.sections()}
        except (configparser.Error, ValueError):
            self.why = run.unknown(msg("{name} is not INI that the analysis reads", name=path.name))
            return
        spots = _ini_spots(content)
        said[DEFAULT] = dict(parser.defaults())
        for name, options in said.items():
            section = self.sections.setdefault(name, Section())
            for option, value in options.items():
                run.interp.tick()
                spot = spots.get((name, option)) or spots.get((DEFAULT, option))
                section.entries[option] = _placed(str(path), value, spot)

    @exposed.method("read")
    def do_read(self, run: Run, names: Value, *_: Value, **__: Value) -> Value:
        """Read match file or several."""
        listed = names if isinstance(names, list | tuple) else [names]
        for name in listed:
            self._take(run, text_at(run, name))
        return list(listed)

    @exposed.method("read_file", "readfp", "read_string")
    def do_read_file(self, run: Run, file: Value, *_: Value, **__: Value) -> None:
        """Read an opened file, or a text."""
        self._take(run, opened_text(run, file))

    def section(self, run: Run, name: Value) -> Section | Unknown:
        """Return a section by its name."""
        if isinstance(name, Unknown):
            return name
        if name in self.sections:
            return self.sections[name]
        if self.why is not None:
            return self.why
        result = run.interp.lacking(f"there is no section {name!r}"[:200], "NoSectionError")
        return result if isinstance(result, Unknown) else run.unknown("a section that is not there")

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give a section."""
        return self.section(interp.run, key)

    def contains(self, key: Value) -> bool:
        """Whether there is such a section."""
        return key in self.sections

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the names of the sections."""
        yield from list(self.sections)

    @exposed.method("sections")
    def do_sections(self, run: Run) -> Value:
        """Give the names of the sections but the default match."""
        return self.why or [name for name in self.sections if name != DEFAULT]

    @exposed.method("has_section")
    def do_has_section(self, run: Run, name: Value) -> Value:
        """Say whether there is a section."""
        return self.why or name in self.sections

    @exposed.method("has_option")
    def do_has_option(self, run: Run, name: Value, option: Value) -> Value:
        """Say whether a section has an option."""
        return self.why or (name in self.sections and self.sections[name].contains(option))

    @exposed.method("options")
    def do_options(self, run: Run, name: Value) -> Value:
        """Give the options of a section."""
        result = self.section(run, name)
        return result if isinstance(result, Unknown) else list(result.entries)

    @exposed.method("items")
    def do_items(self, run: Run, name: Value = MISSING, **_: Value) -> Value:
        """Give the pairs of a section, or the sections."""
        if name is MISSING:
            return self.why or list(self.sections.items())
        result = self.section(run, name)
        return result if isinstance(result, Unknown) else list(result.entries.items())

    def _option(self, run: Run, name: Value, option: Value, more: dict[str, Value]) -> Value:
        if name not in self.sections and self.why is None and "fallback" in more:
            return more["fallback"]
        result = self.section(run, name)
        if isinstance(result, Unknown):
            return result
        return result.option(run, option, more.get("fallback", MISSING))

    @exposed.method("get")
    def do_get(self, run: Run, name: Value, option: Value, **more: Value) -> Value:
        """Give an option as text."""
        return self._option(run, name, option, more)

    @exposed.method("getint")
    def do_getint(self, run: Run, name: Value, option: Value, **more: Value) -> Value:
        """Give an option as a whole number."""
        return _converted(run, "int", self._option(run, name, option, more))

    @exposed.method("getfloat")
    def do_getfloat(self, run: Run, name: Value, option: Value, **more: Value) -> Value:
        """Give an option as a number."""
        return _converted(run, "float", self._option(run, name, option, more))

    @exposed.method("getboolean")
    def do_getboolean(self, run: Run, name: Value, option: Value, **more: Value) -> Value:
        """Give an option as a truth value."""
        return _truth(run, self._option(run, name, option, more))


def _ini_spots(text: str) -> dict[tuple[str, str], Spot]:
    """Return where whole numbers stand, by section and option."""
    section = ""
    result: dict[tuple[str, str], Spot] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _SECTION.match(line):
            section = header[1]
        elif match := _OPTION.match(line):
            result[section, match[1].lower()] = number, match.start(2)
    return result


def _placed(file: str, value: str, spot: Spot | None) -> str:
    if spot is None or not value.isdigit():
        return value
    number = NumberText(value)
    number.file, (number.line, number.column) = file, spot
    return number


def ini() -> Namespace:
    """Return `configparser`."""
    parsers = ("ConfigParser", "RawConfigParser", "SafeConfigParser")
    errors = ("Error", "NoSectionError", "NoOptionError", "ParsingError")
    parsers_by_name = {name: NativeClass(Parser, f"configparser.{name}") for name in parsers}
    return Namespace("configparser", {**parsers_by_name, **dict.fromkeys(errors)})

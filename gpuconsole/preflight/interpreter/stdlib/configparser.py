"""`configparser`: INI files of the project."""

from __future__ import annotations

import configparser
import re
from typing import Any

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run import Run
from gpuconsole.preflight.interpreter.stdlib import json_yaml


class Text(str):
    """A value of an INI file that remembers its line."""

    file: str
    line: int


class Config(Native):
    """`configparser.ConfigParser`."""

    label = "ConfigParser"

    def __init__(self) -> None:
        super().__init__()
        self.parser = configparser.ConfigParser(interpolation=None, strict=False)
        self.lines: dict[tuple[str, str], tuple[str, int]] = {}
        self.lost: Unknown | None = None

    def init(self, run: Run, defaults: Value = None, **_: Value) -> None:
        """Take defaults."""
        if isinstance(defaults, dict):
            self.parser.read_dict({"DEFAULT": {str(k): str(v) for k, v in defaults.items()}})

    def do_read(self, run: Run, names: Value, *_: Value, **__: Value) -> Value:
        """Read files; those that are not there are passed over."""
        read = []
        for name in names if isinstance(names, (list, tuple)) else [names]:
            found = json_yaml.text_at(run, name)
            if isinstance(found, Unknown):
                self.lost = found
                continue
            self._parse(run, str(found[0]), found[1])
            read.append(json_yaml.path_text(name))
        return read

    def do_read_file(self, run: Run, file: Value, *_: Value) -> None:
        """Read an opened file."""
        self.do_read(run, getattr(file, "path", file))

    def do_read_string(self, run: Run, text: Value, *_: Value) -> None:
        """Read text."""
        if isinstance(text, str):
            self._parse(run, run.file, text)

    def do_read_dict(self, run: Run, values: Value, *_: Value) -> None:
        """Take sections."""
        self.parser.read_dict({name: {k: str(v) for k, v in part.items()}
                               for name, part in values.items()})  # fmt: skip

    def _parse(self, run: Run, file: str, text: str) -> None:
        try:
            self.parser.read_string(text)
        except configparser.Error as error:
            run.fault(f"{file} is not an INI file: {str(error).splitlines()[0]}"[:200])
            return
        section = ""
        for number, line in enumerate(text.splitlines(), 1):
            head = re.match(r"\[(.+)\]", line)
            entry = re.match(r"([^=:#;]+?)\s*[=:]", line)
            if head is not None:
                section = head[1]
            elif entry is not None and not line[0].isspace():
                self.lines[section, entry[1].strip().lower()] = (file, number)

    def _take(self, run: Run, section: Value, name: Value, fallback: Any) -> Value:
        if isinstance(section, Unknown) or isinstance(name, Unknown):
            return section if isinstance(section, Unknown) else name
        if self.parser.has_option(section, name):
            made = Text(self.parser.get(section, name))
            made.file, made.line = self.lines.get((section, name.lower()), (run.file, run.line))
            return made
        if fallback:
            return fallback[0]
        return self.lost or run.interp.lacking(f"there is no {section}.{name}", "KeyError")

    def do_get(self, run: Run, section: Value, option: Value, *_: Value, **more: Value) -> Value:
        """Give text."""
        return self._take(run, section, option, [more["fallback"]] if "fallback" in more else [])

    def do_getint(self, run: Run, section: Value, option: Value, **more: Value) -> Value:
        """Give a whole number."""
        return whole(run, self.do_get(run, section, option, **more))

    def do_getfloat(self, run: Run, section: Value, option: Value, **more: Value) -> Value:
        """Give a number."""
        value = self.do_get(run, section, option, **more)
        return float(value) if isinstance(value, str) else value

    def do_getboolean(self, run: Run, section: Value, option: Value, **more: Value) -> Value:
        """Give true or false."""
        value = self.do_get(run, section, option, **more)
        return self.parser.BOOLEAN_STATES[value.lower()] if isinstance(value, str) else value

    def do_sections(self, run: Run) -> Value:
        """Give the names of the sections."""
        return self.lost or self.parser.sections()

    def do_has_section(self, run: Run, name: Value) -> Value:
        """Whether there is a section."""
        return self.parser.has_section(name) or self.lost or False

    def do_has_option(self, run: Run, section: Value, name: Value) -> Value:
        """Whether there is an entry."""
        return self.parser.has_option(section, name) or self.lost or False

    def do_options(self, run: Run, section: Value) -> Value:
        """Give the names of a section's entries."""
        return self.lost or self.parser.options(section)

    def do_items(self, run: Run, section: Value = None, *_: Value) -> Value:
        """Give the entries of a section."""
        if self.lost is not None:
            return self.lost
        if section is None:
            return [(name, self.item(run.interp, name)) for name in self.parser.sections()]
        return [(name, self._take(run, section, name, [])) for name in self.parser.options(section)]

    def item(self, interp: Any, key: Value) -> Value:
        """Give a section."""
        if isinstance(key, Unknown):
            return key
        if not self.parser.has_section(key) and key != "DEFAULT":
            return self.lost or interp.lacking(f"there is no section {key}", "KeyError")
        made = Section()
        made.owner, made.name = self, key
        return made

    def contains(self, key: Value) -> bool:
        """Whether there is a section."""
        return self.parser.has_section(key)


class Section(Native):
    """One section."""

    label = "section"

    def __init__(self) -> None:
        super().__init__()
        self.owner = Config()
        self.name = ""

    def item(self, interp: Any, key: Value) -> Value:
        """Give text."""
        return self.owner._take(interp.run, self.name, key, [])

    def contains(self, key: Value) -> bool:
        """Whether there is an entry."""
        return self.owner.parser.has_option(self.name, key)

    def _fall(self, default: tuple[Value, ...], more: dict[str, Value]) -> dict[str, Value]:
        value = more.get("fallback", default[0] if default else None)
        return {"fallback": value}

    def do_get(self, run: Run, key: Value, *default: Value, **more: Value) -> Value:
        """Give text."""
        return self.owner.do_get(run, self.name, key, **self._fall(default, more))

    def do_getint(self, run: Run, key: Value, *default: Value, **more: Value) -> Value:
        """Give a whole number."""
        return self.owner.do_getint(run, self.name, key, **self._fall(default, more))

    def do_getfloat(self, run: Run, key: Value, *default: Value, **more: Value) -> Value:
        """Give a number."""
        return self.owner.do_getfloat(run, self.name, key, **self._fall(default, more))

    def do_getboolean(self, run: Run, key: Value, *default: Value, **more: Value) -> Value:
        """Give true or false."""
        return self.owner.do_getboolean(run, self.name, key, **self._fall(default, more))

    def do_items(self, run: Run) -> Value:
        """Give the entries."""
        return self.owner.do_items(run, self.name)

    def do_keys(self, run: Run) -> Value:
        """Give the names of the entries."""
        return self.owner.do_options(run, self.name)


def whole(run: Run, value: Value) -> Value:
    """Return text as a whole number that remembers where the text stood."""
    if not isinstance(value, str):
        return value
    number = int(value[:64])
    if isinstance(value, Text):
        key = f"{value.file}:{value.line}:ini"
        return run.sourced(number, value.file, value.line, "constant", key)
    return number


def namespace() -> Namespace:
    """Return `configparser`."""
    names = ("ConfigParser", "RawConfigParser", "SafeConfigParser")
    return Namespace("configparser", {name: NativeClass(Config, name) for name in names})

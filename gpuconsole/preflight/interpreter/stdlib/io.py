"""Opened files and `io`: read from the script's position, if they are the project's.

Nothing is opened on behalf of a script but small files of its project, and those only to be read.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    SomeBytes,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib import json_yaml

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

UNREAD = "the contents of a file that the analysis does not read"
UNREAD_LINE = "a line of a file that the analysis does not read"


class Stream(Native, abc.ABC):
    """Text that is read from a place on."""

    label = "file"
    is_data = True
    """Walking over its lines runs no code of the script."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0
        self.binary = False

    @abc.abstractmethod
    def whole(self, run: Run) -> str | Unknown:
        """Return all of the text."""

    def given(self, text: str) -> Value:
        """Return text in the stream's form."""
        return text.encode("utf-8", "surrogateescape") if self.binary else text

    def enter(self, run: Run) -> Callable[[], None]:
        """Open and close are free."""
        return lambda: None

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Yield the lines that are left, or unknown lines; leaving early keeps the place."""
        text = self.whole(interp.run)
        if isinstance(text, Unknown) or text.count("\n", self.at) > json_yaml.MAX_LINES:
            yield from interp.iterate(interp.run.unknown(UNREAD_LINE, text))
            return
        while self.at < len(text):
            interp.tick()
            yield self.given(self._line(text))

    def _line(self, text: str) -> str:
        end = text.find("\n", self.at) + 1 or len(text)
        line, self.at = text[self.at : end], end
        return line

    @exposed.method("read")
    def do_read(self, run: Run, size: Value = None, *_: Value) -> Value:
        """Give what is left, or so many characters of it."""
        text = self.whole(run)
        if isinstance(text, Unknown):
            if self.binary:
                return SomeBytes(text.file, text.line, text.reason, text.root)
            return text
        if isinstance(size, Unknown):
            return run.unknown("a part of a file", size)
        begin = self.at
        self.at = len(text) if size is None or size < 0 else min(len(text), begin + size)
        all_of_it = begin == 0 and self.at == len(text) and not self.binary
        return text if all_of_it else self.given(text[begin : self.at])

    @exposed.method("readlines")
    def do_readlines(self, run: Run, *_: Value) -> Value:
        """Give the lines that are left."""
        text = self.whole(run)
        if isinstance(text, Unknown):
            return text
        begin, self.at = self.at, len(text)
        lines = text[begin:].splitlines(keepends=True)
        run.interp.tick(len(lines) // 16)
        return [self.given(line) for line in lines]

    @exposed.method("readline")
    def do_readline(self, run: Run, *_: Value) -> Value:
        """Give the next line."""
        text = self.whole(run)
        if isinstance(text, Unknown):
            return run.unknown(UNREAD_LINE, text)
        return self.given(self._line(text))

    @exposed.method("seek")
    def do_seek(self, run: Run, place: Value = 0, whence: Value = 0, *_: Value) -> Value:
        """Go to a place; to one that is not known by its number, to the end."""
        text = self.whole(run)
        is_absolute = isinstance(place, int) and whence == 0
        self.at = place if is_absolute else 0 if isinstance(text, Unknown) else len(text)
        return self.at

    @exposed.method("tell")
    def do_tell(self, run: Run) -> Value:
        """Return the script's position."""
        return self.at

    @exposed.method("write", "close", "flush", "writelines", "truncate")
    def do_write(self, run: Run, *_: Value, **__: Value) -> None:
        """Write nothing."""


class Open(Stream):
    """An opened file: read where it belongs to the project, else its path alone."""

    def __init__(self) -> None:
        super().__init__()
        self.path: Value = None
        self.write = False
        self.encoding: Value = None
        self.errors: Value = None
        self.text: str | Unknown | None = None
        self.source: Run | None = None

    def init(self, run: Run, path: Value = None, mode: Value = "r", _: Value = -1,
             encoding: Value = None, errors: Value = None, *__: Value,
             **___: Value) -> None:  # fmt: skip
        """Keep path and mode; nothing is opened."""
        self.source, self.path, self.encoding, self.errors = run, path, encoding, errors
        self.write = isinstance(mode, str) and any(letter in mode for letter in "wax")
        self.binary = isinstance(mode, str) and "b" in mode

    @property
    def total(self) -> int | None:
        """Lines that are left; None if unknown."""
        text = self.whole(self.source) if self.source is not None else None
        return text.count("\n", self.at) + (text[-1:] != "\n") if isinstance(text, str) else None

    @exposed.prop("name")
    def get_name(self, run: Run) -> Value:
        """Give the path."""
        return self.path

    def whole(self, run: Run) -> str | Unknown:
        """Return the text of the file."""
        if self.text is None:
            self.text = self._read(run)
        return self.text

    def _read(self, run: Run) -> str | Unknown:
        if self.write:
            return run.unknown(UNREAD)
        content = json_yaml.text_at(
            run, self.path, json_yaml.MAX_DATA_BYTES, self.encoding, self.errors
        )
        if isinstance(content, Unknown):
            return run.unknown(UNREAD, content)
        text = json_yaml.FileText(content[1])
        text.path = content[0]
        return text


class StringIO(Stream):
    """`io.StringIO` and `io.BytesIO`: text of the script's own."""

    label = "StringIO"

    def __init__(self) -> None:
        super().__init__()
        self.held: Value = ""

    def init(self, run: Run, text: Value = "", *_: Value, **__: Value) -> None:
        """Keep the text."""
        if isinstance(text, bytes):
            self.binary = True
            text = text.decode("utf-8", "surrogateescape")
        self.held = text

    def whole(self, run: Run) -> str | Unknown:
        """Return the text."""
        return self.held if isinstance(self.held, str) else run.unknown(UNREAD, self.held)

    @exposed.method("write")
    def do_write(self, run: Run, text: Value = "", *_: Value) -> None:
        """Write at the end; what is not text makes the whole unknown."""
        if isinstance(text, bytes):
            self.binary = True
            text = text.decode("utf-8", "surrogateescape")
        both = isinstance(text, str) and isinstance(self.held, str)
        if both and len(self.held) + len(text) < json_yaml.MAX_DATA_BYTES:
            self.held += text
        else:
            self.held = run.unknown("text that the script writes", text)

    @exposed.method("getvalue")
    def do_getvalue(self, run: Run) -> Value:
        """Give all that was written."""
        return self.given(self.held) if isinstance(self.held, str) else self.held


def io() -> Namespace:
    """Return `io`, and `codecs` as far as it opens files."""
    streams = {"StringIO": StringIO, "BytesIO": StringIO, "TextIOWrapper": StringIO}
    return Namespace("io", {
        "open": NativeClass(Open, "open"),
        **{name: NativeClass(kind, name) for name, kind in streams.items()},
    })  # fmt: skip


def codecs() -> Namespace:
    """Return `codecs`."""

    def opened(run: Run, path: Value, mode: Value = "r", encoding: Value = None,
               *_: Value, **__: Value) -> Value:  # fmt: skip
        stream = Open()
        stream.init(run, path, mode, encoding=encoding)
        stream.binary = False
        return stream

    return Namespace("codecs", {"open": NativeFunction(opened, "codecs.open")})

"""Lines of lists that were made up, which take the form in which a script reads them.

How the lines of its real lists look only the script knows: how many words there are and what parts
them, and which are names, numbers or classes. A made-up line is parted by whatever the script asks
for, has as many words as it unpacks, and a word of it is a number where one is wanted. Numbers may
become sizes: that they were asked for is reported, and the next run is given others.
"""

from __future__ import annotations

import builtins
import codecs
import dis
import io
import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from os import PathLike
    from types import FrameType
    from typing import IO, SupportsIndex

MOST = 64
"""Words of a line that are given beyond those it has."""
NUMBER: dict[str, Callable[[int], int]] = {"of": int}
"""`of(number)` is what a script gets for a number in a line."""


class Text(str):
    """A line, or a word of one."""

    __slots__ = ()

    def _number(self) -> int:
        return NUMBER["of"](int(re.sub(r"\D", "", self)[:6] or 1))

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> Words:
        """Return the words, parted by blanks where this is not what parts them."""
        if sep not in (None, "\n") and sep not in self and "\n" not in self.rstrip():
            sep = None
        return Words(map(Text, str.split(self, sep, maxsplit)))

    def splitlines(self, keepends: bool = False) -> list[str]:
        """Return the lines."""
        return [Text(line) for line in str.splitlines(self, keepends)]

    def __getitem__(self, key: SupportsIndex | slice) -> Text:
        return Text(str.__getitem__(self, key))


def _texts(name: str) -> Callable[..., object]:
    return lambda self, *args: Text(getattr(str, name)(self, *args))


for _name in ("strip", "lstrip", "rstrip", "replace", "lower", "upper"):
    setattr(Text, _name, _texts(_name))


class Words(list):  # type: ignore[type-arg]
    """The words of a line: as many as are asked for."""

    def __iter__(self) -> Iterator[Text]:
        # As late as the first is taken: a `map` over the words may be what is unpacked.
        count = _unpacked(sys._getframe(1))
        for place in range(len(self) if count is None else count):
            word = self[place]
            assert isinstance(word, Text)
            yield word

    def __getitem__(self, key: int | slice) -> Text | Words:  # type: ignore[override]
        if isinstance(key, slice):
            return Words(list.__getitem__(self, key))
        if not -len(self) <= key < len(self) and -MOST <= key < MOST:
            return Text("1")
        word: Text = list.__getitem__(self, key)
        return word


def _unpacked(frame: FrameType) -> int | None:
    """Return into how many names a frame unpacks just now, None where it does not."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.arg if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


class Lines(io.StringIO):
    """A file of such lines."""

    name = ""

    def read(self, size: int | None = -1) -> Text:
        """Return so many characters."""
        return Text(super().read(size))

    def readline(self, size: int = -1) -> Text:  # type: ignore[override]
        """Return the next line."""
        return Text(super().readline(size))

    def readlines(self, hint: int = -1) -> list[str]:  # type: ignore[override]
        """Return all lines."""
        return [Text(line) for line in super().readlines(hint)]

    def __next__(self) -> Text:  # type: ignore[override]
        return Text(super().__next__())


def install(lists: set[str]) -> None:
    """Open files with full paths among `lists` as such lines, from now on."""
    for module in (builtins, io, codecs):
        setattr(module, "open", _opening(module.open, lists))  # noqa: B010


def _opening(own: Callable[..., IO[str]], lists: Collection[str]) -> Callable[..., IO[str]]:
    def opened(
        file: int | str | PathLike[str], mode: str = "r", *args: object, **kwargs: object
    ) -> IO[str]:
        stream = own(file, mode, *args, **kwargs)
        if not isinstance(file, (str, os.PathLike)) or set(mode) & set("wax+b"):
            return stream
        if os.path.abspath(file) not in lists:
            return stream
        with stream:
            lines = Lines(stream.read())
        lines.name = os.fspath(file)
        return lines

    return opened

"""Lines of lists that were made up, which take the form in which a script reads them.

How the lines of its real lists look only the script knows: how many words there are and what parts
them, and which are names, numbers or classes. A made-up line is parted by whatever the script asks
for, has as many words as it unpacks, and a word of it is a number where one is wanted. Numbers may
become sizes: that they were asked for is told, and the next run is given others.
"""

from __future__ import annotations

import builtins
import codecs
import dis
import io
import os
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike
    from types import FrameType

MOST = 64
"""Words of a line that are given beyond those it has."""
NUMBER: dict[str, Any] = {"of": int}
"""`of(number)` is what a script gets for a number in a line."""


class Text(str):
    """A line, or a word of one."""

    __slots__ = ()

    def _number(self) -> Any:
        return NUMBER["of"](int(re.sub(r"\D", "", self)[:6] or 1))

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def split(self, sep: Any = None, maxsplit: Any = -1) -> Any:
        """Return the words, parted by blanks where this is not what parts them."""
        if sep not in (None, "\n") and sep not in self and "\n" not in self.rstrip():
            sep = None
        return Words(map(Text, str.split(self, sep, maxsplit)))

    def splitlines(self, keepends: bool = False) -> Any:
        """Return the lines."""
        return [Text(one) for one in str.splitlines(self, keepends)]

    def __getitem__(self, key: Any) -> Text:
        return Text(str.__getitem__(self, key))


def _texts(name: str) -> Callable[..., object]:
    return lambda self, *args: Text(getattr(str, name)(self, *args))


for _name in ("strip", "lstrip", "rstrip", "replace", "lower", "upper"):
    setattr(Text, _name, _texts(_name))


class Words(list):  # type: ignore[type-arg]
    """The words of a line: as many as are asked for."""

    def __iter__(self) -> Iterator[object]:
        # As late as the first is taken: a `map` over the words may be what is unpacked.
        count = _unpacked(sys._getframe(1))
        yield from (self[place] for place in range(len(self) if count is None else count))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Words(list.__getitem__(self, key))
        if not -len(self) <= key < len(self) and -MOST <= key < MOST:
            return Text("1")
        return list.__getitem__(self, key)


def _unpacked(frame: FrameType) -> int | None:
    """Return into how many names a frame unpacks just now, None where it does not."""
    for one in dis.get_instructions(frame.f_code):
        if one.offset == frame.f_lasti:
            return one.arg if one.opname == "UNPACK_SEQUENCE" else None
    return None


class Lines(io.StringIO):
    """A file of such lines."""

    name = ""

    def read(self, size: Any = -1) -> Any:
        """Return so many characters."""
        return Text(super().read(size))

    def readline(self, size: Any = -1) -> Any:
        """Return the next line."""
        return Text(super().readline(size))

    def readlines(self, hint: Any = -1) -> Any:
        """Return all lines."""
        return [Text(one) for one in super().readlines(hint)]

    def __next__(self) -> Any:
        return Text(super().__next__())


def install(lists: set[str]) -> None:
    """Open files whose full paths are among `lists` as such lines, from now on."""
    for module in (builtins, io, codecs):
        setattr(module, "open", _opening(module.open, lists))  # noqa: B010


def _opening(own: Any, lists: Any) -> Any:
    def opened(file: PathLike[str], mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        stream = own(file, mode, *args, **kwargs)
        named = isinstance(file, (str, os.PathLike))
        if not named or set(mode) & set("wax+b") or os.path.abspath(file) not in lists:
            return stream
        with stream:
            lines = Lines(stream.read())
        lines.name = os.fspath(file)
        return lines

    return opened

"""`Message`: a text that remembers how it was made, so that it can be said in another language.

A message is an English `str` like any other: it can be compared, stored, printed, written as JSON.
It also has the template it was made from and the values in its places. A catalogue at the edge
(`gpuconsole/language.py`) looks for the template, so a value never takes part in the search: a job
that is called `v1. final` or a host that is called `free` leaves the sentence as it is.

    msg("{host} is {state_word}.", host=host.name, state_word=host.state.value)

Values are inserted unchanged. Only values that are messages themselves are translated, and those in
places with names that end in `_word`, `_text` or `_list`, which hold words of the program.

Formatting a message with an f-string, `%`, `.format` or `str.join` makes a plain string of it.
`+`, `joined`, `msg` and `core.text.clean` keep it. What this process has made lately is found again
by its whole text (`recalled`): the journal keeps plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

PLACE = re.compile(r"\{(\w+)\}")
_MOST = 8192
_made: dict[str, Message] = {}
"""The messages made last, by their text. Those that are all value, such as names, are not here."""


class Message(str):
    """A text with its template and the values in it."""

    template: str
    values: Mapping[str, str]

    def __new__(cls, template: str, values: Mapping[str, object]) -> Message:
        """Fill in the values; KeyError for a place without one."""
        filled = {name: v if isinstance(v, str) else str(v) for name, v in values.items()}
        message = super().__new__(cls, PLACE.sub(lambda place: filled[place[1]], template))
        message.template = template
        message.values = filled
        if filled and re.search("[a-z]{2}", PLACE.sub("", template)):
            _made[str(message)] = message
            while len(_made) > _MOST:
                _made.pop(next(iter(_made)), None)
        return message

    def __add__(self, other: str) -> str:
        return Joined("", (self, other))

    def __radd__(self, other: str) -> str:
        return Joined("", (other, self))

    def mapped(self, change: Callable[[str], str]) -> Message:
        """Return the message with each value changed; what the template says stays."""
        return Message(self.template, {name: change(v) for name, v in self.values.items()})

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.template, dict(self.values)))


class Joined(Message):
    """Texts behind each other, with a separator between them."""

    separator: str
    parts: tuple[str, ...]

    def __new__(cls, separator: str, parts: Iterable[str]) -> Joined:
        """Join texts."""
        parts = tuple(parts)
        joined = str.__new__(cls, separator.join(parts))
        joined.template, joined.values = "", {}
        joined.separator, joined.parts = separator, parts
        return joined

    def mapped(self, change: Callable[[str], str]) -> Message:
        """Return the texts, each of them changed."""
        return Joined(self.separator, map(change, self.parts))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.separator, self.parts))


def recalled(text: str) -> str:
    """Return the message with this text that this process has made, else the text."""
    return _made.get(text, text)


def msg(template: str, /, **values: object) -> str:
    """Return a text with its values filled in, which can be said in another language later."""
    return Message(template, values)


def name(text: str) -> str:
    """Return a name as a message: it is not a word of the program, whatever it says."""
    return Message("{name}", {"name": text})


def joined(separator: str, parts: Iterable[str]) -> str:
    """Return texts with a separator between them, each of which is said for itself."""
    return Joined(separator, parts)


def sentences(*parts: str) -> str:
    """Return sentences behind each other; empty ones are left out."""
    return Joined(" ", filter(None, parts))

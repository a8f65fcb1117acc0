"""Regular expressions that are compiled when they are first used: a large one takes a millisecond,
and most commands never look for what it is for."""

from __future__ import annotations

import re
from typing import cast


class _LazyPattern:
    """Takes the place of a pattern; a method becomes an attribute as it is first used."""

    def __init__(self, text: str, flags: int) -> None:
        self._said = text, flags
        self._pattern: re.Pattern[str] | None = None

    def __getattr__(self, name: str) -> object:
        if self._pattern is None:
            self._pattern = re.compile(*self._said)
        value: object = getattr(self._pattern, name)
        setattr(self, name, value)
        return value


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first used, so a wrong one is noticed only
    then. It has the methods and attributes of `re.Pattern`; it is no argument of `re`'s functions.
    """
    return cast("re.Pattern[str]", _LazyPattern(text, flags))

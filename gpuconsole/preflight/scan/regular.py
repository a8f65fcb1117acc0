"""`re` on text that is known, as far as a pattern cannot make the search long."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gpuconsole.preflight.scan import drawn
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
    first_unknown,
)

MAX_PATTERN = 400
MAX_WORK = 2 * 10**6
"""Characters looked at, at most: the text's length to the power of what can be tried again."""
_LETTERS_PER_STEP = 64


class Found(Native):
    """What `re.match` gives."""

    label = "Match"

    def __init__(self, found: re.Match[str] | None = None) -> None:
        super().__init__()
        self.found = found

    def _ask(self, name: str, args: tuple[Value, ...]) -> Value:
        return getattr(self.found, name)(*args)

    def do_group(self, run: Run, *args: Value) -> Value:
        """Give a group."""
        return self._ask("group", args)

    def do_groups(self, run: Run, *args: Value) -> Value:
        """Give all groups."""
        return self._ask("groups", args)

    def do_groupdict(self, run: Run, *args: Value) -> Value:
        """Give the named groups."""
        return self._ask("groupdict", args)

    def do_start(self, run: Run, *args: Value) -> Value:
        """Give where it begins."""
        return self._ask("start", args)

    def do_end(self, run: Run, *args: Value) -> Value:
        """Give where it ends."""
        return self._ask("end", args)

    def do_span(self, run: Run, *args: Value) -> Value:
        """Give both."""
        return self._ask("span", args)

    def item(self, calls: Any, key: Value) -> Value:
        """Give a group."""
        return self._ask("group", (key,))


class Pattern(Native):
    """What `re.compile` gives."""

    label = "Pattern"

    def __init__(self, text: str = "", flags: int = 0) -> None:
        super().__init__()
        self.text, self.flags = text, flags
        self.attrs["pattern"] = text


def _pattern(run: Run, given: Value, flags: Value) -> tuple[re.Pattern[str], int] | Unknown:
    """Return a compiled pattern and how often what it repeats can be tried again."""
    text = given.text if isinstance(given, Pattern) else given
    flags = given.flags if isinstance(given, Pattern) else flags
    if not isinstance(text, str) or not isinstance(flags, int):
        return first_unknown(text, flags) or run.unknown("a pattern that is not known")
    again = retries(text)
    if again is None or len(text) > MAX_PATTERN:
        return run.unknown("a pattern that could take long to search for")
    try:
        return re.compile(text, flags), again
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        return run.unknown(f"this pattern cannot be read: {error}")


def retries(pattern: str) -> int | None:
    """Return how many repeats of a pattern can be tried again; None where they are nested."""
    count, inside, at = 0, False, 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\":
            at += 2
            continue
        if inside:
            inside = letter != "]"
        elif letter == "[":
            inside = True
            # A `]` that comes first stands for itself.
            at += 1 if pattern[at + 1 : at + 2] == "]" else 0
            at += 2 if pattern[at + 1 : at + 3] == "^]" else 0
        elif letter in "*+{" and at:
            if pattern[at - 1] == ")":
                return None
            rest = pattern[at + 1 :].lstrip("?+}0123456789, )")
            count += bool(rest) and rest[0] != "|"
        at += 1
    return count


def _wrapped(found: re.Match[str] | None) -> Value:
    return None if found is None else Found(found)


def _searching(name: str, give: Callable[[Any], Value]) -> Callable[..., Value]:
    def call(run: Run, pattern: Value, text: Value, *args: Value, flags: Value = 0) -> Value:
        if name not in ("split",) and args and not isinstance(pattern, Pattern):
            flags, args = args[0], args[1:]
        ready = _pattern(run, pattern, flags)
        problem = _refused(run, ready, text)
        if problem is not None or isinstance(ready, Unknown):
            return problem
        return give(getattr(ready[0], name)(text, *args))

    return call


def _refused(run: Run, ready: tuple[re.Pattern[str], int] | Unknown, text: Value) -> Value:
    """Return why a text is not searched; None where it can be."""
    if isinstance(ready, Unknown) or not isinstance(text, str):
        return first_unknown(text, ready) or run.unknown("text that is not known")
    if len(text) ** (1 + ready[1]) > MAX_WORK:
        return run.unknown("a text too long to search")
    run.calls.tick(len(text) // _LETTERS_PER_STEP)
    return None


def _substitute(run: Run, pattern: Value, by: Value, text: Value, count: Value = 0,
                flags: Value = 0) -> Value:  # fmt: skip
    if isinstance(text, drawn.DrawnText):
        return drawn.mapped(run, text, lambda one: _substitute(run, pattern, by, one, count, flags))
    ready = _pattern(run, pattern, flags)
    problem = _refused(run, ready, text)
    if problem is not None or isinstance(ready, Unknown):
        return problem
    if isinstance(by, str):
        return ready[0].sub(by, text, count) if len(by) <= MAX_PATTERN else (
            run.unknown("text too long to follow"))  # fmt: skip
    made: list[str] = []
    end = 0
    for found in ready[0].finditer(text):
        put = run.calls.call(by, [Found(found)], {})
        if not isinstance(put, str):
            return first_unknown(put) or run.unknown("text that is not known")
        made += [text[end : found.start()], put]
        end = found.end()
    return "".join([*made, text[end:]])


_SEARCHES: dict[str, Callable[..., Value]] = {
    "match": _searching("match", _wrapped), "search": _searching("search", _wrapped),
    "fullmatch": _searching("fullmatch", _wrapped),
    "findall": _searching("findall", list), "split": _searching("split", list),
    "finditer": _searching("finditer", lambda found: [Found(one) for one in found]),
    "sub": _substitute,
}  # fmt: skip


def _method(name: str) -> Callable[..., Value]:
    return lambda self, run, *args, **kwargs: _SEARCHES[name](run, self, *args, **kwargs)


for _name in _SEARCHES:
    setattr(Pattern, f"do_{_name}", _method(_name))


def _compile(run: Run, text: Value, flags: Value = 0) -> Value:
    if isinstance(text, Pattern):
        return text
    if not isinstance(text, str) or not isinstance(flags, int):
        return first_unknown(text, flags) or run.unknown("a pattern that is not known")
    return Pattern(text, flags)


def namespace() -> Namespace:
    """Return `re`."""
    table: dict[str, Callable[..., Value]] = {
        **_SEARCHES, "compile": _compile, "escape": lambda run, text: re.escape(text),
        "purge": lambda run: None,
    }  # fmt: skip
    names: dict[str, Value] = {name: NativeFunction(one, f"re.{name}")
                               for name, one in table.items()}  # fmt: skip
    for flag in ("I", "IGNORECASE", "M", "MULTILINE", "S", "DOTALL", "X", "VERBOSE", "A", "ASCII",
                 "U", "UNICODE"):  # fmt: skip
        names[flag] = int(getattr(re, flag))
    names.update(Pattern=NativeClass(Pattern, "Pattern"), Match=NativeClass(Found, "Match"))
    return Namespace("re", names)

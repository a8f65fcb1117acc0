"""`re` on text that is known, as far as a pattern cannot make the search long."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gpuconsole.preflight.interpreter.domain import exposed, string_sets, strings
from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

MAX_PATTERN = 400
MAX_WORK = 5 * 10**6
"""Steps that a search may take at most, whatever the text is."""
_TRIED_PER_STEP = 256
_LETTERS_PER_STEP = 64
_MOST_NESTED = 32
"""Times that a repeat may repeat what can itself be tried in several ways."""
_ONE_LETTER = frozenset(["LITERAL", "NOT_LITERAL", "IN", "ANY", "AT", "FAILURE"])
_REPEATS = frozenset(["MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"])


class Found(Native):
    """The result of `re.match`."""

    label = "Match"

    def __init__(self, match: re.Match[str] | None = None) -> None:
        super().__init__()
        self.found = match

    def _ask(self, name: str, args: tuple[Value, ...]) -> Value:
        return getattr(self.found, name)(*args)

    @exposed.method("group")
    def do_group(self, run: Run, *args: Value) -> Value:
        """Give a group."""
        return self._ask("group", args)

    @exposed.method("groups")
    def do_groups(self, run: Run, *args: Value) -> Value:
        """Give all groups."""
        return self._ask("groups", args)

    @exposed.method("groupdict")
    def do_groupdict(self, run: Run, *args: Value) -> Value:
        """Give the named groups."""
        return self._ask("groupdict", args)

    @exposed.method("start")
    def do_start(self, run: Run, *args: Value) -> Value:
        """Give where it begins."""
        return self._ask("start", args)

    @exposed.method("end")
    def do_end(self, run: Run, *args: Value) -> Value:
        """Give where it ends."""
        return self._ask("end", args)

    @exposed.method("span")
    def do_span(self, run: Run, *args: Value) -> Value:
        """Give both."""
        return self._ask("span", args)

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give a group."""
        return self._ask("group", (key,))


class Pattern(Native):
    """The result of `re.compile`."""

    label = "Pattern"

    def __init__(self, text: str = "", flags: int = 0) -> None:
        super().__init__()
        self.text, self.flags = text, flags
        self.attrs["pattern"] = text


def _pattern(run: Run, given: Value, flags: Value) -> tuple[re.Pattern[str], Any] | Unknown:
    """Return a compiled pattern, and the parts that it is made of."""
    text = given.text if isinstance(given, Pattern) else given
    flags = given.flags if isinstance(given, Pattern) else flags
    if not isinstance(text, str) or not isinstance(flags, int):
        return first_unknown(text, flags) or run.unknown("a pattern that is not known")
    if len(text) > MAX_PATTERN:
        return run.unknown("a pattern that could take long to search for")
    try:
        return re.compile(text, flags), _parsed(text, flags)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        return run.unknown(f"this pattern cannot be read: {error}")


@lru_cache(maxsize=256)
def _parsed(text: str, flags: int) -> Any:
    """Return the parts of a pattern, as Python's own parser reads them."""
    try:
        parser = importlib.import_module("re._parser")
    except ImportError:
        parser = importlib.import_module("sre_parse")
    return parser.parse(text, flags)


def work(parsed: Any, length: int, *, whole: bool = False) -> float:
    """Return how many steps a search in so many letters may take at most; infinite if that grows.

    `whole` is set where the match has to end with the text, as that of `fullmatch` does.
    """
    return (length + 1) * _ways(parsed, length, last=not whole)


def _ways(items: Sequence[tuple[Any, Any]], length: int, *, last: bool) -> float:
    """Return the ways in which a sequence of parts can be tried; `last` if nothing follows it."""
    ways = 1.0
    for place, (code, argument) in enumerate(items):
        ends = last and place == len(items) - 1
        ways *= _ways_of(str(code), argument, length, last=ends)
        if ways > MAX_WORK:
            return math.inf
    return ways


def _ways_of(code: str, argument: Any, length: int, *, last: bool) -> float:
    if code in _ONE_LETTER:
        return 1.0
    if code == "BRANCH":
        return sum(_ways(branch, length, last=last) for branch in argument[1])
    if code in _REPEATS:
        return _repeated(argument, length, last=last)
    if code == "GROUPREF":
        return length + 1.0
    if code == "GROUPREF_EXISTS":
        sides = (side for side in argument[1:] if side is not None)
        return sum(_ways(side, length, last=last) for side in sides) + 1
    if code in ("ASSERT", "ASSERT_NOT", "SUBPATTERN"):
        return _ways(argument[-1], length, last=last and code == "SUBPATTERN")
    return _ways(argument, length, last=last) if code == "ATOMIC_GROUP" else math.inf


def _repeated(argument: Any, length: int, *, last: bool) -> float:
    """Return the ways of a repeat: those of what it repeats, for each number of times."""
    fewest, items = int(argument[0]), argument[2]
    most = min(int(argument[1]), length + 1)
    inner = _ways(items, length, last=last and most <= 1)
    if inner == 1:
        # What ends a pattern takes all that it can, and is never tried again with less.
        return max(1, fewest) * (1 if last else max(1, most - fewest + 1))
    if most > _MOST_NESTED:
        return math.inf
    return sum((inner**times for times in range(fewest, most + 1)), 0.0)


def _wrapped(match: re.Match[str] | None) -> Value:
    return None if match is None else Found(match)


def _searching(name: str, give: Callable[[Any], Value]) -> Callable[..., Value]:
    def call(run: Run, pattern: Value, text: Value, *args: Value, flags: Value = 0) -> Value:
        if name not in ("split",) and args and not isinstance(pattern, Pattern):
            flags, args = args[0], args[1:]
        ready = _pattern(run, pattern, flags)
        problem = _refused(run, ready, text, whole=name == "fullmatch")
        if problem is not None or isinstance(ready, Unknown):
            return problem
        return give(getattr(ready[0], name)(text, *args))

    return call


def _refused(
    run: Run, ready: tuple[re.Pattern[str], Any] | Unknown, text: Value, *, whole: bool = False
) -> Value:
    """Return why a text is not searched; None where it can be."""
    if isinstance(ready, Unknown) or not isinstance(text, str):
        return first_unknown(text, ready) or run.unknown("text that is not known")
    steps = work(ready[1], len(text), whole=whole)
    if steps > MAX_WORK:
        return run.unknown("a pattern that could take long to search for")
    run.interp.tick(int(steps) // _TRIED_PER_STEP + len(text) // _LETTERS_PER_STEP)
    return None


def _substitute(run: Run, pattern: Value, by: Value, text: Value, count: Value = 0,
                flags: Value = 0) -> Value:  # fmt: skip
    if isinstance(text, string_sets.DrawnText):
        return string_sets.mapped(
            run, text, lambda word: _substitute(run, pattern, by, word, count, flags)
        )
    ready = _pattern(run, pattern, flags)
    problem = _refused(run, ready, text)
    if problem is not None or isinstance(ready, Unknown):
        return problem
    if isinstance(by, str):
        if len(by) * (len(text) + 1) > strings.MAX_LENGTH:
            return run.unknown("text too long to follow")
        return ready[0].sub(by, text, count)
    pieces: list[str] = []
    end = 0
    for match in ready[0].finditer(text):
        put = run.interp.call(by, [Found(match)], {})
        if not isinstance(put, str):
            return first_unknown(put) or run.unknown("text that is not known")
        pieces += [text[end : match.start()], put]
        end = match.end()
    return "".join([*pieces, text[end:]])


_SEARCHES: dict[str, Callable[..., Value]] = {
    "match": _searching("match", _wrapped), "search": _searching("search", _wrapped),
    "fullmatch": _searching("fullmatch", _wrapped),
    "findall": _searching("findall", list), "split": _searching("split", list),
    "finditer": _searching("finditer", lambda matches: [Found(match) for match in matches]),
    "sub": _substitute,
}  # fmt: skip


def _method(name: str) -> Callable[..., Value]:
    return lambda self, run, *args, **kwargs: _SEARCHES[name](run, self, *args, **kwargs)


for _name in _SEARCHES:
    exposed.add(Pattern, "methods", _name, _method(_name))


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
    names: dict[str, Value] = {name: NativeFunction(function, f"re.{name}")
                               for name, function in table.items()}  # fmt: skip
    for flag in ("I", "IGNORECASE", "M", "MULTILINE", "S", "DOTALL", "X", "VERBOSE", "A", "ASCII",
                 "U", "UNICODE"):  # fmt: skip
        names[flag] = int(getattr(re, flag))
    names.update(Pattern=NativeClass(Pattern, "Pattern"), Match=NativeClass(Found, "Match"))
    return Namespace("re", names)

"""Text of which only the words are known that it is drawn from, or made of.

`random.choice(words)` is one of the words; a sentence joined from such draws is made of them. A
dictionary or set filled with them has as many keys as there are words: all may occur, and the
most that can be is what memory must have room for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.interpreter.domain import join, lengths
from gpuconsole.preflight.interpreter.domain.values import (
    More,
    NativeFunction,
    Unknown,
    Value,
    plain,
)

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_WORDS = 5000
MAX_LETTERS = 200_000
REASON = "text drawn at random"
MIXED = "\0"
"""Separates words that have more than one thing between them."""
METHODS = "text."
"""Prefix of the names of functions that return such a text again."""


@dataclass(frozen=True, slots=True)
class DrawnText(Unknown):
    """One of the words; or, where `between` is not None, many of them with that between."""

    words: tuple[str, ...] = ()
    between: str | None = None


def one_of(run: Run, words: Iterable[str], between: str | None = None) -> Unknown:
    """Return text drawn from words, each of them taken once."""
    distinct = tuple(dict.fromkeys(words))
    run.interp.tick(len(distinct) // 8)
    if not distinct or len(distinct) > MAX_WORDS or sum(map(len, distinct)) > MAX_LETTERS:
        return run.unknown(REASON)
    return DrawnText(run.file, run.line, REASON, None, distinct, between)


def single(value: Value) -> bool:
    """Whether a value is one of some words."""
    return isinstance(value, DrawnText) and value.between is None


def joined(run: Run, between: str, parts: list[Value]) -> Value:
    """Return texts put together; None where not all are text, or none is drawn."""
    words: list[str] = []
    drawn, apart = False, between
    for part in parts:
        if isinstance(part, More):
            continue
        if isinstance(part, DrawnText):
            drawn = True
            words.extend(part.words)
            if part.between not in (None, between):
                words += [str(part.between), between]
                apart = MIXED
        elif isinstance(part, str):
            words.append(part)
        else:
            return None
        if len(words) > 20 * MAX_WORDS:
            words = list(dict.fromkeys(words))
            if len(words) > MAX_WORDS:
                return None
    return one_of(run, words, apart) if drawn else None


def mapped(run: Run, text: DrawnText, change: Callable[[str], Value]) -> Value:
    """Return the text with each word changed."""
    run.interp.tick(len(text.words))
    results = [change(word) for word in text.words]
    if not all(isinstance(word, str) for word in results):
        return plain(replace(text))
    return one_of(run, results, text.between)


def letters(run: Run, text: DrawnText) -> Value:
    """Return the list of the letters, of unknown length."""
    between = "" if text.between in (None, MIXED) else str(text.between)
    characters = {letter: None for word in text.words for letter in (*word, *between)}
    return lengths.opened(one_of(run, characters), lengths.of_unknown(text))


def attribute(run: Run, text: DrawnText, name: str) -> Value:
    """Return a method of the text."""

    def change(run: Run, *args: Value, **kwargs: Value) -> Value:
        def one(word: str) -> Value:
            return run.interp.call(run.interp.get_attr(word, name), list(args), kwargs)

        return mapped(run, text, one)

    def split(run: Run, by: Value = None, *_: Value) -> Value:
        if text.between is None:
            parts = [part for word in text.words for part in word.split(by)]
        elif by == text.between or (by is None and text.between.isspace()):
            parts = [part for word in text.words for part in (word.split(by) if word else [])]
        else:
            return plain(text)
        return lengths.opened(one_of(run, parts), lengths.of_unknown(text))

    if name == "split":
        return NativeFunction(split, METHODS + name)
    if name in _CHANGES:
        return NativeFunction(change, METHODS + name)
    return Unknown(text.file, text.line, text.reason, text.root)


_CHANGES = frozenset([
    "lower", "upper", "strip", "lstrip", "rstrip", "title", "capitalize", "casefold", "replace",
    "removesuffix", "removeprefix", "swapcase", "translate",
])  # fmt: skip


def inside(text: DrawnText, container: Value) -> bool | None:
    """Whether one of the words is a key or an item; None where some are and some are not."""
    if text.between is not None or not isinstance(container, (dict, set, frozenset, list, tuple)):
        return None
    answers = {word in container for word in text.words}
    if len(answers) == 2 or (answers == {False} and lengths.more_in(container) is not None):
        return None
    return answers.pop()


def looked_up(run: Run, mapping: dict[Value, Value], text: DrawnText, *default: Value) -> Value:
    """Return the value of a key that is one of the words; None if that is unknown."""
    if text.between is not None:
        return None
    make = getattr(mapping, "make", None)
    values = [mapping[word] for word in text.words if word in mapping]
    if len(values) < len(text.words):
        if make is None and not default:
            return None
        values.append(default[0] if default or make is None else make())
    result = join.item(run, values, text)
    return None if isinstance(result, DrawnText) else result


def stored(
    run: Run, container: dict[Value, Value] | set[Value], text: DrawnText, value: Value = None
) -> bool:
    """Put all words that it can be into a mapping or a set; whether that was done."""
    if text.between is not None:
        return False
    run.interp.tick(len(text.words) // 8)
    if isinstance(container, dict):
        container.update(dict.fromkeys(text.words, value))
    else:
        container.update(text.words)
    return True

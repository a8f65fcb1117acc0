"""Sweeps: one task many times, with the values of some arguments crossed.

`lr=1e-3,1e-4` names values, `seed=0..3` whole numbers from and to, `width=64..256..64` with a step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from gpuconsole.core.jobs import Task
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

MOST_JOBS = 1000
NAME_LENGTH = 128
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(\d{1,9}))?")

Combination = tuple[tuple[str, str], ...]
"""Name and value of each argument, in the order of the axes."""
Flags = Callable[[str], tuple[str, ...]]
"""The spellings of a script's own option of some name; () where it has none."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One argument with the values it takes."""

    name: str
    values: tuple[str, ...]

    @property
    def numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(_is_number(value) for value in self.values)


def read_axes(texts: Iterable[str]) -> tuple[Axis, ...]:
    """Return the axes of texts, each of one or more `NAME=VALUES` between spaces.

    UsageError for one that is none, a name that comes twice, or more than `MOST_JOBS` jobs.
    """
    axes = tuple(_axis(word) for text in texts for word in text.split())
    if not axes:
        raise _wrong("It names no argument.")
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(f"{name} comes twice.")
    count = prod(len(axis.values) for axis in axes)
    if count > MOST_JOBS:
        raise UsageError(
            "Sweep too large",
            msg(
                "{names} are {count} jobs; {limit} are the most.",
                names=" × ".join(str(len(axis.values)) for axis in axes),
                count=count,
                limit=MOST_JOBS,
            ),
            "Use fewer values, or several sweeps.",
        )
    return axes


def combinations(axes: Sequence[Axis]) -> tuple[Combination, ...]:
    """Return all combinations of values; the last axis changes fastest."""
    names = [axis.name for axis in axes]
    return tuple(
        tuple(zip(names, values, strict=True))
        for values in product(*(axis.values for axis in axes))
    )


def task_of(task: Task, combination: Combination, sweep: str, flags: Flags) -> Task:
    """Return the task with a combination's arguments and a name that tells them."""
    args = task.args
    for name, value in combination:
        args = with_option(args, flags(name) or (f"--{name}",), value)
    values = ",".join(f"{name}={value}" for name, value in combination)
    return replace(task, args=args, name=_name(task.name, values), sweep=sweep)


def with_option(args: Sequence[str], flags: Sequence[str], value: str) -> tuple[str, ...]:
    """Return arguments with an option set: in its place if it is there already, else at the end."""
    words = list(args)
    for place, word in enumerate(words):
        name, equals, _ = word.partition("=")
        if name in flags:
            if equals:
                words[place] = f"{name}={value}"
            elif place + 1 < len(words):
                words[place + 1] = value
            else:
                words.append(value)
            return tuple(words)
    long = next((flag for flag in flags if flag.startswith("--")), flags[0])
    # Read as a flag of its own, a negative number in two words would be refused.
    return (*words, f"{long}={value}") if value.startswith("-") else (*words, long, value)


def parameters(commands: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    """Return the options in which command lines differ, and the values of each line.

    `--lr 0.1` and `--lr=0.1` are the same; an option without a value is `yes` where it is present.
    """
    read = [_options(words) for words in commands]
    names = list(dict.fromkeys(name for options in read for name in options))
    differ = tuple(name for name in names if len({options.get(name, "") for options in read}) > 1)
    return differ, [{name: options.get(name, "") for name in differ} for options in read]


def _options(words: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            options[name] = value if equals else "yes"
            name = "" if equals else name
        elif re.fullmatch(r"-[A-Za-z]", word):
            name = word[1:]
            options[name] = "yes"
        elif name:
            options[name] = word
            name = ""
    return options


def _name(base: str, values: str) -> str:
    room = NAME_LENGTH - len(values) - 2
    if room >= 8:
        return f"{base[:room]}[{values}]"
    return clean(f"{base[: NAME_LENGTH // 2]}[{values}]", NAME_LENGTH)


def _axis(word: str) -> Axis:
    name, equals, listed = word.partition("=")
    name = name.lstrip("-")
    if not equals or not _NAME.fullmatch(name):
        raise _wrong(f"{clean(word, 80)!r} is not NAME=VALUES.")
    values: list[str] = []
    for part in listed.split(","):
        values += _range(part) or [part]
    if not all(value and value.isprintable() for value in values):
        raise _wrong(f"{name} has an empty value.")
    if len(set(values)) < len(values):
        raise _wrong(f"{name} has a value twice.")
    return Axis(name, tuple(values))


def _range(part: str) -> list[str]:
    match = _RANGE.fullmatch(part)
    if match is None:
        return []
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if step < 1 or last < first:
        raise _wrong(msg("{part} has no number in it.", part=part))
    if (last - first) // step >= MOST_JOBS:
        raise _wrong(msg("{part} has more than {n} numbers.", part=part, n=MOST_JOBS))
    return [str(number) for number in range(first, last + 1, step)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _wrong(message: str) -> UsageError:
    return UsageError("Wrong sweep", message, "Write: --sweep lr=1e-3,1e-4 --sweep seed=0..3")

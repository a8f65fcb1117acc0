"""Text made from values: formats and methods of `str` that can make it longer, with bounds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import string_sets
from gpuconsole.preflight.interpreter.domain.values import Unknown, Value, first_unknown

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_LENGTH = 200_000
"""Items or characters of anything that the analysis makes."""
MAX_FIELDS = 200
MAX_SHOWN = 1000
"""Items of a list that is shown as text."""
MAX_SEARCHED = 2 * 10**7
"""Letters that a search compares at most: those of the text, times those looked for."""
_LETTERS_PER_STEP = 64
_COMPARED_PER_STEP = 2**14


def percent(interp: Interpreter, template: Value, values: Value) -> Value:
    """Format with `%`; only what cannot blow up."""
    parts = values if isinstance(values, tuple) else (values,)
    if type(values) is dict and isinstance(template, str) and "%(" in template:
        parts = tuple(values.values())
    if not isinstance(template, str) or len(parts) > MAX_SHOWN or not _is_simple(parts):
        return interp.run.unknown("text made from a value that is not known")
    if _wide(template) or _long(template.count("%"), parts):
        return interp.run.unknown("text too long to follow")
    try:
        return _made(interp, template % values)
    except (TypeError, ValueError, OverflowError) as error:
        return interp.run.unknown(f"this text cannot be made: {error}")


def formatted(
    interp: Interpreter, template: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Format with `str.format`; only plain numbers and text, no attribute access."""
    values = [*args, *kwargs.values()]
    if not _is_simple(values):
        return interp.run.unknown("text made from a value that is not known")
    if re.search(r"\{[^{}]*\{", template.replace("{{", "")):
        return interp.run.unknown("text with a width that comes from a value")
    if _long(template.count("{"), values):
        return interp.run.unknown("text too long to follow")
    if _wide(template) or "." in template.split("{", 1)[-1].split(":")[0] or "[" in template:
        return interp.run.unknown("text that the analysis does not format")
    try:
        return _made(interp, template.format(*args, **kwargs))
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        return interp.run.unknown(f"this text cannot be made: {error}")


def shown(interp: Interpreter, value: Value, spec: Value = "", conversion: int = -1) -> Value:
    """Return a value as text, as an f-string or `format` shows it; an unknown where it cannot."""
    if isinstance(value, bool) or value is None:
        value = str(value)
    elif isinstance(value, (list, tuple)):
        value = _listed(value)
    elif not isinstance(value, (int, float, str)):
        text = getattr(value, "text", None)
        value = text if isinstance(text, str) else interp.as_text(value)
    if not isinstance(value, (int, float, str)) or not isinstance(spec, str) or _wide(spec):
        return first_unknown(value, spec) or interp.run.unknown(
            "text made from a value that is not known"
        )
    try:
        if conversion == ord("r") or conversion == ord("a"):
            value = repr(value)
        return _made(interp, format(str(value) if conversion == ord("s") or not spec else value,
                                   spec))  # fmt: skip
    except (ValueError, TypeError, OverflowError) as error:
        return interp.run.unknown(f"this text cannot be made: {error}")


def _listed(value: Sequence[Value]) -> str | None:
    """Return a short list of numbers and texts as text."""
    if len(value) >= MAX_SHOWN or not _is_simple(value):
        return None
    letters = sum(len(part) for part in value if isinstance(part, str))
    return str(value) if letters <= MAX_LENGTH else None


def _is_simple(values: Sequence[Value]) -> bool:
    return all(isinstance(value, (int, float, str)) for value in values)


def _made(interp: Interpreter, text: str) -> str:
    """Count the work of making a text."""
    interp.tick(len(text) // _LETTERS_PER_STEP)
    return text


def _long(fields: int, values: Sequence[Value]) -> bool:
    """Whether fields filled with these values could make a long text."""
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    return fields > MAX_FIELDS or max(1, fields) * longest > MAX_LENGTH


def _wide(template: str) -> bool:
    """Whether a template asks for a width of five or more digits, or takes it from a value."""
    digits = 0
    for letter in template:
        digits = digits + 1 if letter.isdigit() else 0
        if digits > 4:
            return True
    return len(template) > MAX_LENGTH or "*" in template


def searched(interp: Interpreter, text: Value, *parts: Value) -> Unknown | None:
    """Count the work of looking for parts in a text; why not, where that could take long."""
    longest = max((len(part) for part in parts if isinstance(part, (str, bytes))), default=0)
    if len(text) * longest > MAX_SEARCHED:
        return interp.run.unknown("a text too long to search")
    interp.tick(len(text) // _LETTERS_PER_STEP + len(text) * longest // _COMPARED_PER_STEP)
    return None


def translated(run: Run, value: str, name: str, args: Sequence[Value]) -> Value:
    """Run `translate` and `maketrans`."""
    unknown = first_unknown(*args)
    if unknown is not None:
        return unknown
    table = args[0] if args else {}
    if name == "maketrans":
        return str.maketrans(*args)
    if any(isinstance(entry, str) and len(entry) > 8 for entry in table.values()):
        return run.unknown("text too long to follow")
    return _made(run.interp, value.translate(table))


def padded(run: Run, value: str, name: str, args: Sequence[Value]) -> Value:
    unknown = first_unknown(*args)
    if unknown is not None or not args or args[0] > MAX_LENGTH:
        return unknown or run.unknown("text too long to follow")
    return _made(run.interp, getattr(value, name)(*args))


def joined_or_replaced(interp: Interpreter, value: str, name: str, args: Sequence[Value]) -> Value:
    if name == "join":
        parts = list(interp.iterate(args[0]))
        if any(isinstance(part, string_sets.DrawnText) for part in parts):
            joined = string_sets.joined(interp.run, value, parts)
            return interp.run.unknown("text made from a value that is not known") if (
                joined is None) else joined  # fmt: skip
        if not all(isinstance(part, str) for part in parts):
            return interp.run.unknown("text made from a value that is not known")
        if sum(map(len, parts)) + len(value) * len(parts) > MAX_LENGTH:
            return interp.run.unknown("text too long to follow")
        return _made(interp, value.join(parts))
    if len(value) * (len(args[1]) + 1) > 10 * MAX_LENGTH:
        return interp.run.unknown("text too long to follow")
    return searched(interp, value, args[0]) or _made(interp, value.replace(*args))

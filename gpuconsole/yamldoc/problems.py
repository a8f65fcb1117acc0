"""What pydantic refuses, in words for a person: expectation, finding, nearest known key."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Union, get_args, get_origin

import yaml
from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gpuconsole.core.text import clean
from gpuconsole.core.wording import joined, msg
from gpuconsole.core.wording import name as named
from gpuconsole.yamldoc.tree import Loc, Spot, Worded, place, with_found

MAX_WORDED = 50
"""A document can have a hundred thousand errors; so many are reported with their place."""

_EXPECTED = {
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "dict_type": "expected keys and values",
    "mapping_type": "expected keys and values",
    "model_type": "expected keys and values",
    "model_attributes_type": "expected keys and values",
    "path_type": "expected a path",
}

_BOUND = {
    "greater_than": "expected greater than {n}",
    "greater_than_equal": "expected greater than or equal to {n}",
    "less_than": "expected less than {n}",
    "less_than_equal": "expected less than or equal to {n}",
}
"""Where a number is too small or too large; pydantic tells the bound."""

_FILL_IN = {
    "expected a list": "Add an item below it; lines that begin with # are comments.",
    "expected keys and values": "Add a key below it; lines that begin with # are comments.",
}
"""What to do where such a thing is missing, by what was expected."""


def worded(error: ValidationError, model: type[BaseModel], root: yaml.Node) -> list[Worded]:
    """Return the first problems with place, text and hint; branches of a union become one."""
    problems: list[Worded] = []
    refused: dict[Spot, tuple[list[str], list[str]]] = {}
    for detail in error.errors(include_url=False)[:MAX_WORDED]:
        loc, kind = detail["loc"], detail["type"]
        spot = place(root, loc, about_key=kind == "extra_forbidden")
        if kind == "extra_forbidden":
            problems.append((spot.line, spot.column, *_unknown_key(model, loc)))
        elif kind == "missing":
            text = msg("`{key}` is missing", key=clean(str(loc[-1]), 60))
            problems.append((spot.line, spot.column, _at(spot, text), ""))
        else:
            texts, hints = refused.setdefault(spot, ([], []))
            text, hint = _explain(detail, spot)
            texts.append(text)
            hints.append(hint)
    for spot, (texts, hints) in refused.items():
        text = _either(list(dict.fromkeys(texts)))
        if spot.content == "nothing" and texts[0] in _FILL_IN and spot.prefix:
            # A template of which nothing was filled in: every line of it is still a comment.
            text = msg("{place} is empty", place=spot.prefix.removesuffix(": "))
            problems.append((spot.line, spot.column, text, _FILL_IN[texts[0]]))
            continue
        if spot.scalar or text.rpartition(": ")[2].startswith("expected"):
            text = with_found(text, spot.content)
        problems.append((spot.line, spot.column, _at(spot, text), next(filter(None, hints), "")))
    return problems


def _at(spot: Spot, text: str) -> str:
    return joined("", (named(spot.prefix), text))


def known_keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the keys that a document may use for a model, with their fields."""
    keys: dict[str, FieldInfo] = {}
    for name, info in model.model_fields.items():
        alias = info.validation_alias or info.alias
        names: Iterable[object] = alias.choices if isinstance(alias, AliasChoices) else [alias]
        written = [choice for choice in names if isinstance(choice, str)]
        keys.update(dict.fromkeys(written or [name], info))
    return keys


def _either(texts: list[str]) -> str:
    text, *rest = texts
    for other in rest:
        what = other.removeprefix("expected ")
        text = msg("{first_text} or {other_text}", first_text=text, other_text=what)
    return text


def _explain(detail: ErrorDetails, spot: Spot) -> tuple[str, str]:
    kind = detail["type"]
    if kind in _EXPECTED:
        quote = kind == "string_type" and spot.scalar and spot.content != "nothing"
        hint = msg('Write it in quotes: "{value}".', value=spot.content[1:-1])
        return _EXPECTED[kind], hint if quote else ""
    if kind in _BOUND:
        (value,) = detail["ctx"].values()
        return msg(_BOUND[kind], n=value), ""
    message = clean(detail["msg"], 300)
    if kind in ("literal_error", "enum"):
        expected = str(detail["ctx"]["expected"])
        hint = _did_you_mean(str(detail["input"]), re.findall(r"'([^']*)'", expected))
        return msg("expected {choices}", choices=_choices(expected)), hint
    for opening in ("Value error, ", "Assertion failed, "):
        if message.startswith(opening):
            return message.removeprefix(opening), ""
    for subject in ("Input should be", "Input should", "String should", "List should"):
        if message.startswith(subject):
            thing = {"String": "text to ", "List": "a list to "}.get(subject.split()[0], "")
            to = "to " if subject == "Input should" else ""
            return f"expected {thing}{to}{message.removeprefix(subject).strip()}", ""
    return message[:1].lower() + message[1:], ""


def _choices(expected: str) -> str:
    """Return pydantic's list of choices, such as `'a', 'b' or 'c'`, as a message."""
    first, _, last = expected.rpartition(" or ")
    if not first:
        return named(last)
    return msg("{choices} or {last}", choices=named(first), last=named(last))


def _unknown_key(model: type[BaseModel], loc: Loc) -> tuple[str, str]:
    key = clean(str(loc[-1]), 60)
    keys = [name for section in _models_at(model, loc[:-1]) for name in known_keys(section)]
    if near := _nearest(key, keys):
        words = msg("`{key}` is not a known key; did you mean `{id}`?", key=key, id=near)
        return words, "Correct or remove it."
    homes = [
        name
        for name, info in known_keys(model).items()
        for section in _models_in(info.annotation)
        if key in known_keys(section)
    ]
    if homes and loc[:-1] != (homes[0],):
        words = msg("`{key}` is not a known key here", key=key)
        return words, msg("`{key}` belongs under `{home}`.", key=key, home=homes[0])
    hint = msg("Known here: {keys}.", keys=", ".join(keys)) if keys else ""
    return msg("`{key}` is not a known key", key=key), hint


def _did_you_mean(word: str, choices: Iterable[str]) -> str:
    near = _nearest(word, choices)
    return msg("Did you mean `{id}`?", id=near) if near else ""


def _nearest(word: str, choices: Iterable[str]) -> str:
    """Return the choice that is written most like the word; "" where none is near."""
    by_fold = {choice.lower().replace("-", "_"): choice for choice in choices}
    near = difflib.get_close_matches(word.lower().replace("-", "_"), by_fold, n=1, cutoff=0.6)
    return by_fold[near[0]] if near else ""


def _models_at(model: type[BaseModel], loc: Loc) -> Iterator[type[BaseModel]]:
    """Find the models that stand at a place, by walking the annotations along it."""
    here: list[object] = [model]
    for step in loc:
        # A step that nothing has is pydantic's name for the branch of a union: stay.
        here = [below for annotation in here for below in _step(annotation, step)] or here
    for annotation in here:
        yield from _models_in(annotation)


def _step(annotation: object, step: str | int) -> Iterator[object]:
    for part in members(annotation):
        arguments = get_args(part)
        if isinstance(part, type) and issubclass(part, BaseModel):
            info = known_keys(part).get(str(step))
            if info is not None:
                yield info.annotation
        elif arguments and isinstance(step, int):
            yield arguments[0]
        elif len(arguments) == 2:
            yield arguments[1]


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    for part in members(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield part


def members(annotation: object) -> Iterator[object]:
    """Give the types that an annotation allows, without `Annotated` and unions around them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from members(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for argument in get_args(annotation):
            yield from members(argument)
    else:
        yield annotation

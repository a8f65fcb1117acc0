"""The reference of the Python API, from what `gpuconsole` exports.

`python docs/apipage.py` notes in `api.txt` what callers may rely on from now on. A test holds the
code to it: calls stay as noted, fields of records stay and others may come.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tables import with_part

import gpuconsole

PROMISED = Path(__file__).with_name("api.txt")
_WIDTH = 88
FACES = {"Session": "BlockingSession", "Imaging": "BlockingImages"}
"""What the API is made of, and the blocking face of each: what that has is promised of both."""


def page(text: str) -> str:
    """Return docs/api.md with its reference as the code has it now."""
    return with_part(text, "reference", reference().rstrip("\n"))


def public() -> dict[str, Any]:
    """Return what is public, by name."""
    names = [name for name in gpuconsole.__all__ if name != "__version__"]
    return {name: getattr(gpuconsole, name) for name in names}


def shapes() -> tuple[list[str], list[str]]:
    """Return what callers rely on, a line each: calls and errors, then fields of records."""
    calls, fields = [], []
    for name, thing in public().items():
        if inspect.isfunction(thing):
            calls.append(_signature(name, thing))
        elif not inspect.isclass(thing):
            calls.append(f"{name} = {thing}")
        elif thing.__name__ != name:
            calls.append(f"{name} = {thing.__name__}")
        elif issubclass(thing, BaseException):
            bases = ", ".join(base.__name__ for base in thing.__bases__)
            calls.append(f"class {name}({bases})  # exit code {thing.exit_code}")
        elif _is_record(thing):
            fields += [f"{name}.{field}" for field in _fields(thing)]
        else:
            calls += [f"{name}.{shape}" for shape, _ in _members(thing)]
    return calls, fields


def promised() -> list[str]:
    """Return the lines of what callers rely on, as it was noted."""
    return PROMISED.read_text(encoding="utf-8").splitlines()


def reference() -> str:
    """Return the whole reference as Markdown; of records, the fields that are promised."""
    parts = ["\n## Functions\n"]
    things = public()
    for name, thing in things.items():
        if inspect.isfunction(thing):
            parts.append(f"\n```python\n{_folded(_signature(name, thing))}\n```\n\n{_doc(thing)}\n")
    parts.append("\n## Sessions\n")
    for session, blocking in FACES.items():
        parts.append(f"\n`{session}`: {_doc(things[session])}\n\n`{blocking}`: ")
        parts.append(f"{_doc(things[blocking])} It has the same methods without `async`.\n")
        for shape, words in _members(things[session]):
            parts.append(f"\n```python\n{_folded(shape)}\n```\n\n{words}\n")
    parts.append("\n## Options of a task\n\n```python\n")
    parts.append("\n".join(_promised("TaskOptions")) + "\n```\n\n## Records\n")
    for name, thing in things.items():
        if _is_record(thing) and name != "TaskOptions":
            said = "\n".join(_promised(name))
            parts.append(f"\n`{name}`: {_doc(thing)}\n\n```python\n{said}\n```\n")
    parts.append("\n## Errors\n\n| error | means | exit code |\n| --- | --- | --- |\n")
    for name, thing in things.items():
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            first = _doc(thing).split("\n\n")[0].replace("\n", " ")
            parts.append(f"| `{name}` | {first} | {thing.exit_code} |\n")
    return "".join(parts)


def _promised(record: str) -> list[str]:
    mark = f"{record}."
    return [line.removeprefix(mark) for line in promised() if line.startswith(mark)]


def _is_record(thing: Any) -> bool:
    if not inspect.isclass(thing):
        return False
    typed = hasattr(thing, "__total__")
    return dataclasses.is_dataclass(thing) or issubclass(thing, enum.Enum) or typed


def _fields(record: Any) -> Iterator[str]:
    if dataclasses.is_dataclass(record):
        for field in dataclasses.fields(record):
            yield _quoted(f"{field.name}: {field.type}")
        for name, member in vars(record).items():
            if isinstance(member, property) and not name.startswith("_"):
                yield f"{name}: {_annotation(member.fget, 'return')}"
    elif issubclass(record, enum.Enum):
        yield from (_quoted(f"{member.name} = {member.value!r}") for member in record)
    else:
        named = record.__annotations__.items()
        for name, kind in named:
            yield _quoted(f"{name}: {getattr(kind, '__forward_arg__', kind)}")


def _members(kind: type) -> Iterator[tuple[str, str]]:
    """Give the shapes of a class's public properties and methods, each with its words."""
    face = vars(getattr(gpuconsole, FACES[kind.__name__])) if kind.__name__ in FACES else {}
    # An attribute of a session is a property of its blocking face, which has its words.
    attributes = {name: face[name] for name in kind.__annotations__ if name in face}
    for name, member in (attributes | vars(kind)).items():
        if name.startswith("_") or (face and name not in face):
            continue
        if isinstance(member, property):
            said = kind.__annotations__.get(name) or _annotation(member.fget, "return")
            yield f"{name}: {said}", _doc(member)
        elif inspect.isfunction(member):
            yield _signature(name, member), _doc(member)


def _signature(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    said: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        star = parameter.kind is parameter.KEYWORD_ONLY and not any(
            one.startswith("*") for one in said
        )
        said += ["*"] if star else []
        mark = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f" = {_said(parameter.default)}"
        said.append(f"{mark}{parameter.name}: {parameter.annotation}{default}")
    # What a context manager's function returns is not what its generator yields.
    manager = hasattr(function, "__wrapped__")
    back = str(signature.return_annotation)
    back = re.sub("^AsyncIterator", "AbstractAsyncContextManager", back) if manager else back
    awaited = "async " if inspect.iscoroutinefunction(function) else ""
    return _quoted(f"{awaited}def {name}({', '.join(said)}) -> {back}")


def _said(default: object) -> str:
    """Return a default as a reader would write it."""
    if inspect.isfunction(default):
        return str(default.__name__)
    return repr(dict(default) if isinstance(default, Mapping) else default)


def _folded(shape: str) -> str:
    """Return a signature with one argument a line where it is long."""
    if len(shape) <= _WIDTH or "(" not in shape:
        return shape
    head, _, rest = shape.partition("(")
    inside, _, back = rest.rpartition(") -> ")
    arguments = re.split(r", (?![^\[]*\])", inside)
    return f"{head}(\n" + "".join(f"    {one},\n" for one in arguments) + f") -> {back}"


def _quoted(code: str) -> str:
    """Return code with the quotes that its formatter wants."""
    return code.replace("'", '"')


def _annotation(function: Any, name: str) -> str:
    return str(function.__annotations__.get(name, "Any"))


def _doc(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


if __name__ == "__main__":
    PROMISED.write_text("\n".join(line for part in shapes() for line in part) + "\n", "utf-8")

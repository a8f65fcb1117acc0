"""What other packages add to the console, found by their entry points.

A package that is installed beside gpuconsole offers an object under one of the groups below. It is
loaded when it is first needed, in this process and with its rights. One that cannot be loaded, or
is no object of the right kind, is left out and said by name; it never stops the console.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from typing import Generic, Literal, TypeVar

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg

ACTIONS = "gpuconsole.actions"
"""Entry points of `Action`: what the command palette offers beside the console's own commands."""
VENDORS = "gpuconsole.vendors"
"""Entry points of `remote.vendors.model.VendorReader`: tools of makers of cards."""
OFF = "GPUCONSOLE_NO_EXTENSIONS"
"""With this variable set, nothing is loaded: to see whether a fault comes from an extension."""
MAX_OUTPUT = 64 * 1024
"""Characters of what an action returns that are shown."""
MAX_TITLE = 60

T = TypeVar("T")
Document = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Selected:
    """What is under the cursor when an action is chosen; None for what is not.

    The documents are those of `gpuconsole status --json` and `gpuconsole jobs --json`, of the
    moment that the screen shows.
    """

    host: Document | None = None
    device: Document | None = None
    job: Document | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do with what is under the cursor, chosen in the command palette."""

    title: str
    """What the palette calls it: a verb first, such as `Ping host`."""
    run: Callable[[Selected], str]
    """Called on a thread of its own; what it returns is shown, or the text of its exception."""
    on: Literal["", "host", "device", "job"] = ""
    """What has to be under the cursor for it to be offered."""
    changes: bool = False
    """Whether it changes anything: then it is not offered with `--read-only`."""


@dataclass(frozen=True, slots=True)
class Extension(Generic[T]):
    """An object that a package adds."""

    name: str
    """The name of its entry point."""
    package: str
    value: T


@dataclass(frozen=True, slots=True)
class Extensions(Generic[T]):
    """Everything that was found in a group."""

    loaded: tuple[Extension[T], ...] = ()
    faults: tuple[str, ...] = ()
    """Why others were left out, a sentence each."""


def extensions(group: str, kind: type[T]) -> Extensions[T]:
    """Return the objects of a group that are of `kind`; the same ones for the whole process."""
    if os.environ.get(OFF):
        return Extensions()
    objects = _objects(group)
    loaded: list[Extension[T]] = []
    faults = list(objects.faults)
    for each in objects.loaded:
        if isinstance(each.value, kind):
            loaded.append(Extension(each.name, each.package, each.value))
        else:
            why = msg("it is no {kind}", kind=kind.__name__)
            faults.append(_left_out(each.name, each.package, why))
    return Extensions(tuple(loaded), tuple(faults))


@cache
def _objects(group: str) -> Extensions[object]:
    """Load the objects of a group, each name once."""
    loaded: dict[str, Extension[object]] = {}
    faults: list[str] = []
    for point in sorted(metadata.entry_points(group=group), key=lambda point: point.name):
        package = clean(point.dist.name, 64) if point.dist is not None else "?"
        name = clean(point.name, 64)
        if name in loaded:
            faults.append(_left_out(name, package, msg("there is another of that name")))
            continue
        try:
            loaded[name] = Extension(name, package, point.load())
        except Exception as error:
            why = clean(f"{type(error).__name__}: {error}", 200)
            faults.append(_left_out(name, package, why))
    return Extensions(tuple(loaded.values()), tuple(faults))


def _left_out(name: str, package: str, why: str) -> str:
    return msg("{name} of {package} was left out: {why_text}", name=name, package=package,
               why_text=why)  # fmt: skip


def actions() -> Extensions[Action]:
    """Return the actions of installed packages."""
    return extensions(ACTIONS, Action)


def output_of(action: Action, selected: Selected) -> str:
    """Run an action; return what it said or what went wrong, cleaned and bounded, or ""."""
    try:
        said = action.run(selected)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    lines = str(said)[:MAX_OUTPUT].splitlines()
    return "\n".join(clean(line, 500) for line in lines)

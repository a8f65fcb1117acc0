"""Leave out of a module's source what its users cannot reach.

The agent brings `pynvml` along, 8,000 lines of which it uses few. Python compiles them on every
host at every connect: a third of the agent's start.
"""

from __future__ import annotations

import re
from types import CodeType

_NAME = re.compile(r"[A-Za-z_]\w*")
_DEFINITION = re.compile(r"(?:def|class)\s+([A-Za-z_]\w*)")
# A name for a number, a text or another name, on one line: to leave it out does nothing else.
_CONSTANT = re.compile(r"""([A-Za-z_]\w*)[ \t]*=[ \t]*(?![=_])[\w \t.|<+*'"-]+(?:#.*)?$""")
# An import of one name. What it imports is not searched, so the name represents it.
_IMPORT = re.compile(r"from (?!__future__)[\w.]+ import ([A-Za-z_]\w*)[ \t]*$")
# Lines that go on with the definition above: indented ones, comments, and closing brackets.
_GOES_ON = (" ", "\t", "\n", "\r", "#", ")", "]", "}")
_NAMED = re.compile("|".join(kind.pattern for kind in (_DEFINITION, _CONSTANT, _IMPORT)))


def pruned_program(source: str, users: str, file: str) -> tuple[str, CodeType]:
    """Return `source` without what `users` cannot reach: functions, classes, constants,
    imports; and the program that it is, as if it were read from `file`.

    A definition stays when its name occurs anywhere in the text of `users`, of statements outside
    of definitions, or of a definition that stays; so names in strings, as for `getattr`, count too.
    A name that ends in an underscore means all constants that begin with it, as in
    `name.startswith("NVML_ERROR_")`. Another name that is put together while the program runs does
    not count. Where the cut text is not a program, the whole source is returned.
    """
    text = _cut(source, users)
    try:
        return text, compile(text, file, "exec", dont_inherit=True)
    except SyntaxError:
        return source, compile(source, file, "exec", dont_inherit=True)


def _cut(source: str, users: str) -> str:
    parts = _parts(source)
    by_name: dict[str, list[int]] = {}
    for at, (name, _) in enumerate(parts):
        by_name.setdefault(name, []).append(at)
    needed: set[int] = set()
    looked_for: set[str] = set()
    texts = [users, *(parts[at][1] for at in by_name.pop("", ()))]
    while texts:
        names = set(_NAME.findall("\n".join(texts))) - looked_for
        looked_for |= names
        added = _parts_named(names, by_name, parts) - needed
        needed |= added
        texts = [parts[at][1] for at in added]
    return "".join(text for at, (name, text) in enumerate(parts) if not name or at in needed)


def _parts_named(
    names: set[str], by_name: dict[str, list[int]], parts: list[tuple[str, str]]
) -> set[int]:
    """Return the positions of the parts with some names."""
    places_named = {at for name in names for at in by_name.get(name, ())}
    beginnings = tuple(name for name in names if name.endswith("_") and name.strip("_"))
    if beginnings:
        for name, places in by_name.items():
            if name.startswith(beginnings):
                places_named.update(at for at in places if _CONSTANT.match(parts[at][1]))
    return places_named


def _parts(source: str) -> list[tuple[str, str]]:
    """Cut a source into definitions, each with its name, and the parts between them, with none."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    decorators: list[str] = []
    for line in source.splitlines(keepends=True):
        if line.startswith("@"):
            decorators.append(line)
        elif line.startswith(_GOES_ON):
            parts[-1][1].append(line)
        elif match := _NAMED.match(line):
            parts.append((match[match.lastindex or 0], [*decorators, line]))
            decorators = []
        elif parts[-1][0]:
            parts.append(("", [line]))
        else:
            parts[-1][1].append(line)
    parts[-1][1].extend(decorators)
    return [(name, "".join(lines)) for name, lines in parts]

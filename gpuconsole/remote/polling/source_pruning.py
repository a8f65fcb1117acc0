"""Leave out of a module's source what its users cannot reach.

The agent brings `pynvml` along, 8,000 lines of which it uses few. Python compiles them on every
host at every connect: a third of the agent's start.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z_]\w*")
_DEFINITION = re.compile(r"(?:def|class)\s+([A-Za-z_]\w*)")
# Lines that go on with the definition above: indented ones, comments, and closing brackets.
_GOES_ON = (" ", "\t", "\n", "\r", "#", ")", "]", "}")


def pruned(source: str, users: str) -> str:
    """Return `source` without the functions and classes that `users` cannot reach by name.

    A definition stays when its name stands anywhere in the text of `users`, of statements outside
    of definitions, or of a definition that stays; so names in strings, as for `getattr`, count too.
    A name that is put together while the program runs does not. Where the cut text is not a
    program, the whole source is returned.
    """
    parts = _parts(source)
    wanted = set(_NAME.findall(users))
    for name, text in parts:
        if not name:
            wanted.update(_NAME.findall(text))
    kept: set[int] = set()
    while found := [at for at, (name, _) in enumerate(parts) if name in wanted and at not in kept]:
        kept.update(found)
        for at in found:
            wanted.update(_NAME.findall(parts[at][1]))
    text = "".join(text for at, (name, text) in enumerate(parts) if not name or at in kept)
    try:
        compile(text, "<pruned>", "exec")
    except SyntaxError:
        return source
    return text


def _parts(source: str) -> list[tuple[str, str]]:
    """Cut a source into definitions, each with its name, and what stands between, with none."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    decorators: list[str] = []
    for line in source.splitlines(keepends=True):
        if line.startswith("@"):
            decorators.append(line)
        elif found := _DEFINITION.match(line):
            parts.append((found[1], [*decorators, line]))
            decorators = []
        elif parts[-1][0] and not line.startswith(_GOES_ON):
            parts.append(("", [line]))
        else:
            parts[-1][1].append(line)
    parts[-1][1].extend(decorators)
    return [(name, "".join(lines)) for name, lines in parts]

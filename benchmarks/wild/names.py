"""The names of a library that a file uses, and whether the installed library has them.

A name is a dotted path such as `paddle.nn.functional.relu`. Only files are read: nothing of a
project is imported. A name that may be absent by the author's own care (see `_is_guarded`) is not
counted, nor is one that the file itself sets.
"""

from __future__ import annotations

import ast
import functools
import importlib
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_ABSENT = object()
_ABSENCE = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"})
"""Exceptions whose handler is prepared for a missing name."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a library in a file."""

    used: frozenset[str] = frozenset()
    """Those that are imported or reached, but not those below a guard."""
    defined: frozenset[str] = frozenset()
    """Those to which the file assigns, as in `paddle.Tensor.item2 = f`."""


def names_in(tree: ast.AST, library: str) -> Names:
    """Return the names of `library` that a file's syntax tree uses and defines.

    An attribute chain counts where its first name is bound by imports of one thing and by nothing
    else in the file: what a name means in each scope is not followed.
    """
    targets = _targets(tree)
    nodes = list(_unguarded(tree))
    used = {name for node in nodes for name in _imported(node)}
    used |= {chain for node in nodes for chain in _chains(node, ast.Load, targets)}
    defined = {chain for node in ast.walk(tree) for chain in _chains(node, ast.Store, targets)}
    return Names(_of(library, used), _of(library, defined))


def absent(files: Iterable[Names]) -> tuple[str, ...]:
    """Return the names that the files of a program use and the installed library lacks, sorted.

    A name that one of the files defines, and what lies below it, is not absent.
    """
    program = list(files)
    used = frozenset[str]().union(*(file.used for file in program))
    defined = frozenset[str]().union(*(file.defined for file in program))
    missing = {name for name in used if not _is_below(name, defined) and not exists(name)}
    return tuple(sorted(name for name in missing if not _is_below(name, missing - {name})))


@functools.cache
def exists(name: str) -> bool:
    """Return True if the installed library has a name.

    Modules are imported on the way. Below an object that is neither a module nor a class every
    name is taken to exist.
    """
    parts = name.split(".")
    at = _module(parts[0])
    for end, part in enumerate(parts[1:], start=2):
        if not isinstance(at, types.ModuleType | type):
            break
        below = getattr(at, part, _ABSENT)
        is_module = below is _ABSENT and isinstance(at, types.ModuleType)
        at = _module(".".join(parts[:end])) if is_module else below
    return at is not _ABSENT


def _module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ImportError:
        return _ABSENT


def _of(library: str, names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in names if _is_below(name, {library}))


def _is_below(name: str, others: Iterable[str]) -> bool:
    return any(f"{name}.".startswith(f"{other}.") for other in others)


def _unguarded(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree but for guarded statements and expressions."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not _is_guarded(node):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def _is_guarded(node: ast.AST) -> bool:
    """Return True for a `try` with a handler for absence, and for a branch on `hasattr`."""
    if isinstance(node, ast.Try):
        return any(_handles_absence(handler.type) for handler in node.handlers)
    if isinstance(node, ast.If | ast.IfExp):
        calls = (part.func for part in ast.walk(node.test) if isinstance(part, ast.Call))
        return any(isinstance(call, ast.Name) and call.id == "hasattr" for call in calls)
    return False


def _handles_absence(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(isinstance(each, ast.Name) and each.id in _ABSENCE for each in kinds)


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement imports from anywhere but its own package."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            yield node.module if alias.name == "*" else f"{node.module}.{alias.name}"


def _targets(tree: ast.AST) -> dict[str, str]:
    """Return what each name stands for that is bound by imports of one thing only."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        for name, target in _bound(node):
            found.setdefault(name, set()).add(target)
    return {name: min(each) for name, each in found.items() if len(each) == 1 and each != {""}}


def _bound(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that a node binds, each with what was imported, empty for anything else."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.split(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (first, first)
    elif isinstance(node, ast.ImportFrom):
        module = "" if node.level else f"{node.module}."
        for alias in node.names:
            yield alias.asname or alias.name, module and module + alias.name
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id, ""
    elif isinstance(node, ast.arg):
        yield node.arg, ""
    elif isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler
    ):
        yield node.name or "", ""


def _chains(
    node: ast.AST, context: type[ast.expr_context], targets: dict[str, str]
) -> Iterator[str]:
    """Yield the name that an attribute reaches from an imported one, if it does."""
    parts: list[str] = []
    at = node
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, context):
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        if isinstance(at, ast.Name) and at.id in targets:
            yield ".".join([targets[at.id], *reversed(parts)])

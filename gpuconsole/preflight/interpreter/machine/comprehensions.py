"""Comprehensions and generator expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import keys, lengths, python_values, string_sets
from gpuconsole.preflight.interpreter.domain.values import More, Scope, Value
from gpuconsole.preflight.interpreter.machine.evaluations import Evaluation
from gpuconsole.preflight.interpreter.machine.loop_summary import Iterations

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


def comprehension(
    interp: Interpreter,
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
    scope: Scope,
) -> Value:
    """Run a comprehension or a generator expression."""
    inner = Scope(scope)
    items: list[Value] = []
    places: dict[Value, int] = {}

    def add() -> None:
        if isinstance(node, ast.DictComp):
            key = interp.eval(node.key, inner)
            items.append((key, interp.eval(node.value, inner)))
            if keys.is_key(key):
                # Another value under a key takes the place of the one before.
                before = places.setdefault(key, len(items) - 1)
                items[before] = items[-1]
        else:
            items.append(interp.eval(node.elt, inner))

    rest: list[More] = []
    _generate(interp, node.generators, 0, inner, items, add, rest.append)
    if lengths.drops(node, items) and not rest:
        rest.append(lengths.fewer(interp.run, None))
    if isinstance(node, ast.DictComp):
        mapping: dict[Value, Value] = {}
        for key, value in items:
            keys.put(mapping, key, value)
        return mapping | {key: key for key in rest[:1]}
    if isinstance(node, ast.SetComp):
        members = {item for item in items if keys.is_key(item)}
        words = [
            item
            for item in items
            if isinstance(item, string_sets.DrawnText) and string_sets.single(item)
        ]
        for word in words:
            members.update(word.words)
        return members if words else members | set(rest[:1])
    items.extend(rest[:1] if len(rest) < 2 else [lengths.fewer(interp.run, rest[0])])
    return python_values.Items(items) if isinstance(node, ast.GeneratorExp) else items


def _generate(
    interp: Interpreter,
    parts: list[ast.comprehension],
    at: int,
    scope: Scope,
    collected: list[Value],
    add: Callable[[], None],
    add_more: Callable[[More], None],
) -> None:
    if at == len(parts):
        add()
        return
    part = parts[at]
    walked = interp.eval(part.iter, scope)
    iterations = Iterations(interp, walked if at == 0 else None)
    items = interp.iterate(walked)
    evaluation, progress = Evaluation(interp), interp.run.progress
    del walked
    for item in items:
        iterations.count += 1
        more = lengths.rest(item)
        evaluation.fill(interp, scope, collected)
        interp.assign(part.target, item if more is None else lengths.likeness(item), scope)
        truths = [interp.truth(interp.eval(test, scope)) for test in part.ifs]
        steps = progress.optimizer_steps
        if False not in truths:
            _generate(interp, parts, at + 1, scope, collected, add, add_more)
        if more is None:
            evaluation.look(interp, scope, collected)
        else:
            progress.note_open_ended(steps)
        if more is not None or None in truths:
            whole = more is not None and not part.ifs and len(parts) == 1
            add_more(more if more and whole else lengths.fewer(interp.run, more))
        elif at == 0 and iterations.enough(interp, (), scope):
            for sampled in iterations.telling(items):
                iterations.count += 1
                interp.assign(part.target, sampled, scope)
                if all(interp.truth(interp.eval(test, scope)) is True for test in part.ifs):
                    _generate(interp, parts, 1, scope, collected, add, add_more)
            _others(interp, parts, iterations, collected, add_more)
            return
    evaluation.fill(interp, scope, collected)


def _others(
    interp: Interpreter,
    parts: list[ast.comprehension],
    iterations: Iterations,
    items: list[Value],
    add_more: Callable[[More], None],
) -> None:
    """Take the items that are left to be like those that were made."""
    left = iterations.left()
    iterations.finish(interp, (), Scope(None))
    each, rest = divmod(len(items), iterations.count)
    even = not rest and not any(part.ifs for part in parts)
    if even and left is not None and each * left <= lengths.MAX_KNOWN:
        items.extend(items[-each:] * left if each else [])
    elif even and left is not None:
        why = interp.run.unknown("what a loop makes that is too long to follow")
        size = len(items) + each * left
        add_more(More(why.file, why.line, why.reason, None, size))
    else:
        add_more(lengths.fewer(interp.run, None))

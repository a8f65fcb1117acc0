"""Numbers with names that say that they are a batch size.

Without a loader the batch is what the network sees first. Where that is rows of another kind, as
the nodes of a batch of graphs, no number of the script equals it; its name then tells the place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconsole.preflight.interpreter.domain.values import Sourced
from gpuconsole.preflight.interpreter.frontend.source import Script
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_NAMED = 4
_WORD = "batch"


def named(run: Run, script: Script) -> tuple[Sourced, ...]:
    """Return the numbers of a run without a loader that are called a batch size."""
    if run.batch.loaders or not run.batch.seen or run.batch.key:
        return ()
    if any(number == run.batch.seen for number in run.batch.written.values()):
        return ()
    numbers = [number for key, number in run.batch.written.items()
             if key.startswith("argument:") and _WORD in key.lower()]  # fmt: skip
    for _, tree in script.parts:
        for node in _constants(tree):
            number = run.batch.numbers.get(node)
            if number is not None:
                numbers.append(number)
    return tuple(number for number in numbers if number > 0 and run.batch.seen % number == 0)[
        :MAX_NAMED
    ]


def _constants(tree: ast.Module) -> Iterator[ast.Constant]:
    """Give the constants that are assigned to, or passed as, something called a batch size."""
    for node in ast.walk(tree):
        pairs: list[tuple[str, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(_name(target), node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign):
            pairs = [(_name(node.target), node.value)]
        elif isinstance(node, ast.keyword):
            pairs = [(node.arg or "", node.value)]
        elif isinstance(node, ast.Dict):
            pairs = [(_name(key), value) for key, value in zip(node.keys, node.values, strict=True)]
        elif isinstance(node, ast.arguments):
            last = [*node.posonlyargs, *node.args][-len(node.defaults) or len(node.args) :]
            pairs = [
                (parameter.arg, value)
                for parameter, value in zip(last, node.defaults, strict=False)
            ]
            pairs += [(parameter.arg, value) for parameter, value in
                      zip(node.kwonlyargs, node.kw_defaults, strict=True)]  # fmt: skip
        for name, value in pairs:
            if _WORD in name.lower() and isinstance(value, ast.Constant):
                yield value


def _name(target: ast.expr | None) -> str:
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute):
        return target.attr
    if isinstance(target, ast.Constant) and isinstance(target.value, str):
        return target.value
    return ""

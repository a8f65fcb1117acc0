"""Mixed precision (O1): forward pass and loss below `auto_cast`, the loss scaled for float16."""

from __future__ import annotations

import ast
from pathlib import Path

from gpuconsole.core.wording import msg
from gpuconsole.preflight.rewriting import fit
from gpuconsole.preflight.rewriting.draft import DoubtError, Draft
from gpuconsole.preflight.rewriting.sources import Function, Source, calls, last_name, mentions
from gpuconsole.preflight.rewriting.training_loop import (
    CLEARS,
    Loop,
    backward_line,
    find,
    is_clip,
    method_of,
    require_plain_between,
)

SCALER, SCALED = "scaler", "scaled"
_USED = ("auto_cast", "amp_guard", "GradScaler", "decorate", "amp_decorate", "amp_configs")
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
_PREPARES = frozenset(
    {
        "to_tensor", "astype", "cast", "reshape", "train", "time", "perf_counter", "cuda", "cpu",
        "numpy", "squeeze", "unsqueeze", "print", *CLEARS,
    }
)  # fmt: skip
"""Calls of statements that make data ready, and need no mixed precision."""


def place(sources: tuple[Source, ...]) -> tuple[Path, int] | None:
    """Return where it would be written by hand."""
    return backward_line(sources) or fit.place(sources, "prepare")


def draft(sources: tuple[Source, ...], _steps: int) -> Draft:
    """Return the change; Doubt where the loop is not one that is known to the last statement."""
    used = mentions(sources, *_USED)
    if used is not None:
        raise DoubtError("mixed precision is used already, at least in part", *used)
    if not calls(sources, "backward"):
        return fit.draft(sources, "prepare", "amp_configs", '"O1"')
    loop = find(sources)
    source = loop.source
    own = source.paddle()
    if not own:
        raise DoubtError("the module does not import paddle by name", source, loop.node)
    taken = sorted({SCALER, SCALED} & source.names())
    if taken:
        raise DoubtError(msg("the name {name} is taken", name=taken[0]), source, loop.node)
    if any(map(is_clip, loop.updates)):
        raise DoubtError(
            "gradients are clipped by hand, which scaling changes", source, loop.backward
        )
    require_plain_between(loop)
    result = Draft(source)
    _scale(loop, result)
    _step(loop, result)
    result.before(_outermost(sources, loop), f"{SCALER} = {own}.amp.GradScaler()")
    forward = _forward(loop)
    result.below(forward, f"with {own}.amp.auto_cast():", _deeper(loop))
    return result


def _scale(loop: Loop, draft: Draft) -> None:
    statement = loop.body[loop.at]
    loss = ast.unparse(loop.loss)
    draft.write(statement, f"{SCALED} = {SCALER}.scale({loss})", f"{SCALED}.backward()")


def _step(loop: Loop, draft: Draft) -> None:
    for update in loop.updates:
        call = method_of(update)
        if call is None or call[0] != loop.optimizer:
            continue
        if call[1] == "step":
            draft.write(update, f"{SCALER}.step({loop.optimizer})", f"{SCALER}.update()")
        elif call[1] == "minimize":
            if len(call[2].args) != 1 or call[2].keywords:
                raise DoubtError("minimize has other arguments", loop.source, update)
            draft.write(update, f"{SCALER}.minimize({loop.optimizer}, {SCALED})")


def _forward(loop: Loop) -> list[ast.stmt]:
    """Return the statements from the forward pass to the loss."""
    before = loop.body[: loop.at]
    while before and _only_prepares(before[0]):
        before = before[1:]
    if not before:
        raise DoubtError("the forward pass is not in the loop", loop.source, loop.backward)
    for statement in before:
        if not isinstance(statement, _SIMPLE):
            raise DoubtError("the forward pass depends on conditions", loop.source, statement)
    return before


def _only_prepares(statement: ast.stmt) -> bool:
    """Tell whether a statement makes data ready, or nothing at all."""
    if not isinstance(statement, _SIMPLE):
        return False
    calls_made = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return all(last_name(call.func) in _PREPARES for call in calls_made)


def _outermost(sources: tuple[Source, ...], loop: Loop) -> ast.stmt:
    """Return the statement before which the scaler is made: once for the whole training."""
    source = loop.source
    within = source.loops(loop.node)
    outer = within[-1] if within else loop.node
    scope = source.scope(loop.node)
    if not within and isinstance(scope, ast.FunctionDef) and _is_repeated(sources, scope):
        raise DoubtError(
            "its function may be called for each epoch, and the scaler must outlive that",
            source, loop.node,
        )  # fmt: skip
    assert isinstance(outer, ast.stmt)
    return outer


def _is_repeated(sources: tuple[Source, ...], function: ast.FunctionDef) -> bool:
    """Tell whether a function may be called more than once: its one call is not outside of
    loops and functions that may themselves be called again."""
    named = [
        (source, node)
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.Name, ast.Attribute)) and last_name(node) == function.name
    ]
    if len(named) != 1:
        return True
    source, node = named[0]
    if not isinstance(source.parent(node), ast.Call) or source.loops(node):
        return True
    scope = source.scope(node)
    if isinstance(scope, ast.FunctionDef) and scope is not function:
        return _is_repeated(sources, scope)
    return isinstance(scope, Function)


def _deeper(loop: Loop) -> str:
    return loop.source.indent(loop.body[0])[len(loop.source.indent(loop.node)) :]

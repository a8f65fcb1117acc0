"""The plain training loop: `for ... in loader: ...; loss.backward(); optimizer.step(); clear`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.rewriting.draft import DoubtError
from gpuconsole.preflight.rewriting.sources import Function, Source, calls, last_name

CLEARS = ("clear_grad", "clear_gradients")
_SCHEDULER = re.compile(r"sched|lr|warm", re.IGNORECASE)
_TIMER = re.compile(r"prof|timer|bar", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Loop:
    """A training loop with all parts known."""

    source: Source
    node: ast.For
    at: int
    """Where in its body the backward pass is."""
    backward: ast.Call
    loss: ast.expr
    """What is scaled or divided: the receiver of `backward`, or what a scaler scales."""
    scaler: str
    """What scales the loss, as written; "" without one."""
    optimizer: str
    """As written."""
    updates: tuple[ast.stmt, ...]
    """What is done with whole gradients: clipping, steps of the optimizer, of schedulers and
    scalers, clearing; in order."""
    guarded: bool
    """Whether the updates stand below a condition of their own."""

    @property
    def body(self) -> list[ast.stmt]:
        """The statements of the loop."""
        return self.node.body


def backward_line(sources: tuple[Source, ...]) -> tuple[Path, int] | None:
    """Return where the only backward pass is, or the first of the script's own file."""
    sites = calls(sources, "backward")
    return (sites[0][0].path, sites[0][1].lineno) if sites else None


def find(sources: tuple[Source, ...]) -> Loop:
    """Return the training loop of a script; Doubt where there is none, or not one that is plain."""
    sites = calls(sources, "backward")
    if not sites:
        raise DoubtError("no training loop was found")
    if len(sites) > 1:
        raise DoubtError("there is more than one backward pass", *sites[1])
    source, call = sites[0]
    statement = source.parent(call)
    node = None if statement is None else source.parent(statement)
    plain = isinstance(statement, ast.Expr) and isinstance(node, ast.For)
    if not plain or call.args or call.keywords:
        raise DoubtError("the backward pass is no plain statement of a loop", source, call)
    assert isinstance(statement, ast.Expr)
    assert isinstance(node, ast.For)
    if statement not in node.body or node.orelse:
        raise DoubtError("the loop has an else", source, node)
    if any(isinstance(loop, ast.While) for loop in source.loops(node)):
        raise DoubtError("the loop is inside a while loop", source, node)
    at = node.body.index(statement)
    loss, scaler = _loss(source, node, at, call)
    updates, guarded = _updates(node, at)
    optimizer = _optimizer(source, call, updates, scaler)
    chosen = tuple(update for update in updates if _is_update(source, update, optimizer, scaler))
    return Loop(source, node, at, call, loss, scaler, optimizer, chosen, guarded)


def method_of(statement: ast.stmt) -> tuple[str, str, ast.Call] | None:
    """Return receiver, method and call of a statement that only calls a method."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    return ast.unparse(call.func.value), call.func.attr, call


def is_clip(statement: ast.stmt) -> bool:
    """Tell whether a statement clips gradients."""
    call = getattr(statement, "value", None)
    return isinstance(call, ast.Call) and last_name(call.func).startswith("clip_grad")


def _loss(source: Source, node: ast.For, at: int, call: ast.Call) -> tuple[ast.expr, str]:
    """Return the loss, and what scales it."""
    assert isinstance(call.func, ast.Attribute)
    given = call.func.value
    if isinstance(given, ast.Name):
        for statement in reversed(node.body[:at]):
            is_loss = isinstance(statement, ast.Assign) and [
                last_name(x) for x in statement.targets
            ] == [given.id]
            if is_loss:
                assert isinstance(statement, ast.Assign)
                scaled = _scaled(statement.value)
                return scaled or (given, "")
        raise DoubtError("where the loss comes from is not plain", source, call)
    scaled = _scaled(given)
    if scaled is not None:
        return scaled
    if isinstance(given, ast.BinOp) and isinstance(given.left, ast.Name):
        return given, ""
    raise DoubtError("what runs backward has no name", source, call)


def _scaled(value: ast.expr) -> tuple[ast.expr, str] | None:
    """Return what a scaler is given, and the scaler."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    if value.func.attr != "scale" or len(value.args) != 1 or value.keywords:
        return None
    return value.args[0], ast.unparse(value.func.value)


def _updates(node: ast.For, at: int) -> tuple[list[ast.stmt], bool]:
    """Return the statements among which the updates are, and whether they have a condition."""
    after: list[ast.stmt] = []
    guarded = False
    for statement in node.body[at + 1 :]:
        if isinstance(statement, ast.If) and not statement.orelse and _has_step(statement.body):
            after += statement.body
            guarded = True
        else:
            after.append(statement)
    return [*node.body[:at], *after], guarded


def _has_step(statements: Iterable[ast.stmt]) -> bool:
    methods = (method_of(statement) for statement in statements)
    return any(
        called is not None and called[1] in ("step", "minimize", *CLEARS) for called in methods
    )


def _optimizer(
    source: Source, call: ast.Call, statements: Sequence[ast.stmt], scaler: str
) -> str:  # fmt: skip
    methods = [called for called in map(method_of, statements) if called is not None]
    clears = [target for target, method, _ in methods if method in CLEARS]
    if len(clears) != 1:
        raise DoubtError("where gradients are cleared is not plain", source, call)
    if scaler:
        given = [
            ast.unparse(call.args[0])
            for target, method, call in methods
            if target == scaler and method in ("step", "minimize") and call.args
        ]
    else:
        given = [target for target, method, _ in methods if method == "minimize"]
        given = given or [
            target
            for target, method, call in methods
            if method == "step" and not call.args and not call.keywords
            and not _SCHEDULER.search(target) and not _TIMER.search(target)
        ]  # fmt: skip
    if len(given) != 1:
        raise DoubtError("which object is the optimizer is not plain", source, call)
    return given[0]


def _is_update(source: Source, statement: ast.stmt, optimizer: str, scaler: str) -> bool:
    """Tell whether a statement belongs to an update; Doubt where it steps something else."""
    called = method_of(statement)
    if is_clip(statement):
        return True
    if called is None:
        return False
    target, method, _ = called
    if method in CLEARS or (target == optimizer and method in ("step", "minimize")):
        return True
    if scaler and target == scaler:
        return method in ("step", "minimize", "update", "unscale_")
    if method == "step" and not _TIMER.search(target):
        if _SCHEDULER.search(target):
            return True
        raise DoubtError("an object is stepped that is no optimizer", source, statement)
    return False


def require_plain_between(loop: Loop) -> None:
    """Doubt a loop with anything else between its backward pass and its optimizer's step."""
    after = loop.body[loop.at + 1 :]
    steps = [statement for statement in after if _steps(loop, statement)]
    if not steps:
        raise DoubtError("the optimizer's step is not plain", loop.source, loop.backward)
    for statement in after[: after.index(steps[0])]:
        if statement not in loop.updates and not only_says(statement):
            raise DoubtError("something comes between backward and step", loop.source, statement)


def only_says(statement: ast.stmt) -> bool:
    """Tell whether a statement only prints or logs, perhaps now and then."""
    if isinstance(statement, ast.If):
        return all(map(only_says, [*statement.body, *statement.orelse]))
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    target = call.func.value if isinstance(call.func, ast.Attribute) else None
    return last_name(call.func) == "print" or (
        target is not None and last_name(target) in ("logger", "logging", "log")
    )


def _steps(loop: Loop, statement: ast.stmt) -> bool:
    """Tell whether a statement steps the optimizer, itself or below its condition."""
    if isinstance(statement, ast.If):
        return any(_steps(loop, inner) for inner in statement.body)
    called = method_of(statement)
    return called is not None and called[1] in ("step", "minimize") and (
        called[0] == loop.optimizer or (bool(loop.scaler) and called[0] == loop.scaler)
    )  # fmt: skip


def leaves(loop: Loop) -> ast.stmt | None:
    """Return the first statement that leaves the loop, or begins its next turn, early."""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        child = waiting.pop(0)
        if isinstance(child, (ast.Break, ast.Continue, ast.Return)):
            return child
        if not isinstance(child, (Function, ast.ClassDef)):
            waiting += ast.iter_child_nodes(child)
    return None

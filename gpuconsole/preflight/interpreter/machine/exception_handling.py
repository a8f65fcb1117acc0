"""Exceptions, contexts and `match`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import (
    Exit,
    Native,
    NativeClass,
    Scope,
    Unknown,
    UserClass,
    UserRaise,
    Value,
)
from gpuconsole.preflight.interpreter.libraries.unsupported import Unsupported
from gpuconsole.preflight.interpreter.machine import control_flow, exceptions, match_patterns
from gpuconsole.preflight.interpreter.machine.block_exits import BlockExit
from gpuconsole.preflight.interpreter.machine.exceptions import Raised

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


def _raise(interp: Interpreter, node: ast.Raise, scope: Scope) -> None:
    if node.exc is None:
        handled = scope.names.get("raised?")
        if isinstance(handled, Exception):
            raise handled
        raise UserRaise("the script raises again what it caught")
    value = interp.eval(node.exc, scope)
    if isinstance(value, (NativeClass, UserClass)):
        value = interp.call(value, [], {})
    if getattr(value, "label", "") == "SystemExit":
        raise Exit
    message = f"the script raises {ast.unparse(node.exc)[:120]}"
    if isinstance(value, (Native, Unknown)):
        raise Raised(message, value, (interp.run.file, interp.run.line))
    raise UserRaise(message)


def _assert(interp: Interpreter, node: ast.Assert, scope: Scope) -> None:
    if interp.truth(interp.eval(node.test, scope)) is False:
        message = f"the script asserts {ast.unparse(node.test)[:120]}"
        raise exceptions.raised(interp.run, "AssertionError", message)


def _try(interp: Interpreter, node: ast.Try, scope: Scope) -> BlockExit | None:
    interp.trying += bool(node.handlers)
    try:
        end = interp.exec_block(node.body, scope)
    except (UserRaise, Unsupported) as error:
        interp.trying -= bool(node.handlers)
        end = _handle(interp, node, error, scope)
    except BaseException:
        interp.trying -= bool(node.handlers)
        raise
    else:
        interp.trying -= bool(node.handlers)
        if end is None:
            end = interp.exec_block(node.orelse, scope)
    last = interp.exec_block(node.finalbody, scope)
    return last if last is not None else end


def _handle(
    interp: Interpreter, node: ast.Try, error: UserRaise | Unsupported, scope: Scope
) -> BlockExit | None:
    value = _value_of(interp, error)
    for handler in node.handlers:
        wanted = None if handler.type is None else interp.eval(handler.type, scope)
        if exceptions.takes(wanted, value) is False:
            continue
        if exceptions.is_general(wanted):
            # What was meant to be caught is unknown: show what the analysis met.
            interp.run.note_unknown(interp.run.unknown(f"caught by the script: {error}"))
        if handler.name:
            scope.names[handler.name] = value
        scope.names["raised?"] = error
        try:
            return interp.exec_block(handler.body, scope)
        finally:
            scope.names.pop("raised?", None)
    interp.exec_block(node.finalbody, scope)
    raise error


def _value_of(interp: Interpreter, error: UserRaise | Unsupported) -> Value:
    if isinstance(error, Raised):
        return error.value
    if isinstance(error, Unsupported):
        return exceptions.KINDS["ModuleNotFoundError"]()
    return interp.run.unknown("an exception's value")


def _with(interp: Interpreter, node: ast.With, scope: Scope) -> BlockExit | None:
    leaving: list[Callable[[], None]] = []
    try:
        for item in node.items:
            value, leave = interp.entered(interp.eval(item.context_expr, scope))
            leaving.append(leave)
            if item.optional_vars is not None:
                interp.assign(item.optional_vars, value, scope)
            value = None
        return interp.exec_block(node.body, scope)
    finally:
        for leave in reversed(leaving):
            leave()


def _match(interp: Interpreter, node: ast.Match, scope: Scope) -> BlockExit | None:
    subject = interp.eval(node.subject, scope)
    for place, case in enumerate(node.cases):
        matched = match_patterns.matches(interp, case.pattern, subject, scope)
        if matched and case.guard is not None:
            matched = interp.truth(interp.eval(case.guard, scope))
        if matched is None:
            later = ast.copy_location(ast.Match(node.subject, node.cases[place + 1 :]), node)
            return control_flow.both(interp, case.body, [later] if later.cases else [], scope)
        if matched:
            return interp.exec_block(case.body, scope)
    return None


STATEMENTS: dict[type[ast.stmt], Callable[..., BlockExit | None]] = {
    ast.Raise: _raise, ast.Assert: _assert, ast.Try: _try,
    ast.With: _with, ast.AsyncWith: _with, ast.Match: _match,
}  # fmt: skip

"""Exceptions, contexts and `match`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

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
from gpuconsole.preflight.interpreter.machine import exceptions, match_patterns
from gpuconsole.preflight.interpreter.machine.control_flow import Flow
from gpuconsole.preflight.interpreter.machine.exceptions import Raised


class Handling(Flow):
    """The part of the interpreter that leaves blocks by other ways than their end."""

    def _raise(self, node: ast.Raise, scope: Scope) -> Any:
        if node.exc is None:
            handled = scope.names.get("raised?")
            if isinstance(handled, Exception):
                raise handled
            raise UserRaise("the script raises again what it caught")
        value = self.eval(node.exc, scope)
        if isinstance(value, (NativeClass, UserClass)):
            value = self.call(value, [], {})
        if getattr(value, "label", "") == "SystemExit":
            raise Exit
        message = f"the script raises {ast.unparse(node.exc)[:120]}"
        if isinstance(value, (Native, Unknown)):
            raise Raised(message, value, (self.run.file, self.run.line))
        raise UserRaise(message)

    def _assert(self, node: ast.Assert, scope: Scope) -> Any:
        if self.truth(self.eval(node.test, scope)) is False:
            message = f"the script asserts {ast.unparse(node.test)[:120]}"
            raise exceptions.raised(self.run, "AssertionError", message)

    def _try(self, node: ast.Try, scope: Scope) -> Any:
        self.trying += bool(node.handlers)
        try:
            end = self.exec_block(node.body, scope)
        except (UserRaise, Unsupported) as error:
            self.trying -= bool(node.handlers)
            end = self._handle(node, error, scope)
        except BaseException:
            self.trying -= bool(node.handlers)
            raise
        else:
            self.trying -= bool(node.handlers)
            if end is None:
                end = self.exec_block(node.orelse, scope)
        last = self.exec_block(node.finalbody, scope)
        return last if last is not None else end

    def _handle(self, node: ast.Try, error: UserRaise | Unsupported, scope: Scope) -> Any:
        value = self._value_of(error)
        for handler in node.handlers:
            wanted = None if handler.type is None else self.eval(handler.type, scope)
            if exceptions.takes(wanted, value) is False:
                continue
            if exceptions.is_general(wanted):
                # What was meant to be caught cannot be told: show what the analysis met.
                self.run.note_unknown(self.run.unknown(f"caught by the script: {error}"))
            if handler.name:
                scope.names[handler.name] = value
            scope.names["raised?"] = error
            try:
                return self.exec_block(handler.body, scope)
            finally:
                scope.names.pop("raised?", None)
        self.exec_block(node.finalbody, scope)
        raise error

    def _value_of(self, error: UserRaise | Unsupported) -> Value:
        if isinstance(error, Raised):
            return error.value
        if isinstance(error, Unsupported):
            return exceptions.KINDS["ModuleNotFoundError"]()
        return self.run.unknown("an exception's value")

    def _with(self, node: ast.With, scope: Scope) -> Any:
        leaving: list[Callable[[], None]] = []
        try:
            for item in node.items:
                value, leave = self.entered(self.eval(item.context_expr, scope))
                leaving.append(leave)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, value, scope)
                value = None
            return self.exec_block(node.body, scope)
        finally:
            for leave in reversed(leaving):
                leave()

    def _match(self, node: ast.Match, scope: Scope) -> Any:
        subject = self.eval(node.subject, scope)
        for place, case in enumerate(node.cases):
            found = match_patterns.matches(self, case.pattern, subject, scope)
            if found and case.guard is not None:
                found = self.truth(self.eval(case.guard, scope))
            if found is None:
                later = ast.copy_location(ast.Match(node.subject, node.cases[place + 1 :]), node)
                return self._both(case.body, [later] if later.cases else [], scope)
            if found:
                return self.exec_block(case.body, scope)
        return None

"""The patterns of `match`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import MISSING, Native, Scope, Unknown, Value

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


def matches(machine: Interpreter, pattern: ast.pattern, value: Value, scope: Scope) -> bool | None:
    """Whether a value has the form of a pattern, binding its names; None when unknown."""
    if isinstance(pattern, ast.MatchAs):
        answer = True if pattern.pattern is None else (
            matches(machine, pattern.pattern, value, scope)
        )  # fmt: skip
        if pattern.name is not None and answer is not False:
            scope.names[pattern.name] = value
        return answer
    if isinstance(pattern, ast.MatchOr):
        return _any(matches(machine, alternative, value, scope) for alternative in pattern.patterns)
    if isinstance(value, Unknown):
        return None
    if isinstance(pattern, ast.MatchValue):
        return machine.truth(machine.compare(ast.Eq, value, machine.eval(pattern.value, scope)))
    if isinstance(pattern, ast.MatchSingleton):
        return value is pattern.value
    if isinstance(pattern, ast.MatchSequence):
        return _sequence(machine, pattern, value, scope)
    if isinstance(pattern, ast.MatchMapping):
        return _mapping(machine, pattern, value, scope)
    if isinstance(pattern, ast.MatchClass):
        return _class(machine, pattern, value, scope)
    return None


def _any(answers: object) -> bool | None:
    unsure = False
    for answer in answers:  # type: ignore[attr-defined]
        if answer:
            return True
        unsure = unsure or answer is None
    return None if unsure else False


def _all(answers: object) -> bool | None:
    unsure = False
    for answer in answers:  # type: ignore[attr-defined]
        if answer is False:
            return False
        unsure = unsure or answer is None
    return None if unsure else True


def _sequence(
    machine: Interpreter, pattern: ast.MatchSequence, value: Value, scope: Scope
) -> bool | None:
    if not isinstance(value, (list, tuple)):
        return False
    parts = pattern.patterns
    star = next((i for i, part in enumerate(parts) if isinstance(part, ast.MatchStar)), None)
    if star is None:
        if len(parts) != len(value):
            return False
        return _all(matches(machine, p, v, scope) for p, v in zip(parts, value, strict=True))
    tail = len(parts) - star - 1
    if len(value) < star + tail:
        return False
    rest = parts[star]
    if isinstance(rest, ast.MatchStar) and rest.name is not None:
        scope.names[rest.name] = list(value[star : len(value) - tail])
    pairs = [*zip(parts[:star], value[:star], strict=True),
             *zip(parts[star + 1 :], value[len(value) - tail :], strict=True)]  # fmt: skip
    return _all(matches(machine, p, v, scope) for p, v in pairs)


def _mapping(
    machine: Interpreter, pattern: ast.MatchMapping, value: Value, scope: Scope
) -> bool | None:
    if not isinstance(value, dict):
        return False
    keys = [machine.eval(key, scope) for key in pattern.keys]
    if any(isinstance(key, Unknown) for key in keys):
        return None
    if any(key not in value for key in keys):
        return False
    if pattern.rest is not None:
        scope.names[pattern.rest] = {k: v for k, v in value.items() if k not in keys}
    pairs = zip(pattern.patterns, (value[key] for key in keys), strict=True)
    return _all(matches(machine, p, v, scope) for p, v in pairs)


def _class(
    machine: Interpreter, pattern: ast.MatchClass, value: Value, scope: Scope
) -> bool | None:
    kind = machine.eval(pattern.cls, scope)
    same = machine.truth(machine.call(machine.builtins["isinstance"], [value, kind], {}))
    if same is not True or not (pattern.patterns or pattern.kwd_patterns):
        return same
    pairs: list[tuple[ast.pattern, Value]] = []
    if pattern.patterns:
        if not isinstance(value, Native) or value.cls is None:
            # `int(x)`, `str(x)`: the one place takes the value itself.
            if len(pattern.patterns) > 1:
                return None
            pairs.append((pattern.patterns[0], value))
        else:
            names = value.cls.find("__match_args__")
            if names is MISSING or len(names) < len(pattern.patterns):
                return None
            for sub_pattern, name in zip(pattern.patterns, names, strict=False):
                pairs.append((sub_pattern, machine.get_attr(value, name)))
    for name, sub_pattern in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
        pairs.append((sub_pattern, machine.get_attr(value, name)))
    return _all(matches(machine, p, v, scope) for p, v in pairs)

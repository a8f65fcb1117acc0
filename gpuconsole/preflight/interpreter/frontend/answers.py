"""What would settle an unknown, followed through the script; and the answers put in its place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gpuconsole.preflight.assumptions import Assumption, ShapeAnswer
from gpuconsole.preflight.interpreter.domain import join, string_sets
from gpuconsole.preflight.interpreter.domain.string_sets import DrawnText
from gpuconsole.preflight.interpreter.domain.values import (
    Blocked,
    Form,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    SomeBytes,
    SomeInt,
    SomeNumber,
    Unknown,
    Unsized,
    Value,
    as_number,
    plain,
)
from gpuconsole.preflight.interpreter.frontend import questions
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MEASURES = frozenset(["len", "int", "float", "max", "min", "sum", "next", "sorted", "list", "set"])
"""Functions with a result that would settle what is made of an unknown thing, rather than the
thing."""

NUMBERS = MEASURES | {"abs", "round", "pow", "get", "pop", "setdefault", "item", "index", "count",
                      "find", "rfind", "rindex"}  # fmt: skip
"""Functions of an unknown number that return a number again; the result of others is unknown."""


_TEXTS = (string_sets.METHODS, "random.", "re.", "RandomState.", "np.random.", "join", "str",
          "next", "unicodedata.")  # fmt: skip
"""Functions that give drawn text, rather than an unknown made of one."""


def fresh(interp: Interpreter, node: ast.expr, value: Unknown) -> Unknown:
    """Return an unknown; one that arises in this very expression is settled by it.

    Lines of library code that is followed as source are 0: there are no questions about those.
    """
    if value.root is None and node.lineno and isinstance(node, questions.ANSWERABLE):
        return questions.rooted(node, value, interp.run.file)
    return value


def answerable(interp: Interpreter, evaluate: Callable[[], Value], node: ast.expr) -> Value:
    """Evaluate an expression, or take the user's answer where it cannot be known."""
    run = interp.run
    given = run.answers.of(node, run.file)
    if given is None:
        value = evaluate()
        return fresh(interp, node, value) if isinstance(value, Unknown) else value
    # What blocks inside is not needed any more.
    blocking, asks = run.findings.blocking, dict(run.findings.asks)
    try:
        value = evaluate()
    except Blocked as blocked:
        value = blocked.unknown
    if not isinstance(value, Unknown):
        run.answers.met.setdefault(given.given, (run.file, run.line))
        return value
    run.findings.blocking, run.findings.asks = blocking, asks
    return _answered(run, given, value)


def _answered(run: Run, given: Assumption, value: Unknown) -> Value:
    """Return the value of an answer in place of an unknown.

    A shape does not tell what the call that made it holds beside: layers, what they save.
    """
    root = value.root
    if root is None or root.form != "held" or not isinstance(given.value, ShapeAnswer):
        return questions.answer(run, given)
    why = f"{given.given} has a shape by your answer, but what {root.text} holds beside it"
    refused = run.gap(f"{why} is not known: {value.reason}")
    run.block(refused)
    return refused


def either(
    interp: Interpreter, written: ast.expr, test: Value, first: Value, second: Value
) -> Value:
    """Return what `a if test else b` is if the test is unknown; each side is another run's."""
    why = interp.run.unknown("the value depends on a condition that is not known", test)
    joined = join.one_of_two(why, first, second)
    agreed = weightless(first, second) or join.is_whole(joined, first, second)
    if not agreed and written.lineno:
        interp.run.findings.tests.setdefault(
            (interp.run.file, written.lineno), questions.text_of(written)
        )
    return joined


def of_owner(interp: Interpreter, node: ast.Attribute, owner: Value, result: Unknown) -> Unknown:
    """Return an unknown attribute; there are no answers for what a library returns."""
    modelled = isinstance(owner, Namespace) or (isinstance(owner, Native) and owner.cls is None)
    if result.root is None and node.lineno and modelled:
        return questions.rooted(node, result, interp.run.file, "gap")
    return result


def part(interp: Interpreter, node: ast.expr, owner: Unknown) -> Unknown:
    """Return an attribute or item of an unknown: it alone would have to be known.

    What is picked from a batch has a shape of its own, and the batch is a tuple or dictionary.
    """
    value = plain(owner)
    if node.lineno and value.root is not None and value.root.form == "shape":
        picked = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
        return questions.rooted(node, value, interp.run.file, "shape") if picked else value
    if node.lineno and (value.root is None or value.root.form == "value"):
        return questions.rooted(node, value, interp.run.file)
    return value


def of_call(
    interp: Interpreter, node: ast.Call, target: Value, args: list[Value], result: Unknown
) -> Unknown:
    """Return the unknown result of a call with what would settle it."""
    file = interp.run.file
    if isinstance(result, DrawnText):
        named = target.name if isinstance(target, NativeFunction) else ""
        return result if named.startswith(_TEXTS) or not named else plain(result)
    if not node.lineno:
        return result
    if result.root is None:
        return questions.rooted(node, result, file, "held" if _holds(args) else "value")
    if isinstance(target, NativeClass):
        if issubclass(target.type, Layer):
            # Its parameters are memory, whether or not it is ever called.
            interp.run.block(result)
        return as_number(plain(result))
    if isinstance(target, NativeFunction) and not _numeric(target.name):
        read = isinstance(result, SomeBytes) and target.name.endswith(".read")
        result = result if read or isinstance(result, Unsized) else plain(result)
    if result.root is not None and result.root.form == "value":
        measured = isinstance(target, NativeFunction) and target.name in MEASURES
        if measured or isinstance(target, Unknown):
            held = isinstance(target, Unknown) and _holds(args)
            form: Form = "number" if measured else "held" if held else "value"
            return questions.rooted(node, result, file, form)
    return result


def _holds(args: Iterable[Value]) -> bool:
    """Tell whether a call that is not known may hold memory of a device: it is given tensors."""
    return any(
        isinstance(arg, (Tensor, Layer))
        or (isinstance(arg, Unknown) and arg.root is not None and arg.root.form == "shape")
        for arg in args
    )


def settled(interp: Interpreter, target: ast.expr, source: ast.expr, value: Unknown) -> Value:
    """Return what is assigned in place of an unknown: the answer for it, or its named self."""
    run = interp.run
    given = run.answers.for_target(target, run.file)
    if given is not None:
        return _answered(run, given, value)
    return questions.named(target, source, value, run.file) if target.lineno else value


def decided(interp: Interpreter, written: ast.expr, test: Value) -> bool | None:
    """Return the truth of a condition: its own, or how this run is asked to take it."""
    truth = interp.truth(test)
    if truth is None:
        interp.run.doubted(interp.run.unknown("a condition that is not known", test))
        return interp.run.setting.choices.get((interp.run.file, written.lineno))
    return truth


def weightless(*values: Value) -> bool:
    """Whether what differs cannot be a size: a figure of a metric, or not known at all."""
    figures = (isinstance(value, SomeNumber) and not isinstance(value, SomeInt) for value in values)
    if any(figures) or any(isinstance(value, float) for value in values):
        return True
    return all(isinstance(value, Unknown) or value is None for value in values)


def _numeric(name: str) -> bool:
    return name in NUMBERS or name.startswith(("math.", "np."))

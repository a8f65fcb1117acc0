"""The interpreter: its state, and the functions that it is made of."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import join, traversal_cost
from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Scope,
    Stop,
    TooMuch,
    Unknown,
    UserClass,
    Value,
)
from gpuconsole.preflight.interpreter.machine import (
    attributes,
    calls,
    control_flow,
    evaluations,
    exception_handling,
    expressions,
    generators,
    imports,
    statements,
)
from gpuconsole.preflight.interpreter.machine.block_exits import BlockExit
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib import copy as stdlib_copy
from gpuconsole.preflight.interpreter.stdlib.builtins import builtins

MAX_CALL_DEPTH = 48
CHECK_STEPS = 64
"""Expressions evaluated between two looks at the budget."""
TENSOR_STEPS = 8
"""Making a tensor and ending it takes about as long as this many steps."""
_STATEMENTS: dict[type[ast.stmt], Callable[..., BlockExit | None]] = {
    **statements.STATEMENTS, **control_flow.STATEMENTS,
    **exception_handling.STATEMENTS, **imports.STATEMENTS,
}  # fmt: skip


class Interpreter:
    """Runs a script's syntax tree over shapes.

    What it does to statements, expressions and values is in functions that take it first;
    those that models of libraries may use are its methods here.
    """

    def __init__(
        self,
        run: Run,
        script: Path,
        project: Path,
        library: Callable[[str], Namespace | None],
        start: Path | None = None,
    ) -> None:
        self.run = run
        run.interp = self
        self.depth = 0
        self.running: dict[tuple[int, int], int] = {}
        """Unknown conditions around the first of the running calls of a function (of an object)."""
        self.check_at = 0
        """Steps at which the budget is looked at next."""
        self.builtins = builtins(self)
        self.here = Scope(None, "module")
        self.making: UserClass | None = None
        """The class that a metaclass is making."""
        self.saved: dict[str, Value] = {}
        """Arrays that the script writes to files, by their names."""
        self.picks = join.Picks()
        self.trying = 0
        """Blocks that catch exceptions and are being run: what fails in them may be meant to."""
        self.feeding = 0
        """How many generators wait for an item of another: what they gather is used later."""
        self.maybe_left = False
        """Whether the loop that is run may have been left under a condition that is not known."""
        self.turn_maybe_last = False
        """Whether that is so of the iteration that ended last."""
        self.imports = imports.Importer(self, script, project, library, start)

    eval = expressions.evaluate
    truth = expressions.truth
    binary = expressions.binary
    compare = expressions.compare
    subscript = expressions.subscript
    assign = statements.assign
    call = calls.call
    call_instance = calls.call_instance
    call_function = calls.call_function
    run_generator = generators.run_generator
    guard = calls.guard
    iterate = calls.iterate
    enter = calls.enter
    entered = calls.entered
    as_text = calls.as_text
    get_attr = attributes.get_attr
    set_attr = attributes.set_attr
    patched_method = attributes.patched_method
    bind = attributes.bind
    lacking = attributes.lacking
    copied = stdlib_copy.copied
    look_beside_training = evaluations.look_beside_training

    def tick(self, cost: int = 1) -> None:
        """Count work; the run is given up beyond its budget. A tensor is worth some steps."""
        run = self.run
        run.steps += cost
        self.check_at = run.steps + CHECK_STEPS
        if run.steps + TENSOR_STEPS * len(run.tape.ledger.sizes) > run.most_steps:
            raise TooMuch(run.unknown("the script does too much to follow within the budget"))
        if run.findings.blocking is not None and run.steps > run.blocked_at + run.steps_on:
            raise Stop

    def too_much(self, *values: Value) -> Unknown | None:
        """Count the work of looking at all that values hold; why not, where that is too much."""
        size = traversal_cost.weight(*values)
        if size >= traversal_cost.ITEMS_PER_STEP:
            self.tick(size // traversal_cost.ITEMS_PER_STEP)
        if size <= traversal_cost.MOST:
            return None
        return self.run.unknown("a value that is nested too deep to follow")

    def check_depth(self) -> None:
        """Give the run up where calls and imports are nested too deep."""
        if self.depth >= MAX_CALL_DEPTH:
            raise TooMuch(self.run.unknown("calls are nested too deep to follow"))

    def in_scope(self, scope: Scope, work: Callable[[], Value]) -> Value:
        """Do something with `scope` as the place that `globals()` and `eval()` see."""
        before, self.here = self.here, scope
        try:
            return work()
        finally:
            self.here = before

    def exec_block(self, body: Sequence[ast.stmt], scope: Scope) -> BlockExit | None:
        """Run statements; None, or how they ended early."""
        run = self.run
        for statement in body:
            run.steps += 1
            if run.steps >= self.check_at:
                self.tick(0)
            if statement.lineno:
                run.line = statement.lineno
                if run.trail is not None:
                    run.trail(run.file, run.line)
                run.findings.lines_seen.add((run.file, statement.lineno))
            method = _STATEMENTS.get(type(statement))
            if method is None:
                run.note_unknown(
                    run.unknown(msg("{name} is not understood", name=type(statement).__name__))
                )
                continue
            end = method(self, statement, scope)
            if end is not None:
                return end
        return None

"""Branches, loops and contexts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import equality, join, lengths
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Blocked,
    Exit,
    More,
    Scope,
    ShapeFault,
    TooMuch,
    UserRaise,
    Value,
    as_number,
)
from gpuconsole.preflight.interpreter.frontend import answers, questions
from gpuconsole.preflight.interpreter.frontend.answers import weightless
from gpuconsole.preflight.interpreter.machine.block_exits import (
    BREAK,
    CONTINUE,
    BlockExit,
    Returned,
    returns,
)
from gpuconsole.preflight.interpreter.machine.calls import FOLLOW_ERRORS, MAYBE_RETURNED
from gpuconsole.preflight.interpreter.machine.evaluations import Evaluation
from gpuconsole.preflight.interpreter.machine.loop_summary import Iterations, containers, filled
from gpuconsole.preflight.interpreter.machine.run_state.progress import CYCLES
from gpuconsole.preflight.interpreter.machine.run_state.run import MAX_STEPS, SMALL
from gpuconsole.preflight.interpreter.machine.schedules import (
    MAX_ITERATIONS,
    Counter,
    rare_iterations,
)

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_LOOPS = 20_000
MAX_ENDLESS = 2_000
"""Iterations of `while True` that are followed where only an exception leaves it."""
MAX_FURTHER = 7
"""Iterations of a loop that are followed where each trains another network."""
VAIN_ITERATIONS = 2
"""Iterations of a loop that are followed after something unknown has decided the answer."""


def _counted(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that a loop's body counts up or down."""
    return {
        inner.target.id
        for statement in body
        for inner in ast.walk(statement)
        if isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name)
    }


def _leaves_out(statement: ast.stmt) -> bool:
    """Whether some iterations of a loop may leave out what the others do."""
    leaving = (ast.If, ast.While, ast.Try, ast.Break, ast.Continue, ast.Return, ast.Match)
    return any(isinstance(inner, leaving) for inner in ast.walk(statement))


def _sizes(scope: Scope) -> dict[int, Value]:
    """Return the lengths of what a loop can fill; nothing is held that the script drops."""
    return {id(container): lengths.length_of(container) for container, _ in containers(scope)}


def _if(interp: Interpreter, node: ast.If, scope: Scope) -> BlockExit | None:
    test = interp.eval(node.test, scope)
    truth = answers.decided(interp, node.test, test)
    if truth is None:
        return both(interp, node.body, node.orelse, scope, test, node.test)
    return interp.exec_block(node.body if truth else node.orelse, scope)


def both(
    interp: Interpreter,
    first: Sequence[ast.stmt],
    second: Sequence[ast.stmt],
    scope: Scope,
    test: Value = None,
    written: ast.expr | None = None,
) -> BlockExit | None:
    """Follow both sides of a condition that is not known and keep what they agree on.

    `written` is the condition, where each side alone can be followed in a run of its own.
    """
    run = interp.run
    run.doubted(run.unknown("a condition that is not known", test))
    place = (run.file, written.lineno if written is not None else 0)
    events = len(run.tape.ledger.events)
    before = dict(scope.names)
    ends: list[BlockExit | None] = []
    outcomes: list[dict[str, Value] | None] = []
    for body in (first, second):
        scope.names.clear()
        scope.names.update(before)
        run.findings.unsure += 1
        try:
            ends.append(interp.exec_block(body, scope))
            outcomes.append(dict(scope.names))
        except (UserRaise, Exit) as left:
            ends.append(None)
            outcomes.append(None)
            if outcomes == [None, None]:
                raise left
        except Blocked:
            _undecided(interp, place, written)
            raise
        finally:
            run.findings.unsure -= 1
    before.clear()
    merged, agreed = _merge(interp, outcomes[0], outcomes[1], test)
    scope.names.clear()
    scope.names.update(merged)
    end, alike = _joined_end(interp, ends, outcomes, test, scope)
    if not (agreed and alike) or len(run.tape.ledger.events) != events:
        _undecided(interp, place, written)
    interp.maybe_left = interp.maybe_left or any(end is BREAK for end in ends)
    return end


def _undecided(interp: Interpreter, place: tuple[str, int], written: ast.expr | None) -> None:
    """Note a condition with sides that need different memory: another run can try each alone."""
    if written is not None and place[1]:
        interp.run.findings.tests.setdefault(place, questions.text_of(written))


def _joined_end(
    interp: Interpreter,
    ends: list[BlockExit | None],
    outcomes: list[dict[str, Value] | None],
    test: Value,
    scope: Scope,
) -> tuple[BlockExit | None, bool]:
    """Return how both sides together end, and whether each alone would end so."""
    returned = [end.value for end in ends if isinstance(end, Returned)]
    if len(returned) == 2:
        why = interp.run.unknown("the result depends on a condition not known", test)
        joined = join.one_of_two(why, *returned)
        return Returned(joined), join.is_whole(joined, *returned)
    if returned:
        if outcomes[0 if ends[1] is not None else 1] is None:
            return Returned(returned[0]), False
        scope.names[MAYBE_RETURNED] = (*scope.names.get(MAYBE_RETURNED, ()), returned[0])
    return None, not any(map(returns, ends))


def _merge(
    interp: Interpreter, left: dict[str, Value] | None, right: dict[str, Value] | None, test: Value
) -> tuple[dict[str, Value], bool]:
    """Return what holds after both sides, and whether they agree on all that has a size."""
    if left is None or right is None:
        return (left if right is None else right) or {}, True
    merged: dict[str, Value] = {}
    agreed = True
    for name in {**left, **right}:
        first, other = left.get(name, MISSING), right.get(name, MISSING)
        if first is MISSING or other is MISSING:
            merged[name] = other if first is MISSING else first
        elif equality.same(first, other):
            merged[name] = first
        elif name == MAYBE_RETURNED:
            # Each side may have returned besides, as those before it.
            merged[name] = (
                *first,
                *(value for value in other if not any(value is had for had in first)),
            )
        else:
            why = f"{name} depends on a condition that is not known"
            merged[name] = join.one_of_two(interp.run.unknown(why, test), first, other)
            agreed = agreed and (
                weightless(first, other) or join.is_whole(merged[name], first, other)
            )
    return merged, agreed


def _for(interp: Interpreter, node: ast.For, scope: Scope) -> BlockExit | None:
    run = interp.run
    walked = interp.eval(node.iter, scope)
    iterations = Iterations(interp, walked)
    repeats = int(iterations.many)
    counter, further, evaluation = Counter.of(node, walked), _Further(interp), Evaluation(interp)
    items = interp.iterate(walked)
    del walked
    run.loop = node
    # No enumerate() here: its tuple would keep a batch alive longer than the script does.
    for item in items:
        iterations.count += 1
        more = lengths.rest(item)
        if more is not None:
            end = _many(interp, node, item, more, scope, iterations.count - 1)
            if isinstance(end, Returned):
                return end
            continue
        evaluation.fill(interp, scope)
        interp.assign(node.target, item, scope)
        item = None
        cycles, networks = run.progress.cycles, run.findings.networks
        steps = run.progress.optimizer_steps
        end = further.iteration(node, scope, repeats)
        run.close_hand_made_cycle()
        if isinstance(end, Returned):
            return end
        if end is BREAK:
            return None
        evaluation.look(interp, scope)
        if run.progress.ends_reader(steps):
            _now_and_then(interp, node, scope, counter, iterations.count)
        is_known = run.progress.is_steady and run.progress.cycles > cycles
        if is_known and further.differs():
            continue
        if is_known or _vain(interp, networks, iterations.count):
            if is_known:
                _now_and_then(interp, node, scope, counter, iterations.count)
            _cut(interp, items)
            return None
        if iterations.enough(interp, node.body, scope):
            end = _rest(interp, node, scope, iterations, items)
            if end is not None:
                return end if isinstance(end, Returned) else None
            break
        if iterations.count > MAX_LOOPS:
            raise TooMuch(run.unknown("a loop is too long to follow"))
    evaluation.fill(interp, scope)
    return interp.exec_block(node.orelse, scope)


class _Further:
    """Iterations of a loop that need other memory than the first one, after training was followed.

    A loop over widths or rates trains another network in each; what an evaluation keeps is still
    there while the next epoch's first step runs.
    """

    __slots__ = ("_blocks", "_interp", "_iterations", "_kept", "_made", "_trainings")

    def __init__(self, interp: Interpreter) -> None:
        self._interp = interp
        self._iterations = 0
        self._trainings = self._blocks = self._made = self._kept = 0

    def iteration(self, node: ast.For, scope: Scope, repeats: int) -> BlockExit | None:
        """Run the loop's body once; one that fails after training was followed ends the loop."""
        run = self._interp.run
        self._trainings, self._blocks = run.progress.optimizers, len(run.tape.ledger.sizes)
        if not self._iterations:
            return _turn(self._interp, node, scope, repeats)
        try:
            return _turn(self._interp, node, scope, repeats)
        except (Blocked, UserRaise, ShapeFault, *FOLLOW_ERRORS):
            _not_counted(run)
            return BREAK

    def differs(self) -> bool:
        """Whether the next iteration may need more than the one that has ended."""
        run = self._interp.run
        allocated = sum(run.tape.ledger.sizes[self._blocks :])
        same, self._made = allocated == self._made, allocated
        before, self._kept = self._kept, run.tape.kept()
        growth = max(0, self._kept - before) if self._iterations else 0
        another = run.progress.optimizers > self._trainings
        if self._iterations >= MAX_FURTHER or run.steps > MAX_STEPS // 2:
            if another and growth > SMALL:
                # What is trained in each iteration stays: its size depends on their number.
                run.progress.growth_by_epoch = growth
            return False
        if self._iterations and not another:
            run.progress.growth_by_epoch = growth
        holds_more = self._kept > (run.progress.held or 0) + SMALL
        needs_more = holds_more if not self._iterations else another and growth > SMALL
        if not (another and not same) and not needs_more:
            return False
        if not self._iterations:
            _left(self._interp)
        self._iterations += 1
        return True


def _not_counted(run: Run) -> None:
    """Say that a later iteration is not known; the first steps are all the same."""
    run.findings.notes.append(
        msg(
            "{place}: what the loop does in a later iteration is not counted.",
            place=f"{Path(run.file).name}:{run.line}",
        )
    )


def _now_and_then(
    interp: Interpreter, node: ast.For, scope: Scope, counter: Counter | None, iterations: int
) -> None:
    """Follow iterations that do something else than those before, with the last one's batch."""
    run = interp.run
    counters = [*([counter] if counter else []), *Counter.by_hand(node, scope, iterations)]
    if counters:
        _left(interp)
    try:
        for each, value in (
            (tested, value)
            for tested in counters
            for value in rare_iterations(interp, node, scope, tested, iterations)
        ):
            if run.progress.rare_iterations >= MAX_ITERATIONS:
                return
            run.progress.rare_iterations += 1
            scope.names[each.name] = value - each.counted
            if _turn(interp, node, scope, 1) is not None:
                return
            run.close_hand_made_cycle()
    except (Blocked, UserRaise, ShapeFault, *FOLLOW_ERRORS):
        _not_counted(run)


def _vain(interp: Interpreter, networks: int, iterations: int) -> bool:
    """Whether further iterations would only run networks of unknown memory again."""
    run = interp.run
    return (
        iterations >= VAIN_ITERATIONS
        and run.findings.blocking is not None
        and run.findings.networks > networks
    )


def _cut(interp: Interpreter, items: Iterator[Value]) -> None:
    """End a loop that the script would go on with: the steady state is known."""
    _left(interp)
    close = getattr(items, "close", None)
    interp.run.batch.cutting = True
    if close is not None:
        close()
    del items, close
    interp.run.batch.cutting = False


def _left(interp: Interpreter) -> None:
    """Remember that a loop was left early: what it would have filled and counted is not."""
    interp.run.doubted(interp.run.unknown("a loop that is followed until its memory is known"))


def _rest(
    interp: Interpreter, node: ast.For, scope: Scope, iterations: Iterations, items: Iterator[Value]
) -> BlockExit | None:
    """Take the iterations that are left of a loop over data to be like those that tell most."""
    interp.run.doubted(interp.run.unknown("iterations of a loop that are taken to be alike"))
    for item in iterations.telling(items):
        iterations.count += 1
        interp.assign(node.target, item, scope)
        end = _turn(interp, node, scope, 1)
        if isinstance(end, Returned) or end is BREAK:
            return end
    iterations.finish(interp, node.body, scope, node)
    return None


def _turn(
    interp: Interpreter, node: ast.For | ast.While, scope: Scope, repeats: int
) -> BlockExit | None:
    """Run a loop's body once; `repeats` is 1 where it may be run again."""
    interp.run.repeats += repeats
    around, interp.maybe_left = interp.maybe_left, False
    try:
        return interp.exec_block(node.body, scope)
    finally:
        interp.run.repeats -= repeats
        interp.turn_maybe_last, interp.maybe_left = interp.maybe_left, around


def _many(
    interp: Interpreter, node: ast.For, item: Value, more: More, scope: Scope, followed: int
) -> BlockExit | None:
    """Run a loop's body once for an unknown number of items; what it fills stays open.

    `followed` is how many iterations came before, for items that were known.
    """
    run = interp.run
    run.doubted(more)
    before = containers(scope)
    sizes = [lengths.length_of(container) for container, _ in before]
    interp.assign(node.target, lengths.likeness(item), scope)
    item, steps = None, run.progress.optimizer_steps
    end = _turn(interp, node, scope, 1)
    run.close_hand_made_cycle()
    run.progress.note_open_ended(steps)
    always = not any(map(_leaves_out, node.body))
    for (container, _), size in zip(before, sizes, strict=True):
        if lengths.length_of(container) != size and not (
            always and filled(container, size, more, followed)
        ):
            lengths.open_up(run, container, more)
    before.clear()
    for name in _counted(node.body):
        home = scope.find(name)
        if home is not None and isinstance(home.names[name], (int, float)):
            why = f"{name}, which a loop over data counts"
            home.names[name] = as_number(run.unknown(why, more))
    return end


def _while(interp: Interpreter, node: ast.While, scope: Scope) -> BlockExit | None:
    run = interp.run
    endless = isinstance(node.test, ast.Constant)
    unleft = endless and not any(map(_leaves_out, node.body))
    for iteration in range(1, (MAX_ENDLESS if unleft else MAX_LOOPS) + 1):
        truth = interp.truth(interp.eval(node.test, scope))
        if truth is None:
            run.doubted(run.unknown("how often a loop repeats"))
        if truth is None and _filled_up(interp, node, scope):
            return interp.exec_block(node.orelse, scope)
        if truth is False:
            return interp.exec_block(node.orelse, scope)
        cycles, networks = run.progress.cycles, run.findings.networks
        sizes = _sizes(scope) if endless else {}
        end = _turn(interp, node, scope, 1)
        run.close_hand_made_cycle()
        if isinstance(end, Returned):
            return end
        if endless and interp.turn_maybe_last and end is None and run.progress.cycles == cycles:
            why = run.unknown("how often a loop repeats")
            for container, _ in containers(scope):
                if lengths.length_of(container) != sizes.get(
                    id(container), lengths.length_of(container)
                ):
                    lengths.open_up(run, container, why)
            return None
        if _vain(interp, networks, iteration):
            return None
        if end is BREAK:
            return None
        # An unknown condition: one pass, or as many as lead to the steady state.
        if run.progress.is_steady and run.progress.cycles > cycles:
            _left(interp)
            return None
        if truth is None and (run.progress.cycles == cycles or run.progress.cycles >= CYCLES):
            return None
    raise TooMuch(run.unknown("a loop is too long to follow"))


def _filled_up(interp: Interpreter, node: ast.While, scope: Scope) -> bool:
    """Run `while len(items) < size: items.append(x)` on a list of unknown length at once."""
    test, body = node.test, node.body
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Lt):
        return False
    if not isinstance(test.left, ast.Call) or len(test.left.args) != 1 or len(body) != 1:
        return False
    items = interp.eval(test.left.args[0], scope)
    size = interp.eval(test.comparators[0], scope)
    appends = isinstance(body[0], ast.Expr) and ".append(" in questions.text_of(body[0].value)
    has_known_size = isinstance(size, int) and size <= lengths.MAX_KNOWN
    if (
        not isinstance(items, list)
        or lengths.more_in(items) is None
        or not (appends and has_known_size)
    ):
        return False
    interp.exec_block(body, scope)
    items[:] = (lengths.items_of(items) * size)[:size]
    return True


def _break(interp: Interpreter, node: ast.Break, scope: Scope) -> BlockExit | None:
    return BREAK


def _continue(interp: Interpreter, node: ast.Continue, scope: Scope) -> BlockExit | None:
    return CONTINUE


def _pass(interp: Interpreter, node: ast.stmt, scope: Scope) -> BlockExit | None:
    return None


STATEMENTS: dict[type[ast.stmt], Callable[..., BlockExit | None]] = {
    ast.If: _if, ast.For: _for, ast.AsyncFor: _for, ast.While: _while,
    ast.Break: _break, ast.Continue: _continue, ast.Pass: _pass,
}  # fmt: skip

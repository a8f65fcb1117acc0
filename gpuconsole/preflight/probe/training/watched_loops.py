"""Loops of the project's own code that end early, once what they train was seen long enough.

`for epoch in range(100): train(…)` keeps what comes after it (the last evaluation, what is saved,
another training with other networks) from being seen. Its loops are compiled with a watch: while
training is left, the next turn of a loop that has trained with an optimizer made before it is its
end, as if nothing were left to walk over. A loop over a range has its last turn before that: many
scripts evaluate, or save, where the number says that it is the last. It also has a turn for each
test of its number that has not yet held, such as `epoch % 5 == 0`, where that first holds. A loop
that makes an optimizer in each turn trains something else in each, and goes on.

A loop over epochs, when another that trains has ended in its last turn, may go on for a while: each
of its turns then takes a step alone, on the way to what comes only in a later epoch.

A loop that evaluates by hand, without a loader that would end, goes through its data in turns that
are alike. Once it did much, and holds no more from turn to turn, its next turn is its end too.

An `assert` that asks for made-up data holds: in a script that its user runs, it does.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib.machinery
import itertools
import os
import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType

Node = TypeVar("Node", bound=ast.AST)
FOR, BEGUN, LEFT = "__gpuconsole_for__", "__gpuconsole_begun__", "__gpuconsole_left__"
DONE = "__gpuconsole_done__"
"""Names in the compiled code: what walks, what a `while` notes before it, what it asks before each
turn, and what it tells when its test has failed."""
ASSERTED, HOLDS = "__gpuconsole_asserted__", "__gpuconsole_holds__"
"""What an `assert` notes before its test, and what it asks when that has failed."""
TRAINS = re.compile(r"epoch|\.step\(|\.minimize\(|backward\(|train|\.fit\(|\brun\(", re.IGNORECASE)
"""What the text of a file holds if its loops may train; others are compiled as they are."""
EVALUATES = re.compile(r"\.eval\(\)")
"""What is found in the text of a file that may evaluate."""
SAVES = re.compile(r"\bpaddle\.save\(")
"""What is found in the text of a file that may save."""

ALIKE = 2
"""Turns in a row that have neither raised the peak nor held more, before a loop repeats itself."""
REPEATED = 50_000
"""Work in a loop until it may be said to repeat itself, in the units of `run_length.py`."""

MOST_ASSERTED = 100
"""Assertions within each other; those that held are not taken back one by one."""

MOST_TURNS = 3
"""Turns that a loop which is left has before its last one, because a test of its number holds."""
MOST_NUMBERS = 10_000
"""Numbers that a test is tried with."""
PURE = (
    ast.Attribute, ast.BinOp, ast.BoolOp, ast.Compare, ast.Constant, ast.Name, ast.UnaryOp,
    ast.boolop, ast.cmpop, ast.expr_context, ast.operator, ast.unaryop,
)  # fmt: skip
"""What a test is made of that may be tried: it changes nothing."""

_ROOT: list[str] = []


class Now(NamedTuple):
    """What a run has come to."""

    work: int = 0
    """What was done since it began."""
    peak: int = 0
    held: int = 0
    """Bytes."""
    readers: int = 0
    """Readers that were asked for a batch."""


class Watch:
    """Which loops end. The session reports steps to it, loops ask it."""

    def __init__(self) -> None:
        self.leaving = False
        """Whether what is trained was seen long enough."""
        self.made = 0
        """Optimizers that were made."""
        self.steps = 0
        """Steps that were made."""
        self.backwards = 0
        """Backward passes that were made."""
        self.gathered = 0
        """Those of them that add up gradients for a step."""
        self.latest = 0
        """Which of the optimizers made the last step, counted from 1."""
        self.passing = False
        """Whether epochs of what is left go on, a step each."""
        self.ended = 0
        """Loops that have gone back and stepped, and ended: by themselves, or here."""
        self.evaluates = False
        """Whether a file that was compiled has an evaluation in it."""
        self.saves = False
        """Whether one saves."""
        self.turns = 0
        """Turns of loops over epochs that went on though they were to be left."""
        self.on_left: Callable[[], object] = lambda: None
        """Called where a loop is ended here."""
        self.on_repeated: Callable[[int], object] = lambda readers: None
        """Called where one is that repeats itself, with the readers asked before it."""
        self.now: Callable[[], Now] = Now
        """Tells what the run has come to."""
        self.within = 0
        """How many `for` loops there are at present, within each other."""

    def begun(self) -> Mark:
        """Return what is to be known of the beginning of a loop."""
        return Mark(self)

    def left(self, mark: Mark) -> bool:
        """Tell whether a loop that began so ends here; else its next turn begins."""
        if self._repeats(mark):
            self.on_repeated(mark.begun.readers)
            return True
        epochs, mark.ended = self.ended > mark.ended, self.ended
        if not self.leaving or not 0 < self.latest <= mark.made or self.steps == mark.steps:
            return False
        if epochs and self.passing:
            self.turns += 1
            return False
        self.on_left()
        return True

    def _repeats(self, mark: Mark) -> bool:
        """Tell whether a loop, once something was trained, does much and trains nothing, and its
        turns are alike."""
        now, last = self.now(), mark.last
        mark.last = now
        even = last is not None and now.peak <= last.peak and now.held <= last.held
        mark.alike = mark.alike + 1 if even else 0
        trains = self.steps > mark.steps or self.gathered > mark.gathered
        much = now.work - mark.begun.work >= REPEATED
        return bool(self.latest) and much and not trains and mark.alike >= ALIKE

    def done(self, mark: Mark) -> bool:
        """A loop that began so has ended; what a `while` does with the answer changes nothing."""
        # A loop over optimizers alone has no backward pass.
        self.ended += self.steps > mark.steps and self.backwards > mark.backwards
        return False


class Assertions:
    """Assertions about made-up data, which hold."""

    def __init__(self) -> None:
        self.given: Callable[[], int] = lambda: 0
        """Returns how often made-up data was given to the script."""
        self.before: list[int] = []
        """That number when each of the assertions that are being tested began."""

    def begun(self) -> bool:
        """An assertion begins: return False, so that its test decides."""
        self.before[:] = [*self.before[-MOST_ASSERTED:], self.given()]
        return False

    def holds(self) -> bool:
        """The test of the last assertion that began has failed: tell whether it holds all the
        same."""
        return self.given() > self.before.pop()


ASSERTIONS = Assertions()


class Mark:
    """What was when a loop began, and how many had ended when its last turn did."""

    __slots__ = (
        "alike", "backwards", "begun", "ended", "gathered", "last", "made", "steps",
    )  # fmt: skip

    def __init__(self, watch: Watch) -> None:
        self.made, self.steps, self.backwards = watch.made, watch.steps, watch.backwards
        self.ended, self.gathered = watch.ended, watch.gathered
        self.begun = watch.now()
        self.last: Now | None = None
        """What the run had come to when the last turn ended."""
        self.alike = 0
        """Turns in a row that were alike."""


WATCH = Watch()


class Walk:
    """What a `for` walks over, until it ends or is left. `tests` are those of its number."""

    __slots__ = ("has_ended", "inner", "is_left", "mark", "numbers", "tests", "turns")

    def __init__(self, over: Iterable[object], *tests: Callable[[int], object]) -> None:
        self.inner = iter(over)
        self.mark = WATCH.begun()
        # A bar that shows progress keeps what it counts.
        numbers = getattr(over, "iterable", over)
        self.numbers = numbers if isinstance(numbers, range) else range(0)
        self.tests = tests
        self.turns = 0
        self.is_left = self.has_ended = False
        WATCH.within += 1

    def __del__(self) -> None:
        WATCH.within -= not self.has_ended

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        try:
            # Asked first: a reader of batches that ends by itself releases those it has ready.
            item = next(self.inner)
            if not self.is_left and WATCH.left(self.mark):
                return self._last()
            self.turns += 1
            return item
        except StopIteration:
            WATCH.within -= not self.has_ended
            if self.is_left and not self.has_ended:
                # Its last turns have asked for batches again.
                WATCH.on_left()
            self.has_ended = True
            WATCH.done(self.mark)
            raise

    def _last(self) -> object:
        """Return the number of the first of the last turns, with the others left to walk over."""
        self.inner, self.is_left = iter(()), True
        if not self.numbers or not WATCH.leaving or (WATCH.passing and WATCH.within > 1):
            # Epochs that are passed have a step each.
            raise StopIteration
        first, *others = [*self._tested(), self.numbers[-1]]
        self.inner = iter(others)
        return first

    def _tested(self) -> list[int]:
        """Return the numbers, in order, with which tests first hold that have not held yet; but
        for the last number."""
        before, after = self.numbers[: self.turns], self.numbers[self.turns : -1]
        numbers = {number for test in self.tests for number in first_held(test, before, after)}
        return sorted(numbers, key=self.numbers.index)[:MOST_TURNS]


def first_held(test: Callable[[int], object], before: range, after: range) -> Iterator[int]:
    """Yield the number with which a test first holds, if it held with none before."""
    try:
        if any(map(test, before[:MOST_NUMBERS])):
            return
        yield from itertools.islice(filter(test, after[:MOST_NUMBERS]), 1)
    except Exception:
        return


def install(root: str) -> None:
    """Watch loops of the code below a folder that is compiled from now on."""
    _ROOT[:] = [os.path.join(os.path.realpath(root), "")]
    called = ((FOR, Walk), (BEGUN, WATCH.begun), (LEFT, WATCH.left), (DONE, WATCH.done),
              (ASSERTED, ASSERTIONS.begun), (HOLDS, ASSERTIONS.holds))  # fmt: skip
    for name, value in called:
        setattr(builtins, name, value)
    loader = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    def watched_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        path = os.path.realpath(self.path)
        if path.startswith(_ROOT[0]) and "site-packages" not in path:
            try:
                text = self.get_data(self.path)
            except OSError:
                return get_code(self, fullname)
            if _may_train(text):
                return compiled(text, self.path)
        return get_code(self, fullname)

    setattr(loader, "get_code", watched_code)  # noqa: B010


def compiled(text: bytes | str, name: str) -> CodeType:
    """Return the text of a file compiled, its loops watched where that was asked for."""
    if not _ROOT or not _may_train(text):
        return compile(text, name, "exec", dont_inherit=True)
    parsed = compile(text, name, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    tree: ast.Module = Rewritten().visit(parsed)
    return compile(tree, name, "exec", dont_inherit=True)


def _may_train(text: bytes | str) -> bool:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    WATCH.evaluates = WATCH.evaluates or bool(EVALUATES.search(words))
    WATCH.saves = WATCH.saves or bool(SAVES.search(words))
    return bool(TRAINS.search(words))


class Rewritten(ast.NodeTransformer):
    """Puts the watch into loops with calls in their body."""

    def __init__(self) -> None:
        self.count = 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit the statements below a node: no expression holds a loop."""
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                block[:] = [each for statement in block for each in self._visited(statement)]
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            self.visit(part)
        return node

    def _visited(self, statement: ast.stmt) -> list[ast.stmt]:
        visited = self.visit(statement)
        return visited if isinstance(visited, list) else [visited]

    def visit_For(self, node: ast.For) -> ast.For:
        """`for x in xs` walks over `Walk(xs)`."""
        tests = list(_tests(node)) if isinstance(node.target, ast.Name) else []
        self.generic_visit(node)
        if _calls(node.body):
            node.iter = _called(FOR, [node.iter, *tests], node.iter)
        return node

    def visit_While(self, node: ast.While) -> ast.While | list[ast.stmt]:
        """`while test` asks before its test whether it is left, and tells when that fails."""
        self.generic_visit(node)
        if not _calls(node.body):
            return node
        self.count += 1
        name = f"__gpuconsole_{self.count}__"
        mark = ast.Assign([ast.Name(name, ast.Store())], _called(BEGUN, [], node))
        left, done = (
            _called(name_, [ast.Name(name, ast.Load())], node.test) for name_ in (LEFT, DONE)
        )
        goes_on = ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), left), node.test])
        node.test = _at(ast.BoolOp(ast.Or(), [goes_on, done]), node.test)
        return [_at(mark, node), node]

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        """`assert test` holds where its test was given made-up data."""
        self.generic_visit(node)
        begun, holds = _called(ASSERTED, [], node.test), _called(HOLDS, [], node.test)
        node.test = _at(ast.BoolOp(ast.Or(), [begun, node.test, holds]), node.test)
        return node


def _tests(loop: ast.For) -> Iterator[ast.Lambda]:
    """Yield the tests in a loop, but for those in loops within it, that look at its number and
    change nothing, as functions of it."""
    name = ast.unparse(loop.target)
    statements = [*loop.body]
    while statements:
        statement = statements.pop(0)
        if not isinstance(statement, (ast.If, ast.With, ast.Try)):
            continue
        statements += statement.body
        if not isinstance(statement, ast.If):
            continue
        statements += statement.orelse
        parts = list(ast.walk(statement.test))
        named = any(isinstance(part, ast.Name) and part.id == name for part in parts)
        if named and all(isinstance(part, PURE) for part in parts):
            given = ast.arguments([], [ast.arg(name)], None, [], [], None, [])
            yield _at(ast.Lambda(given, copy.deepcopy(statement.test)), loop.iter)


def _calls(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(part, ast.Call) for each in body for part in ast.walk(each))


def _called(name: str, arguments: Sequence[ast.expr], place: ast.AST) -> ast.Call:
    return _at(ast.Call(ast.Name(name, ast.Load()), [*arguments], []), place)


def _at(node: Node, place: ast.AST) -> Node:
    """Return a new node, and what is new in it, with the lines of a place."""
    return ast.fix_missing_locations(ast.copy_location(node, place))

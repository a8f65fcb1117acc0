"""Long loops over plain data: after many iterations, the others are taken to be like them.

Scripts build vocabularies and sample lists item by item. A loop that touches no tensor and would
use up the budget is followed for a while; what each of its iterations adds is then added for those
that are left, so that a list still has its exact length. What grows in another way has a length
that is not known from then on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import lengths
from gpuconsole.preflight.interpreter.domain.values import (
    Length,
    More,
    Native,
    Scope,
    Unknown,
    Value,
    as_number,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import MAX_STEPS
from gpuconsole.preflight.interpreter.numpy.array import Array

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

WATCH_STEPS = 3000
"""Steps after which a loop is watched."""
SAMPLE_STEPS = 30_000
"""Steps that a loop is followed for before its other iterations are taken to be alike."""
MAX_ITERATIONS = 50_000
"""Iterations left beyond which a loop is not followed to its end, however little each does."""
TOLD = 2
"""Of the items that are left, as many of the longest are followed."""
MAX_REST = 50_000
MAX_PARTS = 256
DATA_STEPS = MAX_STEPS * 6 // 10
"""Steps that may go into data before loops are cut short: the rest is for the model."""


def total_of(value: Value) -> int | None:
    """Return how many items a walk over a value yields, where that is known at once."""
    if isinstance(value, (list, tuple, dict, set, frozenset, str, range)):
        return None if lengths.more_in(value) is not None else len(value)
    if isinstance(value, Array):
        return int(value.shape[0]) if value.shape else None
    inner = getattr(value, "items", None) if getattr(value, "label", "") == "tqdm" else None
    if inner is not None:
        return total_of(inner)
    total = getattr(value, "total", None)
    return total if isinstance(total, int) else None


def is_data(value: Value) -> bool:
    """Whether walking over a value runs no code of the script."""
    if isinstance(value, (list, tuple, dict, set, frozenset)) or getattr(value, "is_data", False):
        return True
    return getattr(value, "label", "") == "tqdm" and is_data(getattr(value, "items", None))


def _size(item: Value, depth: int = 0) -> int:
    """Return about how much an item holds."""
    if isinstance(item, (str, bytes)):
        return len(item)
    if isinstance(item, dict):
        item = list(item.values())
    if isinstance(item, (list, tuple)):
        inner = sum(_size(part, depth + 1) for part in item[:MAX_PARTS]) if depth < 3 else 0
        return len(item) + inner
    return 1


def _words(item: Value) -> int:
    if isinstance(item, (list, tuple)):
        return max((_words(part) for part in item[:MAX_PARTS]), default=0)
    if isinstance(item, dict):
        return _words(list(item.values()))
    return item.count(" ") + item.count(",") if isinstance(item, str) else 0


class Iterations:
    """The iterations of one loop, counted and watched."""

    __slots__ = ("_blocks", "_data", "_filled", "_from", "_numbers", "_place", "_start", "_total",
                 "count")  # fmt: skip

    def __init__(self, interp: Interpreter, walked: Value) -> None:
        run = interp.run
        self.count = 0
        self._total = total_of(walked)
        self._data = is_data(walked)
        self._start = run.steps
        self._blocks = len(run.tape.ledger.sizes)
        self._place = (run.file, run.line)
        self._from = 0
        self._filled: list[tuple[Value, int]] = []
        self._numbers: dict[str, Value] = {}

    def left(self) -> int | None:
        """Return how many iterations are left, None if unknown."""
        return None if self._total is None else max(0, self._total - self.count)

    @property
    def many(self) -> bool:
        """Whether there may be more iterations than one."""
        return self._total != 1

    def telling(self, items: Iterator[Value]) -> list[Value]:
        """Return the items that are left to follow: the longest, as those decide what lasts.

        Texts are as long as they are, and the longest decides how wide a batch is.
        """
        if not self._data:
            return []
        rest = list(islice(items, MAX_REST))
        if self._total is None and len(rest) < MAX_REST:
            self._total = self.count + len(rest)
        plain_items = [item for item in rest if lengths.rest(item) is None]
        if not plain_items or len({_size(item) for item in plain_items[:MAX_PARTS]}) == 1:
            return []
        representatives = [*nlargest(TOLD, plain_items, key=_size), max(plain_items, key=_words)]
        return list({id(item): item for item in representatives}.values())

    def enough(self, interp: Interpreter, body: Sequence[ast.AST], scope: Scope) -> bool:
        """Whether the iterations that are left are to be taken like those that were followed."""
        run = interp.run
        used = run.steps - self._start
        if used < WATCH_STEPS:
            return False
        if len(run.tape.ledger.sizes) != self._blocks:
            self._filled.clear()
            return False
        left = self.left()
        need = 0.0 if left is None else used / self.count * left
        endless = left is not None and left > MAX_ITERATIONS
        long = bool(self._from) and used >= SAMPLE_STEPS
        long = long and (endless or run.steps + need > DATA_STEPS)
        if not long and self.count >= 2 * self._from:
            self._watch(body, scope)
        return long

    def _watch(self, body: Sequence[ast.AST], scope: Scope) -> None:
        self._from = self.count
        self._filled = containers(scope)
        self._numbers = {name: home.names[name] for name, home in _counted(body, scope).items()}

    def finish(
        self,
        interp: Interpreter,
        body: Sequence[ast.AST],
        scope: Scope,
        loop: ast.For | None = None,
    ) -> None:
        """Add what the iterations that are left would add."""
        run, left, seen = interp.run, self.left(), self.count - self._from
        file, line = self._place
        why = run.unknown("what a loop makes that is too long to follow")
        for container, before in self._filled:
            grown = len(container) - before
            if grown:
                # Keys may come again, unless they are made of the loop's own counter.
                has_own_keys = isinstance(container, list) or (loop is not None and _own_keys(loop))
                _grow(interp, container, grown, seen, left if has_own_keys else None, why)
        self._filled.clear()
        for name, home in _counted(body, scope).items():
            then, now = self._numbers.get(name), home.names[name]
            if isinstance(then, int) and isinstance(now, int) and left is not None:
                each, rest = divmod(now - then, seen)
                if not rest:
                    home.names[name] = now + each * left
                    continue
            if isinstance(now, (int, float)) and now != then:
                home.names[name] = as_number(why)
        count = str(self.count)
        if self._total is not None:
            count = msg("{n} of {all}", n=self.count, all=self._total)
        note = msg(
            "{place}: {count} iterations of a loop over data were followed; "
            "the others are taken to be like them.",
            place=f"{Path(file).name}:{line}", count=count,
        )  # fmt: skip
        if note not in run.findings.notes:
            run.findings.notes.append(note)


def _grow(
    interp: Interpreter, container: Value, grown: int, seen: int, left: int | None, why: Unknown
) -> None:
    run = interp.run
    each, rest = divmod(grown, seen)
    if grown < 0 or rest or left is None or lengths.more_in(container) is not None:
        lengths.open_up(run, container, why)
        return
    size = len(container) + each * left
    if isinstance(container, list) and size <= lengths.MAX_KNOWN:
        container.extend(container[-each:] * left)
        interp.tick(size // 64)
        return
    more = More(why.file, why.line, why.reason, None, size)
    if isinstance(container, list):
        container.append(more)
    elif isinstance(container, dict):
        container[more] = more
    else:
        container.add(more)


def _own_keys(loop: ast.For) -> bool:
    """Whether each iteration of a loop puts items under keys that no other iteration has."""
    counter, walked = loop.target, loop.iter
    function = walked.func.id if isinstance(walked, ast.Call) and (
        isinstance(walked.func, ast.Name)) else ""  # fmt: skip
    if function == "enumerate" and isinstance(counter, ast.Tuple):
        counter = counter.elts[0]
    if function not in ("range", "enumerate") or not isinstance(counter, ast.Name):
        return False
    keys = [
        node.slice
        for statement in loop.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    ]
    return bool(keys) and all(_counts(key, counter.id) for key in keys)


def _counts(key: ast.expr, counter: str) -> bool:
    """Whether a key is the counter: itself, as text, in a text, or moved by a constant."""
    if isinstance(key, ast.Name):
        return key.id == counter
    if isinstance(key, ast.Call) and isinstance(key.func, ast.Name):
        return key.func.id in ("str", "int") and all(_counts(arg, counter) for arg in key.args)
    if isinstance(key, ast.BinOp) and isinstance(key.op, (ast.Add, ast.Sub, ast.Mod)):
        sides = (key.left, key.right)
        if isinstance(key.op, ast.Mod) and not (
            isinstance(key.left, ast.Constant) and isinstance(key.left.value, str)
        ):
            return False
        return any(isinstance(side, ast.Constant) for side in sides) and any(
            _counts(side, counter) for side in sides
        )
    if isinstance(key, ast.JoinedStr):
        values = [value.value for value in key.values if isinstance(value, ast.FormattedValue)]
        return len(values) == 1 and _counts(values[0], counter)
    return False


def _counted(body: Sequence[ast.AST], scope: Scope) -> dict[str, Scope]:
    """Return the names of numbers that a loop's body counts, with where they live."""
    counters: dict[str, Scope] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                home = scope.find(node.target.id)
                if home is not None and isinstance(home.names[node.target.id], (int, float)):
                    counters[node.target.id] = home
    return counters


def filled(container: Value, before: Value, more: More, followed: int) -> bool:
    """Set a list's length to what so many iterations like the last one make; tell if it is known.

    `before` is its length before that iteration, after `followed` others. `ids` that a loop over
    `range(64 - len(ids))` appends to has 64 items.
    """
    each = lengths.plus(lengths.length_of(container), before, -1)
    if not isinstance(container, list) or not isinstance(each, int) or each < 1:
        return False
    if not isinstance(more.length, Length):
        return False
    left = lengths.plus(more.length, followed, -1)
    added = left * each if isinstance(left, int) else lengths.times(left, each)
    total = lengths.plus(before, added, 1)
    items = lengths.items_of(container)
    if isinstance(total, int):
        items += items[-each:] * (max(0, min(total, lengths.MAX_KNOWN) - len(items)) // each + 1)
        container[:] = items[: max(total, 0)]
    else:
        container[:] = [*items, More(total.file, total.line, total.reason, total.root, total)]
    return True


def containers(scope: Scope) -> list[tuple[Value, int]]:
    """Return the containers that a loop's body can fill, with their present lengths."""
    containers_found: list[tuple[Value, int]] = []
    pending: list[tuple[Value, int]] = []
    at: Scope | None = scope
    while at is not None:
        pending.extend((name, 0) for name in list(at.names.values()))
        at = at.parent
    met: set[int] = set()
    for value, depth in pending:
        if isinstance(value, (list, dict, set)):
            if id(value) in met:
                continue
            met.add(id(value))
            containers_found.append((value, len(value)))
            if depth < 2 and len(value) <= lengths.MAX_LOOKED_AT and not isinstance(value, set):
                inner = value.values() if isinstance(value, dict) else value
                pending.extend((child, depth + 1) for child in list(inner))
        elif isinstance(value, Native) and depth < 1 and value.cls is not None:
            pending.extend((attr, depth + 1) for attr in list(value.attrs.values()))
        if len(pending) > 4096:
            break
    return containers_found

"""What is asked of the user: the roots of unknowns, the questions, and the answers given."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.estimate import Ask
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.preflight.assumptions import Assumption, ShapeAnswer, read_assumption
from gpuconsole.preflight.interpreter.domain.values import Form, Root, Unknown, Value, plain
from gpuconsole.preflight.interpreter.numpy.array import Array

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_ASKS = 3
"""Questions put at once."""
MAX_TEXT = 80
ANSWERABLE = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
"""Expressions that an answer can be given for."""
_EXAMPLES: Mapping[Form, str] = {
    "value": "128", "number": "128", "test": "True", "shape": "[N, 3, 224, 224] float32",
}  # fmt: skip
_OF_NETWORKS = re.compile(r"\.((named_)?(parameters|buffers|sublayers|children)|state_dict)\(")
"""Calls with results that no answer can write down."""
_LABELS = ("label", "target", "class", "[1]")
"""Words of what holds a number for each sample."""
_LARGE = ("vocab", "dict", "num_user", "num_item", "n_user", "n_item", "embeddings")


class Answers:
    """The user's answers, found by the spelling of an expression."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.met: dict[str, tuple[str, int]] = {}
        """Answers that were used, as the user wrote their names, and where first."""
        self.sampling = False
        """Whether a sample of a data set is being made: nothing in it is a batch."""
        self._by_name: dict[str, list[Assumption]] = {}
        for name, text in given.items():
            assumption = read_assumption(name, text)
            self._by_name.setdefault(assumption.name, []).append(assumption)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def find(self, name: str, file: str, line: int) -> Assumption | None:
        """Return the answer for an expression at a place; a placed answer wins."""
        here = [
            assumption
            for assumption in self._by_name.get(name, ())
            if assumption.holds_at(file, line)
        ]
        candidates = [
            assumption for assumption in here if assumption.file or not self._too_early(assumption)
        ]
        return max(candidates, key=lambda assumption: assumption.line) if candidates else None

    def _too_early(self, assumption: Assumption) -> bool:
        """Whether an answer is about a batch, which a sample of the same name is not yet."""
        return (
            self.sampling and isinstance(assumption.value, ShapeAnswer) and assumption.value.batched
        )

    def of(self, node: ast.expr, file: str) -> Assumption | None:
        """Return the answer for a node of the syntax tree."""
        if not self._by_name or not isinstance(node, ANSWERABLE):
            return None
        return self.find(text_of(node), file, node.lineno)

    def for_target(self, node: ast.expr, file: str) -> Assumption | None:
        """Return the answer for what is assigned; `self.size` also answers to `size`."""
        assumption = self.of(node, file)
        if assumption is None and isinstance(node, ast.Attribute):
            assumption = self.find(node.attr, file, node.lineno)
        return assumption


@lru_cache(maxsize=4096)
def text_of(node: ast.expr) -> str:
    """Return an expression as written, in one spelling."""
    return ast.unparse(node)


def rooted(node: ast.expr, unknown: Unknown, file: str, form: Form = "value") -> Unknown:
    """Return the unknown with an expression as what would settle it."""
    return replace(unknown, root=Root(text_of(node), file, node.lineno, "", form))


def named(target: ast.expr, value: ast.expr, unknown: Unknown, file: str) -> Unknown:
    """Return an unknown that is being assigned, asked for by the name it gets.

    Only where the name holds the root itself: what was computed from it keeps the root's name.
    """
    root = unknown.root
    if root is None or not isinstance(target, (ast.Name, ast.Attribute)):
        return unknown
    whole = text_of(value) == root.text
    function = value.func if isinstance(value, ast.Call) else None
    returned = isinstance(function, ast.Name) and function.id[:1].islower()
    if root.name or not (whole or returned):
        return unknown
    name = target.id if isinstance(target, ast.Name) else text_of(target)
    return replace(
        unknown, root=replace(root, name=name, text=text_of(value), file=file, line=target.lineno)
    )


def loop_names(node: ast.For) -> tuple[str, ...]:
    """Return the names that a loop assigns to the parts of what it walks over."""
    target = node.target
    counted = any(
        isinstance(node_, ast.Call)
        and isinstance(node_.func, ast.Name)
        and node_.func.id == "enumerate"
        for node_ in ast.walk(node.iter)
    )
    if counted and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    if isinstance(target, ast.Tuple):
        return tuple(elt.id if isinstance(elt, ast.Name) else "" for elt in target.elts)
    return (text_of(target),)


def ask(unknown: Unknown) -> Ask | None:
    """Return the question that would settle an unknown; None where no answer could."""
    root = unknown.root
    if root is None or root.form in ("gap", "held") or _OF_NETWORKS.search(root.text):
        return None
    name = root.name or root.text
    if len(name) > MAX_TEXT or "\n" in name:
        return None
    place = f"{Path(root.file).name}:{root.line}"
    written = root.text if len(root.text) <= MAX_TEXT else ""
    given = ", given by {text} at {place}" if root.name and written else " at {place}"
    if root.form == "shape":
        template = f"Which shape and type has {{name}}{given}? N is the batch size."
    elif root.form == "test":
        template = f"Is {{name}}{given} true?"
    elif root.form == "number":
        template = f"How large is {{name}}{given}?"
    else:
        template = f"What is {{name}}{given}?"
    question = msg(template, name=name, text=written, place=place)
    return Ask(clean(name), root.file, root.line, clean(question), _example(root))


def _example(root: Root) -> str:
    words = f"{root.name} {root.text}".lower()
    if root.form in ("value", "number") and any(word in words for word in _LARGE):
        return "30000"
    if root.form == "shape" and any(word in words for word in _LABELS):
        return "[N] int64"
    return _EXAMPLES[root.form]


def batch_field(run: Run, names: Sequence[str], place: int, count: int, why: Unknown) -> Value:
    """Return one unknown part of a loader's batch: as answered, or asked for by shape.

    `names` are those that the loop over the loader assigns to the `count` parts.
    """
    if len(names) == count and names[place]:
        name = names[place]
    else:
        name = f"{names[0]}[{place}]" if len(names) == 1 and names[0] else ""
    return batch_item(run, name, why) if name else why


def batch_item(run: Run, name: str, why: Unknown) -> Value:
    """Return the unknown part of a batch that the script would call `name`."""
    given = run.answers.find(name, run.file, run.line)
    if given is not None and isinstance(given.value, ShapeAnswer):
        queue, run.batch.queue = run.batch.queue, None  # this is a waiting batch itself
        answered = answer(run, given)
        run.batch.queue = queue
        return answered
    return replace(plain(why), root=Root(name, run.file, run.line, "", "shape"))


def answer(run: Run, assumption: Assumption) -> Value:
    """Return the value of an answer.

    A shape with the batch in it is a batch that the loader gave; one without is an array.
    """
    run.answers.met.setdefault(assumption.given, (run.file, run.line))
    run.findings.doubt = run.unknown(f"{assumption.given} is as answered")
    value = assumption.value
    if not isinstance(value, ShapeAnswer):
        return value
    if not value.batched:
        return Array(value.shape(0), value.dtype)
    batch = run.batch_here()
    if batch is None:
        return run.unknown("the batch size N of an answer is not known: give --batch-size")
    tensor = run.tensor(value.shape(batch), value.dtype, "inputs")
    if run.batch.queue is not None and assumption.given not in run.batch.queue.answered:
        waiting = [run.storage(tensor.nbytes, "inputs") for _ in range(run.batch.queue.length)]
        run.batch.queue.answered[assumption.given] = waiting
    return tensor

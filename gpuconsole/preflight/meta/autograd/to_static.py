"""Functions under `to_static`: the Python that they are made from runs, and is counted as Paddle
runs the program.

Its forward pass frees as the Python does. Its backward pass runs as a whole (measured with Paddle
3.3.1, of many runs the smallest peak, since threads free late by chance): what it was given is held
until its end, and so are the gradients of all its parameters, beside those that they have already.
A network in evaluation runs another program, which keeps nothing for a backward pass.

By default Paddle compiles what lies between two places where the Python needs data, and runs what
has fewer than ten operators as it is written.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING

from ..state import STATE

if TYPE_CHECKING:
    from types import ModuleType

    from paddle.jit.dy2static.program_translator import StaticFunction

    from ..tensor.tensor import Keeper, Tensor
    from ..types import Whole
    from .nodes import Node


class Program:
    """A part of a compiled function that runs as one program: what its nodes have in common.

    Of a `symbolic` function, Paddle compiles no part with fewer than `smallest()` operators.
    """

    def __init__(self, symbolic: bool = False) -> None:
        self.symbolic = symbolic
        self.operators = 0

    @property
    def compiled(self) -> bool:
        """Whether it has enough operators to be compiled."""
        return not self.symbolic or self.operators >= smallest()


@cache
def smallest() -> int:
    """Return how many operators Paddle compiles at least."""
    try:
        settings = importlib.import_module("paddle.jit.sot.utils.envs")
        return int(settings.ENV_MIN_GRAPH_SIZE.get())
    except (ImportError, AttributeError):
        return 0


def needs_data() -> None:
    """The script's Python asks for data: a function that is compiled by parts is cut here."""
    if STATE.program is not None and STATE.program.symbolic:
        STATE.program = Program(symbolic=True)


class Running:
    """The programs of one backward pass."""

    def __init__(self, order: Iterable[Node]) -> None:
        programs = (node.program for node in order if node.program is not None)
        self.left = Counter(program for program in programs if program.compiled)
        """How many nodes of each are yet to run."""
        self.given: dict[Program, list[Tensor]] = {program: [] for program in self.left}
        """Gradients that each was given."""
        self.made: dict[Program, list[Whole]] = {program: [] for program in self.left}
        """Leaves that each has a gradient for, as `(leaf, keeper, gradient)`."""

    def take(self, node: Node | None, start: Program | None, grad: Tensor | None) -> None:
        """A gradient comes from the program `start`, or from none, to a node."""
        into = node.program if node is not None else None
        if into is not start and into in self.given and grad is not None:
            if grad.m_block is not None:
                grad.m_block.lent = True
            self.given[into].append(grad)

    def keep(
        self, node: Node, leaf: Tensor | None, keeper: Keeper | None, grad: Tensor | None
    ) -> bool:
        """Keep a leaf's gradient until the node's program is through; false where it has none."""
        if node.program not in self.made:
            return False
        self.made[node.program].append((leaf, keeper, grad))
        return True

    def ran(self, node: Node) -> list[Whole]:
        """A node has run; return what its program hands to leaves if it was the last."""
        program = node.program
        if program is None or program not in self.left:
            return []
        self.left[program] -= 1
        if self.left[program]:
            return []
        self.given.pop(program)
        return self.made.pop(program)


def install(paddle: ModuleType) -> None:
    """Run what a decorator would turn into a program as the Python that it is."""
    paddle.jit.enable_to_static(False)
    translator = importlib.import_module("paddle.jit.dy2static.program_translator")
    plain = translator.StaticFunction._call_dygraph_function
    symbolic: type | tuple[()] = getattr(translator, "SymbolicStaticFunction", ())

    def called(self: StaticFunction, *args: object, **kwargs: object) -> object:
        by_parts = isinstance(self, symbolic)
        return run(partial(plain, self, *args, **kwargs), self._is_train_mode(), by_parts)

    translator.StaticFunction._call_dygraph_function = called


def run(function: Callable[[], object], training: bool, by_parts: bool) -> object:
    """Call a function that is compiled, whole or by parts."""
    if STATE.program is not None or not STATE.has_grad():
        return function()
    first = STATE.program = Program(by_parts)
    try:
        if training:
            return function()
        with STATE.paddle.no_grad():
            return function()
    finally:
        if STATE.program is not first or first.compiled:
            STATE.flags.add("static-graph")
        STATE.program = None

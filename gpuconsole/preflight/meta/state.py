"""What the modules of the tier share: Paddle's own parts, the ledger, what was found out."""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Iterator
from typing import Any

from .ledger import Ledger

REFUSED: list[str] = []
"""What was not followed, in order: a script may catch the exception, and the run counts no more."""


class Unsupported(BaseException):
    """The tier does not follow this exactly; says what. No `except Exception` of a script or a
    library goes on after it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        REFUSED.append(what)


def rightly(error: Any) -> Any:
    """Return an error that Paddle raises too: every other error of the tier's own code says
    nothing about the script."""
    error.rightly = True
    return error


def _no_stack(*_: object) -> list[object]:
    return []


class State:
    """One run of a script on tensors without data."""

    def __init__(self) -> None:
        self.core: Any = None
        self.paddle: Any = None
        self.ledger = Ledger()
        self.tensor: Any = None
        """The class in its place."""
        self.subscript: Any = None
        self.framework: Any = None
        self.call: Any = None
        """`call(name, args, kwargs)` runs an operator."""
        self.sized = False
        """Whether shapes are of Paddle's type for them (3.3) or lists."""
        self.real: Any = None
        """Paddle's own tensor class."""
        self.real_init: Any = None
        self.leaves_alone = False
        """Whether this Paddle copies no tensor that is not a leaf (before 3.3)."""
        self.dynamic: Any = None
        self.final_hooks: list[Any] = []
        self.operators: dict[str, Any] = {}
        """Paddle's own functions of `_C_ops`, by name."""
        self.described: set[str] = set()
        """Those of them that Paddle's representation of programs has."""
        self.rules: dict[str, Any] = {}
        """By kernel: what CPU kernels need for a moment, and gradients made in place."""
        self.inplace: set[str] = set()
        """Gradient operators of which Paddle has a form in place."""
        self.backend = "gpu"
        self.inside = 0
        """More than 0 while a scratch program is built or real tensors are computed."""
        self.hooks: list[Any] = []
        """Functions that pack and unpack what operators save for their backward pass."""
        self.choices: dict[str, int] = {}
        self.flags: set[str] = set()
        self.widest_conv = 0
        self.value_of: Any = None
        """`value_of(tensor, what)` returns an array for a tensor with unknown data."""
        self.number = 1
        """What numbers of unknown data are taken to be."""
        self.counts = ""
        """What counts of points in maps of unknown data are: `few`, `all`, or as other numbers."""
        self.counted = False
        """Whether the script asked for such a count."""
        self.numbers_at: dict[str, None] = {}
        """Where the script asked for some that may become lengths, in order."""
        self.made_up_at: dict[str, None] = {}
        """Where the script was given any data that is unknown, in order."""
        self.made_up = 0
        """How often it was given such data."""
        self.parts = False
        """Whether the script asked for gradients that are put together of smaller operators."""
        self.settled: dict[str, Any] = {}
        """By operator and line of the script: the share of its largest length that a result has,
        where a later shape has settled it."""
        self.part: Any = None
        """The share of their largest at which lengths of unknown data are taken that nothing has
        settled; None for all."""
        self.where: Any = str
        """`where()` returns file and line of the script's own code that is running."""
        self.number_of: Any = float
        """`number_of(number)` is what a script gets as a number of unknown data."""
        self.program: Any = None
        """The program of a compiled function that is running as Python."""
        self.ran: Any = None
        """The plan of the program that was run last."""
        self.names: dict[str, int] = {}
        self.pause: float = math.inf
        """Calls of operators after which `paused()` is called."""
        self.paused: Any = None

    @contextlib.contextmanager
    def scratch(self) -> Iterator[None]:
        """Run Paddle's own operators inside this block."""
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Let operators called inside this block build a program.

        Paddle notes for each of them where it was called; a scratch program does not need that,
        and walking a deep stack takes longer than all else.
        """
        stack = traceback.extract_stack
        traceback.extract_stack = _no_stack  # type: ignore[assignment]
        try:
            with self.scratch(), self.framework._dygraph_guard(None):
                yield
        finally:
            traceback.extract_stack = stack

    def choice(self, text: str) -> None:
        """Record that the run depends on a value that only data could give."""
        self.choices[text] = self.choices.get(text, 0) + 1

    def unique(self, prefix: str) -> str:
        """Return the next name with a prefix."""
        number = self.names.get(prefix, 0)
        self.names[prefix] = number + 1
        return f"{prefix}_{number}"

    def has_grad(self) -> Any:
        """Tell whether operators are recorded for a backward pass."""
        return self.core._has_grad()


STATE = State()

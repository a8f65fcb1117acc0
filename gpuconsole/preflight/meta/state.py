"""What the modules of the tier share: Paddle's own parts, the ledger, what was found out."""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from .ledger import Ledger

if TYPE_CHECKING:
    from fractions import Fraction
    from types import ModuleType

    from numpy import ndarray

    from .autograd.to_static import Program
    from .paddle_types import OwnTensor, OwnValue
    from .program.plan import Plan
    from .tensor.tensor import Tensor
    from .types import OneTensor, Operator, Packing, Result, Subscript, Written

REFUSED: list[str] = []
"""What was not followed, in order: a script may catch the exception, and the run counts no more."""


class Unsupported(BaseException):
    """The tier does not follow this exactly; says what. No `except Exception` of a script or a
    library goes on after it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        REFUSED.append(what)


Error = TypeVar("Error", bound=Exception)


def rightly(error: Error) -> Error:
    """Return an error that Paddle raises too: every other error of the tier's own code says
    nothing about the script."""
    vars(error)["rightly"] = True
    return error


def _no_stack(*_: object) -> list[object]:
    return []


def _never() -> bool:
    return False


class State:
    """One run of a script on tensors without data."""

    core: ModuleType
    """Paddle's compiled library."""
    paddle: ModuleType
    framework: ModuleType
    is_ready: bool = False
    """Whether Paddle is imported as a whole."""
    tensor: type[Tensor]
    """The class in its place."""
    run: Operator
    """`run(name, args, kwargs)` runs an operator."""
    select: Callable[[Tensor, Subscript], Tensor]
    """`select(tensor, index)` returns what a subscript selects."""
    write: Callable[[Tensor, Subscript, Written], Tensor]
    """`write(tensor, index, value)` writes where it points."""
    sized: bool = False
    """Whether shapes are of Paddle's type for them (3.3) or lists."""
    real: type[OwnTensor]
    """Paddle's own tensor class."""
    real_new: Callable[[type[OwnTensor]], OwnTensor]
    real_init: Callable[..., None]
    leaves_alone: bool = False
    """Whether this Paddle copies no tensor that is not a leaf (before 3.3)."""
    backend: str = "gpu"
    inside: int = 0
    """More than 0 while a scratch program is built or real tensors are computed."""
    widest_conv: int = 0
    value_of: Callable[[Tensor, str], ndarray] | None = None
    """`value_of(tensor, what)` returns an array for a tensor with unknown data."""
    number: int = 1
    """What numbers of unknown data are taken to be."""
    counts: str = ""
    """What counts of points in maps of unknown data are: `few`, `all`, or as other numbers."""
    counted: bool = False
    """Whether the script asked for a count of points in maps of unknown data."""
    unfilled: int = 0
    """Bytes of rows that L-BFGS's history has only where it makes all its iterations."""
    made_up: int = 0
    """How often the script was given data that is unknown."""
    parts: bool = False
    """Whether the script asked for gradients that are put together of smaller operators."""
    part: Fraction | None = None
    """The share of their largest at which lengths of unknown data are taken that nothing has
    settled; None for all."""
    program: Program | None = None
    """The program of a compiled function that is running as Python."""
    ran: Plan | None = None
    """The plan of the program that was run last."""
    pause: float = math.inf
    """Calls of operators after which `paused()` is called."""
    paused: Callable[[], None]

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.dynamic: Callable[[], bool] = _never
        """Whether operators run at once, as they do outside programs."""
        self.final_hooks: list[Callable[[], object]] = []
        self.operators: dict[str, Callable[..., OwnTensor]] = {}
        """Paddle's own functions of `_C_ops`, by name, as they compute."""
        self.makers: dict[str, Callable[..., OwnValue]] = {}
        """The same functions, as they write a program while one is built."""
        self.described: set[str] = set()
        """Those of them that Paddle's representation of programs has."""
        self.rules: dict[str, dict[str, str]] = {}
        """By kernel: what CPU kernels need for a moment, and gradients made in place."""
        self.inplace: set[str] = set()
        """Gradient operators of which Paddle has a form in place."""
        self.hooks: list[Packing] = []
        """Functions that pack and unpack what operators save for their backward pass."""
        self.choices: dict[str, int] = {}
        self.tests: dict[str, None] = {}
        """Where the script tested data that is unknown, the latest last."""
        self.turned: frozenset[str] = frozenset()
        """Which of these tests have the other answer in this run."""
        self.flags: set[str] = set()
        self.numbers_at: dict[str, None] = {}
        """Where the script asked for some that may become lengths, in order."""
        self.made_up_at: dict[str, None] = {}
        """Where the script was given any data that is unknown, in order."""
        self.settled: dict[str, Fraction] = {}
        """By operator and line of the script: the share of its largest length that a result has,
        where a later shape has settled it."""
        self.where: Callable[[], str] = str
        """`where()` returns file and line of the script's own code that is running."""
        self.number_of: Callable[[float], float] = float
        """`number_of(number)` is what a script gets as a number of unknown data."""
        self.names: dict[str, int] = {}

    def at_first_operator(self, function: Callable[[], None]) -> None:
        """Have a function called where the first operator is run."""

        def reached() -> None:
            self.pause = math.inf
            function()

        self.pause, self.paused = 1, reached

    @overload
    def call(
        self, name: OneTensor, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Tensor: ...

    @overload
    def call(self, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Result: ...

    def call(self, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Result:
        """Run an operator."""
        return self.run(name, args, kwargs)

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

    def has_grad(self) -> bool:
        """Tell whether operators are recorded for a backward pass."""
        return bool(self.core._has_grad())


STATE = State()

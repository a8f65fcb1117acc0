"""How operators run at a moment: what they record for backward, and in which precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import MISSING, Native, Value
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Parameter
from gpuconsole.preflight.memory.trace import Ledger, Storage

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Node
    from gpuconsole.preflight.interpreter.paddle.training.static_graph import Draft


@dataclass(slots=True)
class Amp:
    """The state of automatic mixed precision at a moment."""

    level: str = "O0"
    dtype: str = "float16"
    white: frozenset[str] = frozenset()
    """Operators that the script itself puts on the white list, by Paddle's names."""
    black: frozenset[str] = frozenset()


@dataclass(slots=True)
class Mode:
    """What holds for the operators, layers and gradients of a run at a moment."""

    dtype: str = "float32"
    """The type of tensors that state none."""
    grad_enabled: bool = True
    amp: Amp = field(default_factory=Amp)
    full_gradients: list[Parameter] = field(default_factory=list)
    """Parameters in half precision with gradients that are cast to single after each backward."""
    reduced: set[int] = field(default_factory=set)
    """Parameters with gradients that a reducer copies into groups until the backward pass is
    over."""
    own_gradients: set[int] | None = None
    """Parameters with gradients that this process keeps; None if it keeps all."""
    at_once: bool = False
    """Whether a parameter is updated, and its gradient gone, as soon as the gradient is there."""
    decays: dict[int, Storage] = field(default_factory=dict)
    """Scaled parameters that a static program adds to their gradients, by parameter."""
    in_program: bool = False
    """Whether a backward pass is that of a static program."""
    nodes: list[Node] | None = None
    """Backward nodes made since something began to collect them."""
    recomputed: list[tuple[str, str, int]] = field(default_factory=list)
    """Containers with repeated blocks that a variant recomputes: path, class, how many."""
    around: Callable[[Interpreter, Native, list[Value], dict[str, Value]], Value] | None = None
    """What is done around the call of a layer, where a variant changes how layers run."""


@dataclass(slots=True)
class Program:
    """A static program that the script writes down before an executor runs it."""

    draft: Draft | None = None
    """What a script in static mode has written down so far."""
    drafting: Ledger | None = None
    """Where tensors are drafted while a static program is written, without taking memory."""
    fed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes that a static program is fed with, by name."""


_OWN = {"__init__": "init", "__call__": "call", "forward": "forward"}
"""How the models of a library's classes call what scripts know by these names."""


@dataclass(slots=True)
class Patches:
    """What a script has replaced in a library: methods of classes, functions of modules."""

    functions: set[str] = field(default_factory=set)
    """Names of functions of `paddle.nn.functional`."""
    _methods: dict[type, dict[str, Value]] = field(default_factory=dict)

    def put(self, kind: type[Native], name: str, value: Value) -> None:
        """Replace an attribute of a class."""
        self._methods.setdefault(kind, {})[name] = value

    def find(self, kind: type[Native], name: str) -> Value:
        """Return what the script has put into a class or one of its bases, or `MISSING`.

        What a class nearer than the patched one has of its own comes first.
        """
        if not self._methods:
            return MISSING
        for base in kind.__mro__:
            patched = self._methods.get(base, {})
            if name in patched:
                return patched[name]
            if _OWN.get(name, name) in vars(base) or exposed.has(base, name):
                return MISSING
        return MISSING

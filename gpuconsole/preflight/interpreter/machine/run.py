"""One abstract run of a script: its trace, its settings, and what was found on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gpuconsole.core.estimate import Ask, BatchSource, ScriptFault
from gpuconsole.core.fleet import Backend
from gpuconsole.preflight.interpreter.domain.dimensions import UnsettledError
from gpuconsole.preflight.interpreter.domain.values import (
    OPEN,
    Blocked,
    Bound,
    Root,
    ShapeFault,
    SomeNumber,
    Sourced,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.frontend import questions
from gpuconsole.preflight.interpreter.frontend.questions import Answers
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES, Parameter, Tensor
from gpuconsole.preflight.trace import Kind, Ledger, Place, Storage
from gpuconsole.preflight.variant import AS_WRITTEN, Variant

CYCLES = 2
"""Optimizer steps followed: from the second on, gradients and optimizer state exist."""
MAX_WAIT = 8
"""Further cycles followed for an optimizer that does not step in each."""
SMALL = 1024
"""Bytes by which a run may hold more after a step without being said to grow."""
MAX_STEPS = 400_000
"""Syntax nodes evaluated before the run is given up: a bound on time, about one second."""
LARGEST_TENSOR = 2**50
Trail = Callable[[str, int], None]
"""Notes where a run is, by file and line, for whoever ends it from outside."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What one run is asked: the back end, the batch size, and answers to open questions."""

    backend: Backend = "gpu"
    batch: int | None = None
    batch_key: str = ""
    """The `Sourced.key` where `batch` is put in; "" puts it in at the loader."""
    batch_was: int | None = None
    """The batch size that the script itself has."""
    variant: Variant = AS_WRITTEN
    choices: Mapping[tuple[str, int], bool] = field(default_factory=dict)
    """How conditions that are not known are taken, by file and line."""
    endless: bool = False
    """Whether loaders are taken to have batches without end, so that their queue is full."""


@dataclass(slots=True)
class Amp:
    """The state of automatic mixed precision at a moment."""

    level: str = "O0"
    dtype: str = "float16"
    white: frozenset[str] = frozenset()
    """Operators that the script itself puts on the white list, by Paddle's names."""
    black: frozenset[str] = frozenset()


@dataclass(slots=True)
class Queue:
    """What waits in a loader beside its current batch."""

    length: int
    """Batches that wait."""
    answered: dict[str, list[Storage]] = field(default_factory=dict)
    """Parts of waiting batches that only an answer of the user tells, by its name."""


class LayerCall(NamedTuple):
    """One call of a layer: its class, the line that called it, its output, its operations."""

    kind: str
    file: str
    line: int
    output_shape: tuple[int, ...]
    parameters: int
    """Bytes of its own parameters, those of its sublayers aside."""
    flops: float


@dataclass(slots=True)
class Run:
    """The state of one abstract run, handed to every operator."""

    setting: Setting
    args: Sequence[str] = ()
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Answers to open questions, by the name or expression that they are given for."""
    asks: dict[str, Ask] = field(default_factory=dict)
    answers: Answers = field(init=False)
    answering: bool = field(init=False)
    """Whether there are answers, which each expression could be the question of."""
    numbers: dict[ast.Constant, Sourced] = field(default_factory=dict)
    """Whole numbers of the script that were met, by where they are written."""
    image_backend: str = "pil"
    """How data sets of the library give their pictures: "pil" or "cv2"."""
    mishap: str = ""
    """An error of the analysis itself that ended the run, and where; "" without one."""
    walking: int = 0
    """Loaders that have begun an epoch and not ended it: these close the cycles."""
    repeats: int = 0
    """Loops around what runs now that may turn more than once."""
    short_epochs: bool = False
    """Whether a loader has fewer batches than it could keep waiting."""
    feeding: list[tuple[int, str, int]] = field(default_factory=list)
    """Batch sizes of the loaders whose epochs are going on, with the line that walks over each."""
    batch_met: tuple[int, str, int] | None = None
    """The batch size that was met last, and where."""
    batch_now: int | None = None
    """The batch size of the loader being walked over."""
    loop: ast.For | None = None
    """The loop that was begun last: its names tell what a loader's fields are called."""
    tests: dict[tuple[str, int], str] = field(default_factory=dict)
    """Conditions that are not known and lead to different memory, by place, as written."""
    call: Callable[[Value, list[Value], dict[str, Value]], Value] | None = None
    calls: Any = None
    sources: dict[str, Any] = field(default_factory=dict)
    """Namespaces that are written as Paddle source, by folder."""
    ledger: Ledger = field(default_factory=Ledger)
    file: str = ""
    line: int = 0
    trail: Trail | None = None
    """What is told each statement before it is followed."""
    layer: str = ""
    """Path of the layer that is running."""
    moment: Literal["forward", "backward", "step"] = "forward"
    layers: dict[str, LayerCall] = field(default_factory=dict)
    """The last call of each layer, by path."""
    steps: int = 0
    grad_enabled: bool = True
    amp: Amp = field(default_factory=Amp)
    full_gradients: list[Parameter] = field(default_factory=list)
    """Parameters in half precision whose gradients are cast to single after each backward."""
    reduced: set[int] = field(default_factory=set)
    """Parameters whose gradients a reducer copies into groups until the backward pass is over."""
    kept: set[int] | None = None
    """Parameters whose gradients this process keeps; None where it keeps all."""
    at_once: bool = False
    """Whether a parameter is updated, and its gradient gone, as soon as the gradient is there."""
    draft: Any = None
    """What a script in static mode has written down so far."""
    in_program: bool = False
    """Whether a backward pass is that of a static program."""
    drafting: Ledger | None = None
    """Where tensors are drafted while a static program is written, without taking memory."""
    fed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes that a static program is fed with, by name."""
    nodes: list[Any] | None = None
    """Backward nodes made since something began to collect them."""
    recomputed: list[tuple[str, str, int]] = field(default_factory=list)
    """Containers whose repeated blocks a variant recomputes: path, class, how many."""
    around: Callable[[Any, Any, list[Value], dict[str, Value]], Value] | None = None
    """What is done around the call of a layer, where a variant changes how layers run."""
    dtype: str = "float32"
    doubt: Unknown | None = None
    """What the analysis first could not tell, or assumed: from then on no fault is certain."""
    unsure: int = 0
    """Conditions that are not known around what runs now, both sides of which are followed."""
    networks: int = 0
    """Calls of whole networks."""
    forwards: int = 0
    """Those that gave tensors."""
    lost: Unknown | None = None
    """What was called with a tensor, or stepped, without being known: it may be the network."""
    unknowns: dict[tuple[str, int, str], Unknown] = field(default_factory=dict)
    blocking: Unknown | None = None
    faults: dict[tuple[str, int, str], ScriptFault] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    widest_conv: int = 0
    flops: float = 0.0
    flops_done: float = 0.0
    bytes: float = 0.0
    """Bytes read and written by the operators of this cycle, forward."""
    bytes_done: float = 0.0
    closed_at: list[int] = field(default_factory=list)
    """Blocks born when each cycle was closed."""
    cycles: int = 0
    optimizer_steps: int = 0
    steps_closed: int = 0
    backwards: int = 0
    optimizers: int = 0
    steps_of: list[int] = field(default_factory=list)
    """Steps of each optimizer."""
    waited: int = 0
    held: int | None = None
    """Bytes of activations alive when the last cycle was closed."""
    abandoned: list[Any] = field(default_factory=list)
    """Batches that wait in loaders whose loops were left early: their threads keep them."""
    cutting: bool = False
    """Whether the analysis itself ends a loop that the script would go on with."""
    queue: Queue | None = None
    """The waiting batches of the loader that is walked over."""
    loaders: int = 0
    fetched: bool = False
    batch_seen: int | None = None
    batch_source: BatchSource | None = None
    batch_key: str = ""
    written: dict[str, Sourced] = field(default_factory=dict)
    lines_seen: set[tuple[str, int]] = field(default_factory=set)
    lines_lost: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.answers = Answers(self.assumptions)
        self.answering = bool(self.answers)

    @property
    def on_cpu(self) -> bool:
        """Whether Paddle's CPU back end is modelled, with its own temporaries."""
        return self.setting.backend == "cpu"

    def unknown(self, reason: str, cause: Value = None) -> Unknown:
        """Return an unknown value that arises here; what would settle `cause` settles it."""
        root = cause.root if isinstance(cause, Unknown) else None
        return Unknown(self.file, self.line, reason, root)

    def gap(self, reason: str) -> Unknown:
        """Return an unknown that no answer of the user could settle."""
        return Unknown(self.file, self.line, reason, Root("", self.file, self.line, "", "gap"))

    def number(self, reason: str) -> SomeNumber:
        """Return a number that nobody knows."""
        return SomeNumber(self.file, self.line, reason)

    def note_unknown(self, unknown: Unknown) -> None:
        """List an unknown that was met, whether or not it is on the memory path."""
        self.doubted(unknown)
        self.unknowns.setdefault((unknown.file, unknown.line, unknown.reason), unknown)
        self.lines_lost.add((self.file, self.line))

    def doubted(self, unknown: Unknown) -> None:
        """Remember that what follows may rest on something unknown or assumed."""
        if self.doubt is None:
            self.doubt = unknown

    def block(self, unknown: Unknown) -> None:
        """Record that the memory cannot be told, unless the steady state is already known."""
        self.note_unknown(unknown)
        if self.cycles < CYCLES:
            self.ask(unknown)
            if self.blocking is None:
                self.blocking = unknown

    def ask(self, unknown: Unknown) -> None:
        """Ask for what would settle an unknown inside the memory path; a few questions at most."""
        question = questions.ask(unknown)
        if question is not None and len(self.asks) < questions.MAX_ASKS:
            self.asks.setdefault(question.name, question)

    def batch_here(self) -> int | None:
        """Return the batch size where the script is now, as far as it is known."""
        return self.batch_now or self.batch_seen or self.setting.batch

    def fault(self, message: str, shapes: Sequence[tuple[int, ...]] = ()) -> Unknown:
        """Report that the script fails at the line being run; return what its result is.

        Every fault passes here. It is the script's only where nothing before it was unknown or
        assumed and the shapes are exact; otherwise it is one more unknown.
        """
        exact = not any(type(extent) is Bound for shape in shapes for extent in shape)
        if self.doubt is None and exact:
            self.accuse(message, shapes)
            return self.unknown(message)
        failed = self.gap(f"{message}; uncertain: {self._why_unsure()}")
        self.note_unknown(failed)
        return failed

    def _why_unsure(self) -> str:
        doubt = self.doubt
        if doubt is None:
            return "sizes vary with the data"
        return f"{Path(doubt.file).name}:{doubt.line}: {doubt.reason[:120]}"

    def refuse(self, message: str) -> None:
        """Report a command line that lacks what the script asks for.

        Nothing that came before changes that, unless this is one side of an unknown condition.
        """
        if self.unsure:
            self.fault(message)
        else:
            self.accuse(message)

    def accuse(self, message: str, shapes: Sequence[tuple[int, ...]] = ()) -> None:
        """Record a mistake at the line being run that depends on nothing but what is written."""
        plain = tuple(tuple(int(extent) for extent in shape) for shape in shapes)
        key = (self.file, self.line, message)
        self.faults.setdefault(key, ScriptFault(self.file, self.line, message, plain))

    def storage(self, nbytes: int, kind: Kind = "activations") -> Storage:
        """Allocate a block."""
        if nbytes > LARGEST_TENSOR:
            raise Blocked(self.unknown(f"a tensor of {nbytes} bytes cannot be meant"))
        place = Place(self.file, self.line, self.layer, self.moment)
        drafted = self.drafting is not None and kind != "inputs"
        ledger = self.drafting if drafted and self.drafting is not None else self.ledger
        return Storage(ledger, int(nbytes), kind, place)

    def tensor(self, shape: tuple[int, ...], dtype: str = "", kind: Kind = "activations") -> Tensor:
        """Allocate a tensor."""
        dtype = dtype or self.dtype
        if any(type(extent) is Bound for extent in shape):
            self.flags.add("variable-shape")
            if prod(shape) >= OPEN:
                raise UnsettledError(max(shape))
        if any(extent < 0 for extent in shape):
            raise ShapeFault(f"a tensor cannot have the shape {list(shape)}", shape)
        return Tensor(shape, dtype, self.storage(prod(shape) * ITEM_BYTES[dtype], kind))

    def parameter(self, shape: Sequence[int], dtype: str = "", *, trainable: bool = True) -> Tensor:
        """Allocate a parameter; buffers and running statistics are not trainable."""
        dtype = dtype or self.dtype
        shape = tuple(int(extent) for extent in shape)
        if any(extent < 0 for extent in shape):
            raise ShapeFault(f"a parameter cannot have the shape {list(shape)}", shape)
        storage = self.storage(prod(shape) * ITEM_BYTES[dtype], "parameters")
        one = Parameter(shape, dtype, storage, stop_gradient=not trainable)
        one.trainable = trainable
        if self.drafting is not None:
            # A program keeps its parameters, whatever becomes of the layers that made them.
            self.draft.parameters.append(one)
        return one

    def scratch(self, nbytes: float) -> None:
        """Allocate and free at once what a kernel needs while it runs."""
        if nbytes:
            self.storage(int(nbytes), "workspace")

    def sourced(self, number: int, file: str, line: int, kind: str, key: str) -> Sourced:
        """Return a whole number that remembers its place, replaced there if that was asked."""
        setting = self.setting
        if setting.batch is not None and key == setting.batch_key:
            number = setting.batch
        one = self.written[key] = Sourced.at(number, file, line, kind, key)
        return one

    def found_batch(self, batch: Value) -> None:
        """Remember where the batch size was written: first come, first kept, until a step tells
        which loader trains."""
        if not isinstance(batch, int):
            return
        self.batch_met = (batch, self.file, self.line)
        if self.batch_seen is None:
            self._take_batch(*self.batch_met)

    def stepped(self) -> None:
        """Count an optimizer step; the first one tells whose batches are trained on."""
        self.optimizer_steps += 1
        if self.optimizer_steps == 1 and self.feeding:
            self._take_batch(*self.feeding[0])

    def _take_batch(self, batch: int, file: str, line: int) -> None:
        self.batch_seen = int(batch)
        if isinstance(batch, Sourced):
            self.batch_source = BatchSource(batch.file, batch.line, batch.kind)
            self.batch_key = batch.key
        else:
            self.batch_source = BatchSource(file, line, "constant")
            self.batch_key = ""

    def close_cycle(self) -> None:
        """Close a cycle when the optimizer has stepped since the last, or nothing is trained."""
        if self.optimizers and self.optimizer_steps == self.steps_closed:
            return
        self.steps_closed = self.optimizer_steps
        self._watch_growth()
        rare = min(self.steps_of, default=CYCLES) < CYCLES
        if rare and self.cycles == CYCLES - 1 and self.waited < MAX_WAIT:
            # One of several optimizers steps more rarely: its own second step is waited for.
            self.waited += 1
        else:
            self.cycles += 1
        self.flops_done, self.flops = self.flops, 0.0
        self.bytes_done, self.bytes = self.bytes, 0.0
        self.closed_at.append(len(self.ledger.kinds))

    def close_inference(self) -> None:
        """Take a script that ended, and ran a network without training any, as steady.

        All that it ever allocates was seen; where something was not understood it was not.
        """
        trained = self.optimizers or self.backwards
        whole = self.blocking is None and not self.unknowns and not self.faults
        if self.cycles < CYCLES and self.layers and whole and not trained:
            self.cycles = CYCLES
            if self.flops:
                self.flops_done, self.bytes_done = self.flops, self.bytes

    def _watch_growth(self) -> None:
        """Flag a run that holds more after one step than after the step before."""
        before, self.held = self.held, self.ledger.live("activations")
        if before is not None and self.optimizers and self.held - before > SMALL:
            self.flags.add("grows")
            note = "Memory grows with every step: something keeps a step's tensors, such as a list."
            if note not in self.notes:
                self.notes.append(note)

    def close_hand_made_cycle(self) -> None:
        """Close a cycle at the end of a loop's turn where no loader is being walked over."""
        if not self.walking and self.optimizer_steps != self.steps_closed:
            self.close_cycle()

"""One abstract run of a script: what it is asked, where it is, and what it has recorded."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import TYPE_CHECKING
from weakref import ref

from gpuconsole.core.estimate import ScriptFault
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.interpreter.domain.dimensions import UnsettledError
from gpuconsole.preflight.interpreter.domain.values import (
    OPEN,
    Blocked,
    Blocks,
    Bound,
    Root,
    ShapeFault,
    SomeNumber,
    Sourced,
    Unknown,
    Unsized,
    Value,
    holds_memory,
)
from gpuconsole.preflight.interpreter.frontend.questions import Answers
from gpuconsole.preflight.interpreter.machine.run_state.batches import Batches
from gpuconsole.preflight.interpreter.machine.run_state.findings import Findings
from gpuconsole.preflight.interpreter.machine.run_state.modes import Mode, Patches, Program
from gpuconsole.preflight.interpreter.machine.run_state.progress import CYCLES, Progress
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting
from gpuconsole.preflight.interpreter.machine.run_state.tape import Tape
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES, Parameter, Tensor
from gpuconsole.preflight.memory.trace import Kind, Place, Storage

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.paddle.source_modules import Written

SMALL = 1024
"""Bytes by which a run may hold more after a step without being said to grow."""
MAX_STEPS = 600_000
"""Syntax nodes evaluated before the run is given up: a bound on time, some two seconds."""
STEPS_ON = 100_000
"""Steps that a script is followed on when its memory is unknown: for what else to ask, and for
its batch size."""
SIDE_STEPS = 60_000
"""Steps by which one side of a condition may take longer than both together, half as much again
where that is more: a longer one has lost its way."""
LARGEST_TENSOR = 2**50
Trail = Callable[[str, int], None]
"""Notes where a run is, by file and line, for the process that ends it from outside."""


@dataclass(slots=True)
class Run:
    """The state of one abstract run, handed to every operator."""

    setting: Setting
    args: Sequence[str] = ()
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """Answers to open questions, by the name or expression that they are given for."""
    trail: Trail | None = None
    """Called with each statement before it is followed."""
    answers: Answers = field(init=False)
    answering: bool = field(init=False)
    """Whether there are answers, which each expression could be the question of."""
    interp: Interpreter = field(init=False)
    """What follows the script for this run."""
    sources: dict[str, Written] = field(default_factory=dict)
    """Namespaces that are written as Paddle source, by folder."""
    image_backend: str = "pil"
    """How data sets of the library give their pictures: "pil" or "cv2"."""
    file: str = ""
    line: int = 0
    steps: int = 0
    most_steps: int = MAX_STEPS
    """Steps after which it is given up."""
    steps_on: int = STEPS_ON
    """Steps that it goes on once its memory is unknown."""
    blocked_at: int = 0
    """The step at which it was found that its memory is unknown, if that was found."""
    repeats: int = 0
    """Loops around what runs now that may run more than once."""
    in_library: int = 0
    """Depth of calls into source models of libraries."""
    loop: ast.For | None = None
    """The loop that was begun last: its names tell what a loader's fields are called."""
    unsized: list[tuple[ref[Blocks], Unknown]] = field(default_factory=list)
    """The tensors of unknown size that the script has made before it trained."""
    somewhere: list[object] = field(default_factory=list)
    """What was put into things that are not known: they may keep it."""
    uncollected: list[object] = field(default_factory=list)
    """Objects in cycles of references, which live until Python's collector runs."""
    numbered: Counter[str] = field(default_factory=Counter)
    """How many names of each beginning Paddle has given."""
    patches: Patches = field(default_factory=Patches)
    """What the script has replaced in libraries."""
    tape: Tape = field(default_factory=Tape)
    progress: Progress = field(default_factory=Progress)
    batch: Batches = field(default_factory=Batches)
    mode: Mode = field(default_factory=Mode)
    program: Program = field(default_factory=Program)
    findings: Findings = field(default_factory=Findings)

    def __post_init__(self) -> None:
        self.answers = Answers(self.assumptions)
        self.answering = bool(self.answers)
        whole = self.setting.side_of
        if whole:
            self.most_steps = min(MAX_STEPS, whole + max(whole // 2, SIDE_STEPS))
            self.steps_on = 0

    @property
    def on_cpu(self) -> bool:
        """Whether Paddle's CPU back end is modelled, with its own temporaries."""
        return self.setting.backend == "cpu"

    # -- unknowns and faults

    def unknown(self, reason: str, cause: Value = None) -> Unknown:
        """Return an unknown value that arises here; what would settle `cause` settles it."""
        root = cause.root if isinstance(cause, Unknown) else None
        return Unknown(self.file, self.line, reason, root)

    def gap(self, reason: str) -> Unknown:
        """Return an unknown that no answer of the user could settle."""
        return Unknown(self.file, self.line, reason, Root("", self.file, self.line, "", "gap"))

    def number(self, reason: str) -> SomeNumber:
        """Return a number of which nothing is known."""
        return SomeNumber(self.file, self.line, reason)

    def note_unknown(self, unknown: Unknown) -> None:
        """List an unknown that was met, whether or not it is on the memory path."""
        self.findings.note_unknown(unknown, self.file, self.line)

    def doubted(self, unknown: Unknown) -> None:
        """Remember that what follows may rest on something unknown or assumed."""
        self.findings.doubted(unknown)

    def block(self, unknown: Unknown) -> None:
        """Record that the memory is unknown, unless the steady state is already known."""
        if self.progress.cycles < CYCLES:
            self.give_up(unknown)
        else:
            self.note_unknown(unknown)

    def give_up(self, unknown: Unknown) -> None:
        """Record that the memory is unknown, whatever is known of it so far."""
        self.note_unknown(unknown)
        if self.findings.blocking is None:
            self.blocked_at = self.steps
        self.findings.block(unknown)

    def fault(self, message: str, shapes: Sequence[tuple[int, ...]] = ()) -> Unknown:
        """Report that the script fails at the line being run; return what its result is.

        Every fault passes here. It is the script's only where nothing before it was unknown or
        assumed and the shapes are exact; otherwise it is one more unknown. In the source model of a
        library only shapes that do not go together are a fault: the model may lack the rest.
        """
        if self.in_library and not shapes:
            failed = self.gap(message)
            self.note_unknown(failed)
            return failed
        exact = not any(type(extent) is Bound for shape in shapes for extent in shape)
        if self.findings.doubt is None and exact:
            if self.interp.trying:
                # The script may be prepared for it.
                return self.interp.lacking(message, "ValueError")
            self.accuse(message, shapes)
            return self.unknown(message)
        failed = self.gap(f"{message}; uncertain: {self.findings.why_unsure()}")
        self.note_unknown(failed)
        return failed

    def refuse(self, message: str) -> None:
        """Report a command line that lacks what the script asks for.

        Nothing that came before changes that, unless this is one side of an unknown condition.
        """
        if self.findings.unsure:
            self.fault(message)
        else:
            self.accuse(message)

    def accuse(self, message: str, shapes: Sequence[tuple[int, ...]] = ()) -> None:
        """Record a mistake at the line being run that depends on nothing but what is written."""
        plain = tuple(tuple(int(extent) for extent in shape) for shape in shapes)
        self.findings.accuse(ScriptFault(self.file, self.line, message, plain))

    def keep_somewhere(self, value: Value) -> None:
        """Keep what is put into something unknown, where it may hold memory."""
        if holds_memory(value):
            self.somewhere.append(value)

    def unique(self, beginning: str) -> str:
        """Return a name that nothing else has, as `paddle.utils.unique_name` makes them."""
        number = self.numbered[beginning]
        self.numbered[beginning] += 1
        return f"{beginning}_{number}"

    # -- memory

    def unsized_tensor(self, unknown: Unknown) -> Unknown:
        """Return a new tensor with a size that rests on something unknown."""
        if self.progress.optimizer_steps:
            return unknown
        tensor = Unsized(unknown.file, unknown.line, unknown.reason, unknown.root)
        self.unsized.append((ref(tensor.memory), unknown))
        return tensor

    def storage(self, nbytes: int, kind: Kind = "activations") -> Storage:
        """Allocate a block."""
        if nbytes > LARGEST_TENSOR:
            raise Blocked(self.unknown(f"a tensor of {nbytes} bytes cannot be meant"))
        tape, drafting = self.tape, self.program.drafting
        place = Place(self.file, self.line, tape.layer, tape.moment)
        ledger = drafting if drafting is not None and kind != "inputs" else tape.ledger
        return Storage(ledger, int(nbytes), kind, place)

    def tensor(self, shape: tuple[int, ...], dtype: str = "", kind: Kind = "activations") -> Tensor:
        """Allocate a tensor."""
        dtype = dtype or self.mode.dtype
        if any(type(extent) is Bound for extent in shape):
            self.findings.flags.add("variable-shape")
            if prod(shape) >= OPEN:
                raise UnsettledError(max(shape))
        if any(extent < 0 for extent in shape):
            raise ShapeFault(f"a tensor cannot have the shape {list(shape)}", shape)
        return Tensor(shape, dtype, self.storage(prod(shape) * ITEM_BYTES[dtype], kind))

    def parameter(self, shape: Sequence[int], dtype: str = "", *, trainable: bool = True) -> Tensor:
        """Allocate a parameter; buffers and running statistics are not trainable."""
        dtype = dtype or self.mode.dtype
        shape = tuple(int(extent) for extent in shape)
        if any(extent < 0 for extent in shape):
            raise ShapeFault(f"a parameter cannot have the shape {list(shape)}", shape)
        storage = self.storage(prod(shape) * ITEM_BYTES[dtype], "parameters")
        parameter = Parameter(shape, dtype, storage, stop_gradient=not trainable)
        parameter.trainable = trainable
        draft = self.program.draft
        if draft is not None and self.program.drafting is not None:
            # A program keeps its parameters, whatever becomes of the layers that made them.
            draft.parameters.append(parameter)
        return parameter

    def scratch(self, nbytes: float) -> None:
        """Allocate and free at once what a kernel needs while it runs."""
        if nbytes:
            self.storage(int(nbytes), "workspace")

    # -- batch size

    def batch_here(self) -> int | None:
        """Return the batch size where the script is now, as far as it is known."""
        return self.batch.now or self.batch.seen or self.setting.batch

    def sourced(self, number: int, file: str, line: int, kind: str, key: str) -> Sourced:
        """Return a whole number that remembers its place, replaced there if that was asked."""
        setting = self.setting
        if setting.batch is not None and key == setting.batch_key:
            number = setting.batch
        sourced = self.batch.written[key] = Sourced.at(number, file, line, kind, key)
        return sourced

    def found_batch(self, batch: Value) -> None:
        """Remember a batch size that is met at the line being run."""
        if isinstance(batch, int):
            self.batch.found(batch, self.file, self.line)

    # -- cycles

    def stepped(self) -> None:
        """Count an optimizer step; the first one shows which loader's batches are trained on."""
        self.progress.optimizer_steps += 1
        if self.progress.optimizer_steps == 1 and self.batch.feeding:
            self.batch.take(*self.batch.feeding[0])

    def close_cycle(self) -> None:
        """Close a cycle when the optimizer has stepped since the last, or nothing is trained."""
        progress = self.progress
        if progress.optimizers and progress.optimizer_steps == progress.steps_closed:
            return
        progress.steps_closed = progress.optimizer_steps
        self._watch_growth()
        progress.close_cycle()
        if progress.optimizers and progress.cycles == CYCLES:
            self.interp.look_beside_training()
        self.tape.close_cycle()
        progress.closed_at.append(len(self.tape.ledger.kinds))

    def close_hand_made_cycle(self) -> None:
        """Close a cycle at the end of a loop's iteration where no loader is being walked over."""
        progress = self.progress
        if not progress.walking and progress.optimizer_steps != progress.steps_closed:
            self.close_cycle()

    def close_short_run(self) -> None:
        """Take a script that ended as steady, if it ran a network without training any or made as
        few steps as it makes.

        All that it ever allocates was seen; where something was not understood it was not.
        """
        progress, findings, tape = self.progress, self.findings, self.tape
        trains = progress.optimizers or progress.backwards
        unfinished = progress.open_ended or (trains and not progress.optimizer_steps)
        whole = findings.blocking is None and not findings.unknowns and not findings.faults
        if progress.cycles < CYCLES and tape.layers and whole and not unfinished:
            progress.cycles = CYCLES
            if tape.flops:
                tape.flops_done, tape.bytes_done = tape.flops, tape.bytes

    def _watch_growth(self) -> None:
        """Count steps after which more is held than after the step before: something fills up, or
        grows without end."""
        progress = self.progress
        before, progress.held = progress.held, self.tape.kept()
        more = progress.held - before if before is not None and progress.backwards else 0
        progress.growing = progress.growing + 1 if more > SMALL else 0
        progress.growth = max(more, 0)

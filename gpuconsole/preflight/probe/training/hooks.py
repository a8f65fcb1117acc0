"""The script's own training steps, watched: loaders, optimizers, layers, programs."""

from __future__ import annotations

import math
import sys
import types
import weakref
from collections import UserDict
from typing import TYPE_CHECKING

from ..notes import note, notes
from . import allocator_events, batch_size, cycles, loaders, seeding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import ModuleType
    from typing import Protocol

    from paddle import Tensor
    from paddle.io import DataLoader
    from paddle.nn import Layer
    from paddle.optimizer import Optimizer
    from paddle.static import Executor, Program

    from ..documents import Reader, Request, Run
    from ..run import Channel

    class Recorder(Protocol):
        """Puts the moments of a run on a time line, and says of what kind its blocks are."""

        count: int
        """Moments so far."""

        def start(self) -> None:
            """Begin to record."""

        def mark(self, what: str, key: int = 0) -> int:
            """Note a moment and return its number."""

        def tag(self, addresses: Sequence[int], kind: str) -> None:
            """Say of what kind the blocks at some addresses are, now."""


BROKEN = "The script broke off after step {}: {}. What would come later is not in this answer."
NO_MEMORY, EXHAUSTED = "its memory was not enough", "ResourceExhausted"
"""What is said of a script that broke off because Python, or Paddle, had no memory left."""
PROGRAM = "program"
"""The key of the optimizers of static programs, which step within them."""


def address(tensor: Tensor) -> int:
    """Return where a tensor's memory lies, 0 where it has none of its own."""
    try:
        return int(tensor.data_ptr())
    except Exception:
        return 0


def tensors(value: object, depth: int = 0) -> Iterator[Tensor]:
    """Yield the tensors of a nested batch."""
    if isinstance(value, (dict, UserDict)):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        if depth < 8:
            for item in value:
                yield from tensors(item, depth + 1)
    elif hasattr(value, "data_ptr"):
        yield value


def nbytes(tensor: Tensor) -> int:
    """Return the bytes of a dense tensor. Scripts that were converted replace `Tensor.size`."""
    return math.prod(map(int, tensor.shape)) * int(tensor.element_size())


MOST_EMPTY = 100
"""Epochs in a row without a batch, until a loop is taken to wait for one for ever."""


class Session:
    """One run: names blocks, and ends the run when enough cycles were seen."""

    sparing = False
    """Whether a batch may be filled with its first samples, because only shapes count."""

    def __init__(self, paddle: ModuleType, request: Request, channel: Channel) -> None:
        self.paddle = paddle
        self.request = request
        self.channel = channel
        self.allocations = allocator_events.Recorder(paddle)
        self.record: Recorder = self.allocations
        self.layers: weakref.WeakSet[Layer] = weakref.WeakSet()
        self.optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self.cycles = cycles.Cycles(request["steps"])
        self.depth = 0
        self.own: dict[int, int | None] = {}
        """The script's own batch size, by reader."""
        self.flags: set[str] = set()
        self.waiting: dict[int, int] = {}
        self.family: dict[int, int] = {}
        """The first reader of the loader of each reader."""
        self.kept = 0
        """Readers that were left before their end."""
        self.empty = 0
        """Epochs in a row that had no batch."""
        self.left_early: list[str] = []
        """What is said of them."""
        self.readers: dict[int, Reader] = {}
        self.waits: list[tuple[int, int | None]] = []
        """The readers in which batches waited, each time that these were others, and how many at
        most where its epoch had no more."""
        self.open_readers: weakref.WeakValueDictionary[int, loaders.Watched] = (
            weakref.WeakValueDictionary()
        )
        self.by_hand: set[int] = set()
        """Readers that are asked for batches by a call."""
        self.unread: weakref.WeakSet[DataLoader] = weakref.WeakSet()
        """Loaders that were made and have given no batch."""
        self.shapes: dict[int, list[list[list[int]]]] = {}
        self.seen: set[int] = set()
        self.widest_conv = 0
        self.inside = 0

    def install(self) -> None:
        """Hook Paddle and begin to record."""
        self.paddle.seed(1)
        seeding.alike(1)
        self._layers()
        self._optimizers()
        self._backward()
        self._executor()
        self._predictor()
        self._convolutions()
        self._precision()
        watch_attention(self.paddle, self.flags)
        loaders.install(self.paddle, self)
        self.record.start()

    # -- cycles

    def fetching(self) -> loaders.Fetching:
        """Return whether the batches of a loader are fetched whole, for a run that is `sparing`."""
        return loaders.Fetching(None, set())

    def asked(self, reader: int) -> bool:
        """A reader is asked for a batch; returns whether it goes on with its epoch."""
        self.closed_if(self.cycles.fetched(reader))
        return not self.cycles.cut(reader)

    def opens(self, reader: int, left: int | None = None) -> None:
        """Batches wait in a reader from now on: no more than are left of its epoch, where that is
        fewer than it holds ready."""
        self.record.mark("open", reader)
        self.waits.append((reader, left))

    def keeps_batches(self, family: int) -> bool:
        """Tell whether an epoch of a loader keeps something of each batch."""
        return False

    def begun(self, reader: int, ready: int) -> None:
        """A reader is made: it fetches so many batches before it is asked for one."""

    def waiting_of(self, reader: int) -> int:
        """Return the bytes of a batch that waits in a reader: as large as those of other readers of
        its loader where it was asked for none; 0 where none of them was."""
        family = self.family.get(reader)
        alike = (size for other, size in self.waiting.items() if self.family.get(other) == family)
        return self.waiting.get(reader) or max(alike, default=0)

    def left(self, reader: int) -> None:
        """A reader's epoch has ended; a script that waits for batches may ask for ever."""
        epoch = self.cycles.readers.get(reader)
        self.empty = self.empty + 1 if epoch is not None and epoch.batches < 2 else 0
        self.cycles.closed(reader)
        if self.empty >= MOST_EMPTY:
            self.has_no_batches()

    def has_no_batches(self) -> None:
        """Epoch after epoch has no batch: the data are too few for this size."""
        self.channel.fail("script", "Its data make no batch of this size.")

    def abandoned(self, ready: int) -> None:
        """A reader was left before its epoch's end, and keeps the batches that it has ready."""
        self.kept += 1
        if self.kept > 1:
            self.flags.add("grows")
        # Seen, not taken for granted: it casts no doubt on an error that comes later.
        self.left_early = [loaders.LEFT.format(ready, self.kept)]

    def leaves_used(
        self, loader: DataLoader, batch: object, batches: int | None, ready: int
    ) -> None:
        """A loader of so many batches, some of which it holds ready, gave a bare one, which is left
        to Python's collector when it was used: that of this process where data is real."""

    def closed_if(self, ended: bool) -> None:
        """A cycle may have ended; after the last one the run does."""
        if not ended:
            return
        self.record.mark("cycle")
        wanted, seen = self.request["steps"], self.cycles.seen
        stage = f"step {min(seen + 1, wanted)} of {wanted}"
        self.channel.progress(min(0.95, 0.1 + 0.85 * seen / wanted), stage)
        for optimizer in unheld(self.optimizers):
            self.cycles.released(optimizer)
        if self.cycles.done or self.is_long():
            self.complete()

    def is_long(self) -> bool:
        """Tell whether fewer cycles than were asked for are enough, because each takes long."""
        return False

    def complete(self) -> None:
        """Enough cycles were seen."""
        self.finish()

    def ended(self) -> None:
        """The script came to its end by itself."""
        if not self.cycles.all_steps and not self.cycles.calls:
            self.channel.fail("no-step", "The script ended and trained or ran no network.")
        self.finish()

    def broke(self, why: str) -> None:
        """The script broke off: what was seen before may be enough."""
        if self.cycles.enough:
            note(BROKEN.format(self.cycles.seen, why))
            self.finish()

    def finish(self) -> None:
        """Send what was recorded and leave."""
        self.name_blocks()
        waiting = {reader: self.waiting_of(reader) for reader in self.readers}
        recorded = allocator_events.blocks(self.allocations, waiting)
        answer: Run = {**allocator_events.as_json(recorded), **self.facts()}
        self.channel.end({"run": answer})

    def facts(self) -> Run:
        """Return what the run tells beside its blocks."""
        return {
            "batch": self.request["size"] or self.own_batch() or 0,
            "paddle": self.paddle.__version__,
            "readers": list(self.readers.values()),
            "waits": self.waits_of(self.waits),
            "flags": sorted(self.flags),
            "shapes": list(self.shapes.values()),
            "widest_conv": self.widest_conv,
            "cycles_seen": self.cycles.seen,
            "batch_seen": sorted(self.seen),
            "trained": bool(self.cycles.all_steps),
            "untrained": bool(self.cycles.optimizers and not self.cycles.all_steps),
            "own_batch": self.own_batch(),
            "trained_on": self.trained_on(),
            "trains": self.trains(),
            "how": self.request["batch"]["how"],
            "loaders": batch_size.reached(),
            "options": batch_size.options(self.own_batch()),
            "notes": [*notes(), *self.left_early],
        }

    def waits_of(self, waits: Sequence[tuple[int, int | None]]) -> list[list[int | None]]:
        """Return waiting batches by the places of their readers, as the document has these."""
        place_of = {reader: place for place, reader in enumerate(self.readers)}
        return [[place_of[reader], left] for reader, left in waits]

    def trains(self) -> list[int] | None:
        """Return the batch sizes of the script's own that are trained on, where the others keep
        theirs; else None."""
        if batch_size.in_proportion():
            return None
        sizes = (self.own.get(reader) for reader in self.cycles.training)
        return sorted({size for size in sizes if size})

    def own_batch(self) -> int | None:
        """Return the script's own batch size: as it is known, else of the loader that trains, else
        of the first used."""
        if self.request["batch"]["how"] in ("argument", "edit"):
            return self.request["batch"]["value"]
        order = self.cycles.training or sorted(self.own)
        return next((self.own[reader] for reader in order if self.own.get(reader)), None)

    def trained_on(self) -> int | None:
        """Return how many samples the batches have that reach the optimizer; None without any."""
        shapes_of_readers = [
            self.shapes[reader] for reader in self.cycles.training if self.shapes.get(reader)
        ]
        return next(
            (shape[0] for shapes in shapes_of_readers for shape in shapes[0] if shape), None
        )

    # -- what blocks are

    def name_blocks(self) -> None:
        """Say which blocks are parameters and optimizer states."""
        for layer in list(self.layers):
            own = list(layer._parameters.values()) + list(layer._buffers.values())
            self.record.tag([address(tensor) for tensor in own if tensor is not None], "parameters")
        for optimizer in list(self.optimizers):
            for states in getattr(optimizer, "_accumulators", {}).values():
                self.record.tag([address(tensor) for tensor in states.values()], "optimizer")
            masters = getattr(optimizer, "_master_weights", {})
            self.record.tag([address(tensor) for tensor in masters.values()], "optimizer")

    def name_gradients(self, optimizer: Optimizer) -> None:
        """Say which blocks are the gradients and parameters of an optimizer."""
        groups = getattr(optimizer, "_param_groups", None) or optimizer._parameter_list or []
        own: list[Tensor] = []
        for group in groups:
            own += group["params"] if isinstance(group, dict) else [group]
        self.record.tag([address(tensor) for tensor in own], "parameters")
        addresses = []
        for tensor in own:
            gradient = getattr(tensor, "grad", None)
            if gradient is None:
                continue
            if getattr(gradient, "is_selected_rows", bool)():
                self.flags.add("sparse-gradient")
            else:
                addresses.append(address(gradient))
        self.record.tag(addresses, "gradients")

    def batch(self, reader: int, batch: object) -> object:
        """A loader gave a batch: remember its size, shape and place, and hand it on."""
        parts = list(tensors(batch))
        shapes = [list(tensor.shape) for tensor in parts]
        self.shapes.setdefault(reader, []).append(shapes)
        self.seen.update(shape[0] for shape in shapes[:4] if shape)
        self.note_own(reader, shapes)
        total = math.ceil(
            sum(nbytes(tensor) for tensor in parts) * batch_size.share(self.own[reader])
        )
        self.waiting[reader] = max(total, self.waiting.get(reader, 0))
        self.record.tag([address(tensor) for tensor in parts], "inputs")
        return batch

    def note_own(self, reader: int, shapes: Sequence[Sequence[int]]) -> None:
        """Remember the batch size that a reader has of its own: replaced, else of its batches."""
        if reader not in self.own:
            replaced = self.readers[reader].get("own") if reader in self.readers else None
            self.own[reader] = replaced or next((shape[0] for shape in shapes if shape), None)

    # -- hooks

    def _layers(self) -> None:
        session = self
        cls = self.paddle.nn.Layer
        old_init, old_call = cls.__init__, cls.__call__

        def init(self: Layer, *args: object, **kwargs: object) -> None:
            old_init(self, *args, **kwargs)
            session.layers.add(self)

        def call(self: Layer, *args: object, **kwargs: object) -> object:
            session.inside += 1
            try:
                return old_call(self, *args, **kwargs)
            finally:
                session.inside -= 1
                if not session.inside:
                    session.called(self.training, has_nothing_to_train(self))

        cls.__init__, cls.__call__ = init, call

    def called(self, training: bool, bare: bool = False) -> None:
        """A layer outside any other was run, in the mode of training or not; a `bare` one, such as
        a loss, has nothing to train: its mode, which no code changes, says nothing."""
        evaluating = not training or bare or not self.paddle.is_grad_enabled()
        self.closed_if(self.cycles.called(evaluating))

    def went_back(self) -> None:
        """A backward pass is made."""
        self.cycles.went_back()

    def gathers(self) -> None:
        """A backward pass is made that adds up gradients for a step."""
        self.went_back()

    def _backward(self) -> None:
        """Note each backward pass, however it is asked for."""
        paddle = self.paddle
        for owner, name, noted in ((paddle.Tensor, "backward", self.gathers),
                                  (paddle.autograd, "backward", self.gathers),
                                  (paddle, "grad", self.went_back)):  # fmt: skip
            setattr(owner, name, _before(getattr(owner, name), noted))

    def _predictor(self) -> None:
        """Note each run of an inference engine, and the batch that it is given."""
        session = self
        inference = self.paddle.inference
        old_run, old_shape = inference.Predictor.run, inference.Tensor.reshape

        def run(self: object, *args: object) -> object:
            try:
                return old_run(self, *args)
            finally:
                session.called(False)

        def reshape(self: object, shape: Sequence[int]) -> object:
            session.seen.update(list(shape)[:1])
            session.own.setdefault(0, next(iter(shape), None))
            return old_shape(self, shape)

        inference.Predictor.run, inference.Tensor.reshape = run, reshape

    def _optimizers(self) -> None:
        session = self

        def wrap_init(cls: type[Optimizer]) -> None:
            old = cls.__dict__["__init__"]

            def init(self: Optimizer, *args: object, **kwargs: object) -> None:
                session.optimizer_made(self)
                old(self, *args, **kwargs)
                session.optimizers.add(self)

            cls.__init__ = init

        def wrap_step(cls: type, name: str) -> None:
            old = cls.__dict__[name]

            def step(self: Optimizer, *args: object, **kwargs: object) -> object:
                session.step_begins(self)
                try:
                    return old(self, *args, **kwargs)
                finally:
                    session.step_ends(self)

            setattr(cls, name, step)

        for cls in subclasses(self.paddle.optimizer.Optimizer):
            if "__init__" in cls.__dict__:
                wrap_init(cls)
            for name in ("step", "minimize"):
                if name in cls.__dict__:
                    wrap_step(cls, name)

    def optimizer_made(self, optimizer: Optimizer) -> None:
        """An optimizer is made, for programs or for as long as the script holds it."""
        if not self.paddle.in_dynamic_mode():
            self.cycles.made(PROGRAM)
            return
        self.cycles.made(id(optimizer))
        weakref.finalize(optimizer, self.cycles.released, id(optimizer))

    def step_begins(self, optimizer: Optimizer) -> None:
        """An optimizer steps."""
        self.depth += 1
        if self.depth > 1 or not self.paddle.in_dynamic_mode():
            return
        self.closed_if(self.cycles.steps_now(id(optimizer)))
        self.name_gradients(optimizer)

    def step_ends(self, optimizer: Optimizer) -> None:
        """An optimizer has stepped."""
        self.depth -= 1
        if not self.depth and self.paddle.in_dynamic_mode():
            self.cycles.stepped(id(optimizer))
            if self.cycles.all_steps == 1:
                self.name_blocks()

    def _executor(self) -> None:
        session = self
        cls = self.paddle.static.Executor
        old = cls.run

        def run(
            self: Executor,
            program: Program | None = None,
            feed: object = None,
            fetch_list: object = None,
            *args: object,
            **kwargs: object,
        ) -> object:
            counts = bool(fetch_list or feed)
            if counts and not session.readers:
                session.closed_if(session.cycles.fetched(0))
                shapes = [shape_of(value) for value in fed(feed)]
                session.shapes.setdefault(0, []).append(shapes)
                session.seen.update(shape[0] for shape in shapes if shape)
                session.note_own(0, shapes)
            try:
                return old(self, program, feed, fetch_list, *args, **kwargs)
            finally:
                if counts:
                    session.program_ran()

        cls.run = run

    def program_ran(self) -> None:
        """A program was fed, or run for a result: it trains where an optimizer was made for
        programs."""
        if PROGRAM in self.cycles.steps:
            # Its backward pass is part of the program.
            self.cycles.went_back()
            self.cycles.stepped(PROGRAM)
        else:
            self.cycles.called(True)

    def _convolutions(self) -> None:
        operators = self.paddle._C_ops
        for name in ("conv2d", "depthwise_conv2d", "conv3d", "conv2d_transpose",
                     "depthwise_conv2d_transpose", "conv3d_transpose"):  # fmt: skip
            old = getattr(operators, name, None)
            if old is not None:
                setattr(operators, name, self._measured(old))

    def _measured(self, old: Callable[..., object]) -> Callable[..., object]:
        def convolution(x: Tensor, *args: object, **kwargs: object) -> object:
            if self.paddle.in_dynamic_mode():
                self.widest_conv = max(self.widest_conv, nbytes(x))
            return old(x, *args, **kwargs)

        return convolution

    def _precision(self) -> None:
        old = self.paddle.amp.auto_cast
        session = self

        def auto_cast(enable: bool = True, *args: object, **kwargs: object) -> object:
            if enable:
                session.flags.add("amp")
            return old(enable, *args, **kwargs)

        self.paddle.amp.auto_cast = auto_cast


def fed(feed: object) -> list[object]:
    """Return what a program is fed, for one device or the first of several."""
    first = feed[0] if isinstance(feed, (list, tuple)) and feed else feed
    return list(first.values()) if isinstance(first, dict) else []


def shape_of(value: object) -> list[int]:
    """Return the shape of an array or of a tensor of Paddle's older kind, [] of anything else."""
    shape = getattr(value, "shape", ())
    return list(shape() if callable(shape) else shape)


def _before(old: Callable[..., object], note: Callable[[], object]) -> Callable[..., object]:
    """Return a function that notes its call before it does what it did."""

    def noted(*args: object, **kwargs: object) -> object:
        note()
        return old(*args, **kwargs)

    return noted


def has_nothing_to_train(layer: Layer) -> bool:
    """Tell whether a layer, such as a loss, has no parameters."""
    return next(layer.named_parameters(), None) is None


def watch_attention(paddle: ModuleType, flags: set[str]) -> None:
    """Note that the script asks for fused attention: a CPU computes it explicitly."""
    functional = paddle.nn.functional
    old = getattr(functional, "scaled_dot_product_attention", None)
    if old is None:
        return

    def attention(*args: object, **kwargs: object) -> object:
        flags.add("explicit-attention")
        return old(*args, **kwargs)

    functional.scaled_dot_product_attention = attention


def unheld(objects: Iterable[object]) -> list[int]:
    """Return the numbers of objects that are referred to by bound methods of their own alone, as
    Paddle's optimizers have them: nothing can reach these, though they are not collected yet."""
    held_objects = list(objects)
    alone = []
    for place in range(len(held_objects)):
        # The list and the argument are references too.
        held = sys.getrefcount(held_objects[place]) - 2
        values = vars(held_objects[place]).values()
        methods = [value for value in values if isinstance(value, types.MethodType)]
        if held == sum(method.__self__ is held_objects[place] for method in methods):
            alone.append(id(held_objects[place]))
    return alone


def subclasses(cls: type) -> list[type]:
    """Return a class and all that derive from it."""
    classes: list[type] = [cls]
    below: type
    for below in cls.__subclasses__():
        classes += subclasses(below)
    return classes

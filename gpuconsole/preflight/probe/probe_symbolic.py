"""One training step built as a program: shapes only, nothing computed, no tensor memory.

The script runs as it is until a loader gives its first batch (or, without a loader, until its
network is called). From there on Paddle builds a program of it instead of computing: the batch is
a symbolic value, parameters become the program's. `backward()` appends the gradient operators;
`step()` and `clear_grad()` are noted with their place. When the next batch is asked for, the
program is the step.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from typing import Any

import probe_loader
import probe_program
from probe_hooks import subclasses, tensors, watch_attention
from probe_notes import notes

OWN = (os.path.dirname(os.path.abspath(__file__)), "<frozen")
"""Where code lies whose names are not the script's."""


class Session:
    """One run: builds the program of a step and replays it as births and deaths of blocks."""

    def __init__(self, paddle: Any, request: Any, channel: Any) -> None:
        self.paddle = paddle
        self.request = request
        self.channel = channel
        self.lazy = contextlib.ExitStack()
        self.program: Any = None
        self.entered = contextlib.ExitStack()
        self.layers: list[Any] = []
        self.optimizers: list[Any] = []
        self.inside = 0
        self.calls: list[Any] = []
        self.trained = False
        self.readers: dict[Any, Any] = {}
        self.waiting: dict[Any, Any] = {}
        self.shapes: dict[Any, Any] = {}
        self.seen: set[Any] = set()
        self.inputs: list[Any] = []
        self.happened: list[Any] = []
        self.held: list[Any] = []
        self.gradients: dict[Any, Any] = {}
        self.record = self
        self.sparing = False
        self.flags: set[Any] = set()

    def install(self) -> None:
        """Hook Paddle."""
        if not self.paddle.framework.use_pir_api():
            self.channel.fail("unsupported", "This Paddle builds no programs of the new kind.")
        self.paddle.seed(1)
        # Parameters get a shape and no memory.
        if self.request.get("lazy", True):
            self.lazy.enter_context(self.paddle.LazyGuard())
        probe_loader.install(self.paddle, self)
        self._layers()
        self._optimizers()
        self._values()
        self._refusals()
        watch_attention(self.paddle, self.flags)

    def _refusals(self) -> None:
        """What a program shows otherwise than the dynamic graph runs it."""

        def recompute(*_: Any, **__: Any) -> None:
            raise probe_program.Unsupported(
                "recomputation happens only where the script really runs"
            )

        fleet = self.paddle.distributed.fleet
        fleet.utils.recompute = recompute
        for name in ("recompute", "recompute_sequential"):
            if hasattr(fleet, name):
                setattr(fleet, name, recompute)
        auto_cast = self.paddle.amp.auto_cast
        session = self

        def plain(enable: Any = True, *args: Any, **kwargs: Any) -> Any:
            if enable:
                session.flags.add("amp")
            return auto_cast(False)

        # On a CPU Paddle computes in float32 whatever is asked: so do programs for one.
        self.paddle.amp.auto_cast = plain

    # -- what a loader tells; nothing is recorded here

    count = 0

    def mark(self, what: Any, key: Any = 0) -> None:
        """Moments mean nothing here."""

    def asked(self, reader: Any) -> Any:
        """A reader is asked for a batch: its epochs go on."""
        self.boundary()
        return True

    def left(self, reader: Any) -> None:
        """A reader's epoch has ended."""

    def broke(self) -> None:
        """The script broke off."""

    def boundary(self) -> None:
        """A batch is about to be asked for: with a program, the step is whole."""
        if self.program is not None:
            self.finish()

    def batch(self, reader: Any, batch: Any) -> Any:
        """Put symbolic values in place of the first batch."""
        found = list(tensors(batch))
        self.shapes[reader] = [[list(one.shape) for one in found]]
        self.seen.update(one.shape[0] for one in found[:4] if one.shape)
        self.waiting[reader] = found
        self.enter()
        return self.symbolic(batch)

    def whole_without_loader(self) -> None:
        """Without a loader the step is whole when every optimizer has stepped."""
        stepped = {id(one) for _, what, one, _ in self.happened if what == "step"}
        if not self.waiting and stepped >= {id(one) for one in self.optimizers}:
            self.boundary()

    # -- the program

    def enter(self) -> None:
        """From here on the script builds a program."""
        if self.program is not None:
            return
        self.channel.progress(0.4, "building the step")
        paddle = self.paddle
        from paddle.base.dygraph.base import to_static_mode_guard
        from paddle.pir.core import _convert_into_value, static_op_arg_cast_guard

        self.lazy.close()
        self.program = paddle.static.Program()
        paddle.enable_static()
        self.entered.enter_context(
            paddle.static.program_guard(self.program, paddle.static.Program())
        )
        self.entered.enter_context(to_static_mode_guard(True))
        self.entered.enter_context(static_op_arg_cast_guard(_convert_into_value))

    def symbolic(self, value: Any) -> Any:
        """Return a nested batch with symbolic values for its tensors."""
        if isinstance(value, dict):
            return {name: self.symbolic(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.symbolic(one) for one in value)
        if not isinstance(value, self.paddle.Tensor):
            return value
        name = f"input_{len(self.inputs)}"
        made = self.paddle.static.data(name, list(value.shape), value.dtype)
        made.stop_gradient = value.stop_gradient
        self.inputs.append(made)
        return made

    def ended(self) -> None:
        """The script came to its end by itself."""
        if self.program is None:
            self.channel.fail("no-step", "The script ended and ran no network.")
        self.finish()

    def finish(self) -> None:
        """Replay the program and leave."""
        if not self.gradients:
            # Without a backward pass the peak hangs on names within the network's functions.
            self.channel.fail("unsupported", "The first batch is not trained on.")
        self.channel.progress(0.8, "replaying the step")
        replay = probe_program.Replay(self)
        answer = replay.run()
        answer.update(
            batch=self.request["size"],
            paddle=self.paddle.__version__,
            readers=[self.readers[key] for key in sorted(self.readers)],
            flags=sorted(self.flags),
            shapes=list(self.shapes.values()),
            cycles_seen=2,
            batch_seen=sorted(self.seen),
            trained=self.trained,
            own_batch=next((one.get("own") for one in self.readers.values()), None),
            notes=notes(),
        )
        self.channel.end({"run": answer})

    def place(self) -> Any:
        """Return how many operators the program has by now."""
        return len(self.program.global_block().ops)

    # -- hooks

    def _layers(self) -> None:
        session = self
        cls = self.paddle.nn.Layer
        old_init, old_call = cls.__init__, cls.__call__

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            old_init(self, *args, **kwargs)
            session.layers.append(weakref.ref(self))

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if session.program is None and not session.readers:
                session.enter()
                args, kwargs = session.symbolic(args), session.symbolic(kwargs)
            start = session.place() if session.program is not None else 0
            session.inside += 1
            try:
                return old_call(self, *args, **kwargs)
            finally:
                session.inside -= 1
                if not session.inside and session.program is not None:
                    session.calls.append((start, session.place()))

        cls.__init__, cls.__call__ = init, call

    def _optimizers(self) -> None:
        session = self
        for cls in subclasses(self.paddle.optimizer.Optimizer):
            if "__init__" in cls.__dict__:
                self._wrap_init(cls)
            for name in ("step", "minimize"):
                if name in cls.__dict__:
                    setattr(cls, name, self._step(cls.__dict__[name], name))
        base = self.paddle.optimizer.Optimizer

        def clear_grad(self: Any, set_to_zero: Any = True) -> None:
            if session.program is not None:
                session.happened.append((session.place(), "clear", self, set_to_zero))
                session.whole_without_loader()

        base.clear_grad = base.clear_gradients = clear_grad
        self.paddle.nn.Layer.clear_gradients = lambda self, set_to_zero=True: None

    def _wrap_init(self, cls: Any) -> None:
        old = cls.__dict__["__init__"]
        session = self

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            session.trained = True
            old(self, *args, **kwargs)
            if not any(one is self for one in session.optimizers):
                session.optimizers.append(self)

        cls.__init__ = init

    def _step(self, old: Any, name: Any) -> Any:
        session = self

        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            if session.program is None:
                return old(self, *args, **kwargs)
            if any(what == "step" and one is self for _, what, one, _ in session.happened):
                session.whole_without_loader()
            if name == "minimize" and not session.gradients and args:
                session.backward(args[0], 2)
            session.happened.append((session.place(), "step", self, None))
            return None, []

        return step

    def _values(self) -> None:
        """Give symbolic values what scripts ask of tensors."""
        session = self
        value = self.paddle.pir.Value

        def backward(self: Any, *_: Any, **__: Any) -> None:
            session.backward(self, 2)

        def number(self: Any, *_: Any, **__: Any) -> Any:
            if not session.gradients and session.trained:
                raise probe_program.Unsupported(
                    "the script needs a computed value before its backward pass"
                )
            return 0.0

        def array(self: Any, *_: Any, **__: Any) -> Any:
            import numpy

            number(self)
            return numpy.zeros([max(1, one) for one in self.shape], "float32")

        value.backward = backward
        value.item = value.__float__ = number
        value.__int__ = lambda self: int(number(self))
        value.numpy = value.__array__ = array
        value.tolist = lambda self: array(self).tolist()
        value.clear_gradient = value.clear_grad = lambda self, *_: None

    def backward(self, loss: Any, depth: Any) -> None:
        """Append the gradient operators of a loss."""
        from paddle.autograd.ir_backward import grad

        start = self.place()
        self.held.append((start, _held(sys._getframe(depth), self.paddle.pir.Value)))
        parameters = [
            one
            for op in self.program.global_block().ops
            if op.name() == "builtin.parameter"
            for one in op.results()
            if not one.stop_gradient
        ]
        found = grad([loss], parameters, allow_unused=True)
        pairs = [(one, two) for one, two in zip(parameters, found, strict=False) if two is not None]
        for parameter, gradient in pairs:
            self.gradients[probe_program.key_of(gradient)] = parameter
        self.happened.append((start, "backward", loss, None))


def _held(frame: Any, kind: Any) -> Any:
    """Return the values that names of the script hold while it calls backward."""
    found = []
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(OWN):
            found += _values_in(list(frame.f_locals.values()), kind, 0)
        frame = frame.f_back
    return found


def _values_in(things: Any, kind: Any, depth: Any) -> Any:
    found = []
    for one in things:
        if isinstance(one, kind):
            found.append(one)
        elif isinstance(one, (list, tuple)) and depth < 4 and len(one) < 1000:
            found += _values_in(one, kind, depth + 1)
        elif type(one) is dict and depth < 2 and len(one) < 1000:
            found += _values_in(list(one.values()), kind, depth + 1)
    return found

"""The script's own training steps, watched: loaders, optimizers, layers, programs."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import probe_batch
import probe_loader
import probe_record
from probe_notes import notes


def address(tensor: Any) -> Any:
    """Return where a tensor's memory lies, 0 where it has none of its own."""
    try:
        return tensor.data_ptr()
    except Exception:
        return 0


def tensors(value: Any, depth: Any = 0) -> Iterator[Any]:
    """Yield the tensors of a nested batch."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        if depth < 8:
            for one in value:
                yield from tensors(one, depth + 1)
    elif hasattr(value, "data_ptr"):
        yield value


def nbytes(tensor: Any) -> Any:
    """Return the bytes of a dense tensor."""
    return int(tensor.size) * int(tensor.element_size())


class Session:
    """One run: counts cycles, names blocks, ends the run when enough was seen.

    A cycle ends when the next batch is asked for after at least one optimizer step, so that it
    spans the micro-batches of an accumulation and all optimizers of a GAN; where nothing is
    trained it is one batch.
    """

    def __init__(self, paddle: Any, request: Any, channel: Any) -> None:
        self.paddle = paddle
        self.request = request
        self.channel = channel
        self.record = probe_record.Recorder(paddle)
        self.layers: Any = weakref.WeakSet()
        self.optimizers: Any = weakref.WeakSet()
        self.trained = False
        self.cycles = 0
        self.steps = 0
        self.steps_seen = 0
        self.fetches = 0
        self.depth = 0
        self.stepped: set[Any] = set()
        self.flags: set[Any] = set()
        self.waiting: dict[Any, Any] = {}
        self.readers: dict[Any, Any] = {}
        self.shapes: dict[Any, Any] = {}
        self.seen: set[Any] = set()
        self.widest_conv = 0
        self.calls = 0
        self.inside = 0

    def install(self) -> None:
        """Hook Paddle and begin to record."""
        self.paddle.seed(1)
        self._layers()
        self._optimizers()
        self._executor()
        self._convolutions()
        self._precision()
        watch_attention(self.paddle, self.flags)
        probe_loader.install(self.paddle, self)
        self.record.start()

    # -- cycles

    def boundary(self) -> None:
        """A batch is about to be asked for."""
        self.fetches += 1
        if self.fetches == 1:
            return
        if self.trained:
            if self.steps == self.steps_seen:
                return
            self.steps_seen = self.steps
        self.close_cycle()

    def close_cycle(self) -> None:
        """A cycle ends; after the last one the run does."""
        self.cycles += 1
        self.stepped.clear()
        self.record.mark("cycle")
        wanted = self.request["steps"]
        stage = f"step {min(self.cycles + 1, wanted)} of {wanted}"
        self.channel.progress(min(0.95, 0.1 + 0.85 * self.cycles / wanted), stage)
        if self.cycles >= wanted:
            self.finish()

    def ended(self) -> None:
        """The script came to its end by itself."""
        if not self.cycles and not self.steps and not self.calls:
            self.channel.fail("no-step", "The script ended and trained or ran no network.")
        self.finish()

    def finish(self) -> None:
        """Send what was recorded and leave."""
        self.name_blocks()
        made = probe_record.blocks(self.record, self.waiting)
        answer = probe_record.as_json(made)
        readers = [self.readers[key] for key in sorted(self.readers)]
        answer.update(
            batch=self.request["size"],
            paddle=self.paddle.__version__,
            readers=readers,
            flags=sorted(self.flags),
            shapes=list(self.shapes.values()),
            widest_conv=self.widest_conv,
            cycles_seen=self.cycles,
            batch_seen=sorted(self.seen),
            trained=self.trained,
            own_batch=probe_batch.own_size(),
            notes=notes(),
        )
        self.channel.end({"run": answer})

    # -- what blocks are

    def name_blocks(self) -> None:
        """Say which blocks are parameters and optimizer states."""
        for layer in list(self.layers):
            own = list(layer._parameters.values()) + list(layer._buffers.values())
            self.record.tag([address(one) for one in own if one is not None], "parameters")
        for optimizer in list(self.optimizers):
            for states in getattr(optimizer, "_accumulators", {}).values():
                self.record.tag([address(one) for one in states.values()], "optimizer")
            masters = getattr(optimizer, "_master_weights", {})
            self.record.tag([address(one) for one in masters.values()], "optimizer")

    def name_gradients(self, optimizer: Any) -> None:
        """Say which blocks are the gradients and parameters of an optimizer."""
        groups = getattr(optimizer, "_param_groups", None) or optimizer._parameter_list or []
        own: list[Any] = []
        for group in groups:
            own += group["params"] if isinstance(group, dict) else [group]
        self.record.tag([address(one) for one in own], "parameters")
        found = []
        for one in own:
            gradient = getattr(one, "grad", None)
            if gradient is None:
                continue
            if getattr(gradient, "is_selected_rows", bool)():
                self.flags.add("sparse-gradient")
            else:
                found.append(address(gradient))
        self.record.tag(found, "gradients")

    def batch(self, reader: Any, batch: Any) -> Any:
        """A loader gave a batch: remember its size, shape and place, and hand it on."""
        found = list(tensors(batch))
        shapes = [list(one.shape) for one in found]
        self.shapes.setdefault(reader, []).append(shapes)
        self.seen.update(shape[0] for shape in shapes[:4] if shape)
        total = sum(nbytes(one) for one in found)
        self.waiting[reader] = max(total, self.waiting.get(reader, 0))
        self.record.tag([address(one) for one in found], "inputs")
        return batch

    # -- hooks

    def _layers(self) -> None:
        session = self
        cls = self.paddle.nn.Layer
        old_init, old_call = cls.__init__, cls.__call__

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            old_init(self, *args, **kwargs)
            session.layers.add(self)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            session.inside += 1
            try:
                return old_call(self, *args, **kwargs)
            finally:
                session.inside -= 1
                if not session.inside:
                    session.called()

        cls.__init__, cls.__call__ = init, call

    def called(self) -> None:
        """A network outside any other was run: without loader and optimizer this is a cycle."""
        self.calls += 1
        if not self.trained and not self.fetches and not self.paddle.is_grad_enabled():
            self.close_cycle()

    def _optimizers(self) -> None:
        session = self

        def wrap_init(cls: Any) -> None:
            old = cls.__dict__["__init__"]

            def init(self: Any, *args: Any, **kwargs: Any) -> None:
                session.trained = True
                old(self, *args, **kwargs)
                session.optimizers.add(self)

            cls.__init__ = init

        def wrap_step(cls: Any, name: Any) -> None:
            old = cls.__dict__[name]

            def step(self: Any, *args: Any, **kwargs: Any) -> Any:
                session.step_begins(self)
                try:
                    return old(self, *args, **kwargs)
                finally:
                    session.step_ends()

            setattr(cls, name, step)

        for cls in _subclasses(self.paddle.optimizer.Optimizer):
            if "__init__" in cls.__dict__:
                wrap_init(cls)
            for name in ("step", "minimize"):
                if name in cls.__dict__:
                    wrap_step(cls, name)

    def step_begins(self, optimizer: Any) -> None:
        """An optimizer steps; without a loader its second step begins another cycle."""
        self.depth += 1
        if self.depth > 1 or not self.paddle.in_dynamic_mode():
            return
        if not self.fetches and id(optimizer) in self.stepped:
            self.close_cycle()
        self.stepped.add(id(optimizer))
        self.name_gradients(optimizer)

    def step_ends(self) -> None:
        """An optimizer has stepped."""
        self.depth -= 1
        if not self.depth and self.paddle.in_dynamic_mode():
            self.steps += 1
            if self.steps == 1:
                self.name_blocks()

    def _executor(self) -> None:
        session = self
        cls = self.paddle.static.Executor
        old = cls.run

        def run(
            self: Any,
            program: Any = None,
            feed: Any = None,
            fetch_list: Any = None,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            if fetch_list and not session.readers:
                session.boundary()
                shapes = [list(getattr(one, "shape", ())) for one in (feed or {}).values()]
                session.shapes.setdefault(0, []).append(shapes)
                session.seen.update(shape[0] for shape in shapes if shape)
            try:
                return old(self, program, feed, fetch_list, *args, **kwargs)
            finally:
                session.steps += bool(fetch_list)

        cls.run = run

    def _convolutions(self) -> None:
        operators = self.paddle._C_ops
        for name in ("conv2d", "depthwise_conv2d", "conv3d", "conv2d_transpose",
                     "depthwise_conv2d_transpose", "conv3d_transpose"):  # fmt: skip
            old = getattr(operators, name, None)
            if old is not None:
                setattr(operators, name, self._measured(old))

    def _measured(self, old: Any) -> Any:
        def convolution(x: Any, *args: Any, **kwargs: Any) -> Any:
            if self.paddle.in_dynamic_mode():
                self.widest_conv = max(self.widest_conv, nbytes(x))
            return old(x, *args, **kwargs)

        return convolution

    def _precision(self) -> None:
        old = self.paddle.amp.auto_cast
        session = self

        def auto_cast(enable: Any = True, *args: Any, **kwargs: Any) -> Any:
            if enable:
                session.flags.add("amp")
            return old(enable, *args, **kwargs)

        self.paddle.amp.auto_cast = auto_cast


def watch_attention(paddle: Any, flags: Any) -> None:
    """Note that the script asks for fused attention: a CPU computes it explicitly."""
    functional = paddle.nn.functional
    old = getattr(functional, "scaled_dot_product_attention", None)
    if old is None:
        return

    def attention(*args: Any, **kwargs: Any) -> Any:
        flags.add("explicit-attention")
        return old(*args, **kwargs)

    functional.scaled_dot_product_attention = attention


def _subclasses(cls: Any) -> Any:
    found = [cls]
    for one in cls.__subclasses__():
        found += _subclasses(one)
    return found

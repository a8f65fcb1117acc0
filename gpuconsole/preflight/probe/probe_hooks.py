"""The script's own training steps, watched: loaders, optimizers, layers, programs."""

import weakref

import probe_batch
import probe_loader
import probe_record


def address(tensor):
    """Return where a tensor's memory lies, 0 where it has none of its own."""
    try:
        return tensor.data_ptr()
    except Exception:  # noqa: BLE001 - sparse, uninitialised or foreign: nothing to tell
        return 0


def tensors(value, depth=0):
    """Yield the tensors of a nested batch."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        if depth < 8:
            for one in value:
                yield from tensors(one, depth + 1)
    elif hasattr(value, "data_ptr"):
        yield value


def nbytes(tensor):
    """Return the bytes of a dense tensor."""
    return int(tensor.size) * int(tensor.element_size())


class Session:
    """One run: counts cycles, names blocks, ends the run when enough was seen.

    A cycle ends when the next batch is asked for after at least one optimizer step, so that it
    spans the micro-batches of an accumulation and all optimizers of a GAN; where nothing is
    trained it is one batch.
    """

    def __init__(self, paddle, request, channel):
        self.paddle = paddle
        self.request = request
        self.channel = channel
        self.record = probe_record.Recorder(paddle)
        self.layers = weakref.WeakSet()
        self.optimizers = weakref.WeakSet()
        self.trained = False
        self.cycles = 0
        self.steps = 0
        self.steps_seen = 0
        self.fetches = 0
        self.depth = 0
        self.stepped = set()
        self.flags = set()
        self.waiting = {}
        self.readers = {}
        self.shapes = {}
        self.seen = set()
        self.widest_conv = 0
        self.calls = 0
        self.inside = 0

    def install(self):
        """Hook Paddle and begin to record."""
        self.paddle.seed(1)
        self._layers()
        self._optimizers()
        self._executor()
        self._convolutions()
        self._precision()
        probe_loader.install(self.paddle, self)
        self.record.start()

    # -- cycles

    def boundary(self):
        """A batch is about to be asked for."""
        self.fetches += 1
        if self.fetches == 1:
            return
        if self.trained:
            if self.steps == self.steps_seen:
                return
            self.steps_seen = self.steps
        self.close_cycle()

    def close_cycle(self):
        """A cycle ends; after the last one the run does."""
        self.cycles += 1
        self.stepped.clear()
        self.record.mark("cycle")
        wanted = self.request["steps"]
        stage = "step %d of %d" % (min(self.cycles + 1, wanted), wanted)
        self.channel.progress(min(0.95, 0.1 + 0.85 * self.cycles / wanted), stage)
        if self.cycles >= wanted:
            self.finish()

    def ended(self):
        """The script came to its end by itself."""
        if not self.cycles and not self.steps and not self.calls:
            self.channel.fail("no-step", "The script ended and trained or ran no network.")
        self.finish()

    def finish(self):
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
        )
        self.channel.end({"run": answer})

    # -- what blocks are

    def name_blocks(self):
        """Say which blocks are parameters and optimizer states."""
        for layer in list(self.layers):
            own = list(layer._parameters.values()) + list(layer._buffers.values())
            self.record.tag([address(one) for one in own if one is not None], "parameters")
        for optimizer in list(self.optimizers):
            for states in getattr(optimizer, "_accumulators", {}).values():
                self.record.tag([address(one) for one in states.values()], "optimizer")
            masters = getattr(optimizer, "_master_weights", {})
            self.record.tag([address(one) for one in masters.values()], "optimizer")

    def name_gradients(self, optimizer):
        """Say which blocks are the gradients and parameters of an optimizer."""
        groups = getattr(optimizer, "_param_groups", None) or optimizer._parameter_list or []
        own = []
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

    def batch(self, reader, batch):
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

    def _layers(self):
        session = self
        cls = self.paddle.nn.Layer
        old_init, old_call = cls.__init__, cls.__call__

        def init(self, *args, **kwargs):
            old_init(self, *args, **kwargs)
            session.layers.add(self)

        def call(self, *args, **kwargs):
            session.inside += 1
            try:
                return old_call(self, *args, **kwargs)
            finally:
                session.inside -= 1
                if not session.inside:
                    session.called()

        cls.__init__, cls.__call__ = init, call

    def called(self):
        """A network outside any other was run: without loader and optimizer this is a cycle."""
        self.calls += 1
        if not self.trained and not self.fetches and not self.paddle.is_grad_enabled():
            self.close_cycle()

    def _optimizers(self):
        session = self

        def wrap_init(cls):
            old = cls.__dict__["__init__"]

            def init(self, *args, **kwargs):
                session.trained = True
                old(self, *args, **kwargs)
                session.optimizers.add(self)

            cls.__init__ = init

        def wrap_step(cls, name):
            old = cls.__dict__[name]

            def step(self, *args, **kwargs):
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

    def step_begins(self, optimizer):
        """An optimizer steps; without a loader its second step begins another cycle."""
        self.depth += 1
        if self.depth > 1 or not self.paddle.in_dynamic_mode():
            return
        if not self.fetches and id(optimizer) in self.stepped:
            self.close_cycle()
        self.stepped.add(id(optimizer))
        self.name_gradients(optimizer)

    def step_ends(self):
        """An optimizer has stepped."""
        self.depth -= 1
        if not self.depth and self.paddle.in_dynamic_mode():
            self.steps += 1
            if self.steps == 1:
                self.name_blocks()

    def _executor(self):
        session = self
        cls = self.paddle.static.Executor
        old = cls.run

        def run(self, program=None, feed=None, fetch_list=None, *args, **kwargs):
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

    def _convolutions(self):
        operators = self.paddle._C_ops
        for name in ("conv2d", "depthwise_conv2d", "conv3d", "conv2d_transpose",
                     "depthwise_conv2d_transpose", "conv3d_transpose"):  # fmt: skip
            old = getattr(operators, name, None)
            if old is not None:
                setattr(operators, name, self._measured(old))

    def _measured(self, old):
        def convolution(x, *args, **kwargs):
            if self.paddle.in_dynamic_mode():
                self.widest_conv = max(self.widest_conv, nbytes(x))
            return old(x, *args, **kwargs)

        return convolution

    def _precision(self):
        old = self.paddle.amp.auto_cast
        session = self

        def auto_cast(enable=True, *args, **kwargs):
            if enable:
                session.flags.add("amp")
            return old(enable, *args, **kwargs)

        self.paddle.amp.auto_cast = auto_cast


def _subclasses(cls):
    found = [cls]
    for one in cls.__subclasses__():
        found += _subclasses(one)
    return found

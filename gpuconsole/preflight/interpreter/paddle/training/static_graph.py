"""Static-graph scripts: a program is written down first, and run by an executor later.

While the script writes a program its tensors are drafted: no memory is taken, but births, deaths
and backward nodes are kept. Running it replays the draft with real blocks, in the order of the
program: a tensor goes after its last use, a parameter's gradient as soon as its update is done.
What is fed stays in the executor's scope until the next batch is there, and what is fetched, with
a copy, until the program runs again.
Measured with Paddle 3.3.1 that is what the executor needs when it runs in order, to 0.01 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.autograd.backward import (
    backward,
    parameters_of,
    saving_nodes,
)
from gpuconsole.preflight.interpreter.paddle.nn import weighted_layers
from gpuconsole.preflight.interpreter.paddle.nn.functional_layers import functional
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.nn.norm import BatchNorm, LayerNorm
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.ops import kernels
from gpuconsole.preflight.interpreter.paddle.tensor.creation import dtype_of
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.interpreter.paddle.training.grad_clip import Clip
from gpuconsole.preflight.interpreter.paddle.training.hapi import InputSpec
from gpuconsole.preflight.interpreter.paddle.training.metrics import Quiet, accuracy
from gpuconsole.preflight.interpreter.paddle.training.optimizers import Optimizer
from gpuconsole.preflight.memory.trace import Ledger, Storage

_NOTE = (
    "A static program is counted as run in order, each tensor freed after its last use. The CPU's "
    "executor has several threads and was seen, in some runs, to free one or two tensors late."
)


class OtherShapes(Exception):  # noqa: N818 - a control signal: the run begins again
    """The executor is fed shapes that the program was not drafted with."""

    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        super().__init__("the program is fed other shapes")
        self.shapes = shapes


class Program(Native):
    """`paddle.static.Program`: the part of the draft that was written under its guard."""

    label = "Program"

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[int, int | None]] = []
        self.loss: Tensor | None = None
        self.optimizer: Optimizer | None = None
        self.inputs: dict[str, Tensor] = {}

    @exposed.method("clone")
    def do_clone(self, run: Run, for_test: Value = False) -> Value:
        """Copy, without what trains where it is for a test."""
        copy = Program()
        copy.spans, copy.inputs = [*self.spans], dict(self.inputs)
        draft(run).close(copy)
        if for_test is not True:
            copy.loss, copy.optimizer = self.loss, self.optimizer
        return copy

    @exposed.method("global_block")
    def do_global_block(self, run: Run) -> Value:
        """Return itself: blocks are not distinguished."""
        return self

    @exposed.method("all_parameters", "list_vars")
    def do_all_parameters(self, run: Run) -> Value:
        """Give the parameters that its loss reaches."""
        return parameters_of(self.loss) if self.loss is not None else []


class Draft:
    """What a script has drafted so far."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.main, self.startup = Program(), Program()
        self.main.spans = [(0, None)]
        self.now = self.main
        self.fixed: dict[int, Storage] = {}
        """Real blocks of what persists, by the draft's index."""
        self.parameters: list[Tensor] = []
        self.optimizers: list[Optimizer] = []
        self.supposed: dict[str, tuple[int, ...]] = {}
        """Shapes of inputs of which the number of samples is not known yet."""
        self.ragged: set[str] = set()
        """Those of them of which another extent is open too."""
        self.scope: dict[str, Tensor] = {}
        """What was fed last, by name: the next batch is copied while this one is still there."""
        self.fetched: dict[int, list[Storage]] = {}
        """What each program fetched last, which stays until its next run is over."""

    def misfit(self, run: Run, shapes: Sequence[tuple[int, ...]]) -> None:
        """Begin again where shapes fail to go together for a number of samples that was supposed.

        A program that names its batch size is written down before anything is fed to it.
        """
        taken = {extents[0] for extents in self.supposed.values()}
        first = {shape[0] for shape in shapes if shape}
        if len(first) == 2 and len(first & taken) == 1:
            (extent,) = first - taken
            fed = {name: (extent, *extents[1:]) for name, extents in self.supposed.items()}
            raise OtherShapes({**run.program.fed, **fed})

    def close(self, program: Program) -> None:
        """End the program here: what is drafted from now on is no part of it."""
        if program.spans and program.spans[-1][1] is None:
            program.spans[-1] = (program.spans[-1][0], len(self.ledger.events))

    def minimize(self, optimizer: Optimizer, loss: Tensor) -> None:
        """Write the backward pass and the update into the program."""
        self.now.loss, self.now.optimizer = loss, optimizer
        self.close(self.now)
        self.optimizers.append(optimizer)
        if not optimizer.given:
            optimizer.given = list(parameters_of(loss))


def draft(run: Run) -> Draft:
    """Return the draft of a run in static mode; TypeError in dynamic mode."""
    if not isinstance(run.program.draft, Draft):
        raise TypeError("a static program in dynamic mode")
    return run.program.draft


def enable(run: Run) -> None:
    """`paddle.enable_static`."""
    run.program.draft = run.program.draft or Draft()
    run.program.drafting = run.program.draft.ledger


def disable(run: Run) -> None:
    """`paddle.disable_static`."""
    run.program.drafting = None


class Guard(Native):
    """`paddle.static.program_guard`."""

    label = "program_guard"

    def init(self, run: Run, main_program: Value = None, startup_program: Value = None) -> None:
        """Keep the program."""
        self.program = main_program if isinstance(main_program, Program) else draft(run).main

    def enter(self, run: Run) -> Callable[[], None]:
        """Write into the program until left."""
        here = draft(run)
        before, here.now = here.now, self.program
        begin = len(here.ledger.events)
        if here.main is self.program:
            return lambda: setattr(here, "now", before)

        def leave() -> None:
            self.program.spans.append((begin, len(here.ledger.events)))
            here.now = before

        return leave


def data(run: Run, name: Value, shape: Value, dtype: Value = "float32", *_: Value,
         **__: Value) -> Value:  # fmt: skip
    """`paddle.static.data`: open dimensions are those of what is fed later."""
    unknown = first_unknown(name, shape)
    if unknown is not None:
        run.block(unknown)
        return unknown
    fed = run.program.fed.get(name, ())
    extents = tuple(
        (fed[place] if place < len(fed) else run.setting.batch or 2)
        if extent in (None, -1)
        else extent
        for place, extent in enumerate(shape)
    )
    tensor = run.tensor(extents, dtype_of(run, dtype))
    tensor.name = name
    here = draft(run)
    here.now.inputs[name] = tensor
    if any(extent in (None, -1) for extent in shape):
        run.doubted(run.unknown("how many samples a static program is fed with"))
        if name not in run.program.fed:
            here.supposed[name] = extents
            if any(extent in (None, -1) for extent in shape[1:]):
                here.ragged.add(name)
    return tensor


class Executor(Native):
    """`paddle.static.Executor`."""

    label = "Executor"

    def init(self, run: Run, *_: Value) -> None:
        """There is one device."""

    @exposed.method("close")
    def do_close(self, run: Run) -> None:
        """Change no sizes."""

    @exposed.method("run")
    def do_run(self, run: Run, program: Value = None, feed: Value = None, fetch_list: Value = None,
               *_: Value, **__: Value) -> Value:  # fmt: skip
        """Run a program: the startup program makes what persists, any other is replayed."""
        here = draft(run)
        unknown = first_unknown(program, feed)
        if unknown is not None:
            run.block(unknown)
            return unknown
        chosen = program if isinstance(program, Program) else here.main
        wanted = list(fetch_list) if isinstance(fetch_list, (list, tuple)) else []
        with_real_blocks, run.program.drafting = run.program.drafting, None
        try:
            _persist(run, here)
            if chosen.spans and (feed is not None or wanted):
                here.close(chosen)
                _Replay(run, here, chosen).go(_fed(run, chosen, feed), wanted)
            return [_figure(run, fetched) for fetched in wanted]
        finally:
            run.program.drafting = with_real_blocks


def _figure(run: Run, value: Value) -> Value:
    """Return a fetched tensor as an array, which on the CPU looks at a copy that Paddle made."""
    if not isinstance(value, Tensor):
        return run.number("a fetched value")
    return Array(value.shape, value.dtype, keeps=run.storage(value.nbytes) if run.on_cpu else None)


def _fed(run: Run, program: Program, feed: Value) -> dict[str, Value]:
    """Return what is fed by name; the run begins again where the draft had other shapes."""
    if isinstance(feed, (list, tuple)):
        only = feed[0] if feed and isinstance(feed[0], dict) else None
        feed = only if only is not None else dict(zip(program.inputs, feed, strict=False))
    given = {name: value for name, value in (feed or {}).items() if name in program.inputs}
    shapes = {name: tuple(value.shape) for name, value in given.items() if hasattr(value, "shape")}
    for name, shape in shapes.items():
        if shape and not run.batch.loaders:
            run.found_batch(shape[0])
        if shape != program.inputs[name].shape:
            raise OtherShapes({**run.program.fed, **shapes})
    _settle_batch(run, {name: draft(run).supposed[name] for name in program.inputs
                        if name in draft(run).supposed and name not in shapes})  # fmt: skip
    return given


def _settle_batch(run: Run, supposed: Mapping[str, tuple[int, ...]]) -> None:
    """Draft inputs that are fed with what has no shape again, with the batch size of the loader
    that is walked over. Where there is none, or more than that is open, the memory is unknown."""
    if not supposed or run.setting.batch is not None:
        return
    sizes = {size for size, _, _ in run.batch.feeding}
    if len(sizes) != 1 or draft(run).ragged & supposed.keys():
        run.block(run.unknown("how many samples a static program is fed with"))
        return
    (size,) = sizes
    if any(extents[0] != size for extents in supposed.values()):
        fed = {name: (size, *extents[1:]) for name, extents in supposed.items()}
        raise OtherShapes({**run.program.fed, **fed})


def _persist(run: Run, here: Draft) -> None:
    """Make the parameters that were drafted since, and the states of their optimizers."""
    for event in here.ledger.events:
        if event >= 0 and event not in here.fixed and here.ledger.kinds[event] == "parameters":
            here.fixed[event] = run.storage(here.ledger.sizes[event], "parameters")
    for optimizer in here.optimizers:
        optimizer.prepare_states(run)


class _Replay:
    """One run of a program with real blocks."""

    def __init__(self, run: Run, here: Draft, program: Program) -> None:
        self.run, self.here, self.program = run, here, program
        self.blocks: dict[int, Storage] = {}
        self.nodes = saving_nodes(program.loss) if program.loss is not None else []
        self.saved = {storage.index for node in self.nodes for storage in node.saved}

    def go(self, feed: dict[str, Value], wanted: Sequence[Value]) -> None:
        """Run forward, then backward where the program has a loss to minimise."""
        run, program = self.run, self.program
        run.findings.flags.add("static-graph")
        if _NOTE not in run.findings.notes:
            run.findings.notes.append(_NOTE)
        for name, tensor in program.inputs.items():
            # Tensors of a loader are taken as they are; arrays are copied.
            held = feed.get(name)
            if not isinstance(held, Tensor):
                held = run.tensor(tensor.shape, tensor.dtype, "inputs")
            self.here.scope[name] = held
            del held
        inputs = {tensor.storage.index for tensor in program.inputs.values()}
        fetched = {value.storage.index for value in wanted if isinstance(value, Tensor)}
        decayed = self._decays()
        self._forward(inputs, fetched)
        self._fetch([block for event, block in self.blocks.items() if event in fetched])
        if program.loss is not None and program.optimizer is not None:
            self._backward(program.loss, program.optimizer, decayed)
        self.blocks.clear()

    def _decays(self) -> dict[int, Storage]:
        """Scale the parameters that decay: the program does so before anything else."""
        optimizer = self.program.optimizer
        if self.program.loss is None or optimizer is None:
            return {}
        return {id(parameter): self.run.storage(parameter.nbytes, "gradients")
                for parameter in optimizer.decaying(optimizer.parameters())}  # fmt: skip

    def _fetch(self, blocks: list[Storage]) -> None:
        """Hold what is fetched, with a copy, in place of what was; cards copy it to their host."""
        if self.run.on_cpu:
            before = self.here.fetched.pop(id(self.program), [])
            copies = before[len(blocks) :] or [self.run.storage(block.nbytes) for block in blocks]
            self.here.fetched[id(self.program)] = [*blocks, *copies]

    def _events(self) -> list[int]:
        events = self.here.ledger.events
        return [event for begin, end in self.program.spans for event in events[begin:end]]

    def _forward(self, inputs: set[int], fetched: set[int]) -> None:
        """Replay births and deaths; what a name alone keeps goes when the next two are there."""
        ledger, blocks = self.here.ledger, self.blocks
        waiting: list[int] = []
        for event in self._events():
            if event < 0:
                blocks.pop(~event, None)
                continue
            if event in self.here.fixed or event in inputs:
                continue
            blocks[event] = self.run.storage(ledger.sizes[event], ledger.kinds[event])
            if event in self.saved or event in fetched:
                continue
            waiting.append(event)
            if len(waiting) > 2:
                blocks.pop(waiting.pop(0), None)
        for event in waiting:
            blocks.pop(event, None)

    def _backward(self, loss: Tensor, optimizer: Optimizer, decayed: dict[int, Storage]) -> None:
        """Run backward with real blocks behind the nodes; update as gradients come."""
        run, fixed = self.run, self.here.fixed
        drafted = [(node, node.saved) for node in self.nodes]
        for node in self.nodes:
            node.saved = [self.blocks.get(storage.index) or fixed.get(storage.index) or storage
                          for storage in node.saved]  # fmt: skip
        self.blocks.clear()
        at_once = not isinstance(optimizer.clip, Clip)
        run.mode.own_gradients, run.mode.at_once = (set() if at_once else None), at_once
        run.mode.decays = decayed
        run.progress.backwards += 1
        run.mode.in_program = True
        backward(run, loss)
        run.mode.own_gradients, run.mode.at_once, run.mode.in_program = None, False, False
        run.mode.decays = {}
        for node, saved in drafted:
            node.saved = saved
        optimizer.do_step(run)
        if at_once:
            optimizer.count_step(run)
        optimizer.do_clear_grad(run, False)


def _activated(run: Run, out: Value, act: Value) -> Value:
    if not isinstance(act, str):
        return out
    return functional(run, act, out)


def _apply(run: Run, kind: type[Layer], x: Tensor, act: Value, *args: Value,
           **kwargs: Value) -> Value:  # fmt: skip
    layer = kind()
    layer.init(run, *args, **kwargs)
    return _activated(run, run.interp.call(layer, [x], {}), act)


def fc(run: Run, x: Tensor, size: int, num_flatten_dims: int = 1, weight_attr: Value = None,
       bias_attr: Value = None, activation: Value = None, name: Value = None) -> Value:  # fmt: skip
    """`paddle.static.nn.fc`: a linear layer over all axes from `num_flatten_dims` on."""
    lead = num_flatten_dims if num_flatten_dims > 0 else len(x.shape) + num_flatten_dims
    width = prod(x.shape[lead:])
    flat = ops.reshape(run, x, [*x.shape[:lead], width]) if len(x.shape) > 2 else x
    return _apply(
        run, weighted_layers.Linear, flat, activation, width, size, weight_attr, bias_attr
    )


def conv2d(run: Run, input: Tensor, num_filters: int, filter_size: Value, stride: Value = 1,
           padding: Value = 0, dilation: Value = 1, groups: Value = None, param_attr: Value = None,
           bias_attr: Value = None, use_cudnn: Value = True, act: Value = None,
           *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.static.nn.conv2d`."""
    return _apply(
        run, weighted_layers.Conv2D, input, act, input.shape[1], num_filters, filter_size, stride,
        padding, dilation, groups or 1, "zeros", param_attr, bias_attr,
    )  # fmt: skip


def batch_norm(run: Run, input: Tensor, act: Value = None, *_: Value, **__: Value) -> Value:
    """`paddle.static.nn.batch_norm`."""
    return _apply(run, BatchNorm, input, act, input.shape[-1 if len(input.shape) == 2 else 1])


def layer_norm(run: Run, input: Tensor, scale: Value = True, shift: Value = True,
               begin_norm_axis: int = 1, *_: Value, act: Value = None,
               **__: Value) -> Value:  # fmt: skip
    """`paddle.static.nn.layer_norm`."""
    return _apply(run, LayerNorm, input, act, list(input.shape[begin_norm_axis:]))


def embedding(run: Run, input: Tensor, size: Value, is_sparse: Value = False, *_: Value,
              **__: Value) -> Value:  # fmt: skip
    """`paddle.static.nn.embedding`, of programs as before Paddle 3, which have sparse gradients."""
    out = _apply(run, weighted_layers.Embedding, input, None, size[0], size[1])
    return kernels.by_rows(out) if is_sparse is True and isinstance(out, Tensor) else out


def auc(run: Run, input: Tensor, label: Tensor, curve: Value = "ROC", num_thresholds: int = 4095,
        *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.static.auc`: the area, and two counts for each threshold, made from others."""
    counts = [run.tensor((1, num_thresholds + 1), "int64") for _ in range(2)]
    buffers = [run.tensor((1, num_thresholds + 1), "int64") for _ in range(2)]
    area = run.tensor((), "float64")
    del counts
    return area, *buffers


def save(run: Run, program: Value = None, *_: Value, **__: Value) -> None:
    """`paddle.static.save`: on a CPU a copy of each parameter and state, all at once.

    Measured with Paddle 3.3.1 and NumPy 2; NumPy 1 takes the copies elsewhere.
    """
    here = run.program.draft
    if not run.on_cpu or not isinstance(here, Draft):
        return
    drafting, run.program.drafting = run.program.drafting, None
    states = [
        state
        for optimizer in here.optimizers
        for each in optimizer.state.values()
        for state in each
    ]
    sizes = [block.nbytes for block in here.fixed.values()] + [state.nbytes for state in states]
    copies = [run.storage(size) for size in sizes]
    del copies
    run.program.drafting = drafting


def _nothing(run: Run, *_: Value, **__: Value) -> None:
    return None


def _not_followed(name: str) -> Callable[..., Value]:
    def call(run: Run, *_: Value, **__: Value) -> Value:
        unknown = run.unknown(f"paddle.static.{name}: a program written this way is not followed")
        run.block(unknown)
        return unknown

    return call


def namespace(more: dict[str, Callable[..., Value]]) -> Namespace:
    """Return `paddle.static`; `more` are functions that live elsewhere."""
    nn: dict[str, Callable[..., Value]] = {
        "fc": fc, "conv2d": conv2d, "batch_norm": batch_norm, "layer_norm": layer_norm,
        "embedding": embedding, "sparse_embedding": embedding,
    }  # fmt: skip
    interp: dict[str, Callable[..., Value]] = {
        "data": data, "default_main_program": lambda run: draft(run).main,
        "default_startup_program": lambda run: draft(run).startup, "accuracy": accuracy,
        "CompiledProgram": lambda run, program, *a, **k: program, "cpu_places": lambda run, *a: [0],
        "cuda_places": lambda run, *a: [0], "global_scope": _nothing,
        "auc": auc, "save": save,
        **dict.fromkeys(("load", "save_inference_model", "set_program_state"), _nothing),
        **{name: _not_followed(name) for name in (
            "append_backward", "gradients", "load_inference_model", "ExponentialMovingAverage")},
        **more,
    }  # fmt: skip
    return Namespace("paddle.static", {
        **{name: NativeFunction(call, name) for name, call in interp.items()},
        **{name: NativeClass(kind, name) for name, kind in (
            ("InputSpec", InputSpec), ("Program", Program), ("program_guard", Guard),
            ("Executor", Executor), ("name_scope", Quiet), ("device_guard", Quiet),
            ("scope_guard", Quiet), ("BuildStrategy", Quiet), ("ExecutionStrategy", Quiet))},
        "nn": Namespace("paddle.static.nn", {
            name: NativeFunction(call, name) for name, call in nn.items()}),
    })  # fmt: skip

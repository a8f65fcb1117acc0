"""Optimizers: the state they keep from the first step on, and what a step needs for a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import Blocked, Native, Value, first_unknown
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.io.saving import SavedState
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Parameter, Tensor
from gpuconsole.preflight.interpreter.paddle.training.grad_clip import Clip, decayed, decays
from gpuconsole.preflight.memory.trace import Storage

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


class Kind(NamedTuple):
    """What one optimizer keeps, measured with Paddle 3.3.1."""

    states: int
    """State tensors of a parameter's size."""
    powers: int = 0
    """Powers of beta: one float each, in host memory even when the model is on a card."""
    fused_decay: bool = False
    """Whether its own kernel applies L2 decay; otherwise decayed gradients are new tensors."""
    temporary: int = 0
    """Tensors of the size of the parameter being updated."""
    copies: int = 0
    """Tensors of the size of all gradients while the step lasts."""
    rate: str = "learning_rate parameters weight_decay grad_clip"
    """Positional arguments that matter, `-` for others."""


KINDS = {
    "SGD": Kind(0),
    "Momentum": Kind(1, fused_decay=True, rate="learning_rate - parameters - weight_decay"),
    "Lars": Kind(1, fused_decay=True, rate="learning_rate - - - parameters"),
    "Adagrad": Kind(1, rate="learning_rate - parameters weight_decay"),
    "Adam": Kind(2, 2, rate="learning_rate - - - parameters weight_decay"),
    "AdamW": Kind(2, 2, True, rate="learning_rate - - - parameters weight_decay"),
    "Adamax": Kind(2, 1, rate="learning_rate - - - parameters weight_decay"),
    "Adadelta": Kind(2, rate="learning_rate - - parameters weight_decay"),
    "RMSProp": Kind(3, rate="learning_rate - - - - parameters weight_decay"),
    "Lamb": Kind(2, 2, True, temporary=1, rate="learning_rate - - - - parameters"),
    "NAdam": Kind(5, rate="learning_rate - - - - parameters weight_decay"),
    "RAdam": Kind(5, rate="learning_rate - - - parameters weight_decay"),
    "ASGD": Kind(1, temporary=1, rate="learning_rate batch_num parameters weight_decay"),
    "Rprop": Kind(2, temporary=4, copies=1, rate="learning_rate - parameters"),
}


SEGMENT = 2**20
"""Elements beyond which `group_sharded_parallel` cuts a parameter (its default)."""


class Optimizer(Native):
    """Any optimizer: state tensors from the first step on."""

    label = "Optimizer"
    name = "SGD"

    def init(self, run: Run, *args: Value, **kwargs: Value) -> None:
        """Collect the parameters."""
        kind = KINDS[self.name]
        given = dict(zip(kind.rate.split(), args, strict=False)) | kwargs
        parameters = given.get("parameters", given.get("parameter_list"))
        unknown = first_unknown(parameters)
        if unknown is not None:
            run.block(unknown)
        self.rate = given.get("learning_rate")
        self.given = list(parameters) if isinstance(parameters, (list, tuple)) else []
        self.clip = given.get("grad_clip")
        self.decay = given.get("weight_decay")
        self.master = given.get("multi_precision") is True
        self.master_grad = False
        self.states = kind.states + (given.get("amsgrad") is True)
        if self.name == "ASGD" and isinstance(given.get("batch_num"), int):
            # One gradient is remembered for each of the batches that are averaged over.
            self.states = 1 + int(given["batch_num"])
        elif self.name == "ASGD":
            self.states = 2
        self.mine: set[int] | None = None
        self.slices = 1
        self.segment = 0
        self.state: dict[int, list[Tensor]] = {}
        self.owned: list[Tensor | Storage] = []
        self.stepped = False
        # Measured with Paddle 3.3.1: each optimizer keeps a bound method of its own.
        run.uncollected.append(self)
        run.progress.begin_training()
        self.number = len(run.progress.steps_of)
        run.progress.steps_of.append(0)
        variant = run.setting.variant
        self.master = self.master or (variant.amp == "O2" and not run.on_cpu)
        if variant.shard_level and variant.shards > 1:
            self.spread(run, variant.shard_level, variant.shards)

    def groups(self) -> list[tuple[list[Parameter], Value]]:
        """Return the parameters of each group with the group's weight decay."""
        groups_found: list[tuple[list[Parameter], Value]] = []
        loose: list[Parameter] = []
        for parameter in self.given:
            if isinstance(parameter, dict):
                inside = [p for p in parameter.get("params", []) if isinstance(p, Parameter)]
                groups_found.append((inside, parameter.get("weight_decay", self.decay)))
            elif isinstance(parameter, Parameter):
                loose.append(parameter)
        return [(loose, self.decay), *groups_found] if loose else groups_found

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all groups, each once."""
        seen: dict[int, Parameter] = {}
        for group, _ in self.groups():
            for parameter in group:
                seen.setdefault(id(parameter), parameter)
        return list(seen.values())

    @exposed.method("step")
    def do_step(self, run: Run, closure: Value = None) -> None:
        """Update: make the state on the first step, and what the step needs for a moment.

        One group of parameters is done after the other, each clipped by itself.
        """
        stepped = False
        for group, _decay in self.groups():
            pairs = [
                (parameter, parameter.grad) for parameter in group if parameter.grad is not None
            ]
            run.steps += 4 * len(pairs) + 4
            self._change(run, pairs)
            stepped = stepped or bool(pairs)
        if stepped:
            self.count_step(run)

    def update(self, run: Run, pairs: list[tuple[Parameter, Tensor]]) -> None:
        """Clip, decay and update the parameters with these gradients."""
        self._change(run, pairs)
        if pairs:
            self.count_step(run)

    def _change(self, run: Run, pairs: list[tuple[Parameter, Tensor]]) -> None:
        changed: list[Storage] = []
        grads = [grad for _, grad in pairs]
        if isinstance(self.clip, Clip) and not self.clip.inplace:
            changed += [run.storage(grad.nbytes, "gradients") for grad in grads]
        changed += self._decayed(run, pairs)
        kind = KINDS[self.name]
        if not self.stepped and pairs:
            # The learning rate is a tensor of its own.
            self.owned.append(run.tensor((1,), "float32", "optimizer"))
            self.stepped = True
        for parameter, _ in pairs:
            if id(parameter) not in self.state:
                self.state[id(parameter)] = self._make(run, parameter)
        changed += [run.storage(gradient.nbytes, "gradients") for gradient in grads * kind.copies]
        # Kernels for accelerators update in place, element by element; the CPU's Rprop does not.
        if kind.temporary and grads and (run.on_cpu or kind.temporary == 1):
            run.scratch(kind.temporary * max(grad.nbytes for grad in grads))
        for grad in grads:
            if grad.rows:
                # Rows that were looked up twice are merged into a copy.
                run.scratch(grad.storage.nbytes)

    def decaying(self, parameters: list[Parameter]) -> list[Parameter]:
        """Return those with decayed gradients that are new tensors."""
        fused = KINDS[self.name].fused_decay
        strength = {id(parameter): decay for group, decay in self.groups() for parameter in group}
        return [
            parameter
            for parameter in parameters
            if decays(strength.get(id(parameter), self.decay), fused)
        ]

    def _decayed(self, run: Run, pairs: list[tuple[Parameter, Tensor]]) -> list[Storage]:
        touched = {
            id(parameter) for parameter in self.decaying([parameter for parameter, _ in pairs])
        }
        return decayed(run, [grad for parameter, grad in pairs if id(parameter) in touched])

    def _make(self, run: Run, parameter: Parameter) -> list[Tensor]:
        half = parameter.dtype in ("float16", "bfloat16") and self.master
        dtype = "float32" if half else parameter.dtype
        if self.mine is not None and id(parameter) not in self.mine:
            return []
        shape = (
            parameter.shape
            if parameter.size <= self.segment
            else (-(-parameter.size // self.slices),)
        )
        states = [run.tensor(shape, dtype, "optimizer") for _ in range(self.states)]
        if half:
            states.append(run.tensor(shape, "float32", "optimizer"))
        if run.on_cpu:
            # Beta powers are made on the host whatever the device is.
            states += [run.tensor((1,), "float32", "optimizer")
                     for _ in range(KINDS[self.name].powers)]  # fmt: skip
        return states

    def spread(self, run: Run, level: str, shards: int, segment: int = SEGMENT) -> None:
        """Spread states (`os`), gradients (`os_g`), parameters (`p_g_os`) over processes.

        Up to `os_g` a process owns whole parameters, dealt out one by one; we take the fullest
        process. At `p_g_os` each parameter beyond `segment` elements is cut into equal parts, and
        two layers at a time are put together: the one in use and the next.
        """
        if shards < 2:
            return
        parameters = self.parameters()
        if level != "p_g_os":
            self.mine = owned(parameters, shards)
            if level == "os_g":
                run.mode.own_gradients = (run.mode.own_gradients or set()) | self.mine
            return
        self.slices, self.segment = shards, segment
        cut = [parameter for parameter in parameters if parameter.size > segment]
        for parameter in cut:
            parameter.storage = run.storage(-(-parameter.nbytes // shards), "parameters")
        largest = max((parameter.nbytes for parameter in cut), default=0)
        self.owned.append(run.storage(2 * largest, "parameters"))

    @exposed.method("minimize")
    def do_minimize(self, run: Run, loss: Tensor, *_: Value, **__: Value) -> Value:
        """Step (the loss has been run backward by the script)."""
        draft = run.program.draft
        if draft is not None and run.program.drafting is not None:
            draft.minimize(self, loss)
        else:
            self.do_step(run)
        return ([], [])

    def prepare_states(self, run: Run) -> None:
        """Make all state before the first step, as a static startup program does."""
        for parameter in self.parameters():
            if id(parameter) not in self.state:
                self.state[id(parameter)] = self._make(run, parameter)

    def count_step(self, run: Run) -> None:
        """Count a step that was done gradient by gradient."""
        run.stepped()
        run.progress.steps_of[self.number] += 1

    @exposed.method("backward")
    def do_backward(self, run: Run, loss: Value, *_: Value, **__: Value) -> Value:
        """Give the gradients there are: in dynamic mode nothing is run backward here."""
        return [
            (parameter, parameter.grad)
            for parameter in self.parameters()
            if parameter.grad is not None
        ]

    @exposed.method("apply_gradients")
    def do_apply_gradients(self, run: Run, params_grads: Value) -> None:
        """Update with given gradients."""
        pairs = [tuple(params_grad) for params_grad in params_grads]
        unknown = first_unknown(*pairs)
        if unknown is not None:
            run.block(unknown)
            return
        self.update(run, [(p, g) for p, g in pairs
                          if isinstance(p, Parameter) and isinstance(g, Tensor)])  # fmt: skip

    @exposed.method("clear_grad", "clear_gradients")
    def do_clear_grad(self, run: Run, set_to_zero: Value = True) -> None:
        """Zero the gradients, which keeps their memory, or let them go; rows always go."""
        for parameter in self.parameters():
            parameter.clear_gradient(zero=set_to_zero is not False)

    do_clear_gradients = do_clear_grad

    @exposed.method("zero_grad")
    def do_zero_grad(self, run: Run, set_to_none: Value = True) -> None:
        """Let the gradients go, or zero them."""
        self.do_clear_grad(run, set_to_none is False)

    @exposed.method("get_lr")
    def do_get_lr(self, run: Run) -> Value:
        """Give the rate."""
        return self.rate if isinstance(self.rate, float) else run.number("the learning rate")

    @exposed.method("set_lr", "set_state_dict", "set_lr_scheduler", "load_state_dict", "set_dict")
    def do_set_lr(self, run: Run, *_: Value, **__: Value) -> None:
        """Change nothing in size."""

    @exposed.method("state_dict")
    def do_state_dict(self, run: Run) -> Value:
        """Give what would be saved."""
        states = tuple(tensor for each in self.state.values() for tensor in each)
        why = "the saved state of an optimizer"
        return SavedState(run.file, run.line, why, None, states)

    @exposed.prop("_learning_rate")
    def get__learning_rate(self, run: Run) -> Value:
        """Give the rate or scheduler."""
        return self.rate if self.rate is not None else Scheduler()

    @exposed.prop("_parameter_list", "_param_groups")
    def get__parameter_list(self, run: Run) -> Value:
        """Give the parameters."""
        return self.parameters()


class SecondOrder(Optimizer):
    """`LBFGS`: runs a closure as often as the data asks for, with a history of vectors."""

    name = "SGD"
    label = "LBFGS"

    @exposed.method("step")
    def do_step(self, run: Run, closure: Value = None) -> None:
        """Say that the memory depends on how the search goes."""
        raise Blocked(run.unknown(
            "LBFGS keeps up to two vectors of all parameters for each past step, and how many "
            "depends on the data"
        ))  # fmt: skip


class Scheduler(Native):
    """Any learning-rate scheduler."""

    label = "scheduler"

    @exposed.method("step", "set_state_dict", "load_state_dict", "set_dict")
    def do_step(self, run: Run, *_: Value, **__: Value) -> None:
        """Change no sizes."""

    @exposed.method("get_lr", "get_last_lr")
    @exposed.prop("last_lr", "base_lr", "gamma")
    def do_get_lr(self, run: Run) -> Value:
        """Give the rate."""
        return run.number("the learning rate")

    @exposed.prop("last_epoch")
    def get_last_epoch(self, run: Run) -> Value:
        """Give how often it was stepped."""
        return run.number("the steps of a learning-rate scheduler")

    def call(self, interp: Interpreter, *_: Value) -> Value:
        """Give the rate."""
        return self.do_get_lr(interp.run)

    @exposed.method("state_dict")
    def do_state_dict(self, run: Run) -> Value:
        """Give what would be saved."""
        return run.unknown("the saved state of a scheduler")


def optimizer_class(name: str) -> type[Optimizer]:
    """Return the class of an optimizer by its Paddle name."""
    return type(name, (Optimizer,), {"name": name, "label": name})


def owned(parameters: list[Parameter], shards: int) -> set[int]:
    """Return the parameters of the fullest process, dealt out as Paddle deals them.

    Each goes, in order, to the process that has the fewest elements so far.
    """
    loads = [0] * shards
    parts: list[set[int]] = [set() for _ in range(shards)]
    for parameter in parameters:
        least = loads.index(min(loads))
        loads[least] += parameter.size
        parts[least].add(id(parameter))
    return parts[loads.index(max(loads))]

"""Programs for the static graph: Paddle writes them as it always does, and what running one takes
is counted from its operators, in the order of Paddle's executor.

Variables of the scope live here by name: parameters and states, which the startup program makes,
what was fed last, and the copies of what was fetched. Measured with Paddle 3.3.1 on a CPU: what is
fed stays until the next batch is copied, where the program was the first to be fed it; what is
fetched is held twice beside the script's own array, of which one goes only after the next run.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from ..ledger import Block
from ..sizes import nbytes
from ..state import STATE, Unsupported, rightly
from ..tensor.tensor import Tensor
from ..values import known
from . import plan as program_plan
from .order import flat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import TypeAlias

    from numpy import ndarray
    from numpy.typing import DTypeLike
    from paddle.base.core import DenseTensor
    from paddle.base.core import Variable as OwnVariable
    from paddle.base.core import _Scope as OwnScope
    from paddle.static import CompiledProgram, Executor

    from ..inference.infer import Spec
    from ..paddle_types import OwnProgram, OwnValue
    from ..types import Shape

    Fed: TypeAlias = Tensor | ndarray | DenseTensor
    """What a program is fed for a variable."""
    Family: TypeAlias = tuple[int, int, tuple[int, ...]]
    """A program by its number, how many operators it has, and what is fetched."""

OF_TODAY = "FLAGS_enable_pir_api"
"""The variable that asks for programs of the older kind, which Paddle reads once."""
LARGEST_OWN = 2**26
"""Bytes of a tensor that is given to a script as Paddle's own."""


class Scope:
    """The variables of programs in one of Paddle's scopes."""

    def __init__(self, own: OwnScope) -> None:
        self.own = own
        self.lasting: dict[str, Block] = {}
        self.specs: dict[str, Spec] = {}
        """Shapes and types of what lasts."""
        self.fed: dict[str, Block] = {}
        self.known: set[str] = set()
        """Names of what was ever fed."""
        self.fetched: dict[int, Block] = {}
        """What was fetched last, by its place among what is fetched, of all programs."""
        self.plans: dict[
            tuple[Family, tuple[tuple[str, Shape], ...]], tuple[program_plan.Plan, OwnProgram]
        ] = {}
        """By program, what is fetched and the shapes of what is fed."""
        self.lists: dict[Family, list[Block | None]] = {}
        """By program and what is fetched: what the last run has given."""


SCOPES: dict[int, Scope] = {}
SAVED: list[bool] = []
"""Whether something would have been saved."""


def scope_of(own: OwnScope | None) -> Scope:
    """Return the counterpart of a scope of Paddle's, by default the one that is used now."""
    own = own if own is not None else STATE.paddle.static.global_scope()
    return SCOPES.setdefault(id(own), Scope(own))


def run(
    executor: Executor,
    program: OwnProgram | CompiledProgram | None = None,
    feed: Mapping[str, Fed] | Sequence[Mapping[str, Fed]] | None = None,
    fetch_list: Sequence[OwnValue] | None = None,
    feed_var_name: str = "feed",
    fetch_var_name: str = "fetch",
    scope: OwnScope | None = None,
    return_numpy: bool = True,
    *_: object,
    **__: object,
) -> list[ndarray | DenseTensor]:
    """Stand for `Executor.run`."""
    static, pir = STATE.paddle.static, importlib.import_module("paddle.pir")
    if isinstance(program, static.CompiledProgram):
        program = program._program
    if program is None:
        program = static.default_main_program()
    if not isinstance(program, pir.Program):
        raise Unsupported("a program of the older kind is not followed")
    if os.environ.get(OF_TODAY, "1").lower() in ("0", "false"):
        # Paddle was imported before the script set it; most operators of 3.3 refuse that kind.
        STATE.choice(f"programs are of today's kind, though {OF_TODAY} asks for the older one")
    if executor._closed:
        raise rightly(RuntimeError("Attempted to use a closed Executor"))
    fed = _one(feed)
    wanted = _hashes(program, executor._check_fetch_list(fetch_list))
    STATE.flags.add("static-graph")
    program_run = Run(scope_of(scope), program, fed, wanted)
    STATE.ran = program_run.plan
    return program_run.go(return_numpy)


def _one(feed: object) -> dict[str, Fed]:
    """Return what is fed by name."""
    if isinstance(feed, (list, tuple)):
        if len(feed) != 1:
            raise Unsupported("a program that is fed for several devices")
        feed = feed[0]
    if feed is not None and not isinstance(feed, dict):
        words = f"feed requires dict as its Parameter. But you passed in {type(feed)}"
        raise rightly(TypeError(words))
    return dict(feed or {})


def _hashes(program: OwnProgram, fetched: Sequence[OwnValue]) -> list[int]:
    """Return the hashes of the values that a program fetches by itself, then of those to be fetched
    beside them."""
    own = [op for op in program.global_block().ops if op.name() == "pd_op.fetch"]
    names = [op.attrs()["name"] for op in own]
    hashes = [op.operand_source(0).hash() for op in own]
    more: list[int] = []
    for place, value in enumerate(fetched):
        if not isinstance(value, str):
            more += [value.hash()] if value.hash() not in hashes else []
        elif value not in names:
            words = f"Found fetch_target[{place}] is type(str) and doesn't have fetch op."
            raise rightly(Exception(words))
    return hashes + more


class Run:
    """One run of a program."""

    def __init__(
        self, scope: Scope, program: OwnProgram, feed: dict[str, Fed], wanted: Sequence[int]
    ) -> None:
        self.scope = scope
        self.feed = feed
        shapes = {name: given(value) for name, value in feed.items()}
        count = len(program.global_block().ops)
        self.family = (id(program), count, tuple(wanted))
        key = (self.family, tuple(sorted(shapes.items())))
        plan_found = scope.plans.get(key)
        if plan_found is None:
            _check(program, feed)
            plan = program_plan.Reader(program, shapes, list(wanted)).read()
            same = [plan for (family, _), (plan, _) in scope.plans.items() if family == self.family]
            plan.keeps = same[0].keeps if same else set(plan.fed) - scope.known
            # The program is held, so that its number stays its own.
            plan_found = scope.plans[key] = (plan, program)
        self.plan = plan_found[0]
        self.blocks: dict[int, Block] = {}

    def go(self, return_numpy: bool) -> list[ndarray | DenseTensor]:
        """Run the operators and return what is fetched."""
        plan, blocks = self.plan, self.blocks
        self._feed()
        for name, number in plan.lasting.items():
            blocks[number] = self._lasting(name, number)
        fetched = set(plan.fetched)
        for place, gone in zip(plan.order, plan.releases):
            self._operator(place)
            for number, name in plan.named.get(place, ()):
                self.scope.lasting[name] = blocks[number]
                self.scope.specs[name] = plan.specs[number]
            for number in flat(plan.operators[place].outputs):
                if number in fetched:
                    self._fetch(number)
            for number in gone:
                blocks.pop(number, None)
        for number in fetched & {*plan.fed.values(), *plan.lasting.values()}:
            self._fetch(number)
        blocks.clear()
        return self._results(return_numpy)

    def _feed(self) -> None:
        """Copy what is fed, beside what was fed before; tensors of loaders are taken as such."""
        plan, fed = self.plan, self.scope.fed
        for name, number in plan.fed.items():
            if name not in self.feed:
                raise rightly(KeyError(name))
            spec, tensor = plan.specs[number], self.feed.pop(name)
            block = tensor.m_block if isinstance(tensor, STATE.tensor) else None
            if block is None:
                block = Block(STATE.ledger, nbytes(spec.shape, spec.dtype), "feed")
            STATE.ledger.tag([block.index], "inputs")
            self.blocks[number] = fed[name] = block
            del tensor, block
        self.scope.known.update(plan.fed)
        for name in plan.fed.keys() - plan.keeps:
            fed.pop(name)

    def _lasting(self, name: str, number: int) -> Block:
        """Return the memory of a parameter or state."""
        block = self.scope.lasting.get(name)
        if block is None:
            block = self.scope.lasting[name] = self._found(name, number)
            self.scope.specs[name] = self.plan.specs[number]
        kind = "parameters" if number in self.plan.parameters else "optimizer"
        STATE.ledger.tag([block.index], kind)
        return block

    def _found(self, name: str, number: int) -> Block:
        """Take over what Paddle itself has put into its scope, such as what it has loaded."""
        own = OWN["find_var"](self.scope.own, name)
        if own is None or not own.get_tensor()._is_initialized():
            raise Unsupported(f"a program reads {name}, which no program that was run has made")
        spec = self.plan.specs[number]
        return Block(STATE.ledger, nbytes(spec.shape, spec.dtype), "load")

    def _operator(self, place: int) -> None:
        plan, blocks, ledger = self.plan, self.blocks, STATE.ledger
        ledger.calls += 1
        if ledger.calls >= STATE.pause:
            STATE.paused()
        operator, inside = plan.operators[place], plan.inside[place]
        for number in flat(operator.outputs):
            source = inside.get(number)
            if source is not None and source in blocks:
                blocks[number] = blocks[source]
                continue
            spec = plan.specs[number]
            blocks[number] = Block(ledger, nbytes(spec.shape, spec.dtype), operator.name)
            if number in plan.gradients:
                ledger.tag([blocks[number].index], "gradients")
        ledger.scratch(plan.needs[place], operator.name)

    def _fetch(self, number: int) -> None:
        """Copy what is fetched, on a CPU; a device's goes to its host."""
        if STATE.backend != "cpu":
            return
        spec, fetched = self.plan.specs[number], self.scope.fetched
        size = nbytes(spec.shape, spec.dtype)
        for place, value in enumerate(self.plan.fetched):
            before = fetched.get(place)
            if value == number and (before is None or before.nbytes < size):
                fetched.pop(place, None)
                del before
                fetched[place] = Block(STATE.ledger, size, "fetch")

    def _results(self, return_numpy: bool) -> list[ndarray | DenseTensor]:
        """Return what is fetched as a script gets it."""
        tensors = []
        for number in self.plan.fetched:
            spec = self.plan.specs[number]
            result = STATE.tensor.__new__(STATE.tensor)
            result.m_shape, result.m_dtype = tuple(spec.shape), spec.dtype
            if STATE.backend == "cpu":
                result.m_block = Block(STATE.ledger, nbytes(spec.shape, spec.dtype), "fetch")
            tensors.append(result)
        self.scope.lists[self.family] = [tensor.m_block for tensor in tensors]
        return [
            known.copied(tensor, "numpy") if return_numpy else _own(tensor) for tensor in tensors
        ]


def _own(tensor: Tensor) -> DenseTensor:
    """Return a result as Paddle's own tensor, which shares its memory."""
    if nbytes(tensor.m_shape, tensor.m_dtype) > LARGEST_OWN:
        raise Unsupported("a large result of a program that is not made an array")
    own = STATE.core.DenseTensor()
    own.set(known.array(tensor, "numpy").copy(), STATE.core.CPUPlace())
    return own


def given(value: Fed) -> Shape:
    """Return the shape of something that is fed."""
    import numpy

    if isinstance(value, Tensor):
        return tuple(int(extent) for extent in value.m_shape)
    shape = value.shape() if isinstance(value, STATE.core.DenseTensor) else numpy.shape(value)
    return tuple(shape)


def _check(program: OwnProgram, feed: Mapping[str, Fed]) -> None:
    """Let Paddle check the types and shapes of what is fed."""
    executor = importlib.import_module("paddle.base.executor")
    for op in program.global_block().ops:
        name = op.attrs().get("name") if op.name() == "pd_op.data" else None
        if not isinstance(name, str) or name not in feed or isinstance(feed[name], Tensor):
            continue
        value, fed = op.results()[0], feed[name]
        try:
            if not isinstance(fed, STATE.core.DenseTensor):
                fed = executor._as_lodtensor(fed, STATE.core.CPUPlace(), value.dtype)
            executor.pir_check_feed_shape_type(fed, name, list(value.shape), value.dtype)
        except Exception as error:
            raise rightly(error) from None


def install(paddle: ModuleType) -> None:
    """Stand in for what runs, saves and loads programs."""
    static = paddle.static
    executor = static.Executor
    executor.run = run
    for name in ("train_from_dataset", "infer_from_dataset"):
        setattr(executor, name, _refused(f"`Executor.{name}`: its batches are read in C++, "
                                         "which is not followed"))  # fmt: skip
    writers = {"save": _saved_program, "save_inference_model": _saved, "save_vars": _saved}
    for name, writer in writers.items():
        setattr(static, name, writer)
        for module in (static.io, static.pir_io):
            if hasattr(module, name):
                setattr(module, name, writer)
    for name in ("load_inference_model", "load_program_state", "load_vars"):
        setattr(static, name, _loaded(getattr(static, name)))
    static.load = _loaded(_into_scope(static.load))
    program = importlib.import_module("paddle.pir").Program
    program.state_dict = _refused("what a program's parameters hold is known only from data")
    program.set_state_dict = _nothing
    static.set_program_state = _nothing
    scope = paddle.base.core._Scope
    for name in ("find_var", "var"):
        OWN[name] = getattr(scope, name)
        setattr(scope, name, _looked_up(name))


OWN: dict[str, Callable[[OwnScope, str], OwnVariable]] = {}
"""Methods of Paddle's own that are replaced here."""


class Variable:
    """A variable of a scope, as scripts set and look at it."""

    def __init__(self, spec: Spec) -> None:
        self.tensor = STATE.tensor.__new__(STATE.tensor)
        self.tensor.m_shape, self.tensor.m_dtype = tuple(spec.shape), spec.dtype

    def get_tensor(self) -> Variable:
        """Return what holds its data, which is not known."""
        return self

    def set(self, *_: object) -> None:
        """Take data: it is as large as before."""

    def shape(self) -> list[int]:
        """Return its extents."""
        return list(self.tensor.m_shape)

    _get_dims = shape

    def _is_initialized(self) -> bool:
        return True

    def __array__(self, dtype: DTypeLike = None, copy: object = None) -> ndarray:
        import numpy

        return numpy.array(known.array(self.tensor, "numpy"), dtype)

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unsupported(f"`{name}` of a variable in a program's scope")


def _looked_up(method: str) -> Callable[[OwnScope, str], Variable | OwnVariable]:
    def look(own: OwnScope, name: str) -> Variable | OwnVariable:
        mine = SCOPES.get(id(own))
        if mine is not None and name in mine.specs:
            return Variable(mine.specs[name])
        return OWN[method](own, name)

    return look


def _refused(words: str) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> None:
        raise Unsupported(words)

    return refuse


def _nothing(*_: object, **__: object) -> None:
    """Do nothing: parameters stay as large as they are."""


def _saved(*_: object, **__: object) -> None:
    """Leave out what would be written: files of a run are thrown away."""
    SAVED.append(True)


def _saved_program(program: object, *_: object, **__: object) -> None:
    """Stand for `static.save`: copies of all parameters and states at once, in memory of the host
    (measured with Paddle 3.3.1). Where programs run on a device, it takes none there."""
    SAVED.append(True)
    pir = importlib.import_module("paddle.pir")
    if STATE.backend != "cpu" or not isinstance(program, pir.Program):
        return
    lasting = scope_of(None).lasting
    parameters, states = STATE.paddle.static.pir_io.get_pir_parameters(program)
    saved = (value.name for value in (*parameters, *states) if value.persistable)
    copies = [
        Block(STATE.ledger, lasting[name].nbytes, "save") for name in saved if name in lasting
    ]
    copies.clear()


def _into_scope(own: Callable[..., object]) -> Callable[..., object]:
    """Return what loads parameters: those that a program has stay as large as they are."""

    def load(program: OwnProgram, model_path: object, *args: object, **kwargs: object) -> object:
        if any(os.path.exists(f"{model_path}{end}") for end in ("", ".pdparams")):
            return None
        return own(program, model_path, *args, **kwargs)

    return load


def _loaded(own: Callable[..., object]) -> Callable[..., object]:
    def load(*args: object, **kwargs: object) -> object:
        if SAVED:
            raise Unsupported("a program loads what this run has only pretended to save")
        return own(*args, **kwargs)

    return load

"""Recomputed blocks: `for block in self.blocks: x = block(x)` called through `recompute`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.rewriting.draft import DoubtError, Draft
from gpuconsole.preflight.rewriting.sources import Source, last_name, mentions

_CONTAINERS = ("LayerList", "Sequential")
_FROZEN = ("stop_gradient", "trainable", "to_static")
"""With any of these a block's input may need no gradient, and then Paddle trains nothing in it."""
_SHARED = ("DataParallel", "distributed_model", "shard_tensor")
"""What gathers gradients during the backward pass, and expects each parameter in it once."""
_CUT = ("no_grad", "detach")
"""The same within the class; elsewhere they are for evaluation and logs."""
_TRAINED = re.compile(
    r"\A(Linear|Conv[123]D(Transpose)?|Embedding|(Layer|Group|Instance)Norm\w*|BatchNorm\w*"
    r"|RNN|LSTM|GRU|MultiHeadAttention|Bilinear)\Z"
)
"""Layers that have parameters, so that their output needs a gradient."""


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A loop over blocks that are alike."""

    source: Source
    owner: ast.ClassDef
    node: ast.For
    call: ast.Call
    attribute: str


def place(sources: tuple[Source, ...]) -> tuple[Path, int] | None:
    """Return where it would be written by hand: the loop over blocks, else where they are made."""
    for loop in _loops(sources):
        return loop.source.path, loop.node.lineno
    mention = mentions(sources, *_CONTAINERS, "TransformerEncoder", "TransformerDecoder")
    return None if mention is None else (mention[0].path, getattr(mention[1], "lineno", 0))


def draft(sources: tuple[Source, ...], _steps: int) -> Draft:
    """Return the change; Doubt where the blocks or what flows into them are not plain."""
    used = mentions(sources, "recompute", "recompute_sequential", "recompute_hybrid")
    if used is not None:
        raise DoubtError("blocks are recomputed already", *used)
    loops = _loops(sources)
    if not loops:
        raise DoubtError("no plain loop over blocks was found")
    source = loops[0].source
    if any(loop.source is not source for loop in loops):
        raise DoubtError("blocks are called in several files", loops[-1].source, loops[-1].node)
    shared = mentions(sources, *_SHARED)
    if shared is not None:
        raise DoubtError("gradients are shared among processes", *shared)
    frozen = mentions(sources, *_FROZEN)
    if frozen is not None:
        raise DoubtError("some gradients may be switched off", *frozen)
    own = source.paddle()
    if not own:
        raise DoubtError("the module does not import paddle by name", source, loops[0].node)
    _require_apart(loops)
    result = Draft(source)
    for loop in loops:
        _require_trained(sources, loop)
        words = ", ".join(map(ast.unparse, (loop.call.func, *loop.call.args)))
        result.put(loop.call, f"{own}.distributed.fleet.utils.recompute({words})")
    return result


def attributes(sources: tuple[Source, ...]) -> frozenset[str]:
    """Return the names of the containers with blocks that the change recomputes."""
    return frozenset(loop.attribute for loop in _loops(sources))


def _loops(sources: tuple[Source, ...]) -> list[_Blocks]:
    loops: list[_Blocks] = []
    for source in sources:
        blocks = (_blocks(source, node) for node in source.loops_over)
        loops += [block for block in blocks if block is not None]
    return loops


def _blocks(source: Source, node: ast.For) -> _Blocks | None:
    """Return a loop over blocks in the `forward` of a class; None for any other."""
    function, owner = source.scope(node), None
    if isinstance(function, ast.FunctionDef) and function.name == "forward":
        owner = source.parent(function)
    target, data = node.target, node.iter
    if isinstance(data, ast.Call) and last_name(data.func) == "enumerate" and len(data.args) == 1:
        data = data.args[0]
        pair = isinstance(target, ast.Tuple) and len(target.elts) == 2
        target = target.elts[1] if isinstance(target, ast.Tuple) and pair else target
    named = isinstance(data, ast.Attribute) and last_name(data.value) == "self"
    if not isinstance(owner, ast.ClassDef) or not named or not isinstance(target, ast.Name):
        return None
    assert isinstance(data, ast.Attribute)
    call = _call(node, target.id)
    if call is None or not _holds_layers(owner, data.attr):
        return None
    return _Blocks(source, owner, node, call, data.attr)


def _call(node: ast.For, block: str) -> ast.Call | None:
    """Return the call of the only statement of a loop, `x = block(x, ...)`."""
    only = node.body[0] if len(node.body) == 1 and not node.orelse else None
    if not isinstance(only, ast.Assign) or len(only.targets) != 1:
        return None
    call, into = only.value, only.targets[0]
    if not isinstance(call, ast.Call) or call.keywords or last_name(call.func) != block:
        return None
    plain = all(isinstance(part, ast.Name) for part in (call.func, into, *call.args))
    same = bool(call.args) and last_name(call.args[0]) == last_name(into)
    return call if plain and same else None


def _holds_layers(owner: ast.ClassDef, attribute: str) -> bool:
    """Return True if a class assigns its attribute a container of layers, and nothing else."""
    values = _values(owner, attribute)
    return bool(values) and all(
        isinstance(value, ast.Call) and last_name(value.func) in _CONTAINERS for value in values
    )


def _require_apart(loops: list[_Blocks]) -> None:
    """Doubt loops of which one may run within another."""
    owners = {loop.owner for loop in loops}
    for owner in owners if len(owners) > 1 else ():
        used = {last_name(node) for node in ast.walk(owner) if isinstance(node, ast.Name)}
        inner = next((other for other in owners if other is not owner and other.name in used), None)
        if inner is not None:
            source = loops[0].source
            raise DoubtError("blocks hold blocks themselves", source, inner)


def _require_trained(sources: tuple[Source, ...], blocks: _Blocks) -> None:
    """Doubt an input of the first block that no layer with parameters has made for certain."""
    source, name = blocks.source, last_name(blocks.call.args[0])
    cut = next((node for node in ast.walk(blocks.owner)
                if isinstance(node, ast.Attribute) and node.attr in _CUT), None)  # fmt: skip
    if cut is not None:
        raise DoubtError("some gradients may be switched off", source, cut)
    function = source.scope(blocks.node)
    assert isinstance(function, ast.FunctionDef)
    for statement in function.body:
        if statement.lineno >= blocks.node.lineno:
            break
        into = isinstance(statement, ast.Assign) and [last_name(x) for x in statement.targets] == [
            name
        ]
        if into and any(
            _calls_trained(sources, blocks.owner, node) for node in ast.walk(statement)
        ):
            return
    raise DoubtError("the first block's input may need no gradient", source, blocks.node)


def _calls_trained(sources: tuple[Source, ...], owner: ast.ClassDef, node: ast.AST) -> bool:
    """Tell whether a node calls a layer of `self` that has parameters."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if last_name(node.func.value) != "self":
        return False
    values = _values(owner, node.func.attr)
    return bool(values) and all(_is_trained(sources, value) for value in values)


def _is_trained(sources: tuple[Source, ...], value: ast.expr, *, deep: bool = True) -> bool:
    """Tell whether what a value makes is a layer with parameters: one of Paddle's, or a class of
    the project that has one."""
    names = [last_name(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)]
    if any(map(_TRAINED.match, names)):
        return True
    own = last_name(value.func) if deep and isinstance(value, ast.Call) else ""
    classes = [
        node
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and node.name == own
    ]
    return len(classes) == 1 and any(
        _is_trained(sources, node.value, deep=False)
        for node in ast.walk(classes[0])
        if isinstance(node, ast.Assign)
    )


def _values(owner: ast.ClassDef, attribute: str) -> list[ast.expr]:
    """Return what a class assigns to an attribute of itself."""
    return [
        node.value
        for node in ast.walk(owner)
        if isinstance(node, ast.Assign)
        and any(
            isinstance(target, ast.Attribute) and last_name(target.value) == "self"
            and target.attr == attribute
            for target in node.targets
        )
    ]  # fmt: skip

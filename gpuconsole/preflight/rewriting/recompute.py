"""Recomputed blocks: `for block in self.blocks: x = block(x)` called through `recompute`."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

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
    for found in _loops(sources):
        return found.source.path, found.node.lineno
    made = mentions(sources, *_CONTAINERS, "TransformerEncoder", "TransformerDecoder")
    return None if made is None else (made[0].path, getattr(made[1], "lineno", 0))


def draft(sources: tuple[Source, ...], _steps: int) -> Draft:
    """Return the change; Doubt where the blocks or what flows into them are not plain."""
    used = mentions(sources, "recompute", "recompute_sequential", "recompute_hybrid")
    if used is not None:
        raise DoubtError("blocks are recomputed already", *used)
    found = _loops(sources)
    if not found:
        raise DoubtError("no plain loop over blocks was found")
    source = found[0].source
    if any(one.source is not source for one in found):
        raise DoubtError("blocks are called in several files", found[-1].source, found[-1].node)
    shared = mentions(sources, *_SHARED)
    if shared is not None:
        raise DoubtError("gradients are shared among processes", *shared)
    frozen = mentions(sources, *_FROZEN)
    if frozen is not None:
        raise DoubtError("some gradients may be switched off", *frozen)
    own = source.paddle()
    if not own:
        raise DoubtError("the module does not import paddle by name", source, found[0].node)
    _require_apart(found)
    made = Draft(source)
    for one in found:
        _require_trained(sources, one)
        words = ", ".join(map(ast.unparse, (one.call.func, *one.call.args)))
        made.put(one.call, f"{own}.distributed.fleet.utils.recompute({words})")
    return made


def attributes(sources: tuple[Source, ...]) -> frozenset[str]:
    """Return the names of the containers whose blocks the change recomputes."""
    return frozenset(one.attribute for one in _loops(sources))


def _loops(sources: tuple[Source, ...]) -> list[_Blocks]:
    found: list[_Blocks] = []
    for source in sources:
        blocks = (_blocks(source, node) for node in source.loops_over)
        found += [block for block in blocks if block is not None]
    return found


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
    plain = all(isinstance(one, ast.Name) for one in (call.func, into, *call.args))
    same = bool(call.args) and last_name(call.args[0]) == last_name(into)
    return call if plain and same else None


def _holds_layers(owner: ast.ClassDef, attribute: str) -> bool:
    """Tell whether a class gives its attribute a container of layers, and nothing else."""
    values = _values(owner, attribute)
    return bool(values) and all(
        isinstance(value, ast.Call) and last_name(value.func) in _CONTAINERS for value in values
    )


def _require_apart(found: list[_Blocks]) -> None:
    """Doubt loops of which one may run within another."""
    owners = {one.owner for one in found}
    for owner in owners if len(owners) > 1 else ():
        used = {last_name(one) for one in ast.walk(owner) if isinstance(one, ast.Name)}
        inner = next((one for one in owners if one is not owner and one.name in used), None)
        if inner is not None:
            source = found[0].source
            raise DoubtError("blocks hold blocks themselves", source, inner)


def _require_trained(sources: tuple[Source, ...], found: _Blocks) -> None:
    """Doubt an input of the first block that no layer with parameters has made for certain."""
    source, name = found.source, last_name(found.call.args[0])
    cut = next((one for one in ast.walk(found.owner)
                if isinstance(one, ast.Attribute) and one.attr in _CUT), None)  # fmt: skip
    if cut is not None:
        raise DoubtError("some gradients may be switched off", source, cut)
    function = source.scope(found.node)
    assert isinstance(function, ast.FunctionDef)
    for one in function.body:
        if one.lineno >= found.node.lineno:
            break
        into = isinstance(one, ast.Assign) and [last_name(x) for x in one.targets] == [name]
        if into and any(_calls_trained(sources, found.owner, node) for node in ast.walk(one)):
            return
    raise DoubtError("the first block's input may need no gradient", source, found.node)


def _calls_trained(sources: tuple[Source, ...], owner: ast.ClassDef, node: ast.AST) -> bool:
    """Tell whether a node calls a layer of `self` that has parameters."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if last_name(node.func.value) != "self":
        return False
    made = _values(owner, node.func.attr)
    return bool(made) and all(_is_trained(sources, one) for one in made)


def _is_trained(sources: tuple[Source, ...], value: ast.expr, *, deep: bool = True) -> bool:
    """Tell whether what a value makes is a layer with parameters: one of Paddle's, or a class of
    the project that has one."""
    made = [last_name(one.func) for one in ast.walk(value) if isinstance(one, ast.Call)]
    if any(map(_TRAINED.match, made)):
        return True
    own = last_name(value.func) if deep and isinstance(value, ast.Call) else ""
    classes = [
        node
        for one in sources
        for node in ast.walk(one.tree)
        if isinstance(node, ast.ClassDef) and node.name == own
    ]
    return len(classes) == 1 and any(
        _is_trained(sources, node.value, deep=False)
        for node in ast.walk(classes[0])
        if isinstance(node, ast.Assign)
    )


def _values(owner: ast.ClassDef, attribute: str) -> list[ast.expr]:
    """Return what a class gives an attribute of itself."""
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

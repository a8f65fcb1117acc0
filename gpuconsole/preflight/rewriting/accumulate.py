"""Gradients accumulated over several batches: the loss divided, the update only after the last."""

from __future__ import annotations

import ast
from pathlib import Path

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.preflight.rewriting import fit
from gpuconsole.preflight.rewriting.draft import DoubtError, Draft
from gpuconsole.preflight.rewriting.sources import Source, calls, last_name
from gpuconsole.preflight.rewriting.training_loop import (
    Loop,
    backward_line,
    find,
    leaves,
    require_plain_between,
)

COUNTER = "micro_step"
_NO_LOADER = (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.Dict, ast.Set, ast.Constant)


@dataclass(frozen=True, slots=True)
class _Count:
    """How the batches of a loop are counted."""

    name: str
    first: int
    """The number of the first batch."""

    def at(self, steps: int, *, first: bool) -> str:
        """Return the condition for the first, or the last, of so many batches."""
        shift = (0 if first else 1) - self.first
        number = (
            self.name if not shift else f"({self.name} {'+' if shift > 0 else '-'} {abs(shift)})"
        )
        return f"if {number} % {steps} == 0:"


def place(sources: tuple[Source, ...]) -> tuple[Path, int] | None:
    """Return where it would be written by hand."""
    return backward_line(sources) or fit.place(sources, "fit")


def draft(sources: tuple[Source, ...], steps: int) -> Draft:
    """Return the change; Doubt where the loop is not one that is known to the last statement."""
    if not calls(sources, "backward"):
        return fit.draft(sources, "fit", "accumulate_grad_batches", str(steps))
    loop = find(sources)
    _require(sources, loop)
    result = Draft(loop.source)
    count = _count(loop, result)
    loss = ast.unparse(loop.loss)
    whole = loss if isinstance(loop.loss, ast.Name) else f"({loss})"
    divided = f"{whole} / {steps}"
    result.put(loop.loss, divided if loop.scaler else f"({divided})")
    for run in _runs(loop):
        early = run[0] in loop.body[: loop.at]
        result.below(run, count.at(steps, first=early), _step(loop))
    return result


def _require(sources: tuple[Source, ...], loop: Loop) -> None:
    """Doubt what would train otherwise than with whole batches."""
    left = leaves(loop)
    if left is not None:
        raise DoubtError("the loop counts its batches, or leaves some out", loop.source, left)
    if loop.guarded:
        raise DoubtError(
            "the optimizer does not step at each batch as it is", loop.source, loop.node
        )
    if isinstance(loop.loss, ast.BinOp):
        raise DoubtError("the loss is divided already", loop.source, loop.backward)
    require_plain_between(loop)
    for source in sources:
        for given in source.keywords.get("reduction", ()):
            if not isinstance(given.value, ast.Constant) or given.value.value != "mean":
                raise DoubtError("a loss may be a sum over the batch", source, given.value)


def _count(loop: Loop, draft: Draft) -> _Count:
    """Return the counter of the loop's batches, put in where there is none."""
    node, source = loop.node, loop.source
    data = node.iter
    if isinstance(data, ast.Call) and last_name(data.func) == "enumerate":
        first = _start(source, data)
        _require_loader(source, data.args[0])
        target = node.target.elts[0] if isinstance(node.target, ast.Tuple) else None
        if not isinstance(target, ast.Name) or _is_stored(loop, target.id):
            raise DoubtError("the number of the batch is changed in the loop", source, node)
        return _Count(target.id, first)
    _require_loader(source, data)
    if COUNTER in source.names():
        raise DoubtError(msg("the name {name} is taken", name=COUNTER), source, node)
    if node.target.lineno != data.lineno:
        raise DoubtError("the head of the loop goes over several lines", source, node)
    given = ast.unparse(data)
    inner = ast.unparse(node.target)
    if isinstance(node.target, ast.Tuple) and not inner.startswith("("):
        inner = f"({inner})"
    draft.require_own_lines(node.body[0])
    indent = source.indent(node)
    line = source.lines[node.lineno - 1]
    tail = line.partition("#")
    if not tail[0].rstrip().endswith(":"):
        raise DoubtError("the head of the loop is not alone on its line", source, node)
    comment = f"  {tail[1]}{tail[2]}" if tail[1] else ""
    draft.changed[node.lineno] = [f"{indent}for {COUNTER}, {inner} in enumerate({given}):{comment}"]
    return _Count(COUNTER, 0)


def _start(source: Source, data: ast.Call) -> int:
    given = [*data.args[1:], *(keyword.value for keyword in data.keywords)]
    if not data.args or len(given) > 1:
        raise DoubtError("how batches are counted is not plain", source, data)
    if not given:
        return 0
    if not isinstance(given[0], ast.Constant) or given[0].value not in (0, 1):
        raise DoubtError("how batches are counted is not plain", source, data)
    return 1 if given[0].value else 0


def _require_loader(source: Source, data: ast.expr) -> None:
    """Doubt data with a number of batches that does not follow from their size."""
    if isinstance(data, ast.Call) and last_name(data.func) == "DataLoader":
        return None
    if isinstance(data, ast.Call) and (last_name(data.func) == "tqdm" or not data.args):
        inner = data.args[0] if data.args else data.func
        return _require_loader(source, inner)
    name = last_name(data)
    if not name:
        raise DoubtError("what the loop goes over is no loader by name", source, data)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and name in map(last_name, node.targets):
            data_source = node.value
            fixed = isinstance(data_source, _NO_LOADER) or (
                isinstance(data_source, ast.Call)
                and last_name(data_source.func)
                in ("range", "list", "zip", "randn", "rand", "to_tensor")
            )
            if fixed:
                raise DoubtError("the number of batches does not follow their size", source, node)
    return None


def _is_stored(loop: Loop, name: str) -> bool:
    """Return True if the loop's body rebinds a name."""
    return any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        for statement in loop.body
        for node in ast.walk(statement)
    )


def _runs(loop: Loop) -> list[list[ast.stmt]]:
    """Return the updates in runs of those that follow one another."""
    runs: list[list[ast.stmt]] = []
    before = -2
    for at, statement in enumerate(loop.body):
        if statement in loop.updates:
            if before == at - 1 and at - 1 != loop.at:
                runs[-1].append(statement)
            else:
                runs.append([statement])
            before = at
    return runs


def _step(loop: Loop) -> str:
    """Return by how much the loop's body is deeper than the loop."""
    return loop.source.indent(loop.body[0])[len(loop.source.indent(loop.node)) :]

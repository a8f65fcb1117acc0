"""`paddle.Model`: its own arguments accumulate gradients and mix precision."""

from __future__ import annotations

import ast
from pathlib import Path

from gpuconsole.core.wording import msg
from gpuconsole.preflight.rewriting.draft import DoubtError, Draft
from gpuconsole.preflight.rewriting.sources import Source, calls, column, last_name


def place(sources: tuple[Source, ...], method: str) -> tuple[Path, int] | None:
    """Return where a method of a model is called."""
    sites = calls(sources, method)
    return (sites[0][0].path, sites[0][1].lineno) if sites else None


def draft(sources: tuple[Source, ...], method: str, name: str, value: str) -> Draft:
    """Return the call of a model's method with one more argument; Doubt where that is not plain."""
    sites = calls(sources, method)
    if not calls(sources, "fit") or not sites:
        raise DoubtError("no training loop was found")
    if len(sites) > 1:
        raise DoubtError(msg("{call} is called more than once", call=method), *sites[1])
    source, call = sites[0]
    assert isinstance(call.func, ast.Attribute)
    if not _is_model(source, call.func.value):
        raise DoubtError("what trains is no paddle.Model for certain", source, call)
    given = [keyword.arg for keyword in call.keywords]
    if None in given or name in given or any(isinstance(arg, ast.Starred) for arg in call.args):
        raise DoubtError(msg("{name} may be given already", name=name), source, call)
    if len(call.args) > 3:
        raise DoubtError(msg("{name} may be given already", name=name), source, call)
    result = Draft(source)
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not arguments:
        raise DoubtError(msg("{call} is called without arguments", call=method), source, call)
    last = max(
        arguments, key=lambda argument: (argument.end_lineno or 0, argument.end_col_offset or 0)
    )
    row, offset = last.end_lineno or 0, last.end_col_offset or 0
    at = column(source, row, offset)
    line = result.of(row)
    rest = line[0][at:].lstrip()
    if rest[:1] not in (",", ")", ""):
        raise DoubtError("where an argument can be added is not plain", source, call)
    line[0] = f"{line[0][:at]}, {name}={value}{line[0][at:]}"
    return result


def _is_model(source: Source, receiver: ast.expr) -> bool:
    """Tell whether a name is given a `paddle.Model` and nothing else."""
    if not isinstance(receiver, ast.Name):
        return False
    own = source.paddle()
    values = [
        node.value
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign)
        and [last_name(target) for target in node.targets] == [receiver.id]
    ]
    return bool(own and values) and all(
        isinstance(value, ast.Call)
        and ast.unparse(value.func) in (f"{own}.Model", f"{own}.hapi.Model")
        for value in values
    )

"""One operator in real Paddle and in the interpreter: the same script, the same marks.

A case is an expression over inputs such as `x=f(N,7,11)`. Its script makes the inputs, then runs
the expression and its backward pass twice; between the moments it calls `mark()`. In Paddle the
marks read the allocator's own counters, in the interpreter they cut the trace.
"""

from __future__ import annotations

import ast
import gc
import re
from pathlib import Path
from typing import Any, NamedTuple

from gpuconsole.preflight.interpreter.domain.values import NativeFunction, Scope
from gpuconsole.preflight.interpreter.libraries.registry import library
from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting

HEAD = "import paddle\nimport paddle.nn.functional as F\nimport paddle.nn as nn\n"
MAKERS = {
    "f": "paddle.rand({shape})",  # a float input made by an operator: not a leaf
    "l": "paddle.rand({shape})",  # a float leaf with a gradient
    "c": "paddle.rand({shape})",  # floats that no gradient reaches
    "i": "paddle.randint(0, {high}, {shape})",
    "b": "(paddle.rand({shape}) > 0.5)",
}


class Case(NamedTuple):
    """`expr` gives `y`; `loss` is what backward starts at, "" where there is none."""

    name: str
    expr: str
    inputs: str = "x=f(N,17,64)"
    loss: str = "y"
    before: str = ""


class Moment(NamedTuple):
    """Bytes alive at a mark and the most since the mark before, both above the first mark."""

    live: int
    peak: int


def script(case: Case, n: int) -> str:
    """Write a case's script for a first extent of `n`."""
    setup, step = [f"N = {n}"], []
    names = []
    for name, kind, args in re.findall(r"(\w+)=(\w)\(([^)]*)\)", case.inputs):
        parts = [one.strip() for one in args.split(",") if one.strip()]
        high = next((one[1:] for one in parts if one.startswith("<")), "2")
        shape = "[" + ", ".join(one for one in parts if not one.startswith("<")) + "]"
        made = MAKERS[kind].format(shape=shape, high=high)
        root = f"{name}_root" if kind == "f" else name
        setup.append(f"{root} = {made}")
        if kind in "fl":
            setup.append(f"{root}.stop_gradient = False")
        if kind == "f":
            step.append(f"{name} = {root} * 1.0")
            names.append(name)
    setup += [one for one in case.before.split("\n") if one]
    step += ["mark()", f"y = {case.expr}", "mark()"]
    if case.loss:
        step += [f"({case.loss}).backward()", "mark()"]
    step += [f"del y{''.join(', ' + one for one in names)}", "mark()"]
    return HEAD + "\n".join([*setup, "mark()", *step, *step]) + "\n"


def in_paddle(text: str) -> list[Moment]:
    """Run a script in Paddle."""
    import paddle
    import paddle.base.core as core

    marks: list[tuple[int, int]] = []

    def mark() -> None:
        marks.append((
            core.host_memory_stat_current_value("Allocated", 0),
            core.host_memory_stat_peak_value("Allocated", 0),
        ))  # fmt: skip
        core.host_memory_stat_reset_peak_value("Allocated", 0)

    paddle.seed(7)
    gc.disable()
    try:
        exec(compile(text, "case", "exec"), {"mark": mark})
    finally:
        gc.enable()
    return _above_first(marks)


def in_interpreter(text: str, backend: Any = "cpu") -> tuple[list[Moment], Run]:
    """Follow a script with the interpreter; the run tells what was not known."""
    run = Run(Setting(backend))
    machine = Interpreter(run, Path("case.py"), Path(), library(run))
    cuts: list[int] = []
    mark = NativeFunction(lambda run: cuts.append(len(run.tape.ledger.events)), "mark")
    machine.builtins["mark"] = mark
    gc.disable()
    try:
        scope = Scope(None, "module")
        machine.imports.run_module(ast.parse(text), "case.py", scope, {"__name__": "__main__"})
        run.tape.ledger.close()
        del scope
    finally:
        gc.enable()
    marks: list[tuple[int, int]] = []
    live = peak = 0
    for place in range(len(run.tape.ledger.events) + 1):
        while len(marks) < len(cuts) and cuts[len(marks)] == place:
            marks.append((live, peak))
            peak = live
        if place < len(run.tape.ledger.events):
            event = run.tape.ledger.events[place]
            size = run.tape.ledger.sizes[event if event >= 0 else ~event]
            live += size if event >= 0 else -size
            peak = max(peak, live)
    return _above_first(marks), run


def _above_first(marks: list[tuple[int, int]]) -> list[Moment]:
    base = marks[0][0]
    return [Moment(live - base, peak - base) for live, peak in marks[1:]]

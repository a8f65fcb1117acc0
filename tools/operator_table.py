#!/usr/bin/env python3
"""Make the operator table of the installed Paddle: what each operator saves for its backward pass.

    python tools/operator_table.py            write gpuconsole/data/paddle-<version>-ops.json
    python tools/operator_table.py --check    compare with the shipped file; exit 1 on a difference

Three sources are held against each other at four sets of prime extents, so that every figure has
one reading only:

- `saved_tensors_hooks` around one eager call tells which tensors the backward node keeps;
- the gradient operators of the static graph with `is_no_need_buffer` tell the same again, and the
  operators' names, by which Paddle's lists for automatic mixed precision go;
- the allocator's exact byte counters around the forward and the backward call tell the bytes kept
  beside inputs and output, and what kernels need while they run.

Needs the CPU build of Paddle; the kernels' own temporaries are therefore those of its CPU kernels
and are filed as such.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from operator_calls import (
    BY_HAND,
    CALLS,
    EXTENTS,
    OUTPUTS,
    Call,
    inputs_of,
    listed,
    number,
)
from operator_graphs import graphs

DATA = Path(__file__).resolve().parents[1] / "gpuconsole" / "data"
ITEM = {"bool": 1, "uint8": 1, "int16": 2, "float16": 2, "int32": 4, "float32": 4, "int64": 8,
        "float64": 8, "complex64": 8, "complex128": 16}  # fmt: skip
FIELDS = {
    "save": "inputs (x, y, z, in order) and outputs (out, second) that the backward node keeps",
    "grad": "how the first input's gradient is made: new, inplace (in the output gradient's "
    "block), saved (in the block of something saved), fill (new, and gradients of outputs that "
    "did not arrive are filled with zeros first)",
    "extra": "bytes kept beside those: `k per what`, k bytes for each element of x, y or out, "
    "for each row (all but the last axis of x), channel (second axis) or instance (the first two)",
    "amp": "automatic mixed precision: half (white list), full (black list at O1), always (at O1 "
    "and O2), keep (goes by its first input alone); absent: follows its inputs",
    "cpu": "what the CPU kernels need for a moment, forward (`temp`) and backward (`work`), in the "
    "same notation; kernels of other devices do not",
    "kernels": "the operators of Paddle behind the call",
    "source": "where a row that the CPU build cannot show comes from",
}
FLUID_NAMES = {
    "cross_entropy_with_softmax": "softmax_with_cross_entropy", "sum": "reduce_sum",
    "mean": "reduce_mean", "prod": "reduce_prod", "embedding": "lookup_table_v2",
    "nearest_interp": "nearest_interp_v2", "bilinear_interp": "bilinear_interp_v2",
    "bicubic_interp": "bicubic_interp_v2", "linear_interp": "linear_interp_v2",
    "trilinear_interp": "trilinear_interp_v2", "elementwise_pow": "elementwise_pow",
}  # fmt: skip
"""Operators that the mixed precision lists name as they were called before."""
WORDS = ("x", "y", "z", "fourth", "fifth", "sixth")
"""What the table calls a call's inputs; only the first three can be asked for."""
FIRST_INPUT_DECIDES = frozenset({"batch_norm", "batch_norm_"})
"""Operators with a scale and a shift that stay as they are under mixed precision."""


# -- eager calls: hooks and byte counters


class Unclear(Exception):  # noqa: N818 - what was measured has no one reading
    """The sources disagree, or a figure follows no shape."""


class Seen:
    """One call at one set of extents."""

    def __init__(self) -> None:
        self.saved: list[str] = []
        self.extra = self.temp = self.work = 0
        self.grad = ""
        self.sizes: dict[str, int] = {}


def measure(call: Call, extents: dict[str, int]) -> Seen:
    """Run a call forward and backward in Paddle with the counters on."""
    import paddle
    import paddle.nn.functional as functional

    seen = Seen()
    scope: dict[str, Any] = {"paddle": paddle, "F": functional, **extents}
    tensors: dict[str, Any] = {}
    for name, (kind, shape, high) in inputs_of(call, extents).items():
        made = paddle.randint(0, high, shape) if kind == "i" else paddle.rand(shape)
        if kind == "b":
            made = made > 0.5
        if kind in "fl":
            made.stop_gradient = False
        tensors[name] = made * 1.0 if kind == "f" else made
    for line in call.before:
        exec(line, scope, tensors)
    inputs = list(tensors.values())
    _forward(call, scope, tensors, seen)
    out = tensors["out"]
    seen.sizes = _counts(inputs[0], inputs, out)
    if call.groups:
        seen.sizes["group"] = number(call.groups, extents)
    if not out.stop_gradient and call.backward:
        _backward(inputs, out, seen)
    return seen


def _counts(first: Any, inputs: Sequence[Any], out: Any) -> dict[str, int]:
    shape = list(first.shape)
    counts = {"x": prod(shape), "out": prod(out.shape)}
    if len(inputs) > 1:
        counts["y"] = prod(inputs[1].shape)
    counts["row"] = prod(shape[:-1])
    if len(shape) > 1:
        counts["channel"] = shape[1]
        counts["instance"] = shape[0] * shape[1]
    return counts


def _nbytes(tensor: Any) -> int:
    return prod(tensor.shape) * ITEM[str(tensor.dtype).rpartition(".")[2]]


def _counters() -> tuple[Callable[[], int], Callable[[], int], Callable[[], None]]:
    import paddle.base.core as core

    return (
        lambda: core.host_memory_stat_current_value("Allocated", 0),
        lambda: core.host_memory_stat_peak_value("Allocated", 0),
        lambda: core.host_memory_stat_reset_peak_value("Allocated", 0),
    )


def _forward(call: Call, scope: dict[str, Any], tensors: dict[str, Any], seen: Seen) -> None:
    """Run forward once under hooks and once plainly between the counters."""
    import paddle

    current, peak, reset = _counters()
    code = compile(call.expr, call.name, "eval")
    names = {one.data_ptr(): word for one, word in zip(tensors.values(), WORDS, strict=False)}
    kept: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        kept[tensor.data_ptr()] = _nbytes(tensor)
        return tensor

    with paddle.autograd.saved_tensors_hooks(pack, lambda tensor: tensor):
        hooked = listed(eval(code, scope, tensors))
    shown = {one.data_ptr(): _nbytes(one) for one in hooked}
    seen.saved = sorted({names[pointer] for pointer in kept if pointer in names} & set("xyz"))
    words = zip(hooked, OUTPUTS, strict=False)
    seen.saved += [word for one, word in words if one.data_ptr() in kept]
    hidden = {**shown, **kept}
    expected = sum(size for pointer, size in hidden.items() if pointer not in names)
    del hooked
    kept.clear()
    # The plain call: the hooks' Python objects would count as well.
    before = current()
    reset()
    outputs = listed(eval(code, scope, tensors))
    held = current() - before
    seen.temp = peak() - current()
    if held != expected:
        raise Unclear(f"{call.name}: {held} bytes are held, the hooks tell of {expected}")
    seen.extra = held - sum(_nbytes(one) for one in outputs if one.data_ptr() not in names)
    tensors["out"] = outputs[0]


def _backward(inputs: list[Any], out: Any, seen: Seen) -> None:
    """Run backward to the inputs and tell how the first one's gradient is made."""
    current, peak, reset = _counters()
    found: dict[str, int] = {}

    def arrived(grad: Any) -> None:
        found["x"], found["peak"] = grad.data_ptr(), peak()

    first = inputs[0]
    out.register_hook(lambda grad: found.__setitem__("out", grad.data_ptr()))
    if not first.stop_gradient:
        first.register_hook(arrived)
    new = sum(_nbytes(one) for one in inputs if not one.stop_gradient)
    before = current()
    reset()
    out.backward()
    shared = "x" in found and found["x"] == found["out"]
    if shared:
        new -= _nbytes(first)
    seen.grad = "inplace" if shared else "new"
    seen.work = found.get("peak", peak()) - before - _nbytes(out) - new
    if seen.work == -_nbytes(first) and not shared:
        seen.grad, seen.work = "saved", 0


# -- from figures to a row


THINGS = ("out", "x", "group", "channel", "row", "instance", "y", "call")
"""What bytes may go by, the likeliest first."""


def fitted(figures: Sequence[int], counts: Sequence[dict[str, int]], where: str) -> str:
    """Write bytes as `k per what`, or as a sum of two such; the first reading that always holds."""
    if not any(figures):
        return ""
    units = {what: [one.get(what, 1 if what == "call" else 0) for one in counts] for what in THINGS}
    units = {what: found for what, found in units.items() if all(found)}
    for what, found in units.items():
        rates = {size / unit for size, unit in zip(figures, found, strict=True)}
        if len(rates) == 1 and (rate := rates.pop()) == int(rate):
            return f"{int(rate)} per {what}"
    for first, second in combinations(units, 2):
        rates_of = _two(figures, units[first], units[second])
        if rates_of is not None:
            return f"{rates_of[0]} per {first}, {rates_of[1]} per {second}"
    raise Unclear(f"{where}: {list(figures)} bytes follow none of {list(counts)}")


def _two(
    figures: Sequence[int], left: Sequence[int], right: Sequence[int]
) -> tuple[int, int] | None:
    """Return whole positive rates with `a * left + b * right` equal to all figures, or None."""
    scale = left[0] * right[1] - left[1] * right[0]
    if not scale:
        return None
    a = (figures[0] * right[1] - figures[1] * right[0]) / scale
    b = (left[0] * figures[1] - left[1] * figures[0]) / scale
    if a < 1 or b < 1 or a != int(a) or b != int(b):
        return None
    if any(a * u + b * v != size for size, u, v in zip(figures, left, right, strict=True)):
        return None
    return int(a), int(b)


def row_of(call: Call, runs: Sequence[Seen]) -> dict[str, Any]:
    """Return a call's row without what the static graph tells."""
    first = runs[0]
    for one in runs[1:]:
        if (one.saved, one.grad) != (first.saved, first.grad):
            raise Unclear(f"{call.name}: {one.saved} {one.grad}, {first.saved} {first.grad}")
    counts = [one.sizes for one in runs]
    row: dict[str, Any] = {"save": " ".join(first.saved), "grad": call.grad or first.grad or "new"}
    extra = fitted([one.extra for one in runs], counts, f"{call.name} extra")
    if extra:
        row["extra"] = extra
    if call.cpu and (cpu := _kernels(call, runs, counts)):
        row["cpu"] = cpu
    return row


def _kernels(call: Call, runs: Sequence[Seen], counts: Sequence[dict[str, int]]) -> dict[str, str]:
    found = {
        "temp": fitted([one.temp for one in runs], counts, f"{call.name} temp"),
        "work": fitted([max(0, one.work) for one in runs], counts, f"{call.name} work"),
    }
    return {name: text for name, text in found.items() if text}


def precision(kernels: Sequence[str]) -> str:
    """Return the mixed precision class of a call that `kernels` do the work of."""
    from paddle.amp.amp_lists import black_list, white_list

    names = {FLUID_NAMES.get(one, one) for one in kernels}
    if names & FIRST_INPUT_DECIDES:
        return "keep"
    if names & white_list()["float16"]["O1"]:
        return "half"
    if names & black_list()["float16"]["O2"]:
        return "always"
    return "full" if names & black_list()["float16"]["O1"] else ""


def table() -> dict[str, Any]:
    """Return the whole table of the installed Paddle."""
    import paddle

    shown = graphs()
    ops: dict[str, Any] = {}
    for call in CALLS:
        row = row_of(call, [measure(call, extents) for extents in EXTENTS])
        graph = shown.get(call.name)
        if graph is None and call.graph:
            raise Unclear(f"{call.name}: the static graph does not tell")
        if graph is not None:
            if graph["saved"] != row["save"].split() and call.backward and not call.eager_differs:
                raise Unclear(
                    f"{call.name}: eager saves {row['save']!r}, the static graph {graph['saved']}"
                )
            row["kernels"] = " ".join(graph["kernels"])
        amp = precision(row.get("kernels", call.kernel).split())
        if amp:
            row["amp"] = amp
        ops[call.name] = row
    ops.update(BY_HAND)
    return {
        "paddle": paddle.__version__,
        "source": "tools/operator_table.py: measured with the CPU build, float32",
        "fields": FIELDS,
        "ops": ops,
    }


def written(found: dict[str, Any]) -> str:
    """Return the table as the file holds it: one operator a line."""
    head = json.dumps({key: value for key, value in found.items() if key != "ops"}, indent=2)
    rows = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in found["ops"].items()]
    return head.rstrip("}").rstrip() + ',\n  "ops": {\n' + ",\n".join(rows) + "\n  }\n}\n"


def main() -> int:
    """Write or check the table."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    found = table()
    path = DATA / f"paddle-{found['paddle']}-ops.json"
    if not options.check:
        path.write_text(written(found), encoding="utf-8")
        print(f"{path.name}: {len(found['ops'])} operators of Paddle {found['paddle']}")
        return 0
    shipped = json.loads(path.read_text(encoding="utf-8"))
    names = sorted({*found["ops"], *shipped["ops"]})
    wrong = [one for one in names if found["ops"].get(one) != shipped["ops"].get(one)]
    for name in wrong:
        print(f"{name}: shipped {shipped['ops'].get(name)}, measured {found['ops'].get(name)}")
    print(f"{len(names) - len(wrong)} of {len(names)} operators as shipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

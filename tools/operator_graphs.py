"""What the static graph tells of the operator table's calls, as one line of JSON for each.

Run as a child process by `operator_table`: introspection of the graph can crash.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from operator_calls import CALLS, EXTENTS, OUTPUTS, Call, inputs_of, listed


def graph_of(call: Call) -> dict[str, Any]:
    """Return the operators of a call in the static graph, and what their gradients need."""
    import paddle
    import paddle.nn.functional as functional
    from paddle.autograd.ir_backward import grad

    program = paddle.static.Program()
    with paddle.static.program_guard(program):
        scope: dict[str, Any] = {"paddle": paddle, "F": functional, **EXTENTS[0]}
        inputs: dict[str, Any] = {}
        for name, (kind, shape, _) in inputs_of(call, EXTENTS[0]).items():
            dtype = {"i": "int64", "b": "bool"}.get(kind, "float32")
            inputs[name] = paddle.static.data(name, shape, dtype)
            inputs[name].stop_gradient = kind not in "fl"
        tensors = dict(inputs)
        for line in call.before:
            exec(line, scope, tensors)
        made = len(program.global_block().ops)
        outs = listed(eval(call.expr, scope, tensors))
        forward = [op.name() for op in program.global_block().ops[made:]]
        count = len(program.global_block().ops)
        grad([outs[0]], [one for one in inputs.values() if not one.stop_gradient])
        backward = program.global_block().ops[count:]
    saved: set[str] = set()
    names = [*zip(inputs.values(), "xyz", strict=False), *zip(outs, OUTPUTS, strict=False)]
    for op in backward:
        if not op.name().endswith("_grad"):
            continue
        for value in op.operands_source():
            if value.get_defining_op() is None or op.is_no_need_buffer(value):
                continue
            saved |= {name for one, name in names if value.is_same(one)}
    plain = ("full", "data", "full_int_array", "builtin.combine", "builtin.split", "assign_value_")
    kernels = [name.removeprefix("pd_op.") for name in forward]
    return {
        "kernels": [name for name in kernels if name not in plain],
        "saved": [word for word in (*"xyz", *OUTPUTS) if word in saved],
    }


def graphs() -> dict[str, Any]:
    """Return `graph_of` of all calls that the static graph knows, from a child process."""
    command = [sys.executable, str(Path(__file__).resolve())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    found: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return found


def print_graphs() -> None:
    """Print one line of JSON for each call (the child's part)."""
    import paddle

    warnings.simplefilter("ignore")
    paddle.enable_static()
    for call in CALLS:
        if not call.graph:
            continue
        print(json.dumps({call.name: graph_of(call)}), flush=True)


if __name__ == "__main__":
    print_graphs()

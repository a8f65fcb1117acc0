"""`python tools/meta_tier.py SCRIPT [ARGUMENT ...]`: run a script without data, print memory.

For work on the tier itself: `META_STEPS` optimizer steps (3), MiB held and at most in each.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from typing import Any

from gpuconsole.preflight.meta import hook
from gpuconsole.preflight.meta.operators import inferred
from gpuconsole.preflight.meta.state import STATE


def rules() -> Any:
    """Return the table of operators by kernel."""
    path = os.path.join(os.path.dirname(__file__), "../gpuconsole/data/paddle-3.3.1-ops.json")
    made: dict[str, Any] = {}
    with open(path, encoding="utf-8") as file:
        for row in json.load(file)["ops"].values():
            kernel = row.get("kernels", "").rstrip("_")
            if kernel and " " not in kernel:
                made.setdefault(kernel, {"grad": row["grad"], **row.get("cpu", {})})
    return made


def main() -> None:
    """Run the script."""
    began = time.perf_counter()
    hook.install()
    import paddle

    hook.ready(paddle, rules(), os.environ.get("META_BACKEND", "cpu"))
    loaded = time.perf_counter()
    wanted = int(os.environ.get("META_STEPS", "3"))
    count = 0
    ledger = STATE.ledger
    clear = paddle.optimizer.Optimizer.clear_grad

    def cleared(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal count
        clear(self, *args, **kwargs)
        count += 1
        print(f"step {count}: held {ledger.live / 2**20:.2f} MiB, peak {ledger.peak / 2**20:.2f}; "
              f"{ledger.calls} operators, {len(inferred.ENTRIES)} distinct, "
              f"{time.perf_counter() - loaded:.2f} s (+{loaded - began:.2f} import)",
              file=sys.stderr, flush=True)  # fmt: skip
        ledger.peak = ledger.live
        if count >= wanted:
            sys.stdout.flush()
            os._exit(0)

    paddle.optimizer.Optimizer.clear_grad = cleared
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")
    print(f"ended: peak {ledger.peak / 2**20:.2f} MiB", file=sys.stderr)


if __name__ == "__main__":
    main()

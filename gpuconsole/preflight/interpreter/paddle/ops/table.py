"""The operator table that ships with the package, made by `tools/operator_table.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from math import prod
from typing import NamedTuple

from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

Amount = tuple[tuple[int, str], ...]
"""Bytes as `k` for each element of something: ((8, "row"), (4, "out"))."""


class Rule(NamedTuple):
    """One operator's row. `temp` and `work` are what CPU kernels need for a moment."""

    save: tuple[str, ...]
    grad: str
    amp: str
    extra: Amount = ()
    temp: Amount = ()
    work: Amount = ()


@lru_cache(maxsize=1)
def rules() -> dict[str, Rule]:
    """Return the operator table by the names of its rows."""
    text = resources.files("gpuconsole").joinpath("data/paddle-3.3.1-ops.json").read_text("utf-8")
    by_name: dict[str, Rule] = {}
    for name, row in json.loads(text)["ops"].items():
        cpu = row.get("cpu", {})
        by_name[name] = Rule(
            tuple(row["save"].split()),
            row["grad"],
            row.get("amp", ""),
            _amount(row.get("extra", "")),
            _amount(cpu.get("temp", "")),
            _amount(cpu.get("work", "")),
        )
    return by_name


def _amount(text: str) -> Amount:
    words = (term.split() for term in text.split(",") if term)
    return tuple((int(rate), what) for rate, _per, what in words)


def count(amount: Amount, inputs: Sequence[Tensor], out: Tensor, groups: int = 0) -> int:
    """Return an amount in bytes for these inputs and this output."""
    total = 0
    for rate, what in amount:
        if what == "out":
            number = out.size
        elif what == "call":
            number = 1
        elif what == "group":
            number = groups
        elif what == "y":
            number = inputs[1].size
        else:
            shape = inputs[0].shape
            axes = {"x": shape, "row": shape[:-1], "channel": shape[1:2], "instance": shape[:2]}
            number = prod(axes[what])
        total += rate * number
    return total

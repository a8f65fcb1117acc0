"""Every operator of `paddle._C_ops`, on tensors without data.

Operators that Paddle's representation lacks, or does not show the memory of, have functions of
their own (`composed`, `optimizers`, `rnn`); all others are run by `inferred`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..state import STATE
from . import composed, optimizers, rnn
from .inferred import inferred

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..types import Result

SPECIAL: dict[str, Callable[..., Result]] = {
    **composed.FUNCTIONS,
    **optimizers.FUNCTIONS,
    "rnn": rnn.rnn,
}


def call(name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Result:
    """Run an operator."""
    STATE.ledger.calls += 1
    if STATE.ledger.calls >= STATE.pause:
        STATE.paused()
    special = SPECIAL.get(name)
    if special is None:
        return inferred(name, args, kwargs)
    program = STATE.program
    before = program.operators if program is not None else 0
    result = special(*args, **kwargs)
    if program is not None and program.operators == before:
        program.operators += 1
    return result

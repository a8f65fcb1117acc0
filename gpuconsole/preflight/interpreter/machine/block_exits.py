"""How a block of statements ends before its last one."""

from __future__ import annotations

from typing import NamedTuple

from gpuconsole.preflight.interpreter.domain.values import Value


class End(NamedTuple):
    """How a block ended early: `break`, `continue` or `return` with a value."""

    how: str
    value: Value = None


class Returned:
    """A `return`, holding its value until the call is over."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


BlockExit = End | Returned
"""An early end of a block."""

BREAK, CONTINUE = End("break"), End("continue")


def returns(end: BlockExit | None) -> bool:
    """Whether a block ended by `return`."""
    return isinstance(end, Returned)

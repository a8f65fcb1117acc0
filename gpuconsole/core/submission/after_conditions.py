"""What a job comes after, and how that must end: the conditions of `--after`."""

from __future__ import annotations

import re
from typing import Literal, cast

from gpuconsole.core.util.lazy_dataclass import dataclass

Kind = Literal["afterok", "afterany", "afternotok"]
KINDS: tuple[Kind, ...] = ("afterok", "afterany", "afternotok")
"""Slurm's words: after it succeeded, after it ended in any way, after it ended without success."""
_PREFIX = re.compile(r"(after[a-z]*):(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """One job or sweep that another comes after."""

    kind: Kind
    needed: str
    """A job's id, or a sweep's name."""

    @classmethod
    def of(cls, text: str) -> Condition:
        """Read `ID`, `afterok:ID`, `afterany:ID` or `afternotok:ID`. ValueError for another word
        of this form, or for no name."""
        match = _PREFIX.fullmatch(text)
        kind, needed = (match[1], match[2].strip()) if match else ("afterok", text)
        if kind not in KINDS:
            kinds = ", ".join(f"`{known_kind}:`" for known_kind in KINDS)
            raise ValueError(f"`{kind[:40]}:` is not known; use {kinds}, or the name alone")
        if not needed:
            raise ValueError("expected the name of a job or a sweep")
        return cls(cast(Kind, kind), needed)

    def __str__(self) -> str:
        """Return it as a task has it: the common kind needs no word."""
        return self.needed if self.kind == "afterok" else f"{self.kind}:{self.needed}"

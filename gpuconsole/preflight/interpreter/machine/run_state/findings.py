"""What a run finds out about its script: unknowns, faults, and how certain they are."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from gpuconsole.core.estimate import Ask, ScriptFault
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.interpreter.domain.values import Saved, Unknown, Unsized
from gpuconsole.preflight.interpreter.frontend import questions


@dataclass(slots=True)
class Findings:
    """Unknowns, faults, notes and flags of one run."""

    asks: dict[str, Ask] = field(default_factory=dict)
    tests: dict[tuple[str, int], str] = field(default_factory=dict)
    """Conditions that are not known and lead to different memory, by place, as written."""
    mishap: str = ""
    """An error of the analysis itself that ended the run, and where; "" without one."""
    doubt: Unknown | None = None
    """What the analysis first could not tell, or assumed: from then on no fault is certain."""
    unsure: int = 0
    """Conditions that are not known around what runs now, both sides of which are followed."""
    networks: int = 0
    """Calls of whole networks."""
    forwards: int = 0
    """Those that gave tensors."""
    lost: Unknown | None = None
    """What was called with a tensor, or stepped, without being known: it may be the network."""
    unsized: Unknown | None = None
    """The first result of work with tensors that is not known: it may be large."""
    unknowns: dict[tuple[str, int, str], Unknown] = field(default_factory=dict)
    blocking: Unknown | None = None
    """The first unknown on the memory path: the memory is unknown."""
    outside: bool = False
    """Whether that was met outside all conditions that are not known."""
    in_any_case: bool = False
    """Whether it was also met before all of them, and so whatever they are."""
    faults: dict[tuple[str, int, str], ScriptFault] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    lines_seen: set[tuple[str, int]] = field(default_factory=set)
    lines_lost: set[tuple[str, int]] = field(default_factory=set)

    def doubted(self, unknown: Unknown) -> None:
        """Remember that what follows may rest on something unknown or assumed."""
        if self.doubt is None:
            self.doubt = _listed(unknown)

    def note_unknown(self, unknown: Unknown, file: str, line: int) -> None:
        """List an unknown that was met at a line, whether or not it is on the memory path."""
        unknown = _listed(unknown)
        self.doubted(unknown)
        self.unknowns.setdefault((unknown.file, unknown.line, unknown.reason), unknown)
        self.lines_lost.add((file, line))

    def block(self, unknown: Unknown) -> None:
        """Record that the memory is unknown, and ask for what would settle that."""
        question = questions.ask(unknown)
        if question is not None and len(self.asks) < questions.MAX_ASKS:
            self.asks.setdefault(question.name, question)
        if self.blocking is None:
            self.blocking = _listed(unknown)
            self.outside = not self.unsure
            self.in_any_case = self.outside and not self.tests

    def assumed(self, note: str, unknown: Unknown) -> None:
        """Say what is assumed in place of something unknown; no later fault is certain."""
        self.doubted(unknown)
        if note not in self.notes:
            self.notes.append(note)

    def accuse(self, fault: ScriptFault) -> None:
        """Record a mistake that depends on nothing but what is written."""
        self.faults.setdefault((fault.file, fault.line, fault.message), fault)

    def why_unsure(self) -> str:
        """Return what makes a fault uncertain."""
        doubt = self.doubt
        if doubt is None:
            return "sizes vary with the data"
        return f"{Path(doubt.file).name}:{doubt.line}: {doubt.reason[:120]}"


def _listed(unknown: Unknown) -> Unknown:
    """Return an unknown without its memory, which is there only as long as the script has it."""
    if not isinstance(unknown, (Saved, Unsized)):
        return unknown
    return Unknown(unknown.file, unknown.line, unknown.reason, unknown.root)

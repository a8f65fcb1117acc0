"""The batches of a run: their size, where it is written, and what loaders keep waiting."""

from __future__ import annotations

import ast
from dataclasses import field

from gpuconsole.core.estimate import BatchSource
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.interpreter.domain.values import Sourced, is_setting
from gpuconsole.preflight.memory.trace import Storage


@dataclass(slots=True)
class Queue:
    """What waits in a loader beside its current batch."""

    length: int
    """Batches that wait."""
    answered: dict[str, list[Storage]] = field(default_factory=dict)
    """Parts of waiting batches that only an answer of the user tells, by its name."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An epoch that trains nothing, of which only some batches were followed."""

    followed: int
    all: int | None
    """How many it has; None where the script does not tell."""
    waiting: int = 0
    """How many wait in the reader while the last one is followed."""


@dataclass(slots=True)
class Batches:
    """Batch sizes that were met, loaders that give batches, and numbers that may be the size."""

    met: tuple[int, str, int] | None = None
    """The batch size that was met last, and where."""
    now: int | None = None
    """The batch size of the loader being walked over."""
    seen: int | None = None
    """The batch size that is trained on, as far as is known."""
    source: BatchSource | None = None
    key: str = ""
    written: dict[str, Sourced] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """Numbers in the script's text that are sizes of loaders' batches, by their keys."""
    numbers: dict[ast.Constant, Sourced] = field(default_factory=dict)
    """Whole numbers of the script that were met, by where they are written."""
    loaders: int = 0
    feeding: list[tuple[int, str, int]] = field(default_factory=list)
    """Batch sizes of the loaders with epochs in progress, with the line that walks over each."""
    short_epochs: bool = False
    """Whether a loader has fewer batches than it could keep waiting."""
    queue: Queue | None = None
    """The waiting batches of the loader that is walked over."""
    abandoned: list[object] = field(default_factory=list)
    """Batches that wait in loaders with loops that were left early: their threads hold them."""
    keeps: bool = False
    """Whether a loop that trains nothing keeps something of each batch."""
    left_out: LeftOut | None = None
    """The evaluation that has just ended, or is given its last batch, before all were followed."""
    cutting: bool = False
    """Whether the analysis itself ends a loop that the script would go on with."""

    def found(self, batch: int, file: str, line: int) -> None:
        """Remember a batch size: the first, until a step tells which loader trains."""
        self.met = (batch, file, line)
        if self.seen is None:
            self.take(batch, file, line)

    @property
    def beside(self) -> tuple[str, ...]:
        """Keys of the numbers that are changed with the batch size that is trained on: those of
        other loaders that are written as the same number, unless that is a setting."""
        if not self.key or is_setting(self.key):
            return ()
        alike = (key for key, number in self.sizes.items() if number == self.seen)
        return tuple(key for key in alike if key != self.key)

    def take(self, batch: int, file: str, line: int) -> None:
        """Take a batch size to be the one that is trained on."""
        self.seen = int(batch)
        if isinstance(batch, Sourced):
            self.source = BatchSource(batch.file, batch.line, batch.kind)
            self.key = batch.key
        else:
            self.source = BatchSource(file, line, "constant")
            self.key = ""

"""What the probe reads and writes as JSON. Only type checkers import this module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Union

Value = Union[None, bool, int, float, str, "list[Value]", "dict[str, Value]"]
"""Any JSON value."""


class Edit(TypedDict):
    """A line of a file that is run with other text."""

    file: str
    line: int
    old: str
    new: str


class Batch(TypedDict, total=False):
    """Where the batch size goes: `how` is argument, edit, loader or fixed."""

    how: str
    value: int | None
    args: list[str]
    edits: list[Edit]


class Ahead(TypedDict):
    """What follows a run from the same start: a batch size, a number and a part."""

    size: int | str
    number: int
    part: int


class Likeness(TypedDict, total=False):
    """What makes a run like another: what the first reports, and the others are asked for."""

    until: int | None
    way: Sequence[Sequence[str | int]] | None
    whole: bool | None
    drawn: list[int | None] | None
    trains: list[int] | None


class Sizes(TypedDict, total=False):
    """What batch sizes of loaders are replaced by."""

    value: int | None
    size: int | None
    trains: list[int] | None


class Change(Likeness, total=False):
    """How the request of a further run differs from that of the first."""

    size: int | None
    batch: Batch
    number: int
    part: int
    counts: str
    turned: list[str]
    """Tests of unknown data that have the other answer, by their places."""


class Summary(TypedDict, total=False):
    """What further runs have to know of the first."""

    own: int | None
    numbers: bool
    lengths: bool
    plain: bool
    like: Change


class Request(Change, total=False):
    """The request on standard input."""

    version: int
    mode: str
    root: str
    cwd: str
    script: str
    args: list[str]
    env: dict[str, str]
    path: list[str]
    texts: dict[str, str]
    batches: list[int]
    own: int | None
    backend: str
    steps: int
    operators: dict[str, dict[str, str]]
    source: str
    outside: list[str]
    files: list[str] | None
    linked: bool
    image: str
    limit_s: float
    later_s: float
    """Longest time in which a run goes on after its first steps."""
    limit_mib: int
    ahead: Ahead
    further: int
    """Where further requests of the same start come in: the number of an open file."""


class Reader(TypedDict, total=False):
    """The lengths of a loader."""

    batches: int | None
    samples: int | None
    own: int | None
    queued: int
    buffered: int


class Read(TypedDict):
    """The files of the project that a run read, with size and digest, None for one that is not
    there, and the folders that it listed."""

    files: dict[str, list[int | str] | None]
    folders: list[str]


class Run(Likeness, total=False):
    """What one run of the script reports: its blocks as plain lists, and the facts beside them.

    `name` is the number of each block's name; measured on a device, that of the device."""

    batch: int
    events: list[int]
    cycles: list[int]
    sizes: list[int]
    names: list[str]
    name: list[int] | str
    kind: list[int]
    inside: list[int]
    readers: list[Reader]
    waits: list[list[int | None]]
    """For each block of waiting batches its reader, by its place, and how many of them there are at
    most; None where the reader has as many as it holds ready."""
    flags: list[str]
    shapes: list[list[list[list[int]]]]
    widest_conv: int
    cycles_seen: int
    batch_seen: list[int]
    trained: bool
    untrained: bool
    own_batch: int | None
    trained_on: int | None
    how: str
    loaders: bool
    options: list[str]
    notes: list[str]
    paddle: str
    seconds: float
    choices: dict[str, int]
    settled: bool
    reached: str
    goes_on: bool
    """Whether this is the answer of the first steps alone, and the run has not ended."""
    followed: int
    """The cycle with which a run ended that went on after its first steps."""
    peaks: list[int]
    """Bytes of the peak of the first steps, of later ones, and of what is no training, by Paddle's
    own counter."""
    later_s: float
    """How long that took."""
    own_sizes: list[int]
    """The script's own batch sizes of all loaders that were used until then, 0 where unknown."""
    uncollected: list[int] | None
    in_cycles: list[int] | None
    """Bytes at the peak that trainings which are over left in cycles of objects, and by how many
    the peak would be higher had Python's collector released none; None without any."""
    unfilled: int
    awaits: int | None
    unsaved: bool
    by_itself: bool
    past_half: bool
    counted: bool
    early: int
    fixed: bool
    least: float
    numbers_at: list[str]
    request: Request
    read: Read
    steps: int
    allocated: int
    reserved: int


class Fault(TypedDict, total=False):
    """An error, with the place in the script that caused it."""

    kind: str
    message: str
    file: str
    line: int
    wordless: bool
    output: str
    tests: list[str]
    """Where data that is unknown was tested before, the latest last."""


class Document(TypedDict):
    """A finished measurement."""

    read: Read
    version: int
    mode: str
    script: str
    backend: str
    paddle: str
    runs: list[Run]


class Answer(TypedDict, total=False):
    """A message of a run, or the last one of the probe."""

    error: Fault
    run: Run
    runs: list[Run]
    document: Document
    progress: float
    stage: str
    place: int
    waits: bool
    """Whether the process waits for a further request."""

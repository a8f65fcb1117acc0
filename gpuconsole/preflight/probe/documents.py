"""What the probe reads and writes as JSON. Only type checkers import this module."""

from __future__ import annotations

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


class Change(TypedDict, total=False):
    """How the request of a further run differs from that of the first."""

    size: int | None
    batch: Batch
    number: int
    part: int
    counts: str
    until: int | None
    way: list[list[int]] | None
    whole: list[int] | None
    drawn: list[int] | None
    trains: list[int] | None


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
    limit_mib: int
    ahead: Ahead


class Reader(TypedDict, total=False):
    """The lengths of a loader."""

    batches: int | None
    samples: int | None
    own: int | None
    queued: int
    buffered: int


class Run(Change, total=False):
    """What one run of the script tells: its blocks as plain lists, and the facts beside them."""

    events: list[int]
    cycles: list[int]
    sizes: list[int]
    names: list[str]
    name: list[int]
    kind: list[int]
    inside: list[int]
    readers: list[Reader]
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
    settled: bool
    by_itself: bool
    counted: bool
    early: int
    fixed: bool
    least: float
    numbers_at: list[str]
    request: Request
    read: Value
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


class Document(TypedDict):
    """A finished measurement."""

    read: Value
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

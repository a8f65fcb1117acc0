"""What is written into a recording once, when it happens: jobs as they change, events, incidents,
and the static part of hosts. One line each: kind, time or number, JSON.

A recording may come from an untrusted source: each line is checked against the type it becomes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache, partial
from json.encoder import encode_basestring_ascii as quoted
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from gpuconsole.core.events import Event
from gpuconsole.core.fleet import Host
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job
from gpuconsole.core.submission.secrets import HIDDEN
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.state.recording.file_format import LONGEST_PART, moment

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Checked = TypeVar("Checked")
MOST_LINES = 50_000
MOST_OF_JOBS = LONGEST_PART // 2
"""Letters of jobs in one block."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is read of a verdict in a job's estimate."""

    max_batch_size: int | None = None
    step_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class _Estimate:
    """What is read of a job's estimate, which is a document of its own."""

    memory: dict[str, float | None] | None = None
    verdicts: tuple[_Verdict, ...] | None = None
    suggestions: tuple[dict[str, Any], ...] | None = None
    flags: tuple[str, ...] | None = None


@dataclass(slots=True)
class Log:
    """What the blocks of a file tell, read so far. Times never fall within a list."""

    hosts: dict[int, Host] = field(default_factory=dict)
    jobs: list[tuple[float, Job]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    incidents: list[tuple[float, Incident]] = field(default_factory=list)


def write(
    hosts: Iterable[tuple[int, Host]],
    jobs: Iterable[tuple[float, Job]],
    events: Iterable[Event],
    incidents: Iterable[tuple[float, Incident]],
) -> tuple[bytes, int]:
    """Return the log of a block and how many jobs are in it: of a very long queue only the first,
    so that a reader's bounds hold."""
    lines = [f"host {number} {json_text(host)}" for number, host in hosts]
    written = size = 0
    for at, job in jobs:
        line = f"job {at} {json_text(_without_secrets(job))}"
        size += len(line)
        if size > MOST_OF_JOBS or written >= MOST_LINES // 2:
            break
        lines.append(line)
        written += 1
    lines += [f"event {event.at} {json_text(event)}" for event in events]
    lines += [f"incident {at} {json_text(incident)}" for at, incident in incidents]
    return "".join(f"{line}\n" for line in lines).encode(), written


def read(data: bytes, log: Log) -> None:
    """Add what a block tells. ValueError (or TypeError, KeyError) when it makes no sense."""
    for kind, word, text in _lines(data):
        if kind == b"host":
            log.hosts[int(word)] = checked(Host, parsed(text))
        elif kind == b"job":
            job = checked(Job, parsed(text))
            _check_times(job, *job.attempts)
            if job.estimate is not None:
                checked(_Estimate, job.estimate)
            log.jobs.append((_rising(float(word), log.jobs), job))
        elif kind == b"event":
            log.events.append(_event(text))
        elif kind == b"incident":
            incident = checked(Incident, parsed(text))
            _check_times(incident, *incident.evidence)
            log.incidents.append((_rising(float(word), log.incidents), incident))


def read_events(data: bytes) -> list[Event]:
    """Return the events alone, without reading what is much longer."""
    return [_event(text) for kind, _, text in _lines(data) if kind == b"event"]


def _lines(data: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    lines = data.splitlines()
    if len(lines) > MOST_LINES:
        raise ValueError("a log is too long")
    for line in lines:
        kind, word, text = line.split(b" ", 2)
        yield kind, word, text


def _event(text: bytes) -> Event:
    event = checked(Event, parsed(text))
    _check_times(event)
    return event


def _rising(at: float, entries: Sequence[tuple[float, object]]) -> float:
    if entries and moment(at) < entries[-1][0]:
        raise ValueError("times run backwards")
    return moment(at)


def _check_times(*records: object) -> None:
    """Refuse times that no calendar knows."""
    for record in records:
        kind: Any = type(record)
        for name in _times_of(kind):
            value = getattr(record, name)
            if value is not None:
                moment(value)


@cache
def _times_of(kind: type) -> tuple[str, ...]:
    words = ("at", "since", "until", "seen")
    return tuple(field.name for field in fields(kind) if field.name.rpartition("_")[2] in words)


# --- records and JSON -----------------------------------------------------------------------------


def json_text(value: object) -> str:
    """Return a record, or what holds records, as JSON; fields that are as by default are left out.

    It is put together here, for a block has tens of thousands of values: to turn records into what
    the standard library writes, and then to have that written, takes nearly twice as long.
    """
    kind: Any = type(value)
    if kind is str and value.isascii():  # type: ignore[attr-defined]
        return quoted(value)  # type: ignore[arg-type]
    if kind is float:
        return repr(value) if math.isfinite(value) else "null"  # type: ignore[arg-type]
    if kind is tuple:
        return f"[{','.join(map(json_text, value))}]"  # type: ignore[call-overload]
    word = _WORDS.get(kind)
    if word is not None:
        return word(value)
    if (shape := _shape(kind)) is not None:
        keys, defaults, values = shape
        return object_text(keys, values(value), defaults)
    return _seldom_text(value)


_WORDS: Mapping[type, Callable[[object], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: repr,
}


def object_text(keys: Sequence[str], values: Sequence[object], defaults: Sequence[object]) -> str:
    """Return values under their keys, which end in a colon, without those that are as by
    default."""
    members = [
        key + json_text(value)
        for key, value, default in zip(keys, values, defaults, strict=True)
        if value is not default and value != default
    ]
    return f"{{{','.join(members)}}}"


def _seldom_text(value: object) -> str:
    if isinstance(value, Enum):
        return json_text(value.value)
    if isinstance(value, str):
        # A file name may hold bytes that are no text.
        return quoted(value.encode("utf-8", "replace").decode())
    if isinstance(value, float):
        return json_text(float(value))
    if isinstance(value, (tuple, list)):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, Mapping):
        members = (f"{json_text(str(key))}:{json_text(item)}" for key, item in value.items())
        return f"{{{','.join(members)}}}"
    return json.dumps(value)


_Shape = tuple[tuple[str, ...], tuple[object, ...], Callable[[object], Sequence[object]]]
"""The keys (`"name":`) and defaults of a record's fields, and what returns their values."""


@cache
def _shape(kind: type) -> _Shape | None:
    """Return the shape of a dataclass; None for what is none."""
    if not is_dataclass(kind):
        return None
    written = [field for field in fields(kind) if field.init]
    names = tuple(field.name for field in written)
    defaults = tuple(map(_default, written))
    if len(names) < 2:
        return keys_of(names), defaults, partial(_fields_of, names)
    return keys_of(names), defaults, attrgetter(*names)


def keys_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return names as JSON writes them before a value."""
    return tuple(f'"{name}":' for name in names)


def _fields_of(names: Sequence[str], record: object) -> list[object]:
    return [getattr(record, name) for name in names]


def _default(field: Field[object]) -> object:
    factory = field.default_factory
    return field.default if factory is MISSING else factory()


def _without_secrets(job: Job) -> Job:
    """Return the job without the values of its environment, which often are passwords: a recording
    is made to be handed on."""
    if not job.task.env:
        return job
    return replace(job, task=replace(job.task, env=dict.fromkeys(job.task.env, HIDDEN)))


def parsed(text: bytes) -> Any:
    """Return what JSON says. ValueError when it is none, or holds what is no number."""
    try:
        return _DECODER.decode(text.decode())
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f"{word[:20]} is no number")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def checked(kind: type[Checked], document: object) -> Checked:
    """Return a document as a record of that type; ValueError when it is none."""
    of: Any = kind
    result: Checked = _adapter(of).validate_python(document)
    return result


def prepare(*kinds: type) -> None:
    """Make what checks records, which takes a while, before somebody waits for it."""
    for kind in (Host, Job, Event, Incident, _Estimate, *kinds):
        _adapter(kind)


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    # It takes a while to import and to make: only who reads a recording pays for it.
    from pydantic import TypeAdapter

    return TypeAdapter(kind)

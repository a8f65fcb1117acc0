"""Records of hosts as columns, and back.

Of each host a block holds *runs*: stretches in which nothing changed of its static part (its
devices, their models, labels). In a run figures are columns, and what changes now and then
(processes, throttling, a state) is written where it changes. The static part is written once a
file: see `log`.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from itertools import groupby
from operator import itemgetter
from struct import Struct
from typing import Any

from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostState
from gpuconsole.core.util.fast_replace import Evolving
from gpuconsole.core.util.field_reader import reader
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.state.recording import event_log
from gpuconsole.state.recording.delta_codec import Columns, columns, figure
from gpuconsole.state.recording.event_log import checked, keys_of, object_text, parsed
from gpuconsole.state.recording.file_format import LATEST

Seen = tuple[float, Host]
"""When a host's record was noticed, and the record."""

Note = tuple[object, ...]
"""The values of a `HostNote` or a `DeviceNote`, in their order."""

_TIME_STEP = 0.001
_AGE_STEP = 0.05
_HOST_STEPS: Mapping[str, float] = {
    "cpu_percent": 0.5,
    "memory_used_mib": 16.0,
    "disk_free_mib": 64.0,
    "load_1m": 0.1,
}
"""Figures of `HostFacts` that are kept, and how exactly."""
_DEVICE_STEPS: Mapping[str, float] = {
    "utilization": 1.0,
    "memory_used_mib": 1.0,
    "temperature_c": 1.0,
    "power_w": 1.0,
    "sm_clock_mhz": 1.0,
    "memory_clock_mhz": 1.0,
}
_host_figures: Callable[[object], tuple[float | None, ...]] = reader(*_HOST_STEPS)
_device_figures: Callable[[object], tuple[float | None, ...]] = reader(*_DEVICE_STEPS)
_SKEW_STEP = 0.05
_MOST_ROWS = 100_000
_HEAD = Struct("<I")
_LEADING = 3
"""Columns of a run before the figures: when noticed, how old then, and the clock's skew."""


@dataclass(frozen=True, slots=True)
class HostNote:
    """What changes now and then of a host; names are those of `Host`."""

    state: HostState = HostState.CONNECTING
    error: str = ""
    engine_error: str = ""
    drained: str = ""


@dataclass(frozen=True, slots=True)
class DeviceNote:
    """What changes now and then of a device; names are those of `Device`."""

    throttle: tuple[str, ...] = ()
    ecc_uncorrected: int | None = None
    retired_pages: int | None = None
    xid: int | None = None
    processes: tuple[DeviceProcess, ...] = ()
    lost: bool = False
    error: str = ""
    health: str = ""
    ecc_corrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    clock_notes: tuple[str, ...] = ()
    nvlinks_up: int | None = None
    nvlinks_down: int | None = None
    nvlink_errors: int | None = None


_HOST_NOTE = tuple(field.name for field in fields(HostNote))
_DEVICE_NOTE = tuple(field.name for field in fields(DeviceNote))
_host_note: Callable[[object], Note] = reader(*_HOST_NOTE)
_device_note: Callable[[object], Note] = reader(*_DEVICE_NOTE)
_BLANK_DEVICE: dict[str, Any] = dict.fromkeys(_DEVICE_STEPS) | {
    field.name: field.default for field in fields(DeviceNote)
}
# A meter that never rests: the power that it sums up is in the columns.
_BLANK_DEVICE["energy_j"] = None
# A recording says when the host's frame was, not when a vendor's tool ran before it.
_BLANK_DEVICE["sampled_at"] = None
_BLANK_FACTS: dict[str, Any] = dict.fromkeys(_HOST_STEPS)


def standing(host: Host) -> Host:
    """Return the static part of a host: its record without figures and notes."""
    return Host(
        name=host.name,
        address=host.address,
        labels=host.labels,
        price_per_hour=host.price_per_hour,
        devices=tuple(map(_evolving_device(), host.devices)),
        facts=replace(host.facts, **_BLANK_FACTS),
    )


@cache
def _evolving_device() -> Evolving[Device]:
    return Evolving(Device, _BLANK_DEVICE)


class Standings:
    """Numbers the static parts of hosts, so that blocks need only name them."""

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[Host, int]]] = {}
        self._latest: dict[str, tuple[tuple[object, ...], int]] = {}
        self.numbered = 0
        """How many there are."""
        self.new: list[tuple[int, Host]] = []
        """What was numbered since this list was last emptied."""
        self._texts: dict[str, tuple[Note, str]] = {}

    def number(self, host: Host) -> int:
        """Return the number of a host's static part."""
        quick = _quick(host)
        latest = self._latest.get(host.name)
        if latest is not None and latest[0] == quick:
            return latest[1]
        plain = standing(host)
        numbered = self._known.setdefault(host.name, [])
        number = next((number for record, number in numbered if record == plain), None)
        if number is None:
            number = self.numbered
            self.numbered += 1
            numbered.append((plain, number))
            self.new.append((number, plain))
        self._latest[host.name] = quick, number
        return number

    def text(self, subject: str, note: Note, blank: Note) -> str:
        """Return a note of a host or device as JSON. Each block begins with all notes, most of
        which are those of the block before."""
        before = self._texts.get(subject)
        if before is None or before[0] != note:
            before = self._texts[subject] = note, _document(note, blank)
        return before[1]


def _quick(host: Host) -> tuple[object, ...]:
    """What tells that something standing changed, without making records."""
    facts = host.facts
    return (
        host.address,
        host.labels,
        host.price_per_hour,
        (facts.memory_total_mib, facts.disk_total_mib, facts.driver_version, facts.source),
        *map(_quick_device, host.devices),
    )


_quick_device: Callable[[object], Note] = reader(
    "uuid", "index", "model", "memory_total_mib", "power_limit_w", "peers", "mig"
)


# --- writing --------------------------------------------------------------------------------------


def encode(seen: Iterable[Seen], start: float, standings: Standings) -> bytes:
    """Return records as the frames of a block that begins at `start`; hosts keep the order in
    which they first occur."""
    by_host: dict[str, list[Seen]] = {}
    for sample in seen:
        by_host.setdefault(sample[1].name, []).append(sample)
    runs: list[str] = []
    packed: list[bytes] = []
    for mine in by_host.values():
        numbered = [(standings.number(host), at, host) for at, host in mine]
        written: list[str] = []
        for number, group in groupby(numbered, key=lambda item: item[0]):
            run = [(at, host) for _, at, host in group]
            written.append(f"[{number},{len(run)},[{_notes(run, standings)}]]")
            packed += _figures(run, start)
        runs.append(f"[{','.join(written)}]")
    text = f'{{"start":{json.dumps(start)},"runs":[{",".join(runs)}]}}'.encode()
    return b"".join((_HEAD.pack(len(text)), text, *packed))


def _figures(run: Sequence[Seen], start: float) -> list[bytes]:
    """Return the columns of a run."""
    return columns([_row(at, host, start) for at, host in run], _steps(len(run[0][1].devices)))


def _row(at: float, host: Host, start: float) -> list[float | None]:
    sampled, skew = host.sampled_at, host.clock_skew_s
    row: list[float | None] = [
        at - start,
        None if sampled is None else max(0.0, at - sampled),
        # A clock may be behind as well: numbers begin at -1000 s.
        None if skew is None else skew - _SKEW_FROM,
        *_host_figures(host.facts),
    ]
    for device in host.devices:
        row += _device_figures(device)
    return row


@cache
def _steps(devices: int) -> tuple[float, ...]:
    """Return how exactly each figure of a host with so many devices is kept."""
    leading = (_TIME_STEP, _AGE_STEP, _SKEW_STEP)
    return (*leading, *_HOST_STEPS.values(), *(*_DEVICE_STEPS.values(),) * devices)


_SKEW_FROM = -1000.0


def _notes(run: Sequence[Seen], standings: Standings) -> str:
    """Return [row, device or -1, note] for each note that differs from the one before, as JSON."""
    hosts = [host for _, host in run]
    notes = _changed(-1, hosts[0].name, map(_host_note, hosts), standings)
    for place, devices in enumerate(zip(*(host.devices for host in hosts), strict=True)):
        notes += _changed(place, devices[0].uuid, map(_device_note, devices), standings)
    notes.sort(key=itemgetter(0))
    return ",".join([text for _, text in notes])


def _changed(
    place: int, subject: str, notes: Iterable[Note], standings: Standings
) -> list[tuple[int, str]]:
    changes: list[tuple[int, str]] = []
    before = _blank_note(place)
    for row, note in enumerate(notes):
        if note != before:
            text = standings.text(subject, note, _blank_note(place))
            changes.append((row, f"[{row},{place},{text}]"))
            before = note
    return changes


@cache
def _blank_note(place: int) -> Note:
    blank = HostNote() if place < 0 else DeviceNote()
    return tuple(getattr(blank, field.name) for field in fields(blank))


_KEYS = {len(names): keys_of(names) for names in (_HOST_NOTE, _DEVICE_NOTE)}


def _document(note: Note, blank: Note) -> str:
    return object_text(_KEYS[len(note)], note, blank)


# --- reading --------------------------------------------------------------------------------------


class Run:
    """A stretch of one host in which its devices stay the same."""

    def __init__(self, host: Host, rows: int, notes: object, buffer: bytes, at: int) -> None:
        """Read a run with columns that begin at byte `at`; ValueError if it is malformed."""
        self.host = host
        count = _LEADING + len(_HOST_STEPS) + len(host.devices) * len(_DEVICE_STEPS)
        self.columns = Columns(buffer, at, count, rows)
        self.times = self.columns.all(0)
        if self.times != sorted(self.times):
            raise ValueError("times run backwards")
        self._notes = _read_notes(notes, len(host.devices), rows)

    def row_at(self, after_start: float) -> int:
        """Return the last row at or before a time since the block's start, or -1."""
        return bisect_right(self.times, round(after_start / _TIME_STEP)) - 1

    def record(self, row: int, start: float) -> Host:
        """Return the host's record of a row."""
        value_at = self.columns.at
        at = start + self.times[row] * _TIME_STEP
        age = figure(value_at(1, row), _AGE_STEP)
        skew = figure(value_at(2, row), _SKEW_STEP)
        base = _LEADING + len(_HOST_STEPS)
        width = len(_DEVICE_STEPS)
        host = self.host
        return replace(
            host,
            devices=tuple(
                self._device(device, place, base + place * width, row)
                for place, device in enumerate(host.devices)
            ),
            facts=replace(host.facts, **self._values(_HOST_STEPS, _LEADING, row)),
            sampled_at=None if age is None else max(0.0, at - age),
            clock_skew_s=None if skew is None else skew + _SKEW_FROM,
            **self._note(-1, row),
        )

    def _device(self, device: Device, place: int, column: int, row: int) -> Device:
        figures = self._values(_DEVICE_STEPS, column, row)
        return replace(device, **figures, **self._note(place, row))

    def _values(self, steps: Mapping[str, float], column: int, row: int) -> dict[str, Any]:
        value_at = self.columns.at
        return {
            name: figure(value_at(column + place, row), step)
            for place, (name, step) in enumerate(steps.items())
        }

    def _note(self, place: int, row: int) -> Mapping[str, Any]:
        rows, notes = self._notes.get(place, ((), ()))
        latest = bisect_right(rows, row) - 1
        return notes[latest] if latest >= 0 else {}

    def sampled(self, start: float) -> list[float | None]:
        """Return when each row's sample was taken on the host."""
        ages = self.columns.all(1)
        return [
            None if age < 0 else start + at * _TIME_STEP - age * _AGE_STEP
            for at, age in zip(self.times, ages, strict=True)
        ]

    def column_of(self, uuid: str, metric: str) -> tuple[list[int], float] | None:
        """Return a device's figures as numbers, and their step; None for another's device."""
        place = next((i for i, device in enumerate(self.host.devices) if device.uuid == uuid), None)
        if place is None or metric not in _DEVICE_STEPS:
            return None
        offset = list(_DEVICE_STEPS).index(metric)
        column = _LEADING + len(_HOST_STEPS) + place * len(_DEVICE_STEPS) + offset
        return self.columns.all(column), _DEVICE_STEPS[metric]

    def column_of_host(self, metric: str) -> tuple[list[int], float] | None:
        """Return a figure of the host itself as numbers, and its step."""
        if metric not in _HOST_STEPS:
            return None
        return self.columns.all(_LEADING + list(_HOST_STEPS).index(metric)), _HOST_STEPS[metric]


Notes = dict[int, tuple[list[int], list[Mapping[str, Any]]]]
"""Of a device, or of the host at -1: the rows in which something changed, and what it was then."""


def _read_notes(written: object, devices: int, rows: int) -> Notes:
    notes_by_place: Notes = {}
    if not isinstance(written, list):
        raise ValueError("notes are no list")
    for row, place, document in written:
        if type(row) is not int or not 0 <= row < rows:
            raise ValueError("a note is of no row")
        if type(place) is not int or not -1 <= place < devices:
            raise ValueError("a note is of no device")
        kind, names = (HostNote, _HOST_NOTE) if place < 0 else (DeviceNote, _DEVICE_NOTE)
        note = checked(kind, document)
        at, notes = notes_by_place.setdefault(place, ([], []))
        if at and row <= at[-1]:
            raise ValueError("notes run backwards")
        at.append(row)
        notes.append({name: getattr(note, name) for name in names})
    return notes_by_place


@dataclass(frozen=True, slots=True)
class Frames:
    """All runs of a block, host by host."""

    start: float
    hosts: tuple[tuple[Run, ...], ...]

    def row_at(self, place: int, at: float) -> tuple[Run, int]:
        """Return the run and row of a host that hold at a time, or the first."""
        for run in reversed(self.hosts[place]):
            row = run.row_at(at - self.start)
            if row >= 0:
                return run, row
        return self.hosts[place][0], 0


def prepare() -> None:
    """Make what checks notes and records, which takes a while, before somebody waits for it."""
    event_log.prepare(HostNote, DeviceNote)


def decode(data: bytes, host_of: Callable[[int], Host]) -> Frames:
    """Decode the frames of a block; `host_of` returns a static part by its number. Raises
    ValueError, KeyError or TypeError if they are malformed."""
    (length,) = _HEAD.unpack_from(data)
    document = parsed(data[_HEAD.size : _HEAD.size + length])
    at = _HEAD.size + length
    hosts: list[tuple[Run, ...]] = []
    for written in document["runs"]:
        runs: list[Run] = []
        for number, rows, notes in written:
            if type(rows) is not int or not 0 < rows <= _MOST_ROWS:
                raise ValueError("a run has no rows, or too many")
            run = Run(host_of(number), rows, notes, data, at)
            at = run.columns.end
            runs.append(run)
        if not runs:
            raise ValueError("a host has no run")
        hosts.append(tuple(runs))
    start = document["start"]
    if not isinstance(start, float) or not 0 <= start <= LATEST:
        raise ValueError("the block begins at no time")
    names = [runs[0].host.name for runs in hosts]
    if len(set(names)) < len(names):
        raise ValueError("a host occurs twice")
    return Frames(start, tuple(hosts))

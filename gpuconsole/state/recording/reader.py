"""Reading recordings: one file, its blocks, and the moments in them.

Everything here may take milliseconds of disk and unpacking: call it beside the event loop. What
it returns, a `Stretch`, is in memory and answers at once.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuconsole.core.events import Event
from gpuconsole.core.fleet import Host
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.state.recording import event_log as log
from gpuconsole.state.recording import file_format
from gpuconsole.state.recording.file_format import Header, Place, RecordingError
from gpuconsole.state.recording.frames import Frames, Run, decode

_KEPT_BYTES = 2**24
"""Unpacked blocks that are kept in memory, of one file."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """One block in memory: the fleet at any time from `first` to `last`."""

    path: Path
    number: int
    first: float
    last: float
    frames: Frames
    log: log.Log
    """What the file tells up to this block, and perhaps of later ones."""

    @property
    def devices(self) -> int:
        """How many devices the fleet has."""
        return sum(len(runs[0].host.devices) for runs in self.frames.hosts)

    def rows(self, at: float) -> list[tuple[Run, int]]:
        """Return for each host the run and row that hold at a time; equal ones are equal
        records."""
        return [self.frames.row_at(place, at) for place in range(len(self.frames.hosts))]

    def hosts(self, at: float) -> tuple[Host, ...]:
        """Return the hosts as they were."""
        start = self.frames.start
        return tuple(run.record(row, start) for run, row in self.rows(at))

    def jobs(self, at: float) -> tuple[Job, ...]:
        """Return the jobs as they were, oldest first."""
        jobs = {job.id: job for _, job in self.log.jobs[: self.jobs_until(at)]}
        return tuple(jobs.values())

    def jobs_until(self, at: float) -> int:
        """Return how many changes of jobs had been noticed; equal numbers are equal jobs."""
        return bisect_right(self.log.jobs, at, key=_noticed)

    def incidents(self, at: float) -> tuple[Incident, ...]:
        """Return the incidents as they were known."""
        place = bisect_right(self.log.incidents, at, key=_noticed)
        incidents = {
            (incident.id, incident.since): incident for _, incident in self.log.incidents[:place]
        }
        return tuple(incidents.values())

    def incidents_until(self, at: float) -> int:
        """Return how many changes of incidents had been noticed."""
        return bisect_right(self.log.incidents, at, key=_noticed)


def _noticed(change: tuple[float, object]) -> float:
    return change[0]


class Tape:
    """One recorded file."""

    def __init__(self, path: Path) -> None:
        """Read the header and find the blocks. RecordingError or UsageError when it cannot be."""
        self._index = file_format.read_index(path)
        self._log = log.Log()
        self._read = 0
        """Number of blocks with a log that was read."""
        self._kept: OrderedDict[int, tuple[int, Stretch]] = OrderedDict()

    @property
    def path(self) -> Path:
        """The file."""
        return self._index.path

    @property
    def header(self) -> Header:
        """What it says of itself."""
        return self._index.header

    @property
    def blocks(self) -> list[Place]:
        """Its blocks, oldest first."""
        return self._index.blocks

    @property
    def torn(self) -> int | None:
        """The byte after which nothing can be read, where the file goes on."""
        return self._index.torn

    def refresh(self) -> bool:
        """Find blocks written since; tell whether there are any."""
        return file_format.refresh(self._index)

    def number_at(self, at: float) -> int:
        """Return the number of the last block that begins at or before a time, or -1."""
        return bisect_right(self.blocks, at, key=lambda place: place.first) - 1

    def stretch(self, number: int) -> Stretch:
        """Return a block in memory. RecordingError when it is damaged."""
        cached = self._kept.get(number)
        if cached is None:
            place = self.blocks[number]
            while self._read <= number:
                self._read_log(self._read)
            _, data = file_format.read_parts(self.path, place, frames=True)
            with _errors_at(self.path, place):
                frames = decode(data, self._log.hosts.__getitem__)
            stretch = Stretch(self.path, number, place.first, place.last, frames, self._log)
            cached = self._kept[number] = len(data), stretch
            self._make_room()
        self._kept.move_to_end(number)
        return cached[1]

    def events(self) -> Iterator[Event]:
        """Give all events in the file; a damaged block tells none."""
        for place in self.blocks:
            try:
                text, _ = file_format.read_parts(self.path, place, frames=False)
                with _errors_at(self.path, place):
                    events = log.read_events(text)
            except RecordingError:
                continue
            yield from events

    def forget(self) -> None:
        """Keep the index alone in memory."""
        self._log, self._read = log.Log(), 0
        self._kept.clear()

    def _read_log(self, number: int) -> None:
        place = self.blocks[number]
        text, _ = file_format.read_parts(self.path, place, frames=False)
        with _errors_at(self.path, place):
            log.read(text, self._log)
        self._read = number + 1

    def _make_room(self) -> None:
        while len(self._kept) > 2 and sum(size for size, _ in self._kept.values()) > _KEPT_BYTES:
            self._kept.popitem(last=False)


@contextmanager
def _errors_at(path: Path, place: Place) -> Iterator[None]:
    """Turn what a block that makes no sense raises into an error for a person."""
    try:
        yield
    except (ValueError, TypeError, LookupError, OverflowError, struct.error) as error:
        what = str(error).partition("\n")[0][:200] or type(error).__name__
        raise RecordingError(
            path, place.offset, msg("the block makes no sense ({what})", what=what)
        ) from error

"""Public job traces and our own CSV, read into one kind of row.

Readers take the lines of a file, the header first, and name the line of what is wrong. A trace
begins with its first job, is read whole, then cut to a window of days and thinned to a load.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Protocol, TypeVar

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.placement.simulate.device_speeds import CLASSES

MOST_DEVICES = 16
"""Larger jobs are left out: they are no job of a small lab."""
DAY = 86_400.0
_SHOWN = 60
T = TypeVar("T")


class Work(Protocol):
    """What has a size: device-seconds."""

    @property
    def run_time_s(self) -> float: ...

    @property
    def devices(self) -> int: ...


Sized = TypeVar("Sized", bound=Work)


class Dice(Protocol):
    """A seeded source of chance, such as `random.Random`."""

    def random(self) -> float:
        """Return a number in [0, 1)."""

    def gauss(self, mu: float, sigma: float) -> float:
        """Return a normally distributed number."""

    def expovariate(self, lambd: float) -> float:
        """Return an exponentially distributed number with mean 1 / lambd."""

    def shuffle(self, x: list[T]) -> None:
        """Put a list into a random order."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """What a trace tells of a job; "" or None where it does not."""

    submitted_s: float
    """On the trace's own clock; in a window, from its start."""
    run_time_s: float
    """On the reference device, with as many devices as it asked for."""
    devices: int
    user: str = ""
    job_class: str = ""
    need_mib: float | None = None
    utilization: float | None = None
    predicted_s: float | None = None
    backends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace in order of submission, and how many rows of it are no job."""

    source: str
    jobs: tuple[TraceJob, ...]
    """Never empty."""
    empty: int = 0
    """Rows without run time or without devices."""
    notes: tuple[str, ...] = ()


# --- reading ------------------------------------------------------------------------------------


class Rows:
    """Rows of a CSV, and errors that name their lines. Lines that start with `#` are comments."""

    def __init__(self, lines: Iterable[str], source: str, columns: Sequence[str]) -> None:
        """Begin to read; the header must name all `columns`."""
        self.source = source
        self._line = 0
        self._table = csv.DictReader(self._counted(lines))
        try:
            names = self._table.fieldnames
        except csv.Error as error:
            raise self.error(str(error)) from None
        if not names:
            raise UsageError(
                "Empty trace", msg("{source} holds no line.", source=source), "Name another file."
            )
        missing = [name for name in columns if name not in names]
        if missing:
            there = clean(", ".join(name or "" for name in names[:12]), 200)
            raise UsageError(
                "Wrong columns",
                msg(
                    "{source}:{line}: there is no column {value}; the file has {there}.",
                    source=source,
                    line=self._line,
                    value=f"{missing[0]!r}",
                    there=there,
                ),
                "Is --format right? docs/simulate.md lists the columns of each format.",
            )

    def __iter__(self) -> Iterator[Mapping[str, str]]:
        """Yield the rows."""
        try:
            yield from self._table
        except csv.Error as error:
            raise self.error(str(error)) from None

    def _counted(self, lines: Iterable[str]) -> Iterator[str]:
        for self._line, line in enumerate(lines, 1):
            if not line.startswith("#"):
                yield line

    def number(self, row: Mapping[str, str], column: str) -> float:
        """Return a number of a row that is finite and not negative."""
        text = row[column]
        try:
            value = float(text)
        except (TypeError, ValueError):
            raise self.error(f"`{column}` is {_quoted(text)}, expected a number") from None
        if not math.isfinite(value) or value < 0:
            raise self.error(f"`{column}` is {_quoted(text)}, expected at least 0")
        return value

    def count(self, row: Mapping[str, str], column: str) -> int:
        """Return a whole number of a row."""
        value = self.number(row, column)
        if value != int(value):
            raise self.error(f"`{column}` is {_quoted(row[column])}, expected a whole number")
        return int(value)

    def optional(self, row: Mapping[str, str], column: str) -> float | None:
        """Return a number, or None where the column is missing or empty."""
        return self.number(row, column) if row.get(column) else None

    def error(self, text: str) -> UsageError:
        """Return an error about the row that is being read."""
        return UsageError(
            "Bad row in the trace",
            msg("{source}:{line}: {text}.", source=self.source, line=self._line, text=text),
            "Correct or remove it.",
        )


def _quoted(text: str | None) -> str:
    return "missing" if text is None else repr(clean(text, _SHOWN))


def read_native(lines: Iterable[str], source: str) -> Trace:
    """Read our own format: submitted_s, run_time_s, devices, and what else is known."""
    rows = Rows(lines, source, ("submitted_s", "run_time_s", "devices"))
    return _trace(source, rows, lambda row: _native(rows, row))


def _native(rows: Rows, row: Mapping[str, str]) -> TraceJob:
    job_class = row.get("job_class") or ""
    if job_class and job_class not in CLASSES:
        raise rows.error(f"`job_class` is {_quoted(job_class)}, expected {', '.join(CLASSES)}")
    return TraceJob(
        rows.number(row, "submitted_s"),
        rows.number(row, "run_time_s"),
        rows.count(row, "devices"),
        clean(row.get("user") or "", _SHOWN),
        job_class,
        rows.optional(row, "need_mib"),
        rows.optional(row, "utilization"),
        rows.optional(row, "predicted_s"),
        tuple((row.get("backends") or "").split()),
    )


def read_philly(lines: Iterable[str], source: str) -> Trace:
    """Read the converted Philly trace: timestamp, duration, num_gpus, cluster."""
    rows = Rows(lines, source, ("timestamp", "duration", "num_gpus"))

    def job(row: Mapping[str, str]) -> TraceJob:
        try:
            moment = datetime.fromisoformat(row["timestamp"].strip())
        except (AttributeError, ValueError):
            raise rows.error(
                f"`timestamp` is {_quoted(row['timestamp'])}, expected a date and time"
            ) from None
        seconds = moment.replace(tzinfo=moment.tzinfo or timezone.utc).timestamp()
        return TraceJob(seconds, rows.number(row, "duration"), rows.count(row, "num_gpus"))

    return _trace(source, rows, job)


def read_helios(lines: Iterable[str], source: str) -> Trace:
    """Read the converted Helios trace: arrival_s, service_sec, gpu_count."""
    rows = Rows(lines, source, ("arrival_s", "service_sec", "gpu_count"))
    return _trace(
        source,
        rows,
        lambda row: TraceJob(
            rows.number(row, "arrival_s"),
            rows.number(row, "service_sec"),
            rows.count(row, "gpu_count"),
        ),
    )


def read_openb(lines: Iterable[str], source: str) -> Trace:
    """Read pods of the openb trace; a share of a device is a job that keeps it less busy."""
    rows = Rows(lines, source, ("num_gpu", "gpu_milli", "creation_time", "deletion_time"))

    def job(row: Mapping[str, str]) -> TraceJob:
        begin = rows.number(row, "creation_time")
        devices = rows.count(row, "num_gpu")
        share = rows.number(row, "gpu_milli") / 10.0
        length = max(0.0, rows.number(row, "deletion_time") - begin)
        busy = share if devices == 1 and 0 < share < 100 else None
        return TraceJob(begin, length, devices, utilization=busy)

    return _trace(source, rows, job)


_GAVEL_CLASSES = (
    ("ResNet", "vision"),
    ("CycleGAN", "vision"),
    ("Recommendation", "recommendation"),
    ("A3C", "control"),
)
_GAVEL_REFERENCE = "v100"


def read_gavel(lines: Iterable[str], source: str, rates: Iterable[str], rates_source: str) -> Trace:
    """Read Gavel's typed jobs; their run time follows from the measured rates on a V100."""
    table = Rows(rates, rates_source, ("gpu_type", "model", "num_gpus", "steps_per_s"))
    measured = {
        (row["model"], table.count(row, "num_gpus")): table.number(row, "steps_per_s")
        for row in table
        if row["gpu_type"] == _GAVEL_REFERENCE
    }
    rows = Rows(lines, source, ("model", "total_steps", "arrival_s", "num_gpus"))

    def job(row: Mapping[str, str]) -> TraceJob:
        devices = rows.count(row, "num_gpus")
        rate = measured.get((row["model"], devices), 0.0)
        seconds = rows.number(row, "total_steps") / rate if rate else 0.0
        name = row["model"] or ""
        classes = (job_class_ for start, job_class_ in _GAVEL_CLASSES if name.startswith(start))
        job_class = next(classes, "language")
        return TraceJob(rows.number(row, "arrival_s"), seconds, devices, "", job_class)

    trace = _trace(source, rows, job)
    note = msg("{n} rows have no measured rate on a V100 and are left out.", n=f"{trace.empty:,}")
    return Trace(trace.source, trace.jobs, 0, (note,) if trace.empty else ())


def _trace(source: str, rows: Rows, job: Callable[[Mapping[str, str]], TraceJob]) -> Trace:
    jobs = [job(row) for row in rows]
    usable = [job for job in jobs if job.run_time_s > 0 and job.devices > 0]
    usable.sort(key=lambda job: job.submitted_s)
    if not usable:
        raise UsageError(
            "Empty trace", msg("{source} holds no job with devices and run time.", source=source)
        )
    return Trace(source, tuple(usable), len(jobs) - len(usable))


READERS: Mapping[str, Callable[[Iterable[str], str], Trace]] = {
    "native": read_native,
    "philly": read_philly,
    "helios": read_helios,
    "openb": read_openb,
}
"""By the name of the format; Gavel's needs its rates too."""


# --- cutting and thinning -----------------------------------------------------------------------


def window(trace: Trace, start_day: float, days: float | None) -> list[TraceJob]:
    """Return the jobs submitted in some days of a trace, counted from the window's start."""
    begin = trace.jobs[0].submitted_s + start_day * DAY
    end = math.inf if days is None else begin + days * DAY
    jobs = [
        replace(job, submitted_s=job.submitted_s - begin)
        for job in trace.jobs
        if begin <= job.submitted_s < end
    ]
    if not jobs:
        last = (trace.jobs[-1].submitted_s - trace.jobs[0].submitted_s) / DAY
        until = "the end" if days is None else f"day {start_day + days:g}"
        raise UsageError(
            "Empty window",
            msg(
                "{source} has no job from day {start_day} to {until}; it ends on day {last}.",
                source=trace.source,
                start_day=f"{start_day:g}",
                until=until,
                last=f"{last:.1f}",
            ),
            "Choose another --start-day or a longer --window-days.",
        )
    return jobs


def thin(jobs: Sequence[Sized], work: float, dice: Dice) -> list[Sized]:
    """Return jobs chosen at random with a total of about `work` device-seconds, in order.

    The same dice choose the same jobs first, so that a higher load only adds jobs.
    """
    order = list(range(len(jobs)))
    dice.shuffle(order)
    chosen: list[int] = []
    total = 0.0
    for index in order:
        job = jobs[index]
        size = job.run_time_s * job.devices
        if size > work / 2:
            # One job is no load.
            continue
        if total + size - work > work - total:
            break
        chosen.append(index)
        total += size
    return [jobs[index] for index in sorted(chosen)]

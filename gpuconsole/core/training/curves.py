"""Curves of a training run: what its log reported, by metric, over the steps of the run.

Whatever a log counts, each point has one place: the step of the run, or where a log counts epochs
alone, the epoch. Of each metric a bounded number of points is kept; its last, least and greatest
value and its first that is no number are exact.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from gpuconsole.core.jobs import Job
from gpuconsole.core.submission.sweeps import parameters
from gpuconsole.core.training.log import STEP_TIME, VALIDATION, Reading
from gpuconsole.core.util.lazy_dataclass import dataclass

MOST_CURVES = 16
MOST_POINTS = 1024
"""Points that are kept of a metric; then every second one is dropped."""
Axis = Literal["step", "epoch"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HIGHER_IS_BETTER = _words(
    "acc accu accuracy auc iou miou map ap ap50 f1 score precision recall hmean top1 top5"
    " dice kappa bleu rouge psnr ssim ips"
)
_LOWER_IS_BETTER = _words(f"loss ppl perplexity error err mae mse rmse wer cer {STEP_TIME}")


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a metric. `at` is its place on the axis of the curves."""

    at: float
    value: float
    epoch: float | None = None


@dataclass(slots=True)
class Curve:
    """One metric of a run, oldest first."""

    name: str
    points: list[Point] = field(default_factory=list)
    """Those that are kept, of finite values."""
    count: int = 0
    """How many values were reported."""
    last: Point | None = None
    least: Point | None = None
    most: Point | None = None
    no_number: Point | None = None
    """The first value that was NaN or infinite."""
    stride: int = 1
    """One in so many finite values is kept."""
    finite: int = 0

    def add(self, point: Point) -> None:
        """Take in the next value."""
        self.count += 1
        self.last = point
        if not math.isfinite(point.value):
            self.no_number = self.no_number or point
            return
        if self.least is None or point.value < self.least.value:
            self.least = point
        if self.most is None or point.value > self.most.value:
            self.most = point
        if self.finite % self.stride == 0:
            self.points.append(point)
            if len(self.points) >= MOST_POINTS:
                self.points = self.points[::2]
                self.stride *= 2
        self.finite += 1

    @property
    def best(self) -> Point | None:
        """The best finite value: greatest where more is better, least where less is; None where
        that is not known of the metric."""
        better = is_higher_better(self.name)
        return None if better is None else self.most if better else self.least

    def shown(self) -> Sequence[Point]:
        """Return the points of a plot: those that are kept, and the last where it is finite."""
        last = self.last
        if last is None or not math.isfinite(last.value) or last in self.points[-1:]:
            return self.points
        return [*self.points, last]

    def value(self, which: Literal["last", "best"]) -> float | None:
        """Return the last or the best value; None where there is none, or best is not known."""
        point = self.last if which == "last" else self.best
        return None if point is None else point.value

    def mean(self, last: int = 64) -> float | None:
        """Return the mean of the last finite values that are kept."""
        values = [point.value for point in self.points[-last:]]
        return math.fsum(values) / len(values) if values else None


def is_higher_better(metric: str) -> bool | None:
    """Tell whether more is better of a metric, by its name; None where that is not known."""
    parts = metric.removeprefix(VALIDATION).removeprefix("test_").lower().split("_")
    if metric == STEP_TIME or any(
        part in _LOWER_IS_BETTER or part.endswith("loss") for part in parts
    ):
        return False
    return True if any(part in _HIGHER_IS_BETTER for part in parts) else None


class Curves:
    """The curves of one attempt, built from its readings in their order."""

    def __init__(self) -> None:
        self.curves: dict[str, Curve] = {}
        self.axis: Axis = "epoch"
        self.at = 0.0
        """The step of the run (or the epoch) that was reported last."""
        self.epoch: float | None = None
        self._base = 0
        """Steps of the epochs before, where a log counts those of each epoch."""
        self._step: int | None = None

    def __bool__(self) -> bool:
        return bool(self.curves)

    def take(self, reading: Reading) -> None:
        """Take in what a line reported; metrics beyond `MOST_CURVES` are left out."""
        self._move(reading)
        for name, value in reading.values.items():
            curve = self.curves.get(name)
            if curve is None:
                if len(self.curves) >= MOST_CURVES:
                    continue
                curve = self.curves[name] = Curve(name)
            curve.add(Point(self.at, value, self.epoch))

    def _move(self, reading: Reading) -> None:
        if reading.epoch is not None:
            self.epoch = reading.epoch
        if reading.step is not None:
            if self._step is not None and reading.step < self._step:
                self._base += max(self._step, reading.steps or 0)
            self._step = reading.step
            self.axis, self.at = "step", float(self._base + reading.step)
        elif self.axis == "epoch":
            if reading.epoch is not None:
                self.at = reading.epoch
            elif self.epoch is None:
                # Nothing is counted: the reports themselves are.
                self.at += 1.0

    def main(self) -> list[str]:
        """Return the names of the metrics, those that a person looks at first before others."""
        order = {name: place for place, name in enumerate(("loss", "val_loss", "acc", "val_acc"))}

        def rank(name: str) -> tuple[int, int]:
            if name in (STEP_TIME, "lr") or is_higher_better(name) is None:
                return 2, 0
            return (0, order[name]) if name in order else (1, 0)

        return sorted(self.curves, key=rank)

    def as_json(self) -> dict[str, Any]:
        """Return the curves as a document; numbers that are none are `nan`, `inf` or `-inf`."""
        return {
            "axis": self.axis,
            "metrics": [
                {
                    "name": curve.name,
                    "count": curve.count,
                    "last": _json(curve.last),
                    "best": _json(curve.best),
                    "least": _json(curve.least),
                    "most": _json(curve.most),
                    "first_no_number": _json(curve.no_number),
                    "points": [_row(point) for point in curve.points],
                }
                for curve in self.curves.values()
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Curves:
        """Return the curves of a document that `as_json` made. KeyError, TypeError or ValueError
        for another one."""
        curves = cls()
        curves.axis = "step" if document["axis"] == "step" else "epoch"
        for metric in document["metrics"][:MOST_CURVES]:
            points = [_point(row) for row in metric["points"][:MOST_POINTS]]
            curve = Curve(
                str(metric["name"]), points, int(metric["count"]), _point(metric["last"]),
                _point(metric["least"]) if metric["least"] else None,
                _point(metric["most"]) if metric["most"] else None,
                _point(metric["first_no_number"]) if metric["first_no_number"] else None,
            )  # fmt: skip
            curves.curves[curve.name] = curve
        return curves


@dataclass(frozen=True, slots=True)
class Compared:
    """One of several jobs side by side."""

    job: Job
    parameters: Mapping[str, str]
    """The options in which the jobs differ, and their values here; "" where it has none."""
    curves: Curves


def compared(jobs: Sequence[Job], curves: Sequence[Curves]) -> tuple[Compared, ...]:
    """Return jobs side by side with the options in which they differ."""
    _, values = parameters([job.task.args for job in jobs])
    return tuple(
        Compared(job, value, curve) for job, value, curve in zip(jobs, values, curves, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Figures:
    """What a row of a comparison tells. None is what is not known."""

    last: float | None
    best: float | None
    best_at: float | None
    """The step of the best, or the epoch."""
    step_s: float | None
    """Seconds of a step: the mean of the last that were reported."""
    peak_mib: float | None


def figures(job: Compared, metric: str) -> Figures:
    """Return the figures of a job for a metric."""
    curve, pace = (job.curves.curves.get(name) for name in (metric, STEP_TIME))
    best = None if curve is None else curve.best
    peaks = [attempt.peak_mib for attempt in job.job.attempts[-1:] if attempt.peak_mib]
    return Figures(
        None if curve is None else curve.value("last"),
        None if best is None else best.value,
        None if best is None else best.at,
        None if pace is None else pace.mean(),
        peaks[0] if peaks else None,
    )


def chosen_metric(jobs: Sequence[Compared]) -> str:
    """Return the metric by which jobs are compared where none is named: the first that a person
    looks at, of an evaluation before others; "" where there is none."""
    names = list(dict.fromkeys(name for job in jobs for name in job.curves.main()))
    judged = [name for name in names if is_higher_better(name) is not None and name != STEP_TIME]
    return next(
        (name for name in judged if name.startswith(VALIDATION)),
        (judged or names or [""])[0],
    )


def ranked(jobs: Sequence[Compared], metric: str) -> list[Compared]:
    """Return jobs with the best of a metric first; those that have no value of it last."""
    higher = is_higher_better(metric)

    def key(job: Compared) -> tuple[bool, float]:
        curve = job.curves.curves.get(metric)
        best = None if curve is None else curve.best or curve.last
        if best is None or not math.isfinite(best.value):
            return True, 0.0
        return False, -best.value if higher else best.value

    return sorted(jobs, key=key)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _row(point: Point) -> list[float | str | None]:
    return [point.at, _number(point.value), point.epoch]


def _json(point: Point | None) -> list[float | str | None] | None:
    return None if point is None else _row(point)


def _point(row: Sequence[Any]) -> Point:
    at, value, epoch = row
    return Point(float(at), float(value), None if epoch is None else float(epoch))


@dataclass(frozen=True, slots=True)
class Written:
    """The curves of one job for a table of several."""

    job: str
    name: str
    curves: Curves


def csv_text(jobs: Iterable[Written], metrics: Sequence[str] = ()) -> str:
    """Return a row for each point that is kept: job, name, metric, step, epoch, value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("job", "name", "metric", "step", "epoch", "value"))
    for job in jobs:
        for curve in job.curves.curves.values():
            if metrics and curve.name not in metrics:
                continue
            steps = job.curves.axis == "step"
            for point in _exported(curve):
                at = f"{point.at:g}" if steps else ""
                epoch = "" if point.epoch is None else f"{point.epoch:g}"
                writer.writerow((job.job, _cell(job.name), curve.name, at, epoch, point.value))
    return out.getvalue()


def _exported(curve: Curve) -> list[Point]:
    extra = [point for point in (curve.no_number, curve.last) if point is not None]
    # By its text: NaN is not equal to itself.
    points = {(point.at, str(point.value)): point for point in (*curve.points, *extra)}
    return sorted(points.values(), key=lambda point: point.at)


def _cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in "=+-@" else text

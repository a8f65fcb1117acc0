"""The measured scripts: the public corpus beside the checkout, and our own in benchmarks/scripts.

Sizes are bytes. A set's `truth.json` says how the batch of each script is set and what it held.

`fresh` is eight scripts in eight styles, written and measured before the analyser had seen them
and by someone who did not look at it. Its first run with the static tier: 14 of 24 points
answered (4 of 8 scripts in full); of these the median error was 0.00 %, 12 were within 1 %, the
worst was +2.98 %, none was too low. Unknown were `conformer_ctc` (a tensor unpacked by its rows),
`tinygpt` (the width of a window at an unknown place), `gat_graph` (how many segments there are is
data) and `yolo_anchor` at its largest batch (too much to follow). What is better today came from
general rules, so the set is no longer unseen.

`unseen` was written and measured by somebody who had not seen the analyser, after its rules were
done. Its first run, at e5d24e0, answered 8 of 12 scripts (16 points), the worst +49 %; two of those
points are validation batches that the measuring harness never reaches. Unknown were `ner_bilstm`
(how many words differ), `movie_deepfm` (the rows of a table), `pointnet_cls` (a norm over two axes)
and `static_wine` (a generator fed by another). It has been used since: these four were mended by
general rules.

`strangers` is 37 scripts by three people who had not seen the analyser, 34 of which state what
their memory depends on. First runs: of the first 22, at 2010f29 (with edits of the day that did
not follow from them), 20 were answered (40 points): median error 0.00 %, 35 points within 0.2 %,
the worst +3.6 %, none more than 0.2 % too low; unknown were `textcls` (how many words a file
holds) and `gnn_molecules` (how many segments there are is data). Of the last 12, at 963da89, all
were answered (24 points): 18 within 0.3 %, four up to +5.4 %, and `pinn_cavity`, whose loss is
made of third derivatives, 69 % too low at both its batches; sums of gradients in a graph that is
differentiated again are followed since, and operators of which that is not known make an unknown.
Of the three that cannot be known, two were said to be unknown; of `seg_multiscale`, whose sizes
are drawn by the clock, the bound of the largest sizes was given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
OWN = HERE / "scripts"
RUNS = OWN / "runs.json"
"""Real runs at further batches, made by `python -m benchmarks.runs`."""
PUBLIC = HERE.parents[1] / "shared" / "paddle-corpus"
SETS = ("public", "dev", "fresh", "heldout", "unseen", "strangers")


@dataclass(frozen=True, slots=True)
class Point:
    """One measured batch size."""

    batch: int
    peak: int
    scored: bool


@dataclass(frozen=True, slots=True)
class Script:
    """One script with its measured points, smallest batch first."""

    id: str
    path: Path
    argv: tuple[str, ...]
    points: tuple[Point, ...]
    entry: dict[str, Any]
    runs: Mapping[int, int | None] = field(default_factory=dict)
    """Real peaks at other batches, which decide about suggestions and are not scored; None where
    the run failed."""

    def with_runs(self, runs: Mapping[int, int | None]) -> Script:
        """Return the script with these runs."""
        return replace(self, runs=dict(runs))

    @property
    def known(self) -> tuple[Point, ...]:
        """All that was measured, smallest batch first: `points` and what ran besides."""
        ran = [Point(batch, peak, False) for batch, peak in self.runs.items() if peak is not None]
        return tuple(sorted([*self.points, *ran], key=lambda point: point.batch))

    @property
    def knowable(self) -> bool:
        """Whether the script states all that its memory depends on."""
        return self.entry.get("expect") != "unknown"

    @property
    def scored(self) -> tuple[Point, ...]:
        """The points that count."""
        return tuple(point for point in self.points if point.scored) if self.knowable else ()


def load(name: str, only: frozenset[str] = frozenset()) -> list[Script]:
    """Return the scripts of a set; raises FileNotFoundError where the set is not there."""
    folder = PUBLIC if name == "public" else OWN
    truth = json.loads((folder / "truth.json").read_text("utf-8"))
    runs = json.loads(RUNS.read_text("utf-8"))["sets"].get(name, {}) if RUNS.exists() else {}
    return [
        Script(one["id"], folder / one["entry"], tuple((one.get("argv") or "").split()),
               tuple(_points(one)), one,
               {int(batch): peak for batch, peak in runs.get(one["id"], {}).items()})
        for one in truth["scripts"]
        if name in ("public", one.get("split")) and (not only or one["id"] in only)
    ]  # fmt: skip


def _points(entry: dict[str, Any]) -> Iterator[Point]:
    for one in sorted(entry.get("points", ()), key=lambda point: int(point["batch"])):
        yield Point(one["batch"], one["peak_bytes"], one["scoring"])


def bounds(points: tuple[Point, ...], batch: int) -> tuple[float, float]:
    """Return between what the real peak at an unmeasured batch lies.

    A peak is the largest of several straight lines in the batch, so it is convex: between two
    measured sizes the straight line is never below it, and the lines through the pairs to the left
    and to the right, continued, are never above it. Beyond the ends the nearest line is continued.
    """
    exact = next((float(point.peak) for point in points if point.batch == batch), None)
    if exact is not None:
        return exact, exact
    at = next((i for i, p in enumerate(points[1:-1], 1) if batch <= p.batch), len(points) - 1)
    high = _on_line(points[at - 1], points[at], batch)
    if not points[0].batch < batch < points[-1].batch:
        return high, high
    beside = [(at - 2, at - 1), (at, at + 1)]
    lines = [_on_line(points[i], points[j], batch) for i, j in beside if i >= 0 and j < len(points)]
    return min(high, max([float(points[at - 1].peak), *lines])), high


def _on_line(low: Point, high: Point, batch: int) -> float:
    return low.peak + (high.peak - low.peak) / (high.batch - low.batch) * (batch - low.batch)


def largest_within(points: tuple[Point, ...], budget: float) -> int:
    """Return the largest batch that may keep the budget: its lower bound does; 0 for none."""
    low, high = 0, points[-1].batch
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if bounds(points, middle)[0] <= budget else (low, middle - 1)
    return low

"""The peak against the batch size, drawn with the limits that it meets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuconsole.cli.output import said, say, text
from gpuconsole.core.estimate import CurvePoint, Report, Verdict
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_mib
from gpuconsole.core.wording import msg, sentences

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

WIDTH = 62
HEIGHT = 14


def drawn(result: Report) -> Iterator[RenderableType]:
    """Plot the peak against the batch size, with a line for each limit within reach."""
    yield text("")
    own = result.estimate.batch_size
    mark = msg("(this script: {n})", n=f"{own:,}") if own is not None else ""
    yield said(sentences("Peak against batch size", mark), "bold")
    points = result.curve
    top = max(point.high_mib for point in points) * 1.05
    limits = _limits(result.verdicts, top)
    rows: list[list[tuple[str, str]]] = [[(" ", "")] * WIDTH for _ in range(HEIGHT)]

    def row_of(size: float) -> int:
        return min(HEIGHT - 1, max(0, HEIGHT - 1 - int(size / top * HEIGHT)))

    for _, limit in limits:
        rows[row_of(limit)] = [("─", "red")] * WIDTH
    most = points[-1].batch_size
    for column in range(WIDTH):
        point = _nearest(points, most * (column + 0.5) / WIDTH)
        for row in range(row_of(point.high_mib), row_of(point.total_mib)):
            rows[row][column] = ("░", "dim")
        rows[row_of(point.total_mib)][column] = ("●", "green")
    for number in {row_of(limit) for _, limit in limits}:
        named = [names for names, limit in limits if row_of(limit) == number]
        _write(rows[number], f" {clean(', '.join(named))[: WIDTH - 4]} ")
    yield from _axes(rows, top)
    yield text(f"{'':>10} └{'─' * WIDTH}")
    yield text(f"{'':>11}1{_centred(say('batch size'), WIDTH - 2 - len(f'{most:,}'))}{most:,}")


def _centred(words: str, width: int) -> str:
    """Put words in the middle of so many cells."""
    from rich.cells import cell_len

    room = max(0, width - cell_len(words))
    return " " * (room // 2) + words + " " * (room - room // 2)


def _write(row: list[tuple[str, str]], label: str) -> None:
    """Write a limit's name on its line, on the side where the curve is not."""
    right = len(row) - len(label) - 1
    free = all(letter == "─" for letter, _ in row[right:])
    start = right if free else 1
    row[start : start + len(label)] = [(letter, "red") for letter in label]


def _axes(rows: Sequence[Sequence[tuple[str, str]]], top: float) -> Iterator[Text]:
    from rich.text import Text

    for number, row in enumerate(rows):
        size = top * (len(rows) - number) / len(rows)
        line = Text(f"{format_mib(size) if number % 3 == 0 else '':>10} │")
        for letter, style in row:
            line.append(letter, style=style)
        yield line


def _nearest(points: Sequence[CurvePoint], batch: float) -> CurvePoint:
    return min(points, key=lambda point: abs(point.batch_size - batch))


def _limits(verdicts: Sequence[Verdict], top: float) -> list[tuple[str, float]]:
    """Return the limits that the plot reaches, with the devices that have them."""
    by_limit: dict[int, list[str]] = {}
    for verdict in verdicts:
        if verdict.limit_mib is not None and 0 < verdict.limit_mib <= top:
            names = by_limit.setdefault(round(verdict.limit_mib), [])
            if verdict.device not in names:
                names.append(verdict.device)
    return [
        (", ".join(name for name in names[:2]) + (" …" if len(names) > 2 else ""), float(limit))
        for limit, names in by_limit.items()
    ]

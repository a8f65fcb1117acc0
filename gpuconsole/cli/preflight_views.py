"""An answer of preflight as a person reads it: verdict first, then why, then what would help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.cli.output import table
from gpuconsole.core.edits import diff_of
from gpuconsole.core.estimate import (
    CurvePoint,
    Estimate,
    Explanation,
    LayerCost,
    Memory,
    Report,
    Suggestion,
    Verdict,
    VerdictWord,
)
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_mib, format_step

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

MOST_UNKNOWNS = 6
MOST_LAYERS = 24
BAR_WIDTH = 72
LEGEND_WIDTH = 79
CURVE_HEIGHT = 14
_ORDER: tuple[VerdictWord, ...] = ("fits", "tight", "will-not-fit", "unknown", "will-fail")
_VERDICTS = {
    "fits": ("✓ fits", "green"),
    "tight": ("! tight", "yellow"),
    "will-not-fit": ("✗ will not fit", "red"),
    "will-fail": ("✗ will fail", "red"),
    "unknown": ("? unknown", "yellow"),
}
_PARTS = (
    ("P", "parameters", "blue"),
    ("G", "gradients", "cyan"),
    ("O", "optimizer", "magenta"),
    ("A", "activations", "green"),
    ("I", "inputs", "yellow"),
    ("W", "workspace", "red"),
    ("R", "allocator", "bright_black"),
    ("C", "context", "white"),
)


def _text(words: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(clean(words), style=style)


def report(found: Report, *, explain: bool = False) -> Iterator[RenderableType]:
    """Draw an estimate, its verdicts and what would help."""
    estimate = found.estimate
    yield _headline(found)
    yield _text(f"  {_method(estimate)}", "dim")
    yield from _troubles(estimate)
    if estimate.memory is not None:
        yield _text("")
        limit = _best_limit(found.verdicts)
        yield _bar(estimate.memory, limit)
        yield from _legend(estimate.memory, limit)
    if found.verdicts and not estimate.errors:
        yield _text("")
        yield _verdicts(found.verdicts)
        if explain:
            yield from _reasons(found.verdicts)
    if found.suggestions and not estimate.errors:
        yield _text("")
        yield _text("What would help", "bold")
        for number, suggestion in enumerate(found.suggestions, start=1):
            yield from _suggestion(number, suggestion)
    if found.curve:
        yield from _curve(found)
    if found.explanation is not None:
        yield from _layers(found.explanation)
    if explain:
        yield _text("")
        yield _text("How it was found", "bold")
        for sentence in estimate.notes:
            yield _text(f"  {sentence}")


# --- verdict ------------------------------------------------------------------------------------


def overall(found: Report) -> VerdictWord:
    """Return what the best device says."""
    if found.estimate.errors:
        return "will-fail"
    words = [verdict.verdict for verdict in found.verdicts]
    return min(words, key=_ORDER.index, default="unknown")


def _headline(found: Report) -> Text:
    from rich.text import Text

    estimate, word = found.estimate, overall(found)
    said, style = _VERDICTS[word]
    line = Text(said.upper(), style=f"bold {style}")
    name = Path(estimate.script).name or "this task"
    memory = estimate.memory
    rest = f"   {name}"
    if word == "will-fail":
        rest += ": the script itself is wrong"
    elif memory is None:
        rest += ": its memory cannot be told"
    else:
        rest += f" needs about {format_mib(memory.total_mib)}"
        if memory.high_mib > memory.total_mib:
            rest += f", {format_mib(memory.low_mib)} to {format_mib(memory.high_mib)}"
    if memory is not None and not found.verdicts:
        line = Text(style="bold")
        rest = rest.strip()
    return line.append(clean(rest), style="bold")


def _method(estimate: Estimate) -> str:
    source = estimate.batch_source
    words = ["batch size unknown"]
    if estimate.batch_size is not None:
        place = ""
        if source is not None:
            at = f", {Path(source.file).name}:{source.line}" if source.line else ""
            place = f" ({source.kind}{at})"
        words = [f"batch {estimate.batch_size}{place}"]
    words += [
        f"back end {estimate.backend}",
        f"{estimate.tier} tier",
        f"{estimate.coverage:.0%} understood",
        *estimate.flags,
    ]
    return " · ".join(words)


def _troubles(estimate: Estimate) -> Iterator[Text]:
    for fault in estimate.errors:
        yield _text(f"✗ {_place(fault.file, fault.line)}: {fault.message}", "red")
    for unknown in estimate.unknowns[:MOST_UNKNOWNS]:
        yield _text(f"? {_place(unknown.file, unknown.line)}: {unknown.reason}", "yellow")
    more = len(estimate.unknowns) - MOST_UNKNOWNS
    if more > 0:
        yield _text(f"  and {more} more that was not understood (--json lists all)", "dim")
    for ask in estimate.asks:
        yield _text(f"? {ask.question}", "bold yellow")
        yield _text(f"  Answer it with --assume '{ask.name}={ask.example}'")


def _place(file: str, line: int) -> str:
    return f"{Path(file).name}:{line}" if line else Path(file).name


# --- memory -------------------------------------------------------------------------------------


def _sizes(memory: Memory) -> tuple[float, ...]:
    return (
        memory.parameters_mib, memory.gradients_mib, memory.optimizer_mib,
        memory.activations_mib, memory.inputs_mib, memory.workspace_mib,
        max(0.0, memory.reserved_mib - memory.tensors_peak_mib), memory.context_mib,
    )  # fmt: skip


def _best_limit(verdicts: Sequence[Verdict]) -> float | None:
    return max((one.limit_mib for one in verdicts if one.limit_mib is not None), default=None)


def _bar(memory: Memory, limit: float | None) -> Text:
    """Draw the parts side by side, the range behind them, and the best card's limit."""
    from rich.text import Text

    scale = max(memory.high_mib, limit or 0.0, 1.0) * 1.02
    cells: list[tuple[str, str]] = []
    edge = 0.0
    for (letter, _, style), size in zip(_PARTS, _sizes(memory), strict=True):
        edge += size
        cells += [(letter, style)] * (round(BAR_WIDTH * edge / scale) - len(cells))
    cells += [("░", "dim")] * (round(BAR_WIDTH * memory.high_mib / scale) - len(cells))
    cells += [("·", "dim")] * (BAR_WIDTH - len(cells))
    if limit is not None:
        at = min(BAR_WIDTH - 1, round(BAR_WIDTH * limit / scale))
        cells[at] = ("┃", "bold red" if memory.high_mib > limit else "bold green")
    line = Text("  ")
    for letter, style in cells:
        line.append(letter, style=style)
    return line


def _legend(memory: Memory, limit: float | None) -> Iterator[Text]:
    from rich.text import Text

    shown = [
        (letter, name, size, style)
        for (letter, name, style), size in zip(_PARTS, _sizes(memory), strict=True)
        if size >= 0.05
    ]
    if limit is not None:
        shown.append(("┃", "may be used", limit, "red" if memory.high_mib > limit else "green"))
    line = Text("  ")
    for letter, name, size, style in shown:
        words = f" {name} {format_mib(size)}   "
        if len(line) > 2 and len(line) + 1 + len(words.rstrip()) > LEGEND_WIDTH:
            yield line
            line = Text("  ")
        line.append(letter, style=f"bold {style}")
        line.append(words)
    yield line


def _verdicts(verdicts: Sequence[Verdict]) -> RenderableType:
    shown = table("VERDICT", "ROOM LEFT", "LARGEST BATCH", "OOM", "STEP", "HOST", "DEVICE",
                  right=("ROOM LEFT", "LARGEST BATCH", "OOM", "STEP"))  # fmt: skip
    for verdict, count in _grouped(verdicts):
        words, style = _VERDICTS[verdict.verdict]
        largest, chance = verdict.max_batch_size, verdict.oom_probability
        shown.add_row(
            _text(words, style),
            _text(format_mib(verdict.headroom_mib)),
            _text("n/a" if largest is None else f"{largest:,}"),
            _text("n/a" if chance is None else _chance(chance)),
            _text(_step(verdict.step_s)),
            _text(verdict.host or "-"),
            _text(f"{count} x {verdict.device}" if count > 1 else verdict.device),
        )
    return shown


def _chance(probability: float) -> str:
    if probability < 0.005:
        return "<1 %"
    return ">99 %" if probability > 0.995 else f"{probability:.0%}"


def _step(seconds: tuple[float, float] | None) -> str:
    if seconds is None:
        return "n/a"
    low, high = format_step(seconds[0]), format_step(seconds[1])
    # One unit is enough where both have the same.
    if low.split()[1] == high.split()[1]:
        low = low.split()[0]
    return f"{low}-{high}"


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    for verdict, _ in _grouped(verdicts):
        if verdict.reason:
            where = f" of {verdict.host}" if verdict.host else ""
            yield _text(f"  {verdict.device}{where}: {verdict.reason}", "dim")


def _grouped(verdicts: Iterable[Verdict]) -> list[tuple[Verdict, int]]:
    """Join the equal verdicts of a host's equal devices."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        room = None if verdict.headroom_mib is None else round(verdict.headroom_mib / 64)
        key = (verdict.host, verdict.device, verdict.verdict, verdict.max_batch_size, room)
        groups.setdefault(key, []).append(verdict)
    return [(group[0], len(group)) for group in groups.values()]


# --- what would help ----------------------------------------------------------------------------


def _suggestion(number: int, one: Suggestion) -> Iterator[Text]:
    saves = f"  (saves {format_mib(one.saves_mib)})" if one.saves_mib > 0 else ""
    yield _text(f"{number} {one.text}{saves}")
    if one.costs:
        yield _text(f"  costs: {one.costs}", "dim")
    if one.args is not None:
        yield _text(f"  arguments: {' '.join(one.args)}", "dim")
    for line in diff_of(one.edits):
        style = "red" if line.startswith("-") else "green" if line.startswith("+") else "dim"
        yield _text(f"  {line}", style)


# --- explain ------------------------------------------------------------------------------------


def _layers(explanation: Explanation) -> Iterator[RenderableType]:
    yield _text("")
    yield _text("Layers by what they keep for the backward pass", "bold")
    shown = table("SAVED", "PARAMETERS", "FLOPS", "LINE", "OUTPUT", "LAYER",
                  right=("SAVED", "PARAMETERS", "FLOPS"))  # fmt: skip
    for layer in explanation.layers[:MOST_LAYERS]:
        shown.add_row(*_layer_row(layer, explanation))
    yield shown
    rest = explanation.layers[MOST_LAYERS:]
    if rest:
        saved = format_mib(sum(layer.saved_mib for layer in rest))
        yield _text(f"  and {len(rest)} more with {saved} in all (--json lists all)", "dim")
    place = _place(explanation.peak_file, explanation.peak_line)
    yield _text(f"◆ The peak comes at {place}, in the {explanation.peak_moment}.", "bold")
    line = _source_line(explanation.peak_file, explanation.peak_line)
    if line:
        yield _text(f"  {explanation.peak_line:>5} │ {line}")


def _layer_row(layer: LayerCost, explanation: Explanation) -> tuple[Text, ...]:
    at_peak = (layer.file, layer.line) == (explanation.peak_file, explanation.peak_line)
    shape = "x".join(map(str, layer.output_shape)) or "-"
    name = f"{layer.name} ({layer.kind})" if layer.name and layer.kind else layer.name
    return (
        _text(format_mib(layer.saved_mib)),
        _text(format_mib(layer.parameters_mib) if layer.parameters_mib else "-"),
        _text(_count(layer.flops)),
        _text(f"{'◆ ' if at_peak else ''}{_place(layer.file, layer.line)}"),
        _text(shape),
        _text(name or "outside any layer"),
    )


def _count(number: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {letter}"
    return "-" if not number else f"{number:.0f}"


def _source_line(file: str, line: int) -> str:
    try:
        return Path(file).read_text("utf-8").splitlines()[line - 1].strip()[:100]
    except (OSError, UnicodeDecodeError, IndexError):
        return ""


# --- curve --------------------------------------------------------------------------------------


def _curve(found: Report) -> Iterator[RenderableType]:
    """Plot the peak against the batch size, with a line for each limit within reach."""
    yield _text("")
    own = found.estimate.batch_size
    mark = f" (this script: {own:,})" if own is not None else ""
    yield _text(f"Peak against batch size{mark}", "bold")
    points = found.curve
    top = max(point.high_mib for point in points) * 1.05
    limits = _limits(found.verdicts, top)
    width = BAR_WIDTH - 10
    rows: list[list[tuple[str, str]]] = [[(" ", "")] * width for _ in range(CURVE_HEIGHT)]

    def row_of(size: float) -> int:
        return min(CURVE_HEIGHT - 1, max(0, CURVE_HEIGHT - 1 - int(size / top * CURVE_HEIGHT)))

    for _, limit in limits:
        rows[row_of(limit)] = [("─", "red")] * width
    most = points[-1].batch_size
    for column in range(width):
        point = _nearest(points, most * (column + 0.5) / width)
        for row in range(row_of(point.high_mib), row_of(point.total_mib)):
            rows[row][column] = ("░", "dim")
        rows[row_of(point.total_mib)][column] = ("●", "green")
    for number in {row_of(limit) for _, limit in limits}:
        named = [names for names, limit in limits if row_of(limit) == number]
        _write(rows[number], f" {clean(', '.join(named))[: width - 4]} ")
    yield from _axes(rows, top)
    yield _text(f"{'':>10} └{'─' * width}")
    yield _text(f"{'':>11}1{'batch size':^{width - 2 - len(f'{most:,}')}}{most:,}")


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
    found: dict[int, list[str]] = {}
    for verdict in verdicts:
        if verdict.limit_mib is not None and 0 < verdict.limit_mib <= top:
            names = found.setdefault(round(verdict.limit_mib), [])
            if verdict.device not in names:
                names.append(verdict.device)
    return [
        (", ".join(name for name in names[:2]) + (" …" if len(names) > 2 else ""), float(limit))
        for limit, names in found.items()
    ]

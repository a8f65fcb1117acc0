"""An answer of preflight as a person reads it: verdict first, then why, then what would help."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.cli.output import said, say, table, text
from gpuconsole.cli.views.preflight_curve import drawn
from gpuconsole.core.answer_figures import Answer, answer
from gpuconsole.core.estimate import (
    MAY_FAIL,
    Estimate,
    Explanation,
    LayerCost,
    Memory,
    Report,
    Suggestion,
    Verdict,
)
from gpuconsole.core.submission.script_edits import Edit, diff_of, whole_diff_of
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_mib, format_step
from gpuconsole.core.wording import joined, msg, name, sentences
from gpuconsole.preflight.batch_sizes import MAX_BATCH
from gpuconsole.preflight.memory.backends import unproven
from gpuconsole.preflight.tiers import ladder

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

MOST_UNKNOWNS = 6
MOST_LAYERS = 24
BAR_WIDTH = 72
LEGEND_WIDTH = 79
BEYOND = "×"
"""What is above the limit, also where there are no colors."""
_VERDICTS = {
    "fits": ("✓", "green"),
    "tight": ("!", "yellow"),
    "will-not-fit": ("✗", "red"),
    "will-fail": ("✗", "red"),
    "unknown": ("?", "yellow"),
}
_MOMENTS = {"forward": "forward pass", "backward": "backward pass", "step": "optimizer step"}
PARTS = (
    ("P", "parameters", "blue"),
    ("G", "gradients", "cyan"),
    ("O", "optimizer", "magenta"),
    ("A", "activations", "green"),
    ("I", "inputs", "yellow"),
    ("W", "workspace", "red"),
    ("R", "allocator", "bright_black"),
    ("C", "context", "white"),
)


def report(
    result: Report, *, explain: bool = False, diffs: bool = False
) -> Iterator[RenderableType]:
    """Draw an estimate, its verdicts and what would help."""
    estimate, shown = result.estimate, answer(result)
    yield headline(result)
    if basis(shown):
        yield _hanging(basis(shown))
    yield _hanging(method(estimate), "dim")
    yield from troubles(estimate)
    if len(result.trials) > 1:
        yield said("Tiers that were tried", "bold")
        for trial in result.trials:
            style = "" if trial.outcome in ("answered", "confirmed") else "dim"
            yield _hanging(ladder.sentence(trial), style)
    if shown.memory is not None:
        yield text("")
        yield _bar(shown)
        yield from _legend(shown)
    if result.verdicts and shown.memory is not None and not estimate.errors:
        yield text("")
        yield verdict_table(result.verdicts)
        if explain:
            yield from _reasons(result.verdicts)
    if result.suggestions and not estimate.errors:
        yield text("")
        yield said("What would help", "bold")
        for number, proposal in enumerate(result.suggestions, start=1):
            yield from suggestion(number, proposal, diffs=diffs)
    if result.curve:
        yield from drawn(result)
    if result.explanation is not None:
        yield from _layers(result.explanation)
    if explain:
        yield text("")
        yield said("How it was found", "bold")
        for sentence in estimate.notes:
            yield _hanging(sentence)


def _hanging(words: str, style: str = "") -> RenderableType:
    """Indent a sentence, also where it goes on in a second line."""
    from rich.padding import Padding

    return Padding(said(words, style), (0, 0, 0, 2), expand=False)


# --- verdict ------------------------------------------------------------------------------------


def headline(result: Report) -> Text:
    """Say in one line what the best device says, and what the script needs there."""
    from rich.text import Text

    shown = answer(result)
    line = Text(_verdict(shown.word).upper(), style=f"bold {_VERDICTS[shown.word][1]}")
    about = _about(result, shown)
    if shown.memory is not None and not result.verdicts:
        return Text(about, style="bold")
    return line.append(f"   {about}", style="bold")


def _verdict(word: str) -> str:
    """Return a verdict with its sign, in the user's language."""
    return f"{_VERDICTS[word][0]} {say(word.replace('-', ' '))}"


def _about(result: Report, shown: Answer) -> str:
    """Return what the headline says of the script, in the user's language."""
    script, memory = Path(result.estimate.script).name, shown.memory
    named = name(script) if script else "this task"
    if shown.word == "will-fail":
        about = msg("{script_text}: the script itself is wrong", script_text=named)
    elif MAY_FAIL in result.estimate.flags:
        about = msg("{script_text}: it may fail, and its memory is unknown", script_text=named)
    elif memory is None:
        about = msg("{script_text}: its memory is unknown", script_text=named)
    else:
        about = msg(
            "{script_text} needs about {size}", script_text=named, size=format_mib(memory.total_mib)
        )
        if memory.high_mib > memory.total_mib:
            about += ", " + msg(
                "{low} to {high}",
                low=format_mib(memory.low_mib), high=format_mib(memory.high_mib),
            )  # fmt: skip
    return say(clean(about))


def basis(shown: Answer) -> str:
    """Say what all figures are about: the device, what may be used of it, and the context; ""
    where there is nothing to compare."""
    memory, verdict = shown.memory, shown.verdict
    if memory is None or verdict is None or shown.share_percent is None:
        return ""
    high, limit = format_mib(memory.high_mib), format_mib(shown.limit_mib)
    if shown.beyond_mib:
        needed = msg("needs up to {size}; only {limit} may be used", size=high, limit=limit)
    else:
        needed = msg(
            "up to {size} of {limit} that may be used ({percent})",
            size=high, limit=limit, percent=f"{shown.share_percent}%",
        )  # fmt: skip
    context = "without context"
    if memory.context_mib:
        context = msg("with {size} of context", size=format_mib(memory.context_mib))
    return msg(
        "on {where}: {needed_text}, {context_text}",
        where=_device(verdict), needed_text=needed, context_text=context,
    )  # fmt: skip


def _device(verdict: Verdict) -> str:
    """Return a verdict's device, with its host where it has one."""
    if not verdict.host:
        return name(verdict.device)
    return msg("{device} of {host}", device=verdict.device, host=verdict.host)


def method(estimate: Estimate) -> str:
    """Say how the estimate was made: batch, back end, tier, coverage."""
    words = [_batch_size(estimate), msg("back end {backend}", backend=estimate.backend)]
    words.append(msg("{tier_word} tier", tier_word=estimate.tier))
    if estimate.tier != "formula":
        words.append(msg("{percent} understood", percent=f"{estimate.coverage:.0%}"))
    if estimate.memory is not None and estimate.memory.context_spread_mib:
        words.append("not calibrated")
    if estimate.memory is not None and unproven(estimate.backend):
        words.append("unproven")
    return joined(" · ", (*words, *estimate.flags))


def _batch_size(estimate: Estimate) -> str:
    """Return the batch size, and where it is from."""
    source = estimate.batch_source
    if estimate.batch_size is None:
        return "batch size unknown"
    batch = msg("batch {n}", n=estimate.batch_size)
    if source is None:
        return batch
    place = f", {Path(source.file).name}:{source.line}" if source.line else ""
    return batch + joined("", (" (", source.kind, name(place), ")"))


def troubles(estimate: Estimate) -> Iterator[RenderableType]:
    """Yield what is wrong in the script, what could not be determined, and what would settle it."""
    for fault in estimate.errors:
        yield said(joined("", ("✗ ", _place(fault.file, fault.line), fault.message)), "red")
        if fault.shapes:
            shapes = " and ".join(str(list(shape)) for shape in fault.shapes)
            yield _hanging(msg("shapes: {shapes}", shapes=shapes), "red")
    for unknown in estimate.unknowns[:MOST_UNKNOWNS]:
        place = _place(unknown.file, unknown.line)
        yield said(joined("", ("? ", place, unknown.reason)), "yellow")
    more = len(estimate.unknowns) - MOST_UNKNOWNS
    if more > 0:
        rest = msg("and {n} more that was not understood (--json lists all)", n=more)
        yield said("  " + rest, "dim")
    for ask in estimate.asks:
        yield said(joined("", ("? ", ask.question)), "bold yellow")
        example = _quoted(f"{ask.name}={ask.example}")
        yield said("  " + msg("Answer it with --assume {example}", example=example))


def _quoted(word: str) -> str:
    """Return a word as a shell takes it, in the plainest way."""
    if "'" not in word:
        return f"'{word}'"
    return shlex.quote(word) if any(character in word for character in '"$`\\!') else f'"{word}"'


def _place(file: str, line: int) -> str:
    """Return where a sentence is about, as its beginning; nothing where there is no place."""
    place = _line(file, line)
    return name(f"{place}: ") if place else ""


def _line(file: str, line: int) -> str:
    return f"{Path(file).name}:{line}" if line else Path(file).name


# --- memory -------------------------------------------------------------------------------------


def sizes(memory: Memory) -> tuple[float, ...]:
    """Return the size of each of `PARTS`."""
    return (
        memory.parameters_mib, memory.gradients_mib, memory.optimizer_mib,
        memory.activations_mib, memory.inputs_mib, memory.workspace_mib,
        max(0.0, memory.reserved_mib - memory.tensors_peak_mib), memory.context_mib,
    )  # fmt: skip


def _bar(shown: Answer) -> Text:
    """Draw the parts side by side, the range behind them, and the limit; what is above the limit
    has a sign of its own."""
    from rich.text import Text

    memory, limit = shown.memory, shown.limit_mib
    assert memory is not None
    scale = max(memory.high_mib, limit or 0.0, 1.0) * 1.02
    cells: list[tuple[str, str]] = []
    edge = 0.0
    for (letter, _, style), size in zip(PARTS, sizes(memory), strict=True):
        edge += size
        cells += [(letter, style)] * (round(BAR_WIDTH * edge / scale) - len(cells))
    bound = round(BAR_WIDTH * memory.high_mib / scale)
    cells += [("░", "dim")] * (bound - len(cells))
    cells += [("·", "dim")] * (BAR_WIDTH - len(cells))
    if limit is not None:
        at = min(BAR_WIDTH - 2, round(BAR_WIDTH * limit / scale))
        over = shown.beyond_mib > 0
        cells[at] = ("┃", "bold red" if over else "bold green")
        # However little it is, one cell shows it; what fits does not reach beyond.
        end = max(at + 2, bound) if over else at + 1
        cells[at + 1 : end] = [(BEYOND, "bold red")] * (end - at - 1)
        cells[end:] = [("·", "dim")] * (BAR_WIDTH - end)
    line = Text("  ")
    for letter, style in cells:
        line.append(letter, style=style)
    return line


def _legend(answered: Answer) -> Iterator[Text]:
    from rich.cells import cell_len
    from rich.text import Text

    memory, limit, beyond = answered.memory, answered.limit_mib, answered.beyond_mib
    assert memory is not None
    shown = [
        (letter, part, size, style)
        for (letter, part, style), size in zip(PARTS, sizes(memory), strict=True)
        if size >= 0.05
    ]
    if limit is not None:
        shown.append(("┃", "may be used", limit, "red" if beyond else "green"))
    if beyond:
        shown.append((BEYOND, "too much", beyond, "red"))
    line = Text("  ")
    for letter, part, size, style in shown:
        words = f" {say(part)} {format_mib(size)}   "
        if len(line) > 2 and line.cell_len + 1 + cell_len(words.rstrip()) > LEGEND_WIDTH:
            yield line
            line = Text("  ")
        line.append(letter, style=f"bold {style}")
        line.append(words)
    line.rstrip()
    yield line


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Draw the verdicts, those of a host's equal devices as one."""
    # Common cards are of no host; their names need the room.
    hosts = any(verdict.host for verdict in verdicts)
    # What devices need differs with their contexts and back ends: else the headline has said it.
    needs = (
        len(
            {format_mib(verdict.needs_mib) for verdict in verdicts if verdict.needs_mib is not None}
        )
        > 1
    )
    time = "STEP" if any(map(_may_train, verdicts)) else "PASS"
    shown = table("VERDICT", *(["NEEDS"] * needs), "ROOM LEFT", "MAX BATCH", "OOM", time,
                  *(["HOST"] * hosts), "DEVICE",
                  right=("NEEDS", "ROOM LEFT", "MAX BATCH", "OOM", time))  # fmt: skip
    for verdict, count in _grouped(verdicts):
        largest = verdict.max_batch_size
        shown.add_row(
            text(_verdict(verdict.verdict), _VERDICTS[verdict.verdict][1]),
            *([text(format_mib(verdict.needs_mib))] * needs),
            text(format_mib(verdict.headroom_mib)),
            text(_batch(largest)),
            text(_chance(verdict)),
            text(_step(verdict.step_s)),
            *([text(verdict.host or "-")] * hosts),
            text(f"{count} x {verdict.device}" if count > 1 else verdict.device),
        )
    return shown


def _may_train(verdict: Verdict) -> bool:
    """Return False for a script that has no gradients: its time is that of a forward pass."""
    memory = verdict.memory
    return memory is None or bool(memory.gradients_mib or memory.optimizer_mib)


def _batch(largest: int | None) -> str:
    if largest is None:
        return "n/a"
    # The search for the largest ends there.
    return f"{largest:,}+" if largest >= MAX_BATCH else f"{largest:,}"


def _chance(verdict: Verdict) -> str:
    """Return the chance of running out. Beside a refusal it would say a second time, and less
    clearly, what the verdict says."""
    if verdict.verdict == "will-not-fit":
        return "-"
    probability = verdict.oom_probability
    if probability is None:
        return "n/a"
    if probability < 0.005:
        return "<1%"
    return ">99%" if probability > 0.995 else f"{probability:.0%}"


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
            yield said(joined("", ("  ", _device(verdict), ": ", verdict.reason)), "dim")


def _grouped(verdicts: Iterable[Verdict]) -> list[tuple[Verdict, int]]:
    """Join the equal verdicts of a host's equal devices."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        room = None if verdict.headroom_mib is None else round(verdict.headroom_mib / 64)
        key = (verdict.host, verdict.device, verdict.verdict, verdict.max_batch_size, room)
        groups.setdefault(key, []).append(verdict)
    return [(group[0], len(group)) for group in groups.values()]


# --- what would help ----------------------------------------------------------------------------


def suggestion(
    number: int, proposal: Suggestion, *, diffs: bool = False
) -> Iterator[RenderableType]:
    """Tell one change that would help; with `diffs` also what it changes in a loop."""
    saves = ""
    if proposal.saves_mib > 0:
        saves = "  " + msg("(saves {size})", size=format_mib(proposal.saves_mib))
    yield said(joined("", (f"{number} ", proposal.text, saves)))
    if proposal.costs:
        yield _hanging(sentences("costs:", proposal.costs), "dim")
    if proposal.args is not None:
        yield _hanging(msg("arguments: {args}", args=" ".join(proposal.args)), "dim")
    if proposal.by_hand:
        yield _hanging(proposal.by_hand, "dim")
    if proposal.kind == "batch-size" or diffs:
        yield from _diff(diff_of(proposal.edits))
    elif proposal.edits:
        words = "the shipped copy has it with --apply {kind}; --diff shows what is changed"
        yield _hanging(msg(words, kind=proposal.kind), "dim")


def changed_copy(edits: Sequence[Edit]) -> Iterator[RenderableType]:
    """Tell what the copy that was estimated has otherwise than the script."""
    if edits:
        words = "Estimated with these changes of the shipped copy; your file stays as it is"
        yield text("")
        yield said(words, "bold")
        yield from _diff(whole_diff_of(edits))


def _diff(lines: Iterable[str]) -> Iterator[RenderableType]:
    for line in lines:
        style = "red" if line.startswith("-") else "green" if line.startswith("+") else "dim"
        yield text(f"  {line}", style)


# --- explain ------------------------------------------------------------------------------------


def _layers(explanation: Explanation) -> Iterator[RenderableType]:
    yield text("")
    if explanation.trains:
        yield said("Layers by what they keep for the backward pass", "bold")
    else:
        yield said("Layers by what they hold at the peak", "bold")
    size = "SAVED" if explanation.trains else "HELD"
    shown = table(size, "PARAMETERS", "FLOPS", "LINE", "OUTPUT", "LAYER",
                  right=(size, "PARAMETERS", "FLOPS"))  # fmt: skip
    for layer in explanation.layers[:MOST_LAYERS]:
        shown.add_row(*_layer_row(layer, explanation))
    yield shown
    rest = explanation.layers[MOST_LAYERS:]
    if rest:
        saved = format_mib(sum(layer.saved_mib for layer in rest))
        more = msg("and {n} more with {size} in all (--json lists all)", n=len(rest), size=saved)
        yield said("  " + more, "dim")
    place = _line(explanation.peak_file, explanation.peak_line)
    peak = msg(
        "◆ The peak comes at {place}, in the {moment_text}.",
        place=place, moment_text=_moment(explanation),
    )  # fmt: skip
    yield said(peak, "bold")
    line = _source_line(explanation.peak_file, explanation.peak_line)
    if line:
        yield text(f"  {explanation.peak_line:>5} │ {line}")


def _moment(explanation: Explanation) -> str:
    """Name the moment of the peak: `backward pass of encoder.0`."""
    moment, _, layer = explanation.peak_moment.partition(" of ")
    named = _MOMENTS.get(moment, moment)
    if not layer:
        return named
    return msg("{moment_text} of {layer}", moment_text=named, layer=layer)


def _layer_row(layer: LayerCost, explanation: Explanation) -> tuple[Text, ...]:
    at_peak = (layer.file, layer.line) == (explanation.peak_file, explanation.peak_line)
    shape = "x".join(map(str, layer.output_shape)) or "-"
    named = f"{layer.name} ({layer.kind})" if layer.name and layer.kind else layer.name
    return (
        text(format_mib(layer.saved_mib)),
        text(format_mib(layer.parameters_mib) if layer.parameters_mib else "-"),
        text(_count(layer.flops)),
        text(f"{'◆ ' if at_peak else ''}{_line(layer.file, layer.line)}"),
        text(shape),
        text(named) if named else said("outside any layer"),
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

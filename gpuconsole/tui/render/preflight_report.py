"""A preflight report as lines: verdict, parts against the limit, devices, what would help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from rich.cells import cell_len, chop_cells
from rich.style import Style

from gpuconsole.core.answer_figures import Answer, answer, best, goodness
from gpuconsole.core.estimate import Estimate, Memory, Report, Trial, Verdict
from gpuconsole.core.jobs import Job
from gpuconsole.core.submission.script_edits import BATCH, CHANGES, Edit, diff_of, kinds_of
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.wording import msg, sentences
from gpuconsole.preflight.tiers.ladder import ended_words
from gpuconsole.tui.render.device_rows import short_model
from gpuconsole.tui.render.text_cells import Piece, fit, wrapped
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.task_form import applicable

Lines = list[list[Piece]]

SUGGESTION_KEYS = ("F2", "F3", "F4", "F12")
"""The keys that apply suggestions, in their order."""
MOST_PAST = 12
"""Past submissions that an empty form lists."""


def short_path(file: str, script: str) -> str:
    """Return a file as one names it beside the script: within its folder, else by name alone."""
    path, folder = PurePath(file), PurePath(script).parent
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name


def invitation(ink: Ink, past: Sequence[Job], now: float, width: int) -> Lines:
    """Return what an empty form shows: what this side is for, and what was submitted before."""
    words = (
        "Name a script, and this side tells what memory it will take, whether it fits, on which "
        "device, and what would help. The script is read; where that tells too little, it is run "
        "in a sandbox for a few steps."
    )
    say = ink.say
    lines: Lines = [[(part, ink.muted)] for part in wrapped(say(words), width)]
    if not past:
        return lines
    recalls = say("   up in the script field recalls")
    lines += [[], [(say("submitted before"), ink.title), (recalls, ink.muted)]]
    name = max(10, min(18, width // 4))
    for number, job in enumerate(past[:MOST_PAST], start=1):
        task = job.task
        ago = fit(say(f"{format_duration(max(0.0, now - job.submitted_at))} ago"), 10, "right")
        command = " ".join((PurePath(task.script).name, *task.args))
        room = max(4, width - 4 - name - 1 - cell_len(ago) - 1)
        lines.append(
            [(fit(f"{number}", 3, "right") + " ", ink.muted), (fit(task.name, name), ink.text),
             (" " + fit(command, room) + " ", ink.muted), (ago, ink.muted)]
        )  # fmt: skip
    if len(past) > MOST_PAST:
        lines.append([(say(f"    and {len(past) - MOST_PAST} more"), ink.muted)])
    return lines


def report_lines(
    ink: Ink, report: Report, uuids: Sequence[str], width: int, edits: Sequence[Edit] = ()
) -> Lines:
    """Return the whole report, with what will be changed in the shipped copy."""
    shown = answer(report, uuids)
    memory = shown.memory
    lines = _headline(ink, shown, width)
    if memory is not None:
        lines += _against(ink, shown, width)
    lines += _method(ink, report.estimate, width)
    lines += _trouble(ink, report.estimate, width)
    lines += _trials(ink, report.trials, width)
    lines += _edits(ink, report.estimate.script, edits, width)
    help_lines: Lines = []
    if report.suggestions:
        help_lines = [
            [],
            [(ink.say("what would help"), ink.title)],
            *_suggestions(ink, report, width),
        ]
    urgent = shown.word != "fits"
    if urgent:
        lines += help_lines
    if memory is not None:
        lines += [[], *_parts(ink, memory, width)]
    if report.verdicts and memory is not None:
        lines += [[], *_devices(ink, report.verdicts, memory, width)]
    if not urgent:
        lines += help_lines
    if report.estimate.notes:
        lines += [[], [(ink.say("notes"), ink.title)]]
        lines += [
            [(part, ink.muted)]
            for note in report.estimate.notes[:6]
            for part in wrapped(ink.say(note), width)
        ]
    return lines


def _trials(ink: Ink, trials: Sequence[Trial], width: int) -> Lines:
    """Return a line for each tier that was tried, where there was more than one."""
    if len(trials) < 2:
        return []
    lines: Lines = [[], [(ink.say("tiers that were tried"), ink.title)]]
    for trial in trials:
        place = f" {trial.host}" if trial.host else ""
        seconds = f" {trial.seconds:.1f} s" if trial.seconds else ""
        style = ink.good if trial.outcome == "answered" else ink.muted
        lines.append(
            [(f"{trial.tier}{place} ", ink.text), (ink.say(ended_words(trial)) + seconds, style)]
        )
        lines += [[("  " + part, ink.muted)] for part in wrapped(ink.say(trial.why), width - 2)]
    return lines


def _headline(ink: Ink, shown: Answer, width: int) -> Lines:
    word, memory, verdict = shown.word, shown.memory, shown.verdict
    said = f"{ink.glyphs.verdicts[word]} {ink.say(word.replace('-', ' ')).upper()}"
    if memory is not None and verdict is None and word == "unknown":
        # The memory is known; only the devices are not.
        said = f"{ink.glyphs.verdicts[word]} {ink.say('no device').upper()}"
    rest = ""
    if word == "will-fail":
        rest = "the script itself is wrong"
    elif memory is None:
        rest = "its memory is unknown"
    elif verdict is not None and shown.beyond_mib:
        rest = msg(
            "needs up to {size}; {limit} may be used on {device}",
            size=format_mib(memory.high_mib),
            limit=format_mib(shown.limit_mib),
            device=short_model(verdict.device),
        )
    elif verdict is not None and shown.share_percent is not None:
        rest = (
            f"up to {format_mib(memory.high_mib)} of {format_mib(shown.limit_mib)}"
            f" ({shown.share_percent}%) on {short_model(verdict.device)}"
        )
    else:
        rest = f"needs up to {format_mib(memory.high_mib)}; there is none to compare it with"
    beside = cell_len(said) + 3
    parts = wrapped(ink.say(rest), max(12, width - beside)) if rest else [""]
    lines: Lines = [[(said, ink.verdicts[word]), ("   " + parts[0], ink.text)]]
    lines += [[(" " * beside + part, ink.text)] for part in parts[1:]]
    return lines


def _method(ink: Ink, estimate: Estimate, width: int) -> Lines:
    say = ink.say
    words = [say(msg("tier {tier_word}", tier_word=estimate.tier))]
    if estimate.tier != "formula":
        words.append(say(f"{estimate.coverage:.0%} understood"))
    source = estimate.batch_source
    if estimate.batch_size is not None:
        place = ""
        if source is not None:
            file = short_path(source.file, estimate.script)
            place = f" ({say(source.kind)}, {file}:{source.line})"
        if source is not None and source.kind in ("given", "task"):
            place = f" ({say(source.kind)})"
        words.append(say(f"batch {estimate.batch_size}") + place)
    words += map(say, estimate.flags)
    return [[(part, ink.muted)] for part in wrapped(", ".join(words), width)]


def _trouble(ink: Ink, estimate: Estimate, width: int) -> Lines:
    lines: Lines = []
    for fault in estimate.errors[:4]:
        shapes = " and ".join("x".join(map(str, shape)) for shape in fault.shapes)
        place = _place(fault.file, fault.line, estimate.script)
        sentence = f"{place}{ink.say(fault.message)}" + (f" ({shapes})" if shapes else "")
        lines += _marked(ink, ink.glyphs.verdicts["will-fail"], sentence, ink.bad, width)
    for unknown in estimate.unknowns[:4]:
        sentence = _place(unknown.file, unknown.line, estimate.script) + ink.say(unknown.reason)
        lines += _marked(ink, "?", sentence, ink.warn, width)
    more = len(estimate.errors[4:]) + len(estimate.unknowns[4:])
    if more:
        lines.append([(ink.say(f"  and {more} more"), ink.muted)])
    for ask in estimate.asks:
        example = (
            msg("F7 answers: {example}", example=f"{ask.name}={ask.example}")
            if ask.example
            else "F7 answers."
        )
        sentence = ink.say(sentences(ask.question, example))
        lines += _marked(ink, ">", sentence, ink.strong, width)
    return lines


def _place(file: str, line: int, script: str) -> str:
    """Return where a sentence is about, as its beginning; nothing where there is no place."""
    name = short_path(file, script) if file else ""
    if not name:
        return ""
    return f"{name}:{line}  " if line else f"{name}  "


def places_of(edits: Sequence[Edit], script: str) -> str:
    """Return the lines that edits change, as one names them."""
    spans = sorted((edit.file, edit.line, edit.line + edit.old.count("\n")) for edit in edits)
    return ", ".join(
        f"{short_path(file, script)}:{first}" + (f"-{last}" if last > first else "")
        for file, first, last in dict.fromkeys(spans)
    )


def diff_lines(ink: Ink, edits: Sequence[Edit], script: str, width: int) -> Lines:
    """Return edits as a unified diff: signs first, colours beside them."""
    styles = {"-": ink.bad, "+": ink.good, "@": ink.muted}
    lines: Lines = []
    for line in diff_of(edits):
        if line.startswith("--- "):
            name = short_path(line.removeprefix("--- "), script)
            lines.append([(ink.say(msg("{file}, shipped copy", file=name)), ink.title)])
        elif not line.startswith("+++ "):
            style, whole = styles.get(line[:1], ink.text), clean(line.expandtabs(4))
            lines += [[(part, style)] for part in chop_cells(whole, max(2, width))]
    return lines


def _edits(ink: Ink, script: str, edits: Sequence[Edit], width: int) -> Lines:
    """Return what is changed in the shipped copy: the lines for a batch size, else the places."""
    lines: Lines = []
    for edit in edits:
        if edit.kind != BATCH:
            continue
        place = f"{short_path(edit.file, script)}:{edit.line}"
        lines.append([(fit(ink.say(msg("shipped copy, {place}", place=place)), width), ink.muted)])
        lines.append([(fit(f"- {edit.old.strip()}", width), ink.bad)])
        lines.append([(fit(f"+ {edit.new.strip()}", width), ink.good)])
    for kind in kinds_of(edits):
        if kind != BATCH:
            own = places_of([edit for edit in edits if edit.kind == kind], script)
            words = msg("shipped copy, {change_word}: {places}", change_word=CHANGES[kind],
                        places=own)  # fmt: skip
            lines += [[(part, ink.good)] for part in wrapped(ink.say(words), width)]
    if lines:
        lines.append([(ink.say("ctrl+z undoes the last change"), ink.muted)])
    return lines


def _marked(ink: Ink, mark: str, sentence: str, style: Style, width: int) -> Lines:
    parts = wrapped(sentence, width - 2)
    return [[(f"{mark if at == 0 else ' '} {part}", style)] for at, part in enumerate(parts)]


def parts_of(memory: Memory) -> tuple[tuple[str, str, float], ...]:
    """Return letter, name and size of everything that makes up the total."""
    return (
        ("P", "parameters", memory.parameters_mib),
        ("G", "gradients", memory.gradients_mib),
        ("O", "optimizer", memory.optimizer_mib),
        ("A", "activations", memory.activations_mib),
        ("I", "inputs", memory.inputs_mib),
        ("W", "workspace", memory.workspace_mib),
        ("R", "allocator", max(0.0, memory.reserved_mib - memory.tensors_peak_mib)),
        ("C", "context", memory.context_mib),
    )


def _against(ink: Ink, shown: Answer, width: int) -> Lines:
    """Return all parts side by side in one bar, held against the limit."""
    lines: Lines = [stacked_bar(ink, shown, width)]
    if shown.limit_mib is not None:
        lines.append(_scale(ink, shown, width))
    return lines


def _parts(ink: Ink, memory: Memory, width: int) -> Lines:
    parts = parts_of(memory)
    lines: Lines = []
    largest = max((size for _, _, size in parts), default=0.0) or 1.0
    room = max(4, min(24, width - 26))
    for at, (letter, name, size) in enumerate(parts):
        style = _part_style(ink, at)
        length = round(room * size / largest)
        lines.append(
            [(f"{letter} ", style), (fit(ink.say(name), 12), ink.text),
             (fit(format_mib(size), 10, "right") + "  ", ink.text),
             (ink.glyphs.bar * length, style)]
        )  # fmt: skip
    between = ink.say(f"{format_mib(memory.low_mib)} to {format_mib(memory.high_mib)}")
    lines.append(
        [("  ", ink.text), (fit(ink.say("total"), 12), ink.strong),
         (fit(format_mib(memory.total_mib), 10, "right"), ink.strong), (f"  {between}", ink.muted)]
    )  # fmt: skip
    return lines


def stacked_bar(ink: Ink, shown: Answer, width: int) -> list[Piece]:
    """Return the parts side by side with the limit marked; beyond it they are shown as over."""
    memory, limit = shown.memory, shown.limit_mib
    assert memory is not None
    scale = _scale_mib(shown)
    cells: list[Piece] = []
    edge = 0.0
    drawn = 0
    spelled = ink.ascii or ink.few_colors
    for at, (letter, _, size) in enumerate(parts_of(memory)):
        edge += size
        upto = round(width * edge / scale)
        cells += [(letter if spelled else ink.glyphs.bar, _part_style(ink, at))] * (upto - drawn)
        drawn = max(drawn, upto)
    bound = round(width * memory.high_mib / scale)
    cells += [("-" if ink.ascii else "░", ink.muted)] * max(0, bound - len(cells))
    cells += [(ink.glyphs.bar_rest, ink.rule)] * max(0, width - len(cells))
    if limit is not None:
        at, over = min(width - 2, round(width * limit / scale)), shown.beyond_mib > 0
        cells[at] = (ink.glyphs.limit, ink.bad if over else ink.good)
        # However little it is, one cell shows it; what fits does not reach beyond.
        end = max(at + 2, bound) if over else at + 1
        cells[at + 1 : end] = [(ink.glyphs.beyond, ink.bad)] * (end - at - 1)
        cells[end:] = [(ink.glyphs.bar_rest, ink.rule)] * (width - end)
    return _joined(cells[:width])


def _scale_mib(shown: Answer) -> float:
    """Return how many MiB the whole bar represents."""
    high = 0.0 if shown.memory is None else shown.memory.high_mib
    return max(shown.limit_mib or 0.0, high, 1.0) * 1.04


def _scale(ink: Ink, shown: Answer, width: int) -> list[Piece]:
    limit, beyond = shown.limit_mib or 0.0, shown.beyond_mib
    words = ink.say(f"limit {format_mib(limit)}")
    more = f"  {ink.glyphs.beyond} " + ink.say(f"{format_mib(beyond)} too much") if beyond else ""
    length = cell_len(words + more)
    at = round(width * limit / _scale_mib(shown)) - cell_len(words) + 1
    at = max(0, min(width - length, at))
    pieces: list[Piece] = [(" " * at + words, ink.muted)]
    return [*pieces, (more, ink.bad)] if beyond else pieces


def _part_style(ink: Ink, at: int) -> Style:
    return ink.parts[at % len(ink.parts)]


def _joined(cells: list[Piece]) -> list[Piece]:
    result: list[Piece] = []
    for words, style in cells:
        if result and result[-1][1] is style:
            result[-1] = (result[-1][0] + words, style)
        else:
            result.append((words, style))
    return result


def _devices(ink: Ink, verdicts: Sequence[Verdict], memory: Memory, width: int) -> Lines:
    """Return a line per kind of device, with the need where it is not that of the headline."""
    classes: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        classes.setdefault(short_model(verdict.device), []).append(verdict)
    name = max(12, min(24, width - 42))
    say = ink.say
    lines: Lines = [
        [(fit(say("device"), name) + fit(say("verdict"), 15) + fit(say("headroom"), 10, "right")
          + fit(say("max batch"), 10, "right") + fit(say("fit"), 7, "right"), ink.muted)]
    ]  # fmt: skip
    rows = [(device, *_best_of(each)) for device, each in classes.items()]
    rows.sort(key=lambda row: goodness(row[1]))
    for device, verdict, able, count in rows[:10]:
        word = f"{ink.glyphs.verdicts[verdict.verdict]} {say(verdict.verdict.replace('-', ' '))}"
        headroom = "n/a" if verdict.headroom_mib is None else _signed(verdict.headroom_mib)
        batch = "n/a" if verdict.max_batch_size is None else f"{verdict.max_batch_size:,}"
        lines.append(
            [(fit(device, name), ink.text), (fit(word, 15), ink.verdicts[verdict.verdict]),
             (fit(headroom, 10, "right") + fit(batch, 10, "right"), ink.text),
             (fit(f"{able}/{count}", 7, "right"), ink.muted)]
        )  # fmt: skip
        words = verdict.reason if verdict.verdict != "fits" else ""
        need = format_mib(verdict.needs_mib)
        if verdict.verdict in ("fits", "tight") and need not in (
            "n/a",
            format_mib(memory.high_mib),
        ):
            words = f"needs up to {need}, {format_mib(verdict.limit_mib)} may be used"
        if words:
            parts = wrapped(say(words), width - 2)[:2]
            lines += [[("  " + part, ink.muted)] for part in parts]
    if len(rows) > 10:
        lines.append([(say(f"and {len(rows) - 10} more kinds of device"), ink.muted)])
    return lines


def _best_of(verdicts: list[Verdict]) -> tuple[Verdict, int, int]:
    first = best(verdicts)
    assert first is not None
    able = sum(each.verdict in ("fits", "tight") for each in verdicts)
    return first, able, len(verdicts)


def _signed(size_mib: float) -> str:
    return ("+" if size_mib >= 0 else "-") + format_mib(abs(size_mib))


def _suggestions(ink: Ink, report: Report, width: int) -> Lines:
    lines: Lines = []
    keys = iter(f"{key:<4}" for key in SUGGESTION_KEYS)
    able = applicable(report.suggestions)
    for suggestion in report.suggestions:
        key = next(keys, "-   ") if suggestion in able else "-   "
        words = ink.say(suggestion.text)
        if suggestion.saves_mib > 0:
            saves = ink.say(f" (saves {format_mib(suggestion.saves_mib)}).")
            words = f"{words.rstrip('.。')}{saves}"
        parts = wrapped(words, width - 4)
        lines += [
            [(key if at == 0 else "    ", ink.key), (part, ink.text)]
            for at, part in enumerate(parts)
        ]
        if suggestion.costs:
            costs = wrapped(ink.say("costs: ") + ink.say(suggestion.costs), width - 4)
            lines += [[("    ", ink.text), (part, ink.muted)] for part in costs]
        if suggestion.by_hand:
            by_hand = wrapped(ink.say(suggestion.by_hand), width - 4)
            lines += [[("    ", ink.text), (part, ink.muted)] for part in by_hand]
    return lines

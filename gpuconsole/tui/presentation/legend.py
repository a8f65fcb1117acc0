"""Legends and empty states: what the glyphs mean, and what to do when there is nothing."""

from __future__ import annotations

from gpuconsole.core.levels import HOT_C, WARM_C, Condition
from gpuconsole.tui.ink import Ink
from gpuconsole.tui.presentation.cells import Piece
from gpuconsole.tui.presentation.frame import STALE_AFTER_S
from gpuconsole.tui.presentation.maplayout import Density
from gpuconsole.tui.presentation.metrics import METRICS, Metric

MEANINGS = {
    Condition.DOWN: "host down",
    Condition.FAULT: "fault: lost, XID, ECC or unreadable",
    Condition.THROTTLED: "throttled by heat or the power brake",
    Condition.STALE: "stale or still connecting",
}


def cell_legend(ink: Ink, metric: Metric, density: Density) -> str:
    """Return the short legend in the map's lower border."""
    marks = "x down  ! fault  ~ throttled  ? stale"
    if density is Density.DEVICE_LINE or metric.name == "owner":
        return marks
    glyphs = " ".join(dict.fromkeys(ink.glyphs.heat))
    if metric.name == "free":
        return f"{ink.glyphs.heat[0]} in use  {ink.glyphs.heat[-1]} free   {marks}"
    return f"{metric.low} {glyphs} {metric.high}   {marks}"


def empty_fleet(known: bool, typed: str, *, faults: bool, opened: bool) -> list[str]:
    """Say why no host is shown, and what to do."""
    if typed:
        return [f"No hosts match `{typed}`.", "", "esc clears the filter."]
    if faults:
        return ["No host is in trouble.", "", "f shows all hosts again."]
    if not opened:
        return ["Starting."]
    if known:
        return ["Hosts are being read."]
    return [
        "No hosts yet.",
        "",
        "Run `gpuconsole init` to write an inventory from your ssh config,",
        "or `gpuconsole demo` to try the console on a simulated lab.",
    ]


def legend_lines(ink: Ink) -> list[list[Piece]]:
    """Return the glyph legend of the help screen."""
    lines: list[list[Piece]] = []
    ramp: list[Piece] = [("  load       ", ink.muted)]
    ramp += [(glyph, style) for glyph, style in zip(ink.glyphs.heat, ink.heat, strict=True)]
    ramp.append(("  idle to full", ink.text))
    lines.append(ramp)
    for state, meaning in MEANINGS.items():
        lines.append(
            [
                ("  ", ink.text),
                (ink.glyphs.conditions[state], ink.conditions[state]),
                (f"          {meaning}", ink.text),
            ]
        )
    words = {
        "fits": "the upper bound is within the limit",
        "tight": "fits, with little to spare",
        "will-not-fit": "the upper bound is above the limit",
        "unknown": "cannot be told; nothing is guessed",
    }
    for verdict, meaning in words.items():
        word = f"{ink.glyphs.verdicts[verdict]} {verdict.replace('-', ' ')}"
        lines.append([(f"  {word:<14}", ink.verdicts[verdict]), (meaning, ink.text)])
    return lines


def threshold_lines(ink: Ink) -> list[list[Piece]]:
    """Return the thresholds in force."""
    metrics = ", ".join(metric.name for metric in METRICS)
    return [
        [(f"  data older than {STALE_AFTER_S:.0f} s is marked stale", ink.text)],
        [(f"  the temperature ramp runs from {WARM_C:.0f} to {HOT_C:.0f} C", ink.text)],
        [(f"  metrics: {metrics}", ink.text)],
        [("  filter: name  rack:r1  gpu:a100  util<20  mem>50  free>=4", ink.text)],
        [('          state:down  user:ana  !word denies  "with blanks"', ink.text)],
    ]

"""Legends and empty states: what the glyphs mean, and what to do when there is nothing."""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len
from rich.style import Style

from gpuconsole.config import LabSettings
from gpuconsole.core.devices.health_levels import HOT_C, WARM_C, Condition
from gpuconsole.core.units import format_duration
from gpuconsole.core.wording import msg
from gpuconsole.tui.render.fleet_map.layout import Density
from gpuconsole.tui.render.fleet_map.metrics import FREE_STEPS_GIB, METRICS, Metric, owner_style
from gpuconsole.tui.render.fleet_map.owners import Owners
from gpuconsole.tui.render.frame import STALE_AFTER_S
from gpuconsole.tui.render.text_cells import Piece, fit
from gpuconsole.tui.style.styles import Ink

MEANINGS = {
    Condition.DOWN: "host down",
    Condition.FAULT: "fault: lost, XID, ECC or unreadable",
    Condition.THROTTLED: "throttled by heat or the power brake",
    Condition.STALE: "stale or still connecting",
    Condition.ASLEEP: "asleep, or waking",
}


def cell_legend(ink: Ink, metric: Metric, density: Density) -> str:
    """Return the short legend in the map's lower border."""
    say = ink.say
    marks = say("x down  ! fault  ~ throttled  ? stale")
    if density is Density.DEVICE_LINE or metric.name == "owner":
        return marks
    glyphs = " ".join(dict.fromkeys(ink.glyphs.heat))
    if metric.frees:
        glyphs = f"{ink.glyphs.free} {say('free')}  {metric.low} {glyphs} {metric.high}"
        return f"{glyphs}   {marks}"
    if metric.name == "free":
        most = say(f"{FREE_STEPS_GIB[-1]:.0f} GiB free")
        return f"{say('in use')} {glyphs} {most}   {marks}"
    return f"{metric.low} {glyphs} {metric.high}   {marks}"


def owner_legend(ink: Ink, owners: Owners, counts: Mapping[str, int], width: int) -> list[Piece]:
    """Return the letters of the users with their devices, those with most first, as far as there is
    room."""
    pieces: list[Piece] = [(f"{ink.glyphs.heat[0]} {ink.say('none')}", ink.muted)]
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    room = width - cell_len(pieces[0][0]) - len("  and 99 more")
    for at, (user, count) in enumerate(most):
        slot = owners.slot(user)
        words = f" {fit(user, min(12, cell_len(user)))} {count:,}"
        room -= cell_len(words) + 3
        if room < 0:
            return [*pieces, (ink.say(f"  and {len(most) - at} more"), ink.muted)]
        pieces += [("  ", ink.text), (owners.letter(slot), owner_style(ink, slot)),
                   (words, ink.muted)]  # fmt: skip
    return pieces


def empty_fleet(any_hosts: bool, typed: str, *, faults: bool, opened: bool) -> list[str]:
    """Say why no host is shown, and what to do."""
    if typed:
        return [msg("No hosts match `{filter}`.", filter=typed), "", "esc clears the filter."]
    if faults:
        return ["No host is in trouble.", "", "! shows all hosts again."]
    if not opened:
        return ["Starting."]
    if any_hosts:
        return ["Hosts are being read."]
    return [
        "No hosts yet.",
        "",
        "Run `gpuconsole init` to write an inventory from your ssh config,",
        "or `gpuconsole demo` to try the console on a simulated lab.",
    ]


def legend_lines(ink: Ink) -> list[list[Piece]]:
    """Return the glyph legend of the help screen."""
    say = ink.say
    lines: list[list[Piece]] = []
    ramp: list[Piece] = [_term(say("load"), ink.muted)]
    ramp += [(glyph, style) for glyph, style in zip(ink.glyphs.heat, ink.heat, strict=True)]
    ramp.append((say("  idle to full"), ink.text))
    lines.append(ramp)
    letters: list[Piece] = [_term(say("owner"), ink.muted)]
    letters += [(letter, owner_style(ink, slot)) for slot, letter in enumerate("abc")]
    lines.append([*letters, (say("  a letter and a colour for each user"), ink.text)])
    lines.append(
        [_term(say("answer"), ink.muted), (ink.glyphs.lit, ink.match),
         (say("  where the devices asked for with w are free"), ink.text)]
    )  # fmt: skip
    for state, meaning in MEANINGS.items():
        lines.append(
            [
                ("  ", ink.text),
                (ink.glyphs.conditions[state], ink.conditions[state]),
                (f"          {say(meaning)}", ink.text),
            ]
        )
    words = {
        "fits": "the upper bound is within the limit",
        "tight": "fits, with little to spare",
        "will-not-fit": "the upper bound is above the limit",
        "unknown": "unknown; nothing is guessed",
    }
    for verdict, meaning in words.items():
        word = f"{ink.glyphs.verdicts[verdict]} {say(verdict.replace('-', ' '))}"
        lines.append(
            [(f"  {fit(word, 14)}", ink.verdicts[verdict]), (say(meaning), ink.text)]
        )  # fmt: skip
    return lines


def _term(word: str, style: Style) -> Piece:
    return f"  {fit(word, 11)}", style


def threshold_lines(ink: Ink, settings: LabSettings) -> list[list[Piece]]:
    """Return the active thresholds."""
    say = ink.say
    metrics = ", ".join(say(metric.name) for metric in METRICS)
    limits = settings.triage.limits
    in_force = (
        say(f"an estimate may fill {100 * settings.memory_threshold:.0f} % of a device"),
        say(msg("a host without a frame for {time} is stale, for {longer} unreachable",
                time=format_duration(settings.poll.stale_after),
                longer=format_duration(limits.unreachable_for))),
        say(msg("memory is nearly full from {n} % on, a disk when less than {free} % are free",
                n=f"{limits.memory_full:.0f}", free=f"{limits.disk_free:.0f}")),
        say(f"a device is idle below {limits.idle_utilization:.0f} %; held memory is reported after"
            f" {format_duration(limits.idle_for)}"),
        say(f"a straggler lies {limits.straggler_gap:.0f} points below the others,"
            f" a clock is off from {format_duration(limits.clock_skew)} on"),
    )  # fmt: skip
    return [
        *([(f"  {words}", ink.text)] for words in in_force),
        [(say(f"  data older than {STALE_AFTER_S:.0f} s is marked stale"), ink.text)],
        [(say(f"  the temperature ramp runs from {WARM_C:.0f} to {HOT_C:.0f} C"), ink.text)],
        [(say("  metrics: ") + metrics, ink.text)],
        [(say("  free memory shows from 4, 8, 12, 16, 24, 40 and 80 GiB on"), ink.text)],
        [(say("  filter: ") + "name  rack:r1  gpu:a100|h100  util<20  freemem>=24  free>=4",
          ink.text)],
        [(say('          state:down  user:me  process:train  !word denies  "with blanks"'),
          ink.text)],
    ]  # fmt: skip

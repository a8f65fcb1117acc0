"""The placement engine's decision as lines: candidates with reasons, refusals, the docker line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len

from gpuconsole.core.units import format_duration
from gpuconsole.placement.model import Candidate, Decision, Rejection
from gpuconsole.tui.ink import Ink
from gpuconsole.tui.presentation.cells import Piece, bullets, fit, wrapped
from gpuconsole.tui.presentation.devices import short_model

Lines = list[list[Piece]]
MOST_CANDIDATES = 3
MOST_REFUSALS = 6


def decision_lines(ink: Ink, decision: Decision, docker: str, now: float, width: int) -> Lines:
    """Return who would get the job and why, who not, and the equal command."""
    lines: Lines = []
    for number, candidate in enumerate(decision.candidates[:MOST_CANDIDATES], start=1):
        first = number == 1
        mark = ink.glyphs.cursor if first else " "
        place = f"{candidate.host} {_devices(candidate)}"
        score = ink.say(f"score {candidate.score:.2f}")
        room = width - 2 - cell_len(score)
        lines.append(
            [(f"{mark} ", ink.key), (fit(place, room), ink.strong if first else ink.text),
             (score, ink.muted)]
        )  # fmt: skip
        reasons = candidate.reasons if first else candidate.reasons[:1]
        lines += bullets(ink, reasons, width)
    waiting = decision.waiting
    if waiting is not None:
        lines += [[(part, ink.warn)] for part in wrapped(ink.say(waiting.reason), width)]
        if waiting.estimated_start is not None:
            wait = format_duration(waiting.estimated_start - now)
            lines.append([(ink.say(f"  could start in about {wait}"), ink.text)])
        lines += bullets(ink, waiting.options, width)
    refused = refusals(decision.rejections, ink.say)
    if refused:
        lines += [[], [(ink.say("not these"), ink.title)]]
        lines += bullets(ink, refused[:MOST_REFUSALS], width)
        if len(refused) > MOST_REFUSALS:
            more = ink.say(f"    and for {len(refused) - MOST_REFUSALS} more reasons")
            lines.append([(more, ink.muted)])
    if docker:
        lines += [[], [(ink.say("the equal command"), ink.title)]]
        lines += [[(part, ink.muted)] for part in wrapped(docker, width)]
    return lines


def refusals(rejections: Sequence[Rejection], say: Callable[[str], str] = str) -> tuple[str, ...]:
    """Return a sentence for each reason and model, with the hosts and the number of devices."""
    groups: dict[tuple[str, str], list[str]] = {}
    for refused in rejections:
        groups.setdefault((refused.model, refused.reason), []).append(refused.host)
    return tuple(_refusal(say, *which, hosts) for which, hosts in groups.items())


def _refusal(say: Callable[[str], str], model: str, reason: str, hosts: Sequence[str]) -> str:
    names = list(dict.fromkeys(filter(None, hosts)))
    reason = say(reason)
    if not names:
        return reason
    place = names[0]
    if len(names) > 1:
        place = f"{place} " + say(f"and {len(names) - 1} more")
    count = f"{len(hosts)} x " if len(hosts) > 1 else ""
    what = f" ({count}{short_model(model)})" if model else ""
    return f"{place}{what}: {_within(reason)}"


def _within(sentence: str) -> str:
    """A sentence as it stands after a colon; names and abbreviations keep their capitals."""
    word = sentence.split(" ", 1)[0]
    return sentence if word[1:] != word[1:].lower() else sentence[:1].lower() + sentence[1:]


def _devices(candidate: Candidate) -> str:
    return "gpu " + ",".join(str(device.index) for device in candidate.devices)

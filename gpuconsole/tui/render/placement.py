"""Where a request or a job fits: the answer to `4x24`, and the engine's decision with reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.cells import cell_len

from gpuconsole.core.fleet import Device
from gpuconsole.core.units import format_duration
from gpuconsole.tui.render.device_rows import link_words, short_model
from gpuconsole.tui.render.text_cells import Piece, bullets, fit, wrapped
from gpuconsole.tui.style.styles import Ink

if TYPE_CHECKING:
    from gpuconsole.placement.forecast.free_capacity import Answer, Nearest
    from gpuconsole.placement.model import Candidate, Decision, Rejection

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
        lines += [[], [(ink.say("excluded"), ink.title)]]
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
    """A sentence in the form for use after a colon; names and abbreviations keep their capitals."""
    word = sentence.split(" ", 1)[0]
    return sentence if word[1:] != word[1:].lower() else sentence[:1].lower() + sentence[1:]


def _devices(candidate: Candidate) -> str:
    return "gpu " + ",".join(str(device.index) for device in candidate.devices)


def answer_line(ink: Ink, answer: Answer, width: int) -> list[Piece]:
    """Return the answer: as many places with their devices as there is room for, or the nearest and
    what it lacks."""
    head: list[Piece] = [(f" {answer.ask} ", ink.strong)]
    if not answer.places:
        return [*head, (ink.say(" fits nowhere now"), ink.bad), *_nearest(ink, answer)]
    used = 0
    count = len(answer.places)
    if answer.together:
        head.append((ink.say(" on no single host; together on"), ink.warn))
    else:
        words = f" {count:,} place " if count == 1 else f" {count:,} places "
        head.append((ink.say(words), ink.good))
    room = width - sum(cell_len(words) for words, _ in head) - len("  and 1,000 more")
    for place in answer.places:
        words = f" gpu {_numbers(place.devices)} {_facts(place.devices)}"
        name = fit(place.host, min(24, cell_len(place.host)))
        room -= cell_len(name) + cell_len(words) + 4
        if room < 0 and used:
            break
        head += [(f"  {ink.glyphs.lit} ", ink.good), (name, ink.strong), (words, ink.muted)]
        used += 1
    if count > used:
        head.append((ink.say(f"  and {count - used:,} more"), ink.muted))
    return head


def _facts(devices: tuple[Device, ...]) -> str:
    free = min(device.memory_free_mib or 0.0 for device in devices) / 1024.0
    link = f", {link_words(devices[0])}" if len(devices) > 1 else ""
    return f"({free:.0f} GiB{link})"


def _nearest(ink: Ink, answer: Answer) -> list[Piece]:
    nearest = answer.nearest
    if nearest is None:
        return [(ink.say(": no device is known"), ink.muted)]
    have = len(nearest.devices)
    words = f": {have} of {answer.ask.count} on " if have else "; nearest is "
    return [
        (ink.say(words), ink.text),
        (fit(nearest.host, 24).rstrip(), ink.strong),
        (_missing(ink, nearest), ink.muted),
    ]


def _missing(ink: Ink, nearest: Nearest) -> str:
    """Say why the others will not do, one reason after the other."""
    by_reason = sorted(nearest.missing, key=lambda item: item[1])
    parts = [
        f"gpu {ranges([index for index, _ in group])} {ink.say(reason)}"
        for reason, group in groupby(by_reason, key=lambda item: item[1])
    ]
    if not parts:
        return ink.say(" and no device more there")
    return ": " + ", ".join(parts)


def _numbers(devices: tuple[Device, ...]) -> str:
    return ranges([device.index for device in devices])


def ranges(indexes: list[int]) -> str:
    """Return numbers with runs as `2-5`."""
    parts: list[str] = []
    ordered = sorted(indexes)
    for _, run in groupby(enumerate(ordered), key=lambda item: item[1] - item[0]):
        numbers = [number for _, number in run]
        few = len(numbers) < 3
        parts += [str(n) for n in numbers] if few else [f"{numbers[0]}-{numbers[-1]}"]
    return ",".join(parts)

"""The answer to "where do 4 x 24 GiB fit now?" as a line."""

from __future__ import annotations

from itertools import groupby

from rich.cells import cell_len

from gpuconsole.core.fleet import Device
from gpuconsole.placement.forecast.free_capacity import Answer, Nearest
from gpuconsole.tui.ink import Ink
from gpuconsole.tui.presentation.cells import Piece, fit
from gpuconsole.tui.presentation.devices import link_words


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

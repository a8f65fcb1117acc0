"""A report's figures as a person reads them, in the console and in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from gpuconsole.core.wording import msg
from gpuconsole.session.report.model import HOUR_S, IdleLease, Key, Sums, UsageReport

FIGURES = ("JOBS", "GPU-HOURS", "USED", "WASTED", "UNKNOWN", "USE", "KWH", "COST")
_NOT_SET = {"account": "(none)", "project": "(none)"}


def word_of(key: Key, word: str) -> str:
    """Return the word of a group; `unknown` where a model is not known."""
    return word or _NOT_SET.get(key, "unknown")


def cells(sums: Sums, currency: str = "") -> tuple[str, ...]:
    """Return the figures of a row, in the order of FIGURES; `n/a` where nothing was measured."""
    use, wasted = sums.use, sums.wasted_s
    return (
        f"{sums.jobs:,}",
        hours(sums.held_s),
        hours(sums.used_s if use is not None else None),
        hours(wasted),
        hours(sums.unknown_s),
        "n/a" if use is None else f"{use:.0f} %",
        figure(sums.kwh),
        cost(sums, currency),
    )


def hours(seconds: float | None) -> str:
    """Return hours: `0.02`, `3.4`, `1,204`."""
    return figure(None if seconds is None else seconds / HOUR_S)


def figure(value: float | None) -> str:
    """Return a figure with two to three digits that count, `n/a` where it is not known."""
    if value is not None and 1e-4 <= value < 0.1:
        return f"{value:.1g}"
    if value is None:
        return "n/a"
    if value < 1e-4 or value >= 1000.0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10.0 else f"{value:.2f}"


def cost(sums: Sums, currency: str = "") -> str:
    """Return a cost; `≥` where part of it has no price or was not measured."""
    if sums.cost is None:
        return "n/a"
    least = "" if sums.cost_complete else "≥ "
    return f"{least}{sums.cost:,.2f} {currency}".rstrip()


def idle_sentence(idle: Sequence[IdleLease]) -> str:
    """Say how many devices are held and not used."""
    count = sum(lease.devices for lease in idle)
    if count == 1:
        return "1 device is held and not used."
    return f"{count} devices are held and not used."


def notes(usage: UsageReport) -> list[str]:
    """Say of which time and jobs a report is, and which share of it was measured."""
    total, query = usage.total, usage.query
    begin, end = _day(query.since), f"{_day(query.until)} {usage.zone}".rstrip()
    lines = [
        msg("Jobs of {user}, {since} to {until}.", user=usage.user, since=begin, until=end)
        if usage.user
        else msg("Jobs of all users, {since} to {until}.", since=begin, until=end)
    ]
    use, energy = total.share(total.use_known_s), total.share(total.energy_known_s)
    lines.append(f"Use was measured over {use:.0%} of the GPU-hours, energy over {energy:.0%}.")
    if total.cost is not None and total.unpriced_s > 0.0:
        lines.append(f"{hours(total.unpriced_s)} GPU-hours have no price.")
    return lines


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")

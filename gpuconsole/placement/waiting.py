"""Why a job waits: what holds it back, who, until when, and what a person could do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.placement.model import Blocker, Waiting
from gpuconsole.placement.scores import groups_of
from gpuconsole.placement.survey import PERMANENT, Spot, Survey, engine_fault, time_left

MAX_BLOCKERS = 20

_COUNTED = {
    "leased": "in use by jobs",
    "reserved": "kept for a job before it",
    "held": "with too little memory free",
    "exclusive": "not empty",
    "unknown": "not empty",
    "host": "on hosts out of reach",
    "engine": "on hosts whose Docker engine does not answer",
    "health": "faulty",
    "preferred": "not preferred",
    "count": "free, but too few on one host",
}


def waiting(survey: Survey, refused: Sequence[tuple[Spot, str]]) -> Waiting:
    """Explain why none of the refused devices will do now."""
    able = [(spot, code) for spot, code in refused if code not in PERMANENT]
    count = survey.request.devices
    groups = groups_of(spot for spot, _ in able)
    sizes = {key: len(group) for key, group in groups.items()}
    able = [pair for pair in able if sizes[pair[0].host.name, pair[0].device.model] >= count]
    if not able:
        return _impossible(survey, refused, max(sizes.values(), default=0))
    start = _estimated_start(survey, able)
    blockers = tuple(
        Blocker(holder.job, holder.name, holder.user, spot.host.name, spot.device.uuid)
        for spot, code in able
        if code == "leased" and (holder := survey.claims.get(spot.device.uuid)) is not None
    )
    return Waiting(_reason(survey, able, start), blockers[:MAX_BLOCKERS], start,
                   _options(survey, able, refused), True)  # fmt: skip


def _reason(survey: Survey, able: Sequence[tuple[Spot, str]], start: float | None) -> str:
    by_text = Counter(_COUNTED[code] for _, code in able)
    parts = [f"{count} {text}" for text, count in by_text.most_common()]
    count = survey.request.devices
    wanted = "" if count == 1 else f" ({count} together are needed)"
    reason = f"{_devices(len(able))} could do it{wanted}: {', '.join(parts)}."
    if survey.preference_ends is not None and any(code == "preferred" for _, code in able):
        left = time_left(survey.preference_ends, survey.now)
        reason += f" It insists on preferred devices for another {left}."
    silent = next((spot.host for spot, code in able if code == "engine"), None)
    if silent is not None:
        reason += f" {engine_fault(silent.name, silent.engine_error)}"
    if start is not None:
        wait = format_duration(max(0.0, start - survey.now))
        reason += f" The first should be free in about {wait}."
    return reason


def _estimated_start(survey: Survey, able: Sequence[tuple[Spot, str]]) -> float | None:
    """Return when enough devices of one model on one host should be free, if that can be told."""
    ready: dict[tuple[str, str], list[float]] = {}
    for spot, code in able:
        moment = math.inf
        if code == "leased":
            holder = survey.claims[spot.device.uuid]
            moment = math.inf if holder.ends_at is None else max(survey.now, holder.ends_at)
            if survey.preference_ends is not None and survey.kinds[spot.kind].rank is None:
                moment = max(moment, survey.preference_ends)
        elif code == "preferred" and survey.preference_ends is not None:
            moment = survey.preference_ends
        elif code == "count":
            moment = survey.now
        ready.setdefault((spot.host.name, spot.device.model), []).append(moment)
    count = survey.request.devices
    first = min(sorted(moments)[count - 1] for moments in ready.values())
    return None if math.isinf(first) else first


def _options(
    survey: Survey, able: Sequence[tuple[Spot, str]], refused: Sequence[tuple[Spot, str]]
) -> tuple[str, ...]:
    codes = {code for _, code in able}
    need = survey.request.need_mib
    options = []
    if "preferred" in codes:
        options.append("Drop `preferred_devices`, or lower the timeout: others are free now.")
    free = [spot for spot, code in refused if code == "memory"]
    if need is not None and free:
        limit = max(survey.kinds[spot.kind].limit_mib or 0.0 for spot in free)
        more = _devices(len(free), "smaller ")
        options.append(f"Bring it below {format_mib(limit)} to use {more} too.")
    if survey.request.devices > 1:
        options.append("Ask for fewer devices.")
    if "leased" in codes:
        options.append("Raise its priority to be next, or cancel a job that holds a device.")
    if codes & {"held", "exclusive", "unknown"}:
        options.append("Ask those who hold memory outside the queue to free it.")
    if "unknown" in codes:
        options.append("Answer preflight's questions: with an estimate it can use part of a card.")
    if codes & {"host", "health"}:
        options.append("See `gpuconsole check` about the hosts and devices that are out.")
    return tuple(options)


def _impossible(survey: Survey, refused: Sequence[tuple[Spot, str]], largest: int) -> Waiting:
    task, need, count = survey.request.task, survey.request.need_mib, survey.request.devices
    codes = Counter(code for _, code in refused)
    options: list[str] = []
    if largest:
        reason = (
            f"It needs {count} devices of one model on one host; the most there is, is {largest}."
        )
        options.append(f"Ask for {_devices(largest)} at most.")
    elif codes["memory"] and need is not None:
        best = max(
            (spot for spot, code in refused if code == "memory"),
            key=lambda spot: survey.kinds[spot.kind].limit_mib or 0.0,
        )
        reason = (
            f"It needs up to {format_mib(need)}; the largest device that it may use,"
            f" {best.device.model} on {best.host.name}, offers"
            f" {format_mib(survey.kinds[best.kind].limit_mib)} ({survey.threshold:.0%} of"
            f" {format_mib(best.device.memory_total_mib)})."
        )
        options.append("Lower the batch size, or use mixed precision or recompute.")
    elif codes["labels"]:
        wanted = ", ".join(f"{key}={value}" for key, value in task.labels.items())
        reason = f"No host with a device for {task.backend} carries {wanted}."
        options.append("Correct the labels of the task or of the inventory.")
    else:
        reason = f"No device for {task.backend} is known in this fleet."
        options.append("Choose another back end, or add a host.")
    if survey.layout.silent:
        number = len(survey.layout.silent)
        silent = (
            "1 host has not shown its" if number == 1 else f"{number} hosts have not shown their"
        )
        reason += f" {silent} devices yet."
        options.append("See `gpuconsole check` about those hosts.")
    return Waiting(reason, (), None, tuple(options), bool(survey.layout.silent))


def _devices(count: int, which: str = "") -> str:
    return f"{count} {which}{'device' if count == 1 else 'devices'}"

"""Why a job waits: what holds it back, who, until when, and what a person could do about it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from gpuconsole.core.jobs import Task
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.wording import msg, sentences
from gpuconsole.placement.engine.board import Cell
from gpuconsole.placement.engine.device_state import engine_fault
from gpuconsole.placement.engine.eligibility import Survey, time_left
from gpuconsole.placement.engine.expected_end import expected_end
from gpuconsole.placement.engine.job_profile import PERMANENT
from gpuconsole.placement.model import ANOTHER_CONSOLE, Blocker, Waiting

MAX_BLOCKERS = 20
MAX_OWNERS = 3
"""Users whom an advice names."""
MAX_ASIDE = 3
"""Hosts set aside that a reason names."""

_COUNTED = {
    "leased": "in use by jobs",
    "utilization": "in use by jobs",
    "reserved": "kept for a job before it",
    "held": "with too little memory free",
    "exclusive": "not empty",
    "unknown": "not empty",
    "foreign": "not empty",
    "host": "on hosts out of reach",
    "drained": "on drained hosts",
    "aside": "on hosts set aside",
    "engine": "on hosts with a Docker engine that does not answer",
    "health": "faulty",
    "preferred": "not preferred",
    "window": "kept for others at this time",
    "quota": "beyond what this user may have there",
    "count": "free but too few together",
}
_IN_USE = frozenset({"leased", "utilization"})
Refused = Sequence[tuple[Cell, str]]
Group = tuple[int, int]
"""A host by its place on the board, and a kind of device."""


def waiting(survey: Survey, refused: Refused) -> Waiting:
    """Explain why none of the refused devices will do now."""
    if survey.ruling is not None:
        options = _BY_RULE[survey.ruling.code]
        return Waiting(survey.ruling.sentence, (), None, options)
    able: list[tuple[Cell, str]] = []
    sizes: dict[Group, int] = defaultdict(int)
    for cell, code in refused:
        if code in PERMANENT:
            if code != "memory" or _too_small(survey, cell):
                continue
            # A device that is too full to be shared is leased, not too small.
            code = "leased"
        able.append((cell, code))
        sizes[cell.site.place, cell.kind] += len(cell.spots)
    each = survey.profile.request.devices
    hosts = survey.profile.request.task.hosts
    enough = _enough(sizes, each, hosts)
    if len(enough) < len(sizes):
        able = [pair for pair in able if (pair[0].site.place, pair[0].kind) in enough]
    if not able:
        return _impossible(survey, refused, max(sizes.values(), default=0))
    start = _estimated_start(survey, able)
    blockers = (
        Blocker(holder.job, holder.name, holder.user, cell.site.host.name, spot.device.uuid)
        for cell, code in able
        if code in _IN_USE
        for holder in (cell.holder, cell.guest)
        if holder is not None
        for spot in cell.spots
    )
    reason, free = _reason(survey, able), _free_text(survey, start)
    return Waiting(
        sentences(reason, free),
        tuple(islice(blockers, MAX_BLOCKERS)),
        start,
        _options(survey, able, refused),
        undated=reason if free else "",
    )


_OTHER_QUEUES = (
    "Jobs that wait for these devices in other queues are not visible here, and priorities do "
    "not hold between queues; `gpuconsole dispatch --lab` serves one queue to all."
)
_BY_RULE = {
    "sweep": ("Wait until one of its jobs ends.",),
    "quota": ("Wait, or ask the lab's operators to raise the limit.", "Ask for fewer devices."),
    "beyond": ("Ask for fewer devices.", "Ask the lab's operators to raise the limit."),
}
"""What can be done where a rule forbids a job, by the rule's code."""


def _too_small(survey: Survey, cell: Cell) -> bool:
    return survey.profile.views[cell.kind].code == "memory"


def _enough(sizes: Mapping[Group, int], devices: int, hosts: int) -> set[Group]:
    """Return the hosts and kinds that have their part of a job, on as many hosts as it may use."""
    groups: set[Group] = set()
    for parts in range(1, hosts + 1):
        if devices % parts:
            continue
        able = {key for key, size in sizes.items() if size >= devices // parts}
        alike = Counter(kind for _, kind in able)
        groups |= {key for key in able if alike[key[1]] >= parts}
    return groups


def _reason(survey: Survey, able: Refused) -> str:
    profile = survey.profile
    by_code: dict[str, int] = defaultdict(int)
    for cell, code in able:
        by_code[code] += len(cell.spots)
    by_text: Counter[str] = Counter()
    for code, devices in by_code.items():
        by_text[_COUNTED[code]] += devices
    parts = [f"{count} {text}" for text, count in by_text.most_common()]
    count = profile.request.devices
    wanted = "" if count == 1 else " ({all} together are needed)"
    able_devices = sum(by_text.values())
    noun = "device" if able_devices == 1 else "devices"
    reasons = [
        msg(
            f"{{n}} {noun} could do it{wanted}: {{parts_list}}.",
            n=able_devices, all=count, parts_list=", ".join(parts),
        )
    ]  # fmt: skip
    if survey.behind:
        reasons.append(
            msg("The policy lets no job pass {name}, which waits before it.", name=survey.behind)
        )
    if profile.preference_ends is not None and any(code == "preferred" for _, code in able):
        left = time_left(profile.preference_ends, profile.now)
        reasons.append(f"It insists on preferred devices for another {left}.")
    silent = next((cell.site.host for cell, code in able if code == "engine"), None)
    if silent is not None:
        reasons.append(engine_fault(silent.name, silent.engine_error))
    reasons += [*_aside(survey, able), _ruled(survey, able)]
    return sentences(*reasons)


def _free_text(survey: Survey, start: float | None) -> str:
    """Return when enough devices should be free, as a sentence; "" if unknown."""
    if start is None:
        return ""
    wait = format_duration(max(0.0, start - survey.profile.now))
    return f"{_first(survey.profile.request.devices)} should be free in about {wait}."


def _aside(survey: Survey, able: Refused) -> list[str]:
    """Say which hosts are set aside, or shunned by the job, where some are."""
    hosts = {cell.site.host.name: cell.site.host for cell, code in able if code == "aside"}
    reasons = []
    for host in islice(hosts.values(), MAX_ASIDE):
        shun = survey.profile.shun(host.name)
        why = (
            msg("{host}: {why_text}.", host=host.name, why_text=host.drained)
            if shun is None
            else shun.sentence
        )
        reasons.append(clean(why, 300))
    return reasons


def _ruled(survey: Survey, able: Refused) -> str:
    """Say which rule of the lab keeps a host from the job, where one does."""
    profile = survey.profile
    site = next((cell.site for cell, code in able if code in ("window", "quota")), None)
    if site is None:
        return ""
    own = sum(len(c.spots) for c in site.held if c.holder and c.holder.user == profile.request.user)
    ruling = profile.rules.host(profile.request, site.host, own, profile.request.least_on_host)
    return "" if ruling is None else ruling.sentence


def _estimated_start(survey: Survey, able: Refused) -> float | None:
    """Return when enough devices of one model on one host should be free, if known."""
    profile = survey.profile
    ready: dict[Group, list[float]] = defaultdict(list)
    for cell, code in able:
        moment = math.inf
        if code in _IN_USE:
            moment = _told_end(cell, profile.now)
            if profile.preference_ends is not None and profile.views[cell.kind].rank is None:
                moment = max(moment, profile.preference_ends)
        elif code == "preferred" and profile.preference_ends is not None:
            moment = profile.preference_ends
        elif code == "count":
            moment = profile.now
        elif code == "aside":
            moment = _back(survey, cell)
        elif code == "reserved" and survey.board.reservation is not None:
            moment = survey.board.reservation.when
        if moment < math.inf:
            ready[cell.site.place, cell.kind] += [moment] * len(cell.spots)
    count, hosts = profile.request.devices, profile.request.task.hosts
    moments = (
        _moment(ready, kind, count // parts, parts)
        for parts in range(1, hosts + 1)
        if count % parts == 0
        for kind in {kind for _, kind in ready}
    )
    first = min(moments, default=math.inf)
    return None if math.isinf(first) else first


def _back(survey: Survey, cell: Cell) -> float:
    """Return until when a host is set aside, or shunned by the job."""
    shun, aside = survey.profile.shun(cell.site.host.name), cell.site.host.aside
    until = max(0.0 if shun is None else shun.until, 0.0 if aside is None else aside.until)
    return max(until, survey.profile.now)


def _first(count: int) -> str:
    return "The first" if count == 1 else "Enough of them"


def _told_end(cell: Cell, now: float) -> float:
    """Return when all who hold a cell should be gone; inf where nothing was predicted of one."""
    holder, guest = cell.holder, cell.guest
    if holder is None or holder.ends_at is None:
        return math.inf
    if guest is None:
        return expected_end(holder, now)
    if guest.ends_at is None:
        return math.inf
    return max(expected_end(holder, now), expected_end(guest, now))


def _moment(ready: dict[Group, list[float]], kind: int, each: int, parts: int) -> float:
    """Return when `each` devices of a kind are free on each of so many hosts."""
    moments = sorted(
        sorted(places)[each - 1]
        for (_, k), places in ready.items()
        if k == kind and len(places) >= each
    )
    return moments[parts - 1] if len(moments) >= parts else math.inf


def _options(survey: Survey, able: Refused, refused: Refused) -> tuple[str, ...]:
    profile = survey.profile
    codes = {code for _, code in able}
    options = []
    if "preferred" in codes:
        options.append("Drop `preferred_devices`, or lower the timeout: others are free now.")
    small = [cell for cell, code in refused if code == "memory" and profile.views[cell.kind].code]
    if profile.request.need_mib is not None and small:
        limit = max(profile.views[cell.kind].limit_mib or 0.0 for cell in small)
        more = _devices(sum(len(cell.spots) for cell in small), "smaller ")
        options.append(f"Bring it below {format_mib(limit)} to use {more} too.")
    if profile.request.devices > 1:
        options.append("Ask for fewer devices.")
    options += _of_holders(survey, able)
    if "reserved" in codes:
        options.append("Say how long it runs (`run_time`): what ends in time may pass.")
    if codes & {"held", "exclusive", "unknown", "foreign"}:
        options.append("Ask those who hold memory outside the queue to free it.")
    if "unknown" in codes:
        options.append("Answer preflight's questions: with an estimate it can use part of a card.")
    if "drained" in codes:
        options.append("Take a host back with `gpuconsole undrain`.")
    if "aside" in codes:
        options.append(
            "Repair the hosts that are set aside; `gpuconsole undrain HOST` ends a pause at once."
        )
    if codes & {"host", "health"}:
        options.append("See `gpuconsole check` about the hosts and devices that are out.")
    return tuple(options)


def _of_holders(survey: Survey, able: Refused) -> Iterator[str]:
    """Give what helps with devices in use: who may cancel their jobs, and which claims end."""
    profile = survey.profile
    holders = [
        holder
        for cell, code in able
        if code in _IN_USE
        for holder in (cell.holder, cell.guest)
        if holder is not None
    ]
    claims = [holder.claimed_until for holder in holders if holder.claimed_until is not None]
    if len(claims) < len(holders):
        yield "Raise its priority to be next, or cancel a job that holds a device."
    unnamed = {"", profile.request.user, ANOTHER_CONSOLE}
    users = {
        clean(holder.user, 100): None for holder in holders if holder.claimed_until is not None
    }
    for user in islice((user for user in users if user not in unnamed), MAX_OWNERS):
        yield msg("Ask {user} to cancel a job that holds a device: only its owner can.", user=user)
    if claims:
        yield _OTHER_QUEUES
    if ending := [moment for moment in claims if moment > profile.now]:
        yield (
            "Wait: a claim of a console that ended before its job started is removed in about "
            f"{format_duration(min(ending) - profile.now)}."
        )


def _impossible(survey: Survey, refused: Refused, largest: int) -> Waiting:
    profile = survey.profile
    task, need, count = profile.request.task, profile.request.need_mib, profile.request.devices
    codes = Counter(code for cell, code in refused for _ in cell.spots)
    options: list[str] = []
    if largest:
        spread = "" if task.hosts == 1 else " {hosts} hosts may share the work;"
        template = (
            f"It needs {{n}} devices of one model on one host;{spread} the most there is, is"
            " {all}."
        )
        reason = msg(template, n=count, hosts=task.hosts, all=largest)
        options.append(f"Ask for {_devices(largest)} at most.")
        if task.hosts == 1:
            options.append("Let it spread over several hosts (`--hosts`).")
    elif codes["memory"] and need is not None:
        reason = _too_large(survey, refused)
        mixed = task.allow_mixed_precision is not False
        options.append(
            "Lower the batch size, or use mixed precision or recompute."
            if mixed
            else "Lower the batch size, or use recompute."
        )
    elif codes["image"]:
        cell = next(cell for cell, code in refused if code == "image")
        ruling = profile.rules.host(profile.request, cell.site.host, 0, 1)
        reason = ruling.sentence if ruling is not None else "No host can run its image."
        options.append("Choose an image for the drivers that the hosts have.")
    elif codes["interruptible"]:
        reason = "The hosts that could hold it may be taken away, and it has no `checkpoint_dir`."
        options.append("Let it save checkpoints and name their folder (`checkpoint_dir`).")
    elif codes["labels"]:
        reason = _no_labels(task)
        options.append("Correct the labels of the task or of the inventory.")
    elif survey.board.sites or not survey.board.silent:
        reason = msg("No device for {backend} is known in this fleet.", backend=task.backend)
        options.append("Choose another back end, or add a host.")
    else:
        reason = "No host has been seen yet: where it could run is not known."
    if survey.board.silent:
        number = len(survey.board.silent)
        silent = (
            "1 host has not shown its devices yet."
            if number == 1
            else f"{number} hosts have not shown their devices yet."
        )
        reason = sentences(reason, silent)
        options.append("See `gpuconsole check` about those hosts.")
    return Waiting(reason, (), None, tuple(options))


def _no_labels(task: Task) -> str:
    """Say that no host has the labels that a task wants, or lacks those that it rules out."""
    wanted = ", ".join(f"{key}={value}" for key, value in task.labels.items())
    unwanted = ", ".join(key if not v else f"{key}={v}" for key, v in task.anti_labels.items())
    labels = wanted or unwanted
    what = "carries {labels}" if wanted else "is without {labels}"
    if wanted and unwanted:
        what += " and is without {unwanted}"
    template = f"No host with a device for {{backend}} {what}."
    return msg(template, backend=task.backend, labels=labels, unwanted=unwanted)


def _too_large(survey: Survey, refused: Refused) -> str:
    profile = survey.profile
    best = max(
        (cell for cell, code in refused if code == "memory"),
        key=lambda cell: profile.views[cell.kind].limit_mib or 0.0,
    )
    device = best.spots[0].device
    return msg(
        "It needs up to {size}; the largest device that it may use, {device} on "
        "{host}, offers {limit} ({percent} of {all}).",
        size=format_mib(profile.request.need_mib),
        device=device.model,
        host=best.site.host.name,
        limit=format_mib(profile.views[best.kind].limit_mib),
        percent=f"{profile.threshold:.0%}",
        all=format_mib(device.memory_total_mib),
    )


def _devices(count: int, which: str = "") -> str:
    return f"{count} {which}{'device' if count == 1 else 'devices'}"

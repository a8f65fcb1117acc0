"""One host: the inspector beside the map, what happened there, and its images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuconsole.core.devices.health_levels import (
    Condition,
    condition,
    is_busy,
    level,
    memory_percent,
)
from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.wording import msg
from gpuconsole.tui.render.device_rows import fp16_words, link_words, memory_words, short_model
from gpuconsole.tui.render.incidents import moment
from gpuconsole.tui.render.placement import ranges
from gpuconsole.tui.render.text_cells import Piece, bar, fit, labelled, wrapped
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.style.styles import Ink

if TYPE_CHECKING:
    from gpuconsole.session.images.service import HostImages

Lines = list[list[Piece]]


def inspector_lines(
    ink: Ink, picture: Picture, host: Host, device: Device | None, width: int
) -> Lines:
    """Return the inspector's lines for a host, with more about the device under the cursor."""
    lines = state_lines(ink, picture, host, width)
    if host.devices:
        lines += [[], _gpu_heading(ink)]
        lines += [_gpu_line(ink, host, each, each is device) for each in host.devices]
        lines += [[], *labelled(ink, "free", ink.say(_free_words(host)), width)]
    if device is not None:
        lines += [[], *device_lines(ink, picture, device, width)]
        lines += holders(ink, device, width)
    return lines


def state_lines(ink: Ink, picture: Picture, host: Host, width: int) -> Lines:
    """Return what is known of the host itself."""
    facts = host.facts
    age = host.age_s(picture.now)
    good = host.state is HostState.UP
    lines: Lines = [
        [
            (fit(ink.say("state"), 10), ink.muted),
            (_state_word(ink, host), ink.good if good else ink.muted if host.power else ink.bad),
            ("" if age is None else ink.say(f"   seen {format_duration(age)} ago"), ink.muted),
        ]
    ]
    if host.error:
        style = ink.muted if host.power else ink.bad
        lines += [[(line, style)] for line in wrapped(ink.say(host.error), width)]
    if host.drained:
        words = ink.say(msg("takes no new jobs: {reason}", reason=host.drained))
        lines += [[(line, ink.warn)] for line in wrapped(words, width)]
    if host.engine_error:
        words = ink.say(msg("its engine does not answer: {reason}", reason=host.engine_error))
        lines += [[(line, ink.bad)] for line in wrapped(words, width)]
    labels = " ".join(f"{key}:{value}" for key, value in host.labels.items())
    driver = " / ".join(filter(None, (facts.driver_version, facts.runtime_version)))
    for label, value in (("labels", labels), ("address", host.address), ("driver", driver)):
        if value:
            lines += labelled(ink, label, value, width)
    if facts.memory_total_mib:
        cpu = "n/a" if facts.cpu_percent is None else f"{facts.cpu_percent:.0f}%"
        lines += labelled(ink, "cpu", cpu, width)
        lines += labelled(
            ink,
            "ram",
            f"{_gib(facts.memory_used_mib)} of {_gib(facts.memory_total_mib)} GiB",
            width,
        )
    if facts.disk_total_mib:
        words = f"{_gib(facts.disk_free_mib)} of {_gib(facts.disk_total_mib)} GiB free"
        lines += labelled(ink, "disk", words, width)
    if host.clock_skew_s is not None and abs(host.clock_skew_s) >= 2:
        words = ink.say(f"{host.clock_skew_s:+.0f}s off")
        lines.append([(fit(ink.say("clock"), 10), ink.muted), (words, ink.warn)])
    return lines


def _state_word(ink: Ink, host: Host) -> str:
    if host.power == "asleep":
        return ink.say("asleep")
    if host.power == "waking":
        return ink.say("waking")
    return ink.say("falling asleep") if host.power else ink.say(host.state.value)


def device_lines(ink: Ink, picture: Picture, device: Device, width: int) -> Lines:
    """Return one device: owner, figures and trouble."""
    heading = f"gpu {device.index}  {short_model(device.model)}"
    lines: Lines = [[(fit(heading, width), ink.title)]]
    lines += labelled(ink, "owner", picture.owner_name(device) or ink.say("none"), width)
    lines += labelled(
        ink,
        "FP16",
        f"{fp16_words(device)} TFLOPS   {ink.say('link')} {ink.say(link_words(device))}",
        width,
    )
    if device.power_limit_w:
        watts = "n/a" if device.power_w is None else f"{device.power_w:.0f}"
        lines += labelled(ink, "power", f"{watts} of {device.power_limit_w:.0f} W", width)
    age = device.age_s(picture.now)
    if age is not None:
        # A vendor's tool runs seldom: what it said may be older than the host's frame.
        lines += labelled(ink, "read", ink.say(f"{format_duration(age)} ago"), width)
    if device.divided or device.parent_uuid:
        words = (
            msg("a slice, {profile}", profile=device.mig_profile)
            if device.parent_uuid
            else "cut into slices"
        )
        lines += labelled(ink, "MIG", ink.say(words), width)
    if device.throttle:
        lines += labelled(ink, "slowed", ", ".join(device.throttle), width)
    trouble = ink.say(_trouble(device))
    if trouble:
        lines += [[(line, ink.bad)] for line in wrapped(trouble, width)]
    return lines


def holders(ink: Ink, device: Device, width: int) -> Lines:
    """Return who holds the device's memory, briefly."""
    lines: Lines = []
    for process in device.processes[:6]:
        size = format_mib(process.memory_mib)
        words = f"{process.user or '?'}  {process.command or 'pid ' + str(process.pid)}"
        lines.append(
            [(fit(size, 9, "right") + "  ", ink.text), (fit(words, width - 11), ink.muted)]
        )
    if len(device.processes) > 6:
        more = ink.say(f"and {len(device.processes) - 6} more")
        lines.append([(f"{'':9}  {more}", ink.muted)])
    return lines


def _trouble(device: Device) -> str:
    words = [device.error] if device.error else []
    if device.lost:
        words.append("The device is lost: the driver no longer sees it.")
    if device.health:
        words.append(msg("Its own tool calls it {word}.", word=clean(device.health, 60)))
    if device.xid:
        words.append(msg("XID {number} was reported.", number=device.xid))
    if device.ecc_uncorrected:
        words.append(f"{device.ecc_uncorrected} uncorrected ECC errors.")
    return " ".join(words)


def _free_words(host: Host) -> str:
    """Name the devices that are free now, and whether NVLink joins them all."""
    healthy = (Condition.OK, Condition.THROTTLED)
    free = [
        device
        for device in host.devices
        if condition(host, device) in healthy and not is_busy(device) and not device.divided
    ]
    if not free:
        return "none"
    uuids = {device.uuid for device in free}
    joined = len(free) > 1 and all(
        uuids <= {device.uuid, *(p.uuid for p in device.peers if p.kind.startswith("NV"))}
        for device in free
    )
    words = f"gpu {ranges([device.index for device in free])}"
    return words + (" (NVLink)" if joined else "")


def _gpu_heading(ink: Ink) -> list[Piece]:
    util, memory = fit(ink.say("util"), 4), fit(ink.say("memory"), 8, "right")
    return [(f"gpu  {util}  {memory}         C    W", ink.muted)]


def _gpu_line(ink: Ink, host: Host, device: Device, here: bool) -> list[Piece]:
    state = condition(host, device)
    pieces: list[Piece] = [
        (ink.glyphs.cursor if here else " ", ink.key),
        (fit(str(device.index), 2, "right"), ink.strong),
    ]
    if state is Condition.OK:
        pieces.append((" ", ink.text))
    else:
        pieces.append((ink.glyphs.conditions[state], ink.conditions[state]))
    step = level(device.utilization)
    words = "n/a" if device.utilization is None else f"{device.utilization:.0f}%"
    style = ink.muted if step is None else ink.heat[step]
    return [
        *pieces,
        (fit(words, 5, "right"), ink.text),
        (fit(memory_words(device), 10, "right") + " ", ink.text),
        *bar(ink, memory_percent(device), 5, style),
        (fit(_figure(device.temperature_c), 4, "right"), ink.text),
        (fit(_figure(device.power_w), 5, "right"), ink.text),
    ]


def _gib(size_mib: float | None) -> str:
    return "n/a" if size_mib is None else f"{size_mib / 1024:,.0f}"


def _figure(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.0f}"


MOST = 50
_KIND, _MOST_LINES = 9, 3
"""Cells for the kind of an event, and lines that one may take."""
Event = tuple[float, str, str, bool]
"""When, a word for what kind, what, and whether it is bad."""


def event_lines(ink: Ink, picture: Picture, host: Host, width: int) -> Lines:
    """Return the newest events first, or a sentence."""
    events = sorted(_events(ink, picture, host), key=lambda event: -event[0])[:MOST]
    if not events:
        words = ink.say("Nothing has happened here since the console was opened.")
        return [[(words, ink.muted)]]
    lines: Lines = []
    moments = {at: moment(at, picture.now) for at, *_ in events}
    longest = max(map(len, moments.values())) + 2
    for at, kind, what, bad in events:
        when = f"{moments[at]:{longest}}"
        parts = wrapped(what, max(8, width - len(when) - _KIND))
        for number, part in enumerate(parts[:_MOST_LINES]):
            first = number == 0
            lines.append(
                [
                    (when if first else " " * len(when), ink.muted),
                    (fit(ink.say(kind) if first else "", _KIND), ink.text),
                    (part, ink.bad if bad else ink.text),
                ]
            )
    return lines


def _events(ink: Ink, picture: Picture, host: Host) -> Iterator[Event]:
    say = ink.say
    for incident in picture.incidents:
        if incident.host != host.name:
            continue
        where = "" if incident.index is None else f"gpu {incident.index}: "
        yield incident.since, incident.severity.value, f"{where}{say(incident.title)}", True
        if incident.ended_at is not None:
            yield incident.ended_at, "resolved", f"{where}{say(incident.title)}", False
    for job in picture.jobs:
        for attempt in job.attempts:
            parts = [part for part in attempt.parts if part.host == host.name]
            if not parts:
                continue
            indexes = ",".join(str(index) for index in parts[0].device_indexes)
            place = " on gpu {index}" if indexes else ""
            named = {"job": job.task.name, "index": indexes}
            if attempt.started_at is not None:
                words = say(msg(f"{{job}} started{place}", **named))
                yield attempt.started_at, "job", words, False
            if attempt.ended_at is not None:
                words = say(msg(f"{{job}} ended{place}", **named))
                words += f": {say(attempt.cause)}" if attempt.cause else ""
                yield attempt.ended_at, "job", words, bool(attempt.exit_code)


SHOWN = 6
"""Images that are named; the largest come first."""


def image_lines(ink: Ink, images: HostImages, width: int) -> Lines:
    """Return a heading and a line for each image, or why they are unknown."""
    lines: Lines = [[(fit(ink.say("images"), width), ink.title)]]
    if images.error:
        return [*lines, *([(line, ink.warn)] for line in wrapped(ink.say(images.error), width))]
    if not images.images:
        return [*lines, [(ink.say("none yet"), ink.muted)]]
    for record in images.images[:SHOWN]:
        name = next(iter(record.names or record.digests), "")
        size = format_mib(record.size_mib)
        # Images differ at the end of their names.
        short = name if len(name) < width - len(size) else name.rpartition("/")[2]
        lines.append(
            [(fit(ink.say(short), width - len(size) - 1) + " ", ink.text), (size, ink.muted)]
        )
    rest = len(images.images) - SHOWN
    return [*lines, [(ink.say(f"and {rest} more"), ink.muted)]] if rest > 0 else lines

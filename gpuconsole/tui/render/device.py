"""One device in full: its latest sample, its owner, and what is wrong with it, in words."""

from __future__ import annotations

from rich.cells import cell_len

from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.wording import msg
from gpuconsole.tui.render.device_rows import fp16_words, link_words, short_model
from gpuconsole.tui.render.plots.time_plot import Mark, Scale
from gpuconsole.tui.render.text_cells import Piece, fit, wrapped
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.style.styles import Ink

Lines = list[list[Piece]]
_LABEL, _VALUE = 10, 26
_MOVING = 8


def sample_lines(ink: Ink, picture: Picture, host: Host, device: Device, width: int) -> Lines:
    """Return the latest sample in columns, then the owner and what is wrong."""
    facts = _facts(ink, device)
    age = device.age_s(picture.now)
    if age is not None:
        # Only NVML knows slices; figures of a vendor's tool may be older than the host's frame.
        facts[-1] = ("read", ink.say(f"{format_duration(age)} ago"))
    columns = max(1, min(3, width // (_LABEL + _VALUE)))
    # Where there is little room, where the device sits is left to the host's screen.
    facts = facts if columns == 3 else facts[:_MOVING]
    room = max(8, width // columns - _LABEL)
    lines: Lines = []
    for start in range(0, len(facts), columns):
        line: list[Piece] = []
        for label, value in facts[start : start + columns]:
            line += [(fit(ink.say(label), _LABEL), ink.muted), (fit(value, room), ink.text)]
        lines.append(line)
    lines += _owner(ink, picture, device, width)
    for words, style in (
        *((ink.say(sentence), ink.bad) for sentence in faults(device)),
        *((ink.say("slowed  ") + ink.say(sentence), ink.warn) for sentence in slowed(device)),
        *((ink.say(sentence), ink.muted) for sentence in clock_notes(device)),
    ):
        lines += [[(part, style)] for part in wrapped(words, width)]
    if host.error:
        lines += [[(part, ink.bad)] for part in wrapped(ink.say(host.error), width)]
    return lines


def _facts(ink: Ink, device: Device) -> list[tuple[str, str]]:
    say = ink.say
    free = format_mib(device.memory_free_mib)
    total = format_mib(device.memory_total_mib)
    power = f"{_figure(device.power_w)} W"
    if device.power_limit_w is not None:
        power = say(f"{_figure(device.power_w)} of {device.power_limit_w:.0f} W")
    clocks = f"{_figure(device.sm_clock_mhz)} / {_figure(device.memory_clock_mhz)} MHz"
    facts = [
        ("load", f"{_figure(device.utilization)} %"),
        ("memory", say(f"{format_mib(device.memory_used_mib)} of {total}")),
        ("free", free),
        ("temp", f"{_figure(device.temperature_c)} C"),
        ("power", power),
        ("clocks", clocks),
        ("FP16", f"{fp16_words(device)} TFLOPS"),
        ("link", say(link_words(device))),
        (
            "ECC",
            say(
                msg(
                    "{n} errors, {corrected} corrected",
                    n=_count(device.ecc_uncorrected),
                    corrected=_count(device.ecc_corrected),
                )
            ),
        ),
        ("PCI", device.pci_bus_id or "n/a"),
        ("NUMA", say(f"node {device.numa_node}") if device.numa_node is not None else "n/a"),
        ("MIG", say(_division(device))),
    ]
    if (device.retired_pages, device.nvlinks_up, device.energy_j) == (None, None, None):
        # Other makers' tools tell none of these.
        return facts
    return [
        *facts,
        ("rows", say(_rows(device))),
        ("NVLink", say(_links(device))),
        ("energy", _energy(device)),
    ]


def _division(device: Device) -> str:
    if device.parent_uuid:
        return msg("a slice, {profile}", profile=device.mig_profile or "n/a")
    return "cut into slices" if device.divided else "whole"


def _rows(device: Device) -> str:
    """Name the rows or pages of memory that are out of use, and what is still to be done."""
    if device.remap_failed:
        return "no spare one is left"
    count = _count(device.retired_pages)
    return f"{count} replaced, reset it" if device.remap_pending else f"{count} replaced"


def _links(device: Device) -> str:
    if device.nvlinks_up is None:
        return "n/a"
    total = device.nvlinks_up + (device.nvlinks_down or 0)
    return msg(
        "{n} of {all}, {errors} errors",
        n=device.nvlinks_up,
        all=total,
        errors=_count(device.nvlink_errors),
    )


def _energy(device: Device) -> str:
    return "n/a" if device.energy_j is None else f"{device.energy_j / 3.6e6:.1f} kWh"


def _owner(ink: Ink, picture: Picture, device: Device, width: int) -> Lines:
    job = picture.owners.get(device.uuid)
    say = ink.say
    label: Piece = (fit(say("owner"), _LABEL), ink.muted)
    if job is None:
        names = picture.owner_name(device)
        words = say(msg("{names} (no job of this queue)", names=names) if names else "none")
        return [[label, (fit(words, width - _LABEL), ink.text)]]
    estimate = say(f", {format_mib(job.estimate_mib)} predicted") if job.estimate_mib else ""
    words = (
        say(msg("{job} of {user}, {id}", job=job.task.name, user=job.user, id=job.id)) + estimate
    )
    last = say("  J opens it")
    room = max(8, width - _LABEL - cell_len(last))
    return [[label, (fit(words, room), ink.accent), (last, ink.muted)]]


def title(host: Host, device: Device) -> str:
    """Return what the device's box is called."""
    return f"{host.name}  gpu {device.index}  {short_model(device.model)}"


# -- plots --------------------------------------------------------------------------------------


def scale_of(device: Device, metric: str) -> Scale:
    """Return the scale of a metric's plot."""
    if metric == "memory_used_mib":
        return Scale(device.memory_total_mib or 1.0, lambda mib: f"{mib / 1024:.0f}G")
    if metric == "temperature_c":
        return Scale(100.0, lambda value: f"{value:.0f}C")
    if metric == "power_w":
        return Scale(device.power_limit_w or 400.0, lambda value: f"{value:.0f}W")
    return Scale(100.0, lambda value: f"{value:.0f}%")


def marks_of(device: Device, metric: str, job: Job | None, threshold: float) -> list[Mark]:
    """Return the lines across a metric's plot: the limit of memory, and the predicted peak.

    `threshold` is the share of a device's memory that the lab lets a job fill.
    """
    if metric != "memory_used_mib" or not device.memory_total_mib:
        return []
    share = threshold if job is None else job.task.threshold(threshold)
    limit = device.memory_total_mib * share
    marks = [Mark(limit, f"limit {format_mib(limit)}")]
    if job is not None and job.estimate_mib:
        beyond = job.estimate_mib > limit
        marks.insert(0, Mark(job.estimate_mib, f"predicted {format_mib(job.estimate_mib)}", beyond))
    return marks


def _figure(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.0f}"


def _count(value: int | None) -> str:
    return "n/a" if value is None else str(value)


THROTTLE = {
    "power-cap": "at its power limit, as a healthy card is at full load",
    "hw-thermal": "so hot that the card itself halves its clock; look at fans and airflow",
    "sw-thermal": "near its temperature limit, so the driver lowers the clock; look at the cooling",
    "power-brake": "limited by the chassis to less power; look at the power supply",
}

CLOCKS = {
    "application-clocks": "clocks that somebody has set for applications hold",
    "sync-boost": "it keeps in step with a group of devices (sync boost)",
    "display-clocks": "a display decides its clocks",
}


def clock_notes(device: Device) -> list[str]:
    """Return what else decides a device's clocks and is no trouble, a sentence each."""
    return [f"{note}: {CLOCKS[note]}." for note in device.clock_notes if note in CLOCKS]


def slowed(device: Device) -> list[str]:
    """Return why a device is slowed now, a sentence each."""
    return [
        f"{reason}: {THROTTLE.get(reason, 'a reason that the driver names')}."
        for reason in device.throttle
    ]


def faults(device: Device) -> list[str]:
    """Return what is wrong with a device, a sentence each, with what to do."""
    sentences = [device.error] if device.error else []
    if device.lost:
        sentences.append(
            "The driver no longer sees it: it fell off the bus. Its host needs a restart."
        )
    if device.health:
        sentences.append(
            msg(
                "Its own tool calls it {word}; the tool says more of it.",
                word=clean(device.health, 60),
            )
        )
    if device.xid:
        from gpuconsole.triage.xids import xid_of

        xid = xid_of(device.xid)
        sentences.append(f"XID {xid.number}: {xid.words}. {xid.advice}")
    if device.ecc_uncorrected:
        sentences.append(
            f"{device.ecc_uncorrected} memory errors that could not be corrected: results may be"
            " wrong. Reset the device; replace it if they come back."
        )
    if device.remap_failed:
        sentences.append("A bad row of memory found no spare one. The device needs repair.")
    elif device.remap_pending:
        sentences.append(
            "A bad row or page of memory is still in use. Reset the device when it is free."
        )
    if device.retired_pages:
        sentences.append(
            f"{device.retired_pages} memory pages were retired after errors; a few are usual on an"
            " old card, a growing number is not."
        )
    return sentences

"""What a person sees: the fleet, an estimate, the queue. Colour only repeats what words say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.cli.output import table
from gpuconsole.core.estimate import Estimate, Memory, Report, Verdict
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_VERDICTS = {
    "fits": ("✓ fits", "green"),
    "tight": ("! tight", "yellow"),
    "will-not-fit": ("✗ will not fit", "red"),
    "will-fail": ("✗ will fail", "red"),
    "unknown": ("? unknown", "yellow"),
}
_STATES = {
    JobState.RUNNING: "green",
    JobState.LAUNCHING: "cyan",
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "red",
    JobState.OOM: "red",
    JobState.UNKNOWN: "yellow",
}
_PARTS = (
    ("parameters", "parameters_mib"),
    ("gradients", "gradients_mib"),
    ("optimizer", "optimizer_mib"),
    ("activations", "activations_mib"),
    ("inputs", "inputs_mib"),
    ("workspace", "workspace_mib"),
    ("= peak of tensors", "tensors_peak_mib"),
    ("held by the allocator", "reserved_mib"),
    ("context", "context_mib"),
    ("= in all", "total_mib"),
)


def _text(words: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(clean(words), style=style)


# --- fleet --------------------------------------------------------------------------------------


def fleet(snapshot: FleetSnapshot, now: float) -> Iterator[RenderableType]:
    """Draw one table of all devices, host by host."""
    if snapshot.simulated:
        yield _text("SIMULATED", "bold reverse")
    shown = table("DEVICE", "MODEL", "USED", "OF", "UTIL", "TEMP", "POWER", "WHO",
                  right=("USED", "OF", "UTIL", "TEMP", "POWER"))  # fmt: skip
    for host in snapshot.hosts:
        shown.add_row(*_host_row(host, now))
        for device in host.devices:
            shown.add_row(*_device_row(device))
    yield shown


def _host_row(host: Host, now: float) -> tuple[Text, ...]:
    style = "bold" if host.state is HostState.UP else "bold red"
    age = host.age_s(now)
    seen = "never seen" if age is None else f"{format_duration(age)} old"
    blank = (_text(""),) * 5
    state = _text(f"{host.state.value}, {seen}", style)
    return _text(host.name, style), state, *blank, _text(host.error, style)


def _device_row(device: Device) -> tuple[Text, ...]:
    model = device.model.removeprefix("NVIDIA ").removeprefix("GeForce ")
    who = sorted({process.user or str(process.pid) for process in device.processes})
    trouble = [*device.throttle, *(["lost"] if device.lost else [])]
    return (
        _text(f"  {device.index}"),
        _text(model),
        _text(format_mib(device.memory_used_mib)),
        _text(format_mib(device.memory_total_mib)),
        _text(_figure(device.utilization, "%")),
        _text(_figure(device.temperature_c, "°C")),
        _text(_figure(device.power_w, "W")),
        _text(" ".join([*who, *(f"[{word}]" for word in trouble)])),
    )


def _figure(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:.0f} {unit}"


# --- preflight ----------------------------------------------------------------------------------


def report(found: Report, *, explain: bool) -> Iterator[RenderableType]:
    """Draw an estimate, its verdicts and what would help."""
    estimate = found.estimate
    yield _text(_headline(estimate), "bold")
    for fault in estimate.errors:
        yield _text(f"✗ {Path(fault.file).name}:{fault.line}: {fault.message}", "red")
    if estimate.memory is not None:
        yield _text(_range(estimate.memory))
        if explain:
            yield _parts(estimate.memory)
    for unknown in estimate.unknowns:
        yield _text(f"? {Path(unknown.file).name}:{unknown.line}: {unknown.reason}", "yellow")
    for ask in estimate.asks:
        example = f"--assume '{ask.name}={ask.example}'"
        yield _text(f"? {ask.question} Answer it with {example}.", "bold yellow")
    if estimate.flags:
        yield _text(f"flags: {', '.join(estimate.flags)}")
    if found.verdicts:
        yield _verdicts(found.verdicts)
        if explain:
            yield from _reasons(found.verdicts)
    for suggestion in found.suggestions:
        yield _text(f"→ {suggestion.text}")
    if explain:
        for sentence in estimate.notes:
            yield _text(f"· {sentence}")


def _headline(estimate: Estimate) -> str:
    source = estimate.batch_source
    line = f", line {source.line}" if source is not None and source.line else ""
    place = f" ({source.kind}{line})" if source is not None else ""
    batch = f"batch {estimate.batch_size}{place}" if estimate.batch_size else "batch unknown"
    return (
        f"{Path(estimate.script).name or 'task'}: {batch}, back end {estimate.backend},"
        f" tier {estimate.tier}, {estimate.coverage:.0%} understood"
    )


def _range(memory: Memory) -> str:
    return (
        f"memory {format_mib(memory.total_mib)}"
        f" (between {format_mib(memory.low_mib)} and {format_mib(memory.high_mib)})"
    )


def _parts(memory: Memory) -> RenderableType:
    shown = table("PART", "MIB", right=("MIB",))
    for words, name in _PARTS:
        shown.add_row(_text(words), _text(f"{getattr(memory, name):.1f}"))
    return shown


def _verdicts(verdicts: Sequence[Verdict]) -> RenderableType:
    shown = table("VERDICT", "ROOM LEFT", "LARGEST BATCH", "HOST", "DEVICE",
                  right=("ROOM LEFT", "LARGEST BATCH"))  # fmt: skip
    for verdict, count in _grouped(verdicts):
        words, style = _VERDICTS[verdict.verdict]
        largest = verdict.max_batch_size
        shown.add_row(
            _text(words, style),
            _text(format_mib(verdict.headroom_mib)),
            _text("n/a" if largest is None else str(largest)),
            _text(verdict.host or "-"),
            _text(f"{count} x {verdict.device}" if count > 1 else verdict.device),
        )
    return shown


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    for verdict, _ in _grouped(verdicts):
        if verdict.reason:
            where = f" of {verdict.host}" if verdict.host else ""
            yield _text(f"· {verdict.device}{where}: {verdict.reason}")


def _grouped(verdicts: Iterable[Verdict]) -> list[tuple[Verdict, int]]:
    """Join the equal verdicts of a host's equal devices."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        room = None if verdict.headroom_mib is None else round(verdict.headroom_mib / 64)
        key = (verdict.host, verdict.device, verdict.verdict, verdict.max_batch_size, room)
        groups.setdefault(key, []).append(verdict)
    return [(group[0], len(group)) for group in groups.values()]


# --- queue --------------------------------------------------------------------------------------


def jobs(listed: Sequence[Job], now: float) -> RenderableType:
    """Draw the queue."""
    shown = table("JOB", "NAME", "USER", "STATE", "WHERE", "FOR", "ESTIMATE", "WHY",
                  right=("FOR", "ESTIMATE"))  # fmt: skip
    for job in listed:
        shown.add_row(
            _text(job.id),
            _text(job.task.name),
            _text(job.user),
            _text(job.state.value, _STATES.get(job.state, "")),
            _text(_where(job)),
            _text(format_duration(_elapsed(job, now))),
            _text(format_mib(job.estimate_mib)),
            _text(job.cause or job.detail),
        )
    return shown


def job(found: Job) -> str:
    """Say in one line where a job stands."""
    where = _where(found)
    place = f" on {where}" if where != "-" else ""
    why = found.cause or found.detail
    return f"{found.id} ({found.task.name}) {found.state.value}{place}{': ' + why if why else ''}"


def _where(job: Job) -> str:
    attempt = job.attempt
    if attempt is None or job.state in (JobState.QUEUED, JobState.HELD):
        return "-"
    indexes = ",".join(str(index) for index in attempt.device_indexes)
    return f"{attempt.host}:{indexes}" if indexes else attempt.host


def _elapsed(job: Job, now: float) -> float | None:
    if job.state in (JobState.QUEUED, JobState.HELD):
        return now - job.submitted_at
    if job.started_at is None:
        return None
    return (job.ended_at or now) - job.started_at

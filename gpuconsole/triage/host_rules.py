"""Rules about a host: does it answer, its clock, its disk, its engine, how jobs end there."""

from __future__ import annotations

from gpuconsole.core.fleet import HostState
from gpuconsole.core.incidents import Severity
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.wording import msg
from gpuconsole.triage.model import Finding, Scene, Signal

DISK_CRITICAL_SHARE = 0.2
"""Of the share of a disk that should be free: below this part of it containers fail to start."""
MOST_STREAKS = 3
"""Reasons why something is set aside that evidence quotes."""
LONGEST = 300
"""Letters of foreign text that evidence quotes."""


def unreachable(scene: Scene) -> Finding | None:
    """The link to a host broke, or never stood."""
    host = scene.host
    # A suspended or resuming host is away because no job needs it yet.
    if host.state is not HostState.DOWN or host.power:
        return None
    age = host.age_s(scene.now)
    heard = "it has never sent data" if age is None else "it stopped sending data"
    signals: list[Signal] = [("link", clean(host.error, LONGEST) or "the link is down")]
    signals.append(("host", heard))
    return Finding(
        "host unreachable",
        tuple(signals),
        "high" if host.error else "medium",
        "no data, and the link reports why" if host.error else "no data arrives",
        jobs=tuple(job.id for job in scene.jobs),
    )


def clock_skew(scene: Scene) -> Finding | None:
    """A host's clock is off: times of its logs and leases cannot be compared."""
    skew = scene.host.clock_skew_s
    if skew is None or abs(skew) < scene.limits.clock_skew:
        return None
    direction = "ahead of" if skew > 0 else "behind"
    words = f"its clock is {format_duration(abs(skew))} {direction} this machine's"
    return Finding(
        f"clock {skew:+.0f} s off",
        (("host", words),),
        "high",
        "measured with each frame; if every host is off, this machine's clock is wrong",
    )


def disk_full(scene: Scene) -> Finding | None:
    """Little room is left on the disk where containers and results live."""
    facts = scene.host.facts
    if not facts.disk_total_mib or facts.disk_free_mib is None:
        return None
    percent = 100.0 * facts.disk_free_mib / facts.disk_total_mib
    if percent >= scene.limits.disk_free:
        return None
    critical = percent < scene.limits.disk_free * DISK_CRITICAL_SHARE
    left = f"{format_mib(facts.disk_free_mib)} of {format_mib(facts.disk_total_mib)} free"
    return Finding(
        "disk nearly full",
        (("disk", f"{left} ({percent:.1f} %)"),),
        "high",
        "read with each frame",
        jobs=tuple(job.id for job in scene.jobs),
        severity=Severity.CRITICAL if critical else Severity.WARNING,
    )


def engine_silent(scene: Scene) -> Finding | None:
    """A host answers, its container engine does not: nothing can start or be stopped there."""
    cause = scene.silent or scene.host.engine_error
    if not cause:
        return None
    return Finding(
        "container engine does not answer",
        (("engine", clean(cause, LONGEST)),),
        "high",
        "the host itself answers",
        jobs=tuple(job.id for job in scene.jobs),
    )


def set_aside(scene: Scene) -> Finding | None:
    """Jobs could not start on a host, one after another: the queue leaves it, or an image on it,
    alone for a while."""
    streaks = [streak for streak in scene.host.faults if streak.set_aside]
    if not streaks:
        return None
    whole = scene.host.aside
    signals: list[Signal] = []
    for streak in streaks[:MOST_STREAKS]:
        said = f"{streak.title}: {streak.message}"
        signals.append(("image" if streak.image else "engine", clean(said, LONGEST)))
        if streak.hint:
            signals.append(("remedy", clean(streak.hint, LONGEST)))
    count = sum(streak.count for streak in streaks)
    times = "once" if count == 1 else f"{count} times in a row"
    return Finding(
        "set aside: jobs cannot start" if whole else "an image cannot be fetched",
        tuple(signals),
        "high",
        f"jobs could not start {times}, and none did",
        jobs=tuple(dict.fromkeys(job for streak in streaks for job in streak.jobs)),
        severity=Severity.CRITICAL if whole else Severity.WARNING,
    )


def devices_unread(scene: Scene) -> Finding | None:
    """The tool that tells of the host's devices hangs, fails, or prints what cannot be read."""
    if not scene.host.error:
        return None
    unread = [
        device
        for device in scene.host.devices
        if device.error
        and not device.lost
        and device.memory_used_mib is None
        and device.utilization is None
    ]
    if not unread:
        return None
    jobs = dict.fromkeys(job for device in unread for job in scene.jobs_on(device))
    return Finding(
        "devices cannot be read",
        (
            ("host", clean(scene.host.error, LONGEST)),
            ("device", f"{len(unread)} of {len(scene.host.devices)} devices say nothing"),
        ),
        "high",
        "the host itself answers",
        jobs=tuple(jobs),
    )


def failing_jobs(scene: Scene) -> Finding | None:
    """Several jobs failed on one host in a short time."""
    since = scene.now - scene.limits.failures_within
    recent = {failure.job: failure for failure in scene.failures if failure.at >= since}
    if len(recent) < scene.limits.failures:
        return None
    scripts = {failure.script for failure in recent.values()}
    signals = tuple(
        ("job", msg("{name} failed: {why_text}", name=failure.name, why_text=failure.cause))
        for failure in list(recent.values())[-4:]
    )
    alike = len(scripts) == 1
    return Finding(
        f"{len(recent)} jobs failed here",
        signals,
        "low" if alike else "medium" if len(scripts) < 3 else "high",
        "all ran the same script, which may be at fault itself"
        if alike
        else f"{len(scripts)} different scripts failed",
        jobs=tuple(recent),
    )

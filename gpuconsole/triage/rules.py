"""The table of all rules, and each in words; the documentation is made from it."""

from __future__ import annotations

import re

from gpuconsole.config import Thresholds
from gpuconsole.core.incidents import Severity
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.triage import device_rules, host_rules, idle_rules, usage_rules
from gpuconsole.triage.model import Rule

__all__ = ["BY_NAME", "DEVICE_RULES", "HOST_RULES", "RULES", "Rule", "described"]

_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING
_TIMES = ("_for", "_within", "_after", "_skew")
_SIZES = ("idle_memory",)

HOST_RULES: tuple[Rule, ...] = (
    Rule(
        "unreachable", "host unreachable", _CRITICAL,
        "The link to a host is down.",
        "unreachable_for", test=host_rules.unreachable, blind=True,
    ),
    Rule(
        "disk-full", "disk nearly full", _WARNING,
        "Less than {disk_free} % of the host's disk is free; critical below a fifth of that.",
        "disk_for", test=host_rules.disk_full,
    ),
    Rule(
        "clock-skew", "clock off", _WARNING,
        "The host's clock differs from this machine's by {clock_skew} or more.",
        "clock_for", test=host_rules.clock_skew,
    ),
    Rule(
        "engine-silent", "container engine does not answer", _WARNING,
        "The host is up and its container engine could not be asked; looked at while jobs wait or"
        " run.",
        "engine_for", test=host_rules.engine_silent,
    ),
    Rule(
        "set-aside", "set aside: jobs cannot start", _CRITICAL,
        "Jobs of this queue could not start on the host one after another, so it takes none for a"
        " while. A warning where only an image cannot be fetched there.",
        "fault_for", test=host_rules.set_aside, blind=True,
    ),
    Rule(
        "devices-unread", "devices cannot be read", _WARNING,
        "The host is up, and the tool that tells of its devices hangs, fails or prints what cannot"
        " be read.",
        "fault_for", test=host_rules.devices_unread,
    ),
    Rule(
        "failing-jobs", "jobs fail on one host", _WARNING,
        "{failures} different jobs failed by themselves on the host within {failures_within}.",
        "fault_for", test=host_rules.failing_jobs,
    ),
)  # fmt: skip

DEVICE_RULES: tuple[Rule, ...] = (
    Rule(
        "gpu-lost", "GPU lost", _CRITICAL,
        "The driver no longer lists the device.",
        "fault_for", device_test=device_rules.lost, needs="lost",
    ),
    Rule(
        "unwell", "device health", _CRITICAL,
        "The vendor's own tool complains of the device. A warning when its word is `Warning`.",
        "fault_for", device_test=device_rules.unwell, needs="health",
    ),
    Rule(
        "xid", "XID", _CRITICAL,
        "The driver reported an error since the agent began to watch. Critical when the number"
        " speaks of the hardware, a warning when it speaks of the program or the driver.",
        "fault_for", device_test=device_rules.xid, needs="xid",
    ),
    Rule(
        "memory-errors", "uncorrected memory errors", _WARNING,
        "The device counts uncorrected ECC errors; critical when they grow while it is watched.",
        "fault_for", device_test=device_rules.memory_errors, needs="ecc_uncorrected",
    ),
    Rule(
        "retired-pages", "memory wears out", _WARNING,
        "{retired_pages} pages of memory or more are out of use, or they grow.",
        "fault_for", device_test=device_rules.retired_pages, needs="retired_pages",
    ),
    Rule(
        "remap-failed", "memory beyond repair", _CRITICAL,
        "A bad row of memory found no spare one.",
        "fault_for", device_test=device_rules.remap_failed, needs="remap_failed",
    ),
    Rule(
        "remap-pending", "memory waits for a reset", _WARNING,
        "A bad row or page of memory goes out of use only with the next reset of the device.",
        "fault_for", device_test=device_rules.remap_pending, needs="remap_pending",
    ),
    Rule(
        "nvlink-down", "NVLink down", _WARNING,
        "Fewer of its NVLinks are up than when it was first seen.",
        "fault_for", device_test=device_rules.nvlink_down, needs="nvlinks_down",
    ),
    Rule(
        "heat", "slowed by heat", _WARNING,
        "The device lowers its clocks for heat in at least half of the last half minute.",
        "slowed_for", device_test=device_rules.slowed_by_heat, slowed=True,
    ),
    Rule(
        "power-brake", "slowed by its power supply", _WARNING,
        "The power supply tells the device to slow down. A power cap at full load is ordinary.",
        "slowed_for", device_test=device_rules.slowed_by_power, needs="throttle",
    ),
    Rule(
        "memory-full", "memory nearly full", _WARNING,
        "{memory_full} % or more of the memory is held; info where one process alone holds it.",
        "memory_full_for", device_test=usage_rules.memory_full, held="memory_full",
    ),
    Rule(
        "idle-memory", "idle process holds memory", _WARNING,
        "Utilisation is at most {idle_utilization} % and a process that is no job of the queue"
        " holds {idle_memory} or more.",
        "idle_for", device_test=usage_rules.idle_memory, needs="processes",
        mean="idle_utilization",
    ),
    Rule(
        "idle-job", "job does nothing", _WARNING,
        "No device of a job is used more than {idle_utilization} %, or all say that they are fully"
        " used at {idle_power} % of their power limit or less, and its script makes no steps.",
        "job_idle_for", device_test=idle_rules.idle_job, claimed=True,
    ),
    Rule(
        "no-steps", "job makes no steps", Severity.INFO,
        "The script of a job has reported steps, but none for {job_idle_for}, and its devices work:"
        " it may evaluate, or hang.",
        "fault_for", device_test=idle_rules.no_steps, claimed=True,
    ),
    Rule(
        "low-load", "low utilisation with full memory", _WARNING,
        "Utilisation is below {low_utilization} % and {low_memory} % or more of the memory is"
        " held.",
        "low_for", device_test=usage_rules.low_load, held="low_memory",
        mean="low_utilization",
    ),
    Rule(
        "foreign-process", "foreign process on a leased device", _WARNING,
        "A process that does not run in the container of the job that holds the device; on a"
        " device leased to another console, one of another user outside of containers. Info where"
        " it was seen there before the job, which was placed beside it.",
        "foreign_for", device_test=usage_rules.foreign_process, needs="processes",
        claimed=True,
    ),
    Rule(
        "straggler", "straggler", _WARNING,
        "A device of a job with several lies {straggler_gap} points of utilisation or more below"
        " the median of the others, which are busy.",
        "straggler_for", device_test=usage_rules.straggler, claimed=True,
    ),
)  # fmt: skip

RULES = (*HOST_RULES, *DEVICE_RULES)
BY_NAME = {rule.name: rule for rule in RULES}


def worded(limits: Thresholds, name: str) -> str:
    """Return a threshold as a person writes it: `30m00s`, `256 MiB`, `97`."""
    value = getattr(limits, name)
    if name.endswith(_TIMES):
        return format_duration(value)
    return format_mib(value) if name in _SIZES else f"{value:g}"


def when(rule: Rule, limits: Thresholds) -> str:
    """Return when a rule holds, with the active thresholds."""
    return re.sub(r"\{(\w+)\}", lambda match: worded(limits, match.group(1)), rule.when)


def described(rule: Rule, limits: Thresholds) -> str:
    """Return when a rule holds, with the active thresholds, and for how long it must."""
    return f"{when(rule, limits)} Held for {worded(limits, rule.holds)}."

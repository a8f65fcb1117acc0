"""Small labs for the tests of this room, and a watch that is driven by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuconsole.config import Thresholds
from gpuconsole.core.containers import Lease
from gpuconsole.core.devices.host_faults import FaultStreak
from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostFacts, HostState
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.triage import Changes, Surroundings, Watch

NOW = 1_800_000_000.0
IMPATIENT = Thresholds.model_validate(
    {name: 0 for name in Thresholds.model_fields if name.endswith("_for")}
)
"""Everything opens at once."""


ASIDE = FaultStreak(
    "a",
    count=3,
    jobs=("ana-x", "ana-y"),
    since=NOW - 60,
    last_at=NOW - 5,
    pauses=1,
    until=NOW + 25,
    title="The GPU runtime failed",
    message="a, while starting x: nvml error",
    hint="Run `nvidia-smi` on the host.",
    closed=True,
)
"""Faults for which host a is set aside."""


def device(index: int = 0, host: str = "a", **more: Any) -> Device:
    """A healthy card at rest."""
    values: dict[str, Any] = {
        "model": "NVIDIA A100-SXM4-40GB",
        "memory_total_mib": 40960.0,
        "memory_used_mib": 4.0,
        "utilization": 0.0,
        "temperature_c": 33.0,
        "power_w": 55.0,
        "ecc_uncorrected": 0,
        "retired_pages": 0,
    }
    return Device(f"GPU-{host}{index}", index, **{**values, **more})


def host(*devices: Device, name: str = "a", at: float = NOW, **more: Any) -> Host:
    """A host that is up and in order."""
    facts = HostFacts(12.0, 64, 5e5, 1e5, 1e6, 5e5)
    values: dict[str, Any] = {
        "state": HostState.UP,
        "facts": facts,
        "sampled_at": at,
        "clock_skew_s": 0.0,
    }
    return Host(name, devices=devices or (device(host=name),), **{**values, **more})


def process(memory_mib: float = 642.0, user: str = "wang", container: str = "") -> DeviceProcess:
    return DeviceProcess(4711, user, memory_mib, "python train.py", container)


def job(
    name: str = "train",
    *uuids: str,
    where: str = "a",
    state: JobState = JobState.RUNNING,
    **more: Any,
) -> Job:
    """A job of Ana's on some devices of one host."""
    attempt = Attempt(
        number=1,
        host=where,
        device_uuids=uuids,
        device_indexes=tuple(range(len(uuids))),
        container_name=f"gpuconsole-{name}",
        container_id=name.ljust(64, "c"),
        created_at=NOW - 500,
        started_at=NOW - 400,
        **more,
    )
    return Job(f"ana-{name}", Task(name, script=f"/p/{name}.py"), "ana", state, NOW - 600,
               attempts=(attempt,))  # fmt: skip


def failed(name: str, at: float, where: str = "a", script: str = "", uuid: str = "") -> Job:
    """A job that failed by itself."""
    made = job(name, uuid or f"GPU-{where}0", where=where, state=JobState.FAILED,
               ended_at=at, exit_code=1, ended_by="own", cause="ValueError: no")  # fmt: skip
    return replace(made, task=replace(made.task, script=script or made.task.script))


@dataclass
class Lab:
    """Pictures one after another, and the watch that sees them."""

    watch: Watch
    now: float = NOW
    jobs: tuple[Job, ...] = ()
    leases: Mapping[str, tuple[Lease, ...]] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    around: Surroundings = field(default_factory=Surroundings)
    opened: list[Incident] = field(default_factory=list)
    closed: list[Incident] = field(default_factory=list)

    def see(self, *hosts: Host, after: float = 0.0) -> Changes:
        """Let time pass, then look; each host's frame is of that moment."""
        self.now += after
        fresh = tuple(replace(one, sampled_at=self.now) for one in hosts)
        return self.look(FleetSnapshot(0, self.now, fresh))

    def look(self, snapshot: FleetSnapshot) -> Changes:
        touched = self.around.take(self.jobs, self.leases, self.silent)
        changes = self.watch.step(snapshot, self.around, touched, self.now)
        self.opened += changes.opened
        self.closed += changes.closed
        return changes

    def hold(self, *hosts: Host, seconds: float, step: float = 2.0) -> None:
        """Show the same for so long."""
        for _ in range(int(seconds / step)):
            self.see(*hosts, after=step)

    @property
    def ids(self) -> list[str]:
        return sorted(self.watch.current())


def lab(limits: Thresholds = IMPATIENT, known: tuple[Incident, ...] = (), **more: Any) -> Lab:
    return Lab(Watch(limits, known), **more)


def found(*hosts: Host, **more: Any) -> dict[str, Incident]:
    """Return what the rules say of a lab at once, by rule."""
    made = lab(**more)
    return {one.rule: one for one in made.see(*hosts).opened}

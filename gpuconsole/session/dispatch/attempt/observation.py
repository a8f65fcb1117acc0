"""What an attempt took, put together from the driver's figures and the reporter's files.

The files are in a container, and its owner may have written anything into them: figures out of
bounds and malformed words do not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast, get_args

from gpuconsole.core.devices.device_sharing import MOST_MIB
from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.fleet import Backend, Device, FleetSnapshot
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.session.dispatch.attempt.outcome import Outcome, find_device_oom

ENOUGH_READINGS = 60
"""Readings after which a mean utilisation is believed: about a minute."""
ENOUGH_STEPS = 2
"""By the end of the second step a training script has seen its peak."""
SURE_STEPS = 20
"""From so many steps on their time is worth keeping."""
_BACKENDS = frozenset(get_args(Backend))
BUILDS = {
    "gpu": "CUDA",
    "dcu": "ROCm",
    "xpu": "Kunlunxin's XPU",
    "cpu": "processors alone",
}
"""How the builds of Paddle are called, by the word that the reporter has for them."""


@dataclass(slots=True)
class Watch:
    """The driver's figures of an attempt's devices, over all readings so far."""

    peak_mib: float = 0.0
    """The most that the container's processes held on one device."""
    others_mib: float | None = None
    """The most that others held on the device meanwhile; None until it is known."""
    capacity_mib: float | None = None
    readings: int = 0
    """Number of readings of the devices' load, while no other process worked there."""
    busy: float = 0.0
    """The mean of these, percent."""

    @property
    def utilization(self) -> float | None:
        """How busy the attempt kept its devices, percent; None until it is known."""
        return self.busy if self.readings >= ENOUGH_READINGS else None

    def see(self, snapshot: FleetSnapshot, attempt: Attempt) -> None:
        """Note one reading."""
        devices = devices_of(snapshot, attempt)
        self.see_busy(devices, attempt)
        for device in devices:
            held = sum(
                process.memory_mib or 0.0
                for process in device.processes
                if process.container_id and process.container_id == attempt.container_id
            )
            self.peak_mib = max(self.peak_mib, held)
            self.capacity_mib = device.memory_total_mib or self.capacity_mib
            if held and device.memory_used_mib is not None:
                others = max(0.0, device.memory_used_mib - held)
                self.others_mib = max(self.others_mib or 0.0, others)

    def see_busy(self, devices: Sequence[Device], attempt: Attempt) -> None:
        """Note one reading of how busy the attempt's devices are."""
        read = own_utilization(attempt, devices)
        if read is not None:
            self.readings += 1
            self.busy += (read - self.busy) / self.readings

    @property
    def free_mib(self) -> float | None:
        """What others left of the device."""
        if self.capacity_mib is None:
            return None
        return max(0.0, self.capacity_mib - (self.others_mib or 0.0))


def own_utilization(attempt: Attempt, devices: Sequence[Device]) -> float | None:
    """Return the mean utilisation (percent) of an attempt's devices; None where it cannot be read
    or others work there too."""
    own = {part.container_id for part in attempt.parts}
    read = []
    for device in devices:
        if device.utilization is None:
            return None
        if any(process.container_id not in own for process in device.processes):
            return None
        read.append(device.utilization)
    return sum(read) / len(read) if read else None


def devices_of(snapshot: FleetSnapshot, attempt: Attempt) -> tuple[Device, ...]:
    """Return the attempt's devices as last seen, on all its hosts."""
    return tuple(
        device
        for part in attempt.parts
        for host in [snapshot.host(part.host)]
        for device in (host.devices if host is not None else ())
        if device.uuid in part.device_uuids
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most memory that a report of an attempt can truthfully claim, MiB."""

    device_mib: float = MOST_MIB
    host_mib: float = MOST_MIB
    """For a process that computes on the processor."""


def bounds_of(snapshot: FleetSnapshot, attempt: Attempt, watch: Watch | None = None) -> Bounds:
    """Return the bounds of an attempt on hosts and devices as last seen."""
    capacity = watch.capacity_mib if watch is not None else None
    devices = [device.memory_total_mib for device in devices_of(snapshot, attempt)]
    hosts = [snapshot.host(part.host) for part in attempt.parts]
    return Bounds(
        _most(devices) or capacity or MOST_MIB,
        _most(host.facts.memory_total_mib for host in hosts if host is not None) or MOST_MIB,
    )


NO_BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class Reported:
    """What the reporter of one attempt says, over all its processes. Sizes in MiB."""

    backend: Backend | None = None
    allocated_mib: float | None = None
    reserved_mib: float | None = None
    current_mib: float | None = None
    steps: int = 0
    step_s: float | None = None
    recent_s: float | None = None
    """Median time of the latest steps alone."""
    batch: int | None = None
    paddle: str = ""
    oom: Outcome | None = None
    fallback: str = ""
    """Why it computed on the processor in place of its device, as a sentence; "" if it did not."""

    @property
    def peak_mib(self) -> float | None:
        """What Paddle took, as far as it was said."""
        return self.reserved_mib if self.reserved_mib is not None else self.allocated_mib


def read_reports(files: Mapping[str, bytes], bounds: Bounds = NO_BOUNDS) -> Reported:
    """Return what the files say together: the process that made the most steps speaks, with the
    highest peaks of all. Memory beyond the bounds is a false figure, and left out."""
    said = (_parsed(content, bounds) for content in files.values())
    reports = [report for report in said if report is not None]
    # A launcher imports Paddle too; what it took is no step's.
    trained = [report for report in reports if report.steps] or reports
    if not trained:
        return Reported()
    speaker = max(trained, key=lambda report: (report.steps, report.allocated_mib or 0.0))
    return Reported(
        backend=speaker.backend,
        allocated_mib=_most(report.allocated_mib for report in trained),
        reserved_mib=_most(report.reserved_mib for report in trained),
        current_mib=_most(report.current_mib for report in trained),
        steps=speaker.steps,
        step_s=speaker.step_s,
        recent_s=speaker.recent_s,
        batch=speaker.batch,
        paddle=speaker.paddle,
        oom=next((report.oom for report in reports if report.oom is not None), None),
        fallback=next((report.fallback for report in (speaker, *reports) if report.fallback), ""),
    )


def named(outcome: Outcome, reported: Reported) -> Outcome:
    """Return the outcome; a failure is `oom` also where only the reporter heard why, and a job
    that never used its device says so."""
    if outcome.state is JobState.FAILED and reported.oom is not None:
        return reported.oom
    if reported.fallback and outcome.state is JobState.FAILED:
        return replace(outcome, cause=f"{outcome.cause} {reported.fallback}".lstrip())
    if reported.fallback and outcome.state is JobState.SUCCEEDED:
        return replace(outcome, cause=f"Warning: {reported.fallback}")
    return outcome


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt's end, with all that is known of it."""

    job: Job
    attempt: Attempt
    outcome: Outcome
    watch: Watch
    reported: Reported
    image: str = ""
    devices: Sequence[Device] = ()

    def observation(self) -> Observation | None:
        """Return what the history keeps of it; None when its peak was not reached."""
        job, said = self.job, self.reported
        document = job.estimate or {}
        nvml = self.watch.peak_mib or None
        ending = self._ending()
        if ending is None or (said.peak_mib is None and nvml is None and ending == "ok"):
            return None
        device = self.devices[0].model if self.devices else ""
        backend = said.backend or cast(Backend, job.task.backend)
        if backend == "gpu" and job.task.backend == "dcu":
            # So Paddle on ROCm calls its devices.
            backend = "dcu"
        memory = _memory(document, backend)
        oom = said.oom if said.oom is not None else self.outcome
        return Observation(
            job=job.id,
            attempt=self.attempt.number,
            at=self.attempt.ended_at or 0.0,
            outcome="oom" if ending == "oom" else "ok",
            digest=str(document.get("digest") or ""),
            script=job.task.script,
            args=job.task.args,
            batch=_batch(document, said),
            devices=max(1, sum(len(part.device_uuids) for part in self.attempt.parts)),
            backend=backend,
            device=device,
            host=self.attempt.host,
            tier=str(document.get("tier") or "") if memory else "",
            predicted_tensors_mib=memory.get("tensors_peak_mib"),
            predicted_reserved_mib=memory.get("reserved_mib"),
            predicted_total_mib=memory.get("total_mib"),
            oom_probability=_chance(document, device),
            allocated_mib=_at_end(said) if ending == "oom" else said.allocated_mib,
            reserved_mib=said.reserved_mib,
            nvml_mib=nvml,
            requested_mib=oom.requested_mib if ending == "oom" else None,
            # A job that may share is stopped by its own bound, not by the device.
            free_mib=None if ending == "oom" and job.task.share else _free(self.watch, oom),
            # Beside another its steps took longer than they would alone.
            step_s=said.step_s if said.steps >= SURE_STEPS and not self.attempt.shared else None,
            steps=said.steps,
            paddle=said.paddle,
            image=self.image,
            utilization=self.watch.utilization,
            user=job.user,
        )

    def _ending(self) -> str | None:
        if self.outcome.state is JobState.OOM:
            return "oom"
        if self.outcome.state is JobState.SUCCEEDED or self.reported.steps >= ENOUGH_STEPS:
            return "ok"
        return None


def _parsed(content: bytes, bounds: Bounds) -> Reported | None:
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    kind = str(said.get("device", "")).partition(":")[0]
    text = said.get("oom")
    most = bounds.host_mib if kind == "cpu" else bounds.device_mib
    return Reported(
        backend=cast(Backend, kind) if kind in _BACKENDS else None,
        allocated_mib=_size(said.get("allocated"), most),
        reserved_mib=_size(said.get("reserved"), most),
        current_mib=_size(said.get("current"), most),
        steps=int(_number(said.get("steps"), 1e12) or 0),
        step_s=_number(said.get("step_s"), 1e6),
        recent_s=_number(said.get("recent_s"), 1e6),
        batch=_whole(said.get("batch")),
        paddle=clean(str(said.get("paddle", "")), 40),
        oom=find_device_oom(text) if isinstance(text, str) else None,
        fallback=_fallback(said),
    )


def _fallback(said: Mapping[str, object]) -> str:
    """Return why a process computed on the processor that was meant for a device, or ""."""
    wanted, built = said.get("fallback"), said.get("built")
    if not isinstance(wanted, str) or wanted not in _BACKENDS or not isinstance(built, str):
        return ""
    visible = _number(said.get("visible"), 1e6)
    backend = built if built in _BACKENDS else clean(built, 40)
    return fallback(wanted, "cpu", backend, None if visible is None else int(visible))


def _number(value: object, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # NaN fails every comparison, and so does a number too large to be a float.
    return float(value) if 0 <= value <= most else None


def _size(value: object, most_mib: float) -> float | None:
    size = _number(value, most_mib * MIB)
    return size / MIB if size else None


def _whole(value: object) -> int | None:
    number = _number(value, 1e9)
    return int(number) if number and number == int(number) else None


def _most(sizes: Iterable[float | None]) -> float | None:
    return max((size for size in sizes if size is not None), default=None)


def _memory(document: Mapping[str, object], backend: Backend) -> dict[str, float]:
    """Return the predicted memory, if it was predicted for where the script then computed."""
    memory = document.get("memory")
    if not isinstance(memory, dict) or document.get("backend") != backend:
        return {}
    return memory


def _batch(document: Mapping[str, Any], said: Reported) -> int | None:
    """Return the batch size: the script's own, as it was read. One that was only asked about need
    not be what the script took: there the loader's counts."""
    source = document.get("batch_source")
    given = isinstance(source, dict) and source.get("kind") == "given"
    return said.batch if given else _whole(document.get("batch_size"))


def _chance(document: Mapping[str, Any], device: str) -> float | None:
    """Return the predicted chance to run out on such a device."""
    for verdict in document.get("verdicts") or ():
        if verdict.get("device") == device:
            return _number(verdict.get("oom_probability"), 1.0)
    return None


def _at_end(said: Reported) -> float | None:
    """Return what tensors held when the allocation failed; the peak may be of another moment."""
    return said.current_mib or said.allocated_mib


def _free(watch: Watch, oom: Outcome) -> float | None:
    """Return what others left of the device. Where the failed allocation was smaller than what
    was available, a limit of the script's own stopped it, and the device tells nothing."""
    if (
        oom.requested_mib is not None
        and oom.available_mib is not None
        and oom.requested_mib <= oom.available_mib
    ):
        return None
    return watch.free_mib


def suits(backend: str, word: str) -> bool:
    """Tell whether Paddle's word for a device means a job's kind of device: `gpu:0`, `XPU`.

    Paddle on ROCm calls its devices GPUs.
    """
    kind = word.partition(":")[0].strip().lower()
    return kind == backend or (backend == "dcu" and kind == "gpu")


def fallback(backend: str, device: str, built: str = "", visible: int | None = None) -> str:
    """Return why a job for a kind of device computes on the processor, as a sentence; "" where it
    does not.

    `device` is Paddle's own word for where it computes, `built` the kind of device that its build
    is for, `visible` how many of those it sees; each "" or None where that is not known.
    """
    if backend == "cpu" or device.partition(":")[0] != "cpu":
        return ""
    begin = f"Paddle computed on the processor though the job has a device for {backend}: "
    if built and built != backend and not suits(backend, built):
        return f"{begin}the image's Paddle is built for {BUILDS.get(built, built)}."
    if visible == 0:
        return f"{begin}it sees no device in its container."
    return f"{begin}the script chose it."

"""A short container on one device that shows what a Paddle process costs there.

The probe in it waits after each phase while the driver's figures are read from here: inside a
container process ids are not those of the driver.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from gpuconsole.core.containers import CALIBRATION, CALIBRATION_FOLDER, Engine, Lease
from gpuconsole.core.devices.device_sharing import MOST_MIB
from gpuconsole.core.devices.run_history import HostCalibration
from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, RefusedError, UnreachableError, UsageError
from gpuconsole.remote import injected
from gpuconsole.remote.injected.context_probe import MARK
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.container_spec import (
    attempt_key,
    container_name,
    container_spec,
)
from gpuconsole.session.dispatch.attempt.vendor_runtime import maker_of, runtime_of
from gpuconsole.state import new_nonce

READING_S = 30.0
"""How long a reading of the driver is waited for after each phase."""
PROCESS_S = 5.0
"""How long the container's processes are waited for once readings come without them."""
SETTLED_S = 0.5
"""A reading counts from so long after a phase on: hosts' clocks are known no better."""
LOOK_EVERY_S = 0.2
STOP_S = 2.0
LAST_LINES = 20
NO_GPU = (
    "The image's Paddle has no GPU build or sees no GPU: it computed on the CPU, where there is no "
    "context (0 MiB). Nothing could be measured on the device."
)
BY_PROCESS = "driver's figure of the container's processes, less what Paddle had reserved"
BY_DEVICE = (
    "driver's figure of the whole device, less what was used before and what Paddle had reserved; "
    "it does not tell processes apart"
)
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Phase:
    """What was seen after one phase, MiB."""

    reserved_mib: float
    process_mib: float | None
    device_mib: float | None
    """The device's memory in use, less what was in use before the container."""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def beside_mib(self) -> float | None:
        """What the process holds beside Paddle's allocator."""
        held = self.process_mib if self.process_mib is not None else self.device_mib
        return None if held is None else max(0.0, held - self.reserved_mib)


async def calibrate_and_store(
    context: Context, host: str, device: int | None, image: str, progress: Progress
) -> HostCalibration:
    """Calibrate as `calibrate` does, and write what was measured into the journal."""
    calibration = await calibrate(context, host, device, image, progress)
    if calibration.context_mib is not None:
        context.journal.calibrate(calibration)
    return calibration


async def calibrate(
    context: Context, host_name: str, index: int | None, image: str, progress: Progress
) -> HostCalibration:
    """Measure one device of a host and return what was found; the journal is not written.

    Without `index` the first unused device is taken, without `image` the host's. The
    device is leased meanwhile; container and lease are gone afterwards, also after an interruption.
    UsageError for a host or device that is not there, RefusedError when the device is in use or
    the probe failed, LeaseTakenError when another console holds it.
    """
    host = _host(context, host_name)
    device = _device(host, index)
    image = image or context.default_image(host_name)
    if not image:
        raise UsageError(
            "No image", msg("{host_name} names no image.", host_name=host_name), "Give --image."
        )
    engine = await context.hosts.engine(host_name)
    progress(
        msg(
            "calibrating {device} (device {index}) of {host} with {image}",
            device=device.model, index=device.index, host=host_name, image=image,
        )
    )  # fmt: skip
    await engine.ensure_image(image, progress)
    run = _Run(context, engine, host, device, image, progress)
    try:
        return await run.measure()
    finally:
        await run.clear()


def _host(context: Context, name: str) -> Host:
    host = context.hosts.snapshot().host(name)
    if host is None:
        names = ", ".join(host.name for host in context.hosts.snapshot().hosts)
        raise UsageError(
            "No such host",
            msg("{name} is not in the inventory.", name=name),
            msg("Known: {known}", known=names),
        )
    if host.state is not HostState.UP:
        raise UnreachableError("Host is not up", host.error or f"{name} is {host.state}.")
    return host


def _device(host: Host, index: int | None) -> Device:
    """Return the device that was named, or the first unused one."""
    if not host.devices:
        raise RefusedError(
            "Nothing to calibrate",
            msg(
                "{name} has no device with readable memory; on a CPU there is no context.",
                name=host.name,
            ),
        )
    if index is None:
        free = [
            device
            for device in host.devices
            if not (device.processes or device.lost or device.divided)
        ]
        if not free:
            raise RefusedError(
                "No device is free",
                msg("Every device of {name} has processes on it.", name=host.name),
                "Wait until one is idle: the figures would not be the probe's alone.",
            )
        return free[0]
    device = next((device for device in host.devices if device.index == index), None)
    if device is None:
        indexes = ", ".join(str(device.index) for device in host.devices)
        raise UsageError(
            "No such device",
            msg("{name} has no device {given_index}.", name=host.name, given_index=index),
            msg("It has {known}", known=indexes),
        )
    if device.processes:
        users = ", ".join(
            sorted({process.user or f"process {process.pid}" for process in device.processes})
        )
        raise RefusedError(
            "Device is busy",
            msg(
                "Device {given_index} of {name} is used by {value}.",
                given_index=index,
                name=host.name,
                value=clean(users, 200),
            ),
            "Wait until it is idle, or choose another with --device.",
        )
    return device


@dataclass(slots=True)
class _Run:
    """One calibration from claim to clearing."""

    context: Context
    engine: Engine
    host: Host
    device: Device
    image: str
    progress: Progress
    _key: str = ""
    _container: str = ""
    _phases: dict[str, Phase] = field(default_factory=dict)
    _begun: dict[str, object] = field(default_factory=dict)
    _last: list[str] = field(default_factory=list)

    async def measure(self) -> HostCalibration:
        """Go through the probe's phases and return what they show."""
        job = await self._claim()
        await self._start(job)
        async for said in self._lines():
            phase = str(said.get("phase"))
            if phase == "begin":
                self._begun = said
            elif phase == "end":
                return self._result()
            else:
                self.progress(msg("reading the driver after: {phase}", phase=phase))
                self._phases[phase] = await self._read(said)
                await self._answer(phase)
        text = "; ".join(self._last[-3:]) or "it said nothing"
        raise RefusedError(
            "Calibration failed",
            msg(
                "The probe on {name} ended before its end: {value}.",
                name=self.host.name,
                value=clean(text, 500),
            ),
            msg("Check that the image {image} has Python and Paddle.", image=self.image),
        )

    async def clear(self) -> None:
        """Remove the container and give the device back, as far as the host can be reached."""
        with contextlib.suppress(UnreachableError, EngineError):
            if self._container:
                await self.engine.stop(self._container, STOP_S)
                await self.engine.remove(self._container)
        with contextlib.suppress(UnreachableError, EngineError):
            if self._key:
                await self.engine.release(self._key, [self.device.uuid])

    async def _claim(self) -> Job:
        nonce = new_nonce()
        job_id = f"{CALIBRATION}{nonce}"
        attempt = Attempt(
            number=1,
            host=self.host.name,
            device_uuids=(self.device.uuid,),
            device_indexes=(self.device.index,),
            container_name=container_name(job_id, 1, nonce),
        )
        job = Job(
            id=job_id,
            task=Task(name="calibrate", image=self.image, backend=self.device.backend),
            user=self.context.user,
            state=JobState.LAUNCHING,
            submitted_at=self.context.clock.now(),
            attempts=(attempt,),
        )
        self._key = attempt_key(job_id, 1)
        lease = Lease(self.device.uuid, job_id, self._key, self.context.user,
                      self.context.journal.id, self.context.clock.now())  # fmt: skip
        try:
            await self.engine.claim([lease])
        except BaseException:
            self._key = ""
            raise
        return job

    async def _start(self, job: Job) -> None:
        assert job.attempt is not None
        account = await self.engine.prepare(CALIBRATION_FOLDER)
        maker = maker_of(job.task, job.attempt, self.host)
        spec = container_spec(
            job,
            job.attempt,
            command=("python", f"{injected.FOLDER}/{injected.PROBE}"),
            image=self.image,
            account=account,
            journal=self.context.journal.id,
            settings=self.context.settings,
            host=self.host,
            runtime=await runtime_of(maker, self.engine),
        )
        self._container = await self.engine.create(replace(spec, network="none"))
        await self._put(injected.pack_probe)
        self.progress("starting the probe")
        await self.engine.start(self._container)

    async def _lines(self) -> AsyncIterator[dict[str, object]]:
        """Give what the probe says, until it ends."""
        rest = b""
        async with contextlib.aclosing(
            self.engine.logs(self._container, follow=True)  # type: ignore[type-var]
        ) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                # A probe that floods is no probe of ours.
                rest = rest[-65536:]
                for line in lines:
                    said = self._parsed(line.decode(errors="replace"))
                    if said is not None:
                        yield said

    def _parsed(self, line: str) -> dict[str, object] | None:
        if not line.startswith(MARK):
            self._last = [*self._last, clean(line.strip(), 200)][-LAST_LINES:]
            return None
        try:
            said = json.loads(line[len(MARK) :])
        except (ValueError, RecursionError):
            return None
        return said if isinstance(said, dict) else None

    async def _read(self, said: dict[str, object]) -> Phase:
        """Return the driver's figures of a reading that was taken after the phase began."""
        clock = self.context.clock
        since = clock.now() + SETTLED_S
        deadline = since + READING_S
        process = device = None
        while clock.now() < deadline and process is None:
            host = self.context.hosts.snapshot().host(self.host.name)
            if host is not None and (host.sampled_at or 0.0) > since:
                process, device = self._figures(host)
                deadline = min(deadline, since + PROCESS_S)
            await clock.sleep(LOOK_EVERY_S)
        return Phase(_mib(said.get("reserved")), process, device, said)

    def _figures(self, host: Host) -> tuple[float | None, float | None]:
        for device in host.devices:
            if device.uuid == self.device.uuid:
                held = [
                    process.memory_mib
                    for process in device.processes
                    if process.container_id == self._container and process.memory_mib
                ]
                before, now = self.device.memory_used_mib, device.memory_used_mib
                more = None if before is None or now is None else max(0.0, now - before)
                return (sum(held) or None), more
        return None, None

    async def _answer(self, phase: str) -> None:
        await self._put(lambda path: injected.pack_file(path, f"go-{phase}"))

    async def _put(self, pack: Callable[[Path], None]) -> None:
        with tempfile.TemporaryDirectory(prefix="gpuconsole-") as folder:
            packed = Path(folder) / "probe.tar"
            pack(packed)
            await self.engine.put(self._container, packed, injected.FOLDER)

    def _result(self) -> HostCalibration:
        calibration = HostCalibration(
            host=self.host.name,
            device=self.device.model,
            at=self.context.clock.now(),
            method=NO_GPU,
            uuid=self.device.uuid,
            driver=self.host.facts.driver_version,
            image=self.image,
            paddle=clean(str(self._begun.get("paddle", "")), 40),
        )
        whole = self._phases.get("convolution")
        if whole is None:
            return calibration
        has_process_figure = whole.process_mib is not None
        if not has_process_figure and not whole.device_mib:
            return replace(
                calibration,
                method="The driver reported neither memory of processes nor use of the device.",
                workspace_mib=_mib(whole.facts.get("workspace")),
            )
        return replace(
            calibration,
            method=BY_PROCESS if has_process_figure else BY_DEVICE,
            context_mib=whole.beside_mib,
            first_mib=self._beside("tensor"),
            matmul_mib=self._beside("matmul"),
            granularity_mib=self._granularity(),
            workspace_mib=_mib(whole.facts.get("workspace")),
        )

    def _beside(self, phase: str) -> float | None:
        figures = self._phases.get(phase)
        return None if figures is None else figures.beside_mib

    def _granularity(self) -> float | None:
        """Return by how much the process grew for each of the probe's small chunks."""
        before, after = self._phases.get("convolution"), self._phases.get("chunks")
        if before is None or after is None:
            return None
        count = after.facts.get("chunks")
        start = before.process_mib if before.process_mib is not None else before.device_mib
        end = after.process_mib if after.process_mib is not None else after.device_mib
        if not isinstance(count, int) or count < 1 or start is None or end is None or end <= start:
            return None
        return (end - start) / count


def _mib(value: object) -> float:
    """Return bytes that the probe reported in MiB; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) / MIB if 0 <= value <= MOST_MIB * MIB else 0.0

"""The jobs with which the demo opens: submitted like anyone's, so that every state is seen."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Protocol

from gpuconsole.core.engines.terminals import SESSION
from gpuconsole.core.jobs import Job, Task
from gpuconsole.core.services import SERVICE, HealthCheck, Service
from gpuconsole.simulated_lab.container_script import (
    GB_PER_SAMPLE_ENV,
    NEED_ENV,
    NEED_PER_SAMPLE_ENV,
    TFLOP_PER_SAMPLE_ENV,
)

RIVALS = ("chen", "wang")
"""Users who compete with the user of the demo."""


class Submits(Protocol):
    """What the demo needs of a session."""

    async def submit(self, task: Task, *, force: bool = False) -> Job:
        """Preflight a task and queue it."""
        ...

    async def serve(self, task: Task, *, force: bool = False) -> tuple[Job, ...]:
        """Preflight a service and queue its replicas."""
        ...

    async def open_session(self, task: Task, memory_mib: float | None = None) -> Job:
        """Queue a session."""
        ...


def example(name: str) -> Path:
    """Return the path of a script that ships with the console."""
    return Path(str(resources.files("gpuconsole"))) / "data" / "examples" / name


_BASE = ("--hidden", "768", "--layers", "12", "--heads", "12", "--length", "256")
_LARGE = ("--hidden", "1024", "--layers", "12", "--heads", "16", "--length", "512")
_SMALL = ("--hidden", "768", "--layers", "4", "--heads", "12", "--length", "256")
_BASE_WORK = {TFLOP_PER_SAMPLE_ENV: "0.138", GB_PER_SAMPLE_ENV: "2.76"}
_SMALL_WORK = {TFLOP_PER_SAMPLE_ENV: "0.046", GB_PER_SAMPLE_ENV: "0.94"}
_LARGE_WORK = {TFLOP_PER_SAMPLE_ENV: "0.5034", GB_PER_SAMPLE_ENV: "9.2"}
"""What reading says of these scripts: a test holds it against that."""
SWEEP_STEPS = 2500
"""A minute and a half on the devices that the sweeps are for."""


def main_task() -> Task:
    """Return the demo's main job: a small convolutional network that fits anywhere."""
    return _task("mnist-cnn", "mnist_cnn.py", "--steps", "120")


def demo_tasks() -> tuple[Task, ...]:
    """Return the tasks with which the demo opens, in the order in which they are submitted."""
    return (
        replace(_small("smoke-test", batch=8, steps=360), priority=5),
        replace(
            _task(
                "encoder-base", "text_encoder.py", *_BASE, "--batch-size", "32", "--steps", "2000"
            ),
            preferred_devices=("A100-SXM4-40GB",),
            env=_BASE_WORK,
        ),
        replace(
            _task(
                "encoder-large", "text_encoder.py", *_LARGE, "--batch-size", "16", "--steps", "900"
            ),
            env=_LARGE_WORK,
        ),
        # Its estimate is right for what the script says, and what it takes is far more: 26.4 GiB
        # with batch size 32, 19.9 GiB with 24.
        replace(
            _task("runs-out", "text_encoder.py", *_BASE, "--batch-size", "32", "--steps", "60"),
            labels={"pool": "dev"},
            env={NEED_ENV: "500", NEED_PER_SAMPLE_ENV: "830", **_BASE_WORK},
        ),
        replace(_small("on-ascend", batch=32, steps=12_000), backend="npu"),
        replace(
            _task("eight-cards", "text_encoder.py", *_BASE, "--batch-size", "64"),
            devices=8,
            labels={"pool": "train"},
            env=_BASE_WORK,
        ),
        # Fits nowhere: it waits, and says why.
        _task("too-big", "too_big.py"),
        *_sweep(),
        # The host of this one falls out of sight for a minute now and then.
        replace(
            _small("on-a-shaky-host", batch=8, steps=2000),
            labels={"pool": "serve"},
            priority=-10,
        ),
    )


def demo_service() -> Task:
    """Return a service of two replicas that answers with digits; it goes to two hosts."""
    task = _task("digits", "serve_mnist.py", "--port", "8040")
    service = Service(8040, replicas=2, check=HealthCheck("http", path="/health"))
    return replace(task, kind=SERVICE, service=service)


def demo_shell() -> Task:
    """Return a shell on a GPU of the host that trains."""
    return Task("shell", kind=SESSION, labels={"pool": "train"}, retries=0, folder="")


def rival_tasks(user: str) -> tuple[Task, ...]:
    """Return the tasks of another user, who wants the devices of the demo's own sweep too."""
    return _sweep(f"{user}-sweep", ("0.2", "0.02", "0.002", "0.0002"))


def _sweep(
    name: str = "sweep", rates: tuple[str, ...] = ("0.3", "0.1", "0.03", "0.01", "0.003", "0.001")
) -> tuple[Task, ...]:
    """Return a sweep that is longer than its devices are many: the rest waits, with a start."""
    return tuple(
        replace(
            _small(f"{name}[lr={rate}]", "--lr", rate, batch=32, steps=SWEEP_STEPS),
            backend="npu",
            exclusive=True,
            sweep=name,
            run_time_s=90.0,
        )
        for rate in rates
    )


async def submit_demo_jobs(queue: Submits, rival: str = "") -> tuple[Job, ...]:
    """Queue the demo's jobs, its service and its session, or the jobs of a rival."""
    if rival:
        return tuple([await queue.submit(task, force=True) for task in rival_tasks(rival)])
    first, *others = demo_tasks()
    return (
        await queue.submit(first, force=True),
        *await queue.serve(demo_service(), force=True),
        await queue.open_session(demo_shell()),
        *[await queue.submit(task, force=True) for task in others],
    )


def _small(name: str, *args: str, batch: int, steps: int) -> Task:
    """Return a job of a small encoder, with steps that take as long as preflight says."""
    sizes = ("--batch-size", str(batch), "--steps", str(steps))
    return replace(_task(name, "text_encoder.py", *_SMALL, *sizes, *args), env=_SMALL_WORK)


def _task(name: str, script: str, *args: str) -> Task:
    path = example(script)
    return Task(name=name, script=str(path), args=args, project=str(path.parent))

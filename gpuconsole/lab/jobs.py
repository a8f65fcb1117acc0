"""The jobs with which the demo opens: submitted like anyone's, so that every state is seen."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Protocol

from gpuconsole.core.jobs import Job, Task
from gpuconsole.lab.plan import NEED_ENV


class Submits(Protocol):
    """What the demo needs of a session."""

    async def submit(self, task: Task, *, force: bool = False) -> Job:
        """Preflight a task and queue it."""
        ...


def example(name: str) -> Path:
    """Return the path of a script that ships with the console."""
    return Path(str(resources.files("gpuconsole"))) / "data" / "examples" / name


def main_task() -> Task:
    """Return the demo's main job: a small convolutional network that fits anywhere."""
    return _task("mnist-cnn", "mnist_cnn.py", "--epochs", "2")


def demo_tasks() -> tuple[Task, ...]:
    """Return the tasks with which the demo opens, in the order in which they are submitted."""
    return (
        replace(_task("smoke-test", "mnist_cnn.py", "--epochs", "1"), priority=5),
        replace(
            _task("long-run", "text_encoder.py", "--epochs", "40"),
            preferred_devices=("A100-SXM4-40GB",),
        ),
        # Its estimate is right for what the script says, and what it takes is far more.
        replace(
            _task("runs-out", "text_encoder.py", "--epochs", "3"),
            labels={"pool": "dev"},
            env={NEED_ENV: "60000"},
        ),
        replace(_task("on-ascend", "mnist_cnn.py", "--epochs", "25"), backend="npu"),
        replace(
            _task("eight-cards", "text_encoder.py", "--epochs", "10"),
            devices=8,
            labels={"pool": "train"},
        ),
        replace(
            _task("after-hours", "mnist_cnn.py", "--epochs", "15"),
            labels={"pool": "serve"},
            priority=-10,
        ),
    )


async def submit_demo_jobs(session: Submits) -> tuple[Job, ...]:
    """Queue the demo's jobs through a session."""
    return tuple([await session.submit(task, force=True) for task in demo_tasks()])


def _task(name: str, script: str, *args: str) -> Task:
    path = example(script)
    return Task(name=name, script=str(path), args=args, project=str(path.parent))

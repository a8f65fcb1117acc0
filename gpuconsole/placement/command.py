"""The command that a container runs, as an argument list."""

from __future__ import annotations

from pathlib import PurePosixPath

from gpuconsole.core.jobs import Task


def launch_command(task: Task, devices: int, python: str = "python") -> tuple[str, ...]:
    """Return the command for a task on a number of devices.

    The script is named relative to the project folder, which is the container's working folder.
    Several devices go through Paddle's launcher, one process each; inside the container they
    count from 0, whatever their numbers on the host.
    """
    script = _inside(task)
    if devices <= 1:
        return (python, script, *task.args)
    numbers = ",".join(str(number) for number in range(devices))
    launcher = ("-m", "paddle.distributed.launch", "--devices", numbers)
    return (python, *launcher, script, *task.args)


def _inside(task: Task) -> str:
    script = PurePosixPath(task.script)
    if task.project and script.is_relative_to(task.project):
        return str(script.relative_to(task.project))
    return script.name if script.is_absolute() else str(script)

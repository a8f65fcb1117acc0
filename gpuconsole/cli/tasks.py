"""A task from the command line: the task file first, then what the options say otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuconsole.cli.options import script_args
from gpuconsole.core.jobs import Mount, Task
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    # Generic only since click 8.4, and only for type checkers of interest.
    _Parameter = click.ParamType[Any]
else:
    _Parameter = click.ParamType

Command = TypeVar("Command", bound=Callable[..., Any])

SCRIPT_LIMIT_MIB = 4.0
"""A Python file larger than this is data, not a script."""


class Pair(_Parameter):
    """NAME=VALUE."""

    name = "name=value"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first `=`."""
        name, equals, content = str(value).partition("=")
        if not equals or not name.strip() or "\0" in str(value):
            self.fail(f"{value!r} is not NAME=VALUE", parameter, context)
        return name.strip(), content


class MountType(_Parameter):
    """SRC:DST[:ro|rw], both absolute paths; read-only unless `rw` is said."""

    name = "src:dst[:ro|rw]"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Mount:
        """Read a mount."""
        parts = str(value).split(":")
        mode = parts.pop() if len(parts) == 3 else "ro"
        if len(parts) != 2 or mode not in ("ro", "rw"):
            self.fail(f"{value!r} is not SRC:DST, SRC:DST:ro or SRC:DST:rw", parameter, context)
        for path in parts:
            if not path.startswith("/"):
                self.fail(f"{path!r} is not an absolute path", parameter, context)
        return Mount(parts[0], parts[1], read_only=mode == "ro")


class DeviceCount(_Parameter):
    """A number of devices, or `auto`."""

    name = "n|auto"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> int:
        """Read a count; `auto` is 0 here, because None means that nothing was said."""
        if value == "auto":
            return 0
        if not str(value).isdecimal() or not 1 <= int(value) <= 1024:
            self.fail(f"{value!r} is neither a number from 1 to 1024 nor auto", parameter, context)
        return int(value)


class SizeType(_Parameter):
    """A size: `8g`, `512m`, or MiB without a unit."""

    name = "size"
    _UNITS: Mapping[str, float] = {"": 1.0, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        """Return MiB."""
        if isinstance(value, float):
            return value
        text = str(value).strip().lower().removesuffix("b").removesuffix("i")
        unit = text[-1:] if text[-1:] in ("m", "g", "t") else ""
        try:
            size = float(text.removesuffix(unit)) * self._UNITS[unit]
        except ValueError:
            size = 0.0
        if not 0.0 < size < 2**40:
            self.fail(f"{value!r} is not a size such as 8g, 512m or 4096 (MiB)", parameter, context)
        return size


BATCH = click.IntRange(min=1)


def task_options(command: Command) -> Command:
    """Give a command the script, the task file, and what both preflight and submit need."""
    settings: list[Callable[[Any], Any]] = [
        click.argument("script", required=False, type=click.Path(path_type=Path)),
        click.option(
            "--task", "task_file", type=click.Path(path_type=Path), metavar="FILE",
            help="Task file (YAML); options win over it.",
        ),
        click.option(
            "--batch-size", type=BATCH, metavar="N", help="Samples a step on one device."
        ),
        click.option(
            "--backend",
            type=click.Choice(["gpu", "npu", "xpu", "dcu", "cpu"]),
            help="Kind of device; gpu unless the task says otherwise.",
        ),
        click.option(
            "--assume", type=Pair(), multiple=True, metavar="NAME=VALUE",
            help="Answer a question that preflight asked.",
        ),
        click.option(
            "--project", type=click.Path(path_type=Path), metavar="DIR",
            help="Folder that is shipped; else the script's own.",
        ),
    ]  # fmt: skip
    for setting in reversed(settings):
        command = setting(command)
    return command


def build_task(
    script: Path | None,
    task_file: Path | None,
    *,
    assume: Sequence[tuple[str, str]] = (),
    project: Path | None = None,
    env: Sequence[tuple[str, str]] = (),
    label: Sequence[tuple[str, str]] = (),
    mount: Sequence[Mount] = (),
    devices: int | None = None,
    **changes: Any,
) -> Task:
    """Return the task; UsageError when there is no script, or it cannot be read."""
    if script is None and task_file is None:
        raise UsageError(
            "Nothing to look at", "Neither a script nor --task FILE is given.", "Name a script."
        )
    said = {name: value for name, value in changes.items() if value is not None}
    if project is not None:
        said["project"] = str(project)
    if script is not None:
        readable_script(script)
    task = _described(script, task_file, said)
    if task.script and script is None:
        readable_script(Path(task.script))
    return dataclasses.replace(
        task,
        # 0 says `auto`, which a task writes as None.
        devices=task.devices if devices is None else devices or None,
        env={**task.env, **dict(env)},
        labels={**task.labels, **dict(label)},
        assumptions={**task.assumptions, **dict(assume)},
        mounts=(*task.mounts, *mount),
    )


def readable_script(path: Path) -> None:
    """Raise UsageError when the path is no script that can be read."""
    whole = path.expanduser().absolute()
    try:
        size = whole.stat().st_size
        if not whole.is_file():
            raise UsageError("Not a script", f"{path} is no file.", "Name a Python file.")
        whole.open("rb").close()
    except OSError as error:
        raise UsageError(
            "The script cannot be read", f"{path}: {error.strerror or error}.", "Check the path."
        ) from error
    if size > SCRIPT_LIMIT_MIB * 2**20:
        raise UsageError(
            "The script is too large",
            f"{path} has {size / 2**20:.0f} MiB; a script may have {SCRIPT_LIMIT_MIB:.0f}.",
            "Name the Python file that trains, and mount data with --mount.",
        )


def _described(script: Path | None, task_file: Path | None, said: Mapping[str, Any]) -> Task:
    from gpuconsole.taskfile import load_task, task_from_script

    if task_file is not None:
        return load_task(task_file, script=script, args=script_args() or None, **said)
    assert script is not None
    return task_from_script(script, script_args(), **said)

"""A task from the command line: the task file first, then what the options say otherwise."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from gpuconsole.cli.options import script_args
from gpuconsole.core.estimate import Measure
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Mount, Task
from gpuconsole.core.submission.env_file import own_value, read_env_file
from gpuconsole.core.submission.script_edits import EditKind
from gpuconsole.core.tasks import require_rules, task_from_script
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.taskfile import MountSection

    # Generic only since click 8.4, and only for type checkers of interest.
    _Parameter = click.ParamType[object]
else:
    _Parameter = click.ParamType

Command = TypeVar("Command", bound=Callable[..., object])
Changes = tuple[tuple[EditKind, int], ...]
"""What is changed in the shipped copy of a script, each with its number of steps."""


class Pair(_Parameter):
    """NAME=VALUE."""

    name = "name=value"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first `=`."""
        name, equals, content = str(value).partition("=")
        if not equals or not name.strip() or "\0" in str(value):
            self.fail(f"{value!r} is not NAME=VALUE", parameter, context)
        return name.strip(), content


class Variable(_Parameter):
    """NAME=VALUE, or NAME for the value of one's own variable, which is secret."""

    name = "name[=value]"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, str | None]:
        """Split at the first `=`; None means no value."""
        name, equals, content = str(value).partition("=")
        if not name.strip() or "\0" in str(value):
            # The value is not quoted: it may be a password that was put in the wrong place.
            self.fail("expected NAME=VALUE, or NAME alone", parameter, context)
        return name.strip(), content if equals else None


class Label(_Parameter):
    """NAME=VALUE, or NAME for any value."""

    name = "name[=value]"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first `=`, if there is one."""
        name, _, content = str(value).partition("=")
        if not name.strip() or "\0" in str(value):
            self.fail(f"{value!r} is not NAME or NAME=VALUE", parameter, context)
        return name.strip(), content


class Answer(_Parameter):
    """NAME=VALUE where NAME is an expression of the script, which may hold `=` itself."""

    name = "name=value"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, str]:
        """Split behind the expression."""
        from gpuconsole.preflight import split

        try:
            return split(str(value))
        except UsageError as error:
            self.fail(f"{error.message} {error.hint}", parameter, context)


class TaskValue(_Parameter):
    """A value under a key of the task file, read by the same rules."""

    def __init__(self, key: str, name: str, wrap: Callable[[str], object] = str) -> None:
        """`wrap` makes of the word what the key holds."""
        self.name = name
        self._key = key
        self._wrap = wrap

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        """Return what a task file with this value would hold."""
        from pydantic import ValidationError

        from gpuconsole.taskfile import TaskSection

        try:
            return getattr(TaskSection.model_validate({self._key: self._wrap(value)}), self._key)
        except ValidationError as error:
            wrong = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            self.fail(f"{value!r}: {wrong}", parameter, context)


class DeviceCount(_Parameter):
    """A number of devices, or `auto`."""

    name = "n|auto"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> int:
        """Read a count; `auto` is 0 here, because None means that nothing was said."""
        if value == "auto":
            return 0
        if not str(value).isdecimal() or not 1 <= int(value) <= 64:
            self.fail(f"{value!r} is neither a number from 1 to 64 nor auto", parameter, context)
        return int(value)


class Change(_Parameter):
    """A change for the shipped copy: amp, recompute, accumulate or accumulate=N."""

    name = "change"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, int]:
        """Return the kind, and over how many batches gradients are accumulated; 0 leaves that to
        preflight."""
        if isinstance(value, tuple):
            return value[0], int(value[1])
        kind, equals, steps = str(value).partition("=")
        if kind not in CHANGES or (equals and (kind != "accumulate" or not steps.isdecimal())):
            self.fail(f"{value!r} is not one of amp, recompute, accumulate, accumulate=N",
                      parameter, context)  # fmt: skip
        return kind, int(steps or 0)


CHANGES = ("accumulate", "amp", "recompute")
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
            type=click.Choice(get_args(Backend)),
            help="Kind of device; gpu unless the task says otherwise.",
        ),
        click.option(
            "--assume", type=Answer(), multiple=True, metavar="NAME=VALUE",
            help="Answer a question of preflight: 'len(vocab)=30000', 'x=[N, 128] int64'. "
            "Remembered for the script; NAME= forgets it.",
        ),
        click.option(
            "--measure",
            type=click.Choice(get_args(Measure)),
            help="Whether to run it in a sandbox if its memory cannot be read: at once, "
            "after a question, or not at all.",
        ),
        click.option(
            "--yes", is_flag=True,
            help="Agree without a question that the script runs for a few steps, in a sandbox on "
            "this machine or on a host, if its memory cannot be read.",
        ),
        click.option(
            "--project", type=click.Path(path_type=Path), metavar="DIR",
            help="Folder that is shipped; else the script's own.",
        ),
    ]  # fmt: skip
    for setting in reversed(settings):
        command = setting(command)
    return command


def apply_option(command: Command) -> Command:
    """Add the option for changes of the shipped copy."""
    return click.option(
        "--apply", "changes", type=Change(), multiple=True, metavar="CHANGE",
        help="Change the shipped copy where the script's shape leaves no doubt: amp, "
        "recompute, accumulate or accumulate=N. Your file stays as it is.",
    )(command)  # fmt: skip


def build_task(
    script: Path | None,
    task_file: Path | None,
    *,
    assume: Sequence[tuple[str, str]] = (),
    project: Path | None = None,
    ship: Sequence[Path] = (),
    env: Sequence[tuple[str, str | None]] = (),
    env_file: Sequence[Path] = (),
    label: Sequence[tuple[str, str]] = (),
    not_label: Sequence[tuple[str, str]] = (),
    after: Sequence[str] = (),
    stop_if: Sequence[str] = (),
    mount: Sequence[tuple[MountSection, ...]] = (),
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
    require_rules(stop_if)
    task = _described(script, task_file, said)
    plain, secrets = variables(env, env_file, task)
    return dataclasses.replace(
        task,
        # 0 says `auto`, which a task writes as None.
        devices=task.devices if devices is None else devices or None,
        assumptions={**task.assumptions, **dict(assume)},
        ship=(*task.ship, *map(str, ship)),
        env=plain,
        secrets=secrets,
        labels={**task.labels, **dict(label)},
        anti_labels={**task.anti_labels, **dict(not_label)},
        after=(*task.after, *after),
        stop_if=(*task.stop_if, *stop_if),
        mounts=(
            *task.mounts,
            *(Mount(each.source, each.target, each.read_only) for (each,) in mount),
        ),
    )


def secrets_in(files: Sequence[Path]) -> dict[str, str]:
    """Return variables of files, read by `core.submission.env_file`; of equal names the last."""
    values: dict[str, str] = {}
    for path in files:
        values.update(read_env_file(path, os.environ))
    return values


def variables(
    said: Sequence[tuple[str, str | None]], files: Sequence[Path] = (), task: Task | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the plain and the secret variables of a task: what files say goes before the task
    file, and what the command line says before both."""
    plain, secrets = (dict(task.env), dict(task.secrets)) if task is not None else ({}, {})
    for name, value in secrets_in(files).items():
        plain.pop(name, None)
        secrets.pop(name, None)
        # An empty value is none that could be secret.
        (secrets if value else plain)[name] = value
    for name, given in said:
        plain.pop(name, None)
        secrets.pop(name, None)
        if given is None:
            secrets[name] = own_value(name, os.environ)
        else:
            plain[name] = given
    return plain, secrets


def _described(script: Path | None, task_file: Path | None, said: Mapping[str, object]) -> Task:
    if task_file is not None:
        from gpuconsole.taskfile import load_task

        return load_task(task_file, script=script, args=script_args() or None, **said)
    assert script is not None
    return task_from_script(script, script_args(), **said)

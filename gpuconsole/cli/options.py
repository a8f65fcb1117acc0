"""Options that every command knows, before its name and after it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.user_dirs import (
    DEBUG_VARIABLE,
    READ_ONLY_VARIABLE,
    STATE_VARIABLE,
    log_dir,
)
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., object])


@dataclass(slots=True)
class Options:
    """What was said about where and how, wherever on the line it stood."""

    inventory: Path | None = None
    state: Path | None = None
    read_only: bool = False
    as_json: bool = False
    log: Path | None = None
    """What `--debug` writes."""


def options() -> Options:
    """Return the options of the running command."""
    current = click.get_current_context().find_root().obj
    assert isinstance(current, Options)
    return current


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Set the option for the whole line; the command line takes precedence over the environment."""
    root = context.find_root()
    if not isinstance(root.obj, Options):
        root.obj = Options()
    name = str(parameter.name)
    from_environment = context.get_parameter_source(name) is ParameterSource.ENVIRONMENT
    if value and not (from_environment and getattr(root.obj, name)):
        setattr(root.obj, name, value)


def _begin_log(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Write a log from here on."""
    root = context.find_root()
    if not wanted or (isinstance(root.obj, Options) and root.obj.log):
        return
    from gpuconsole import __version__, debug_log

    if not isinstance(root.obj, Options):
        root.obj = Options()
    try:
        root.obj.log = debug_log.begin(log_dir(), sys.argv[1:], __version__)
    except OSError as error:
        raise UsageError(
            "No log",
            msg("{path} cannot be written: {why}.", path=log_dir(), why=error.strerror or "?"),
            "Leave --debug out, or make room there.",
        ) from error


def _option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(*names, expose_value=False, is_eager=True, callback=_keep, **settings)


def rank_option(command: Command) -> Command:
    """Give a command --rank, which names a host of a gang."""
    help_ = "Of a gang: the number of the host."
    option = click.option("--rank", type=click.IntRange(min=0), default=0, metavar="N", help=help_)
    return option(command)


def global_options(command: Command) -> Command:
    """Give a command --inventory, --state, --read-only and --debug."""
    command = click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_begin_log,
        envvar=DEBUG_VARIABLE,
        help=f"Write a log for reports of faults, without secrets; also with ${DEBUG_VARIABLE}=1.",
    )(command)
    command = _option(
        "--read-only",
        "read_only",
        is_flag=True,
        envvar=READ_ONLY_VARIABLE,
        help=f"Refuse every change; also with ${READ_ONLY_VARIABLE}=1.",
    )(command)
    command = _option(
        "--state",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        envvar=STATE_VARIABLE,
        help=f"Folder of the queue and its logs; else ${STATE_VARIABLE}, else your own folder.",
    )(command)
    return _option(
        "--inventory",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Inventory file; else $GPUCONSOLE_INVENTORY, else your own inventory.",
    )(command)


def json_option(command: Command) -> Command:
    """Give a command --json."""
    return _option(
        "--json", "as_json", is_flag=True, help="Print one JSON document, also for an error."
    )(command)


def common(command: Command) -> Command:
    """Give a command everything above."""
    return global_options(json_option(command))


class ScriptCommand(click.Command):
    """A command that passes the words after `--` to the user's script."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Set the script's own arguments aside before options are read."""
        if "--" in args:
            place = args.index("--")
            context.meta["gpuconsole.script_args"] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(context, args)

    def collect_usage_pieces(self, context: click.Context) -> list[str]:
        """Show where the script's own arguments go."""
        return [*super().collect_usage_pieces(context), "[-- ARGS...]"]


def script_args() -> tuple[str, ...]:
    """Return the words after `--`."""
    words: tuple[str, ...] = click.get_current_context().meta.get("gpuconsole.script_args", ())
    return words

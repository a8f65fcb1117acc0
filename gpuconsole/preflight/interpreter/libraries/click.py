"""click: options declared around a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Stop,
    Value,
)
from gpuconsole.preflight.interpreter.libraries.argparse import Parser
from gpuconsole.preflight.interpreter.libraries.command_line import Option
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib.no_effect import Silent

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


class Command(Native):
    """A function with options: called without arguments it takes the job's."""

    label = "command"

    def __init__(self) -> None:
        super().__init__()
        self.function: Value = None
        self.options: list[Option] = []
        self.commands: dict[str, Value] = {}
        self.finished = False
        """Whether `@click.command()` was put around it; before that it is a function."""
        self.with_context = False

    @exposed.prop("callback")
    def get_callback(self, run: Run) -> Value:
        """Give the function."""
        return self.function

    @exposed.prop("name")
    def get_name(self, run: Run) -> Value:
        """Give the name."""
        return getattr(self.function, "name", "")

    def call(self, interp: Interpreter, *args: Value, **kwargs: Value) -> Value:
        """Run with the job's arguments; click ends the script after that."""
        if not self.finished:
            return interp.call(self.function, list(args), kwargs)
        words = list(kwargs.get("args") or (args[0] if args else interp.run.args))
        self.run_with(interp, words)
        if kwargs.get("standalone_mode", True) is not False:
            raise Stop
        return None

    def run_with(self, interp: Interpreter, words: list[str]) -> None:
        """Read the words and call the function."""
        run: Run = interp.run
        parser = Parser()
        parser.options = list(self.options)
        if self.commands:
            place = Option(("command",), "command", run.file, run.line, nargs="...")
            parser.options.append(place)
        values: dict[str, Value] = {}
        left: list[str] = []
        parser.fill(run, values, words, left)
        for word in left:
            run.fault(msg("the script has no argument {name}", name=word[:60]))
        rest = values.pop("command", None) if self.commands else None
        context = [Silent()] if self.with_context else []
        interp.call(self.function, context, values)
        if rest:
            name, *more = rest
            command = self.commands.get(name.replace("_", "-")) or self.commands.get(name)
            if isinstance(command, Command):
                command.run_with(interp, list(more))
            else:
                run.fault(f"{name[:40]} is not one of the script's commands")

    do_main = exposed.method("main")(call)

    @exposed.method("command")
    def do_command(self, run: Run, *args: Value, **_: Value) -> Value:
        """Make a command of this group."""
        return NativeFunction(lambda run, function: self._added(function, args), "command")

    @exposed.method("add_command")
    def do_add_command(self, run: Run, command: Value, name: Value = None) -> None:
        """Add a command to this group."""
        self._added(command, (name,))

    def _added(self, function: Value, args: tuple[Value, ...]) -> Value:
        command = finished(function)
        name = args[0] if args and isinstance(args[0], str) else (
            getattr(command.function, "name", "").replace("_", "-"))  # fmt: skip
        self.commands[name] = command
        return command


def optioned(function: Value) -> Command:
    """Return a function as something that has options."""
    if isinstance(function, Command):
        return function
    command = Command()
    command.function = function
    return command


def finished(function: Value) -> Command:
    """Return a function with options as a whole command."""
    command = optioned(function)
    command.finished = True
    return command


def _command(run: Run, *args: Value, **_: Value) -> Value:
    if args and isinstance(args[0], (Function, Command)):
        return finished(args[0])
    return NativeFunction(lambda run, function: finished(function), "command")


def _click_option(run: Run, *flags: Value, **given: Value) -> Value:
    names = [flag for flag in flags if isinstance(flag, str)]
    file, line = run.file, run.line

    def add(run: Run, function: Value) -> Value:
        command = optioned(function)
        # Decorators run from the inside out; the first one written comes first.
        command.options.insert(0, _as_option(run, file, line, names, given))
        return command

    return NativeFunction(add, "option")


def _as_option(run: Run, file: str, line: int, names: list[str], given: dict[str, Value]) -> Option:
    on: list[str] = []
    off: list[str] = []
    dest = ""
    for name in names:
        first, slash, second = name.partition("/")
        if not first.startswith("-"):
            dest = first
            continue
        on.append(first.strip())
        off.extend([second.strip()] if slash else [])
    long = next((flag for flag in on if flag.startswith("--")), on[0] if on else dest)
    default = given.get("default")
    switch = bool(off) or given.get("is_flag") is True
    kind = given.get("type")
    if kind is None and not switch and isinstance(default, (int, float)):
        kind = run.interp.builtins[
            "bool" if isinstance(default, bool) else "int" if isinstance(default, int) else "float"
        ]
    choices = kind.choices if isinstance(kind, Choice) else None
    several = given.get("multiple") is True
    return Option(
        tuple(on) or (dest,), (dest or long.lstrip("-")).replace("-", "_").lower(), file, line,
        default=(False if switch and default is None else [] if several and default is None
                 else default),
        type=None if isinstance(kind, (Choice, Silent)) else kind,
        action=("boolean" if switch else "count" if given.get("count") is True
                else "append" if several else "store"),
        nargs="*" if given.get("nargs") == -1 else (
            given["nargs"] if isinstance(given.get("nargs"), int) and given["nargs"] > 1 else None),
        choices=choices, required=given.get("required") is True, off_flags=tuple(off),
    )  # fmt: skip


def _click_argument(run: Run, name: Value, **given: Value) -> Value:
    file, line = run.file, run.line
    needed = given.get("required", given.get("default") is None and given.get("nargs") != -1)

    def add(run: Run, function: Value) -> Value:
        command = optioned(function)
        option = _as_option(run, file, line, [str(name)], given)
        option.required = needed is True
        if not option.required and option.nargs is None:
            option.nargs, option.const = "?", option.default
        command.options.insert(0, option)
        return command

    return NativeFunction(add, "argument")


class Choice(Native):
    """`click.Choice`."""

    label = "Choice"

    def __init__(self) -> None:
        super().__init__()
        self.choices: Value = None

    def init(self, run: Run, choices: Value, *_: Value, **__: Value) -> None:
        """Keep the choices."""
        self.choices = choices


def _pass_context(run: Run, function: Value) -> Value:
    command = optioned(function)
    command.with_context = True
    return command


def click(run: Run) -> Namespace:
    """Return `click`."""
    built = run.interp.builtins if run.interp is not None else {}
    table: dict[str, Callable[..., Value]] = {
             "command": _command, "group": _command, "option": _click_option,
             "argument": _click_argument, "pass_context": _pass_context,
             "version_option": lambda run, *_, **__: NativeFunction(lambda r, f: f, "option"),
             "help_option": lambda run, *_, **__: NativeFunction(lambda r, f: f, "option"),
             "echo": lambda run, *_, **__: None, "secho": lambda run, *_, **__: None,
             }  # fmt: skip
    names: dict[str, Value] = {k: NativeFunction(v, f"click.{k}") for k, v in table.items()}
    for name, kind in (("INT", "int"), ("FLOAT", "float"), ("STRING", "str"), ("BOOL", "bool")):
        names[name] = built.get(kind)
    number = NativeFunction(lambda run, *_, **__: built.get("int"), "IntRange")
    real = NativeFunction(lambda run, *_, **__: built.get("float"), "FloatRange")
    silent = NativeClass(Silent, "Path")
    return Namespace("click", {**names, "Choice": NativeClass(Choice, "Choice"), "Path": silent,
                               "File": silent, "IntRange": number, "FloatRange": real})  # fmt: skip

"""Options of a command line: reading and converting words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.interpreter.domain.values import (
    ARGUMENT,
    NativeFunction,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

BY_NAME = ("int", "float", "str", "bool")
"""Built-in types that words are converted with."""
SUPPRESS = "==SUPPRESS=="
"""argparse's own mark: no default at all."""
_BARE = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version",
         "boolean")  # fmt: skip
"""Actions that take no word."""


@dataclass(slots=True)
class Option:
    """One option or place of a command line."""

    flags: tuple[str, ...]
    dest: str
    file: str
    line: int
    default: Value = None
    type: Value = None
    action: str = "store"
    nargs: Value = None
    const: Value = None
    choices: Value = None
    required: bool = False
    off_flags: tuple[str, ...] = ()
    """Flags that switch it off: `--no-amp`."""
    commands: dict[str, Value] = field(default_factory=dict)
    """What follows each choice of a subcommand."""

    @property
    def positional(self) -> bool:
        """Whether it is given by place."""
        return not self.flags[0].startswith("-")

    @property
    def shown(self) -> str:
        """How a message names it."""
        return self.flags[0]

    @property
    def most(self) -> int:
        """How many words it takes at most."""
        if self.action in _BARE:
            return 0
        if isinstance(self.nargs, int):
            return self.nargs
        return 10_000 if self.nargs in ("*", "+", "...", "A...") else 1


def initial(run: Run, option: Option) -> Value:
    """Return the value of an option that is not given."""
    default = option.default
    if option.action in ("store_true", "store_false") and default is None:
        return option.action == "store_false"
    if isinstance(default, str) and option.type is not None and default != SUPPRESS:
        default = convert(run, option, default)
    if isinstance(default, int) and not isinstance(default, bool):
        return sourced(run, option, int(default), "default")
    if isinstance(default, list):
        return list(default)
    return default


def sourced(run: Run, option: Option, value: int, kind: str) -> Value:
    """Return a number that remembers the option it came through."""
    return run.sourced(value, option.file, option.line, kind, f"{ARGUMENT}{option.dest}")


def convert(run: Run, option: Option, text: str) -> Value:
    """Convert a word with the option's type; a word that it refuses is a fault of the command."""
    kind = option.type
    if kind is None:
        return text
    if isinstance(kind, NativeFunction) and kind.name in BY_NAME:
        try:
            if kind.name == "int":
                return sourced(run, option, int(text[:64]), "argument")
            if kind.name == "float":
                return float(text[:64])
            # What argparse does, too: any text that is not empty is true.
            return bool(text) if kind.name == "bool" else text
        except ValueError:
            run.fault(f"{option.shown} {text[:40]} is not a number")
            return run.unknown(f"the argument {option.shown}")
    value = run.interp.call(kind, [text], {})
    if type(value) is int and text.isdigit():
        return sourced(run, option, value, "argument")
    return value


def set_value(run: Run, option: Option, values: dict[str, Value], taken: list[Value]) -> None:
    """Do what an option's action does with the words that it took."""
    action, dest = option.action, option.dest
    if action in ("store_true", "store_false", "boolean"):
        values[dest] = action != "store_false"
    elif action == "count":
        before = values.get(dest)
        values[dest] = (before if isinstance(before, int) else 0) + 1
    elif action == "store_const":
        values[dest] = option.const
    elif action in ("append", "append_const", "extend"):
        before = values.get(dest)
        new = [option.const] if action == "append_const" else taken
        if action == "append" and option.nargs is not None:
            new = [taken]
        values[dest] = [*(before if isinstance(before, list) else []), *new]
    elif action == "store":
        several = option.nargs is not None and option.nargs != "?"
        values[dest] = taken if several else (taken[0] if taken else option.const)
    elif action not in ("help", "version"):
        values[dest] = run.unknown(f"the argument {option.shown}")


def check_choices(run: Run, option: Option, text: str, value: Value) -> None:
    """Record a word that is not among the option's choices."""
    choices = option.choices
    if isinstance(choices, (dict, range)):
        choices = list(choices)
    if not isinstance(choices, (list, tuple)) or isinstance(value, Unknown):
        return
    if any(isinstance(choice, Unknown) for choice in choices):
        return
    if run.setting.batch is not None and value == run.setting.batch:
        # Asked for by preflight, not by the command line.
        return
    if value not in choices:
        run.fault(f"{option.shown} {text[:40]} is not one of its choices")


def is_flag(word: str, flags: Sequence[str]) -> bool:
    """Whether a word is a flag: it begins with `-` and is no negative number."""
    if word in flags:
        return True
    return len(word) > 1 and word[0] == "-" and not (word[1].isdigit() or word[1] == ".")

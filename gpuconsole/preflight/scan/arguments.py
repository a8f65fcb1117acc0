"""argparse: the script's options with their defaults and the job's own arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
)


class Option:
    """One `add_argument`."""

    __slots__ = ("action", "choices", "const", "default", "dest", "file", "flags", "line", "nargs",
                 "required", "type")  # fmt: skip

    def __init__(self, run: Run, flags: tuple[str, ...], options: dict[str, Value]) -> None:
        self.flags = flags
        long = next((one for one in flags if one.startswith("--")), flags[0])
        self.dest: str = options.get("dest") or long.lstrip("-").replace("-", "_")
        self.default = options.get("default")
        self.type = options.get("type")
        self.action = options.get("action") or "store"
        self.nargs = options.get("nargs")
        self.const = options.get("const")
        self.choices = options.get("choices")
        self.required = options.get("required") is True or not flags[0].startswith("-")
        self.file, self.line = run.file, run.line

    @property
    def positional(self) -> bool:
        """Whether it is given by place."""
        return not self.flags[0].startswith("-")


class Parser(Native):
    """`argparse.ArgumentParser`, and its groups."""

    label = "ArgumentParser"

    def init(self, run: Run, *_: Value, **__: Value) -> None:
        """Start without options."""
        self.options: list[Option] = []
        self.defaults: dict[str, Value] = {}

    def do_add_argument(self, run: Run, *flags: Value, **options: Value) -> None:
        """Add an option."""
        if flags and all(isinstance(one, str) for one in flags):
            self.options.append(Option(run, flags, options))

    def do_add_argument_group(self, run: Run, *_: Value, **__: Value) -> Value:
        """Groups only change the help text."""
        return self

    do_add_mutually_exclusive_group = do_add_argument_group

    def do_set_defaults(self, run: Run, **values: Value) -> None:
        """Change defaults."""
        self.defaults.update(values)

    def do_parse_known_args(self, run: Run, args: Value = None, *_: Value) -> Value:
        """Parse and give what was left over."""
        return (self.do_parse_args(run, args), [])

    def do_print_help(self, run: Run, *_: Value) -> None:
        """Print nothing."""

    def do_parse_args(self, run: Run, args: Value = None, *_: Value) -> Value:
        """Parse the job's arguments (or a literal list) into a namespace."""
        words = list(run.args)
        if isinstance(args, (list, tuple)) and all(isinstance(one, str) for one in args):
            words = list(args)
        values = Parsed()
        for option in self.options:
            values.attrs[option.dest] = self._default(run, option)
        values.attrs.update(self.defaults)
        given = self._read(run, words, values)
        for option in self.options:
            if option.required and option.dest not in given:
                run.fault(f"the argument {option.flags[0]} is required and not given")
                values.attrs[option.dest] = run.unknown(f"the argument {option.flags[0]}")
        return values

    def _default(self, run: Run, option: Option) -> Value:
        default = option.default
        if option.action in ("store_true", "store_false") and default is None:
            return option.action == "store_false"
        if isinstance(default, str) and option.type is not None:
            default = self._convert(run, option, default)
        if isinstance(default, int) and not isinstance(default, bool):
            return self._sourced(run, option, int(default), "default")
        return default

    def _sourced(self, run: Run, option: Option, value: int, kind: str) -> Value:
        return run.sourced(value, option.file, option.line, kind, f"argument:{option.dest}")

    def _read(self, run: Run, words: list[str], values: Parsed) -> set[str]:
        flags = {flag: option for option in self.options for flag in option.flags}
        places = [option for option in self.options if option.positional]
        given: set[str] = set()
        while words:
            word = words.pop(0)
            name, _, attached = word.partition("=")
            option = flags.get(name) if name.startswith("-") else None
            if option is None and name.startswith("--"):
                near = [one for flag, one in flags.items() if flag.startswith(name)]
                option = near[0] if len(set(map(id, near))) == 1 else None
            if option is None and word.startswith("-") and not _number(word):
                run.note_unknown(run.unknown(f"the script has no argument {name}"))
                continue
            if option is None:
                if not places:
                    continue
                option = places.pop(0)
                words.insert(0, word)
                attached = ""
            given.add(option.dest)
            values.attrs[option.dest] = self._take(run, option, words, attached)
        return given

    def _take(self, run: Run, option: Option, words: list[str], attached: str) -> Value:
        if option.action == "store_true":
            return True
        if option.action == "store_false":
            return False
        if option.action not in ("store", "append"):
            return option.const if option.const is not None else run.unknown("an argument")
        if option.nargs in ("*", "+") or isinstance(option.nargs, int):
            taken: list[Value] = []
            limit = option.nargs if isinstance(option.nargs, int) else 10_000
            while words and not words[0].startswith("--") and len(taken) < limit:
                taken.append(self._convert(run, option, words.pop(0)))
            return taken
        text = attached or (words.pop(0) if words else "")
        value = self._convert(run, option, text)
        choices = option.choices if isinstance(option.choices, (list, tuple)) else (value,)
        if not isinstance(value, Unknown) and value not in choices:
            run.fault(f"{option.flags[0]} {text} is not one of its choices")
        return value

    def _convert(self, run: Run, option: Option, text: str) -> Value:
        kind = option.type
        if kind is None:
            return text
        if isinstance(kind, NativeFunction) and kind.name in ("int", "float", "str", "bool"):
            try:
                if kind.name == "int":
                    return self._sourced(run, option, int(text[:64]), "argument")
                if kind.name == "float":
                    return float(text[:64])
                return bool(text) if kind.name == "bool" else text
            except ValueError:
                run.fault(f"{option.flags[0]} {text[:40]} is not a number")
                return run.unknown(f"the argument {option.flags[0]}")
        if run.call is not None:
            return run.call(kind, [text], {})
        return run.unknown(f"the argument {option.flags[0]}")


class Parsed(Native):
    """`argparse.Namespace`."""

    label = "Namespace"

    def init(self, run: Run, **values: Value) -> None:
        """Make one by hand."""
        self.attrs.update(values)


def _number(word: str) -> bool:
    return word[1:2].isdigit()


def namespace() -> Namespace:
    """Return `argparse`."""
    names: dict[str, Any] = {
        "ArgumentParser": NativeClass(Parser, "ArgumentParser"),
        "Namespace": NativeClass(Parsed, "Namespace"),
        "ArgumentDefaultsHelpFormatter": None, "RawTextHelpFormatter": None, "SUPPRESS": None,
    }  # fmt: skip
    return Namespace("argparse", names)


Words = Sequence[str]

"""Data classes as command lines: `HfArgumentParser`, `PdArgumentParser`."""

from __future__ import annotations

from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Namespace,
    NativeClass,
    NativeFunction,
    Unknown,
    UserClass,
    Value,
)
from gpuconsole.preflight.interpreter.libraries.argparse import Parser
from gpuconsole.preflight.interpreter.libraries.command_line import BY_NAME, Option
from gpuconsole.preflight.interpreter.machine.run import Run
from gpuconsole.preflight.interpreter.stdlib import dataclasses_enum


class DataParser(Parser):
    """`HfArgumentParser`, `PdArgumentParser`: an option for each field of data classes."""

    label = "ArgumentParser"

    def __init__(self) -> None:
        super().__init__()
        self.classes: list[Value] = []

    def init(self, run: Run, types: Value = (), *_: Value, **__: Value) -> None:
        """Make the options."""
        self.classes = list(types) if isinstance(types, (list, tuple)) else [types]
        for cls in self.classes:
            if isinstance(cls, UserClass):
                for name, default in dataclasses_enum.fields_of(cls).items():
                    self._field(run, cls, name, dataclasses_enum.default_of(run.interp, default))
            elif isinstance(cls, Unknown):
                run.note_unknown(cls)

    def _field(self, run: Run, cls: UserClass, name: str, default: Value) -> None:
        hints = {k: v for one in reversed(cls.mro())
                 for k, v in one.attrs.get("__annotations__", {}).items()}  # fmt: skip
        hint = hints.get(name, "").removeprefix("Optional[")
        many = hint.lower().startswith("list")
        hint = hint.partition("[")[2] if many else hint
        kind = next((one for one in BY_NAME if hint.startswith(one)), "str")
        flags = tuple(dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")))
        convert = NativeFunction(_truth, "truth") if kind == "bool" else run.interp.builtins[kind]
        self.options.append(Option(
            flags, name, run.file, cls.line, default=None if default is MISSING else default,
            type=convert, nargs="?" if kind == "bool" else "+" if many else None,
            const=True if kind == "bool" else None, required=default is MISSING,
        ))  # fmt: skip

    def do_parse_args_into_dataclasses(self, run: Run, args: Value = None, *_: Value,
                                       **__: Value) -> Value:  # fmt: skip
        """Parse into an instance of each class."""
        values: dict[str, Value] = {}
        words = list(args) if isinstance(args, (list, tuple)) else list(run.args)
        self.fill(run, values, words, [])
        return self._made(run, values)

    def do_parse_dict(self, run: Run, values: Value, *_: Value, **__: Value) -> Value:
        """Make an instance of each class out of a mapping."""
        return values if isinstance(values, Unknown) else self._made(run, values)

    def _made(self, run: Run, values: dict[str, Value]) -> Value:
        made = []
        for cls in self.classes:
            if not isinstance(cls, UserClass):
                made.append(cls if isinstance(cls, Unknown) else run.unknown("options of a class"))
                continue
            fields = dataclasses_enum.fields_of(cls)
            made.append(run.interp.call(cls, [], {k: values[k] for k in fields if k in values}))
        return tuple(made)


def _truth(run: Run, text: Value) -> Value:
    return text.lower() in ("true", "1", "yes", "y", "t") if isinstance(text, str) else bool(text)


def data_parsers(root: str) -> Namespace:
    """Return the library that gives a parser of data classes; the rest of it is unknown."""
    names: dict[str, Value] = {
        "PdArgumentParser": NativeClass(DataParser, "PdArgumentParser"),
        "HfArgumentParser": NativeClass(DataParser, "HfArgumentParser"),
    }
    trainer = Namespace(f"{root}.trainer", names)
    return Namespace(root, {**names, "trainer": trainer})

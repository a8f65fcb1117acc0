"""argparse: the script's options with their defaults and the job's own arguments."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Namespace,
    Native,
    NativeClass,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.libraries.command_line import (
    SUPPRESS,
    Option,
    check_choices,
    convert,
    initial,
    is_flag,
    set_value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

BOOLEAN = "BooleanOptionalAction"


class Parsed(Native):
    """`argparse.Namespace`."""

    label = "Namespace"

    def init(self, run: Run, /, **values: Value) -> None:
        """Make one by hand."""
        self.attrs.update(values)


class Parser(Native):
    """`argparse.ArgumentParser`, and its groups."""

    label = "ArgumentParser"

    def __init__(self) -> None:
        super().__init__()
        self.options: list[Option] = []
        self.taken: set[str] = set()
        """Flags of the options: one that is declared again replaces the first."""
        self.defaults: dict[str, Value] = {}
        self.general_default: Value = None

    def init(self, run: Run, *_: Value, parents: Value = (), argument_default: Value = None,
             **__: Value) -> None:  # fmt: skip
        """Start with the options of the parents."""
        self.general_default = argument_default
        for parent in parents if isinstance(parents, (list, tuple)) else ():
            if isinstance(parent, Parser):
                self.options.extend(parent.options)
                self.taken |= parent.taken
                self.defaults.update(parent.defaults)

    @exposed.method("add_argument")
    def do_add_argument(self, run: Run, *flags: Value, **options: Value) -> None:
        """Add an option."""
        if not flags or not all(isinstance(flag, str) for flag in flags):
            return
        long = next((flag for flag in flags if flag.startswith("--")), flags[0])
        action = options.get("action")
        default = options.get("default", self.general_default)
        off: tuple[str, ...] = ()
        if isinstance(action, NativeClass) and action.name == BOOLEAN:
            action = "boolean"
            off = tuple(f"--no-{flag[2:]}" for flag in flags if flag.startswith("--"))
        option = Option(
            flags, options.get("dest") or long.lstrip("-").replace("-", "_"), run.file, run.line,
            default=default, type=options.get("type"),
            action=action if isinstance(action, str) else ("store" if action is None else "other"),
            nargs=options.get("nargs"), const=options.get("const"), choices=options.get("choices"),
            required=options.get("required") is True, off_flags=off,
        )  # fmt: skip
        if option.positional and option.nargs not in ("?", "*", "..."):
            option.required = True
        if not self.taken.isdisjoint(flags):
            run.interp.tick(len(self.options) // 4)
            self.options = [option for option in self.options if not set(option.flags) & set(flags)]
        self.taken.update(flags)
        self.options.append(option)

    @exposed.method("add_argument_group", "add_mutually_exclusive_group")
    def do_add_argument_group(self, run: Run, *_: Value, **__: Value) -> Value:
        """Groups only change the help text."""
        return self

    @exposed.method("add_subparsers")
    def do_add_subparsers(
        self, run: Run, *_: Value, dest: Value = None, required: Value = False, **__: Value
    ) -> Value:
        """Add subcommands."""
        name = dest if isinstance(dest, str) else ""
        option = Option((name or "command",), name or SUPPRESS, run.file, run.line, nargs="A...",
                      required=required is True)  # fmt: skip
        self.options.append(option)
        return Subparsers(option)

    @exposed.method("set_defaults")
    def do_set_defaults(self, run: Run, /, **values: Value) -> None:
        """Change defaults."""
        self.defaults.update(values)

    @exposed.method("get_default")
    def do_get_default(self, run: Run, dest: Value) -> Value:
        """Give a default."""
        run.interp.tick(len(self.options) // 8)
        option_found = next((option for option in self.options if option.dest == dest), None)
        return self.defaults.get(dest, None if option_found is None else initial(run, option_found))

    @exposed.method("parse_known_args")
    def do_parse_known_args(self, run: Run, args: Value = None, namespace: Value = None) -> Value:
        """Parse and give what was left over."""
        left: list[str] = []
        values = self._parse(run, args, namespace, left)
        return (values, left)

    @exposed.method("print_help", "print_usage", "register")
    def do_print_help(self, run: Run, *_: Value, **__: Value) -> None:
        """Print nothing."""

    @exposed.method("format_help")
    def do_format_help(self, run: Run) -> Value:
        """Return unknown text."""
        return ""

    @exposed.method("error")
    def do_error(self, run: Run, message: Value = "", *_: Value) -> Value:
        """End the script as argparse does."""
        run.fault(msg("the script refuses its arguments: {why}", why=message)[:200])
        return run.unknown("a refused command line")

    @exposed.method("parse_args")
    def do_parse_args(self, run: Run, args: Value = None, namespace: Value = None) -> Value:
        """Parse the job's arguments (or a literal list) into a namespace."""
        left: list[str] = []
        values = self._parse(run, args, namespace, left)
        for word in left:
            if is_flag(word, ()):
                run.fault(msg("the script has no argument {name}", name=word[:60]))
        return values

    def _parse(self, run: Run, args: Value, namespace: Value, left: list[str]) -> Value:
        words = list(run.args)
        if isinstance(args, (list, tuple)) and all(isinstance(arg, str) for arg in args):
            words = list(args)
        elif isinstance(args, Unknown):
            run.note_unknown(args)
        parsed = namespace if isinstance(namespace, Native) else Parsed()
        self.fill(run, parsed.attrs, words, left)
        return parsed

    def fill(self, run: Run, values: dict[str, Value], words: list[str], left: list[str]) -> None:
        """Set defaults and what the words give; words that nothing takes go to `left`."""
        # Every word is held against the flags, every option may take its default.
        run.interp.tick((4 + len(words)) * len(self.options) // 8)
        for option in self.options:
            default = self.defaults.get(option.dest, MISSING)
            if default is MISSING:
                default = initial(run, option)
            if not (isinstance(default, str) and default == SUPPRESS) and option.dest != SUPPRESS:
                values.setdefault(option.dest, default)
        for name, value in self.defaults.items():
            values.setdefault(name, value)
        given = Reader(run, self.options, values, left).read(words)
        for option in self.options:
            if option.required and option.dest not in given:
                run.refuse(msg("the argument {name} is required and not given", name=option.shown))
                values[option.dest] = run.unknown(f"the argument {option.shown}")


class Subparsers(Native):
    """What `add_subparsers` returns."""

    label = "subparsers"

    def __init__(self, option: Option | None = None) -> None:
        super().__init__()
        self.option = option

    @exposed.method("add_parser")
    def do_add_parser(self, run: Run, name: Value, **options: Value) -> Value:
        """Add a subcommand."""
        parser = Parser()
        parser.init(run, **options)
        if self.option is not None and isinstance(name, str):
            self.option.commands[name] = parser
        return parser


class Reader:
    """Walks over the words of one command line."""

    def __init__(
        self, run: Run, options: list[Option], values: dict[str, Value], left: list[str]
    ) -> None:
        self.run = run
        self.values = values
        self.left = left
        self.flags = {flag: option for option in options for flag in option.flags}
        self.off = {flag: option for option in options for flag in option.off_flags}
        self.places = [option for option in options if option.positional]
        self.given: set[str] = set()

    def read(self, words: list[str]) -> set[str]:
        """Take all words; returns the names that were given."""
        while words:
            word = words.pop(0)
            if word == "--":
                while words and self.places:
                    self._place(words)
                self.left.extend(words)
                break
            if is_flag(word, tuple(self.flags)):
                self._flag(word, words)
            elif self.places:
                words.insert(0, word)
                self._place(words)
            else:
                self.left.append(word)
        return self.given

    def _flag(self, word: str, words: list[str]) -> None:
        name, _, attached = word.partition("=")
        if name in self.off:
            option = self.off[name]
            self.given.add(option.dest)
            self.values[option.dest] = False
            return
        match = self.flags.get(name) or self._shortened(name)
        if match is None and not name.startswith("--") and len(word) > 2:
            # `-b16`, or several letters at once: `-xv`.
            match = self.flags.get(word[:2])
            attached = word[2:] if match is not None else attached
            if match is not None and not match.most:
                words.insert(0, f"-{attached}")
                attached = ""
        if match is None:
            self.left.append(word)
            return
        self._take(match, words, attached)

    def _shortened(self, name: str) -> Option | None:
        if not name.startswith("--"):
            return None
        near = [option for flag, option in self.flags.items() if flag.startswith(name)]
        return near[0] if len({id(option) for option in near}) == 1 else None

    def _place(self, words: list[str]) -> None:
        option = self.places.pop(0)
        if option.commands:
            self._command(option, words)
            return
        # Places that come later need a word each, too.
        later = sum(1 for place in self.places if place.required)
        free = list(self._free(words))
        if option.most > 1 and option.nargs != "...":
            placed = free[: max(0, len(free) - later)]
            rest = words[len(placed) :]
            taken = placed[: option.most]
            words[:] = [*placed[option.most :], *rest]
            self._store(option, taken)
            return
        self._take(option, words, "")

    def _free(self, words: list[str]) -> Iterator[str]:
        for word in words:
            if is_flag(word, tuple(self.flags)) or word == "--":
                return
            yield word

    def _command(self, option: Option, words: list[str]) -> None:
        name = words.pop(0)
        self.given.add(option.dest)
        if option.dest != SUPPRESS:
            self.values[option.dest] = name
        parser = option.commands.get(name)
        if not isinstance(parser, Parser):
            self.run.fault(f"{name[:40]} is not one of the script's subcommands")
            return
        rest = list(words)
        words.clear()
        parser.fill(self.run, self.values, rest, self.left)

    def _take(self, option: Option, words: list[str], attached: str) -> None:
        taken: list[str] = []
        if attached:
            taken.append(attached)
        elif option.nargs in ("...",):
            taken, words[:] = list(words), []
        else:
            while words and len(taken) < option.most:
                if words[0] == "--" or is_flag(words[0], tuple(self.flags)):
                    break
                taken.append(words.pop(0))
        short = isinstance(option.nargs, int) and len(taken) < option.nargs
        none = not taken and option.most == 1 and option.nargs != "?"
        if short or none or (option.nargs == "+" and not taken):
            self.run.fault(f"{option.shown} is given without its value")
            self.given.add(option.dest)
            self.values[option.dest] = self.run.unknown(f"the argument {option.shown}")
            return
        self._store(option, taken)

    def _store(self, option: Option, taken: list[str]) -> None:
        values = [convert(self.run, option, word) for word in taken]
        for word, value in zip(taken, values, strict=True):
            check_choices(self.run, option, word, value)
        self.given.add(option.dest)
        set_value(self.run, option, self.values, values)


def namespace() -> Namespace:
    """Return `argparse`."""
    formatters = ("HelpFormatter", "ArgumentDefaultsHelpFormatter", "RawTextHelpFormatter",
                  "RawDescriptionHelpFormatter", "MetavarTypeHelpFormatter", "Action")  # fmt: skip
    names: dict[str, Value] = {
        "ArgumentParser": NativeClass(Parser, "ArgumentParser"),
        "Namespace": NativeClass(Parsed, "Namespace"),
        BOOLEAN: NativeClass(Native, BOOLEAN),
        "ArgumentTypeError": NativeClass(Native, "ArgumentTypeError"),
        "ArgumentError": NativeClass(Native, "ArgumentError"),
        "SUPPRESS": SUPPRESS, "REMAINDER": "...", "OPTIONAL": "?", "ZERO_OR_MORE": "*",
        "ONE_OR_MORE": "+",
        **{name: NativeClass(Native, name) for name in formatters},
    }  # fmt: skip
    return Namespace("argparse", names)

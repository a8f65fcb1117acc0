"""The entry point: reads the command line, runs one command, and turns every end into a code.

0 done; 1 a clear "no"; 2 wrong usage, file or local state; 3 a host or engine out of reach;
130 interrupted by Ctrl-C, as shells expect.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module

import click

from gpuconsole import __version__
from gpuconsole.cli.options import Options, global_options
from gpuconsole.cli.output import note, print_error
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import ConsoleError, UsageError

_INTERRUPTED = 130
SUMMARY_WIDTH = 66
GARBAGE_AFTER = 200_000
"""New things that did not go by themselves after which garbage is looked for among them: more than
all that is imported."""

# The order of the help and of the reference: folders or modules of commands with what they hold.
# A name that ends in a dot is a folder, with modules that have the names of their commands.
_SECTIONS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Look",
        (
            ("hosts.", "init check status doctor calibrate"),
            ("hosts.drain", "drain undrain"),
            ("hosts.", "record replay incidents image containers exec"),
        ),
    ),
    ("Plan and run", (("plan.", "preflight submit what-if shell jupyter simulate learn"),)),
    (
        "Queue",
        (
            (
                "jobs.",
                "jobs logs wait why cancel preempt retry hold release priority fetch prune "
                "services scale forward curves compare",
            ),
            ("lab_queue.", "report audit notify takeover"),
            ("jobs.", "render"),
            ("lab_queue.", "journal"),
        ),
    ),
    ("Run without a terminal", (("run.", "dispatch serve metrics mcp demo"),)),
    ("Your shell", (("run.", "completion"),)),
)
_HOMES = {
    name: f"{module}{name.replace('-', '_')}" if module.endswith(".") else module
    for _, parts in _SECTIONS
    for module, names in parts
    for name in names.split()
}


def sections() -> Iterator[tuple[str, list[click.Command]]]:
    """Give the titles of the help with their commands, all of them imported."""
    for title, parts in _SECTIONS:
        yield title, [_command(name) for _, names in parts for name in names.split()]


def summary(command: click.Command) -> str:
    """Return what the list of commands says of one."""
    return command.get_short_help_str(SUMMARY_WIDTH)


def _command(name: str) -> click.Command:
    module = import_module(f"gpuconsole.cli.commands.{_HOMES[name]}")
    command = getattr(module, name.replace("-", "_"))
    assert isinstance(command, click.Command)
    return command


class _Sections(click.Group):
    """Lists commands by what they are for, and imports only the one that is run."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(_HOMES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return the command of that name."""
        if name in _HOMES:
            return _command(name)
        # Click names the nearest of these.
        self.commands = {name: _command(name) for name in _HOMES}
        return None

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections, without importing one."""
        from gpuconsole.cli.command_summaries import SUMMARIES

        for title, parts in _SECTIONS:
            names = [name for _, names in parts for name in names.split()]
            with formatter.section(title):
                formatter.write_dl([(name, SUMMARIES.get(name, "")) for name in names])


@click.group(
    cls=_Sections,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@global_options
@click.version_option(__version__, "--version", message="gpuconsole %(version)s")
@click.pass_context
def gpuconsole(context: click.Context) -> int:
    """Watch a lab's GPUs, queue Paddle scripts, and know before they start whether they fit.

    Without a command the console opens on your inventory. `gpuconsole demo` needs no hosts.
    """
    if context.invoked_subcommand is not None:
        return 0
    from gpuconsole.cli.commands.run import dispatch

    return dispatch.open_console()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; nothing escapes as a traceback."""
    # What is imported stays: looking through it for garbage takes time and finds none.
    gc.set_threshold(GARBAGE_AFTER, *gc.get_threshold()[1:])
    # Python looks through all there is once more as it ends: a quarter of a short command's time.
    atexit.register(gc.freeze)
    words = list(sys.argv[1:] if argv is None else argv)
    # Known before anything is parsed, so that a mistake in parsing has the right shape too.
    before_script = words[: words.index("--")] if "--" in words else words
    as_json = "--json" in before_script
    try:
        code = _run(words, as_json)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader had enough, as `head` does. Python would complain once more at its own end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: list[str], as_json: bool) -> int:
    chosen = Options()
    try:
        return _ended(words, as_json, chosen)
    finally:
        if chosen.log is not None:
            note(msg("The log is {path}", path=chosen.log))


def _ended(words: list[str], as_json: bool, chosen: Options) -> int:
    try:
        code = gpuconsole.main(
            args=words, prog_name="gpuconsole", standalone_mode=False, obj=chosen
        )
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        note("Interrupted.")
        return _INTERRUPTED
    except SystemExit:
        # Click's own answer to a reader that has gone away; it has silenced stdout already.
        return 0
    except click.ClickException as error:
        problem: ConsoleError = _usage_error(error)
    except ConsoleError as error:
        problem = error
    except BrokenPipeError:
        raise
    except Exception as error:
        problem = unexpected(error)
        problem.__cause__ = error
    if chosen.log is not None:
        _log(problem)
    print_error(problem, as_json)
    return problem.exit_code


def _log(problem: ConsoleError) -> None:
    from gpuconsole.debug_log import LOG

    LOG.error("%s: %s %s", problem.title, problem.message, problem.hint, exc_info=problem)


def _usage_error(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "gpuconsole"
    return UsageError(
        "Wrong usage", error.format_message(), msg("See: {command} --help", command=path)
    )


def unexpected(error: Exception) -> ConsoleError:
    """Keep the traceback in a file: it is for us, not for the person at the terminal."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="gpuconsole-", suffix=".txt", delete=False, encoding="utf-8"
    ) as report:
        traceback.print_exception(error, file=report)
    return ConsoleError(
        "Unexpected error",
        f"{type(error).__name__}: {error}",
        sentences(
            "This is a fault of gpuconsole.",
            msg("Details are in {path}; please report them.", path=report.name),
        ),
    )

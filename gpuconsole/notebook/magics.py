"""`%gpuconsole` and `%%gpuconsole`: a line's words in, an answer or a clear mistake out."""

from __future__ import annotations

import atexit
import shlex
from typing import Any

import click

from gpuconsole.cli.entry import unexpected
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.notebook.commands import Cell, cell_words, line_words
from gpuconsole.notebook.completion import words_for
from gpuconsole.notebook.display import Screen
from gpuconsole.notebook.kernel_session import Desk

_NAME = "gpuconsole"


class ShownError(Exception):
    """Ends a cell, and with it a run of all cells; IPython shows its words, not a traceback."""

    def __init__(self, error: ConsoleError) -> None:
        lines = [f"{error.title}: {error.message}", *([error.hint] if error.hint else [])]
        self.lines = [clean(line) for whole in lines for line in whole.splitlines()]
        self.error = error
        super().__init__("\n".join(self.lines))

    def _render_traceback_(self) -> list[str]:
        return self.lines


class Magic:
    """The magic of one kernel, for a line and for a cell."""

    def __init__(self, shell: object) -> None:
        """`shell` is the shell with the front end that shows the answers."""
        self.desk = Desk()
        self._screen = Screen(shell)

    def __call__(self, line: str, cell: str | None = None) -> None:
        """Estimate and submit a cell's script; look at the lab and its queue.

        `%gpuconsole --help` and `%%gpuconsole --help` tell more.
        """
        command = line_words if cell is None else cell_words
        room = self._room(cell or "")
        try:
            _run(command, line, room)
        except ConsoleError as error:
            raise ShownError(error) from None
        except KeyboardInterrupt:
            stopped = RefusedError("Interrupted", "What was asked for was stopped.")
            raise ShownError(stopped) from None
        except Exception as error:
            raise ShownError(unexpected(error)) from None

    def complete(self, event: Any) -> list[str]:
        """Return what Tab offers at the end of the line that IPython's `event` tells of."""
        command = cell_words if event.line.lstrip().startswith("%%") else line_words
        return words_for(command, self._room(""), event.text_until_cursor, event.symbol)

    def _room(self, source: str) -> Cell:
        return Cell(desk=self.desk, screen=self._screen, source=source)


def _run(command: click.Command, line: str, room: Cell) -> None:
    """Read a line as a shell would, and do what it says."""
    name = str(command.name)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError("Wrong usage", f"{name}: {error}.", "Quote as in a shell.") from error
    try:
        with command.make_context(name, words, obj=room) as context:
            command.invoke(context)
    except click.exceptions.Exit:
        return
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.ClickException as error:
        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else name
        raise UsageError(
            "Wrong usage", error.format_message(), msg("See: {command} --help", command=path)
        ) from error


def load(shell: Any) -> None:
    """Register the magic with a shell; a second time changes nothing."""
    if _loaded(shell) is None:
        magic = Magic(shell)
        shell.register_magic_function(magic, magic_kind="line_cell", magic_name=_NAME)
        for mark in ("%", "%%"):
            shell.set_hook("complete_command", _complete, str_key=f"{mark}{_NAME}")
        atexit.register(magic.desk.leave)


def unload(shell: Any) -> None:
    """Take the magic out of a shell and close its session."""
    magic = _loaded(shell)
    if magic is not None:
        atexit.unregister(magic.desk.leave)
        magic.desk.leave()
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop(_NAME, None)


def _complete(shell: Any, event: Any) -> list[str]:
    """Answer a Tab: a shell keeps its hooks for ever, so the magic is the one it has by then."""
    magic = _loaded(shell)
    return [] if magic is None else magic.complete(event)


def _loaded(shell: Any) -> Magic | None:
    magic = shell.find_line_magic(_NAME)
    return magic if isinstance(magic, Magic) else None

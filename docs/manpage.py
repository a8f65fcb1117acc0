"""The man page, from the commands themselves: plain roff, read by groff and by mandoc."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import click

from gpuconsole import __version__
from gpuconsole.cli.entry import gpuconsole, sections

_EVERYWHERE = frozenset({"--inventory", "--state", "--read-only", "--json", "--help"})
_WIDTH = 78
_AFTER = r"""
.SH EXIT STATUS
.TP
.B 0
Done; also
.B status
with a host down, which its document says.
.TP
.B 1
A clear no: it will not fit, will fail or is unknown;
.B check
found a fault; the job failed.
.TP
.B 2
Wrong usage, a wrong file, or local state that cannot be used.
.TP
.B 3
The host or engine that was asked for could not be reached.
.TP
.B 130
Interrupted with Ctrl-C.
.SH ENVIRONMENT
.TP
.B GPUCONSOLE_INVENTORY
The inventory, where
.B \-\-inventory
does not name one.
.TP
.B NO_COLOR
Where it is set, nothing is drawn in colour.
.TP
.BR XDG_CONFIG_HOME ", " XDG_STATE_HOME
Where the files below lie, else
.I ~/.config
and
.IR ~/.local/state .
.SH FILES
.TP
.I ~/.config/gpuconsole/inventory.yaml
The hosts.
.TP
.I ~/.config/gpuconsole/config.yaml
Settings: policy, thresholds, keys, theme.
.TP
.I ~/.local/state/gpuconsole/
The queue, its logs, measurements and recordings.
.SH EXAMPLES
.nf
.B gpuconsole demo
.B gpuconsole preflight train.py \-\-batch\-size 64
.B gpuconsole submit train.py \-\-devices 2 \-\- \-\-epochs 10
.B gpuconsole jobs \-\-json
.fi
.SH SEE ALSO
.BR ssh (1),
.BR ssh_config (5),
.BR docker (1)
"""


def page() -> str:
    """Return the whole page."""
    # With the settings of a real run: a command keeps the help option it is first asked for.
    context = click.Context(gpuconsole, info_name="gpuconsole", **gpuconsole.context_settings)
    lines = [
        '.\\" Written by docs/generate.py from the commands themselves; do not edit by hand.',
        f'.TH GPUCONSOLE 1 "" "gpuconsole {__version__}" "User Commands"',
        ".SH NAME",
        "gpuconsole \\- terminal cluster console for small GPU labs",
        ".SH SYNOPSIS",
        ".B gpuconsole",
        ".RI [ options ]",
        '.RI [ command " " [ arguments ]]',
        ".SH DESCRIPTION",
        *_paragraphs(_plain(gpuconsole.help or "")),
        ".SH OPTIONS",
        "They may stand before a command's name or after it.",
        *_options(gpuconsole, context, frozenset({"--help"})),
        *_option("--json", "Print one JSON document on stdout, also for an error. After the name."),
        *_option("-h, --help", "Show what a command takes."),
    ]
    for title, commands in sections():
        lines.append(f".SH {_escaped(title.upper())}")
        for command in commands:
            lines += _command(command, context)
    return "\n".join(lines) + _AFTER


def _command(command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=command.name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_escaped(f'{context.command_path} {usage}')}"
    yield from _paragraphs(_plain(command.help or ""))
    yield from _options(command, context, _EVERYWHERE)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from _command(inner, context)


def _options(
    command: click.Command, context: click.Context, without: frozenset[str]
) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        shown = isinstance(parameter, click.Option) and without.isdisjoint(parameter.opts)
        if record is not None and shown:
            yield from _option(*record)


def _option(names: str, words: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_escaped(names)}"
    yield from _filled(words)


def _plain(text: str) -> str:
    """Return a help text without click's marks for the end of the page."""
    return inspect.cleandoc(text).split("\f")[0].strip()


def _paragraphs(text: str) -> Iterator[str]:
    """Give paragraphs; one that is marked to keep its lines keeps them."""
    for place, paragraph in enumerate(re.split(r"\n\s*\n", text)):
        if place:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield from (".nf", *map(_escaped, paragraph.splitlines()[1:]), ".fi")
        else:
            yield from _filled(paragraph)


def _filled(text: str) -> list[str]:
    """Return text in lines of a length that one can review."""
    return [_escaped(line) for line in textwrap.wrap(" ".join(text.split()), _WIDTH)]


def _escaped(text: str) -> str:
    """Return text that roff shows as it is."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe

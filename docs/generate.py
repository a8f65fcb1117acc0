"""Write `docs/cli.md` from the commands themselves: `python docs/generate.py`.

A test compares the file with `reference()`, so that it cannot grow stale.
"""

from __future__ import annotations

from pathlib import Path

import click

from gpuconsole.cli.entry import gpuconsole, sections

TARGET = Path(__file__).with_name("cli.md")
WIDTH = 90

_HEAD = """# Commands

Written by `docs/generate.py` from the commands themselves; do not edit by hand.

`--inventory`, `--state` and `--read-only` may stand before the command's name or after it.
With `--json` a command prints exactly one document on stdout, also for an error:
`{"error": {"title", "message", "hint"}}`. Everything else goes to stderr.

| exit code | means |
| --- | --- |
| 0 | done; also `status` with a host down, which the document says |
| 1 | a clear "no": will not fit, will fail, unknown; `check` found a fault; the job failed |
| 2 | wrong usage, a wrong file, or local state that cannot be used |
| 3 | the host or engine that was asked for could not be reached |
| 130 | interrupted with Ctrl-C |
"""


def reference() -> str:
    """Return the whole reference as Markdown."""
    parts = [_HEAD, _section("gpuconsole", gpuconsole, None)]
    for title, commands in sections():
        parts.append(f"\n## {title}\n")
        parts += [
            _section(f"gpuconsole {command.name}", command, "gpuconsole") for command in commands
        ]
    return "".join(parts)


def _section(name: str, command: click.Command, parent: str | None) -> str:
    context = click.Context(
        command,
        info_name=command.name if parent else name,
        parent=click.Context(gpuconsole, info_name=parent) if parent else None,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    text = command.get_help(context).rstrip()
    return f"\n### `{name}`\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")

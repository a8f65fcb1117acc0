"""Write the generated pages: `cli.md` and the man page from the commands, `themes.md` from the
themes' model, the tables of `filters.md`, of `triage.md` and of `metrics.md`, the reference of
`api.md`, `settings.md` from the models of the files; and, so that `gpuconsole --help` need not
import every command, what it says of each.

`python docs/generate.py`; tests compare the files with what is made here, so that they cannot grow
stale.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import click
import tables

from gpuconsole.cli import command_summaries as summaries
from gpuconsole.cli.entry import gpuconsole, sections, summary
from gpuconsole.tui.style.themes import Colors, State, ThemeDocument, load, shipped_folder

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
| 143, 129 | the console was ended by SIGTERM, or SIGHUP when its terminal was closed |
"""


def reference() -> str:
    """Return the whole reference as Markdown."""
    parts = [_HEAD, _section("gpuconsole", gpuconsole, None)]
    for title, commands in sections():
        parts.append(f"\n## {title}\n")
        for command in commands:
            whole = click.Context(gpuconsole, info_name="gpuconsole")
            parts.append(_section(f"gpuconsole {command.name}", command, whole))
            if isinstance(command, click.Group):
                group = click.Context(command, info_name=command.name, parent=whole)
                parts += [
                    _section(f"gpuconsole {command.name} {one.name}", one, group)
                    for one in command.commands.values()
                ]
    return "".join(parts)


def _section(name: str, command: click.Command, parent: click.Context | None) -> str:
    context = click.Context(
        command,
        info_name=command.name if parent else name,
        parent=parent,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    text = command.get_help(context).rstrip()
    return f"\n### `{name}`\n\n```text\n{text}\n```\n"


SUMMARIES = Path(summaries.__file__)
_SUMMARIES_HEAD = '''"""What `gpuconsole --help` says of each command, known without importing it.

Written by `docs/generate.py` from the commands themselves; do not edit by hand.
"""

from collections.abc import Mapping

SUMMARIES: Mapping[str, str] = {
'''


def command_summaries() -> str:
    """Return the module with the line of each command."""
    lines = [
        f"    {json.dumps(command.name)}: {json.dumps(summary(command))},\n"
        for _, commands in sections()
        for command in commands
    ]
    return "".join((_SUMMARIES_HEAD, *lines, "}\n"))


FILTERS = Path(__file__).with_name("filters.md")
VENDORS = Path(__file__).with_name("vendors.md")
TRIAGE = Path(__file__).with_name("triage.md")
METRICS = Path(__file__).with_name("metrics.md")
THEMES = Path(__file__).with_name("themes.md")
_THEMES_HEAD = """# Themes

Written by `docs/generate.py` from the themes and their model; do not edit by hand.

`theme: NAME` in the settings chooses one, and so does the palette (`:`, then `theme`). Themes of
your own are files `*.yaml` in `themes/` beside your `config.yaml`; one with the name of a shipped
theme takes its place. A file is read again as soon as it is saved. A broken file is reported with
its line, and the version before it stays active.

State is never shown by colour alone: trouble is a glyph, and so are jobs and verdicts. Heat rises
in lightness, so it can be read without its hue. A terminal with 16 colours, or none (`NO_COLOR`),
gets glyphs for the nine steps; `symbols: ascii` makes everything plain ASCII.

## Shipped
"""


def theme_reference() -> str:
    """Return the page about themes: those that ship, and every key of a file."""
    lines = [_THEMES_HEAD, "| name | for |", "| --- | --- |"]
    files = sorted(shipped_folder().glob("*.yaml"))
    for path in files:
        first = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"| `{load(path).name}` | {first} |")
    parts = (("", ThemeDocument), ("colors", Colors), ("state", State))
    for section, model in parts:
        title = f"## `{section}`" if section else "## A file"
        lines += ["", title, "", (model.__doc__ or "").strip(), "", "| key | means |"]
        lines.append("| --- | --- |")
        for name, meaning in tables.descriptions(model).items():
            lines.append(f"| `{name}` | {' '.join(meaning.split())} |")
    example = shipped_folder() / "night.yaml"
    lines += ["", "## An example", "", "A colour is written as `#rrggbb`. This is `night`:", ""]
    lines += ["```yaml", example.read_text(encoding="utf-8").rstrip(), "```"]
    return "\n".join(lines) + "\n"


API = Path(__file__).with_name("api.md")
MAN = Path(__file__).with_name("gpuconsole.1")
SETTINGS = Path(__file__).with_name("settings.md")
KEYS = Path(__file__).with_name("keys.md")


if __name__ == "__main__":
    # They lie beside this file, and tests load them by themselves.
    import apipage
    import manpage
    import settingspage

    SUMMARIES.write_text(command_summaries(), encoding="utf-8")
    # The reference quotes them.
    importlib.reload(summaries)
    TARGET.write_text(reference(), encoding="utf-8")
    THEMES.write_text(theme_reference(), encoding="utf-8")
    FILTERS.write_text(tables.filters_page(), encoding="utf-8")
    TRIAGE.write_text(tables.triage_page(TRIAGE.read_text(encoding="utf-8")), encoding="utf-8")
    VENDORS.write_text(tables.vendors_page(VENDORS.read_text(encoding="utf-8")), encoding="utf-8")
    METRICS.write_text(tables.metrics_page(METRICS.read_text(encoding="utf-8")), encoding="utf-8")
    API.write_text(apipage.page(API.read_text(encoding="utf-8")), encoding="utf-8")
    SETTINGS.write_text(settingspage.page(), encoding="utf-8")
    KEYS.write_text(tables.keys_page(), encoding="utf-8")
    MAN.write_text(manpage.page(), encoding="utf-8")

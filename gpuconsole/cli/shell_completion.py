"""What a shell completes, from files of this machine alone: no host is asked, nothing is started.

A Tab must answer at once, so nothing here imports what a session needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import Options
from gpuconsole.core.text import clean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
WAITING = ("queued", "held")
LIVE = (*WAITING, "launching", "running", "unknown")
ENDED = ("succeeded", "failed", "oom", "cancelled")
"""States of jobs by what can be done to them; words of `JobState`, which would be slow to
import."""
_VERBS = ("drain", "add", "priority")
_INVENTORY_LIMIT = 2**20
"""Bytes of an inventory that are read for its names."""


def jobs(*states: str) -> Completer:
    """Complete ids of jobs, and sweeps, in one of the states; in any where none is named."""

    def complete(
        context: click.Context, parameter: click.Parameter, beginning: str
    ) -> list[CompletionItem]:
        from gpuconsole.state.tables.completion_index import job_names

        return _items(job_names(_state(context), beginning, states))

    return complete


def jobs_or_files(
    context: click.Context, parameter: click.Parameter, beginning: str
) -> list[CompletionItem]:
    """Complete a job, or the path of a script, which the shell knows itself."""
    from click.shell_completion import CompletionItem

    files = CompletionItem(beginning, type="file")
    return [files, *jobs()(context, parameter, beginning)]


def incidents(
    context: click.Context, parameter: click.Parameter, beginning: str
) -> list[CompletionItem]:
    """Complete ids of incidents that are not over."""
    from gpuconsole.state.tables.completion_index import incident_names

    return _items(incident_names(_state(context), beginning))


def hosts(
    context: click.Context, parameter: click.Parameter, beginning: str
) -> list[CompletionItem]:
    """Complete names of the inventory's hosts."""
    return _items((name, "") for name in _hosts(context) if name.startswith(beginning))


def changes(
    context: click.Context, parameter: click.Parameter, beginning: str
) -> list[CompletionItem]:
    """Complete the words of a change: its verb, then what the verb is about."""
    said = tuple(context.params.get(str(parameter.name)) or ())
    if not said:
        return _items((verb, "") for verb in _VERBS if _begins(verb, beginning))
    if said == ("drain",):
        return hosts(context, parameter, beginning)
    if said == ("priority",):
        return jobs(*WAITING)(context, parameter, beginning)
    if said[0] == "add" and len(said) == 2:
        return models(context, parameter, beginning)
    return []


def models(
    context: click.Context, parameter: click.Parameter, beginning: str
) -> list[CompletionItem]:
    """Complete models of devices; a blank in a name is written as `_`."""
    from gpuconsole.core.device_catalogue import Catalogue

    names = (spec.model.replace(" ", "_") for spec in Catalogue.load().specs)
    return _items((name, "") for name in names if _begins(name, beginning))


def _begins(name: str, beginning: str) -> bool:
    return name.lower().startswith(beginning.lower())


def _items(pairs: Iterable[tuple[str, str]]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(clean(name), help=clean(words, 60) or None) for name, words in pairs]


def _options(context: click.Context) -> Options:
    current = context.find_root().obj
    return current if isinstance(current, Options) else Options()


def _state(context: click.Context) -> Path:
    from gpuconsole.core.util.user_dirs import state_dir

    return (_options(context).state or state_dir()).expanduser()


def _hosts(context: click.Context) -> list[str]:
    """Return the names that an inventory holds, as far as it can be read; it is not checked."""
    import yaml

    from gpuconsole.core.util.user_dirs import inventory_path

    named = _options(context).inventory or os.environ.get("GPUCONSOLE_INVENTORY")
    path = Path(named).expanduser() if named else inventory_path()
    try:
        with path.open("rb") as file:
            document = yaml.safe_load(file.read(_INVENTORY_LIMIT))
        entries = document["hosts"]
        return [str(entry["name"]) for entry in entries]
    except (OSError, yaml.YAMLError, UnicodeError, LookupError, TypeError, ValueError):
        # Half an inventory, or none: there is nothing to offer, and a prompt is no place to tell.
        return []

"""What a command or a key can do, a program can: each has its call, or a stated reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import gpuconsole
from gpuconsole.cli import entry
from tests.api.test_public import PAGE

ROWS = re.findall(r"^\| (`.*?) \| (.*?) \|$", PAGE.split("<!-- reference -->")[0], re.MULTILINE)
COMPONENTS = (
    "drains|estimates|foresight|history|images|messages|processes|queue|retrying|triage|waking"
)
TUI = Path(gpuconsole.__file__).parent / "tui"
OF_KEYS = {
    "estimates.report": "preflight",
    "estimates.climb": "measure",
    "processes.signal": "signal_process",
    "retrying.offer": "retry_smaller",
}
"""Calls of components that have another name as calls of a session."""
OF_SCREENS = {
    "estimates.expect": "makes the first answer quicker",
    "estimates.isolation": "is shown before measuring",
    "estimates.stop_measuring": "a program cancels its call",
    "foresight.known": "`why` tells it of a job",
    "foresight.renew": "`why` looks first",
    "foresight.where": "`placements` answers for a task",
    "history.device": "a curve of a screen",
    "history.host": "a curve of a screen",
    "triage.actions": "`incident` has them",
    "triage.looked_at": "whether a screen has an answer yet",
    "triage.ticket": "the text of an incident for a person",
}
"""Calls of components that only a screen needs, and why."""


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name))


def test_each_command_has_its_call_or_a_reason() -> None:
    listed = [name for names, _ in ROWS for name in re.findall(r"`(.*?)`", names)]
    assert sorted(listed) == sorted(commands(entry.gpuconsole))


@pytest.mark.parametrize(("names", "calls"), ROWS)
def test_each_call_is_there(names: str, calls: str) -> None:
    if calls.startswith("none: "):
        return
    named = [call for call in re.findall(r"`([a-z_.]+)`", calls) if call]
    assert named, names
    for call in named:
        assert hasattr(gpuconsole, call) or is_call(call), call


def test_each_key_has_its_call_or_a_reason() -> None:
    used = {
        call
        for path in TUI.rglob("*.py")
        for call in re.findall(
            rf"(?<!gpuconsole\.)\bsession\.((?:{COMPONENTS})\.[a-z_]+)", path.read_text("utf-8")
        )
    }
    assert {"queue.submit", "queue.cancel", "drains.drain"} <= used
    assert set(OF_SCREENS) <= used
    for call in sorted(used - set(OF_SCREENS)):
        assert is_call(call) or is_call(OF_KEYS.get(call, call.split(".")[1])), call


def is_call(name: str) -> bool:
    """Tell whether sessions and their blocking face have a call."""
    component, _, verb = name.rpartition(".")
    if component:
        return component == "images" and all(
            hasattr(kind, verb) for kind in (gpuconsole.Imaging, gpuconsole.BlockingImages)
        )
    return all(hasattr(kind, verb) for kind in (gpuconsole.Session, gpuconsole.BlockingSession))

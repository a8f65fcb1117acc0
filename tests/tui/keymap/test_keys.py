"""Every key of the registry is bound where it says, does its action, and is documented."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from textual.dom import DOMNode

from gpuconsole.core.estimate import Suggestion
from gpuconsole.core.jobs import JobState
from gpuconsole.core.submission.script_edits import Edit
from gpuconsole.tui.app import ConsoleApp, Look
from gpuconsole.tui.keymap.registry import AREAS, DIALOGS, KEYS, in_area, verbs
from gpuconsole.tui.palette.screen import Palette
from gpuconsole.tui.screens.compare import CompareScreen
from gpuconsole.tui.screens.container.containers import ContainersScreen
from gpuconsole.tui.screens.container.log import ContainerLogScreen
from gpuconsole.tui.screens.device import DeviceScreen
from gpuconsole.tui.screens.dialogs.base import ConfirmScreen
from gpuconsole.tui.screens.dialogs.change import ChangeScreen
from gpuconsole.tui.screens.dialogs.retry_oom import AgainScreen
from gpuconsole.tui.screens.fleet import FleetScreen
from gpuconsole.tui.screens.help import HelpScreen
from gpuconsole.tui.screens.host import HostScreen
from gpuconsole.tui.screens.incidents import Actions, TriageScreen
from gpuconsole.tui.screens.job import JobScreen
from gpuconsole.tui.screens.jump import JumpScreen
from gpuconsole.tui.screens.messages import MessagesScreen
from gpuconsole.tui.screens.queue import QueueScreen
from gpuconsole.tui.screens.submit.screen import SubmitScreen
from gpuconsole.tui.screens.tour import TourScreen
from gpuconsole.tui.screens.usage import UsageScreen
from gpuconsole.tui.widgets.fleet_map import FleetMap
from gpuconsole.tui.widgets.form import Form
from gpuconsole.tui.widgets.input_bar import FilterBar
from gpuconsole.tui.widgets.log_view import LogLines
from gpuconsole.tui.widgets.row_list import Rows
from tests.scripts import script
from tests.tui.console import Driven, opened
from tests.tui.fake import FakeSession, FakeTriage, incident, job

DOCS = Path(__file__).resolve().parents[3] / "docs" / "keys.md"


WHERE: dict[str, tuple[type[DOMNode], tuple[str, ...]]] = {
    "app": (ConsoleApp, ()),
    "go": (FleetScreen, ()),
    "time": (FleetScreen, ()),
    "fleet": (FleetScreen, ()),
    "map": (FleetMap, ()),
    "host": (HostScreen, ("enter",)),
    "device": (DeviceScreen, ("enter", "enter")),
    "queue": (QueueScreen, ("2",)),
    "usage": (UsageScreen, ("2", "u")),
    "containers": (ContainersScreen, ("C",)),
    "clog": (ContainerLogScreen, ("C", "enter")),
    "compare": (CompareScreen, ("2", "A", "M")),
    "table": (Rows, ("2",)),
    "submit": (SubmitScreen, ("4",)),
    "form": (Form, ("4",)),
    "triage": (TriageScreen, ("5",)),
    "actions": (Actions, ("5", "x")),
    "job": (JobScreen, ("3",)),
    "log": (LogLines, ("3",)),
    "filter": (FilterBar, ("slash",)),
    "dialog": (ConfirmScreen, ("2", "c")),
    "again": (AgainScreen, ("3", "left_square_bracket", "r")),
    "change": (ChangeScreen, ("4",)),
    "palette": (Palette, ("colon",)),
    "jump": (JumpScreen, ("ctrl+o",)),
    "messages": (MessagesScreen, ("colon", *"messages", "enter")),
    "help": (HelpScreen, ("question_mark",)),
    "tour": (TourScreen, ("colon", *"tour", "enter")),
}
"""Who carries an area's bindings, and the keys that lead there."""


def session() -> FakeSession:
    jobs = (
        job("resnet", JobState.RUNNING, 1),
        job("bert", JobState.QUEUED, 2, attempts=()),
        job("gpt", JobState.OOM, 3),
    )
    wrong = FakeTriage((incident(),))
    return FakeSession(jobs_now=jobs, lines=("one", "two"), triage=wrong)


def test_ids_are_unique_and_of_known_areas() -> None:
    ids = [key.id for key in KEYS]
    assert len(ids) == len(set(ids))
    assert {key.area for key in KEYS} == set(AREAS) == set(WHERE)


def test_no_key_means_two_things_at_once() -> None:
    for together in (("go", "time", "fleet", "map"), ("go", "time", "host", "map"),
                     ("go", "time", "device", "table"), ("go", "time", "usage", "table"),
                     ("go", "time", "compare", "table"),
                     ("go", "time", "queue", "table"), ("go", "time", "job", "log"),
                     ("go", "time", "containers", "table"), ("go", "time", "clog", "log"),
                     ("submit",), ("dialog",)):  # fmt: skip
        taken: dict[str, str] = {}
        for key in in_area("app", *together):
            for name in key.keys.split(","):
                assert name not in taken, f"{name}: {key.id} and {taken[name]}"
                taken[name] = key.id


def test_a_letter_means_the_same_on_every_screen() -> None:
    several = {letter: found for letter, found in verbs().items() if len(found) > 1}
    assert not several
    # `y` answers questions and copies; no other letter is both an answer and a verb.
    answers = {letter for key in in_area(*DIALOGS) for letter in key.letters}
    assert answers == {"y", "n", "s"}


Call = tuple[str, str]
"""An action's name and its arguments, as a key has them."""


def spied(monkeypatch: pytest.MonkeyPatch, area: str) -> list[Call]:
    """Record calls of an area's actions in place of doing them."""
    calls: list[Call] = []
    for key in in_area(area):
        owner, _ = WHERE[area]
        action = key.action.partition("(")[0]
        if action.startswith("app."):
            owner, action = ConsoleApp, action[4:]
        assert hasattr(owner, f"action_{action}"), f"{owner.__name__} has no action {action}"
        original = getattr(owner, f"action_{action}")

        # With the signature of the original: Textual passes as many arguments as it reads there.
        @functools.wraps(original)
        def recorded(self: object, *args: Any, action: str = action) -> None:
            calls.append((action, str(args).strip("(),").replace(" ", "")))

        monkeypatch.setattr(owner, f"action_{action}", recorded)
    return calls


@pytest.mark.parametrize("area", AREAS)
async def test_every_key_does_its_action(area: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(session()) as console:
        await console.press(*WHERE[area][1])
        if area == "change":
            # Keys alone lead there only once a suggestion is on the screen.
            edit = Edit("train.py", 3, "a = 1", "a = 2", "amp")
            suggestion = Suggestion("amp", "O1", "Use it.", edits=(edit,))
            console.app.push_screen(ChangeScreen(suggestion, "train.py"))
            await console.until(lambda: isinstance(console.app.screen, ChangeScreen))
        calls = spied(monkeypatch, area)
        for key in in_area(area):
            action, _, args = key.action.removeprefix("app.").partition("(")
            for name in key.keys.split(","):
                calls.clear()
                await console.press(name)
                await console.until(lambda: calls, f"{key.id} by {name}")
                assert calls == [(action, args.rstrip(")").replace(" ", ""))], f"{key.id}, {name}"


async def test_read_only_bars_every_writing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = session()
    locked.read_only = True
    async with opened(locked) as console:
        for key in KEYS:
            if not key.writes or key.area == "submit":
                continue
            await console.press("escape", "1", *WHERE[key.area][1])
            mode = console.app.current_mode
            await console.press(key.keys.split(",")[0])
            assert console.app.current_mode == mode, key.id
            assert not isinstance(console.app.screen, ConfirmScreen), key.id
        changes = {"submit", "cancel", "hold", "retry", "priority"}
        assert not changes & {call[0] for call in locked.calls}


async def test_keys_can_be_changed_by_id() -> None:
    look = Look(keys={"fleet.metric": "ctrl+t", "no.such": "x"})
    async with opened(session(), look=look) as console:
        await console.shows("`no.such` is no id of a key")
        await console.press("m")
        assert console.app.screen.query_one(FleetMap).metric == "utilisation"
        await console.press("ctrl+t")
        assert console.app.screen.query_one(FleetMap).metric == "memory"


async def help_of(console: Driven, *keys: str) -> str:
    await console.press(*keys)
    await console.until(lambda: isinstance(console.app.screen, HelpScreen))
    return "".join(str(line) for line in console.app.screen.query_one("#help-text").render().plain)  # type: ignore[union-attr]


HELP = {
    "fleet": ("question_mark",), "host": ("enter", "question_mark"),
    "device": ("enter", "question_mark"), "queue": ("2", "f1"), "job": ("3", "question_mark"),
    "submit": ("4", "f1"),
}  # fmt: skip
"""The keys from one area's screen to the help of the next."""


async def test_help_lists_the_keys_of_its_screen() -> None:
    async with opened(session()) as console:
        for area, keys in HELP.items():
            text = await help_of(console, *keys)
            for key in in_area(area):
                assert key.help in " ".join(text.split()), f"{area}: {key.id}"
            assert "idle to full" in text, area
            assert "host down" in text, area
            await console.press("q")
            assert not isinstance(console.app.screen, HelpScreen), area


def test_the_key_sheet_is_current() -> None:
    again = "python docs/generate.py"
    assert DOCS.read_text(encoding="utf-8") == script(DOCS.with_name("tables.py")).keys_page(), (
        f"stale; run {again}"
    )

"""Keys of the settings: what can be is active everywhere, what cannot be is reported."""

from __future__ import annotations

import pytest

from gpuconsole.tui.app import Look
from gpuconsole.tui.keymap.user_keymap import KeyChoice
from gpuconsole.tui.widgets.fleet_map import FleetMap
from tests.tui.console import opened
from tests.tui.fake import FakeSession


def test_the_registry_has_no_conflicts_of_its_own() -> None:
    choice = KeyChoice({})
    assert choice.problems == []
    assert choice.keymap == {}


@pytest.mark.parametrize(
    "keys", ["ctrl+f", ":", "F5", "f5", "ctrl+t,f12", ",", "space", "shift+up"]
)
def test_keys_can_be_written_as_people_write_them(keys: str) -> None:
    choice = KeyChoice({"submit.measure": keys.lower()})
    assert not [problem for problem in choice.problems if "no key" in problem]
    assert "submit.measure" in choice.keymap


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"fleet.metrik": "t"}, "`fleet.metrik` is no id of a key. Did you mean `fleet.metric`?"),
        ({"fleet.metric": "ctlr+t"}, "`fleet.metric: ctlr+t`: there is no key `ctlr+t`."),
        ({"fleet.metric": "pageupp"}, "there is no key `pageupp`. Did you mean `pageup`?"),
        ({"fleet.metric": ""}, "there is no key ``."),
        ({"fleet.metric": "o"}, "`o` is both `fleet.metric` and `fleet.order`"),
        ({"fleet.metric": "j"}, "`j` is both `fleet.metric` and `map.down`"),
        ({"queue.why": "1"}, "`1` is both `go.fleet` and `queue.why`"),
    ],
)
def test_what_cannot_be_is_told(wanted: dict[str, str], problem: str) -> None:
    choice = KeyChoice(wanted)
    assert any(problem in said for said in choice.problems), choice.problems


def test_a_wrong_key_leaves_the_old_one_in_force() -> None:
    choice = KeyChoice({"fleet.metric": "nokey", "fleet.faults": "ctrl+x"})
    keys = {key.id: key.keys for key in choice.in_area("fleet")}
    assert (keys["fleet.metric"], keys["fleet.faults"]) == ("m", "ctrl+x")


async def test_footer_palette_and_help_show_the_key_in_force() -> None:
    look = Look(keys={"fleet.metric": "ctrl+t"})
    async with opened(FakeSession(), look=look) as console:
        await console.shows("ctrl+t metric")
        await console.press("ctrl+t")
        assert console.app.screen.query_one(FleetMap).metric == "memory"
        await console.press("colon")
        await console.type("next metric")
        await console.shows("ctrl+t")

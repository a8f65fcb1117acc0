"""Jumping by letters, the mouse, one widget on the whole body, the screen before, help."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.containers import VerticalScroll
from textual.widgets import Input

from gpuconsole.core.jobs import JobState
from gpuconsole.tui.palette.screen import Palette
from gpuconsole.tui.screens.container.containers import ContainersScreen
from gpuconsole.tui.screens.help import HelpScreen
from gpuconsole.tui.screens.jump import JumpLabel, JumpScreen
from gpuconsole.tui.widgets.fleet_map import FleetMap
from gpuconsole.tui.widgets.jumpable import LETTERS, MOST, labels
from gpuconsole.tui.widgets.row_list import Rows
from tests.tui.console import NARROW, SIZES, WIDE, Driven, opened
from tests.tui.fake import FakeSession, FakeTriage, incident, job, lab

JOBS = tuple(job(f"job-{number}", JobState.QUEUED, number, attempts=()) for number in range(60))


def test_labels_are_all_of_one_length_and_unlike() -> None:
    for count in (0, 1, len(LETTERS), len(LETTERS) + 1, MOST):
        made = list(labels(count))
        assert len(made) == len(set(made)) == count
        assert len({len(label) for label in made}) <= 1


async def jump(console: Driven) -> list[JumpLabel]:
    await console.press("ctrl+o")
    await console.until(lambda: isinstance(console.app.screen, JumpScreen))
    return list(console.app.screen.query(JumpLabel))


@pytest.mark.parametrize("size", SIZES)
async def test_a_letter_goes_to_its_host(size: tuple[int, int]) -> None:
    async with opened(FakeSession(), size) as console:
        screen = console.app.screen
        found = await jump(console)
        assert len(found) >= 4
        line = console.text.splitlines()[found[3].place.at.y]
        assert line[found[3].place.at.x] == found[3].letters[0]
        await console.press(*found[3].letters)
        await console.until(lambda: console.app.screen is screen)
        host, _ = screen.query_one(FleetMap).current
        assert host is not None
        assert host.name in line


async def test_many_rows_have_two_letters_and_wrong_ones_leave() -> None:
    async with opened(FakeSession(jobs_now=JOBS), (120, 50)) as console:
        await console.press("2")
        rows = console.app.screen.query_one(Rows)
        found = await jump(console)
        assert {len(label.letters) for label in found} == {2}
        target = found[7]
        await console.press(target.letters[0])
        assert sum(label.display for label in found) < len(found)
        await console.press(target.letters[1])
        await console.until(lambda: rows.at == 7)
        await jump(console)
        await console.press("a", "escape")
        await console.until(lambda: not isinstance(console.app.screen, JumpScreen))
        assert rows.at == 7


async def test_fields_of_a_form_can_be_jumped_to() -> None:
    async with opened(FakeSession()) as console:
        await console.press("4")
        found = await jump(console)
        await console.press(*found[2].letters)
        await console.until(lambda: isinstance(console.app.focused, Input))
        field = console.app.focused
        assert field is not None
        assert field.content_region.offset == found[2].place.at


async def test_the_densest_map_has_a_letter_a_row() -> None:
    many = tuple(replace(lab()[0], name=f"node-{at}", devices=()) for at in range(300))
    async with opened(FakeSession(hosts_now=many)) as console:
        fleet_map = console.app.screen.query_one(FleetMap)
        await console.press("minus", "minus", "minus", "minus")
        found = await jump(console)
        assert len({label.place.at.y for label in found}) > 1
        assert len({(label.place.at.x, label.place.at.y) for label in found}) == len(found)
        await console.press(*found[-1].letters)
        await console.until(lambda: fleet_map.current[0] is not None)


# -- the mouse ------------------------------------------------------------------------------


async def click(console: Driven, words: str, row: int) -> None:
    line = console.text.splitlines()[row]
    assert words in line, line
    await console.pilot.click(offset=(line.index(words) + 1, row))
    await console.pilot.pause()


@pytest.mark.parametrize("size", SIZES)
async def test_tabs_and_footer_keys_can_be_clicked(size: tuple[int, int]) -> None:
    async with opened(FakeSession(jobs_now=JOBS), size) as console:
        await click(console, "2 Queue", 1)
        await console.until(lambda: console.app.current_mode == "queue")
        await click(console, "? help", size[1] - 1)
        await console.until(lambda: isinstance(console.app.screen, HelpScreen))
        await console.press("escape")
        await click(console, ": command", size[1] - 1)
        await console.until(lambda: isinstance(console.app.screen, Palette))
        await console.press("escape")
        await click(console, "1 Fleet", 1)
        await console.until(lambda: console.app.current_mode == "fleet")
        await click(console, "C containers", size[1] - 1)
        await console.until(lambda: isinstance(console.app.screen, ContainersScreen))


async def test_the_wheel_scrolls_a_list_and_a_double_click_opens() -> None:
    async with opened(FakeSession(jobs_now=JOBS), NARROW) as console:
        await console.press("2")
        rows = console.app.screen.query_one(Rows)
        rows.scroll_down(animate=False)
        await console.until(lambda: rows.scroll_offset.y > 0)
        rows.put(list(rows.keys), lambda key, number: [], [])  # jobs came: the view stays
        assert rows.scroll_offset.y > 0
        top = rows.keys[rows.scroll_offset.y]
        await console.pilot.click(Rows, offset=(8, 2), times=2)
        await console.until(lambda: console.app.current_mode == "job")
        assert console.app.job_id == top


async def test_a_double_click_on_the_map_opens_the_host() -> None:
    async with opened(FakeSession(), WIDE) as console:
        await console.pilot.click(FleetMap, offset=(8, 3), times=2)
        await console.shows("Fleet > ")


# -- one widget, the screen before, help ----------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_what_has_the_focus_takes_the_body_and_gives_it_back(size: tuple[int, int]) -> None:
    async with opened(FakeSession(jobs_now=JOBS), size) as console:
        await console.press("2")
        rows, why = console.app.screen.query_one(Rows), console.app.screen.query_one("#why")
        # A screen is laid out once before it knows that its terminal is short.
        await console.until(lambda: why.outer_size.height == (8 if size == NARROW else 12))
        body = console.app.screen.query_one("#body")
        small = rows.outer_size
        await console.press("ctrl+e")
        await console.until(lambda: rows.outer_size == body.size, "the whole body")
        await console.press("slash", *"job-1")
        await console.shows("job-1")
        assert console.app.screen.query_one("#filter").region.height == 1
        await console.press("escape", "escape", "ctrl+e")
        await console.until(lambda: rows.outer_size == small, "as before")


async def test_the_screen_before_and_back() -> None:
    async with opened(FakeSession(jobs_now=JOBS)) as console:
        await console.press("backspace")
        assert console.app.current_mode == "fleet"
        await console.press("2", "backspace")
        assert console.app.current_mode == "fleet"
        await console.press("backspace")
        assert console.app.current_mode == "queue"


async def test_help_begins_with_what_has_the_focus_and_tells_the_thresholds_in_force() -> None:
    session = FakeSession()
    session.settings = session.settings.model_copy(update={"memory_threshold": 0.7})
    async with opened(session) as console:
        await console.press("question_mark")
        await console.shows("Moving on the map (focused)", "One to the left")
        box = console.app.screen.query_one(VerticalScroll)
        box.scroll_end(animate=False)
        await console.shows("an estimate may fill 70 % of a device", "throttled by heat")
        box.scroll_home(animate=False)
        await console.press("escape", "slash")
        assert isinstance(console.app.focused, Input)


@pytest.mark.parametrize(
    ("keys", "copied"),
    [(("y",), "a100-01"), (("enter", "y"), "GPU-a0"), (("2", "y"), "ana-0001"),
     (("5", "y"), "slowed by heat")],
)  # fmt: skip
async def test_every_screen_copies_and_says_what(keys: tuple[str, ...], copied: str) -> None:
    wrong = FakeTriage((incident(),))
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING, 1),), triage=wrong)
    async with opened(session) as console:
        await console.press(*keys)
        await console.until(lambda: copied in console.app.clipboard, console.app.clipboard)
        assert any("opied" in said.message for said in console.app.messages)


async def test_the_form_copies_the_docker_command_once_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    async with opened(FakeSession()) as console:
        await console.press("4", "ctrl+y")
        await console.toast("There is nothing to copy yet.")
        await console.type("train.py")
        await console.until(lambda: getattr(console.app.screen, "_draft").answer.docker)  # noqa: B009
        await console.press("ctrl+y")
        await console.toast("Copied the docker command.")
        assert "docker" in console.app.clipboard

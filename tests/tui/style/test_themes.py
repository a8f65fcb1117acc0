"""Themes: seen by every eye, readable, and read again when a file changes."""

from __future__ import annotations

import os
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from gpuconsole.tui.app import Look
from gpuconsole.tui.style.themes import BUILT_IN, ThemeFile, Wardrobe, load, shipped_folder
from tests.tui.console import opened
from tests.tui.fake import FakeSession
from tests.tui.seeing import EYES, contrast, distance, lightness

SHIPPED = {path.stem: load(path) for path in sorted(shipped_folder().glob("*.yaml"))}
NIGHT = (shipped_folder() / "night.yaml").read_text(encoding="utf-8")
WORDS = ("foreground", "muted", "primary", "accent", "success", "warning", "error")
THEMES = (*SHIPPED.values(), BUILT_IN)
each_theme = pytest.mark.parametrize("theme", THEMES, ids=lambda one: one.name)


def test_seven_themes_ship_under_the_names_of_their_files() -> None:
    assert {stem: theme.name for stem, theme in SHIPPED.items()} == {
        name: name
        for name in ("night", "day", "ice", "contrast", "deuteranopia", "tritanopia", "mono")
    }


@each_theme
def test_heat_goes_one_way_in_lightness(theme: ThemeFile) -> None:
    steps = [lightness(color) for color in theme.heat]
    if not theme.dark:
        steps.reverse()
    assert all(low + 3 < high for low, high in pairwise(steps)), steps


@each_theme
@pytest.mark.parametrize("eye", EYES)
def test_every_eye_tells_the_steps_of_heat_apart(theme: ThemeFile, eye: str) -> None:
    for one, other in combinations(theme.heat, 2):
        assert distance(one, other, eye) > 6, (one, other)  # type: ignore[arg-type]


@each_theme
def test_words_can_be_read_on_every_ground(theme: ThemeFile) -> None:
    least = 7.0 if theme.name == "contrast" else 4.5
    for ground in ("background", "surface", "panel"):
        for word in WORDS:
            found = contrast(theme.colors[word], theme.colors[ground])
            assert found >= least, f"{word} on {ground}: {found:.1f}"
    for color in theme.heat[4:]:
        # Figures have no darker step than the middle one.
        assert contrast(color, theme.colors["background"]) >= (7.0 if least == 7.0 else 3.0)
    for state, color in theme.state.items():
        # Drawn in reverse: the glyph has the colour of the background.
        assert contrast(color, theme.colors["background"]) >= least, state


@pytest.mark.parametrize("name", ["deuteranopia", "tritanopia"])
def test_good_and_bad_differ_for_the_eye_that_a_theme_is_for(name: str) -> None:
    colors = SHIPPED[name].colors
    for one, other in combinations(("success", "warning", "error"), 2):
        assert distance(colors[one], colors[other], name) > 20, (one, other)  # type: ignore[arg-type]
    red, _, blue = (int(colors["success"][at : at + 2], 16) for at in (1, 3, 5))
    assert blue > red + 60, "healthy is blue"


# -- files that change ----------------------------------------------------------------------


def write(path: Path, text: str, turn: int) -> None:
    """Write a file so that its time differs, however fast the test is."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_700_000_000 + turn, 1_700_000_000 + turn))


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    write(path, NIGHT.replace("name: night", "name: mine"), 0)
    wardrobe = Wardrobe([tmp_path])
    assert wardrobe.look() == ({"mine"}, [])
    assert wardrobe.look() == (set(), [])
    write(path, NIGHT.replace("name: night", "name: mine").replace("#7aa2d6", "#123456"), 1)
    assert wardrobe.look() == ({"mine"}, [])
    assert wardrobe.themes["mine"].colors["primary"] == "#123456"


def test_a_broken_file_is_told_once_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    good = NIGHT.replace("name: night", "name: mine")
    write(path, good, 0)
    wardrobe = Wardrobe([tmp_path])
    wardrobe.look()
    before = wardrobe.themes["mine"]
    write(path, good.replace("#7aa2d6", "bluish"), 1)
    changed, errors = wardrobe.look()
    assert not changed
    assert "mine.yaml:5:12" in errors[0].message
    assert wardrobe.look() == (set(), [])
    assert wardrobe.themes["mine"] == before
    path.unlink()
    assert wardrobe.look() == (set(), [])
    assert wardrobe.themes["mine"] == before


def test_a_theme_of_ones_own_takes_the_place_of_a_shipped_one(tmp_path: Path) -> None:
    wardrobe = Wardrobe([shipped_folder(), tmp_path])
    wardrobe.look()
    write(tmp_path / "mine.yaml", NIGHT.replace("#7aa2d6", "#123456"), 0)
    assert wardrobe.look()[0] == {"night"}
    assert wardrobe.themes["night"].colors["primary"] == "#123456"
    os.utime(tmp_path / "mine.yaml", (1, 1))
    wardrobe.look()
    assert wardrobe.themes["night"].colors["primary"] == "#123456"


async def test_the_console_wears_what_is_saved_and_tells_what_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    good = NIGHT.replace("name: night", "name: mine")
    write(path, good, 0)
    look = Look(theme="mine", theme_folders=(tmp_path,))
    async with opened(FakeSession(), look=look) as console:
        app = console.app

        def ground() -> str:
            return app.screen.styles.background.hex.lower()

        assert ground() == "#0f131a"
        write(path, good.replace("#0f131a", "#202020"), 1)
        await console.until(lambda: ground() == "#202020", "the new ground")
        assert app.ink.text.bgcolor is not None
        assert app.ink.text.bgcolor.name == "#202020"
        write(path, good.replace("#0f131a", "dark"), 2)
        await console.toast("mine.yaml:9:15")
        assert ground() == "#202020"
        assert app.theme == "mine"
        write(path, good.replace("#0f131a", "#303030"), 3)
        await console.until(lambda: ground() == "#303030", "the file that is whole again")


async def test_every_theme_draws_every_screen() -> None:
    async with opened(FakeSession(), look=Look(theme=THEMES[0].name)) as console:
        assert console.app.ink.theme.name == THEMES[0].name
        for theme in THEMES:
            console.app.theme = theme.name
            await console.until(lambda theme=theme: console.app.ink.theme.name == theme.name)
            for key, words in (("1", "a100-01"), ("2", "No jobs yet"), ("5", "Nothing is wrong"),
                               ("4", "script")):  # fmt: skip
                await console.press(key)
                await console.shows(words)
            await console.press("escape")


async def test_another_theme_leaves_nothing_of_the_one_before() -> None:
    async with opened(FakeSession(), look=Look(theme="night")) as console:
        await console.press("4")
        for name in ("day", "contrast"):
            console.app.theme = name
            await console.until(lambda name=name: console.app.ink.theme.name == name)
            await console.pilot.pause(0.2)
            strips = console.app.screen._compositor.render_strips()
            grounds = {
                segment.style.bgcolor.name.lower()
                for strip in strips
                for segment in strip
                if segment.style is not None and segment.style.bgcolor is not None
            }
            assert SHIPPED["night"].colors["background"].lower() not in grounds
            assert SHIPPED[name].colors["background"].lower() in grounds

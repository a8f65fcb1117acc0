"""Terminals with few colours or none: what colours showed is shown by glyphs and words."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem

from gpuconsole.core.answer_figures import answer
from gpuconsole.core.devices.health_levels import LEVELS, Condition
from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import JobState
from gpuconsole.tui.app import Look
from gpuconsole.tui.render.fleet_map.metrics import Cells
from gpuconsole.tui.render.fleet_map.owners import Owners
from gpuconsole.tui.render.preflight_report import stacked_bar
from gpuconsole.tui.style.styles import Ink, Symbols, few_colors
from gpuconsole.tui.style.themes import Wardrobe, shipped_folder
from tests.tui.console import SIZES, opened
from tests.tui.fake import FakeSession, FakeTriage, incident, job, lab, report

WARDROBE = Wardrobe([shipped_folder()])
WARDROBE.look()
NIGHT = WARDROBE.themes["night"]
each_theme = pytest.mark.parametrize("theme", WARDROBE.themes.values(), ids=lambda one: one.name)


@pytest.mark.parametrize(
    ("system", "no_color", "few"),
    [("truecolor", False, False), ("256", False, False), ("standard", False, True),
     ("windows", False, True), (None, False, True), ("truecolor", True, True)],
)  # fmt: skip
def test_which_terminals_have_few_colours(system: str | None, no_color: bool, few: bool) -> None:
    assert few_colors(system, no_color=no_color) is few


@each_theme
def test_256_colours_keep_all_steps_of_the_ramp(theme: object) -> None:
    ink = Ink(theme)  # type: ignore[arg-type]
    colors = [style.color.downgrade(ColorSystem.EIGHT_BIT) for style in ink.heat if style.color]
    assert len(set(colors)) == LEVELS


@each_theme
@pytest.mark.parametrize("symbols", ["block", "ascii"])
def test_with_few_colours_every_step_is_a_glyph_of_its_own(theme: object, symbols: Symbols) -> None:
    ink = Ink(theme, symbols, few_colors=True)  # type: ignore[arg-type]
    cells = Cells(ink, Owners())
    assert len({cells.one[step][0] for step in range(LEVELS)}) == LEVELS
    assert len({cells.two[step, step][0] for step in range(LEVELS)}) == LEVELS
    assert cells.two[2, 7] == cells.one[7], "the busier of two that share a cell"


@pytest.mark.parametrize("symbols", ["block", "ascii"])
def test_states_differ_by_their_glyphs(symbols: Symbols) -> None:
    glyphs = Ink(WARDROBE.themes["night"], symbols).glyphs
    assert len(set(glyphs.conditions.values())) == len(Condition) - 1, "all but OK"
    assert len(set(glyphs.jobs.values())) == len(JobState)
    fits = {glyphs.verdicts[word] for word in ("fits", "tight", "will-not-fit", "unknown")}
    assert len(fits) == 4


def colourless(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    """A session with something of everything, and no colours."""
    monkeypatch.setenv("NO_COLOR", "1")
    states = list(JobState)
    jobs = tuple(job(f"job-{state.value}", state, at) for at, state in enumerate(states, 1))
    return FakeSession(jobs_now=jobs, triage=FakeTriage((incident(),)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("symbols", ["block", "ascii"])
async def test_without_colours_every_screen_says_all_in_words_and_glyphs(
    size: tuple[int, int], symbols: Symbols, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = colourless(monkeypatch)
    async with opened(session, size, Look(symbols=symbols)) as console:
        assert console.app.ink.few_colors
        await console.shows("[1 Fleet]", "1 DOWN", "x", "!", "~")
        assert any(host.state is HostState.DOWN for host in lab())
        for _ in range(6):
            await console.press("m")
        await console.press("minus", "minus", "minus")
        await console.press("2")
        await console.shows("[2 Queue")
        for state in ("running", "queued", "failed", "succeeded"):
            await console.shows(state)
        await console.press("5")
        await console.shows("[5 Triage", "~ warning")
        await console.press("question_mark")
        await console.shows("Triage")


def test_the_parts_of_memory_are_letters_where_colours_cannot_part_them() -> None:
    shown = answer(report())
    plain = "".join(part for part, _ in stacked_bar(Ink(NIGHT), shown, 60))
    few = "".join(part for part, _ in stacked_bar(Ink(NIGHT, few_colors=True), shown, 60))
    assert not any(letter.isalpha() for letter in plain)
    assert len({letter for letter in few if letter.isalpha()}) >= 3

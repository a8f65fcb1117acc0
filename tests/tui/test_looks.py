"""What a person saw wrong on pictures of the screens (`docs/screens.py`), held by a test a kind:
words without contrast, clipped text, footers that leave out what matters, English among Chinese."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

from gpuconsole.core.history import Series
from gpuconsole.core.jobs import JobState
from gpuconsole.language import CHINESE, LABELS, catalogue, language
from gpuconsole.session.dispatch.attempt.outcome import find_device_oom
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.queue import job_outlook
from gpuconsole.simulated_lab.jobs import submit_demo_jobs
from gpuconsole.tui.app import Look
from gpuconsole.tui.render.frame import Marks, status_line
from gpuconsole.tui.render.plots.time_plot import Scale, plot_lines
from gpuconsole.tui.render.plots.training_curves import colors
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.style.themes import ThemeFile, Wardrobe, shipped_folder
from gpuconsole.tui.widgets.panel import Panel
from tests.cli.test_language import english
from tests.tui.console import NARROW, WIDE, Driven, opened
from tests.tui.fake import FakeSession, idle, job, lab
from tests.tui.seeing import contrast, distance
from tests.tui.test_snapshots import SCENES, come, session

WARDROBE = Wardrobe([shipped_folder()])
WARDROBE.look()
THEMES = tuple(WARDROBE.themes.values())
LARGE = (200, 60)
LEAST_CONTRAST, LEAST_OF_MARKS = 4.5, 3.0
"""WCAG 2.1's for words, and for marks: a letter alone that is the legend of a colour."""
LEAST_DISTANCE = 15.0
"""Between curves in one plot (CIE 1976)."""
each_theme = pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)


# -- contrast -----------------------------------------------------------------------------------


def segments(console: Driven) -> list[Segment]:
    """All that is on the terminal."""
    strips = console.app.screen._compositor.render_strips()
    return [segment for strip in strips for segment in strip]


def shades(segment: Segment) -> tuple[str, str]:
    """The colours of a segment's letters and of what is behind them, as they are seen."""
    style = segment.style
    assert style is not None
    assert style.color is not None
    assert style.bgcolor is not None
    front, back = Color.from_rich_color(style.color).hex6, Color.from_rich_color(style.bgcolor).hex6
    return (back, front) if style.reverse else (front, back)


@pytest.mark.parametrize("theme", ["night", "day"])
async def test_every_word_on_every_screen_has_enough_contrast(theme: str) -> None:
    pale: dict[str, set[str]] = defaultdict(set)
    async with opened(session(), WIDE, Look(theme=theme)) as console:
        for name, scene in SCENES.items():
            await come(console, scene)
            modal = name in ("help", "palette", "jump", "dialog")
            for segment in segments(console):
                if re.search(r"\w", segment.text):
                    front, back = shades(segment)
                    border = console.app.ink.theme.colors["border"]
                    least = LEAST_OF_MARKS if len(segment.text.strip()) == 1 else LEAST_CONTRAST
                    if contrast(front, back) < least and not (modal and front == border):
                        pale[name].add(f"{segment.text.strip()} {front} on {back}")
            await console.press(*scene.back)
            await console.shows(*SCENES["fleet"].words)
    assert not pale


@each_theme
def test_curves_of_one_plot_are_told_apart(theme: ThemeFile) -> None:
    if theme.name == "mono":
        pytest.skip("it has one hue")
    shown = [style.color.name for style in colors(Ink(theme))[:4] if style.color is not None]
    assert len(shown) == 4
    near = [
        (one, other)
        for at, one in enumerate(shown)
        for other in shown[:at]
        if distance(one, other) < LEAST_DISTANCE
    ]
    assert not near


# -- clipped text -------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [64, 70, 76, 80, 90])
def test_free_sizes_that_were_left_out_are_hinted_at(width: int) -> None:
    ink = Ink(WARDROBE.themes["night"])
    sizes = ((40, 1), (32, 2), (24, 3), (15, 1))
    picture = replace(Picture(), free_sizes=sizes, now=1.0)
    line = "".join(text for text, _ in status_line(ink, picture, Marks(simulated=True), width))
    assert cell_len(line) == width
    shown = sum(f"{count}x{size}G" in line for size, count in sizes)
    assert (" …" in line) is (shown < len(sizes)), line


async def test_an_answer_about_free_devices_fits_the_terminal_after_a_resize() -> None:
    async with opened(FakeSession(), LARGE) as console:
        await console.press("w")
        await console.type("1x1")
        await console.press("enter")
        await console.shows("places")
        async for wide, _ in console.at_sizes([NARROW, LARGE, NARROW]):
            (line,) = (line for line in console.text.splitlines() if " places " in line)
            assert wide == LARGE[0] or "more" in line


async def test_a_log_line_that_goes_on_is_marked() -> None:
    lines = ("short", "x" * 300)
    running = job("long", JobState.RUNNING, 1)
    async with opened(FakeSession(jobs_now=(running,), lines=lines), NARROW) as console:
        await console.press("3")
        await console.shows("xxx…")
        assert "short…" not in console.text
        await console.press("W")
        await console.until(lambda: "xxx…" not in console.text, "wrapped lines are whole")


async def test_a_pinned_heading_stays_when_a_panel_is_scrolled() -> None:
    async with opened(FakeSession(), WIDE) as console:
        panel = console.app.screen.query_one("#inspector", Panel)
        plain = console.app.ink.text
        lines = [[("heading", plain)], *([(f"row {n}", plain)] for n in range(40))]

        def scrolled() -> bool:
            # The screen fills the panel again when it looks at the session.
            panel.put(lines, pinned=1)
            panel.scroll_to(y=5, animate=False)
            shown = [panel.render_line(row).text.strip() for row in (0, 1)]
            return shown == ["heading", "row 5"]

        await console.until(scrolled, "the heading above a later row")


def test_zero_is_drawn_and_nothing_is_not() -> None:
    ink = Ink(WARDROBE.themes["night"])
    scale = Scale(100.0, lambda value: f"{value:.0f}%")
    measured = Series(0.0, 60.0, (0.0, 30.0), (0.0, None), (0.0, None), (0.0, None), (30.0, 30.0))
    lines = plot_lines(ink, measured, scale, 40, 4)
    bottom = "".join(text for text, _ in lines[-2])
    assert "▁" in bottom
    assert bottom.rstrip("▁ ") != bottom
    assert bottom.endswith("  "), "the second half was not measured"


async def test_a_short_terminal_shows_the_processes_of_a_host_rather_than_its_events() -> None:
    async with opened(FakeSession(), NARROW) as console:
        await console.press("enter")
        await console.shows("processes", "F6 next")
        assert "events" not in console.text
        await console.press("f6")
        await console.shows("events")
        assert "processes" not in console.text


# -- footers ------------------------------------------------------------------------------------


def footer(console: Driven) -> str:
    return console.text.splitlines()[-1]


@pytest.mark.parametrize(
    ("state", "keys"),
    [(JobState.OOM, ("r retry", "/ search")), (JobState.RUNNING, ("f follow", "c cancel"))],
)
async def test_a_narrow_footer_has_what_one_does_to_a_job(
    state: JobState, keys: tuple[str, ...]
) -> None:
    shown = job("one", state, 1, cause="Out of memory." if state is JobState.OOM else "")
    async with opened(FakeSession(jobs_now=(shown,), lines=("a", "b")), NARROW) as console:
        await console.press("3")
        await console.shows(*keys)
        # They step through matches: there are none to step through.
        assert "n/N" not in footer(console)
        await console.press("slash", "a", "enter")
        await console.until(lambda: "n/N match" in footer(console))


async def test_a_narrow_footer_says_how_to_leave_the_actions() -> None:
    async with opened(session(), NARROW) as console:
        await console.press("5", "x")
        await console.until(lambda: "esc list" in footer(console))


async def test_refreshing_is_not_called_estimating_again() -> None:
    async with opened(session(), WIDE, Look(language=CHINESE)) as console:
        await console.press("2", "u")
        await console.until(lambda: "F5 刷新" in footer(console))


@pytest.mark.parametrize("opens", [(), ("enter",)], ids=["fleet", "host"])
async def test_a_signal_on_a_free_device_goes_to_the_largest_process_of_its_host(
    opens: tuple[str, ...],
) -> None:
    first, *others = lab()
    holding = replace(first, devices=(idle("GPU-a9", 9), *first.devices))
    async with opened(FakeSession(hosts_now=(holding, *others)), WIDE) as console:
        await console.press(*opens)
        await console.until(lambda: "K signal" in footer(console))
        await console.press("K")
        await console.shows("No process is on gpu 9.", "on gpu 0", "4100 of ana", "y TERM")


# -- Chinese ------------------------------------------------------------------------------------


def test_one_english_text_has_one_chinese() -> None:
    """Texts of all sections are one catalogue: of two that are alike the later would be said."""
    said: dict[str, set[str]] = defaultdict(set)
    for section, part in catalogue(CHINESE).items():
        if section != LABELS:
            for text, other in part.items():
                said[text].add(other)
    assert not {text: others for text, others in said.items() if len(others) > 1}


OTHERS = re.compile(
    r"SIMULATED: .*|[a-z_]+\.py .*|python .*|/bin/sh .*|docker .*|--\S+ .*|[A-Z][A-Z_]+=.*|GPU-\S+"
    r"|Out of memory error on .*|Please check whether .*|\d\. If (?:yes|no), .*"
)
"""What is no text of ours: lines of logs, commands, environments."""
SCREENS = {
    "fleet": (),
    "host": ("enter",),
    "device": ("enter", "enter"),
    "usage": ("2", "u"),
    "compare": ("2", "slash", *"sweep", "enter", "M"),
    "triage": ("5",),
    "submit": ("4", *"gpuconsole/data/examples/too_big.py"),
}


def ours(text: str) -> str:
    """What is shown without boxes, and without what others have written."""
    lines = re.split(r"[\n│╭╮╰╯─]+|  +", text)
    return "\n".join(OTHERS.sub("", line) for line in lines)


async def test_no_english_sentence_is_on_a_screen_in_chinese(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who has waited for a minute is shown so; here, who has waited at all.
    monkeypatch.setattr(job_outlook, "NOTABLE_WAIT_S", 1.0)
    async with (
        open_session(None, tmp_path / "state", demo=DemoOptions(speed=4.0)) as lab_session,
        opened(lab_session, LARGE, Look(language=CHINESE), toasts=False) as console,
    ):
        await submit_demo_jobs(lab_session.queue)
        await console.until(lambda: any(one.state is JobState.OOM for one in lab_session.jobs()))
        await console.press("2", "tab")
        await console.until(lambda: "已等待" in console.text, "a wait")
        assert english(ours(console.text)) == [], console.text
        await console.press("1")
        for name, keys in SCREENS.items():
            await console.press(*(NAMES.get(key, key) for key in keys))
            if name == "submit":
                await console.shows("放不下", "未校准")
            assert english(ours(console.text)) == [], f"{name}\n{console.text}"
            await console.press("escape", "escape", "escape", "1")


NAMES = {"/": "slash", ".": "full_stop", "_": "underscore"}


@pytest.mark.parametrize("device", ["GPU 3", "XPU 12", "NPU 7"])
@pytest.mark.parametrize(
    "tail",
    ["", ": 1.7 GiB requested", ": 7 MiB available", ": 1.7 GiB requested, 7 MiB available"],
)
def test_a_cause_that_another_console_wrote_into_the_journal_is_chinese(
    device: str, tail: str
) -> None:
    """It is plain text there: nothing of how it was made has come along."""
    said = language(CHINESE).say(f"Out of memory on {device}{tail}.")
    assert said.startswith(f"{device} 显存不足"), said
    assert english(said) == []
    for figure in re.findall(r"\d[\d.]* [GM]iB", tail):
        assert figure in said


def test_a_cause_from_a_log_is_the_sentence_that_is_in_the_catalogue() -> None:
    log = (
        "ResourceExhaustedError: \n\nOut of memory error on GPU 6. Cannot allocate 3.500000GB "
        "memory on GPU 6, available memory is only 200.000000MB."
    )
    found = find_device_oom(log)
    assert found is not None
    assert found.cause == "Out of memory on GPU 6: 3.5 GiB requested, 200 MiB available."
    assert language(CHINESE).say(found.cause) == "GPU 6 显存不足：请求 3.5 GiB、可用 200 MiB。"

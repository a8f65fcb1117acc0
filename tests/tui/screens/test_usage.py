"""The usage screen: idle leases first, rows by any key, spans, CSV, and names that are hostile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.errors import JournalError
from gpuconsole.session.report.model import IdleLease, Query, Row, Sums, UsageReport
from gpuconsole.tui.app import Look
from gpuconsole.tui.render.usage import FIGURES, columns_for, row
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.style.themes import BUILT_IN
from gpuconsole.tui.widgets.row_list import Rows
from tests.tui.console import NARROW, SIZES, Driven, opened
from tests.tui.fake import NOW, FakeSession

HOUR = 3600.0
ADA = Sums(3, 4, 10 * HOUR, 6 * HOUR, 8 * HOUR, 3.6e6, 8 * HOUR, 12.5, 0.0, False)
BOB = Sums(1, 1, 2 * HOUR)
REPORT = UsageReport(
    Query(NOW - 30 * 24 * HOUR, NOW),
    (Row(("ada",), ADA), Row(("\x1b[31mbob\x07",), BOB)),
    Sums(4, 5, 12 * HOUR, 6 * HOUR, 8 * HOUR, 3.6e6, 8 * HOUR, 12.5, 2 * HOUR, False),
    (IdleLease("j1", "notebook\u202e", "ada", "h1", "A100", 2, NOW - 5 * HOUR),),
    currency="EUR",
    zone="UTC",
)


async def usage(console: Driven) -> None:
    await console.press("2", "u")
    await console.shows("GPU-hours, energy over 67%")


@pytest.mark.parametrize("size", SIZES)
async def test_idle_leases_stand_above_the_rows_and_a_total_below(size: tuple[int, int]) -> None:
    async with opened(FakeSession(usage=REPORT), size) as console:
        await usage(console)
        text = console.text
        lines = text.splitlines()
        places = {
            word: next(number for number, line in enumerate(lines) if word in line)
            for word in ("2 devices are held and not used.", "notebook", "ada   ", "bob", "total")
        }
        assert sorted(places, key=lambda word: places[word]) == [
            "2 devices are held and not used.", "notebook", "ada   ", "bob", "total"
        ] or places["notebook"] == places["ada   "]  # fmt: skip
        assert "5h00m" in lines[places["notebook"]]
        total = lines[places["total"]]
        assert "12.0" in total
        assert "2.00" in total
        assert "12.50 EUR" in total
        bob = lines[places["bob"]]
        assert "n/a" in bob
        assert "\u202e" not in text
        assert all(len(line) == size[0] for line in lines)


async def test_keys_change_what_it_is_grouped_by_and_its_time() -> None:
    session = FakeSession(usage=REPORT)
    async with opened(session) as console:
        await usage(console)
        await console.press("b", "t")
        await console.shows("this month")
        asked = [call[1] for call in session.calls if call[0] == "report"]
        assert [query.by for query in asked] == [("user",), ("user", "month"), ("user", "month")]
        assert asked[0].until - asked[0].since == pytest.approx(30 * 24 * HOUR)
        assert asked[2].since != asked[1].since
        await console.press("y")
        await console.shows("Copied the rows as CSV.")
        await console.press("escape")
        await console.shows("No jobs yet.")


async def test_a_journal_that_cannot_be_read_is_told() -> None:
    session = FakeSession(usage=REPORT, error=JournalError("Journal is locked", "Try again."))
    async with opened(session) as console:
        await console.press("2", "u")
        await console.shows("Journal is locked")


async def test_nothing_held_is_said() -> None:
    async with opened(FakeSession()) as console:
        await console.press("2", "u")
        await console.shows("nothing was held in that time")
        assert list(console.app.screen.query_one(Rows).keys) == []


async def test_the_screen_speaks_chinese() -> None:
    english = replace(REPORT, idle=())
    async with opened(FakeSession(usage=english), NARROW, look=Look(language="zh")) as console:
        await console.press("2", "u")
        await console.shows("用量", "用户", "GPU 小时", "浪费", "合计", "所有用户的作业")


def test_figures_give_way_the_least_important_first() -> None:
    assert columns_for(200) == FIGURES
    assert [column.title for column in columns_for(60)] == ["gpu-hours", "wasted", "use", "cost"]
    assert [column.title for column in columns_for(10)] == ["gpu-hours", "wasted", "cost"]


async def test_a_wide_terminal_shows_hours_as_bars_against_the_largest_group() -> None:
    async with opened(FakeSession(usage=REPORT), (200, 60)) as console:
        await usage(console)
        lines = console.text.splitlines()
        (ada,) = (line for line in lines if "ada" in line and "█" in line)
        (bob,) = (line for line in lines if "bob" in line)
        parts = [ada.count(mark) for mark in "█▒░"]
        # 6 hours used, 2 wasted, 2 without measured use; of bob's 2 hours nothing is known.
        assert parts[0] == pytest.approx(3 * parts[1], abs=2)
        assert parts[1] == pytest.approx(parts[2], abs=1)
        assert [bob.count(mark) for mark in "█▒"] == [0, 0]
        assert bob.count("░") == pytest.approx(sum(parts) / 5, abs=1)


def test_a_group_that_held_nothing_has_no_bar() -> None:
    report = replace(REPORT, rows=(Row(("ada",), Sums()),))
    shown = row(Ink(BUILT_IN), report, report.rows[0], columns_for(200), 200)
    assert not set("".join(words for words, _ in shown)) & set("█▒░")

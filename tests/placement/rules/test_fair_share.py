"""Fair share: use that fades, and what is due."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.placement.rules.fair_share import Meter, Share, Usage

DAY = 86400.0
NOW = 1_800_000_000.0


def test_use_counts_half_after_a_half_life() -> None:
    meter = Meter(half_life_s=DAY)
    meter.begin("ada", 2, NOW)
    meter.end("ada", 2, NOW, NOW + 1.0)
    # One second is so short that nothing of it has faded at its end.
    assert meter.used("ada", NOW + 1.0) == pytest.approx(2.0, rel=1e-4)
    assert meter.used("ada", NOW + 1.0 + DAY) == pytest.approx(1.0, rel=1e-4)
    assert meter.used("ada", NOW + 1.0 + 3 * DAY) == pytest.approx(0.25, rel=1e-4)


@pytest.mark.parametrize(
    ("used", "due", "over", "word"),
    [
        (0.5, 0.5, 0.0, "at"), (0.52, 0.5, 0.04, "at"), (0.6, 0.5, 0.2, "above"),
        (0.48, 0.5, -0.04, "at"), (0.4, 0.5, -0.2, "below"), (0.0, 0.5, -1.0, "below"),
        (1.0, 0.5, 1.0, "above"), (0.1, 0.0, 1.0, "above"), (0.0, 0.0, 0.0, "at"),
    ],
)  # fmt: skip
def test_a_share_is_held_against_what_is_due(
    used: float, due: float, over: float, word: str
) -> None:
    share = Share("ada", used, due)
    assert share.over == pytest.approx(over)
    assert share.sentence() == (
        f"ada had {used:.0%} of recent use, {word} the {due:.0%} that are due."
    )


def test_a_day_of_use_fades_while_it_lasts() -> None:
    meter = Meter(half_life_s=DAY)
    meter.begin("ada", 1, NOW)
    # The integral of 2**-t over one half-life is a half over log 2.
    expected = DAY * 0.5 / log(2)
    assert meter.used("ada", NOW + DAY) == pytest.approx(expected)
    meter.end("ada", 1, NOW, NOW + DAY)
    assert meter.used("ada", NOW + DAY) == pytest.approx(expected)
    assert meter.used("ada", NOW + 2 * DAY) == pytest.approx(expected / 2)


def test_who_uses_devices_for_ever_comes_to_half_life_over_log_2() -> None:
    meter = Meter(half_life_s=DAY)
    meter.begin("ada", 3, NOW)
    assert meter.used("ada", NOW + 60 * DAY) == pytest.approx(3 * DAY / log(2))


def test_years_of_use_do_not_overflow() -> None:
    meter = Meter(half_life_s=3600.0)
    for day in range(3000):
        meter.begin("ada", 1, NOW + day * DAY)
        meter.end("ada", 1, NOW + day * DAY, NOW + day * DAY + 60.0)
    used = meter.used("ada", NOW + 2999 * DAY + 60.0)
    assert used == pytest.approx(60.0, rel=0.01)


def test_shares_are_equal_unless_the_lab_sets_them() -> None:
    usage = Usage(half_life_s=1e9)
    usage.begin("1", "ada", "", 3, NOW)
    usage.begin("2", "bob", "", 1, NOW)
    ada = usage.user("ada", NOW + 3600)
    assert (ada.used, ada.due) == (pytest.approx(0.75), 0.5)
    assert ada.over == pytest.approx(0.5)
    assert usage.user("bob", NOW + 3600).over == pytest.approx(-0.5)
    # Somebody new shares from the moment of asking: a third is due, nothing was had.
    new = usage.user("eve", NOW + 3600)
    assert (new.used, new.due, new.over) == (0.0, pytest.approx(1 / 3), -1.0)
    weighted = Usage(half_life_s=1e9, shares={"ada": 3.0})
    weighted.begin("1", "ada", "", 3, NOW)
    weighted.begin("2", "bob", "", 1, NOW)
    assert weighted.user("ada", NOW + 3600).over == pytest.approx(0.0, abs=1e-6)


def test_the_worse_of_user_and_account_decides() -> None:
    usage = Usage()
    usage.begin("1", "ada", "vision", 4, NOW)
    usage.begin("2", "bob", "speech", 4, NOW)
    usage.begin("3", "bob", "vision", 4, NOW)
    later = NOW + 60
    # bob has two thirds of the use, vision too; ada has a third.
    assert usage.overuse("ada", "vision", later) == pytest.approx(1 / 3, rel=1e-3)
    assert usage.share("ada", "vision", later).name == "vision"
    assert usage.overuse("ada", "speech", later) == pytest.approx(-1 / 3, rel=1e-3)
    assert usage.overuse("bob", "", later) == pytest.approx(1 / 3, rel=1e-3)


def test_in_an_unused_lab_everybody_is_at_par() -> None:
    assert Usage().overuse("ada", "vision", NOW) == 0.0


def test_what_is_told_twice_counts_once() -> None:
    usage, once = Usage(), Usage()
    for _ in range(3):
        usage.begin("1", "ada", "", 2, NOW)
    once.begin("1", "ada", "", 2, NOW)
    for _ in range(3):
        usage.end("1", NOW + 50)
    once.end("1", NOW + 50)
    usage.end("never", NOW + 60)
    assert usage.user("ada", NOW + 60) == once.user("ada", NOW + 60)


def test_asking_again_after_a_change_answers_anew() -> None:
    usage = Usage()
    usage.begin("1", "ada", "", 1, NOW)
    before = usage.overuse("bob", "", NOW + 10)
    usage.begin("2", "bob", "", 9, NOW)
    assert usage.overuse("bob", "", NOW + 10) > before


def test_the_sentence_says_who_had_what_and_what_is_due() -> None:
    said = Share("ada", 0.61, 0.25).sentence()
    assert said == "ada had 61% of recent use, above the 25% that are due."


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 8), st.floats(0, 1e6), st.floats(0, 1e6)),
        max_size=30,
    ),
    st.floats(60, 1e7),
)
def test_use_is_the_sum_of_its_parts(
    jobs: list[tuple[str, int, float, float]], half_life: float
) -> None:
    """Against the integral of each job by itself."""
    meter = Meter(half_life)
    now = NOW + 2.1e6
    expected = dict.fromkeys("abc", 0.0)
    for name, devices, start, length in sorted(jobs, key=lambda job: job[2]):
        began, ended = NOW + start, NOW + start + length
        meter.begin(name, devices, began)
        meter.end(name, devices, began, ended)
        scale = half_life / log(2)
        expected[name] += (
            devices * scale * (2 ** ((ended - now) / half_life) - 2 ** ((began - now) / half_life))
        )
    for name, use in expected.items():
        assert meter.used(name, now) == pytest.approx(use, rel=1e-6, abs=1e-3)
    assert meter.total(now) == pytest.approx(sum(expected.values()), rel=1e-6, abs=1e-3)

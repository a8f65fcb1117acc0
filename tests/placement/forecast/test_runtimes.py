"""Run times from past runs: which group speaks, how far it is drawn, how wide the spread is."""

from __future__ import annotations

from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.placement.forecast.runtimes import (
    KEPT,
    LEAST_SPREAD,
    PRIOR_SPREAD,
    PastRun,
    Prediction,
    RunTimes,
)

HOUR = 3600.0


def run(
    seconds: float,
    user: str = "ada",
    script: str = "train",
    args: tuple[str, ...] = (),
    devices: int = 1,
    model: str = "A100",
) -> PastRun:
    return PastRun(user, script, args, devices, model, seconds)


def predict(runs: list[PastRun], **asked: object) -> Prediction | None:
    about = {"user": "ada", "script": "train", "args": (), "devices": 1} | asked
    return RunTimes(runs).predict(**about)  # type: ignore[arg-type]


def test_nothing_is_made_up_while_nothing_is_known() -> None:
    assert predict([]) is None
    two_of_others = [run(HOUR, user="bob"), run(HOUR, user="bob")]
    assert predict(two_of_others) is None


def test_one_run_with_the_same_arguments_is_enough() -> None:
    found = predict([run(HOUR)])
    assert found is not None
    assert found.run_time_s == pytest.approx(HOUR)
    assert found.runs == 1
    assert "1 run with the same arguments" in found.sentence()
    # A single run has no deviation: (1·0 + 2·2) / 3.
    assert found.spread == pytest.approx(2 * PRIOR_SPREAD / 3)


def test_a_script_of_others_speaks_from_three_runs_on() -> None:
    others = [run(seconds, user="bob") for seconds in (100.0, 400.0, 1600.0)]
    assert predict(others[:2]) is None
    found = predict(others)
    assert found is not None
    assert found.run_time_s == pytest.approx(400.0)
    assert found.source == "3 runs of this script by others"
    # Both outer runs are log 4 away: 1.4826·log 4 drawn to 2 by 2 of 5.
    assert found.spread == pytest.approx((3 * 1.4826 * log(4) + 2 * 2.0) / 5)


def test_the_same_script_of_others_is_known_by_its_digest() -> None:
    others = [PastRun("bob", "/b/train.py", (), 1, "", 500.0, "d1")] * 3
    assert predict(others, script="/a/train.py") is None
    found = predict(others, script="/a/train.py", digest="d1")
    assert found is not None
    assert found.run_time_s == pytest.approx(500.0)
    # A line changed makes another digest; the user's own script keeps its name.
    own = [PastRun("ada", "/a/train.py", (), 1, "", 90.0, f"d{n}") for n in range(3)]
    changed = predict(own, script="/a/train.py", digest="d9", args=("--new",))
    assert changed is not None
    assert changed.source == "3 runs of this script by ada"


def test_the_user_speaks_for_a_new_script() -> None:
    found = predict([run(60.0, script=name) for name in "abc"], script="new")
    assert found is not None
    assert found.run_time_s == pytest.approx(60.0)
    assert found.source == "3 runs of ada"


def test_nearer_groups_draw_the_answer_by_how_many_runs_they_have() -> None:
    """Three runs of the script by bob, 100 s each; one of ada with other arguments, 6400 s."""
    runs = [run(100.0, user="bob")] * 3 + [run(6400.0, args=("--large",))]
    found = predict(runs)
    assert found is not None
    # The script's median of 100, 100, 100, 6400 is 100; ada's one run draws it by 1 of 3.
    assert found.run_time_s == pytest.approx(exp((log(6400) + 2 * log(100)) / 3))
    assert found.run_time_s == pytest.approx(400.0)
    assert found.source == "1 run of this script by ada"


def test_a_run_that_hung_over_the_weekend_does_not_teach() -> None:
    found = predict([run(600.0)] * 4 + [run(200_000.0)])
    assert found is not None
    assert found.run_time_s == pytest.approx(600.0)


def test_arguments_and_devices_tell_runs_apart() -> None:
    runs = [run(100.0, args=("--epochs", "1"))] * 20 + [run(9000.0, args=("--epochs", "90"))] * 20
    short = predict(runs, args=("--epochs", "1"))
    long = predict(runs, args=("--epochs", "90"))
    assert short is not None
    assert long is not None
    # Twenty runs leave the whole's median, sqrt(100·9000), a twelfth of the say twice over.
    assert short.run_time_s < 150.0
    assert long.run_time_s > 6000.0
    on_two = predict(runs, args=("--epochs", "1"), devices=2)
    assert on_two is not None
    assert on_two.source == "40 runs of this script by ada"


def test_where_it_runs_already_its_runs_on_such_devices_are_nearest() -> None:
    runs = [run(100.0, model="A100")] * 8 + [run(300.0, model="V100")] * 8
    anywhere, here = predict(runs), predict(runs, model="V100")
    assert anywhere is not None
    assert here is not None
    assert here.run_time_s > anywhere.run_time_s
    assert here.source == "8 runs with the same arguments on V100"


def test_only_the_newest_runs_count() -> None:
    found = predict([run(10.0)] * 500 + [run(1000.0)] * KEPT)
    assert found is not None
    assert found.run_time_s == pytest.approx(1000.0)
    # None deviates: 2·2/66 in each of the four groups, drawn again and again, is below the least.
    assert found.spread == pytest.approx(LEAST_SPREAD)


def test_sessions_are_called_so_and_scripts_say_nothing_about_them() -> None:
    scripts = [run(HOUR) for _ in range(4)]
    assert predict(scripts, script="") is None
    sessions = [run(60.0, script="") for _ in range(2)]
    found = predict([*scripts, *sessions], script="")
    assert found is not None
    assert found.run_time_s == pytest.approx(60.0)
    assert found.source == "2 sessions of ada"
    others = [run(60.0, user="bob", script="") for _ in range(3)]
    found = predict(others, script="")
    assert found is not None
    assert found.source == "3 sessions of others"
    assert predict(sessions * 3) is None


def test_what_is_left_of_a_run_that_overruns_grows() -> None:
    found = Prediction(1000.0, 1.0, 9, "9 runs")
    assert found.left_s(0.0) == pytest.approx(1000.0)
    # Of those that ran 1000 s, half of all, the median is the upper quartile of all.
    assert found.left_s(1000.0) == pytest.approx(1000.0 * exp(0.67449) - 1000.0, rel=1e-3)
    left = [found.left_s(elapsed) for elapsed in (1e3, 1e4, 1e5, 1e6, 1e9)]
    assert left == sorted(left)
    assert left[0] > 0


def test_the_sentence_tells_time_range_and_source() -> None:
    found = Prediction(HOUR, log(2), 4, "4 runs of ada")
    assert found.sentence() == "It should run about 1h00m (30m00s to 2h00m), by 4 runs of ada."


@given(
    st.lists(
        st.builds(
            run,
            st.floats(1e-3, 1e7),
            st.sampled_from("abc"),
            st.sampled_from("xyz"),
            st.sampled_from([(), ("--a",)]),
            st.sampled_from([1, 2]),
        ),
        max_size=80,
    ),
    st.floats(0, 1e8),
)
def test_an_answer_lies_within_what_was_seen(runs: list[PastRun], elapsed: float) -> None:
    times = RunTimes(runs)
    found = times.predict("a", "x", (), 1)
    assert found == RunTimes(runs).predict("a", "x", (), 1)
    if found is not None:
        seen = [one.run_time_s for one in runs]
        assert min(seen) * 0.999 <= found.run_time_s <= max(seen) * 1.001
        assert found.low_s < found.run_time_s < found.high_s
        assert found.left_s(elapsed) >= 0

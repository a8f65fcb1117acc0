"""What was seen corrects what is predicted: peaks, ranges, contexts, verdicts, chances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import pytest

from gpuconsole import preflight
from gpuconsole.core.devices.run_history import HostCalibration, Observation
from gpuconsole.core.estimate import Estimate, Report
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Task
from gpuconsole.preflight import Calibration, Card
from gpuconsole.preflight.accuracy.calibration import HISTORY_MARGIN, LEAST_MARGIN
from gpuconsole.preflight.accuracy.script_digest import script_digest
from gpuconsole.preflight.memory.backends import terms
from gpuconsole.preflight.memory.footprint import MARGINS
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant
from gpuconsole.preflight.tiers.history import Corrected, Past

SCRIPT = """
import argparse
import paddle
from paddle import nn
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--width", type=int, default=1024)
options = parser.parse_args()
model = nn.Sequential(nn.Linear(options.width, 4096), nn.ReLU(), nn.Linear(4096, 10))
adam = paddle.optimizer.Adam(parameters=model.parameters())
for step in range(10):
    x = paddle.randn([options.batch_size, options.width])
    loss = model(x).mean()
    loss.backward()
    adam.step()
    adam.clear_grad()
"""
DAY = 86400.0
RUN = Observation("j", 1, 1_800_000_000.0, "ok", "", "t.py", batch=64, device="A100", host="lab",
                  tier="static")  # fmt: skip
CARD = HostCalibration("lab", "A100", 1_800_000_000.0, "driver", context_mib=412.0)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def card(free: float = 8192.0, capacity: float = 8192.0, **changes: object) -> Card:
    made = Card("A100", "lab", "gpu", capacity, held_mib=capacity - free, index=0, uuid="GPU-0")
    return replace(made, **changes)  # type: ignore[arg-type]


def ask(
    script: Path,
    *seen: Observation,
    cards: tuple[Card, ...] = (card(),),
    args: tuple[str, ...] = (),
    calibrations: tuple[HostCalibration, ...] = (),
    batch: int | None = None,
    backend: Backend = "gpu",
) -> Report:
    task = Task("x", script=str(script), args=args, batch_size=batch)
    known = Calibration.from_observations(seen, calibrations)
    return preflight.report(task, cards, backend=backend, calibration=known)


def of(script: Path, **changes: object) -> Observation:
    args = changes.get("args", ())
    digest = script_digest(script, args)  # type: ignore[arg-type]
    return replace(RUN, digest=digest, **changes)  # type: ignore[arg-type]


def reserved(report: Report) -> float:
    assert report.estimate.memory is not None
    return report.estimate.memory.reserved_mib


def test_without_history_the_answer_is_the_static_one(script: Path) -> None:
    task = Task("x", script=str(script))
    plain, asked = preflight.report(task, (card(),)), ask(script)
    assert asked.estimate == plain.estimate
    assert asked.estimate.memory is not None
    assert asked.estimate.memory.context_mib == terms("gpu").context_mib
    (verdict,) = asked.verdicts
    assert verdict.reason.endswith("(not calibrated)")
    assert verdict.max_batch_size == plain.verdicts[0].max_batch_size


def test_a_run_of_the_same_script_is_the_answer(script: Path) -> None:
    report = ask(script, of(script, allocated_mib=180.0, reserved_mib=200.0))
    estimate, memory = report.estimate, report.estimate.memory
    assert memory is not None
    assert (estimate.tier, memory.reserved_mib, memory.tensors_peak_mib) == (
        "history",
        200.0,
        180.0,
    )
    parts = (memory.parameters_mib, memory.gradients_mib, memory.optimizer_mib,
             memory.activations_mib, memory.inputs_mib, memory.workspace_mib)  # fmt: skip
    assert sum(parts) == pytest.approx(180.0)
    assert memory.upper_share == pytest.approx(HISTORY_MARGIN)
    assert "ran once" in estimate.notes[0]


def test_repeats_give_the_largest_peak_and_their_range(script: Path) -> None:
    runs = [of(script, job=str(n), reserved_mib=size) for n, size in enumerate((190.0, 210.0))]
    memory = ask(script, *runs).estimate.memory
    assert memory is not None
    assert memory.reserved_mib == 210.0
    assert memory.low_mib <= memory.context_mib + 190.0


@pytest.mark.parametrize(
    "change",
    [{"digest": "another"}, {"batch": 32}, {"backend": "cpu"}, {"args": ("--width", "64")},
     {"devices": 2}, {"outcome": "oom"}],
)  # fmt: skip
def test_other_settings_are_another_run(script: Path, change: dict[str, object]) -> None:
    run = replace(of(script, reserved_mib=9000.0), **change)  # type: ignore[arg-type]
    assert ask(script, run).estimate.tier == "static"


def test_what_it_took_with_other_variables_is_another_run(script: Path) -> None:
    run = of(script, reserved_mib=500.0)
    known = Calibration.from_observations([run])
    for env, tier in (({}, "history"), ({"WIDTH": "8"}, "static")):
        task = Task("train", str(script), env=env)
        report = preflight.report(task, (card(),), calibration=known)
        assert report.estimate.tier == tier


def test_a_change_of_the_script_makes_its_past_another_s(script: Path) -> None:
    run = of(script, reserved_mib=200.0)
    assert ask(script, run).estimate.tier == "history"
    script.write_text(SCRIPT + "\n# changed\n")
    assert ask(script, run).estimate.tier == "static"


def test_a_run_at_another_batch_moves_the_curve(script: Path) -> None:
    small = (card(2048.0, 2048.0),)
    plain = ask(script, batch=128, cards=small)
    there = reserved(ask(script, batch=64))
    run = of(script, batch=64, reserved_mib=2.0 * there)
    moved = ask(script, run, batch=128, cards=small)
    assert moved.estimate.tier == "static"
    assert reserved(moved) == pytest.approx(2.0 * reserved(plain))
    assert any("2.00 times" in note for note in moved.estimate.notes)
    assert moved.verdicts[0].max_batch_size is not None
    assert plain.verdicts[0].max_batch_size is not None
    assert moved.verdicts[0].max_batch_size < 0.6 * plain.verdicts[0].max_batch_size


def test_the_batch_may_be_an_argument(script: Path) -> None:
    run = of(script, args=("--batch-size", "32"), batch=32, reserved_mib=777.0)
    known = ask(script, run, args=("--batch-size", "32"))
    assert (known.estimate.tier, reserved(known)) == ("history", 777.0)
    other = ask(script, run, args=("--batch-size", "64"))
    assert other.estimate.tier == "static"
    assert reserved(other) > 1.5 * reserved(ask(script, args=("--batch-size", "64")))


def test_beyond_the_seen_batch_the_range_is_as_wide_as_ever(script: Path) -> None:
    small = card(1600.0, 8192.0)
    there = reserved(ask(script))
    seen = ask(script, of(script, reserved_mib=there), cards=(small,))
    plain = ask(script, cards=(small,))
    # What was seen equals what was predicted: no other batch has become surer by it.
    assert seen.verdicts[0].max_batch_size == pytest.approx(plain.verdicts[0].max_batch_size, abs=1)
    assert seen.verdicts[0].headroom_mib > plain.verdicts[0].headroom_mib  # type: ignore[operator]


def test_running_out_changes_the_next_answer(script: Path) -> None:
    before = ask(script)
    assert before.verdicts[0].verdict == "fits"
    out = of(script, outcome="oom", allocated_mib=7000.0, requested_mib=500.0, free_mib=8192.0)
    after = ask(script, out)
    (verdict,) = after.verdicts
    assert verdict.verdict == "will-not-fit"
    assert verdict.reason == "ran out here at batch 64 on 2027-01-15: more than 8.0 GiB"
    assert verdict.oom_probability is not None
    assert verdict.oom_probability >= 0.99
    assert verdict.headroom_mib is not None
    assert verdict.headroom_mib < 0
    assert verdict.max_batch_size is not None
    assert verdict.max_batch_size < 64
    assert after.estimate.memory is not None
    assert after.estimate.memory.total_mib >= 7500.0
    assert after.suggestions


def test_it_speaks_of_larger_batches_and_of_smaller_cards_alone(script: Path) -> None:
    out = of(script, outcome="oom", allocated_mib=7000.0, requested_mib=500.0, free_mib=8192.0)
    assert ask(script, out, batch=128).verdicts[0].verdict == "will-not-fit"
    assert ask(script, out, batch=32).verdicts[0].verdict == "fits"
    large = ask(script, out, cards=(card(40960.0, 40960.0),))
    assert large.verdicts[0].verdict == "fits"
    elsewhere = ask(script, out, cards=(card(host="other"),)).verdicts[0]
    assert "on lab" in elsewhere.reason


def test_a_later_success_takes_it_back(script: Path) -> None:
    out = of(script, outcome="oom", allocated_mib=7000.0, requested_mib=500.0, free_mib=8192.0)
    went_well = of(script, job="k", at=out.at + DAY, reserved_mib=300.0)
    report = ask(script, out, went_well)
    assert (report.estimate.tier, reserved(report)) == ("history", 300.0)
    assert report.verdicts[0].verdict == "fits"
    earlier = replace(went_well, at=out.at - DAY)
    assert ask(script, out, earlier).verdicts[0].verdict == "will-not-fit"


def test_an_unknown_script_that_ran_is_known(tmp_path: Path) -> None:
    path = tmp_path / "strange.py"
    path.write_text("import paddle\nimport nowhere\nnowhere.train()\n")
    assert ask(path).estimate.memory is None
    run = of(path, batch=None, reserved_mib=500.0)
    report = ask(path, run)
    assert (report.estimate.tier, reserved(report)) == ("history", 500.0)
    assert report.verdicts[0].verdict == "fits"


def other(number: int, predicted: float, taken: float, **changes: object) -> Observation:
    run = replace(
        RUN, job=str(number), digest=f"d{number}", predicted_reserved_mib=predicted,
        reserved_mib=taken,
    )  # fmt: skip
    return replace(run, **changes)  # type: ignore[arg-type]


def test_ranges_come_from_past_errors_once_there_are_enough() -> None:
    eight = [other(n, 100.0, 100.0 + n) for n in range(8)]
    default = Calibration.from_observations(eight).margin("static", "gpu")
    assert (default.high, default.n, default.source) == (MARGINS["static"], 8, "default")
    nine = [*eight, other(9, 100.0, 112.0)]
    margin = Calibration.from_observations(nine).margin("static", "gpu")
    assert margin.high == pytest.approx(0.12)
    assert margin.low == LEAST_MARGIN
    assert (margin.n, margin.source) == (9, "history")
    assert Calibration.from_observations(nine).margin("static", "cpu").source == "default"
    assert Calibration.from_observations(nine).margin("formula", "gpu").source == "default"


def test_repeats_of_one_script_count_once() -> None:
    same = [replace(other(1, 100.0, 105.0), job=str(n)) for n in range(20)]
    assert Calibration.from_observations(same).margin("static", "gpu").n == 1


def test_running_out_widens_the_range() -> None:
    runs = [other(n, 100.0, 101.0 + n) for n in range(12)]
    narrow = Calibration.from_observations(runs).margin("static", "gpu")
    out = [
        other(50 + n, 100.0, 0.0, outcome="oom", reserved_mib=None, allocated_mib=120.0,
              requested_mib=40.0)
        for n in range(2)
    ]  # fmt: skip
    wide = Calibration.from_observations([*runs, *out]).margin("static", "gpu")
    assert narrow.high < 0.15
    assert wide.high >= 0.6


def test_the_narrower_range_reaches_the_answer(script: Path) -> None:
    small = (card(2048.0, 2048.0),)
    plain = ask(script, cards=small)
    report = ask(script, *(other(n, 100.0, 101.0) for n in range(20)), cards=small)
    assert report.estimate.memory is not None
    assert plain.estimate.memory is not None
    assert report.estimate.memory.upper_share == pytest.approx(LEAST_MARGIN)
    assert report.estimate.memory.high_mib < plain.estimate.memory.high_mib
    assert report.verdicts[0].max_batch_size > plain.verdicts[0].max_batch_size  # type: ignore[operator]


def test_a_calibrated_card_has_its_own_context(script: Path) -> None:
    cards = (card(), card(host="other"))
    report = ask(script, cards=cards, calibrations=(CARD,))
    mine, theirs = report.verdicts
    assert "not calibrated" not in mine.reason
    assert "not calibrated" in theirs.reason
    assert mine.headroom_mib > theirs.headroom_mib  # type: ignore[operator]
    alone = ask(script, cards=cards[:1], calibrations=(CARD,)).estimate
    assert alone.memory is not None
    assert (alone.memory.context_mib, alone.memory.context_spread_mib) == (412.0, 0.0)
    assert any("412 MiB on A100 of lab: calibrated, 2027-01-15" in note for note in alone.notes)
    assert not any("Not calibrated" in note for note in alone.notes)


def test_contexts_of_a_large_fleet_are_one_sentence(script: Path) -> None:
    cards = tuple(card(host=f"h{n}") for n in range(40))
    known = tuple(replace(CARD, host=f"h{n}", context_mib=400.0 + n) for n in range(40))
    notes = ask(script, cards=cards, calibrations=known).estimate.notes
    assert [note for note in notes if "ontext" in note] == [
        "Contexts of 40 kinds of cards are known: 400 to 439 MiB."
    ]


def test_the_last_calibration_counts_and_runs_count_more() -> None:
    later = replace(CARD, at=CARD.at + DAY, context_mib=430.0)
    known = Calibration.from_observations((), (later, CARD)).context("lab", "A100")
    assert known is not None
    assert (known.mib, known.source) == (430.0, "calibrated")
    runs = [other(n, 100.0, 100.0, nvml_mib=600.0 + n) for n in range(3)]
    seen = Calibration.from_observations(runs, (later,)).context("lab", "A100")
    assert seen is not None
    assert (seen.mib, seen.source) == (501.0, "history")
    assert Calibration.from_observations(runs[:2], ()).context("lab", "A100") is None
    assert Calibration.from_observations((), (CARD,)).context("lab", "H100") is None


def test_the_driver_s_figure_stands_for_paddle_s(script: Path) -> None:
    run = of(script, nvml_mib=1012.0)
    assert reserved(ask(script, run, calibrations=(CARD,))) == 600.0


def test_the_chance_leans_from_the_default_towards_what_was_seen(script: Path) -> None:
    estimate = ask(script).estimate
    assert estimate.memory is not None
    edge = estimate.memory.context_mib + estimate.memory.reserved_mib * 1.1
    default = Calibration().oom_probability(estimate, edge)
    exact = Calibration.from_observations([other(n, 100.0, 100.0) for n in range(60)])
    higher = Calibration.from_observations([other(n, 100.0, 130.0) for n in range(60)])
    assert default is not None
    chances = [found.oom_probability(estimate, edge) for found in (exact, higher)]
    assert chances[0] is not None
    assert chances[1] is not None
    assert chances[0] < default < chances[1]
    assert 0.0 < default < 0.5
    assert Calibration().oom_probability(estimate, 10.0) == 1.0


def test_a_step_that_was_timed_replaces_the_estimate(script: Path) -> None:
    run = of(script, reserved_mib=200.0, step_s=0.5, steps=100)
    npu = of(script, reserved_mib=200.0, step_s=0.8, steps=100, device="910A", backend="npu")
    cards = (card(), card(device="Tesla T4"), card(device="910A", backend="npu"))
    report = ask(script, run, npu, cards=cards)
    timed, untimed, other = report.verdicts
    assert timed.step_s == (pytest.approx(0.45), pytest.approx(0.55))
    assert untimed.step_s != timed.step_s
    assert other.step_s == (pytest.approx(0.72), pytest.approx(0.88))


def test_residuals_are_logarithms_of_observed_over_predicted() -> None:
    known = Calibration.from_observations([other(1, 100.0, 120.0)])
    (residual,) = known.residuals("static", "gpu")
    assert residual.value == pytest.approx(log(1.2))


# --- figures that a container may have forged ---------------------------------------------------


def honest(count: int, **changes: object) -> list[Observation]:
    return [other(n, 100.0, 101.0 + n % 5, **changes) for n in range(count)]


FORGED = {"reserved_mib": 40_000.0, "nvml_mib": 40_500.0}


def test_one_script_widens_the_range_of_others_no_further_than_without_history() -> None:
    forged = [
        other(99, 100.0, 0.0, **FORGED, batch=batch, args=("--depth", str(batch)))
        for batch in range(1, 30)
    ]
    margin = Calibration.from_observations([*honest(12), *forged]).margin("static", "gpu")
    assert margin.n == 13
    assert margin.high <= MARGINS["static"] + 1e-9
    second = other(98, 100.0, 180.0)
    agreed = Calibration.from_observations([*honest(12), *forged, second])
    assert agreed.margin("static", "gpu").high == pytest.approx(0.8)


def test_no_user_of_several_widens_it_alone() -> None:
    lies = [other(50 + n, 100.0, 0.0, **FORGED, user="eve") for n in range(5)]
    seen = [*honest(12, user="ada"), *honest(6, user="bob"), *lies]
    margin = Calibration.from_observations(seen).margin("static", "gpu")
    assert margin.high <= MARGINS["static"] + 1e-9
    low = [replace(lie, reserved_mib=0.001) for lie in lies]
    assert Calibration.from_observations([*seen[:-5], *low]).margin("static", "gpu").low <= 0.25


def test_a_run_that_ran_out_counts_for_others_within_the_same_bounds() -> None:
    out = other(99, 100.0, 0.0, outcome="oom", reserved_mib=None, requested_mib=1e6)
    margin = Calibration.from_observations([*honest(12), out]).margin("static", "gpu")
    assert margin.high <= MARGINS["static"] + 1e-9


def test_what_is_forged_counts_for_its_own_script(script: Path) -> None:
    report = ask(script, *honest(12), of(script, reserved_mib=5000.0))
    assert (report.estimate.tier, reserved(report)) == ("history", 5000.0)


def test_a_context_is_told_by_several_scripts_that_agree() -> None:
    same = [other(1, 100.0, 100.0, nvml_mib=600.0 + n, job=str(n)) for n in range(9)]
    assert Calibration.from_observations(same).context("lab", "A100") is None
    three = [other(n, 100.0, 100.0, nvml_mib=600.0 + n) for n in range(3)]
    forged = other(9, 100.0, 1.0, nvml_mib=39_000.0)
    context = Calibration.from_observations([*three, forged]).context("lab", "A100")
    assert context is not None
    assert context.mib == 501.5
    assert context.spread_mib == 16.0
    apart = [other(n, 100.0, 100.0, nvml_mib=200.0 * 3**n) for n in range(4)]
    assert Calibration.from_observations(apart).context("lab", "A100") is None


def test_a_context_is_told_by_several_users_where_there_are_several() -> None:
    ada = [other(n, 100.0, 100.0, nvml_mib=600.0, user="ada") for n in range(5)]
    elsewhere = other(8, 100.0, 100.0, user="bob")
    assert Calibration.from_observations([*ada, elsewhere]).context("lab", "A100") is None
    bob = other(9, 100.0, 100.0, nvml_mib=610.0, user="bob")
    context = Calibration.from_observations([*ada, bob]).context("lab", "A100")
    assert context is not None
    assert context.mib == 505.0
    eve = [other(10 + n, 100.0, 1.0, nvml_mib=9000.0, user="eve") for n in range(20)]
    known = Calibration.from_observations([*ada, bob, *eve]).context("lab", "A100")
    assert known is not None
    assert known.mib == 510.0


@dataclass(frozen=True)
class Gapped:
    """An estimator with a wider range than is usual for its tier: 30 MiB below, 500 above."""

    found: Estimate

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        memory = self.found.memory
        assert memory is not None
        wide = replace(memory, low_mib=memory.low_mib - 30.0, high_mib=memory.high_mib + 500.0)
        return replace(self.found, memory=wide)

    def reserved_at(self, backend: Backend) -> Callable[[int], float | None]:
        return lambda batch: None


@pytest.mark.parametrize("scripts", [0, 9], ids=["no-history", "nine-scripts"])
def test_what_a_tier_did_not_reach_stays_in_the_range(script: Path, scripts: int) -> None:
    seen = [other(n, 100.0, 100.0 + n) for n in range(scripts)]
    past = Past(Calibration.from_observations(seen, ()), script_digest(script, ()))
    plain = ask(script).estimate
    usual = Corrected(Plain(plain), past).estimate().memory
    wide = Corrected(Gapped(plain), past).estimate().memory
    assert usual is not None
    assert wide is not None
    assert usual.low_mib - wide.low_mib == pytest.approx(30.0)
    assert wide.high_mib - usual.high_mib == pytest.approx(500.0)


class Plain(Gapped):
    """An estimator with the usual range of its tier."""

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        return self.found

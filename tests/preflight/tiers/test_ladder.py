"""The ladder of tiers: which is tried next, by what is known, tried and allowed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from gpuconsole.core.estimate import (
    Estimate,
    Memory,
    Report,
    ScriptFault,
    Trial,
    Unknown,
    Verdict,
)
from gpuconsole.preflight.probe.notes import GROWS
from gpuconsole.preflight.probe.runs.budget import WITHOUT_DATA_S
from gpuconsole.preflight.tiers.ladder import (
    MOST_S,
    PLANNED,
    Means,
    Run,
    Site,
    Stop,
    concluded,
    first_trial,
    is_fault_at,
    is_settled,
    left_out,
    next_move,
    sentence,
)

HOST, OTHER, HERE = Site("gpu-1"), Site("gpu-2"), Site(consent=True)
MEANS = Means(sites=(HOST, HERE))


def report(memory: Memory | None = None, *verdicts: Verdict, **more: Any) -> Report:
    values: dict[str, Any] = {
        "script": "train.py", "batch_size": 8, "batch_source": None, "backend": "gpu",
        "tier": "static" if memory else "unknown", "coverage": 1.0, "memory": memory,
        "unknowns": () if memory else (Unknown("train.py", 3, "a model from elsewhere"),),
    }  # fmt: skip
    return Report(Estimate(**{**values, **more}), verdicts)


def verdict(word: Any, limit: float | None = 1000.0, backend: Any = "gpu") -> Verdict:
    return Verdict("A100", "gpu-1", backend, word, None, None, None, limit)


def memory(low: float, high: float) -> Memory:
    return Memory(total_mib=(low + high) / 2, low_mib=low, high_mib=high)


UNKNOWN = report()
KNOWN = report(memory(100, 200), verdict("fits"))
WIDE = report(memory(900, 1100), verdict("will-not-fit"))


def climbed(means: Means, endings: Iterable[Trial]) -> tuple[list[tuple[str, str]], Stop]:
    """Return what is tried where, if each try ends as given, and how it stops."""
    trials, tried, ends = [first_trial(UNKNOWN)], [], iter(endings)
    while True:
        move = next_move(UNKNOWN, trials, means)
        if isinstance(move, Stop):
            return tried, move
        tried.append((move.tier, move.site.host))
        ended = next(ends)
        trials.append(replace(ended, tier=move.tier, host=move.site.host))


ANSWERED = Trial("meta", "answered")
TOLD_NOTHING = Trial("meta", "unknown", "shapes change")
IMPOSSIBLE = Trial("meta", "impossible", "no Paddle 3")


def needing(needs: float, limit: float = 1000.0, word: Any = "fits", **more: Any) -> Report:
    """A report of reading about a device with that limit, MiB."""
    judged = Verdict("A100", "gpu-1", "gpu", word, limit - needs, None, None, limit)
    return report(memory(0.9 * needs, needs), judged, **more)


CLOSE = needing(600.0)

# --- when to climb ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "settled"),
    [
        (KNOWN, True),
        (UNKNOWN, False),
        (WIDE, False),
        # The lower end does not fit either: a closer look would change nothing.
        (report(memory(1001, 1100), verdict("will-not-fit")), True),
        (report(memory(900, 1100), verdict("will-not-fit"), verdict("tight", 1200.0)), True),
        # A bound may be far above what is needed.
        (report(memory(5000, 6000), verdict("will-not-fit"), flags=("bound",)), False),
        # A measured range is not made closer by another tier.
        (report(memory(900, 1100), verdict("will-not-fit"), tier="traced"), True),
        # Devices of another kind do not count.
        (report(memory(900, 1100), verdict("will-not-fit", 1000.0, "npu")), True),
        (report(memory(900, 1100)), True),
        (report(memory(900, 1100), verdict("will-not-fit", None)), True),
        # What reading finds wrong a run has to show.
        (report(errors=(ScriptFault("train.py", 3, "shapes"),)), False),
        (report(memory(1, 2), errors=(ScriptFault("train.py", 3, "shapes"),)), False),
        # What reading says is confirmed by a run where a mistake of twice would change the verdict.
        (CLOSE, False),
        (needing(500.0), True),
        (needing(501.0), False),
        (needing(1999.0, word="will-not-fit"), False),
        (needing(2000.0, word="will-not-fit"), True),
        (needing(600.0, tier="history"), True),
        (
            report(memory(500, 600), *needing(600.0).verdicts, *needing(600.0, 1200.0).verdicts),
            True,
        ),
        (report(script=""), True),
        (report(flags=("without-paddle",)), True),
    ],
)
def test_only_what_is_unknown_or_cannot_decide_is_measured(found: Report, settled: bool) -> None:
    assert is_settled(found) is settled
    assert isinstance(next_move(found, (first_trial(found),), MEANS), Stop) is settled


def test_a_close_answer_is_confirmed_on_tensors_without_data_alone() -> None:
    first = first_trial(CLOSE)
    assert first == Trial("static", "answered")
    move = next_move(CLOSE, (first,), MEANS)
    assert move == Run("meta", HOST, MOST_S["meta"], ask=False)
    nothing = replace(TOLD_NOTHING, host="gpu-1")
    assert next_move(CLOSE, (first, nothing), MEANS) == Stop()
    absent = replace(IMPOSSIBLE, host="gpu-1", seconds=3.0)
    both = Means(sites=(HOST, OTHER))
    assert next_move(CLOSE, (first, absent), both) == Run("meta", OTHER, MOST_S["meta"], ask=False)
    ended = replace(IMPOSSIBLE, host="gpu-2")
    assert next_move(CLOSE, (first, absent, ended), both) == Stop()
    assert next_move(CLOSE, (first, absent), replace(both, limit_s=5.0)) == Run(
        "meta", OTHER, 2.0, ask=False
    )
    assert next_move(CLOSE, (first, absent), replace(both, limit_s=3.0)) == Stop()
    assert next_move(CLOSE, (first, ANSWERED), MEANS) == Stop()


def test_to_confirm_an_answer_no_question_is_asked() -> None:
    first = first_trial(CLOSE)
    here = Means(sites=(HERE,))
    assert next_move(CLOSE, (first,), here) == Stop()
    assert next_move(CLOSE, (first,), here, {HERE}) == Run("meta", HERE, MOST_S["meta"], ask=False)
    assert next_move(CLOSE, (first,), Means("ask", (HOST,))) == Stop()
    assert next_move(CLOSE, (first,), Means("never", (HOST,))) == Stop()
    assert next_move(CLOSE, (first,), Means(absent="no host has Paddle")) == Stop()
    assert next_move(CLOSE, (first,), replace(MEANS, tiers=("traced",))) == Stop()
    # Who insists has all tiers, and is asked.
    assert isinstance(next_move(CLOSE, (first,), replace(here, insist=True)), Run)


def test_what_reading_told_is_the_first_trial() -> None:
    assert first_trial(UNKNOWN, 0.5) == Trial(
        "static", "unknown", "a model from elsewhere", seconds=0.5
    )
    assert first_trial(KNOWN) == Trial("static", "answered")
    assert first_trial(WIDE).outcome == "unknown"
    assert "too wide" in first_trial(WIDE).why
    assert first_trial(report(memory(1, 2), tier="history")).tier == "history"
    assert first_trial(report(errors=(ScriptFault("a.py", 1, "x"),))).outcome == "answered"
    assert first_trial(report(unknowns=())).why == "the memory is unknown"


# --- the order ----------------------------------------------------------------------------------


def test_the_cheapest_tier_at_the_best_site_comes_first_and_an_answer_ends_it() -> None:
    tried, stop = climbed(MEANS, [ANSWERED])
    assert tried == [("meta", "gpu-1")]
    assert stop == Stop()


def test_a_tier_that_told_nothing_is_not_asked_elsewhere() -> None:
    tried, _ = climbed(MEANS, [TOLD_NOTHING, ANSWERED])
    assert tried == [("meta", "gpu-1"), ("traced", "gpu-1")]


def test_where_memory_grows_with_each_step_a_tier_of_three_steps_is_not_asked() -> None:
    """It would state what three of them take."""
    why = f"The script cannot be measured: Unsupported: {GROWS} 156, by 0.01 MiB a step"
    tried, stop = climbed(MEANS, [Trial("meta", "unknown", why, "gpu-1")])
    assert tried == [("meta", "gpu-1")]
    assert "grows with each step" in stop.why


def test_a_tier_that_could_not_be_tried_is_tried_elsewhere() -> None:
    tried, stop = climbed(MEANS, [IMPOSSIBLE, TOLD_NOTHING, IMPOSSIBLE, IMPOSSIBLE])
    assert tried == [("meta", "gpu-1"), ("meta", ""), ("traced", "gpu-1"), ("traced", "")]
    assert stop == Stop("no further tier is left to try")


def test_with_one_site_every_tier_is_tried_once() -> None:
    tried, _ = climbed(Means(sites=(HOST,)), [IMPOSSIBLE, IMPOSSIBLE])
    assert tried == [("meta", "gpu-1"), ("traced", "gpu-1")]


# --- what is allowed ----------------------------------------------------------------------------


def test_never_means_never() -> None:
    tried, stop = climbed(replace(MEANS, measure="never", insist=True), [])
    assert tried == []
    assert "never" in stop.why


def test_without_a_site_the_reason_is_given() -> None:
    assert climbed(Means(absent="no host is up"), [])[1] == Stop("no host is up")
    assert climbed(Means(), [])[1].why


@pytest.mark.parametrize(
    ("measure", "site", "agreed", "asks"),
    [
        ("auto", HOST, (), False),
        ("auto", HERE, (), True),
        ("auto", HERE, (HERE,), False),
        ("auto", Site(), (), False),
        ("ask", HOST, (), True),
        ("ask", HOST, (HOST,), False),
        ("ask", HOST, (OTHER,), True),
    ],
)
def test_the_user_is_asked_where_that_is_needed(
    measure: Any, site: Site, agreed: tuple[Site, ...], asks: bool
) -> None:
    move = next_move(UNKNOWN, (), Means(measure, (site,)), agreed)
    assert isinstance(move, Run)
    assert move.ask is asks


def test_all_tiers_together_have_one_limit() -> None:
    means = replace(MEANS, limit_s=60.0)
    longer = next_move(UNKNOWN, (), MEANS)
    assert isinstance(longer, Run)
    assert longer.limit_s == 180.0
    first = next_move(UNKNOWN, (), means)
    assert isinstance(first, Run)
    assert first.limit_s == 60.0
    spent = (Trial("static", "unknown", seconds=50.0), Trial("meta", "unknown", seconds=20.0))
    second = next_move(UNKNOWN, spent, means)
    assert isinstance(second, Run)
    assert second.limit_s == 40.0
    tried, stop = climbed(means, [replace(TOLD_NOTHING, seconds=60.0)])
    assert len(tried) == 1
    assert "60 s" in stop.why


def test_the_ladder_gives_the_tier_meta_what_its_runs_may_take_without_a_limit() -> None:
    assert pytest.approx(WITHOUT_DATA_S) == PLANNED * MOST_S["meta"]


def test_who_insists_measures_what_is_known_until_a_measured_tier_answers() -> None:
    means = replace(MEANS, insist=True)
    first = first_trial(KNOWN)
    assert isinstance(next_move(KNOWN, (first,), means), Run)
    assert next_move(KNOWN, (first, ANSWERED), means) == Stop()


def test_a_device_is_taken_last_and_on_hosts_alone() -> None:
    means = replace(MEANS, tiers=("meta", "traced", "device"), devices=(OTHER,))
    tried, _ = climbed(means, [TOLD_NOTHING, TOLD_NOTHING, IMPOSSIBLE])
    assert tried == [("meta", "gpu-1"), ("traced", "gpu-1"), ("device", "gpu-2")]


def test_a_script_that_names_paddle_nowhere_is_not_run_for_anyone() -> None:
    move = next_move(report(flags=("without-paddle",)), (), replace(MEANS, insist=True))
    assert isinstance(move, Stop)
    assert "Paddle" in move.why


# --- a fault that reading finds -----------------------------------------------------------------

WRONG = report(
    None, verdict("will-fail"), errors=(ScriptFault("/home/a/train.py", 7, "4 and 5 differ"),),
    unknowns=(),
)  # fmt: skip
CONFIRMED = Trial("meta", "confirmed", "train.py:7: ValueError", seconds=3.0)


def test_a_fault_is_run_until_a_tier_confirms_or_disproves_it() -> None:
    first = first_trial(WRONG)
    move = next_move(WRONG, (first,), MEANS)
    assert isinstance(move, Run)
    assert move.tier == "meta"
    assert isinstance(next_move(WRONG, (first, CONFIRMED), MEANS), Stop)
    assert isinstance(next_move(WRONG, (first, TOLD_NOTHING), MEANS), Run)
    assert is_fault_at(WRONG, "/sandbox/project/train.py", 7)
    assert not is_fault_at(WRONG, "/sandbox/project/train.py", 8)
    assert not is_fault_at(UNKNOWN, "train.py", 7)


@pytest.mark.parametrize(
    "ended",
    [CONFIRMED, Trial("meta", "impossible", "no Paddle"), None],
)
def test_a_fault_is_certain_where_a_run_shows_it_or_nothing_can_be_run(ended: Trial | None) -> None:
    found = concluded(WRONG, (first_trial(WRONG), *filter(None, (ended,))))
    assert [one.verdict for one in found.verdicts] == ["will-fail"]
    assert found.estimate.errors == WRONG.estimate.errors


@pytest.mark.parametrize(
    "ended",
    [TOLD_NOTHING, Trial("meta", "impossible", "it took longer than 90 s", seconds=90.0)],
)
def test_a_fault_that_no_run_showed_is_told_as_what_may_be(ended: Trial) -> None:
    found = concluded(WRONG, (first_trial(WRONG), ended))
    assert [one.verdict for one in found.verdicts] == ["unknown"]
    assert not found.estimate.errors
    assert found.estimate.memory is None
    assert "may-fail" in found.estimate.flags
    assert found.estimate.unknowns[0].line == 7
    assert "it may fail here: 4 and 5 differ" in found.estimate.unknowns[0].reason
    assert (found.trials[0].outcome, found.trials[1]) == ("unknown", ended)


# --- in words -----------------------------------------------------------------------------------


def test_tiers_that_were_not_tried_say_why() -> None:
    rest = left_out((first_trial(UNKNOWN), TOLD_NOTHING), "the time is used up")
    assert rest == (Trial("traced", "impossible", "the time is used up"),)


@pytest.mark.parametrize(
    ("trial", "words"),
    [
        (Trial("meta", "answered", host="gpu-1", seconds=4.21), "meta on gpu-1: answered (4.2 s)"),
        (Trial("static", "unknown", "no model", seconds=0.0), "static: unknown: no model"),
        (Trial("traced", "impossible", "no Paddle"), "traced: not measured: no Paddle"),
        (CONFIRMED, "meta: it fails there: train.py:7: ValueError (3.0 s)"),
    ],
)
def test_a_trial_is_told_in_one_line(trial: Trial, words: str) -> None:
    assert sentence(trial) == words

"""The report of the Submit screen as a person reads it."""

from __future__ import annotations

from typing import Any

from gpuconsole.core.estimate import (
    Estimate,
    Memory,
    Report,
    ScriptFault,
    Unknown,
    Verdict,
    VerdictWord,
)
from gpuconsole.tui.render.preflight_report import report_lines
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.style.themes import BUILT_IN


def shown(word: VerdictWord, **facts: Any) -> list[str]:
    known = {"script": "/x/train.py", "batch_size": 2, "backend": "gpu", "tier": "static",
             "coverage": 1.0, "batch_source": None, "memory": None}  # fmt: skip
    verdict = Verdict("Tesla T4", "a", "gpu", word, None, None, None, reason="why not")
    found = Report(Estimate(**{**known, **facts}), (verdict,))
    lines = report_lines(Ink(BUILT_IN), found, (), 76)
    return ["".join(words for words, _ in line) for line in lines]


def test_without_an_estimate_it_says_so_once_and_not_for_each_device() -> None:
    nowhere = Unknown("", 0, "no training step was found")
    lines = shown("unknown", tier="unknown", unknowns=(nowhere,))
    assert lines[0].endswith("its memory is unknown")
    assert "? no training step was found" in lines
    assert not any("T4" in line or "why not" in line for line in lines)


def test_a_wrong_script_is_not_measured_against_a_card() -> None:
    fault = ScriptFault("/x/train.py", 18, "Linear expects 3, 4 arrive", ((2, 4), (3, 5)))
    lines = shown("will-fail", errors=(fault,))
    assert lines[0].endswith("WILL FAIL   the script itself is wrong")
    assert any("train.py:18  Linear expects 3, 4 arrive (2x4 and 3x5)" in line for line in lines)


def text_of(found: Report) -> list[str]:
    lines = report_lines(Ink(BUILT_IN), found, (), 76)
    return ["".join(words for words, _ in line) for line in lines]


def test_a_memory_that_is_known_is_not_called_unknown_for_want_of_a_device() -> None:
    estimate = Estimate("/x/t.py", 2, None, "gpu", "static", 1.0, Memory(total_mib=5, high_mib=7))
    first = text_of(Report(estimate))[0]
    assert first.endswith("NO DEVICE   needs up to 7.0 MiB; there is none to compare it with")


def test_what_is_too_much_is_no_share_of_what_may_be_used() -> None:
    estimate = Estimate("/x/t.py", 2, None, "gpu", "static", 1.0, Memory(total_mib=5, high_mib=900))
    card = Verdict("Tesla T4", "a", "gpu", "will-not-fit", -800.0, 0, None, 100.0)
    first = text_of(Report(estimate, (card,)))[0]
    assert first.endswith("WILL NOT FIT   needs up to 900 MiB; 100 MiB may be used on T4")


def test_nothing_was_read_for_a_formula() -> None:
    assert any("understood" in line for line in shown("unknown"))
    assert not any("understood" in line for line in shown("unknown", tier="formula"))

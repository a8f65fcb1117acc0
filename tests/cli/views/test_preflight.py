"""What preflight says to a person, on a terminal of eighty columns."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from gpuconsole.cli.views.preflight import MOST_LAYERS, MOST_UNKNOWNS, report
from gpuconsole.core.answer_figures import answer
from gpuconsole.core.estimate import (
    Ask,
    BatchSource,
    CurvePoint,
    Estimate,
    Explanation,
    LayerCost,
    Memory,
    Report,
    ScriptFault,
    Suggestion,
    Unknown,
    Verdict,
    VerdictWord,
)
from gpuconsole.core.submission.script_edits import Edit

HOSTILE = "\x1b]0;gone\x07\x1b[2J\u202eevil[red]"
MEMORY = Memory(
    parameters_mib=1024.0, gradients_mib=1024.0, optimizer_mib=2048.0, activations_mib=4096.0,
    inputs_mib=64.0, workspace_mib=0.01, tensors_peak_mib=8256.0, reserved_mib=8704.0,
    context_mib=600.0, total_mib=9304.0, low_mib=8000.0, high_mib=10240.0,
)  # fmt: skip
ESTIMATE = Estimate(
    script="/home/ann/train.py", batch_size=32, backend="gpu", tier="static", coverage=0.97,
    batch_source=BatchSource("/home/ann/train.py", 12, "constant"), memory=MEMORY,
    notes=("The script was followed.",),
)  # fmt: skip


def verdict(word: VerdictWord = "fits", device: str = "A100", host: str = "a") -> Verdict:
    return Verdict(device, host, "gpu", word, 2048.0, 1234, 0.001, limit_mib=12288.0,
                   step_s=(0.0042, 0.0168), reason="2.0 GiB would be left")  # fmt: skip


def shown(found: Report, *, explain: bool = False) -> list[str]:
    """Return the lines as they stand on a terminal of eighty columns; none may be wider."""
    file = io.StringIO()
    screen = Console(file=file, width=80, markup=False, highlight=False, emoji=False)
    for part in report(found, explain=explain):
        screen.print(part)
    lines = [line.rstrip() for line in file.getvalue().split("\n")]
    assert max(map(cell_len, lines)) <= 80
    return lines


def whole(found: Report, *, explain: bool = False) -> str:
    """Return everything as one line, as it is read."""
    return " ".join(" ".join(shown(found, explain=explain)).split())


# --- verdict ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "best", "said"),
    [
        (("will-not-fit", "fits", "tight"), "fits", "✓ FITS"),
        (("will-not-fit", "tight"), "tight", "! TIGHT"),
        (("unknown", "will-not-fit"), "will-not-fit", "✗ WILL NOT FIT"),
        (("unknown",), "unknown", "? UNKNOWN"),
    ],
)
def test_the_headline_is_what_the_best_device_says(
    words: tuple[VerdictWord, ...], best: str, said: str
) -> None:
    found = Report(ESTIMATE, tuple(verdict(word) for word in words))
    assert answer(found).word == best
    assert shown(found)[0] == f"{said}   train.py needs about 9.1 GiB, 7.8 GiB to 10.0 GiB"


def test_a_script_that_is_wrong_says_so_and_nothing_of_devices() -> None:
    fault = ScriptFault("/home/ann/train.py", 40, "matmul of [2, 3] and [4, 5]")
    found = Report(replace(ESTIMATE, memory=None, errors=(fault,)), (verdict(),))
    lines = shown(found)
    assert lines[0] == "✗ WILL FAIL   train.py: the script itself is wrong"
    assert "✗ train.py:40: matmul of [2, 3] and [4, 5]" in lines
    assert "A100" not in " ".join(lines)


def test_what_is_unknown_is_asked_and_the_rest_counted() -> None:
    unknowns = tuple(Unknown("/x/train.py", line, f"reason {line}") for line in range(1, 10))
    ask = Ask("len(vocab)", "/x/train.py", 3, "How many words?", "30000")
    found = Report(replace(ESTIMATE, memory=None, tier="unknown", unknowns=unknowns, asks=(ask,)))
    text = whole(found)
    assert "train.py: its memory is unknown" in text
    assert f"reason {MOST_UNKNOWNS}" in text
    assert f"reason {MOST_UNKNOWNS + 1}" not in text
    assert "and 3 more that was not understood" in text
    assert "--assume 'len(vocab)=30000'" in text


def test_the_method_names_where_the_batch_size_stands() -> None:
    text = whole(Report(replace(ESTIMATE, flags=("double-backward",))))
    assert "batch 32 (constant, train.py:12) · back end gpu · static tier · 97% understood" in text
    assert "double-backward" in text
    alone = whole(Report(replace(ESTIMATE, batch_source=BatchSource("", 0, "given"))))
    assert "batch 32 (given) ·" in alone


# --- memory -------------------------------------------------------------------------------------


def test_the_bar_holds_the_parts_their_range_and_the_limit_of_the_best_card() -> None:
    lines = shown(Report(ESTIMATE, (verdict(), replace(verdict(), limit_mib=4096.0))))
    [bar] = [line.strip() for line in lines if line.startswith("  P") and "·" in line]
    cells = 72 / (12288.0 * 1.02)
    for letter, size in (("P", 1024.0), ("G", 1024.0), ("O", 2048.0), ("A", 4096.0)):
        assert bar.count(letter) == pytest.approx(size * cells, abs=1), letter
    assert bar.index("┃") == pytest.approx(12288.0 * cells, abs=1)
    assert bar.index("░") == pytest.approx(9304.0 * cells, abs=1)
    assert "W" not in bar, "what is next to nothing has no cell"


def test_the_bar_reaches_beyond_a_limit_that_is_too_small() -> None:
    lines = shown(Report(ESTIMATE, (replace(verdict("will-not-fit"), limit_mib=4096.0),)))
    [bar] = [line.strip() for line in lines if line.startswith("  P") and "┃" in line]
    before, beyond = bar.split("┃")
    assert "×" not in before
    assert set(beyond) == {"×", "·"}
    assert "× too much 6.0 GiB" in " ".join(lines)


def test_the_legend_names_each_part_once_and_what_may_be_used() -> None:
    lines = shown(Report(ESTIMATE, (verdict(),)))
    text = " ".join(lines)
    for words in ("P parameters 1.0 GiB", "O optimizer 2.0 GiB", "R allocator 448 MiB",
                  "C context 600 MiB", "┃ may be used 12.0 GiB"):  # fmt: skip
        assert sum(words in line for line in lines) == 1, words
    assert "workspace" not in text
    assert "may be used" not in " ".join(shown(Report(ESTIMATE)))


def test_equal_devices_of_a_host_stand_in_one_row() -> None:
    found = Report(ESTIMATE, (verdict(), verdict(), verdict(host="b"), verdict("tight", "T4")))
    rows = [line for line in shown(found) if "1,234" in line]
    assert [row.split()[-3:] for row in rows[:1]] == [["2", "x", "A100"]]
    assert len(rows) == 3
    assert "<1%" in rows[0]
    assert "4.2-17 ms" in rows[0]


def test_the_time_of_a_script_without_gradients_is_that_of_a_pass() -> None:
    served = replace(MEMORY, gradients_mib=0.0, optimizer_mib=0.0)
    for memory, heading, other in ((MEMORY, "STEP", "PASS"), (served, "PASS", "STEP")):
        found = (replace(verdict(), memory=memory),)
        text = "\n".join(shown(Report(replace(ESTIMATE, memory=memory), found)))
        assert heading in text
        assert other not in text


def test_what_is_not_known_of_a_device_is_not_made_up() -> None:
    bare = Verdict("Ascend 910A", "", "npu", "unknown", None, None, None)
    [row] = [line for line in shown(Report(ESTIMATE, (bare,))) if "Ascend" in line]
    assert row.split() == ["?", "unknown", "n/a", "n/a", "n/a", "n/a", "Ascend", "910A"]


# --- what would help ----------------------------------------------------------------------------


def test_a_suggestion_says_what_it_saves_costs_and_changes() -> None:
    edit = Edit("train.py", 12, "batch = 32", "batch = 16")
    helps = (
        Suggestion("batch-size", 16, "Use batch 16", 4096.0, "more steps", edits=(edit,)),
        Suggestion("device", "A100", "Use an A100", args=("--batch-size", "16")),
    )
    lines = shown(Report(ESTIMATE, (verdict("will-not-fit"),), helps))
    assert "1 Use batch 16  (saves 4.0 GiB)" in lines
    assert "2 Use an A100" in lines
    assert "  costs: more steps" in lines
    assert "  arguments: --batch-size 16" in lines
    place = lines.index("  --- train.py")
    assert lines[place + 1 : place + 5] == [
        "  +++ train.py (shipped copy)", "  @@ -12 +12 @@", "  -batch = 32", "  +batch = 16",
    ]  # fmt: skip


# --- layers -------------------------------------------------------------------------------------


def layer(number: int, line: int) -> LayerCost:
    return LayerCost(f"blocks.{number}", "Linear", "/x/train.py", line, (32, 512), 1.5,
                     100.0 - number, 3.2e9)  # fmt: skip


def test_layers_mark_the_peak_and_quote_its_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import paddle\nloss.backward()\n")
    layers = (replace(layer(0, 2), file=str(script)), layer(1, 9))
    found = Report(ESTIMATE, explanation=Explanation(layers, str(script), 2, "backward"))
    lines = shown(found, explain=True)
    [first] = [line for line in lines if "blocks.0" in line]
    [second] = [line for line in lines if "blocks.1" in line]
    assert first.split()[:7] == ["100", "MiB", "1.5", "MiB", "3.2", "G", "◆"]
    assert "32x512" in first
    assert "◆" not in second
    assert "◆ The peak comes at train.py:2, in the backward pass." in lines
    assert "Layers by what they keep for the backward pass" in lines
    assert "      2 │ loss.backward()" in lines
    assert lines.index("How it was found") < lines.index("  The script was followed.")


def test_where_nothing_is_trained_layers_keep_nothing_for_a_backward_pass() -> None:
    found = Report(
        ESTIMATE, explanation=Explanation((layer(0, 2),), "t.py", 2, "forward of 2", False)
    )
    lines = shown(found)
    assert "Layers by what they hold at the peak" in lines
    assert "◆ The peak comes at t.py:2, in the forward pass of 2." in lines
    assert "SAVED" not in "".join(lines)


def test_no_chance_stands_beside_a_refusal() -> None:
    refused = replace(verdict("will-not-fit", "Tesla T4"), oom_probability=0.28)
    likely = replace(verdict("will-not-fit", "Tesla V100"), oom_probability=0.999)
    lines = shown(Report(ESTIMATE, (refused, likely, verdict("fits"))))
    rows = [line for line in lines if line.startswith("✗ will not fit")]
    assert len(rows) == 2
    assert not any("%" in row for row in rows)


def test_what_is_too_much_is_held_against_what_may_be_used() -> None:
    small = replace(verdict("will-not-fit"), limit_mib=100.0, headroom_mib=-9000.0)
    assert "; only 100 MiB may be used" in whole(Report(ESTIMATE, (small,)))


def test_layers_beyond_the_first_are_counted() -> None:
    layers = tuple(layer(number, number + 1) for number in range(MOST_LAYERS + 3))
    peak = Explanation(layers, "/nowhere/train.py", 7, "forward")
    text = whole(Report(ESTIMATE, explanation=peak))
    assert f"blocks.{MOST_LAYERS - 1} " in text
    assert f"blocks.{MOST_LAYERS} " not in text
    assert "and 3 more with 225 MiB in all" in text


# --- curve --------------------------------------------------------------------------------------


def test_the_curve_rises_and_shows_the_limits_in_its_reach() -> None:
    points = tuple(CurvePoint(n, 1000.0 + 100 * n, 1200.0 + 110 * n) for n in (1, 16, 32, 64, 128))
    judged = (
        verdict(device="T4"),
        replace(verdict(device="V100"), limit_mib=6000.0),
        replace(verdict(device="A800"), limit_mib=6010.0),
        replace(verdict(device="H100"), limit_mib=80_000.0),
    )
    lines = shown(Report(ESTIMATE, judged, curve=points))
    start = lines.index("Peak against batch size (this script: 32)")
    plot = lines[start + 1 : -1]
    heights = [number for number, line in enumerate(plot) if "●" in line]
    first = max(heights, key=lambda number: -plot[number].index("●"))
    assert heights[0] < first == max(heights), "it begins at the bottom"
    assert [line for line in plot if " T4 " in line], "a line for what the card may use"
    assert [line for line in plot if " V100, A800 " in line], "near limits share a line"
    assert not [line for line in plot if "H100" in line], "out of reach"
    assert plot[-1].split() == ["1", "batch", "size", "128"]


# --- foreign text -------------------------------------------------------------------------------


def test_foreign_text_cannot_draw() -> None:
    evil = Verdict(HOSTILE, HOSTILE, "gpu", "fits", 1.0, 1, 0.1, 12000.0, reason=HOSTILE)
    estimate = replace(
        ESTIMATE, script=f"/x/{HOSTILE}.py", notes=(HOSTILE,),
        unknowns=(Unknown(f"/x/{HOSTILE}", 3, HOSTILE),),
        asks=(Ask(HOSTILE, HOSTILE, 0, HOSTILE, HOSTILE),),
    )  # fmt: skip
    suggestion = Suggestion(
        "batch-size", 1, HOSTILE, 1.0, HOSTILE, (HOSTILE,), (Edit(HOSTILE, 1, HOSTILE, HOSTILE),)
    )
    cost = LayerCost(HOSTILE, HOSTILE, HOSTILE, 1, (1,), 1.0, 1.0)
    found = Report(
        estimate, (evil,), (suggestion,), Explanation((cost,), HOSTILE, 1, HOSTILE),
        (CurvePoint(1, 100.0, 20_000.0), CurvePoint(2, 200.0, 20_000.0)),
    )  # fmt: skip
    text = "\n".join(shown(found, explain=True))
    assert not set(text) & set("\x1b\x07\u202e")
    assert "evil[red]" in text, "markup is not read"


# --- eighty columns -----------------------------------------------------------------------------


def test_a_wrong_shape_is_told_with_both_shapes() -> None:
    fault = ScriptFault("/x/train.py", 18, "Linear expects 6272, 7200 arrive",
                        ((64, 7200), (6272, 10)))  # fmt: skip
    lines = shown(Report(replace(ESTIMATE, errors=(fault,))))
    at = lines.index("✗ train.py:18: Linear expects 6272, 7200 arrive")
    assert lines[at + 1] == "  shapes: [64, 7200] and [6272, 10]"


def test_an_uncalibrated_context_is_said_without_being_asked() -> None:
    assert "not calibrated" not in whole(Report(ESTIMATE))
    open_context = replace(MEMORY, context_spread_mib=300.0)
    assert "· not calibrated" in whole(Report(replace(ESTIMATE, memory=open_context)))


def test_what_was_read_is_counted_only_where_something_was_read() -> None:
    assert "understood" not in whole(Report(replace(ESTIMATE, tier="formula", coverage=0.0)))


def test_a_reason_without_a_place_begins_with_the_reason() -> None:
    nowhere = Unknown("", 0, "no training step was found")
    lines = shown(Report(replace(ESTIMATE, memory=None, unknowns=(nowhere,))))
    assert "? no training step was found" in lines


def test_without_an_estimate_no_table_repeats_that_it_is_unknown() -> None:
    found = Report(replace(ESTIMATE, memory=None), (verdict("unknown"),))
    assert "A100" not in whole(found)


def test_the_longest_name_of_a_common_card_stands_on_one_line() -> None:
    long = replace(verdict("will-not-fit", "Tesla V100-PCIE-32GB", ""),
                   headroom_mib=-44032.0, oom_probability=0.999, step_s=(0.714, 2.9))  # fmt: skip
    [_, row] = [line for line in shown(Report(ESTIMATE, (long,))) if "V100" in line]
    assert row.endswith("Tesla V100-PCIE-32GB")
    assert "HOST" not in whole(Report(ESTIMATE, (long,)))


def test_a_line_that_goes_on_keeps_its_indent() -> None:
    lines = shown(Report(replace(ESTIMATE, flags=("variable-shape", "double-backward"))))
    assert lines[1].startswith("  batch 32")
    assert lines[2].startswith("  ")
    assert lines[2].strip()

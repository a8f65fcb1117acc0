"""No two figures of one answer contradict each other, whatever the estimate and the cards."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gpuconsole.cli.views import preflight
from gpuconsole.core.answer_figures import answer
from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.estimate import Estimate, Report
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Task
from gpuconsole.preflight import Calibration, Card, report
from gpuconsole.preflight.memory.footprint import Footprint, as_memory
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant
from gpuconsole.tui.render.preflight_report import report_lines, stacked_bar
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.style.themes import BUILT_IN

ABLE = ("fits", "tight")


@dataclass(frozen=True)
class Network:
    """An estimator of a network with memory that is linear in the batch."""

    batch: int
    fixed: float
    each: float
    growth: float = 1.0

    def reserved_at(self, backend: Backend) -> Callable[[int], float | None]:
        return lambda batch: (self.fixed + self.each * batch) * self.growth

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        batch = batch_size or self.batch
        share = 1.0 if variant == AS_WRITTEN else 0.6
        sizes = {"parameters": self.fixed / 4, "gradients": self.fixed / 4,
                 "optimizer": self.fixed / 2, "activations": self.each * batch * share,
                 "inputs": 0.0, "workspace": 0.0}  # fmt: skip
        tensors = sum(sizes.values())
        memory = as_memory(
            Footprint(sizes, tensors, tensors * self.growth), backend, "static", context_mib
        )
        return Estimate("/x/train.py", batch, None, backend, "static", 1.0, memory)


sizes = st.floats(1.0, 90_000.0)
networks = st.builds(
    Network, st.integers(1, 300), sizes, st.floats(0.01, 2000.0), st.floats(1.0, 1.2)
)
devices = st.builds(
    lambda gib, held, threshold, context, backend, number: Card(
        f"card {gib}", f"h{number}", backend, gib * 1024.0, held * gib * 1024.0, threshold, context,
        uuid=f"u{number}-{gib}",
    ),
    st.sampled_from([8, 24, 40, 80]), st.sampled_from([0.0, 0.0, 0.3, 0.97, 1.1]),
    st.sampled_from([0.5, 0.85, 1.0]), st.none() | st.floats(200.0, 1800.0),
    st.sampled_from(["gpu", "gpu", "npu"]), st.integers(0, 3),
)  # fmt: skip
questions = st.builds(
    lambda size, backend: (Card("card asked for", "", backend, size, exact=True),),
    sizes, st.sampled_from(["gpu", "cpu"]),
)  # fmt: skip
fleets = questions | st.lists(devices, min_size=1, max_size=4).map(tuple)


@st.composite
def pasts(draw: st.DrawFn) -> Calibration | None:
    if draw(st.booleans()):
        return None
    runs = [
        Observation(f"j{number}", 1, 1000.0 + number, draw(st.sampled_from(["ok", "oom"])),
                    digest="", host="h1", device="card 24", script="",
                    batch=draw(st.integers(1, 300)),
                    reserved_mib=draw(sizes), allocated_mib=draw(sizes), requested_mib=100.0,
                    free_mib=draw(sizes))
        for number in range(draw(st.integers(0, 3)))
    ]  # fmt: skip
    return Calibration(tuple(runs))


def asked(network: Network, cards: tuple[Card, ...], past: Calibration | None) -> Report:
    backend = cards[0].backend
    return report(Task("t"), cards, backend=backend, measured=network, calibration=past)


def text_of(found: Report) -> str:
    file = io.StringIO()
    screen = Console(file=file, width=80, markup=False, highlight=False, emoji=False)
    for part in preflight.report(found):
        screen.print(part)
    return file.getvalue()


answers = st.builds(asked, networks, fleets, pasts())


@given(answers)
def test_each_verdict_is_the_limit_less_the_need(found: Report) -> None:
    for one in found.verdicts:
        assert one.limit_mib is not None
        assert one.headroom_mib is not None
        assert one.memory is not None
        assert one.memory.high_mib == pytest.approx(one.needs_mib)
        assert one.limit_mib - one.memory.high_mib == pytest.approx(one.headroom_mib, abs=1e-6)
        assert (one.headroom_mib >= 0) is (one.verdict in ABLE) or "ran out" in one.reason
        batch = found.estimate.batch_size
        assert batch is not None
        if one.max_batch_size is not None:
            assert (batch <= one.max_batch_size) is (one.verdict in ABLE)
        chance = one.oom_probability
        if chance is not None:
            assert chance >= 0.5 if one.verdict == "will-not-fit" else chance <= 0.51


@given(answers)
def test_the_document_has_one_base(found: Report) -> None:
    document = found.as_json()
    whole = document["memory"]
    assert whole["context_mib"] + whole["reserved_mib"] == pytest.approx(whole["total_mib"])
    assert whole["low_mib"] <= whole["total_mib"] <= whole["high_mib"]
    for one in document["verdicts"]:
        assert one["needs_mib"] == pytest.approx(one["limit_mib"] - one["headroom_mib"])
        assert "memory" not in one
        seen = "ran out" in one["reason"]
        if one["backend"] == document["backend"] and not seen:
            assert one["needs_mib"] <= whole["high_mib"] * (1 + 1e-9)


@given(answers)
def test_a_drawn_answer_is_of_one_device(found: Report) -> None:
    shown = answer(found)
    memory, verdict = shown.memory, shown.verdict
    assert memory is not None
    assert verdict is not None
    assert sum(preflight.sizes(memory)) == pytest.approx(memory.total_mib)
    assert memory.low_mib <= memory.total_mib + 1e-6
    assert memory.total_mib <= memory.high_mib + 1e-6
    assert memory.high_mib == pytest.approx(verdict.needs_mib)
    if shown.share_percent is not None and "ran out" not in verdict.reason:
        assert (shown.share_percent <= 100) is (shown.word in ABLE)


@given(answers)
def test_what_a_terminal_shows_agrees_with_itself(found: Report) -> None:
    text, shown = text_of(found), answer(found)
    assert shown.verdict is not None
    beyond = shown.beyond_mib > 0
    assert ("× too much" in text) is beyond
    [bar] = [line for line in text.split("\n") if re.fullmatch(r" +[PGOAIWRC░·┃×]{72}", line)]
    before, after = bar.split("┃")
    assert "×" not in before
    assert ("×" in after) is beyond
    assert beyond or set(after) <= {"·"}, "what fits does not reach beyond the limit"
    if "ran out" not in shown.verdict.reason:
        assert (shown.word == "will-not-fit") is beyond
    for row in text.split("\n"):
        assert not re.search(r"✗ will not fit .* \d+%", row)


@given(answers, st.sampled_from(["block", "ascii"]))
def test_what_the_screen_shows_agrees_with_itself(found: Report, symbols: str) -> None:
    ink = Ink(BUILT_IN, symbols)  # type: ignore[arg-type]
    for uuids in ((), (found.verdicts[-1].uuid,)):
        shown = answer(found, uuids)
        lines = report_lines(ink, found, uuids, 76)
        first = "".join(words for words, _ in lines[0])
        percent = re.search(r"\((\d+)%\)", first)
        if percent is not None:
            assert (int(percent[1]) > 100) is (shown.beyond_mib > 0)
        over = [style for words, style in stacked_bar(ink, shown, 76) if ink.glyphs.beyond in words]
        assert bool(over) is (shown.beyond_mib > 0)
        assert all(style == ink.bad for style in over)


@given(answers)
def test_a_suggestion_does_not_contradict_the_verdicts(found: Report) -> None:
    largest = max((one.max_batch_size or 0 for one in found.verdicts), default=0)
    shown = answer(found)
    assert shown.memory is not None
    for one in found.suggestions:
        assert not any(verdict.verdict in ABLE for verdict in found.verdicts)
        if one.kind == "batch-size":
            assert isinstance(one.value, int)
            assert one.value <= largest
        if one.saves_mib:
            assert (
                0
                < one.saves_mib
                <= max(
                    verdict.memory.high_mib
                    for verdict in found.verdicts
                    if verdict.memory is not None
                )
            )


@given(networks, st.floats(200.0, 1800.0), st.sampled_from([8, 24, 40, 80]))
def test_no_free_device_of_the_suggested_size_is_refused(
    network: Network, context: float, gib: int
) -> None:
    card = Card("free", "h", "gpu", gib * 1024.0, context_mib=context)
    found = report(Task("t"), [card, replace(card, host="i", context_mib=None)], measured=network)
    for one in found.suggestions:
        if one.kind == "device" and "at least" in one.text:
            assert int(one.value) > gib
            assert "once free" not in one.text

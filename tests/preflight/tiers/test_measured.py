"""Estimates from recordings: blocks as functions of the batch, alignment, refusals."""

from __future__ import annotations

import copy
from collections.abc import Callable
from difflib import SequenceMatcher
from math import isfinite
from typing import Any

import pytest

from gpuconsole.core.fleet import Backend
from gpuconsole.core.units import MIB
from gpuconsole.errors import UsageError
from gpuconsole.preflight.card import Card
from gpuconsole.preflight.tiers import measured, measurement_gaps, probe_trace
from gpuconsole.preflight.tiers.probe_pieces import NO_MEMORY
from gpuconsole.preflight.tiers.probe_trace import Size, Unusable, combine, grown, read_run, ready
from gpuconsole.preflight.tiers.static import Analysis
from gpuconsole.preflight.verdicts import judge, largest_batch

# Two layers with an input of 100 bytes a sample: parameters, a batch, an activation that the
# kernel of the second layer reads, its gradient, and scratch memory within one kernel.
NAMES = ["", "matmul", "matmul_grad", "reader", "relu", "uniform"]


def run(batch: int, **changes: Any) -> dict[str, Any]:
    """Return a recording as the probe writes it."""
    made: dict[str, Any] = {
        "batch": batch,
        # parameter, waiting batch, batch, product, scratch (gone), gradient, and all but one end
        "events": [0, 1, 2, 3, 4, ~4, 5, ~3, ~5, ~2],
        "cycles": [7],
        "sizes": [5000, 100 * batch, 100 * batch, 40 * batch, 700, 60 + 40 * batch],
        "names": NAMES,
        "name": [5, 3, 0, 1, 1, 2],
        "kind": [1, 5, 4, 0, 0, 2],
        "inside": [4],
        "shapes": [[[[batch, 25]], [[batch, 25]]]],
        "readers": [{"samples": 1000, "batches": None}],
        "widest_conv": 0,
        "flags": [],
        "trained": True,
    }
    made.update(changes)
    return made


def document(small: dict[str, Any], large: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"version": 1, "mode": "traced", "script": "train.py", "paddle": "3.3.1",
            "runs": [small, large], **changes}  # fmt: skip


@pytest.mark.parametrize("mode", ["meta", "traced"])
def test_a_run_that_took_no_memory_is_no_answer(mode: str) -> None:
    nothing = run(2, events=[], cycles=[], sizes=[], name=[], kind=[], inside=[], readers=[],
                  shapes=[], trained=False, fixed=True)  # fmt: skip
    for alone in (nothing, run(2, sizes=[0] * 6, trained=False, fixed=True)):
        found = measured.load(document(alone, alone, runs=[alone], mode=mode))
        answer = found.estimate(None, backend="cpu")
        assert answer.memory is None
        assert any(NO_MEMORY in unknown.reason for unknown in answer.unknowns)


@pytest.mark.parametrize(
    ("flag", "backend", "share"),
    [("loaded-program", "cpu", 0.30), ("static-graph", "cpu", 0.10), ("", "cpu", 0.10),
     ("loaded-program", "gpu", 0.10)],
)  # fmt: skip
def test_threads_of_a_loaded_program_may_free_late_on_a_cpu(
    flag: str, backend: Backend, share: float
) -> None:
    """Within the range of the tier lies what other programs need by chance."""
    flags = [flag] if flag else []
    told = measured.load(document(run(2, flags=flags), run(4, flags=flags), mode="meta"))
    memory = told.estimate(4, backend=backend, context_mib=0.0).memory
    assert memory is not None
    assert memory.high_mib == pytest.approx(memory.total_mib * (1 + share))


class TestReach:
    """What a run did not come to may take more than what it saw."""

    @pytest.mark.parametrize(
        ("reached", "wider"),
        [(("steps", "steps"), True), (("end", "steps"), False), (("epoch", "steps"), False),
         ((None, None), False)],
    )  # fmt: skip
    def test_the_range_reaches_up_where_no_epoch_was_followed_to_its_end(
        self, reached: tuple[str | None, str | None], wider: bool
    ) -> None:
        told = [{} if one is None else {"reached": one} for one in reached]
        runs = [run(2, **told[0]), run(4, **told[1])]
        plain = measured.load(document(run(2), run(4), mode="meta")).estimate(4, backend="cpu")
        found = measured.load(document(*runs, mode="meta")).estimate(4, backend="cpu")
        assert plain.memory is not None
        assert found.memory is not None
        assert found.memory.tensors_peak_mib == plain.memory.tensors_peak_mib
        assert found.memory.low_mib == plain.memory.low_mib
        memory = plain.memory
        beside = (memory.activations_mib + memory.inputs_mib + memory.parameters_mib
                  + memory.optimizer_mib)  # fmt: skip
        more = found.memory.high_mib - plain.memory.high_mib
        assert more == pytest.approx(beside if wider else 0.0)
        assert (measurement_gaps.UNREACHED in found.notes) == wider

    def test_a_device_copies_nothing_of_what_is_saved(self) -> None:
        runs = [run(size, reached="steps") for size in (2, 4)]
        plain = measured.load(document(run(2), run(4), mode="meta")).estimate(4).memory
        found = measured.load(document(*runs, mode="meta")).estimate(4).memory
        assert plain is not None
        assert found is not None
        beside = plain.activations_mib + plain.inputs_mib
        assert found.high_mib - plain.high_mib == pytest.approx(beside)

    @pytest.mark.parametrize(
        ("awaits", "samples"),
        [((0, 0), 4), ((64, 64), 64), ((16, 32), 32), ((None, 64), None), ((64,), 128)],
    )
    def test_the_range_reaches_up_to_an_evaluation_that_may_come(
        self, awaits: tuple[int | None, ...], samples: int | None
    ) -> None:
        """With batches of its own size, or in proportion, or as large as those that train."""
        told = [run(size, reached="end") for size in (2, 4)]
        plain = measured.load(document(*told, mode="meta")).estimate(4).memory
        for one, size in zip(told, awaits, strict=False):
            one["awaits"] = size
        found = measured.load(document(*told, mode="meta")).estimate(4)
        assert plain is not None
        assert found.memory is not None
        assert found.memory.low_mib == plain.low_mib
        more = (plain.activations_mib + plain.inputs_mib) * (samples or 0) / 4
        assert found.memory.high_mib - plain.high_mib == pytest.approx(more)
        assert ("unreached" in found.flags) == (samples is not None)
        assert any("was not reached" in note for note in found.notes) == (samples is not None)

    @pytest.mark.parametrize(
        ("used", "below", "beyond"),
        [([4 * MIB, 2 * MIB], 4.0, 2.0), ([0, 6 * MIB], 0.0, 6.0), (None, 0.0, 0.0),
         ([0, -1], 0.0, 0.0), ([MIB], 0.0, 0.0)],
    )  # fmt: skip
    def test_used_batches_that_wait_for_the_collector_widen_the_range(
        self, used: list[int] | None, below: float, beyond: float
    ) -> None:
        """By those that are counted down, and by those that may come up; in proportion."""
        told = [run(size, sizes=[9e6, 1e6 * size, 1e6 * size, 40, 7, 60]) for size in (2, 4)]
        plain = measured.load(document(*told, mode="meta")).estimate(8)
        told[1]["uncollected"] = used
        found = measured.load(document(*told, mode="meta")).estimate(8)
        assert plain.memory is not None
        assert found.memory is not None
        less = plain.memory.low_mib - found.memory.low_mib
        assert less == pytest.approx(min(2 * below, plain.memory.low_mib))
        more = found.memory.high_mib - plain.memory.high_mib
        assert more == pytest.approx(2 * beyond)
        assert ("unreached" in found.flags) == bool(beyond)
        assert any("collector" in note for note in found.notes) == bool(below or beyond)

    @pytest.mark.parametrize(
        ("unfilled", "below"),
        [(3 * MIB, 3.0), (0, 0.0), (-5, 0.0), ("5", 0.0), (None, 0.0), (True, 0.0)],
    )
    def test_a_history_that_data_may_end_widens_the_range_down(
        self, unfilled: object, below: float
    ) -> None:
        told = [run(size, sizes=[9e6, 1e6 * size, 1e6 * size, 40, 7, 60]) for size in (2, 4)]
        plain = measured.load(document(*told, mode="meta")).estimate(8)
        told[1]["unfilled"] = unfilled
        found = measured.load(document(*told, mode="meta")).estimate(8)
        assert plain.memory is not None
        assert found.memory is not None
        assert found.memory.tensors_peak_mib == plain.memory.tensors_peak_mib
        assert found.memory.high_mib == plain.memory.high_mib
        assert plain.memory.low_mib - found.memory.low_mib == pytest.approx(below)
        assert any("L-BFGS" in note for note in found.notes) == bool(below)

    def test_what_another_program_reached_says_nothing_of_a_batch_size(self) -> None:
        """The run that was made at it does."""
        other = [0, 1, 2, 3, 4, ~4, 5, ~5, ~3, ~2]
        told = [run(2, reached="end", awaits=64, unsaved=True), run(9, reached="end", awaits=None)]
        told[0]["events"] = other
        told[0]["name"] = [5, 3, 0, 2, 4, 1]
        found = measured.load(document(*told, mode="meta"))
        assert found.recording is not None
        assert found.recording.straight is None
        for batch, asked in ((2, 64), (9, None)):
            estimate = found.estimate(batch)
            assert ("unreached" in estimate.flags) == (asked is not None)
            assert any("batches of 64" in one for one in estimate.notes) == (asked is not None)

    def test_neither_fits_nor_does_not_fit_what_only_an_evaluation_takes_beyond_the_card(
        self,
    ) -> None:
        told = [run(size, reached="end", awaits=64) for size in (2, 4)]
        made = measured.load(document(*told, mode="meta"))
        found = made.estimate(4, context_mib=0.0)
        assert found.memory is not None
        for room, word in ((found.memory.high_mib * 1.2, "fits"),
                           (found.memory.high_mib * 0.99, "unknown"),
                           (found.memory.tensors_peak_mib * 1.05, "will-not-fit")):  # fmt: skip
            card = Card("x", "", "gpu", room, threshold=1.0, context_mib=0.0)
            verdict = judge(found, card, None)
            assert verdict.verdict == word, (room, verdict)

    @pytest.mark.parametrize("backend", ["cpu", "gpu"])
    def test_the_range_reaches_up_to_what_may_be_saved(self, backend: Backend) -> None:
        """A CPU's copies lie where its tensors do."""
        told = [run(2, reached="end"), run(4, reached="end")]
        plain = measured.load(document(*told, mode="meta")).estimate(4, backend=backend).memory
        told[0]["unsaved"] = True
        found = measured.load(document(*told, mode="meta")).estimate(4, backend=backend)
        assert plain is not None
        assert found.memory is not None
        copies = plain.parameters_mib + plain.optimizer_mib if backend == "cpu" else 0.0
        assert found.memory.high_mib - plain.high_mib == pytest.approx(copies)
        assert (
            ("unreached" in found.flags)
            == (measurement_gaps.UNSAVED in found.notes)
            == bool(copies)
        )

    def test_batches_that_wait_may_be_fewer(self) -> None:
        """Where samples take longer than steps, none is ready."""
        made = measured.load(document(run(2), run(4), mode="meta"))
        for backend, waiting in (("cpu", 5), ("gpu", 2)):
            memory = made.estimate(4, backend=backend, context_mib=0.0).memory
            assert memory is not None
            lower = memory.total_mib - 0.1 * memory.reserved_mib - memory.low_mib
            assert lower * MIB == pytest.approx(waiting * 4 * 100)


class TestReplay:
    @pytest.mark.parametrize("batch", [1, 2, 7, 64])
    def test_the_cpu_has_five_batches_waiting_and_its_kernels_scratch(self, batch: int) -> None:
        found = measured.load(document(run(2), run(4))).estimate(batch, backend="cpu").memory
        assert found is not None
        beside = max(700, 60 + 40 * batch)
        assert found.tensors_peak_mib * MIB == pytest.approx(5000 + 640 * batch + beside)

    def test_a_device_has_two_batches_waiting_and_no_scratch(self) -> None:
        found = measured.load(document(run(2), run(4))).estimate(4, backend="gpu").memory
        assert found is not None
        assert found.tensors_peak_mib * MIB == pytest.approx(5000 + 4 * 340 + 60 + 160)

    def test_parts_sum_to_the_peak(self) -> None:
        found = measured.load(document(run(2), run(4))).estimate(64, backend="cpu").memory
        assert found is not None
        parts = (found.parameters_mib, found.gradients_mib, found.optimizer_mib,
                 found.activations_mib, found.inputs_mib, found.workspace_mib)  # fmt: skip
        assert sum(parts) == pytest.approx(found.tensors_peak_mib)
        assert found.parameters_mib * MIB == pytest.approx(5000)
        assert found.gradients_mib * MIB == pytest.approx(60 + 40 * 64)

    def test_the_peak_moves_with_the_batch(self) -> None:
        """A line through the two measured peaks would miss where the gradient overtakes."""
        one = measured.load(document(run(2), run(4)))
        peaks = [one.estimate(b, backend="cpu").memory for b in (2, 4, 100)]
        low, high, far = (m.tensors_peak_mib * MIB for m in peaks if m is not None)
        assert far > low + (high - low) / 2 * 98 + 1000

    def test_a_reader_that_is_told_to_holds_more_batches_ready(self) -> None:
        more = [{"samples": 1000, "batches": None, "queued": 5, "buffered": 3}]
        one = measured.load(document(run(2, readers=more), run(4, readers=more)))
        usual = measured.load(document(run(2), run(4)))
        for backend, batches in (("cpu", 4), ("gpu", 1)):
            found = one.estimate(8, backend=backend).memory
            before = usual.estimate(8, backend=backend).memory
            assert found is not None
            assert before is not None
            added = (found.tensors_peak_mib - before.tensors_peak_mib) * MIB
            assert added == pytest.approx(batches * 800)
        reserved, other = (each.reserved_at("cpu")(8) for each in (one, usual))
        assert reserved is not None
        assert other is not None
        assert (reserved - other) * MIB == pytest.approx(4 * 800)

    def test_lengths_that_only_data_gives_widen_the_range_downwards(self) -> None:
        def answer(**changes: Any) -> Any:
            return measured.load(document(run(2, **changes), run(4, **changes)))

        open_, plain = answer(least=0.4, flags=["bound"]), answer()
        found, usual = (one.estimate(8, backend="cpu") for one in (open_, plain))
        assert found.memory is not None
        assert usual.memory is not None
        assert found.memory.tensors_peak_mib == usual.memory.tensors_peak_mib
        assert found.memory.high_mib == usual.memory.high_mib
        lower = usual.memory.low_mib - 0.6 * usual.memory.reserved_mib
        assert found.memory.low_mib == pytest.approx(max(0.0, lower))
        assert any("by 60 % at most" in one for one in found.notes)
        for wrong in (-1, 3, "low", None):
            other = answer(least=wrong).estimate(8, backend="cpu").memory
            assert other is not None
            assert other.low_mib == usual.memory.low_mib

    def test_a_short_epoch_has_fewer_batches_waiting(self) -> None:
        short = [{"samples": 8, "batches": None}]
        one = measured.load(document(run(2, readers=short), run(4, readers=short)))
        found = one.estimate(8, backend="cpu").memory
        assert found is not None
        assert found.inputs_mib * MIB == pytest.approx(800)
        assert ready(Size(8.0, 0.0), 4, 5) == 1

    def test_an_epoch_more_in_one_of_two_runs_says_nothing_of_its_samples(self) -> None:
        """A larger batch ends its epochs earlier; their readers hold no more batches ready."""
        short = [{"samples": 8, "batches": None}]
        one = measured.load(document(run(2, readers=[]), run(4, readers=short)))
        found = one.estimate(8, backend="cpu").memory
        assert found is not None
        assert found.inputs_mib * MIB == pytest.approx(800)

    def test_data_as_long_as_so_many_batches_keep_the_queue_full(self) -> None:
        def long(batch: int) -> list[dict[str, int | None]]:
            return [{"samples": 30 * batch, "batches": 30}]

        one = measured.load(document(run(2, readers=long(2)), run(4, readers=long(4))))
        found = one.estimate(64, backend="cpu").memory
        full = measured.load(document(run(2), run(4))).estimate(64, backend="cpu").memory
        assert found is not None
        assert full is not None
        assert found.inputs_mib == full.inputs_mib

    @pytest.mark.parametrize(("samples", "batches", "told"), [(6, 1, True), (9, 2, False)])
    def test_data_that_is_in_one_batch_holds_no_more_at_larger_ones(
        self, samples: int, batches: int, told: bool
    ) -> None:
        """Where the batch size that was put in changes nothing though there is more data, it was
        not put in."""
        readers = [{"samples": samples, "batches": batches}]
        same = {key: run(6)[key] for key in ("sizes", "shapes")}
        one = measured.load(
            document(run(8, readers=readers, **same), run(16, readers=readers, **same))
        )
        found = [one.estimate(size, backend="cpu").memory for size in (8, 16, 64)]
        assert [memory is not None for memory in found] == [told] * 3
        assert len({memory and memory.tensors_peak_mib for memory in found}) == 1

    def test_a_loader_with_a_batch_size_of_its_own_has_no_more_waiting_at_smaller_ones(
        self,
    ) -> None:
        """Its epoch is one batch at every batch size of training."""
        whole = [{"samples": 256, "batches": 1}]
        one = measured.load(document(run(2, readers=whole), run(4, readers=whole)))
        found = one.estimate(8, backend="cpu").memory
        many = [{"samples": 256, "batches": 256 // 2}], [{"samples": 256, "batches": 256 // 4}]
        other = measured.load(document(run(2, readers=many[0]), run(4, readers=many[1])))
        full = other.estimate(8, backend="cpu").memory
        assert found is not None
        assert full is not None
        assert found.inputs_mib * MIB == pytest.approx(800)
        assert full.inputs_mib > found.inputs_mib

    def test_the_range_is_the_traced_tiers(self) -> None:
        found = measured.load(document(run(2), run(4))).estimate(64, context_mib=100.0).memory
        assert found is not None
        assert found.high_mib == pytest.approx(100 + 1.10 * found.reserved_mib)


class TestSizes:
    @pytest.mark.parametrize(
        ("what", "true"),
        [
            ("fixed", lambda b: 4096),
            ("line", lambda b: 12 * b + 5),
            ("one less", lambda b: 400 * (b - 1)),
            ("pairs of samples", lambda b: 4 * b * b),
            ("pairs of two views", lambda b: 4 * (2 * b) * (2 * b - 1)),
        ],
    )
    def test_two_sizes_tell_the_rest(self, what: str, true: Any) -> None:
        size = grown(2, true(2), 4, true(4))
        assert [size.at(b) for b in (8, 33, 100)] == [true(b) for b in (8, 33, 100)], what

    def test_what_shrinks_is_held_at_its_most(self) -> None:
        assert grown(2, 500, 4, 250).at(64) == 500


class TestAlignment:
    def test_a_kernel_more_in_one_run_is_no_obstacle(self) -> None:
        small = run(2)
        small["events"] = [0, 1, 2, 6, ~6, 3, 4, ~4, 5, ~3, ~5, ~2]
        small["sizes"] = [*small["sizes"], 8]
        small["name"], small["kind"] = [*small["name"], 4], [*small["kind"], 0]
        small["cycles"] = [9]
        # Blocks are numbered by birth in a real recording; here only the order of births counts.
        one = measured.load(document(small, run(4))).estimate(64, backend="cpu").memory
        plain = measured.load(document(run(2), run(4))).estimate(64, backend="cpu").memory
        assert one == plain

    def test_another_program_is_refused(self) -> None:
        other = run(4)
        other["name"] = [5, 3, 0, 4, 4, 4]
        with pytest.raises(Unusable, match="depend on the data"):
            combine(read_run(run(2)), read_run(other))

    def test_many_kernels_of_one_name_are_not_all_compared(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A loop over samples has twice as many turns with twice the batch."""
        compared: list[int] = []

        class Noted(SequenceMatcher[str]):
            def __init__(self, _: Any, one: list[str], other: list[str], **more: Any) -> None:
                compared.append(len(one) * len(other))
                super().__init__(None, one, other, **more)

        monkeypatch.setattr(probe_trace, "SequenceMatcher", Noted)

        def looped(batch: int) -> dict[str, Any]:
            made = run(batch)
            turns, last = 2000 * batch, len(made["sizes"])
            born = range(last, last + turns)
            made["events"] = [*(one for place in born for one in (place, ~place)), *made["events"]]
            made["sizes"] = [*made["sizes"], *[9] * turns]
            # Of two names by turns, after the first: no run is the head or tail of the other.
            made["name"] = [*made["name"], 4 if batch == 2 else 1, *[1, 4] * (turns // 2)][:-1]
            made["kind"], made["cycles"] = [*made["kind"], *[0] * turns], [2 * turns + 7]
            return made

        measured.load(document(looped(2), looped(3))).estimate(3, backend="cpu")
        assert sum(compared) <= probe_trace.MOST_COMPARED

    def test_changing_shapes_are_flagged_and_unknown(self) -> None:
        large = run(4, shapes=[[[[4, 25]], [[4, 31]]]])
        found = measured.load(document(run(2), large)).estimate(64, backend="cpu")
        assert found.memory is None
        assert found.tier == "unknown"
        assert "variable-shape" in found.flags
        assert "[4, 31]" in found.unknowns[0].reason

    def test_shapes_that_differ_between_the_runs_are_unknown(self) -> None:
        large = run(4, shapes=[[[[4, 40]]]])
        assert measured.load(document(run(2), large)).recording is None

    def test_an_epochs_last_short_batch_is_none(self) -> None:
        large = run(4, shapes=[[[[4, 25]], [[1, 25]]]])
        assert measured.load(document(run(2), large)).recording is not None

    def test_a_batch_size_without_effect_is_unknown(self) -> None:
        large = run(2)
        large["batch"] = 4
        found = measured.load(document(run(2), large)).estimate(64)
        assert found.memory is None
        assert "changes nothing" in found.unknowns[0].reason


class TestAdvice:
    def test_the_largest_batch_is_exact(self) -> None:
        one = measured.load(document(run(2), run(4)))
        card = Card("card", "host", "cpu", (5000 + 60 + 680 * 100) / MIB, exact=True)
        estimate = one.estimate(8, backend="cpu", context_mib=0.0)
        assert largest_batch(one, estimate, card) == 100

    def test_reserve_never_falls_with_the_batch(self) -> None:
        reserved = measured.load(document(run(2), run(4))).reserved_at("gpu")
        found = [reserved(b) or 0.0 for b in range(1, 300)]
        assert found == sorted(found)

    def test_without_a_batch_size_it_asks_for_one(self) -> None:
        found = measured.load(document(run(2), run(4))).estimate()
        assert found.memory is None
        assert "name one" in found.unknowns[0].reason

    def test_a_batch_below_one_is_refused(self) -> None:
        for batch in (0, -3, 10**320):
            with pytest.raises(UsageError):
                measured.load(document(run(2), run(4))).estimate(batch)

    def test_the_largest_figures_that_count_are_computed_with(self) -> None:
        sizes = {"sizes": [2**44] * 6, "widest_conv": 2**44}
        huge = document(run(2, **sizes), run(4, **sizes, own_batch=10**320))
        one = measured.load(huge)
        assert one.own_batch is None
        assert one.estimate(2**31).memory is None
        bent = document(run(2), run(4, sizes=[2**44] * 6, widest_conv=2**44))
        found = measured.load(bent).estimate(2**31).memory
        assert found is not None
        assert isfinite(found.high_mib)

    def test_mixed_precision_is_called_an_upper_bound(self) -> None:
        one = measured.load(document(run(2, flags=["amp"]), run(4, flags=["amp"])))
        assert any("upper bound" in note for note in one.estimate(8).notes)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda one: one.pop("runs"),
        lambda one: one["runs"].pop(),
        lambda one: one.update(mode="guessed"),
        lambda one: one["runs"][0].update(events=[99]),
        lambda one: one["runs"][0].update(sizes=[-1] * 6),
        lambda one: one["runs"][0].update(kind=[0]),
        lambda one: one["runs"][0].update(kind=[77] * 6),
        lambda one: one["runs"][0].update(names=None),
        lambda one: one["runs"][0].update(shapes=7),
        lambda one: one["runs"].__setitem__(0, "recording"),
        lambda one: one.update(mode="device"),
        lambda one: one["runs"][0].update(sizes=[10**320] * 6),
        lambda one: one["runs"][0].update(sizes=[float("inf")] * 6),
        lambda one: one["runs"][0].update(widest_conv=10**320),
        lambda one: one["runs"][0].update(batch=10**320),
        lambda one: one["runs"][0].update(shapes=[[[[10**5000]]]]),
        lambda one: one["runs"][0].update(readers=[{"samples": 10**320}]),
        lambda one: one["runs"][0].update(readers=[{"samples": "many"}]),
        lambda one: one["runs"][0].update(readers=[{"samples": 9, "queued": 10**9}]),
        lambda one: one["runs"][0].update(readers=[{"samples": 9, "buffered": -1}]),
        lambda one: one["runs"][0].update(batch=one["runs"][1]["batch"]),
        lambda one: one["runs"][0].update(batch=0, fixed=True),
    ],
)
def test_a_spoilt_document_is_a_clear_error(spoil: Any) -> None:
    one = copy.deepcopy(document(run(2), run(4)))
    spoil(one)
    with pytest.raises(UsageError, match="measurement"):
        measured.load(one)


def test_a_fault_that_running_did_not_show_is_a_note_of_what_was_measured(
    scan: Callable[..., Analysis], training: Callable[..., str]
) -> None:
    net = """
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(65, 4)

        def forward(self, x):
            return self.fc(x)
    """
    wrong = scan(training(net))
    assert wrong.estimate().errors
    found = measured.load(document(run(2), run(4)), analysis=wrong).estimate(4)
    assert found.memory is not None
    assert not found.errors
    assert any("Reading finds a fault at" in note for note in found.notes)

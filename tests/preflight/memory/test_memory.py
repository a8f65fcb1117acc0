"""Liveness, the affine fit and the allocator, against figures worked out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.preflight.memory.allocator import reserved
from gpuconsole.preflight.memory.liveness import envelope, peak
from gpuconsole.preflight.memory.trace import (
    KINDS,
    AffineTrace,
    Kind,
    Ledger,
    Place,
    Storage,
    Trace,
    affine,
)

ACT: Kind = "activations"
HERE = Place("train.py", 1, "", "forward")


def trace(events: list[int], sizes: list[int]) -> Trace:
    return Trace(events, sizes, [ACT] * len(sizes))


def test_peak_is_the_worst_moment_not_the_sum() -> None:
    found = peak(trace([0, 1, ~0, 2], [100, 50, 80]))
    assert found.total == 150
    assert found.event == 1


def test_parts_add_up_at_the_peak() -> None:
    kinds: list[Kind] = ["parameters", "activations", "gradients"]
    found = peak(Trace([0, 1, 2, ~1], [10, 20, 30], kinds))
    assert found.total == sum(found.parts.values()) == 60
    assert found.parts["gradients"] == 30


def test_storage_frees_itself_with_its_last_reference() -> None:
    ledger = Ledger()
    first = Storage(ledger, 8, ACT, HERE)
    second = first
    del first
    assert ledger.events == [0]
    del second
    assert ledger.events == [0, ~0]


def test_affine_needs_every_block_to_be_affine() -> None:
    line = affine([(2, trace([0], [20])), (3, trace([0], [25]))])
    assert line is not None
    assert list(line.at(10).sizes) == [60]
    assert affine([(2, trace([0], [4])), (3, trace([0], [9]))]) is None  # a square
    assert affine([(2, trace([0], [4])), (3, trace([0, ~0], [6]))]) is None


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=12),
    st.data(),
)
def test_envelope_equals_replay_at_every_batch(
    blocks: list[tuple[int, int]], data: st.DataObject
) -> None:
    events: list[int] = []
    alive: list[int] = []
    for index in range(len(blocks)):
        events.append(index)
        alive.append(index)
        if data.draw(st.booleans()):
            events.append(~alive.pop(data.draw(st.integers(0, len(alive) - 1))))
    line = AffineTrace(events, [a for a, _ in blocks], [b for _, b in blocks], [ACT] * len(blocks))
    hull = envelope(line)
    for batch in (1, 2, 7, 100):
        assert hull.at(batch) == peak(line.at(batch)).total


def test_allocator_rounds_and_reuses() -> None:
    assert reserved(trace([0], [1])) == 256
    # The freed 1024 takes the two that follow, from its tail.
    assert reserved(trace([0, ~0, 1, 2], [1024, 512, 512])) == 1024
    # A block too small for the next request costs a new chunk.
    assert reserved(trace([0, ~0, 1], [512, 768])) == 512 + 768


def test_allocator_merges_only_inside_a_chunk() -> None:
    split = [0, ~0, 1, 2, ~1, ~2, 3]
    assert reserved(trace(split, [1024, 512, 512, 1024])) == 1024
    two_chunks = [0, 1, ~0, ~1, 2]
    assert reserved(trace(two_chunks, [512, 512, 1024])) == 2048


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30))
def test_reserve_is_never_below_the_aligned_peak(sizes: list[int]) -> None:
    events: list[int] = []
    for index in range(len(sizes)):
        events.append(index)
        if index % 3 == 2:
            events.append(~(index - 1))
    aligned = trace(events, [-(-size // 256) * 256 for size in sizes])
    assert reserved(trace(events, sizes)) >= peak(aligned).total


STEPS = st.lists(st.tuples(st.sampled_from(["birth", "death", "change", "look"]),
                           st.integers(0, 100), st.sampled_from(KINDS)), max_size=60)  # fmt: skip


@given(STEPS)
def test_what_is_alive_is_known_at_any_moment(steps: list[tuple[str, int, Kind]]) -> None:
    ledger = Ledger()
    blocks: dict[int, tuple[Storage, Kind]] = {}
    for what, number, kind in [*steps, ("look", 0, ACT)]:
        chosen = sorted(blocks)[number % len(blocks)] if blocks else None
        if what == "birth":
            block = Storage(ledger, number, kind, HERE)
            blocks[block.index] = block, kind
            del block
        elif what == "death" and chosen is not None:
            del blocks[chosen]
        elif what == "change" and chosen is not None:
            ledger.change_kind(chosen, kind)
            blocks[chosen] = blocks[chosen][0], kind
        elif what == "look":
            for each in KINDS:
                alive = sum(block.nbytes for block, its in blocks.values() if its == each)
                assert ledger.live(each) == alive

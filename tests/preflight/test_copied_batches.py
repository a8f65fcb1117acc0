"""Batches of copies of one sample whose tensors have no data: the record is as if each was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpuconsole.preflight.meta import allocation
from gpuconsole.preflight.meta.ledger import Ledger
from gpuconsole.preflight.meta.script.copied_batches import CopiedTensors
from gpuconsole.preflight.meta.state import STATE
from gpuconsole.preflight.meta.tensor.tensor import Tensor
from gpuconsole.preflight.probe.training import collation

SIZE, BATCHES = 16, 3
KIND: Any = "paddle.float32"


@pytest.fixture(autouse=True)
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setattr(STATE, "ledger", Ledger())
    monkeypatch.setattr(STATE, "tensor", Tensor)
    return STATE.ledger


def sample() -> object:
    """Make a sample: a tensor, by way of a larger one."""
    whole = allocation.new((5, 7), KIND, "decode")
    return [allocation.new((5, 3), KIND, "crop"), whole.m_shape]


def stacked(samples: list[Any]) -> list[object]:
    """Put samples together, by way of another tensor that is gone then."""
    shape = samples[0][0].m_shape
    scratch = allocation.new((len(samples), 9), KIND, "scratch")
    return [allocation.new((len(samples), *shape), KIND, "stack"), scratch.m_shape]


def batches(templates: collation.Templates, copies: Callable[[int], list[object]]) -> list[Any]:
    """Return what was done, and the most that was held, after each of several batches."""
    record, ledger = [], STATE.ledger
    for number in range(collation.SETTLED + BATCHES):
        # From batch to batch more is held beside it.
        beside = allocation.new((100 * (number + 1),), KIND, "beside")
        reuses = templates.reuses("key")
        samples = [sample()] * SIZE if reuses else copies(SIZE)
        batch = templates.batch("key") if reuses else stacked(samples)
        del samples
        templates.given(batch)
        assert reuses == (number >= collation.SETTLED and templates._tensors is not None)
        assert isinstance(batch, list)
        assert batch[0].m_shape == (SIZE, 5, 3)
        record.append((len(ledger.events) + ledger.spared, ledger.live, ledger.peak))
        del batch, beside
    return record


def test_batches_of_tensors_are_made_in_the_form_of_those_before(ledger: Ledger) -> None:
    templates = collation.Templates(CopiedTensors())
    alike = batches(templates, lambda size: [sample() for _ in range(size)])
    came = len(ledger.events)
    STATE.ledger = Ledger()
    each = batches(collation.Templates(), lambda size: [sample() for _ in range(size)])
    assert alike == each
    assert came < len(STATE.ledger.events)


def test_a_copy_that_is_only_read_stands_for_all(ledger: Ledger) -> None:
    templates = collation.Templates(CopiedTensors())
    alike = batches(templates, lambda size: templates.copies(sample, size))
    came = len(ledger.events)
    STATE.ledger = Ledger()
    assert alike == batches(collation.Templates(), lambda size: [sample() for _ in range(size)])
    assert came < len(STATE.ledger.events) / 2


@pytest.mark.parametrize("change", [
    {"stop_gradient": False}, {"m_strides": (1, 5)}, {"m_rows": True}, {"m_points": 4},
])  # fmt: skip
def test_a_tensor_with_anything_of_its_own_is_made_each_time(change: dict[str, object]) -> None:
    tensors = CopiedTensors()
    tensor = allocation.new((5, 3), KIND, "stack")
    assert tensors.spec(tensor) is not None
    tensors.begin()
    other = allocation.new((5, 3), KIND, "stack")
    for name, value in change.items():
        setattr(other, name, value)
    assert tensors.spec(other) is None
    assert tensors.spec(tensor) is None
    assert tensors.spec("stack") is None


def test_two_tensors_that_share_memory_are_made_each_time() -> None:
    tensors = CopiedTensors()
    tensor = allocation.new((5, 3), KIND, "stack")
    assert tensors.spec(tensor) is not None
    assert tensors.spec(tensor.detach()) is None


@pytest.mark.parametrize("tensors", [None, CopiedTensors()])
def test_no_copy_is_made_where_none_is_wanted(tensors: CopiedTensors | None) -> None:
    """Copying a tensor asks for its data."""
    templates = collation.Templates(tensors)
    assert templates.copies(lambda: pytest.fail("a copy was made"), 0) == []

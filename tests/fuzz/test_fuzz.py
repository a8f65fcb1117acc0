"""What others wrote is read or refused, never more; `python -m benchmarks.fuzz` reads far more."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.fuzz.__main__ import Tally, _run
from benchmarks.fuzz.targets import TARGETS

INPUTS = {"scripts": 6, "engine": 15, "rows": 25}
"""How many are read here; of the others there are 60."""


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_random_input_is_read_or_refused(name: str, tmp_path: Path) -> None:
    reader = TARGETS[name](tmp_path)
    for number in range(INPUTS.get(name, 60)):
        # An error of another kind than a refusal comes out here.
        reader.read(reader.make(random.Random(f"{name} {number}")))


def run(fault: str) -> Tally:
    return _run(f"tests.fuzz.faulty:{fault}", 7, 5, 600.0)


def test_a_reader_without_fault_is_good() -> None:
    tally = run("Reader")
    assert (tally.inputs, tally.broken, tally.good) == (5, [], True)
    assert 0 < tally.refused < 5


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("Raises", "KeyError"),
        ("Freezes", "froze"),
        ("Grows", "needed"),
        ("Dies", "ended the process"),
    ],
)
def test_each_kind_of_fault_is_found_and_the_rest_is_read(fault: str, words: str) -> None:
    tally = run(fault)
    assert tally.inputs >= 5
    assert tally.broken
    assert tally.broken[0].startswith("input 3: ")
    assert words in tally.broken[0]
    assert not tally.good

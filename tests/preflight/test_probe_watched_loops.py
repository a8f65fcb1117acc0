"""Loops of a project's own code that end once what they train was seen long enough."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpuconsole.preflight.probe.training import watched_loops


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The module of the probe, watching a folder; Python's own import is given back after it."""
    module = watched_loops
    loader: Any = importlib.machinery.SourceFileLoader
    own = loader.get_code
    monkeypatch.setattr(module, "_ROOT", [])
    monkeypatch.setattr(module, "WATCH", module.Watch())
    module.install(tmp_path)
    yield module
    loader.get_code = own


def _trained(loops: ModuleType, text: str) -> dict[str, Any]:
    """Run a script that says `step(n)` where the n-th optimizer steps, and `enough()` where it was
    seen long enough."""
    watch = loops.WATCH

    def step(number: int) -> None:
        watch.steps += 1
        watch.latest = number

    def made() -> int:
        watch.made += 1
        return int(watch.made)

    def enough(is_so: bool = True) -> None:
        watch.leaving = is_so

    def back() -> None:
        watch.backwards += 1

    def passing(is_so: bool) -> None:
        watch.passing = is_so

    now = [0, 0, 0]
    watch.now = lambda: loops.Now(*now, readers=3)
    watch.on_repeated = lambda readers: names["seen"].append(readers)

    def runs(work: int, peak: int = 0, held: int = 0) -> None:
        now[0] += work
        now[1], now[2] = max(now[1], peak), held

    def gathers() -> None:
        back()
        watch.gathered += 1

    names: dict[str, Any] = {"step": step, "made": made, "enough": enough, "seen": []}
    names |= {"back": back, "passing": passing, "runs": runs, "gathers": gathers}
    exec(loops.compiled(text, "train.py"), names)
    return names


EPOCHS = """
optimizer = made()
for epoch in range(100):
    for batch in range(100):
        back()
        step(optimizer)
        seen.append((epoch, batch))
        if (epoch, batch) == (1, 2):
            enough()
else:
    seen.append("whole")
"""


def test_loops_that_train_end_with_their_next_turn(loops: ModuleType) -> None:
    seen = _trained(loops, EPOCHS)["seen"]
    last = [(1, 2), (1, 99), (99, 0), (99, 99)]
    assert seen[-5:] == [*last, "whole"], "ranges have their last turn: scripts evaluate in it"
    assert loops.WATCH.ended == 4, "the first epoch ended by itself"


EVERY = """
class Options:
    every = 20
optimizer = made()
def train():
    for epoch in range(1, 100):
        for batch in range(10):
            step(optimizer)
        seen.append(epoch)
        if epoch == 3:
            enough()
        if (epoch + 1) % Options.every == 0:
            print(end="")
        elif epoch % 2 == 0 or epoch > 5000:
            print(end="")
        if epoch > 90 or missing:
            print(end="")
        if epoch % (seen.count(0) + 50) == 0:
            print(end="")
train()
"""


def test_a_loop_that_is_left_has_a_turn_for_each_test_of_its_number(loops: ModuleType) -> None:
    """Tests that held before need none; what a test calls, or lacks, is left alone."""
    assert _trained(loops, EVERY.replace("missing", "epoch == 0"))["seen"] == [1, 2, 3, 19, 91, 99]


def test_a_loop_within_no_other_has_its_last_turns_though_epochs_go_on(loops: ModuleType) -> None:
    text = """
optimizer = made()
for rows in range(4):
    if rows:  # it trains nothing
        print(end="")
        break
for batch in range(100):
    enough()
    passing(True)
    step(optimizer)
    seen.append(batch)
    if batch % 50 == 49:
        print(end="")
"""
    assert _trained(loops, text)["seen"] == [0, 49, 99]


@pytest.mark.parametrize("walk", ["iter(range(100))", "enumerate(range(100))", "range(3)"])
def test_what_has_no_last_number_to_come_ends_at_once(loops: ModuleType, walk: str) -> None:
    text = f"""
optimizer = made()
for epoch in {walk}:
    step(optimizer)
    seen.append(epoch)
    if len(seen) == 3:
        enough()
"""
    assert len(_trained(loops, text)["seen"]) == 3


def test_a_bar_that_shows_progress_keeps_the_range_that_it_counts(loops: ModuleType) -> None:
    text = """
class Bar:
    iterable = range(100)
    def __iter__(self):
        return iter(self.iterable)
optimizer = made()
for epoch in Bar():
    step(optimizer)
    seen.append(epoch)
    enough()
"""
    assert _trained(loops, text)["seen"] == [0, 99]


def test_a_while_loop_ends_as_by_its_test(loops: ModuleType) -> None:
    text = """
optimizer, count = made(), 0
while count < 100:  # epochs
    step(optimizer)
    count += 1
    if count == 3:
        enough()
else:
    seen.append(count)
"""
    assert _trained(loops, text)["seen"] == [3]


def test_a_loop_that_makes_an_optimizer_in_each_turn_goes_on(loops: ModuleType) -> None:
    """Each turn trains something else."""
    text = """
for width in (1, 2, 3):
    optimizer = made()
    enough(False)
    for epoch in range(100):
        step(optimizer)
        seen.append((width, epoch))
        enough()
"""
    seen = [(width, epoch) for width in (1, 2, 3) for epoch in (0, 99)]
    assert _trained(loops, text)["seen"] == seen


def test_a_loop_that_trains_nothing_goes_on_to_its_end(loops: ModuleType) -> None:
    text = """
optimizer = made()
for epoch in range(100):
    step(optimizer)
    enough()
for picture in range(5):
    seen.append(str(picture))
"""
    assert _trained(loops, text)["seen"] == ["0", "1", "2", "3", "4"]


def test_until_then_loops_do_what_they_do(loops: ModuleType) -> None:
    text = """
def rows():
    for one in range(4):  # of an epoch
        print(end="")
        yield one
for epoch, letter in zip(rows(), "abcd"):
    if epoch == 1:
        continue
    seen.append((epoch, letter))
    if epoch == 2:
        break
else:
    seen.append("never")
"""
    assert _trained(loops, text)["seen"] == [(0, "a"), (2, "c")]


def test_an_error_has_the_line_of_the_script(loops: ModuleType) -> None:
    text = "\n\nfor epoch in range(3):\n    print(end='')\n    None.step()\n"
    with pytest.raises(AttributeError) as caught:
        _trained(loops, text)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno) == ("train.py", 5)


def test_what_a_loop_walks_over_is_let_go_of_with_it(loops: ModuleType) -> None:
    text = """
import weakref
class Reader:
    def __iter__(self): return self
    def __next__(self): raise StopIteration
reader = Reader()
gone = weakref.ref(reader)
for batch in iter(reader):  # an epoch
    print()
del reader
seen.append(gone() is None)
"""
    assert _trained(loops, text)["seen"] == [True]


def test_modules_of_the_project_are_watched_and_others_are_not(
    loops: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def walk():\n    for epoch in range(2):\n        print(end='')\n"
    (tmp_path / "trained_here.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = importlib.import_module("trained_here").walk.__code__.co_names
    assert loops.FOR in names
    sys.modules.pop("trained_here")
    loops._ROOT[:] = [str(tmp_path / "elsewhere")]
    importlib.invalidate_caches()
    names = importlib.import_module("trained_here").walk.__code__.co_names
    assert loops.FOR not in names
    sys.modules.pop("trained_here")


def test_annotations_of_a_script_are_what_they_are_in_python(loops: ModuleType) -> None:
    """The probe's own `from __future__` is none of the script's."""
    text = "def train(epoch: int) -> None:\n    pass\n"
    assert _trained(loops, text)["train"].__annotations__ == {"epoch": int, "return": None}


PASSED = """
optimizer = made()
def train():
    {loop}
        back()
        for one in (optimizer,):  # its steps end no epoch
            step(one)
        seen.append("step")
        enough()
for epoch in range(100):
    passing(epoch < 4)
    train()
    seen.append(epoch)
seen.append("after")
"""


@pytest.mark.parametrize("loop", ["for batch in range(50):", "while len(seen) < 99:"])
def test_epochs_are_passed_with_a_step_each(loops: ModuleType, loop: str) -> None:
    seen = _trained(loops, PASSED.format(loop=loop))["seen"]
    passed = [one for epoch in range(4) for one in ("step", epoch)]
    assert seen[: len(passed)] == passed
    assert loops.WATCH.turns == 4
    steps = ["step"] * (2 if "for" in loop else 1)
    assert seen[len(passed) :] == [*steps, 4, *steps, 99, "after"], "then both have a last turn"


def test_a_reader_that_ends_by_itself_ends_an_epoch_too(loops: ModuleType) -> None:
    """A reader is cut short while its epoch is passed."""
    loop = "for batch in range(1):"
    seen = _trained(loops, PASSED.format(loop=loop))["seen"]
    epochs = (0, 1, 2, 3, 4, 99)
    assert seen == [*(one for epoch in epochs for one in ("step", epoch)), "after"]


def test_a_file_that_may_evaluate_is_noted(loops: ModuleType) -> None:
    _trained(loops, "for epoch in range(3): print(end='')\n")
    assert not loops.WATCH.evaluates
    _trained(loops, "def test(net):\n    net.eval()\nfor epoch in range(3): print(end='')\n")
    assert loops.WATCH.evaluates


def test_a_file_that_may_save_is_noted(loops: ModuleType) -> None:
    _trained(loops, "def save(epoch):\n    numpy.save(epoch)\n")
    assert not loops.WATCH.saves
    _trained(loops, "def save(epoch):\n    paddle.save(net.state_dict(), 'net')\n")
    assert loops.WATCH.saves


EVALUATED = """
optimizer = made()
{before}
for epoch in range(1):
    for sample in range(1000):
        {turn}
    seen.append(sample + 1)
"""


def _turns(loops: ModuleType, turn: str, before: str = "step(optimizer)") -> list[Any]:
    seen: list[Any] = _trained(loops, EVALUATED.format(turn=turn, before=before))["seen"]
    return seen


def test_a_loop_that_evaluates_ends_once_it_did_much_in_turns_that_are_alike(
    loops: ModuleType,
) -> None:
    turns = loops.REPEATED // 100
    assert _turns(loops, "runs(100, 7, 5); back()") == [3, turns]


def test_a_loop_of_few_turns_goes_on_until_some_were_alike(loops: ModuleType) -> None:
    turn = f"runs({loops.REPEATED}, 7 if sample else 6, 5)"
    assert _turns(loops, turn) == [3, 2 + loops.ALIKE]


@pytest.mark.parametrize(
    ("turn", "before"),
    [
        ("runs(100)", "pass"),
        ("runs(100); gathers()", "step(optimizer)"),
        ("runs(100); step(optimizer)", "step(optimizer)"),
        ("runs(100, held=sample)", "step(optimizer)"),
        ("runs(100, peak=sample)", "step(optimizer)"),
        ("runs(10)", "step(optimizer)"),
    ],
    ids=["before anything is trained", "gradients of many samples are gathered", "trains",
         "holds more with each turn", "takes more with each turn", "does little"],
)  # fmt: skip
def test_any_other_loop_goes_on_to_its_end(loops: ModuleType, turn: str, before: str) -> None:
    assert _turns(loops, turn, before) == [1000]

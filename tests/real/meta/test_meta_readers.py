"""Batches that a loader's reader holds ready, held against Paddle's own allocator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight.tiers import measured, probe_request
from tests.real.meta.probe_answers import really_afresh, said

pytestmark = pytest.mark.real
SCRIPT = """
import time

import numpy as np
import paddle


class Rows(paddle.io.Dataset):
    def __getitem__(self, index):
        return np.zeros((16384,), "float32"), np.zeros((1,), "int64")

    def __len__(self):
        return {rows}


net = paddle.nn.Linear(16384, 4)
sgd = paddle.optimizer.SGD(0.1, parameters=net.parameters())
loader = paddle.io.DataLoader(Rows(), batch_size=10{how})


def learn(x, y):
    {wait}
    loss = paddle.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    sgd.step()
    sgd.clear_grad()


{loop}
"""
BATCH = 10 * (16384 * 4 + 8)
"""Bytes."""
PLAIN = "for x, y in loader:\n    learn(x, y)\n"
LEFT = "for _ in range(4):\n    x, y = next(iter(loader))\n    learn(x, y)\n"
SETTLED = """held, since = None, time.monotonic()
    while time.monotonic() - since < 1.0:
        # Its readers have fetched what they hold ready once nothing has changed for a second.
        now = paddle.base.core.host_memory_stat_current_value("Allocated", 0)
        held, since = now, since if now == held else time.monotonic()
        time.sleep(0.01)"""
TOLD = """
from paddle.base import core
print(core.host_memory_stat_peak_value("Allocated", 0))
"""


def _script(how: str, loop: str, rows: int, wait: str) -> str:
    return SCRIPT.format(how=f", {how}" if how else "", loop=loop, rows=rows, wait=wait)


def _truth(text: str) -> int:
    # Which of its threads is first may depend on how a process starts.
    return int(really_afresh(text + TOLD).splitlines()[-1])


def _told(tmp_path: Path, text: str) -> measured.Measured:
    script = tmp_path / "train.py"
    script.write_text(text)
    question: Any = probe_request.build(None, script, mode="meta", backend="cpu")
    return measured.load(said(question)["document"])


def _mib(one: measured.Measured) -> float:
    memory = one.estimate(10, backend="cpu").memory
    assert memory is not None
    return memory.tensors_peak_mib


@pytest.mark.parametrize(
    ("how", "loop", "rows"),
    [
        ("prefetch_factor=5, reader_buffer_size=4", PLAIN, 100),
        ("reader_buffer_size=1, use_buffer_reader=False", PLAIN, 80),
        ("", LEFT, 80),
        ("", f"ahead = iter(loader)\n{PLAIN}", 80),
        ("", f"iter(loader)\n{PLAIN}", 80),
    ],
)
def test_what_readers_hold_ready_is_told(tmp_path: Path, how: str, loop: str, rows: int) -> None:
    truth = _truth(_script(how, loop, rows, SETTLED))
    told = _mib(_told(tmp_path, _script(how, loop, rows, "pass"))) * MIB
    # The last batch may still be held while a new reader fetches.
    assert truth - 1024 <= told <= truth + 1.01 * BATCH


def test_a_reader_that_has_fetched_all_lets_go_of_the_rest(tmp_path: Path) -> None:
    text = LEFT.replace("(4)", "(3)")
    truth = _truth(_script("", text, 20, SETTLED))
    told = _mib(_told(tmp_path, _script("", text, 20, "pass"))) * MIB
    # On a busy machine a reader that was left ends when the next has begun.
    assert truth - 2.01 * BATCH <= told <= truth + 1.01 * BATCH


def test_epochs_that_are_left_before_their_end_are_said_to_keep_batches(tmp_path: Path) -> None:
    left = _told(tmp_path, _script("", LEFT, 80, "pass"))
    assert "grows" in left.flags
    assert any("left before their end" in one and ", 5 with" in one for one in left.notes)
    whole = _told(tmp_path, _script("", PLAIN, 80, "pass"))
    assert "grows" not in whole.flags


KEPT = """for x, y in loader:
    learn(x, y)
outputs = []
for x, y in loader:
    with paddle.no_grad():
        net(x)
        {wait}
        outputs.append(x * 2)
{after}
"""


@pytest.mark.parametrize("after", ["", "paddle.concat(outputs)"])
def test_an_evaluation_that_keeps_holds_less_ready_the_nearer_it_is_to_its_end(
    tmp_path: Path, after: str
) -> None:
    """What it keeps takes the place of what waited, and a short last batch adds less."""
    settled = KEPT.format(wait=SETTLED.replace("\n", "\n    "), after=after)
    truth = _truth(_script("", settled, 93, "pass"))
    text = _script("", KEPT.format(wait="pass", after=after), 93, "pass")
    told = _mib(_told(tmp_path, text)) * MIB
    # One that waits counts as a whole one.
    assert truth - 1024 <= told <= truth + 0.71 * BATCH


BARE = SCRIPT.replace(', np.zeros((1,), "int64")', "").replace(
    "    loss = paddle.nn.functional.cross_entropy(net(x), y)\n", "    loss = net(x).mean()\n"
)
UNCOLLECTED = """import gc

gc.disable()
for _ in range(2):
    for x in loader:
        learn(x, None)
"""


def test_used_batches_of_bare_arrays_wait_for_the_collector(tmp_path: Path) -> None:
    """Until it runs, a real run holds those of all epochs: two are counted, and more are allowed
    for."""
    text = BARE.format(how="", loop=UNCOLLECTED, rows=60, wait="pass")
    truth = _truth(text)
    told = _told(tmp_path, text)
    batch = 10 * 16384 * 4
    assert truth > 10 * batch
    assert abs(_mib(told) * MIB - truth) <= 1.01 * batch
    memory = told.estimate(10, backend="cpu").memory
    assert memory is not None
    assert memory.low_mib * MIB < truth - 8 * batch
    assert memory.high_mib * MIB > truth


EVALUATED = """other = paddle.io.DataLoader(Rows(), batch_size=40)
{before}
with paddle.no_grad():
    for x, y in other:
        net(x)
del x, y
{after}
for x, y in ahead:
    learn(x, y)
"""


def test_readers_hold_batches_of_their_own_size_in_whatever_order_they_are_made(
    tmp_path: Path,
) -> None:
    """One that was made first may be read last: until then it holds what it has ready."""
    made = "ahead = iter(loader)"
    sizes = [
        _mib(_told(tmp_path, _script("", EVALUATED.format(**order), 120, "pass")))
        for order in ({"before": "", "after": made}, {"before": made, "after": ""})
    ]
    assert sizes[0] * MIB > 3 * 4 * BATCH
    assert (sizes[1] - sizes[0]) * MIB == pytest.approx(5 * BATCH, abs=BATCH)


CONSTRAINTS = """
import numpy as np
import paddle


class Points(paddle.io.Dataset):
    def __init__(self, count):
        self.x = np.random.rand(count, 2).astype("float32")

    def __getitem__(self, places):
        return {{"x": self.x[places]}}, {{"y": self.x[places][:, :1]}}

    def __len__(self):
        return len(self.x)


def loader(count, size):
    points = Points(count)
    inner = paddle.io.BatchSampler(points, batch_size=size)
    # A data set that is handed all places of a batch at once.
    outer = paddle.io.BatchSampler(sampler=inner, batch_size=1)
    return paddle.io.DataLoader(points, batch_sampler=outer, collate_fn=lambda batch: batch[0])


net = paddle.nn.Sequential(paddle.nn.Linear(2, 256), paddle.nn.Tanh(), paddle.nn.Linear(256, 1))
adam = paddle.optimizer.Adam(parameters=net.parameters())
loaders = [loader(9801, 4000), loader(404, 101)]
readers = list(map(iter, loaders))
test = loader(9801, {evaluated})


def error(x, y):
    return (net(x["x"]) - y["y"]).square().mean()


for step in range(12):
    loss = 0
    for place in range(2):
        try:
            batch = next(readers[place])
        except StopIteration:
            readers[place] = iter(loaders[place])
            batch = next(readers[place])
        loss = loss + error(*batch)
    loss.backward()
    adam.step()
    adam.clear_grad()
    if step % 4 == 3:
        for batch in test:
            loss = error(*batch)
"""


@pytest.mark.parametrize("evaluated", [4000, 8192])
def test_steps_that_draw_from_data_sets_of_unlike_length_are_told(
    tmp_path: Path, evaluated: int
) -> None:
    """Each reader has a size of its own, and ends with what its full batches leave."""
    text = CONSTRAINTS.format(evaluated=evaluated)
    truth, told = _truth(text), _told(tmp_path, text)
    assert told.own_batch == 4000
    memory = told.estimate(None, backend="cpu").memory
    assert memory is not None, told.refusal
    # Points are few bytes beside what is made of them, whatever waits.
    assert memory.tensors_peak_mib * MIB == pytest.approx(truth, rel=0.03)

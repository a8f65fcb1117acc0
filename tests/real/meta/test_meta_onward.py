"""What comes only after the first steps: the meta tier sees it, or says that it does not end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.estimate import Memory
from gpuconsole.core.units import MIB
from gpuconsole.preflight.probe.training.run_length import EPOCHS, FAR, FIRST, LONG
from gpuconsole.preflight.tiers import measured, probe_request
from tests.real.meta.probe_answers import peak, really_afresh, said

pytestmark = pytest.mark.real
SCRIPT = """
import paddle
net = paddle.nn.Sequential(paddle.nn.Linear(256, 512), paddle.nn.Tanh(), paddle.nn.Linear(512, 8))
adam = paddle.optimizer.Adam(parameters=net.parameters())
rows = lambda count: paddle.io.TensorDataset([paddle.randn([count, 256])])
train = paddle.io.DataLoader(rows(16000), batch_size=16)
test = paddle.io.DataLoader(rows(1024), batch_size=512)
held = []
{before}
for epoch in range(50):
    for (x,) in train:
        out = net(x)
        loss = out.square().mean()
        loss.backward()
        adam.step()
        adam.clear_grad()
        {within}
    {after}
"""
FROZEN = "for one in net[0].parameters(): one.stop_gradient = True"
THAWED = "for one in net[0].parameters(): one.stop_gradient = False"
HIDDEN = 512 * 512 * 4
"""Bytes of what a test batch is turned into, which is more than all that training takes at once
beside parameters, states and gradients."""


def _answer(
    tmp_path: Path, before: str, within: str, after: str, source: str = SCRIPT
) -> Any:  # fmt: skip
    script = tmp_path / "train.py"
    script.write_text(source.format(before=before, within=within, after=after))
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    return said(question)


def test_a_larger_batch_that_is_evaluated_after_an_epoch_is_seen(tmp_path: Path) -> None:
    plain = _answer(tmp_path, "pass", "pass", "pass")["document"]["runs"][0]
    assert len(plain["cycles"]) == probe_request.STEPS
    evaluated = "for (x,) in test: loss = net(x).square().mean()"
    runs = _answer(tmp_path, "pass", "pass", evaluated)["document"]["runs"]
    assert [one["batch"] for one in runs] == [16, 32]
    assert peak(runs[0]) > peak(plain) + HIDDEN
    assert any("The peak comes after the first 3 steps" in one for one in runs[0]["notes"])


@pytest.mark.parametrize("rows", [16000, 200])
def test_batches_that_a_loop_over_numbers_counts_are_gone_through(
    tmp_path: Path, rows: int
) -> None:
    """Its epochs end with their last batch: none waits beside the evaluation that follows."""
    large = SCRIPT.replace("(1024), batch_size=512", "(1024), batch_size=1024")
    large = large.replace("16000", str(rows))
    evaluated = "with paddle.no_grad(): held[:] = [net(x).mean() for (x,) in test][-1:]"
    (walked, *_) = _answer(tmp_path, "pass", "pass", evaluated, large)["document"]["runs"]
    counted = large.replace(
        "    for (x,) in train:\n",
        "    for turn in range(len(train)):\n"
        "        try:\n            (x,) = next(reader)\n"
        "        except Exception:\n            reader = iter(train)\n"
        "            (x,) = next(reader)\n",
    )
    assert counted != large
    before = "reader = iter(train)"
    (run, *_) = _answer(tmp_path, before, "pass", evaluated, counted)["document"]["runs"]
    assert peak(run) == peak(walked)


def test_an_evaluation_stays_in_the_answer_though_training_holds_more(tmp_path: Path) -> None:
    """Where it has a batch size of its own, it is the peak of smaller batches that train."""
    large = SCRIPT.replace("(1024), batch_size=512", "(1024), batch_size=192")
    large = large.replace("(16000), batch_size=16", "(16384), batch_size=512")
    evaluated = "with paddle.no_grad(): held[:] = [net(x).mean() for (x,) in test][-1:]"
    (plain, *_) = _answer(tmp_path, "pass", "pass", "pass", large)["document"]["runs"]
    (run, *_) = _answer(tmp_path, "pass", "pass", evaluated, large)["document"]["runs"]
    assert peak(run) <= peak(plain) + 4
    hidden = 192 * 512 * 4
    assert hidden in run["sizes"]
    assert hidden not in plain["sizes"]


def test_what_is_saved_stays_in_the_answer_though_training_holds_more(tmp_path: Path) -> None:
    """Its copies do not grow with the batch: they are the peak of small ones."""
    large = SCRIPT.replace("(16000), batch_size=16", "(16384), batch_size=512")
    saved = "paddle.save(net.state_dict(), 'net.pdparams')"
    (plain, *_) = _answer(tmp_path, "pass", "pass", "pass", large)["document"]["runs"]
    (run, *_) = _answer(tmp_path, "pass", "pass", saved, large)["document"]["runs"]
    assert peak(run) <= peak(plain) + 4
    weights = 256 * 512 * 4
    assert run["sizes"].count(weights) > plain["sizes"].count(weights)


BY_COUNT = """
import paddle
net = paddle.nn.Sequential(paddle.nn.Linear(256, 512), paddle.nn.Tanh(), paddle.nn.Linear(512, 8))
adams = [paddle.optimizer.Adam(parameters=net.parameters())]
rows = lambda count: paddle.io.TensorDataset([paddle.randn([count, 256])])
train = paddle.io.DataLoader(rows(16000), batch_size=16)
test = paddle.io.DataLoader(rows(1024), batch_size=512)
batches = []

def train_epoch():
    for _ in range(len(train)):
        try:
            (x,) = next(batches[-1])
        except Exception:
            batches.append(iter(train))
            (x,) = next(batches[-1])
        net(x).square().mean().backward()
        for one in adams:
            one.step()
            one.clear_grad()

for epoch in range(1, 61):
    train_epoch()
    if epoch % {every} == 0 and epoch >= {first}:
        net.eval()
        for (x,) in test: loss = net(x).square().mean()
        net.train()
"""


@pytest.mark.parametrize(("every", "first"), [(30, 0), (1, 25)])
def test_an_evaluation_in_a_later_epoch_is_seen(tmp_path: Path, every: int, first: int) -> None:
    """However its batches are counted: epochs are passed with a step each until it comes."""
    (never, *_) = _answer(tmp_path, "", "", "", BY_COUNT.format(every=61, first=0))["document"][
        "runs"
    ]
    runs = _answer(tmp_path, "", "", "", BY_COUNT.format(every=every, first=first))["document"][
        "runs"
    ]
    assert [one["batch"] for one in runs] == [16, 32]
    for one in runs:
        assert peak(one) > peak(never) + HIDDEN, "the evaluation's own size stays"


def test_an_evaluation_that_is_not_reached_is_told(tmp_path: Path) -> None:
    """With the size of its batches, where a loader for it was made; else with none."""
    never = BY_COUNT.format(every=10**5, first=0).replace("range(1, 61)", "range(1, 10**6)")
    runs = _answer(tmp_path, "", "", "", never)["document"]["runs"]
    assert {one["awaits"] for one in runs if "awaits" in one} == {512}
    within = never.replace("in test:", "in paddle.io.DataLoader(rows(1024), batch_size=512):")
    within = within.replace("test = ", "# ")
    runs = _answer(tmp_path, "", "", "", within)["document"]["runs"]
    assert {one["awaits"] for one in runs if "awaits" in one} == {0}
    plain = within.replace("net.eval()", "pass").replace("net.train()", "pass")
    runs = _answer(tmp_path, "", "", "", plain)["document"]["runs"]
    assert {one["awaits"] for one in runs if "awaits" in one} == {None}
    assert not any(one.get("unsaved") for one in runs)
    saves = plain.replace("pass", "paddle.save(net.state_dict(), 'net.pdparams')", 1)
    runs = _answer(tmp_path, "", "", "", saves)["document"]["runs"]
    assert any(one.get("unsaved") for one in runs)


def test_a_larger_batch_that_is_evaluated_after_some_steps_is_seen(tmp_path: Path) -> None:
    within = f"""held.append(0)
        if len(held) == {FIRST - 1}:
            for (y,) in test: loss = net(y).square().mean()"""
    plain = _answer(tmp_path, "pass", "pass", "pass")["document"]["runs"]
    runs = _answer(tmp_path, "pass", within, "pass")["document"]["runs"]
    assert peak(runs[0]) > peak(plain[0]) + HIDDEN


def test_layers_that_are_trained_from_a_later_epoch_on_are_seen(tmp_path: Path) -> None:
    runs = _answer(tmp_path, FROZEN, "pass", THAWED)["document"]["runs"]
    # Gradient and two states of the first layer.
    plain = _answer(tmp_path, FROZEN, "pass", "pass")["document"]["runs"]
    assert peak(runs[0]) > peak(plain[0]) + 2 * 256 * 512 * 4


def test_a_queue_is_followed_until_it_is_full(tmp_path: Path) -> None:
    filled = "held = [*held[-9:], paddle.zeros([64, 1024])]"
    runs = _answer(tmp_path, "pass", filled, "pass")["document"]["runs"]
    plain = _answer(tmp_path, "pass", "pass", "pass")["document"]["runs"]
    assert peak(runs[0]) >= peak(plain[0]) + 9 * 64 * 1024 * 4


def test_memory_that_grows_with_each_step_has_no_answer(tmp_path: Path) -> None:
    error = _answer(tmp_path, "pass", "held.append(net(x))", "pass")["error"]
    assert error["kind"] == "unsupported"
    assert "memory still grows at step" in error["message"]


@pytest.mark.parametrize(
    "after",
    ["raise ValueError('late')", "paddle.static.Executor().run()", "import os; os.abort()"],
)
def test_what_breaks_off_after_the_first_steps_takes_no_answer_back(
    tmp_path: Path, after: str
) -> None:
    runs = _answer(tmp_path, "pass", "pass", after)["document"]["runs"]
    assert len(runs[0]["cycles"]) == probe_request.STEPS


SORTED = """
import numpy
import paddle

class Lines(paddle.io.Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, place):
        return numpy.ones([4 if place < 3900 else {longest}, 64], "float32")

def padded(rows):
    most = max(len(row) for row in rows)
    return numpy.stack([numpy.pad(row, [[0, most - len(row)], [0, 0]]) for row in rows])

net = paddle.nn.Linear(64, 64)
adam = paddle.optimizer.Adam(parameters=net.parameters())
for x in paddle.io.DataLoader(Lines(), batch_size=16, collate_fn=padded):
    net(x).square().mean().backward()
    adam.step()
    adam.clear_grad()
"""


def test_lines_in_the_order_of_their_lengths_are_measured_at_the_longest(tmp_path: Path) -> None:
    peaks = []
    for longest in (4, 400):
        script = tmp_path / "train.py"
        script.write_text(SORTED.format(longest=longest))
        question = probe_request.build(None, script, mode="meta", backend="cpu")
        answer = said(question)
        run = answer["document"]["runs"][0]
        assert ("variable-shape" in run["flags"]) == (longest > 4)
        peaks.append(peak(run))
    # A batch and what the layer makes of it.
    assert peaks[1] - peaks[0] > 2 * 16 * 396 * 64 * 4


def test_what_takes_a_processor_long_is_followed_as_far_as_what_does_not(tmp_path: Path) -> None:
    """How far a run goes on is counted: a slow machine gives the answer of a fast one."""
    evaluated = "for (x,) in test: loss = net(x).square().mean()"
    slow = """held.append(0)
        import time
        ends = time.process_time() + 5 * (x.shape[0] == 16 and len(held) == 4)
        while time.process_time() < ends: pass"""
    runs = [_answer(tmp_path, "pass", within, evaluated)["document"]["runs"]
            for within in ("held.append(0)", slow)]  # fmt: skip
    assert [one["events"] for one in runs[0]] == [one["events"] for one in runs[1]]
    assert [one["sizes"] for one in runs[0]] == [one["sizes"] for one in runs[1]]


LATER = """
import paddle

def trained(net, batch):
    adam = paddle.optimizer.Adam(parameters=net.parameters())
    rows = paddle.io.TensorDataset([paddle.randn([4000, 64])])
    for epoch in range({epochs}):
        for (x,) in paddle.io.DataLoader(rows, batch_size=batch):
            net(x).square().mean().backward()
            adam.step()
            adam.clear_grad()

for width in ({widths}):
    trained(paddle.nn.Linear(64, width), 16)
{after}
"""
"""Trainings one after the other."""


def _later(tmp_path: Path, widths: str, epochs: int = 1000, after: str = "") -> Any:
    script = tmp_path / "train.py"
    script.write_text(LATER.format(widths=widths, epochs=epochs, after=after))
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    return said(question)


def test_a_later_training_of_a_larger_network_is_seen(tmp_path: Path) -> None:
    """However many epochs the one before it has."""
    runs = _later(tmp_path, "8, 1024,")["document"]["runs"]
    assert [one["batch"] for one in runs] == [16, 32]
    # Parameters, gradients and two states.
    assert peak(runs[0]) > 4 * 64 * 1024 * 4
    alone = _later(tmp_path, "1024,")["document"]["runs"]
    assert abs(peak(runs[0]) - peak(alone[0])) < 0.05 * peak(alone[0])


def test_a_later_training_stays_in_the_answer_though_the_first_holds_more(tmp_path: Path) -> None:
    """It may hold more where the batch is another."""
    runs = _later(tmp_path, "1024, 8,")["document"]["runs"]
    assert [run["sizes"].count(64 * 8 * 4) > 3 for run in runs] == [True, True]


def test_what_comes_after_the_last_epoch_is_seen(tmp_path: Path) -> None:
    runs = _later(tmp_path, "8,", after="last = paddle.zeros([1024, 1024])")["document"]["runs"]
    assert peak(runs[0]) > 1024 * 1024 * 4


def test_a_training_without_a_loader_is_left_too(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("""
import paddle
net = paddle.nn.Linear(64, 64)
adam = paddle.optimizer.Adam(parameters=net.parameters())
x = paddle.randn([8, 64])
step = 0
while step < 10**6:
    net(x).square().mean().backward()
    adam.step()
    adam.clear_grad()
    step += 1
last = paddle.zeros([1024, 1024])
""")
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    answer = said(question)
    run = answer["document"]["runs"][0]
    assert peak(run) > 1024 * 1024 * 4


def test_fitting_is_left_by_its_own_word(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("""
import paddle
rows = paddle.io.TensorDataset([paddle.randn([400, 64]), paddle.randn([400, 8])])
model = paddle.Model(paddle.nn.Linear(64, 8))
model.prepare(paddle.optimizer.Adam(parameters=model.parameters()), paddle.nn.MSELoss())
model.fit(rows, epochs=1000, batch_size=16, verbose=0)
last = paddle.zeros([1024, 1024])
""")
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    answer = said(question)
    run = answer["document"]["runs"][0]
    assert peak(run) > 1024 * 1024 * 4


def test_an_evaluation_with_a_loss_layer_is_cut_like_any_other(tmp_path: Path) -> None:
    """A loss is a layer that stays in the mode for training."""
    batches = tmp_path / "batches"
    evaluated = f"""net.eval()
    for (x,) in paddle.io.DataLoader(rows(16000), batch_size=16):
        paddle.nn.MSELoss()(net(x), paddle.zeros([x.shape[0], 8]))
        open({str(batches)!r}, 'a').write(f'{{epoch}} {{x.shape[0]}}\\n')
    net.train()"""
    _answer(tmp_path, "pass", "pass", evaluated)
    assert batches.read_text().split("\n").count("0 16") == probe_request.STEPS


def test_a_run_that_breaks_off_is_held_against_one_that_goes_as_far(tmp_path: Path) -> None:
    """What the script did after its last step, until it broke off, belongs to both."""
    within = "int(loss)"
    after = "[net(x).square().mean() for (x,) in test]; open('no/such/folder/file', 'r+')"
    runs = _answer(tmp_path, "pass", within, after)["document"]["runs"]
    assert [one["batch"] for one in runs] == [16, 32]
    assert runs[0]["until"] == runs[1]["until"]


def test_an_epoch_that_is_cut_holds_no_batch_though_its_iterator_is_held(tmp_path: Path) -> None:
    """The cut is the end of the loader's batches, which Paddle's iterators hold none of then."""
    endless = """
    it = iter(train)
    held.append(it)
    for _ in range(1000):
        try:
            (x,) = next(it)
        except StopIteration:
            it = iter(train)
            held.append(it)
            continue
        net(x).square().mean().backward()
        adam.step()
        adam.clear_grad()
    """
    answer = _answer(tmp_path, "pass", "break", endless, SCRIPT.replace("test = ", "# "))
    runs = answer["document"]["runs"]
    assert [len(one["cycles"]) for one in runs] == [probe_request.STEPS] * 2, runs[0]["notes"]


def test_an_epoch_of_two_steps_before_what_breaks_off_is_an_answer(tmp_path: Path) -> None:
    short = "train = paddle.io.DataLoader(rows(32), batch_size=16)"
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(before=short, within="pass", after="raise ValueError('late')"))
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    alone = {**question, "size": None, "batch": {"how": "fixed", "value": None}}
    answer = said(alone, "--run")
    run = answer["run"]
    assert len(run["cycles"]) == 2
    assert any("broke off after step 2: ValueError: late" in one for one in run["notes"])


def test_a_few_bytes_that_a_later_step_holds_more_make_no_laterpeak(tmp_path: Path) -> None:
    """Else all other runs would go on for as long, for what changes no answer."""
    within = "held = [*held[-9:], paddle.zeros([8])]"
    runs = _answer(tmp_path, "pass", within, "pass")["document"]["runs"]
    assert [len(one["cycles"]) for one in runs] == [probe_request.STEPS] * 2
    assert not any("The peak comes after" in one for one in runs[0]["notes"])


def test_a_run_whose_first_steps_are_alike_goes_on_for_few_more(tmp_path: Path) -> None:
    """Some in the first epoch, one in each of the epochs that are cut then, and none once they are
    left; runs of other sizes make the first steps alone."""
    steps = tmp_path / "steps"
    within = f"open({str(steps)!r}, 'a').write(f'{{x.shape[0]}}\\n')"
    _answer(tmp_path, "pass", within, "pass", SCRIPT.replace("test = ", "# "))
    made = steps.read_text().split()
    assert probe_request.STEPS + EPOCHS < made.count("16") <= FIRST + 2 + FAR
    assert made.count("32") == probe_request.STEPS


WHILE = """
import paddle
x = paddle.rand([8, 64])
x.stop_gradient = False
adam = paddle.optimizer.Adam(parameters=[x], learning_rate=0.01)
near = paddle.mean(x).item()
while {test}:
    loss = 1 - paddle.mean(x * x)
    loss.backward()
    adam.step()
    adam.clear_grad()
    near = loss.item()
last = paddle.zeros([1024, 1024])
"""


@pytest.mark.parametrize("test", ["near < 0.99", "not near >= 0.99", "paddle.mean(x) < 0.99"])
def test_a_loop_that_trains_until_data_says_enough_is_entered_and_left(
    tmp_path: Path, test: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(WHILE.format(test=test))
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    answer = said(question)
    run = answer["document"]["runs"][0]
    assert run["trained"]
    assert peak(run) > 1024 * 1024 * 4


@pytest.mark.parametrize(
    ("within", "after", "reached"),
    [("pass", "pass", "end"), ("pass", "import os; os.abort()", "steps"),
     ("pass", "if epoch: raise ValueError('late')", "epoch"),
     ("held.append(0); 1 / (len(held) < 5)", "pass", "steps")],
)  # fmt: skip
def test_an_answer_tells_how_far_the_script_was_followed(
    tmp_path: Path, within: str, after: str, reached: str
) -> None:
    """To its end, through an epoch with what follows it, or for some steps."""
    runs = _answer(tmp_path, "pass", within, after)["document"]["runs"]
    assert runs[0]["reached"] == reached


BY_HAND = """
import paddle
net = paddle.nn.Sequential(paddle.nn.Linear(64, 64), paddle.nn.Tanh(), paddle.nn.Linear(64, 8))
adam = paddle.optimizer.Adam(parameters=net.parameters())
rows = paddle.io.TensorDataset([paddle.randn([10**6, 64])])
for step in range(10**6):
    net(paddle.randn([16, 64])).square().mean().backward()
    adam.step()
    adam.clear_grad()
    if step % 10 == 0:
        for {walk}:
            x.stop_gradient = False
            (slope,) = paddle.grad(net(x).square().mean(), x)
        last = paddle.zeros([1024, 1024])
"""


@pytest.mark.parametrize(
    "walk",
    ["x in (paddle.randn([8, 64]) for _ in range(10**6))",
     "(x,) in paddle.io.DataLoader(rows, batch_size=8)"],
)  # fmt: skip
def test_an_evaluation_by_hand_ends_once_its_turns_are_alike(tmp_path: Path, walk: str) -> None:
    """A million samples that are neither trained on nor left to a loader's end."""
    script = tmp_path / "train.py"
    script.write_text(BY_HAND.format(walk=walk))
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    answer = said(question)
    for run in answer["document"]["runs"]:
        assert peak(run) > 1024 * 1024 * 4, "what follows it is seen"
        assert not any("left before their end" in one for one in run["notes"])


def test_a_script_that_waits_does_not_keep_its_user_waiting(tmp_path: Path) -> None:
    """As some do after each epoch, for other processes to save first."""
    evaluated = """import time
    from time import sleep
    time.sleep(3600)
    sleep(3600)
    for (x,) in test: loss = net(x).square().mean()"""
    runs = _answer(tmp_path, "pass", "pass", evaluated)["document"]["runs"]
    assert 512 * 512 * 4 in runs[0]["sizes"], "what comes after it is seen"


def test_steps_that_do_very_much_are_two(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"""
import paddle
net = paddle.nn.Linear(64, 64)
adam = paddle.optimizer.Adam(parameters=net.parameters())
x = paddle.randn([8, 64])
for step in range(10**6):
    for _ in range({LONG} // 4):
        y = x + 1
    net(x).square().mean().backward()
    adam.step()
    adam.clear_grad()
""")
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    answer = said(question)
    (run,) = answer["document"]["runs"]
    assert len(run["cycles"]) == 2 < probe_request.STEPS
    assert len(run["events"]) < 4 * LONG


def test_epochs_without_a_batch_end_a_run_that_would_wait_for_one_for_ever(tmp_path: Path) -> None:
    """Twice the batch is more than all samples: the answer is that of the script's own size."""
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle\nnet = paddle.nn.Linear(16, 4)\n"
        "sgd = paddle.optimizer.SGD(parameters=net.parameters())\n"
        "data = paddle.io.TensorDataset([paddle.randn([64, 16])])\n"
        "some = paddle.io.DistributedBatchSampler(data, batch_size=64, drop_last=True)\n"
        "loader = paddle.io.DataLoader(data, batch_sampler=some)\nstep = 0\n"
        "while step < 100000:\n    for (x,) in loader:\n        step += 1\n"
        "        net(x).mean().backward()\n        sgd.step()\n        sgd.clear_grad()\n"
    )
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    question["batches"] = [64, 128]
    (run,) = said(question)["document"]["runs"]
    assert (run["own_batch"], run["fixed"]) == (64, True)
    assert run["seconds"] < 60


IN_TURN = """
import gc
import paddle

{before}


def train(width):
    net = paddle.nn.Sequential(paddle.nn.Linear(64, width), paddle.nn.Linear(width, 64))
    adam = paddle.optimizer.Adam(parameters=net.parameters())
    for _ in range(3):
        net(paddle.ones([4, 64])).mean().backward()
        adam.step()
        adam.clear_grad()


for width in (256, 32, 128, 64):
    train(width)
    {between}
"""
"""Trainings that leave their networks in cycles."""
ITS_PEAK = """
from paddle.base import core
print(core.host_memory_stat_peak_value("Allocated", 0))
"""
MANY = "objects += [[] for _ in range(4000)]"
"""More objects than the collector waits for."""
TOGETHER = """
import paddle


def train():
    nets = [paddle.nn.Linear(64, 256), paddle.nn.Linear(256, 64)]
    adams = [paddle.optimizer.Adam(parameters=net.parameters()) for net in nets]
    for _ in range(3):
        nets[1](nets[0](paddle.ones([4, 64]))).mean().backward()
        for adam in adams:
            adam.step()
            adam.clear_grad()


train()
"""
"""One training with two optimizers, which ends before the script does."""
LARGEST = 4 * (2 * 64 * 256 + 256 + 64)
"""Bytes of the parameters of the first network."""


def _both(tmp_path: Path, before: str, between: str) -> tuple[int, Memory]:
    """Return the peak of a real run in bytes, and what is estimated."""
    text = IN_TURN.format(before=before, between=between)
    script = tmp_path / "train.py"
    script.write_text(text)
    question: Any = probe_request.build(None, script, mode="meta", backend="cpu")
    memory = measured.load(said(question)["document"]).estimate(None, backend="cpu").memory
    assert memory is not None
    return int(really_afresh(text + ITS_PEAK).splitlines()[-1]), memory


@pytest.mark.parametrize("before", ["gc.disable()", "gc.set_threshold(0)"])
def test_without_a_collector_all_of_them_stay(before: str, tmp_path: Path) -> None:
    """However many objects the script makes."""
    truth, memory = _both(tmp_path, f"objects = []\n{before}", MANY)
    assert truth > 6 * LARGEST
    assert memory.tensors_peak_mib * MIB == pytest.approx(truth, abs=64)


def test_a_script_that_collects_holds_but_the_largest(tmp_path: Path) -> None:
    truth, memory = _both(tmp_path, "", "gc.collect()")
    assert truth < 6 * LARGEST
    assert memory.tensors_peak_mib * MIB == pytest.approx(truth, abs=64)


def test_whenever_python_collects_the_truth_is_in_the_range(tmp_path: Path) -> None:
    """When it does hangs on how many objects the script, its libraries and Paddle have made."""
    for before in ("gc.set_threshold(100)", "gc.set_threshold(10_000)"):
        truth, memory = _both(tmp_path, before, "pass")
        assert memory.low_mib * MIB <= truth <= memory.high_mib * MIB


def test_what_several_optimizers_train_together_is_of_use_until_its_end(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TOGETHER)
    question: Any = probe_request.build(None, script, mode="meta", backend="cpu")
    (run,) = said(question)["document"]["runs"]
    assert run["in_cycles"] is None

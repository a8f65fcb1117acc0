"""Mixed precision as on a device, and what the meta tier refuses or calls the script's fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.tiers import probe_request
from tests.real.meta.probe_answers import really, said
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[3]
SCRIPT = """
import json, sys
from gpuconsole.preflight.meta import hook
from gpuconsole.preflight.meta.state import STATE
from gpuconsole.preflight.tiers.probe_request import operators
hook.install()
import paddle
hook.ready(paddle, operators(), sys.argv[1])
found = {}
for level in ("O1", "O2"):
    net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3, bias_attr=False), paddle.nn.BatchNorm2D(8),
                               paddle.nn.ReLU(), paddle.nn.Flatten(), paddle.nn.Linear(8 * 900, 10))
    optimizer = paddle.optimizer.AdamW(parameters=net.parameters(), multi_precision=level == "O2")
    if level == "O2":
        net, optimizer = paddle.amp.decorate(net, optimizer, level="O2", dtype="float16")
    scaler = paddle.amp.GradScaler()
    for _ in range(2):
        with paddle.amp.auto_cast(level=level):
            first = net[0](paddle.rand([4, 3, 32, 32]))
            out = net[4](net[3](net[2](net[1](first))))
            loss = paddle.nn.functional.cross_entropy(out, paddle.randint(0, 10, [4]))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
    states = optimizer._accumulators["moment1"].values()
    found[level] = {
        "first": str(first.dtype), "weight": str(net[4].weight.dtype),
        "norm": str(net[1].weight.dtype),
        "moment": sorted({str(one.dtype) for one in states}),
        "masters": len(optimizer._master_weights), "grad": str(net[4].weight.grad.dtype),
    }
print(json.dumps(found))
"""


def _run(backend: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(really(SCRIPT, backend, way="tier").splitlines()[-1])
    return found


def probed(script: Path) -> dict[str, Any]:
    """Return the answer of the probe to a script, with the meta tier on a CPU."""
    answer: dict[str, Any] = said(probe_request.build(None, script, mode="meta", backend="cpu"))
    return answer


def test_a_device_computes_in_half_precision_and_keeps_master_weights() -> None:
    found = _run("gpu")
    half, full = "paddle.float16", "paddle.float32"
    assert found["O1"]["first"] == half
    assert (found["O1"]["weight"], found["O1"]["masters"]) == (full, 0)
    assert found["O2"]["first"] == found["O2"]["weight"] == found["O2"]["grad"] == half
    assert found["O2"]["norm"] == full
    assert found["O2"]["moment"] == [full]
    assert found["O2"]["masters"] == 3


def test_a_cpu_mixes_no_precision() -> None:
    found = _run("cpu")
    for level in ("O1", "O2"):
        assert found[level]["first"] == found[level]["weight"] == "paddle.float32"
        assert found[level]["masters"] == 0


OF_OTHER_TYPES = (
    "paddle.as_real(x)",
    "paddle.as_real(x > 1)",
    "paddle.as_complex(x.astype('int64'))",
    "paddle.as_complex(x.reshape([4, 2]).astype('float16'))",
)
"""Calls of operators that have no kernel for the type of what they are given."""
MIXED = (
    "paddle.bmm(paddle.rand([2, 3, 4]), paddle.ones([2, 4, 5], 'float64'))",
    "paddle.nn.Linear(4, 3)(x.astype('float64'))",
    "paddle.nn.Conv1D(2, 3, 1)(paddle.ones([1, 2, 4], 'float64'))",
    "paddle.stack([x, x.astype('float64')])",
)
"""Real kernels refuse these."""
BLAMED = (
    ("x.no_such_part()", "unsupported"),
    ("paddle.matmul(x, paddle.rand([3, 3]))", "script"),
    ("paddle.static.Executor().train_from_dataset()", "unsupported"),
    ("missing_name", "script"),
    ("tuple(x[0, 0])", "script"),
    (
        "try:\n    x.no_such_part()\nexcept Exception as error:\n    raise KeyError(1) from error",
        "unsupported",
    ),
    (
        "import gpuconsole_sandbox.meta.operators.inferred as tier\ntier._entry = None\n"
        "try:\n    paddle.tanh(x)\n"
        "except Exception:\n    raise SystemExit(3)",
        "unsupported",
    ),
    ("assert float(x.sum()) > 99", "unclear"),
    ("raise SystemExit('no progress' if x.sum().item() < 99 else 0)", "unclear"),
    ("import math\nmath.log(0.5 - x.mean().item())", "unclear"),
    ("import math\nmath.log(-1.0)", "script"),
    *((line, "script") for line in MIXED),
    *((line, "script") for line in OF_OTHER_TYPES),
    ("paddle.as_real(x if x.sum() > 1 else paddle.as_complex(x))", "unclear"),
)


@pytest.mark.parametrize(("line", "kind"), BLAMED)
def test_only_what_the_script_does_wrong_is_called_its_fault(
    tmp_path: Path, line: str, kind: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import paddle\nx = paddle.rand([2, 4])\n{line}\n")
    question = {**probe_request.build(None, script, mode="meta", backend="cpu"), "batches": [2]}
    error = said(question)["error"]
    assert error["kind"] == kind, error


SYNCHRONISED = """
import paddle
class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3), paddle.nn.BatchNorm2D(8))
        self.last = paddle.nn.Linear(8, 4)
    def forward(self, x):
        return self.last(paddle.nn.functional.relu(self.first(x)).mean([2, 3]))
net = Net()
NET
adam = paddle.optimizer.Adam(parameters=net.parameters())
data = paddle.io.TensorDataset([paddle.randn([64, 3, 16, 16])])
for (x,) in paddle.io.DataLoader(data, batch_size=16):
    net(x).mean().backward()
    adam.step()
    adam.clear_grad()
"""


def test_norms_over_all_ranks_hold_on_one_what_plain_ones_do(tmp_path: Path) -> None:
    sizes = []
    for line in ("", "net = paddle.nn.SyncBatchNorm.convert_sync_batchnorm(net)"):
        script = tmp_path / "train.py"
        script.write_text(SYNCHRONISED.replace("NET", line))
        question = probe_request.build(None, script, mode="meta", backend="cpu")
        last = said(question)
        assert "document" in last, last
        # Converting makes norms anew: small ones, before the first step.
        sizes.append(sorted(n for n in last["document"]["runs"][0]["sizes"] if n > 64))
    assert sizes[0] == sizes[1]


def test_real_kernels_refuse_what_the_tier_refuses() -> None:
    lines = "".join(f"    lambda: {line},\n" for line in MIXED)
    code = (
        f"import paddle\nx = paddle.rand([2, 4])\nfor call in (\n{lines}):\n"
        "    try:\n        call()\n    except ValueError as error:\n"
        "        print(str(error).split()[0])\n"
    )
    assert really(code).split() == ["(InvalidArgument)"] * len(MIXED)


def test_real_kernels_are_missing_where_the_tier_has_none() -> None:
    lines = "".join(f"    lambda: {line},\n" for line in OF_OTHER_TYPES)
    code = (
        f"import paddle\nx = paddle.rand([2, 4])\nfor call in (\n{lines}):\n"
        "    try:\n        call()\n    except RuntimeError as error:\n"
        "        print(str(error).split()[0])\n"
    )
    assert really(code).split() == ["(NotFound)"] * len(OF_OTHER_TYPES)


COUNTED = """
import math
import numpy
import paddle
net = paddle.nn.Linear(256, 256)
adam = paddle.optimizer.Adam(parameters=net.parameters())
data = paddle.io.TensorDataset([paddle.randn([64, 256]), paddle.randint(0, 5, [64])])
right = 0
for x, y in paddle.io.DataLoader(data, batch_size=16):
    {line}
    out = net(x)
    out.mean().backward()
    adam.step()
    adam.clear_grad()
    right += int((out.argmax(-1)[:1] == y[:1]).sum()) + (y > 1).sum().item()
"""
SWALLOWED = """try:
        x.stop_gradient = False
        y = paddle.log(x)
        for _ in range(3):
            y = paddle.grad(y, x, create_graph=True)[0]
    except Exception:
        pass"""
ASKED = "a number that only data gives (asked at train.py:10"
POINTS = "m = paddle.rand([300, 300]) > 0.5; part = m.flatten()[: int(m.sum())]"
NUMBERS = (
    ("pass", ""),
    ("a = x.numpy(); a[0] *= 2.0; x = paddle.to_tensor(a)", ""),
    (
        "m = (paddle.rand([300, 300]) > 0.5).astype('int32').numpy(); assert m.any() > m.all()",
        "",
    ),
    (f"keep = paddle.zeros([64, 65536]); {POINTS}", ""),
    ("numpy.linalg.cholesky(paddle.matmul(net.weight, net.weight.T).numpy())", ""),
    (f"{POINTS}; part = part.astype('float64')", ASKED),
    (
        "x = paddle.concat([x] * int((y != 0).sum()))",
        ASKED,
    ),
    ("x = x[: int(y.max())]", ASKED),
    ("x = x[: int(x.max().item())]", ASKED),
    (
        "x = x + paddle.zeros([y.max().item(), 1, 256]).sum()",
        ASKED,
    ),
    ("x = x[: int(x.max().item() * 0.5) + 1]", ASKED),
    ("x = x[: math.ceil(float(x.max()) * 2)]", ASKED),
    ("x = x[: int(numpy.ceil(x.numpy().max() * 2))]", ASKED),
    ("x = x[: round(math.sqrt(x.max().item()) * 4)]", ASKED),
    (SWALLOWED, "the third derivative of log"),
)


@pytest.mark.parametrize(("line", "refusal"), NUMBERS)
def test_no_answer_hangs_on_numbers_that_only_data_gives(
    tmp_path: Path, line: str, refusal: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(COUNTED.format(line=line))
    answer = probed(script)
    if not refusal:
        assert [one["batch"] for one in answer["document"]["runs"]] == [16, 32]
        return
    assert answer["error"]["kind"] == "unsupported"
    assert refusal in answer["error"]["message"]


def test_numbers_for_which_there_are_no_others_are_said_to_be_taken_for_granted(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(COUNTED.format(line="print(('first', 'second')[int(y.max())])"))
    notes = probed(script)["document"]["runs"][0]["notes"]
    assert any("numbers that only data gives are 1 (asked at train.py:10" in one for one in notes)


BY_CHANCE = """
import random, threading
import numpy
import paddle
# With another thread the process cannot divide: each run is a start of its own. It waits for what
# never comes: sleeping takes no time here.
threading.Thread(target=threading.Event().wait, daemon=True).start()
wide = random.randint(100, 10**6) + numpy.random.randint(10**6)
net = paddle.nn.Linear(256, 256)
sgd = paddle.optimizer.SGD(parameters=net.parameters())
data = paddle.io.TensorDataset([paddle.randn([64, 256])])
for (x,) in paddle.io.DataLoader(data, batch_size=16):
    loss = net(x).mean() + paddle.rand([wide]).mean()
    loss.backward()
    sgd.step()
    sgd.clear_grad()
    print(int(loss))
"""


def test_runs_that_are_held_against_each_other_draw_the_same_by_chance(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BY_CHANCE)
    answer = probed(script)
    assert [one["batch"] for one in answer["document"]["runs"]] == [16, 32]


VOCABULARY = """
import os
import sys
import urllib.request
import paddle

batch = int(sys.argv[1])
place = os.path.expanduser("~/.words/vocab.txt")
if not os.path.exists(place):
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with urllib.request.urlopen("https://hub.example/bert/vocab.txt") as stream:
        data = stream.read()
    with open(place, "wb") as file:
        file.write(data)
with open(place) as file:
    words = [line.strip() for line in file]
net = paddle.nn.Sequential(paddle.nn.Embedding({size}, 16), paddle.nn.Linear(16, 4))
adam = paddle.optimizer.Adam(parameters=net.parameters())
rows = paddle.io.TensorDataset([paddle.zeros([64, 12], "int64")])
for epoch in range(9):
    for (x,) in paddle.io.DataLoader(rows, batch_size=batch):
        net(x).square().mean().backward()
        adam.step()
        adam.clear_grad()
"""


@pytest.mark.parametrize(("size", "known"), [("30522", True), ("len(words)", False)])
def test_memory_that_depends_on_a_made_up_vocabulary_is_not_known(
    tmp_path: Path, size: str, known: bool
) -> None:
    """The other run downloads it again: what the first has left in the home is gone."""
    project, home = tmp_path / "project", tmp_path / "home"
    for folder in (project, home):
        folder.mkdir()
    script = project / "train.py"
    script.write_text(VOCABULARY.format(size=size))
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    places = {
        "source": str(project), "root": str(tmp_path / "laid"), "env": {"HOME": str(home)},
        "batch": {"how": "argument", "args": ["{batch}"], "value": 8}, "batches": [8, 16],
    }  # fmt: skip
    answer = said({**question, **places})
    if known:
        assert [one["batch"] for one in answer["document"]["runs"]] == [8, 16]
    else:
        message = answer["error"]["message"]
        assert "changes with a number that only data gives" in message
        assert "train.py:" in message


WRONG = """
import paddle
from paddle import nn

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(16, 8), nn.Linear(9, 2)

    def forward(self, x):
        return self.two(
            nn.functional.relu(self.one(x)),
        )

net = Net()
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
for step in range(10):
    net(paddle.rand([4, 16])).mean().backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def test_a_fault_that_reading_finds_is_confirmed_by_a_run_at_its_line(tmp_path: Path) -> None:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(WRONG)
    words = ["--state", tmp_path / "state", "preflight", script, "--offline", "--yes", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "gpuconsole", *map(str, words)], capture_output=True, text=True,
        timeout=10 * DEADLINE_S, check=False, cwd=script.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert [one["outcome"] for one in found["tiers"]] == ["answered", "confirmed"], found["tiers"]
    assert found["errors"][0]["line"] == 11
    assert {one["verdict"] for one in found["verdicts"]} == {"will-fail"}


SAVED = """
import os, sys
from gpuconsole.preflight.meta import hook
from gpuconsole.preflight.meta.state import STATE
from gpuconsole.preflight.tiers.probe_request import operators
hook.install()
import paddle
hook.ready(paddle, operators(), "cpu")
net = paddle.nn.Linear(4096, 1024)
adam = paddle.optimizer.Adam(parameters=net.parameters())
net(paddle.rand([2, 4096])).mean().backward()
adam.step()
before = STATE.ledger.live
for what, path in ((net, sys.argv[1]), (adam, sys.argv[1] + ".pdopt")):
    paddle.save(what.state_dict(), path)
    found = paddle.load(path)
    net.set_state_dict(found) if what is net else adam.set_state_dict(found)
held = STATE.ledger.peak - before
print(os.path.getsize(sys.argv[1]), list(paddle.load(sys.argv[1])["weight"].shape), held)
"""


def test_what_is_saved_takes_its_memory_but_no_room_and_can_be_loaded(tmp_path: Path) -> None:
    """A network of a GiB would take seconds to write, with each epoch."""
    size, shape = really(SAVED, str(tmp_path / "net.pdparams"), way="tier").split(" ", 1)
    assert int(size) < 4096
    assert shape.startswith("[4096, 1024] ")
    # Both states are copied at once.
    assert int(shape.rpartition(" ")[2]) >= 2 * 4096 * 1024 * 4


EXPORTED = """
import sys
from gpuconsole.preflight.meta import hook
from gpuconsole.preflight.meta.state import STATE
from gpuconsole.preflight.tiers.probe_request import operators
hook.install()
import paddle
hook.ready(paddle, operators(), "cpu")
net = paddle.nn.Linear(512, 1024)
spec = [paddle.static.InputSpec([None, 512], "float32")]
before = STATE.ledger.live
paddle.jit.save(net, sys.argv[1], input_spec=spec)
made = paddle.jit.load(sys.argv[1])
loaded = STATE.ledger.live - before
out = made(paddle.rand([2, 512]))
evaluated = out.stop_gradient
made.train()
adam = paddle.optimizer.Adam(parameters=made.parameters())
made(paddle.rand([2, 512])).mean().backward()
adam.step()
assert "loaded-program" in STATE.flags
print(loaded, evaluated, STATE.ledger.live - before)
"""


def test_a_network_that_is_saved_as_a_program_can_be_loaded_and_trained(tmp_path: Path) -> None:
    loaded, evaluated, trained = really(EXPORTED, str(tmp_path / "net"), way="tier").split()
    parameters = 4 * (512 + 1) * 1024
    assert int(loaded) == parameters
    assert evaluated == "True"
    # Parameters, gradients and two states, beside what is held of the two batches.
    assert 4 * parameters <= int(trained) < 4 * parameters + 2**16


SHAPED = """
from gpuconsole.preflight.meta import hook
from gpuconsole.preflight.meta.values import known
from gpuconsole.preflight.probe.training import loaders
from gpuconsole.preflight.tiers.probe_request import operators
hook.install()
import paddle
hook.ready(paddle, operators(), "cpu")
labels = paddle.randint(0, 9, [4, 2000, 1000])
computed = []
known.computed = lambda name, *_: computed.append(name)
print(list(paddle.nn.functional.one_hot(labels, 19).shape), computed, loaders.VALUED == known.MOST)
"""


def test_the_shape_of_classes_of_a_large_map_is_told_without_computing_it() -> None:
    assert really(SHAPED, way="tier").splitlines()[-1] == "[4, 2000, 1000, 19] [] True"


AVERAGED = """
from gpuconsole.preflight.meta import hook
from gpuconsole.preflight.meta.inference import infer
from gpuconsole.preflight.tiers.probe_request import operators
hook.install()
import paddle
hook.ready(paddle, operators(), "cpu")
x, built, build = paddle.rand([400, 300]), [], infer.build
infer.build = lambda *args: built.append(args) or build(*args)
for step in range(9):
    decay = 0.9 + step / 100
    y = (x * decay + step).clip(-step, decay) + paddle.full([400, 300], decay)
    assert y.shape == x.shape
print(len(built), paddle.full([2], 0.5).tolist(), (paddle.to_tensor([1.0]) * 0.25).tolist())
"""


def test_an_operator_with_another_factor_in_each_step_is_inferred_once() -> None:
    """What it computes of values that are known has its own factor all the same."""
    built, values = really(AVERAGED, way="tier").splitlines()[-1].split(" ", 1)
    assert int(built) <= 5
    assert values == "[0.5, 0.5] [0.25]"


ASSERTED = """
import paddle
net = paddle.nn.Conv2D(3, 4, 3)
sgd = paddle.optimizer.SGD(parameters=net.parameters())
rows = paddle.io.TensorDataset([paddle.rand([64, 3, 8, 8])])
for x, in paddle.io.DataLoader(rows, batch_size=8):
    out = net(x)
    bins = paddle.histogram(out.argmax(1).astype("float32"), bins=4, min=1, max=4)
    assert paddle.sum(bins > bins - bins) == 0
    assert not out.mean() > 0 and out.numpy().max() < 0.5, "too large"
    assert {line}
    out.mean().backward()
    sgd.step()
    sgd.clear_grad()
"""


@pytest.mark.parametrize("line", ["float(out.mean()) < 0.5", "out.shape[0] == 9"])
def test_an_assertion_about_unknown_data_holds_and_no_other(tmp_path: Path, line: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(ASSERTED.format(line=line))
    answer = probed(script)
    if "shape" in line:
        assert "AssertionError" in answer["error"]["message"]
    else:
        assert [run["batch"] for run in answer["document"]["runs"]] == [8, 16]


BOXED = """
import collections
import paddle
class Box(collections.UserDict):
    def __getattr__(self, name):
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError
net = paddle.nn.Linear(8, 8)
sgd = paddle.optimizer.SGD(parameters=net.parameters())
rows = paddle.io.TensorDataset([paddle.rand([64, 8])])
def collate(batch):
    return Box({"x": paddle.stack([x for x, in batch])})
for batch in paddle.io.DataLoader(rows, batch_size=8, collate_fn=collate):
    net(batch["x"]).mean().backward()
    sgd.step()
    sgd.clear_grad()
"""


def test_a_batch_may_be_a_mapping_of_another_kind(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BOXED)
    answer = probed(script)
    assert [run["batch"] for run in answer["document"]["runs"]] == [8, 16]


ENDLESS = """
import os, sys
import paddle
open("pid", "w").write(str(os.getpid()))
net = paddle.nn.Linear(4, 4)
adam = paddle.optimizer.Adam(parameters=net.parameters())
for step in range({steps}):
    net(paddle.rand([2, 4])).mean().backward()
    adam.step()
    adam.clear_grad()
number = 0
while True:
    number += 1
"""


@pytest.mark.parametrize("steps", [0, 5])
def test_a_script_without_an_end_is_ended_with_what_is_known_of_it(
    tmp_path: Path, steps: int
) -> None:
    script, limit_s = tmp_path / "train.py", 25.0
    script.write_text(ENDLESS.format(steps=steps))
    request = probe_request.build(None, script, mode="meta", backend="cpu")
    answer = said({**request, "limit_s": limit_s})
    if steps:
        assert answer["document"]["runs"][0]["cycles_seen"] == 3
    else:
        error = answer["error"]
        assert (error["kind"], error["message"]) == ("time", "not answered within 25 s")
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_a_script_may_check_that_paddle_is_installed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import paddle\npaddle.utils.run_check()\n" + COUNTED.format(line="pass"))
    answer = probed(script)
    assert [one["batch"] for one in answer["document"]["runs"]] == [16, 32]


TESTED = """
import paddle
net = paddle.nn.Linear(8, 4)
adam = paddle.optimizer.Adam(parameters=net.parameters())
for (x,) in paddle.io.DataLoader(paddle.io.TensorDataset([paddle.randn([640, 8])]), batch_size=64):
    loss = net(x).square().mean()
    loss.backward()
    adam.step()
    adam.clear_grad()
    if {first} and bool((net(x) > 9).any()):
        {within}
"""


@pytest.mark.parametrize(
    ("first", "within", "answered"),
    [
        ("True", "paddle.ones([3, 1]) + paddle.ones([5, 1])", True),
        ("bool((x > 9).any())", "raise ValueError('diverged')", True),
        ("not bool((x > 9).any())", "pass\n    paddle.ones([3, 1]) + paddle.ones([5, 1])", False),
    ],
)
def test_a_script_that_fails_after_a_test_of_data_is_run_with_the_other_answer(
    tmp_path: Path, first: str, within: str, answered: bool
) -> None:
    script = tmp_path / "train.py"
    script.write_text(TESTED.format(first=first, within=within))
    answer = said(probe_request.build(None, script, mode="meta", backend="cpu"))
    assert ("document" in answer) == answered
    if answered:
        notes = answer["document"]["runs"][0]["notes"]
        assert any("the other answer" in note for note in notes)
    else:
        assert "Broadcast" in answer["error"]["message"]

"""What the interpreter understands of real scripts, and what it refuses to guess."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.core.units import MIB
from gpuconsole.preflight import Analysis, analyse

Scan = Callable[..., Analysis]
MLP = """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 128)
        self.b = nn.Linear(128, 10)
    def forward(self, x):
        return self.b(F.relu(self.a(x)))
"""


def peak_bytes(estimate: Estimate) -> float:
    assert estimate.memory is not None, estimate.unknowns
    return estimate.memory.tensors_peak_mib * MIB


def test_an_mlp_by_hand(scan: Scan, training: Callable[..., str]) -> None:
    estimate = scan(training(MLP)).estimate(backend="cpu")
    memory = estimate.memory
    assert memory is not None
    parameters = 4 * (64 * 128 + 128 + 128 * 10 + 10)
    assert memory.parameters_mib * MIB == parameters
    assert memory.optimizer_mib * MIB == 2 * parameters + 4 * 2 * 4 + 4
    assert estimate.batch_size == 32
    assert estimate.batch_source is not None
    assert estimate.batch_source.kind == "constant"
    forward = 2 * 32 * (64 * 128 + 128 * 10)
    assert estimate.flops_per_step == pytest.approx(3 * forward, rel=0.02)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_parts_sum_and_total(scan: Scan, training: Callable[..., str], backend: str) -> None:
    memory = scan(training(MLP)).estimate(backend=backend).memory
    assert memory is not None
    parts = (
        memory.parameters_mib
        + memory.gradients_mib
        + memory.optimizer_mib
        + memory.activations_mib
        + memory.inputs_mib
        + memory.workspace_mib
    )
    assert parts == pytest.approx(memory.tensors_peak_mib)
    assert memory.total_mib == memory.context_mib + memory.reserved_mib
    assert memory.low_mib <= memory.total_mib <= memory.high_mib
    assert memory.reserved_mib >= memory.tensors_peak_mib


def test_argparse_default_argument_and_override(scan: Scan, training: Callable[..., str]) -> None:
    text = training(MLP).replace("batch_size=32", "batch_size=args.batch_size // 2")
    text = text.replace(
        "net = Net()",
        "net = Net()\n"
        + """
import argparse
p = argparse.ArgumentParser()
p.add_argument("-b", "--batch-size", type=int, default=48)
args = p.parse_args()
""",
    )
    assert scan(text).estimate().batch_size == 24
    assert scan(text, "--batch-size", "16").estimate().batch_size == 8
    plain = text.replace(" // 2", "")
    for words, kind, size in (((), "default", 48), (("-b", "16"), "argument", 16)):
        estimate = scan(plain, *words).estimate()
        assert estimate.batch_size == size
        assert estimate.batch_source is not None
        assert estimate.batch_source.kind == kind
    given = scan(plain).estimate(96, backend="cpu")
    written = scan(plain, "--batch-size=96").estimate(backend="cpu")
    assert peak_bytes(given) == peak_bytes(written)


def test_missing_required_argument_is_a_fault(scan: Scan, training: Callable[..., str]) -> None:
    text = (
        training(MLP)
        + """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--data-dir", required=True)
p.parse_args()
"""
    )
    assert "--data-dir" in scan(text).estimate().errors[0].message


def test_names_that_outlive_the_step_hold_memory(scan: Scan, training: Callable[..., str]) -> None:
    text = training(MLP, sample="(4096, 64)").replace("y = ", "y = ")
    kept = text.replace("F.cross_entropy(net(x), y)", "F.cross_entropy(out.mean(axis=1), y)")
    kept = kept.replace("    loss =", "    out = net(x)\n    loss =")
    inline = text.replace("net(x), y", "net(x).mean(axis=1), y")
    difference = peak_bytes(scan(kept).estimate(backend="cpu")) - peak_bytes(
        scan(inline).estimate(backend="cpu")
    )
    assert difference == 32 * 4096 * 10 * 4


def test_gradients_stay_unless_they_are_let_go(scan: Scan, training: Callable[..., str]) -> None:
    keep = scan(training(MLP)).estimate(backend="cpu")
    free = scan(training(MLP).replace("clear_grad()", "clear_grad(set_to_zero=False)"))
    assert peak_bytes(free.estimate(backend="cpu")) < peak_bytes(keep)


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [("SGD", 0), ("Momentum", 1), ("Adam", 2), ("AdamW", 2), ("RMSProp", 3), ("Lamb", 2)],
)
def test_optimizer_states(
    scan: Scan, training: Callable[..., str], optimizer: str, states: int
) -> None:
    memory = scan(training(MLP, optimizer=optimizer)).estimate().memory
    assert memory is not None
    # The learning rate is a tensor of one float.
    states_bytes = states * memory.parameters_mib * MIB + 4
    assert memory.optimizer_mib * MIB == pytest.approx(states_bytes)


def test_language(scan: Scan) -> None:
    """Closures, comprehensions, inheritance, partial, registries, properties, with, try."""
    analysis = scan("""
        import functools
        import numpy as np
        import paddle
        from paddle import nn

        REGISTRY = {}
        def register(name):
            def inside(cls):
                REGISTRY[name] = cls
                return cls
            return inside

        class Base(nn.Layer):
            width = 16
            @property
            def double(self):
                return self.width * 2
            @staticmethod
            def block(a, b, *, act=nn.ReLU):
                return nn.Sequential(nn.Linear(a, b), act())

        @register("deep")
        class Deep(Base):
            def __init__(self, sizes, **options):
                super().__init__()
                make = functools.partial(Base.block, act=nn.GELU)
                pairs = zip(sizes[:-1], sizes[1:])
                self.body = nn.LayerList([make(a, b) for a, b in pairs])
                self.scale = options.get("scale", 1.0)
                for i, (name, layer) in enumerate([("x", nn.Identity())]):
                    self.add_sublayer(f"{name}{i}", layer)
            def forward(self, x):
                for layer in self.body:
                    x = layer(x)
                return x * self.scale

        def batches(n):
            for _ in range(n):
                yield np.zeros((8, 16), "float32")

        try:
            net = REGISTRY["deep"]([16, Base.width, 32, 4], **{"scale": 2.0})
        except KeyError:
            raise SystemExit
        opt = paddle.optimizer.SGD(0.1, parameters=[p for p in net.parameters()])
        def train():
            global total
            total = 0
            for i, data in enumerate(batches(100)):
                with paddle.set_grad_enabled(True) if False else paddle.enable_grad():
                    loss = net(paddle.to_tensor(data)).mean()
                loss.backward(); opt.step(); opt.clear_grad()
                total += float(loss)
                if total > 3 and i % 10 == 0:
                    print("%d %.3f" % (i, total))
        if __name__ == "__main__":
            train()
    """)
    estimate = analysis.estimate()
    assert not estimate.errors
    assert estimate.memory is not None, estimate.unknowns
    parameters = 4 * (16 * 16 + 16 + 16 * 32 + 32 + 32 * 4 + 4)
    assert estimate.memory.parameters_mib * MIB == parameters


def test_modules_and_configuration_of_the_project(
    write: Callable[..., Path], training: Callable[..., str]
) -> None:
    write("from paddle import nn\nclass Net(nn.Linear):\n    pass\n", "nets.py")
    write("loader:\n  batch_size: 12\n", "config.yaml")
    text = training("from nets import Net").replace("Net()", "Net(64, 10)")
    text = text.replace("batch_size=32", "**cfg['loader']").replace(
        "opt =",
        "import yaml\nwith open('config.yaml') as f:\n    cfg = yaml.safe_load(f)\nopt =",
    )
    estimate = analyse(write(text)).estimate()
    assert estimate.batch_size == 12
    assert estimate.batch_source is not None
    assert estimate.batch_source.file.endswith("config.yaml")
    assert estimate.batch_source.line == 2


def test_model_fit_on_a_known_data_set(scan: Scan) -> None:
    estimate = scan("""
        import paddle
        from paddle.vision.transforms import ToTensor
        model = paddle.Model(paddle.vision.models.LeNet())
        model.prepare(paddle.optimizer.Adam(parameters=model.parameters()),
                      paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy())
        data = paddle.vision.datasets.MNIST(mode="train", transform=ToTensor())
        model.fit(data, epochs=5, batch_size=64, verbose=1)
    """).estimate()
    assert estimate.batch_size == 64
    assert estimate.memory is not None
    assert estimate.memory.parameters_mib * MIB == 61610 * 4


@pytest.mark.parametrize(
    ("name", "count"),
    [("resnet18", 11.69e6), ("resnet50", 25.56e6), ("vgg16", 138.36e6), ("mobilenet_v2", 3.5e6),
     ("mobilenet_v1", 4.23e6), ("mobilenet_v3_large", 5.48e6), ("alexnet", 61.1e6)],
)  # fmt: skip
def test_zoo_parameter_counts(
    scan: Scan, training: Callable[..., str], name: str, count: float
) -> None:
    text = training(f"from paddle.vision.models import {name} as Net", sample="(3, 224, 224)")
    memory = scan(text).estimate().memory
    assert memory is not None
    assert memory.optimizer_mib * MIB / 8 == pytest.approx(count, rel=0.005)


@pytest.mark.parametrize(("length", "flagged"), [(512, False), (513, True)])
def test_long_sequence_flag(
    scan: Scan, training: Callable[..., str], length: int, flagged: bool
) -> None:
    net = """
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(100, 16)
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 1)
            self.head = nn.Linear(16, 10)
        def forward(self, x):
            return self.head(self.encoder(self.embed(x)).mean(axis=1))
    """
    estimate = scan(training(net, sample=f"({length},)", dtype="int64")).estimate()
    assert estimate.memory is not None, estimate.unknowns
    assert ("long-sequence" in estimate.flags) is flagged


@pytest.mark.parametrize(
    "line",
    ["from paddle.distributed import fleet\nfleet.init(is_collective=True)",
     "paddle.distributed.init_parallel_env()", "wrapped = paddle.DataParallel(nn.Linear(2, 2))"],
)  # fmt: skip
def test_distributed_flag(scan: Scan, training: Callable[..., str], line: str) -> None:
    estimate = scan(training(MLP + "\n" + line)).estimate()
    assert estimate.flags == ("distributed",)
    assert estimate.memory is not None


# -- not guessed


def test_a_shape_out_of_data_is_unknown(scan: Scan, training: Callable[..., str]) -> None:
    text = training(MLP, sample='(int(open("n.txt").read()), 64)')
    estimate = scan(text).estimate()
    assert estimate.tier == "unknown"
    assert estimate.memory is None
    assert estimate.unknowns[0].line == 9
    assert "file" in estimate.unknowns[0].reason


def test_an_unknown_wrapper_around_the_network_is_unknown(
    scan: Scan, training: Callable[..., str]
) -> None:
    text = training(MLP).replace("net = Net()", "import secretlib\nnet = secretlib.wrap(Net())")
    estimate = scan(text).estimate()
    assert estimate.memory is None
    assert any("secretlib" in unknown.reason for unknown in estimate.unknowns)


def test_an_unknown_beside_the_memory_path_does_not_matter(
    scan: Scan, training: Callable[..., str]
) -> None:
    text = training(MLP).replace("net = Net()", "import secretlib\nsecretlib.log()\nnet = Net()")
    estimate = scan(text).estimate()
    assert estimate.tier == "static"
    assert estimate.unknowns
    assert 0 < estimate.coverage < 1


def test_a_script_that_trains_nothing_is_unknown(scan: Scan) -> None:
    estimate = scan("print('hello')").estimate()
    assert estimate.tier == "unknown"
    assert estimate.unknowns


# -- shapes that cannot be


@pytest.mark.parametrize(
    ("body", "words", "shapes"),
    [
        ("self.a = nn.Linear(63, 10)\n    def forward(self, x):\n        return self.a(x)",
         ("63", "64"), ((32, 64), (63, 10))),
        ("self.a = nn.Linear(64, 10)\n    def forward(self, x):\n"
         "        return paddle.concat([self.a(x), x[:4]], axis=1)",
         ("concat",), ((32, 10), (4, 64))),
        ("self.a = nn.Linear(64, 10)\n    def forward(self, x):\n"
         "        return paddle.matmul(self.a(x), self.a(x))",
         ("matmul",), ((32, 10), (32, 10))),
        ("self.a = nn.Conv2D(3, 8, 3)\n    def forward(self, x):\n"
         "        return self.a(x.reshape([-1, 1, 8, 8])).flatten(1)",
         ("3 input channels", "1 arrive"), ((32, 1, 8, 8), (8, 3, 3, 3))),
        ("self.a = nn.Linear(64, 10)\n    def forward(self, x):\n"
         "        return self.a(x.reshape([30, 64]))",
         ("reshape",), ((32, 64), (30, 64))),
    ],
)  # fmt: skip
def test_faults(
    scan: Scan, training: Callable[..., str], body: str, words: tuple[str, ...],
    shapes: tuple[tuple[int, ...], ...],
) -> None:  # fmt: skip
    net = (
        f"class Net(nn.Layer):\n    def __init__(self):\n        super().__init__()\n        {body}"
    )
    fault = scan(training(net)).estimate().errors[0]
    assert all(word in fault.message for word in words)
    assert fault.shapes == shapes
    assert fault.line > 10


def test_channels_last_pictures_in_a_channels_first_net(scan: Scan) -> None:
    """A picture that only went through Normalize stays channels-last; both faults are reported."""
    estimate = scan("""
        import paddle
        from paddle import nn
        from paddle.vision.transforms import Normalize
        class Small(nn.Layer):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2D(3, 8, 5)
                self.fc = nn.Linear(8 * 12 * 12, 100)
            def forward(self, x):
                x = nn.functional.max_pool2d(self.conv(x), 2)
                return self.fc(paddle.flatten(x, 1))
        net = Small()
        data = paddle.vision.datasets.Cifar100(transform=Normalize([127.5], [127.5]))
        opt = paddle.optimizer.SGD(parameters=net.parameters())
        for x, y in paddle.io.DataLoader(data, batch_size=4):
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward(); opt.step(); opt.clear_grad()
    """).estimate()
    first, second = estimate.errors
    assert first.shapes == ((4, 32, 32, 3), (8, 3, 5, 5))
    assert "1152" in second.message
    assert "1568" in second.message


def test_the_article_script(tmp_path: Path) -> None:
    script = Path(__file__).parents[4] / "shared" / "article" / "simple_cnn.py"
    if not script.exists():
        pytest.skip("the article's script is not on this machine")
    errors = analyse(script).estimate().errors
    assert [error.line for error in errors] == [14, 18]
    assert "6272" in errors[1].message
    assert "7200" in errors[1].message


def test_corpus_within_five_percent() -> None:
    import json

    corpus = Path(__file__).parents[4] / "shared" / "paddle-corpus"
    if not corpus.exists():
        pytest.skip("the measured corpus is not on this machine")
    errors: list[float] = []
    for entry in json.loads((corpus / "truth.json").read_text())["scripts"]:
        analysis = analyse(corpus / entry["entry"], (entry.get("argv") or "").split())
        if entry.get("expect") == "unknown":
            assert analysis.estimate(backend="cpu").tier == "unknown"
            continue
        for point in entry["points"]:
            if point["scoring"]:
                estimate = analysis.estimate(point["batch"], backend="cpu")
                errors.append(abs(peak_bytes(estimate) / point["peak_bytes"] - 1))
    errors.sort()
    assert errors[len(errors) // 2] < 0.01
    # One script saves its network at its end, which copies it on a CPU: its truth ends before.
    assert errors[-2] < 0.05
    assert errors[-1] < 0.06


READER = """
import numpy as np
import paddle
SIZE = {size}
def read():
    rows = []
    for i in range(1000):
        rows.append(np.zeros((64,), "float32"))
        if len(rows) == {test}:
            yield np.stack(rows)
            rows = []
net = paddle.nn.Linear(64, 64)
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for data in read():
    loss = net(paddle.to_tensor(data)).mean()
    loss.backward(); opt.step(); opt.clear_grad()
"""


def test_a_batch_that_a_generator_makes_is_found_and_replaced(scan: Scan) -> None:
    analysis = scan(READER.format(size=16, test="SIZE"))
    assert analysis.estimate().batch_size == 16
    other = scan(READER.format(size=40, test="SIZE")).estimate(backend="cpu")
    assert peak_bytes(analysis.estimate(40, backend="cpu")) == peak_bytes(other)


def test_a_batch_that_cannot_be_replaced_is_unknown_elsewhere(scan: Scan) -> None:
    analysis = scan(READER.format(size=4, test="SIZE * SIZE"))
    assert analysis.estimate().batch_size == 16
    assert analysis.estimate().memory is not None
    assert analysis.estimate(40).memory is None
    assert "batch size" in analysis.estimate(40).unknowns[0].reason


def test_one_iterator_can_be_asked_again(scan: Scan, training: Callable[..., str]) -> None:
    text = training(MLP).replace("for x, y in paddle", "batches = iter(paddle")
    text = text.replace("batch_size=32):", "batch_size=32))\nfor i in range(10):")
    text = text.replace("    loss =", "    x, y = next(batches)\n    loss =")
    estimate = scan(text).estimate()
    assert estimate.memory is not None, estimate.unknowns
    assert estimate.batch_size == 32

"""Where batches come from: data sets, samplers, transforms, NumPy, readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.core.units import MIB
from gpuconsole.preflight import Analysis, analyse

Write = Callable[..., Path]

HEAD = """
import random
import cv2
import numpy as np
import paddle
import paddle.nn as nn
import paddle.vision.transforms as T
from paddle.io import *
from PIL import Image
from paddle.vision.datasets import *
from paddle.text.datasets import *

{before}

net = nn.Linear(4, 4)
opt = paddle.optimizer.SGD(parameters=net.parameters())
for batch in {loader}:
    net(paddle.zeros([2, 4])).mean().backward()
    opt.step()
    opt.clear_grad()
"""


def inputs(write: Write, before: str, loader: str) -> tuple[float, Estimate]:
    """Return the bytes of one batch, of which seven are alive on the CPU."""
    script = write(HEAD.format(before=before, loader=loader))
    found = analyse(script).estimate(backend="cpu")
    assert found.memory is not None, (found.unknowns, found.errors)
    return found.memory.inputs_mib * MIB / 7, found


def bytes_of(*fields: tuple[tuple[int, ...], str]) -> int:
    return sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in fields)


def dataset(body: str, extra: str = "") -> str:
    return (
        "class Data(Dataset):\n"
        "    def __getitem__(self, i):\n" + indent(body, " " * 8) + "\n"
        "    def __len__(self):\n        return 1000\n" + indent(extra, " " * 4)
    )


SAMPLES = [
    ("return np.zeros((3, 4), 'float32')", [((8, 3, 4), "float32")]),
    ("return np.zeros((3, 4)), 1", [((8, 3, 4), "float64"), ((8,), "int64")]),
    ("return {'x': np.ones(5, dtype=np.int32), 'y': 2.5}", [((8, 5), "int32"), ((8,), "float64")]),
    ("return np.zeros(3), (1, [2.0, True])",
     [((8, 3), "float64"), ((8,), "int64"), ((8,), "float64"), ((8,), "bool")]),
    ("return np.float32(i), np.int64(i), np.array([i])",
     [((8,), "float32"), ((8,), "int64"), ((8, 1), "int64")]),
    ("rng = np.random.RandomState(i)\nreturn rng.randn(3, 2).astype('float32'), rng.randint(5)",
     [((8, 3, 2), "float32"), ((8,), "int64")]),
    ("rng = np.random.default_rng(i)\nreturn rng.standard_normal((3, 2), dtype=np.float32)",
     [((8, 3, 2), "float32")]),
    ("x = np.stack([np.arange(6)] * 2)\nreturn x / 2", [((8, 2, 6), "float64")]),
    ("x = np.zeros((2, 6), 'float32')\nreturn x / 2, x * 2.5, x.sum(axis=1), x > 0",
     [((8, 2, 6), "float32"), ((8, 2, 6), "float32"), ((8, 2), "float32"), ((8, 2, 6), "bool")]),
    ("x = np.zeros((4, 6), 'uint8')\nreturn x[:2], x[None, ..., ::2], x.T, x.mean(0), x.sum()",
     [((8, 2, 6), "uint8"), ((8, 1, 4, 3), "uint8"), ((8, 6, 4), "uint8"), ((8, 6), "float64"),
      ((8,), "int64")]),
    ("return np.eye(10, dtype='float32')[[i % 10, 3]]", [((8, 2, 10), "float32")]),
    ("a = np.zeros((3, 4)); return np.concatenate([a, a], 1), np.pad(a, ((1, 1), (0, 2)))",
     [((8, 3, 8), "float64"), ((8, 5, 6), "float64")]),
    ("a = np.arange(12).reshape(3, -1); return np.where(a > 2, a, 0.0), np.repeat(a, 2, axis=0)",
     [((8, 3, 4), "float64"), ((8, 6, 4), "int64")]),
    ("a = np.zeros((6, 4)); return [np.expand_dims(x, 0) for x in np.split(a, 3)]",
     [((8, 1, 2, 4), "float64")] * 3),
    ("n = int(np.ceil(7 / 2)); return np.zeros([n, int(np.prod([2, 3]))], np.float16)",
     [((8, 4, 6), "float16")]),
    ("s = random.randrange(8, 17, 4); y = random.randint(0, 32 - s)\n"
     "return np.zeros((32, 3), 'float32')[y:y + s]", [((8, 16, 3), "float32")]),
    ("x = np.zeros((20, 3), 'float32'); s = random.randint(0, 9); return x[s:s + 8]",
     [((8, 8, 3), "float32")]),
    ("img = cv2.imread('a.jpg'); img = cv2.cvtColor(img, cv2.COLOR_BGR2RGB)\n"
     "img = cv2.resize(img, (32, 24)).astype('float32') / 255.0\n"
     "return img.transpose((2, 0, 1)), cv2.resize(cv2.imread('m.png', 0), (32, 24))",
     [((8, 3, 24, 32), "float32"), ((8, 24, 32), "uint8")]),
    ("img = cv2.imread('a.jpg'); h, w, c = img.shape\n"
     "y = random.randint(0, h - 64); x = random.randint(0, w - 48)\n"
     "return img[y:y + 64, x:x + 48].astype('float32')", [((8, 64, 48, 3), "float32")]),
    ("img = Image.open('a.png').convert('L').resize((20, 10))\nreturn np.array(img), np.int32(1)",
     [((8, 10, 20), "uint8"), ((8,), "int32")]),
    ("img = Image.open('a.png').convert('RGB').resize((20, 10)).crop((2, 1, 12, 9))\n"
     "return np.asarray(img, dtype='float32')", [((8, 8, 10, 3), "float32")]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "fields"), SAMPLES, ids=range(len(SAMPLES)))
def test_samples(write: Write, body: str, fields: list[tuple[tuple[int, ...], str]]) -> None:
    found, estimate = inputs(write, dataset(body), "DataLoader(Data(), batch_size=8)")
    assert found == bytes_of(*fields)
    assert estimate.errors == ()


CHAINS = [
    ("T.Compose([T.Resize(16), T.ToTensor()])", ((8, 3, 16, 16), "float32")),
    ("T.Compose([T.Resize((20, 24)), T.RandomCrop(16, padding=2), T.Transpose()])",
     ((8, 3, 16, 16), "uint8")),
    ("T.Compose([T.Pad(4), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4), T.ToTensor()])",
     ((8, 3, 40, 40), "float32")),
    ("T.Compose([T.Pad((1, 2)), T.RandomRotation(10), T.ToTensor(data_format='HWC')])",
     ((8, 36, 34, 3), "float32")),
    ("T.Compose([T.Grayscale(), T.RandomResizedCrop((8, 12)), T.ToTensor(), T.Normalize(0.5)])",
     ((8, 3, 8, 12), "float32")),  # one number is taken three times, as Paddle takes it
    ("T.Normalize([127.5] * 3, [127.5] * 3, data_format='HWC')", ((8, 32, 32, 3), "float32")),
    ("lambda im: np.array(im).transpose(2, 0, 1) / 255.0", ((8, 3, 32, 32), "float64")),
]  # fmt: skip


@pytest.mark.parametrize(("chain", "field"), CHAINS, ids=range(len(CHAINS)))
def test_transforms(write: Write, chain: str, field: tuple[tuple[int, ...], str]) -> None:
    loader = f"DataLoader(Cifar10(mode='train', transform={chain}), batch_size=8)"
    assert inputs(write, "", loader)[0] == bytes_of(field, ((8,), "int64"))


NAMED = [
    ("MNIST(transform=T.ToTensor())", [((8, 1, 28, 28), "float32"), ((8, 1), "int64")]),
    ("FashionMNIST(mode='test', transform=T.Transpose(), backend='cv2')",
     [((8, 1, 28, 28), "float32"), ((8, 1), "int64")]),
    ("Flowers(transform=T.Compose([T.Resize((32, 32)), T.ToTensor()]))",
     [((8, 3, 32, 32), "float32"), ((8, 1), "int64")]),
    ("DatasetFolder('x', transform=T.Compose([T.Resize(40), T.CenterCrop(32), T.ToTensor()]))",
     [((8, 3, 32, 32), "float32"), ((8,), "int64")]),
    ("ImageFolder('x', transform=T.Compose([T.Resize((9, 9)), T.ToTensor()]))",
     [((8, 3, 9, 9), "float32")]),
    ("UCIHousing(mode='train')", [((8, 13), "float32"), ((8, 1), "float32")]),
    ("Imikolov(data_type='NGRAM', window_size=5)", [((8,), "int64")] * 5),
    ("TensorDataset([paddle.zeros([64, 3]), paddle.zeros([64], dtype='int64')])",
     [((8, 3), "float32"), ((8,), "int64")]),
    ("Subset(Cifar10(transform=T.ToTensor()), range(100))",
     [((8, 3, 32, 32), "float32"), ((8,), "int64")]),
    ("random_split(UCIHousing(), [300, 104])[1]", [((8, 13), "float32"), ((8, 1), "float32")]),
    ("ConcatDataset([UCIHousing(), UCIHousing(mode='test')])",
     [((8, 13), "float32"), ((8, 1), "float32")]),
    ("ComposeDataset([UCIHousing(), UCIHousing()])", [((8, 14), "float32")] * 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fields"), NAMED, ids=range(len(NAMED)))
def test_known_data_sets(
    write: Write, name: str, fields: list[tuple[tuple[int, ...], str]]
) -> None:
    found, _ = inputs(write, f"data = {name}", "DataLoader(data, batch_size=8)")
    assert found == bytes_of(*fields)


LOADERS = [
    "DataLoader(Data(), batch_sampler=BatchSampler(Data(), batch_size=8))",
    "DataLoader(Data(), batch_sampler=DistributedBatchSampler(Data(), 8, shuffle=True))",
    "DataLoader(Data(), batch_sampler=BatchSampler(sampler=RandomSampler(Data()), batch_size=8))",
    "DataLoader(Data(), batch_sampler=Own(8))",
    "DataLoader(Data(), batch_size=8, collate_fn=lambda s: [np.stack([x for x, _ in s]),"
    " np.array([y for _, y in s])])",
    "DataLoader(Data(), batch_size=8, collate_fn=collate)()",
    "DataLoader(Walk(), batch_size=8)",
]


@pytest.mark.parametrize("loader", LOADERS, ids=range(len(LOADERS)))
def test_loaders(write: Write, loader: str) -> None:
    before = dataset("return np.zeros(6, 'float32'), i % 3") + """
class Own(Sampler):
    def __init__(self, size):
        self.size = size
    def __iter__(self):
        batch = []
        for i in range(1000):
            batch.append(i)
            if len(batch) == self.size:
                yield batch
                batch = []
    def __len__(self):
        return 1000 // self.size

class Walk(IterableDataset):
    def __iter__(self):
        for i in range(1000):
            yield np.zeros(6, 'float32'), i % 3

def collate(samples):
    xs, ys = zip(*samples)
    x = np.zeros((len(xs), 6), dtype='float32')
    for i, one in enumerate(xs):
        x[i, :len(one)] = one
    return x, np.array(ys)
"""  # fmt: skip
    found, estimate = inputs(write, before, loader)
    assert found == bytes_of(((8, 6), "float32"), ((8,), "int64"))
    assert estimate.batch_size == 8


def test_a_batch_is_no_larger_than_the_data_set(write: Write) -> None:
    before = dataset("return np.zeros(6, 'float32')").replace("1000", "20")
    found = inputs(write, before, "DataLoader(Data(), batch_size=64)")[0]
    # The only batch of an epoch, and the one before it, which a name still holds.
    assert found * 7 == pytest.approx(2 * bytes_of(((20, 6), "float32")))


@pytest.mark.parametrize(
    ("loader", "alive", "once"),
    [
        ("DataLoader(Data(), batch_size=8)", 7, 7),
        ("DataLoader(Data(), batch_size=14)", 7, 7),
        ("DataLoader(Data(), batch_size=16)", 7, 7),
        ("DataLoader(Data(), batch_size=20)", 6, 5),
        ("DataLoader(Data(), batch_size=24, drop_last=True)", 5, 4),
        ("DataLoader(Data(), batch_size=24)", 6, 5),
        ("DataLoader(Data(), batch_sampler=BatchSampler(Data(), batch_size=32))", 5, 4),
        ("DataLoader(Data(), batch_size=50)", 3, 2),
    ],
)
def test_an_epoch_has_no_more_batches_waiting_than_are_left(
    write: Write, loader: str, alive: int, once: int
) -> None:
    before = dataset("return np.zeros(6, 'float32')").replace("1000", "100")
    head, loop = HEAD.split("for batch in")
    loop = "for batch in" + loop
    for epochs, batches in ((1, once), (2, alive), ("int(open('epochs').read())", alive)):
        text = head + f"for epoch in range({epochs}):\n" + indent(loop, "    ")
        script = write(text.format(before=before, loader=loader))
        estimate = analyse(script).estimate(backend="cpu")
        assert estimate.memory is not None, estimate.unknowns
        found = estimate.memory.inputs_mib * MIB
        assert found == pytest.approx(batches * 24 * (estimate.batch_size or 0)), epochs


def test_the_largest_batch_holds_for_data_of_any_length(write: Write) -> None:
    before = dataset("return np.zeros(6, 'float32')").replace("1000", "100")
    script = write(HEAD.format(before=before, loader="DataLoader(Data(), batch_size=32)"))
    analysis = analyse(script)
    line = analysis.line("cpu")
    assert line is not None
    assert line.at(32).sizes != analysis.outcome(None, "cpu").trace.sizes
    own = analysis.estimate(backend="cpu").memory
    reserved = analysis.reserved_at("cpu")
    assert own is not None
    assert reserved(32) == pytest.approx(own.reserved_mib)
    sizes = [reserved(one) or 0.0 for one in range(1, 80)]
    assert sizes == sorted(sizes)
    assert reserved(33) > reserved(32)  # type: ignore[operator]
    found = analysis.estimate(64, backend="cpu").memory
    assert found is not None
    assert reserved(64) == pytest.approx(found.reserved_mib)


def test_a_random_length_is_its_largest_and_flagged(write: Write) -> None:
    body = "n = random.randint(10, 30)\nreturn np.zeros((n, 4), 'float32')"
    found, estimate = inputs(write, dataset(body), "DataLoader(Data(), batch_size=8)")
    assert found == bytes_of(((8, 30, 4), "float32"))
    assert "variable-shape" in estimate.flags
    fixed = "n = np.random.randint(10, 30)\nreturn np.pad(np.zeros((n, 4)), ((0, 30 - n), (0, 0)))"
    found, estimate = inputs(write, dataset(fixed), "DataLoader(Data(), batch_size=8)")
    assert found == bytes_of(((8, 30, 4), "float64"))


def test_an_array_on_disk_says_its_shape_and_one_that_is_absent_is_asked_for(
    write: Write, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((100, 7), "float32"))
    body = "return self.x[i]"
    extra = "def __init__(self):\n    self.x = np.load('{}.npy')\n"
    loader = "DataLoader(Data(), batch_size=8)"
    found, _ = inputs(write, dataset(body, extra.format("x")), loader)
    assert found == bytes_of(((8, 7), "float32"))
    text = HEAD.format(before=dataset(body, extra.format("absent")), loader=loader)
    text = text.replace("net(paddle.zeros([2, 4]))", "net(batch)")
    estimate = analyse(write(text)).estimate(backend="cpu")
    assert estimate.memory is None
    assert [ask.name for ask in estimate.asks] == ["batch"]


READER = """
import numpy as np
import paddle

def reader(n):
    for _ in range(n):
        x = np.random.rand({batch}, 64).astype("float32")
        yield {give}

net = paddle.nn.Linear(64, 8)
opt = paddle.optimizer.SGD(parameters=net.parameters())
for epoch in range(2):
    for step, x in enumerate(reader(1000)):
        {take}
        net(x).mean().backward()
        opt.step()
        opt.clear_grad()
"""


@pytest.mark.parametrize(
    ("give", "take"),
    [
        ("x", "x = paddle.to_tensor(x)"),
        ("paddle.to_tensor(x)", "pass"),
        ("[x]", "x, = map(paddle.to_tensor, x)"),
    ],
)  # fmt: skip
def test_readers(write: Write, give: str, take: str) -> None:
    script = write(READER.format(batch=16, give=give, take=take))
    analysis = analyse(script)
    found = analysis.estimate(backend="cpu")
    assert found.memory is not None, found.unknowns
    assert found.batch_size == 16
    assert found.memory.tensors_peak_mib * MIB >= 16 * 64 * 4
    larger = analysis.estimate(32, backend="cpu")
    assert larger.memory is not None
    written = analyse(write(READER.format(batch=32, give=give, take=take), "w.py"))
    assert larger.memory == written.estimate(backend="cpu").memory


def picked(items: str) -> str:
    """A data set with its samples in a list that a loop fills."""
    return (
        "class Data(Dataset):\n"
        "    def __init__(self):\n"
        "        self.rows = []\n"
        "        for k in range(400):\n"
        f"            self.rows.append({items})\n"
        "    def __getitem__(self, i):\n"
        "        row = self.rows[i]\n"
        "        return row[0], np.int64(row[1])\n"
        "    def __len__(self):\n        return len(self.rows)\n"
    )


@pytest.mark.parametrize("form", ["({x}, {n})", "[{x}, {n}]", "{{0: {x}, 1: {n}}}"])
@pytest.mark.parametrize("count", ["3", "3 + k % 2"])
def test_what_data_picks_has_the_form_that_all_items_share(
    write: Write, form: str, count: str
) -> None:
    made = form.format(x="np.zeros((60, 8), 'float32') + k", n=count)
    size, found = inputs(write, picked(made), "DataLoader(Data(), batch_size=16)")
    assert size == bytes_of(((16, 60, 8), "float32"), ((16,), "int64"))
    assert not found.errors


def test_what_data_picks_is_never_taken_for_the_position(write: Write) -> None:
    # Unlike items have no common form: unknown, rather than a number with "too many indices".
    before = picked("(np.zeros((60, 8 + k % 2), 'float32'), 'a' * k)").replace(
        "return row[0], np.int64(row[1])", "return row[0][:, 2:], row[0][:, 0]"
    )
    script = write(HEAD.format(before=before, loader="DataLoader(Data(), batch_size=16)"))
    found = analyse(script).estimate(backend="cpu")
    assert not found.errors


def test_the_module_of_transforms_is_known_by_both_names(write: Write) -> None:
    before = (
        "from paddle.vision.transforms import transforms as own\n"
        "turn = own.Compose([own.Resize((20, 24)), own.Transpose()])\n"
        + dataset("return turn(np.zeros((50, 60, 3), 'uint8')).astype('float32')")
    )
    size, found = inputs(write, before, "DataLoader(Data(), batch_size=8)")
    assert size == bytes_of(((8, 3, 20, 24), "float32"))
    assert not found.unknowns


@pytest.mark.parametrize(
    "look",
    [
        "first = next(iter(DataLoader(Data(), batch_size=8)))",
        "for first in DataLoader(Data(), batch_size=8):\n    break",
        "for first in DataLoader(Data(), batch_size=8):\n    print(first)",
    ],
)
def test_a_loader_that_is_only_looked_at_hides_no_loop_of_the_scripts_own(
    write: Write, look: str
) -> None:
    before = dataset("return np.zeros(6, 'float32')") + f"\n{look}\n"
    text = HEAD.format(before=before, loader="range(5)").replace("[2, 4]", "[2000, 4]")
    found = analyse(write(text)).estimate(backend="cpu")
    plain = analyse(write(text.replace(look, ""))).estimate(backend="cpu")
    assert found.memory is not None, found.unknowns
    assert plain.memory is not None
    assert found.memory.tensors_peak_mib == pytest.approx(plain.memory.tensors_peak_mib, rel=0.05)


LOADED = """
import numpy as np
import paddle

class Data(paddle.io.Dataset):
    def __getitem__(self, i):
        return {sample}
    def __len__(self):
        return 1000

def peek():
    for x, y in paddle.io.DataLoader(Data(), batch_size=8):
        break

{before}
net = paddle.nn.Linear(4096, 2)
opt = paddle.optimizer.SGD(parameters=net.parameters())
for x, y in paddle.io.DataLoader(Data(), batch_size=8):
    net(x).sum().backward()
    opt.step()
    opt.clear_grad()
"""
FULL = "np.zeros((4096,), 'float32'), i % 2"
BATCH_MIB = 8 * (4096 * 4 + 8) / 2**20


def _inputs(scan: Callable[..., Analysis], **parts: str) -> float:
    memory = scan(LOADED.format(**parts)).estimate(backend="cpu").memory
    assert memory is not None
    return memory.tensors_peak_mib


@pytest.mark.parametrize(
    ("before", "epochs"),
    [
        ("peek()\n", 1),
        ("peek()\npeek()\n", 2),
        ("first = next(iter(paddle.io.DataLoader(Data(), batch_size=8)))\ndel first\n", 1),
        ("for i, b in enumerate(paddle.io.DataLoader(Data(), batch_size=8)):\n"
         "    if i == 1:\n        break\ndel b\n", 1),
    ],
)  # fmt: skip
def test_a_loader_left_early_keeps_what_waits(
    scan: Callable[..., Analysis], before: str, epochs: int
) -> None:
    """Measured with Paddle 3.3.1: five waiting batches for each epoch that was left."""
    plain = _inputs(scan, sample=FULL, before="")
    left = _inputs(scan, sample=FULL, before=before)
    assert left - plain == pytest.approx(epochs * 5 * BATCH_MIB, rel=1e-6)


def test_batches_that_wait_are_counted_for_assumed_inputs(write: Callable[..., Path]) -> None:
    known = analyse(write(LOADED.format(sample=FULL, before=""))).estimate(backend="cpu")
    text = LOADED.format(sample="load(i), i % 2", before="from spam import load")
    for name, hidden in (
        ("x", text),
        ("z", text.replace("net(x)", "net(z)").replace("    net", "    z = x\n    net")),
    ):
        found = analyse(write(hidden), assumptions={name: "[N, 4096] float32"})
        memory = found.estimate(backend="cpu").memory
        assert memory is not None
        assert known.memory is not None
        assert memory.tensors_peak_mib == pytest.approx(known.memory.tensors_peak_mib, rel=1e-3)


@pytest.mark.parametrize("written", ["8, 'relu'", "num_channels=8, act='relu', param_attr=None"])
def test_the_older_batch_norm_is_called_by_its_own_names(
    scan: Callable[..., Analysis], written: str
) -> None:
    def size(norm: str) -> float:
        layers = f"Sequential(paddle.nn.Linear(4096, 8), {norm})"
        text = LOADED.replace("Linear(4096, 2)", layers)
        memory = scan(text.format(sample=FULL, before="")).estimate().memory
        assert memory is not None
        return memory.tensors_peak_mib

    newer = "paddle.nn.BatchNorm1D(8), paddle.nn.ReLU()"
    assert size(f"paddle.nn.BatchNorm({written})") == size(newer)


def test_the_batch_size_is_that_of_the_loader_which_trains(write: Callable[..., Path]) -> None:
    path = write(
        """
        import numpy as np
        import paddle
        from paddle.io import DataLoader, Dataset

        class Rows(Dataset):
            def __getitem__(self, i):
                return np.zeros([64], "float32")
            def __len__(self):
                return 4000

        net = paddle.nn.Linear(64, 5)
        optimizer = paddle.optimizer.SGD(parameters=net.parameters())
        for x in DataLoader(Rows(), batch_size=96):
            with paddle.no_grad():
                net(x)
        for x in DataLoader(Rows(), batch_size=24):
            net(x).mean().backward()
            optimizer.step()
            optimizer.clear_grad()
        """
    )
    analysis = analyse(path)
    found = analysis.estimate(backend="cpu")
    assert found.batch_size == 24
    assert found.batch_source is not None
    assert "batch_size=24" in path.read_text().splitlines()[found.batch_source.line - 1]
    assert analysis.estimate(8, backend="cpu").batch_size == 8


def test_an_only_epoch_of_one_batch_ends_before_every_optimizer_has_stepped(
    write: Callable[..., Path],
) -> None:
    path = write(
        """
        import paddle
        from paddle.io import DataLoader, Dataset

        class Rows(Dataset):
            def __getitem__(self, i):
                return paddle.ones([64])
            def __len__(self):
                return 20

        body, head = paddle.nn.Linear(64, 32), paddle.nn.Linear(32, 5)
        first = paddle.optimizer.Adam(parameters=body.parameters())
        second = paddle.optimizer.Adam(parameters=head.parameters())
        for epoch in range(1):
            for x in DataLoader(Rows(), batch_size=32):
                head(body(x)).mean().backward()
                first.step()
                first.clear_grad()
        for epoch in range(3):
            for x in DataLoader(Rows(), batch_size=10):
                head(body(x)).mean().backward()
                second.step()
                second.clear_grad()
        """
    )
    found = analyse(path).estimate(backend="cpu")
    assert found.memory is not None, found.unknowns

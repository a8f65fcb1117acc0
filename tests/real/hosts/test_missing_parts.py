"""Scripts whose libraries or data are not on this machine: measured all the same, or refused with
what is missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.tiers import measured
from tests.real.probe.test_probe import messages

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]

HEAD = """
import numpy as np
import paddle
from paddle import nn
import paddle.nn.functional as F
"""
LOOP = """
net = nn.Sequential(nn.Flatten(), nn.Linear(48, 10))
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
def train(loader):
    for x, y in loader:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
"""
SAMPLES = """
class Samples(paddle.io.Dataset):
    def __getitem__(self, i):
        return np.zeros([3, 4, 4], "float32"), np.int64(i % 10)
    def __len__(self):
        return 64
"""
LOGS = (
    HEAD
    + """
import nolib_progress
from nolib_board import Writer, BoardError
from nolib_board.utils.text import fmt as form
import nolib_plot.pyplot as plt
try:
    import nolib_optional
except ImportError:
    nolib_optional = None
try:
    from nolib_fused import layer
except Exception as error:
    layer = None
import importlib.util
assert nolib_optional is None and layer is None
assert importlib.util.find_spec("nolib_other") is None
class Watch(nolib_progress.Callback):
    def __init__(self):
        super().__init__("x")
        self.seen = 0
plt.figure(figsize=(3, 4)).add_subplot(111).plot([1, 2])
plt.rcParams["font.size"] = 3
import nolib_hub.model_zoo as zoo
for name, value in zoo.load_url("https://models.example/net.pth").items():
    net.state_dict()[name] = value
@nolib_progress.timed
def square(x):
    return x * x
assert square(3) == 9
assert not isinstance(3, Writer)
"""
    + SAMPLES
    + LOOP
    + """
watch = Watch()
with Writer("logs") as writer:
    bar = nolib_progress.tqdm(paddle.io.DataLoader(Samples(), batch_size=8), desc="train")
    for number, (x, y) in enumerate(bar):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        writer.add_scalar("loss", loss, number)
        bar.set_postfix(loss=loss.item())
"""
)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(text: str) -> Path:
        script = tmp_path / "train.py"
        script.write_text(text)
        return script

    return written


def notes(script: Path) -> tuple[str, ...]:
    """Measure a script and return what its answer says of what was made up."""
    last = messages(script)[-1]
    assert "document" in last, last
    found = measured.load(last["document"])
    assert found.recording is not None
    estimate = found.estimate(16, backend="cpu")
    assert estimate.memory is not None
    return estimate.notes


def test_libraries_that_log_are_stood_in_for_and_named(write: Any) -> None:
    said = "\n".join(notes(write(LOGS)))
    assert "Not installed here" in said
    assert "nolib_board, nolib_hub, nolib_plot, nolib_progress." in said
    assert "weights by nolib_hub.model_zoo.load_url" in said
    assert "nolib_optional" not in said
    assert "nolib_fused" not in said


@pytest.mark.parametrize(
    "text",
    [
        "x = nolib_ops.rearrange(paddle.zeros([2, 3]), 'a b -> b a')\nx.shape",
        "net = nolib_ops.Net(12)\nnet(paddle.zeros([2, 3])).mean().backward()",
        "net = nn.Linear(3, nolib_ops.settings.width)",
        "net = nolib_ops.convert(nn.Linear(3, 3))\nnet(paddle.zeros([2, 3]))",
        "for name in nolib_ops.names(): pass",
        "x = paddle.to_tensor(nolib_ops.read('picture.jpg'))",
    ],
)
def test_a_library_that_decides_the_memory_is_needed_by_name(write: Any, text: str) -> None:
    error = messages(write(HEAD + "import nolib_ops\n" + text + "\n"))[-1]["error"]
    assert "nolib_ops" in error["message"]
    assert "installed here" in error["message"]
    assert "job's image" in error["message"]


PICTURES = (
    HEAD
    + """
import os
from PIL import Image
class Listed(paddle.io.Dataset):
    def __init__(self, root, index):
        assert os.path.exists(index), index
        if not os.path.isdir(root):
            raise ValueError("no such folder")
        with open(index) as lines:
            self.rows = [line.strip().split(" ") for line in lines]
        self.root = root
        for name, _ in self.rows[:3]:
            assert os.path.exists(os.path.join(root, name))
    def __getitem__(self, i):
        name, label = self.rows[i]
        picture = Image.open(os.path.join(self.root, name)).convert("RGB").resize((4, 4))
        return np.asarray(picture, "float32").transpose(2, 0, 1), np.int64(label)
    def __len__(self):
        return len(self.rows)
assert not os.path.exists("output/last.pdparams")
try:
    open("state.json")
except FileNotFoundError:
    pass
else:
    raise SystemExit("made up what the script can do without")
"""
    + LOOP
    + """
state = paddle.load("weights/start.pdparams")
net.set_state_dict(state)
train(paddle.io.DataLoader(Listed("data/pictures", "data/train_list.txt"), batch_size=8))
"""
)
FOLDERS = (
    HEAD
    + """
from paddle.vision.transforms import Compose, Resize, ToTensor
shaped = Compose([Resize((4, 4)), ToTensor()])
"""
    + LOOP
    + """
data = paddle.vision.datasets.DatasetFolder("data/train", transform=shaped)
train(paddle.io.DataLoader(data, batch_size=8))
"""
)
CLASSES = (
    HEAD
    + """
import os
from PIL import Image
class Classed(paddle.io.Dataset):
    def __init__(self, root):
        self.rows = [(os.path.join(root, name, one), number)
                     for number, name in enumerate(sorted(os.listdir(root)))
                     for one in os.listdir(os.path.join(root, name))]
    def __getitem__(self, i):
        picture = Image.open(self.rows[i][0]).resize((4, 4))
        return np.asarray(picture, "float32").transpose(2, 0, 1), np.int64(self.rows[i][1] % 10)
    def __len__(self):
        return len(self.rows)
"""
    + LOOP
    + """
train(paddle.io.DataLoader(Classed("data/train"), batch_size=8, shuffle=True))
"""
)
MASKS = (
    HEAD
    + """
import glob
from PIL import Image
class Segmented(paddle.io.Dataset):
    pictures = sorted(glob.glob("data/img/*/*.jpg"))
    labels = sorted(glob.glob("data/labels/*/*_gt.png"))
    def __getitem__(self, i):
        picture = np.asarray(Image.open(self.pictures[i]).resize((4, 4)), "float32")
        label = np.asarray(Image.open(self.labels[i]).resize((4, 4)), "int64")
        return picture.transpose(2, 0, 1), label
    def __len__(self):
        assert len(self.pictures) == len(self.labels)
        return len(self.pictures)
net = nn.Conv2D(3, 10, 3, padding=1)
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
for x, y in paddle.io.DataLoader(Segmented(), batch_size=8):
    loss = F.cross_entropy(net(x), y, axis=1)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""
)
DOWNLOADS = (
    HEAD
    + """
import hashlib, os, tarfile, urllib.request
path, _ = urllib.request.urlretrieve("https://paddle.example/w/net_v1.tar.gz", "w.tar.gz")
with open(path, "rb") as whole:
    found = hashlib.md5(whole.read())
assert found.hexdigest() == "0123456789abcdef" * 2 and len(found.digest()) == 16
assert hashlib.md5(b"own").hexdigest() != "0123456789abcdef" * 2
with tarfile.open(path) as packed:
    packed.extractall(".")
os.rename("net_v1/model.pdparams", "own.pdparams")
url = "https://paddle.example/w/net.pdparams?v=2"
with urllib.request.urlopen(url) as reply, open("other.pdparams", "wb") as file:
    file.write(reply.read())
"""
    + SAMPLES
    + LOOP
    + """
for name in ("own", "other"):
    net.set_state_dict(paddle.load(name + ".pdparams"))
train(paddle.io.DataLoader(Samples(), batch_size=8))
"""
)


def overlaid(script: Path, mode: Any) -> dict[str, Any]:
    """Measure a script in a copy of its folder; its own stays as it is."""
    before = sorted(script.parent.rglob("*"))
    copy = script.parent.with_name("copy")
    last = messages(script, mode, source=str(script.parent), root=str(copy))[-1]
    assert sorted(script.parent.rglob("*")) == before
    return last


@pytest.mark.parametrize("mode", ["traced", "meta"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PICTURES, ("data/train_list.txt", "a list", "data/pictures", "weights/start.pdparams")),
        (FOLDERS, ("data/train", "pictures of 500 x 375")),
        (CLASSES, ("data/train",)),
        (MASKS, ("data/img", "data/labels")),
        (DOWNLOADS, ("Not downloaded: net_v1.tar.gz", "net.pdparams")),
    ],
    ids=["list", "folders", "classes", "masks", "downloads"],
)
def test_data_that_is_missing_is_made_up_in_the_copy_and_named(
    tmp_path: Path, text: str, words: tuple[str, ...], mode: Any
) -> None:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(text)
    last = overlaid(script, mode)
    assert "document" in last, last
    assert all(run["cycles_seen"] >= 3 for run in last["document"]["runs"])
    said = "\n".join(measured.load(last["document"]).notes)
    for word in words:
        assert word in said


def test_data_outside_of_the_project_is_made_up_in_folders_that_are_given_for_it(
    tmp_path: Path,
) -> None:
    script, data = tmp_path / "project" / "train.py", tmp_path / "data7"
    for folder in (script.parent, data):
        folder.mkdir()
    script.write_text(FOLDERS.replace("data/train", str(data / "faces")))
    asked = {"source": str(script.parent), "root": str(tmp_path / "copy")}
    error = messages(script, "meta", **asked)[-1]["error"]
    assert error["kind"] == "data"
    assert list(data.iterdir()) == []
    last = messages(script, "meta", **asked, outside=[str(data)])[-1]
    said = "\n".join(measured.load(last["document"]).notes)
    assert f"{data / 'faces'} is not here; in its place: pictures" in said


def test_an_error_that_may_come_of_made_up_data_says_so(tmp_path: Path) -> None:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(
        HEAD + "import os, re\nfor name in os.listdir('data/faces'):\n"
        "    print(re.search(r'person(\\d+)', name).group(1))\n"
    )
    error = overlaid(script, "meta")["error"]
    assert "Data made up: data/faces is not here" in error["message"]


@pytest.mark.parametrize("name", ["table.csv", "arrays.npy", "settings.yaml"])
def test_a_file_whose_content_cannot_be_known_is_asked_for(tmp_path: Path, name: str) -> None:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(HEAD + f"open('data/{name}', 'rb').read()\n")
    error = overlaid(script, "traced")["error"]
    assert error["kind"] == "data"
    assert name in error["message"]


SPAWNED = (
    HEAD
    + "import paddle.distributed as dist\nfrom paddle.distributed.spawn import spawn\n"
    + SAMPLES
    + LOOP
    + """
paddle.set_device(device="gpu")
assert paddle.hub.list("someone/nets:main") == []
def work(samples, batch):
    dist.init_parallel_env()
    assert dist.get_rank() == 0
    train(paddle.io.DataLoader(samples, batch_size=batch))
assert spawn is dist.spawn
dist.spawn(work, args=(Samples(), 8), nprocs=2)
"""
)
WORKED = (
    HEAD
    + """
import multiprocessing
def work(queue):
    while True:
        queue.put(np.zeros([8, 3, 4, 4], "float32"))
queue = multiprocessing.Queue(maxsize=4)
multiprocessing.Process(target=work, args=(queue,), daemon=True).start()
net = nn.Sequential(nn.Flatten(), nn.Linear(48, 10))
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
for _ in range(5):
    net(paddle.to_tensor(queue.get())).mean().backward()
    optimizer.step()
    optimizer.clear_grad()
"""
)
EXTENDED = (
    HEAD
    + "from paddle.utils.cpp_extension import load\n"
    + "own = load(name='nolib_mask', sources=['mask.cc', 'mask.cu'])\nmask = own.psa_mask\n"
)


@pytest.mark.parametrize("mode", ["traced", "meta"])
def test_what_is_spawned_is_run_here_and_hubs_list_nothing(write: Any, mode: Any) -> None:
    last = messages(write(SPAWNED), mode)[-1]
    assert "document" in last, last
    said = "\n".join(measured.load(last["document"]).notes)
    assert "2 processes are measured as one" in said
    assert "Not downloaded: someone/nets:main" in said


@pytest.mark.parametrize("end", ["", "import os\nos.kill(os.getpid(), 9)\n"])
def test_an_answer_does_not_wait_for_processes_that_the_script_started(
    write: Any, end: str
) -> None:
    script = write(WORKED.partition("for _")[0] + end if end else WORKED)
    last = messages(script, "meta")[-1]
    assert ("error" if end else "document") in last, last


def test_an_extension_that_is_not_built_is_needed_where_it_computes(write: Any) -> None:
    train = SAMPLES + LOOP + "train(paddle.io.DataLoader(Samples(), batch_size=8))\n"
    last = messages(write(EXTENDED + train), "meta")[-1]
    assert "document" in last, last
    for use in ("mask(paddle.zeros([2, 3])).shape", "F.softmax(mask(paddle.zeros([2, 3])))"):
        error = messages(write(f"{EXTENDED}{use}\n"), "meta")[-1]["error"]
        assert "nolib_mask" in error["message"]
        assert error["kind"] == "library"


OPTION = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--batchSize", type=int, default=16)
parser.add_argument("--width", type=int, default=16)
options = vars(parser.parse_args())
train_with = {name.lower(): value for name, value in options.items()}
net = nn.Sequential(nn.Flatten(), nn.Linear(48, 10))
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
loader = paddle.io.DataLoader(Samples(), batch_size=train_with["batch" + "size"], drop_last=True)
for x, y in loader:
    loss = net(x + paddle.rand([train_with["batch" + "size"], 3, 4, 4])).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def test_a_batch_size_that_only_an_option_changes_everywhere_is_put_in_there(write: Any) -> None:
    script = write(HEAD + SAMPLES + OPTION)
    batch = {"how": "loader", "value": 16}
    last = messages(script, "meta", batch=batch, batches=[2, 4])[-1]
    assert "document" in last, last
    runs = last["document"]["runs"]
    assert [(run["batch"], run["how"]) for run in runs] == [(2, "argument"), (4, "argument")]
    assert "options" not in runs[0]


def test_a_script_that_replaces_the_size_of_tensors_is_measured(write: Any) -> None:
    train = SAMPLES + LOOP + "train(paddle.io.DataLoader(Samples(), batch_size=8))\n"
    for mode in ("meta", "traced"):
        script = write(f"{HEAD}paddle.Tensor.size = lambda self, axis=None: self.shape\n{train}")
        last = messages(script, mode)[-1]
        assert "document" in last, last


def test_weights_that_git_lfs_did_not_fetch_are_not_loaded(write: Any) -> None:
    train = SAMPLES + LOOP + "train(paddle.io.DataLoader(Samples(), batch_size=8))\n"
    script = write(f"{HEAD}assert paddle.load('net.pdparams') == {{}}\n{train}")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:5ae8\nsize 12\n"
    (script.parent / "net.pdparams").write_bytes(pointer)
    last = messages(script, "meta")[-1]
    assert "document" in last, last
    said = "\n".join(measured.load(last["document"]).notes)
    assert "net.pdparams stands for a file of Git LFS that was not fetched" in said


def test_a_module_that_the_project_builds_is_stood_in_for_like_a_library(write: Any) -> None:
    train = SAMPLES + LOOP + "train(paddle.io.DataLoader(Samples(), batch_size=8))\n"
    script = write(f"{HEAD}from ops.cut import cut\nimport ops.boxes.join as join\n{train}")
    (script.parent / "ops" / "boxes").mkdir(parents=True)
    for name in ("ops/cut.pyx", "ops/boxes/join.cpp", "ops/boxes/__init__.py"):
        (script.parent / name).touch()
    last = messages(script, "meta")[-1]
    assert "document" in last, last
    assert "ops.boxes.join, ops.cut." in "\n".join(measured.load(last["document"]).notes)
    script.write_text(f"{HEAD}import ops.cut\nnp.zeros(ops.cut.width)\n")
    assert "needs ops.cut: it is not installed" in messages(script, "meta")[-1]["error"]["message"]
    script.write_text(f"{HEAD}import ops.other\n")
    error = messages(script, "meta")[-1]["error"]
    assert "No module named 'ops.other'" in error["message"]


OLDER = (
    HEAD
    + """
import collections, inspect
from collections import Mapping
from PIL import Image
import yaml
assert np.zeros(2, np.int).dtype == np.dtype(int) and np.Inf > 0 and isinstance({}, Mapping)
assert np.float is float and Image.ANTIALIAS == Image.LANCZOS
assert yaml.load("width: 48") == {"width": 48}
assert list(yaml.load_all("width: 48")) == [{"width": 48}]
assert inspect.getargspec(lambda x: x)[0] == inspect.getargspec(lambda x: x).args == ["x"]
assert not hasattr(np, "never")
"""
)


def test_names_of_older_libraries_are_given_here_and_not_in_the_jobs_image(write: Any) -> None:
    train = SAMPLES + LOOP + "train(paddle.io.DataLoader(Samples(), batch_size=8))\n"
    last = messages(write(OLDER + train), "meta")[-1]
    assert "document" in last, last
    said = "\n".join(measured.load(last["document"]).notes)
    for name in ("numpy.int ", "collections.Mapping", "yaml.load ", "PIL.Image.ANTIALIAS"):
        assert name in said
    error = messages(write(f"{HEAD}np.Inf + 1\n"), "meta", image=True)[-1]["error"]
    assert "Inf" in error["message"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("parser.add_argument('--config', required=True)\nparser.parse_args()",
         "arguments are required: --config"),
        ("print('No folder given.')\nsys.exit(1)", "No folder given."),
    ],
)  # fmt: skip
def test_a_script_that_ends_itself_is_quoted(write: Any, line: str, words: str) -> None:
    script = write(f"{HEAD}import argparse, sys\nparser = argparse.ArgumentParser()\n{line}\n")
    assert words in messages(script, "meta")[-1]["error"]["message"]


SETTINGS = """
from yacs.config import CfgNode as CN
from easydict import EasyDict as edict
cfg = CN()
cfg.NET = CN(new_allowed=True)
cfg.NET.WIDTH = 48
cfg.freeze()
train_settings = edict(batch=8)
"""


@pytest.mark.skipif(
    any(importlib.util.find_spec(one) is not None for one in ("yacs", "easydict")),
    reason="the libraries are installed",
)
def test_settings_of_missing_libraries_are_read(write: Any) -> None:
    run = "train(paddle.io.DataLoader(Samples(), batch_size=train_settings.batch))\n"
    last = messages(
        write(HEAD + SETTINGS + SAMPLES + LOOP.replace("48", "cfg.NET.WIDTH") + run), "meta"
    )[-1]
    assert "document" in last, last
    assert "easydict, yacs" in "\n".join(measured.load(last["document"]).notes)


GATHERED = (
    HEAD
    + "import paddle.distributed as dist\n"
    + SAMPLES
    + LOOP
    + """
dist.init_parallel_env()
dist.barrier()
paddle.utils.run_check()
total, parts, things = paddle.ones([4]), [], []
dist.all_reduce(total)
dist.broadcast(total, src=0)
dist.all_gather(parts, total)
dist.all_gather_object(things, {"a": 1})
dist.stream.all_reduce(total, sync_op=False).wait()
dist.fleet.init(is_collective=True)
net = dist.fleet.distributed_model(net)
assert parts[0].shape == [4] and things == [{"a": 1}]
train(paddle.io.DataLoader(Samples(), batch_size=8))
"""
)


@pytest.mark.parametrize("mode", ["traced", "meta"])
def test_what_talks_to_other_ranks_is_alone(write: Any, mode: Any) -> None:
    last = messages(write(GATHERED), mode)[-1]
    assert "document" in last, last
    assert all(run["cycles_seen"] >= 3 for run in last["document"]["runs"])


WORKERS = (
    HEAD
    + "from multiprocessing import Process, Queue\n"
    + SAMPLES
    + LOOP
    + """
def fill(queue):
    while True:
        queue.put(np.zeros([8, 3, 4, 4], "float32"))
queue = Queue(maxsize=2)
workers = [Process(target=fill, args=(queue,), daemon=True) for _ in range(2)]
for one in workers:
    one.start()
while True:
    train([(paddle.to_tensor(queue.get()), paddle.zeros([8], "int64"))])
"""
)


def test_processes_that_a_script_leaves_behind_hold_up_no_answer(write: Any) -> None:
    last = messages(write(WORKERS), "meta")[-1]
    assert "run" in last or "document" in last, last


OWN_LOOP = (
    HEAD
    + """
import random
net = nn.Linear(64, 8)
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
while True:
    x = paddle.zeros([random.randint(100, 200), 64])
    F.mse_loss(net(x), paddle.zeros([8])).backward()
    optimizer.step()
    optimizer.clear_grad()
"""
)


def test_a_loop_without_a_loader_is_measured_as_it_is_written(write: Any) -> None:
    last = messages(write(OWN_LOOP), "meta")[-1]
    assert len(last["document"]["runs"]) == 1
    estimate = measured.load(last["document"]).estimate(None, backend="cpu")
    assert estimate.memory is not None, estimate

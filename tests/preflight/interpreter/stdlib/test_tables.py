"""Tables, counted words and readers of readers: what of the project's data is known exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuconsole.preflight import Analysis
from gpuconsole.preflight.interpreter.domain.values import Unknown
from tests.preflight.modelled import modelled

ROWS = [f"u{i % 7},{'x' if i % 2 else 'y'},{i % 5 + 1}" for i in range(2600)]
READ = """
import csv
from collections import Counter
with open("ratings.csv", newline="") as f:
    rows = list(csv.DictReader(f))
with open("ratings.csv") as f:
    reader = csv.reader(f)
    head = next(reader)
    plain = [one for one in reader]
with open("semi.txt") as f:
    semi = list(csv.reader(f, delimiter=";"))
short = list(csv.DictReader(["a,b", "1", "2,3,4"]))
named = csv.DictReader(["1,2"], fieldnames=["p", "q"])
writer = csv.writer(open("out.csv", "w"))
writer.writerow([1, 2])
words, sentences = [], []
for line in open("words.txt"):
    line = line.rstrip("\\n")
    if not line:
        sentences.append(words)
        words = []
        continue
    words.append(line.split("\\t")[0])
counted = Counter(w for ws in sentences for w in ws)
letters = Counter(c for ws in sentences for w in ws for c in w)
itos = ["<unk>"]
for token, times in sorted(counted.items(), key=lambda kv: (-kv[1], kv[0])):
    if times >= 2:
        itos.append(token)
"""
EXPRESSIONS = {
    "len(rows)": 2600, "sorted(set(r['user'] for r in rows))": [f"u{i}" for i in range(7)],
    "int(rows[1]['stars'])": 2, "head": ["user", "kind", "stars"], "len(plain)": 2600,
    "semi": [["a", "b"], ["c,d", "e"]],
    "short": [{"a": "1", "b": None}, {"a": "2", "b": "3", None: ["4"]}],
    "list(named)": [{"p": "1", "q": "2"}],
    "len(sentences)": 800, "len(counted)": 62, "len(letters)": 11, "len(itos)": 62,
}  # fmt: skip


def test_tables_and_word_lists_of_the_project_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("\n".join(["user,kind,stars", *ROWS]) + "\n")
    (tmp_path / "semi.txt").write_text('a;b\n"c,d";e\n')
    lines = [f"w{i % 61}\tO\nw{i % 10}\tO\nw{i % 3}\tO\n\n" for i in range(799)]
    (tmp_path / "words.txt").write_text("".join(lines) + "w88\tO\n\n")
    made = [f"r{place} = {one}" for place, one in enumerate(EXPRESSIONS)]
    found = modelled(tmp_path / "all.py", READ + "\n".join(made))
    assert [found[f"r{place}"] for place in range(len(made))] == list(EXPRESSIONS.values())


TABLE = """
import csv
import numpy as np
import paddle
import paddle.nn as nn

rows = list(csv.DictReader(open("elsewhere.csv")))
users = {name: place for place, name in enumerate(sorted(set(r["user"] for r in rows)))}
net = nn.Embedding(len(users), 16)
opt = paddle.optimizer.SGD(parameters=net.parameters())
net(paddle.to_tensor(np.zeros((8,), "int64"))).mean().backward()
opt.step()
"""


def test_a_table_that_is_not_there_is_asked_about(scan: Callable[..., Analysis]) -> None:
    found = scan(TABLE).estimate(backend="cpu")
    assert found.memory is None
    assert found.asks


GATHERED = """
import numpy as np
import paddle
import paddle.nn as nn

def samples():
    for place in range(1600):
        yield np.random.rand(768).astype("float32"), place % 10

def batched(size):
    held = []
    for one in samples():
        held.append(one)
        if len(held) == size:
            yield [np.stack(column) for column in zip(*held)]
            held = []

net = nn.Linear(768, 10)
opt = paddle.optimizer.Adam(parameters=net.parameters())
for x, y in {batches}:
    loss = nn.functional.cross_entropy(net(paddle.to_tensor(x)), paddle.to_tensor(y))
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def test_a_generator_gathers_what_another_gives(scan: Callable[..., Analysis]) -> None:
    found = scan(GATHERED.format(batches="batched(32)")).estimate(backend="cpu")
    made = "[(np.zeros((32, 768), 'float32'), np.zeros((32,), 'int64')) for _ in range(3)]"
    plain = scan(GATHERED.format(batches=made)).estimate(backend="cpu")
    assert found.memory is not None, found.unknowns
    assert found.memory == plain.memory


NORM = """
import paddle
x = paddle.create_parameter([8, 64, 32], "float32")
opt = paddle.optimizer.SGD(0.1, parameters=[x])
for _ in range(3):
    y = paddle.norm(x, {order})
    assert list(y.shape) == {shape}
    y.mean().backward()
    opt.step()
    opt.clear_grad()
"""


@pytest.mark.parametrize(
    ("order", "shape", "peak"),
    [
        # Bytes that Paddle 3.3.1 held at most.
        ("axis=[1, 2]", [8], 462_896), ("p=2, axis=[-2, -1], keepdim=True", [8, 1, 1], 462_896),
        ("p='nuc', axis=(1, 2)", [8], 462_896), ("p='fro', axis=[1, 2]", [8], 196_680),
        ("p=1, axis=[1, 2]", [8], 198_696), ("p=float('-inf'), axis=[2, 1]", [8], 198_696),
        ("axis=[0, 1]", [32], 479_376),
    ],
)  # fmt: skip
def test_norms_over_two_axes(
    scan: Callable[..., Analysis], order: str, shape: list[int], peak: int
) -> None:
    found = scan(NORM.format(order=order, shape=shape)).estimate(backend="cpu")
    assert found.memory is not None, found.unknowns
    assert found.memory.tensors_peak_mib * 2**20 == pytest.approx(peak, rel=0.0001)


FILES = """
import csv, glob, io, os, json
from pathlib import Path
here = os.path.dirname(os.path.abspath(__file__))
names = sorted(glob.glob(os.path.join(here, "data", "*.csv")))
with open(names[0], newline="") as f:
    sample = f.read(40)
    f.seek(0)
    dialect = csv.Sniffer().sniff(sample)
    reader = csv.reader(f, dialect)
    head = next(reader)
    rest = list(reader)
with open("data/a.csv") as f:
    first, second = f.readline(), next(f)
    others = [line.rstrip() for line in f]
    after = f.read()
class Bars(csv.excel):
    delimiter = "|"
barred = list(csv.reader(["1|2"], Bars))
buffer = io.StringIO()
buffer.write("x\\n")
buffer.write("y\\n")
binary = open("data/a.csv", "rb").readline()
latin = open("old.txt", encoding="latin-1").read()
tree = [(os.path.basename(d), sorted(ds), sorted(fs)) for d, ds, fs in os.walk("data")]
"""
OF_FILES = {
    "[os.path.basename(one) for one in names]": ["a.csv", "b.csv"],
    "head": ["x", "y"], "rest": [["1", "2"], ["3", "4"]], "first": "x;y\n", "second": "1;2\n",
    "others": ["3;4"], "after": "", "barred": [["1", "2"]], "buffer.getvalue()": "x\ny\n",
    "list(io.StringIO('a\\nb'))": ["a\n", "b"], "binary.decode()": "x;y\n", "latin": "caf\xe9",
    "sorted(os.listdir('data'))": ["a.csv", "b.csv", "deep"], "os.path.isdir('data')": True,
    "os.path.isdir('old.txt')": False,
    "[p.name for p in sorted(Path(here).rglob('*.csv'), key=str)]": ["a.csv", "b.csv", "c.csv"],
    "[p.name for p in Path('data').iterdir()]": ["a.csv", "b.csv", "deep"],
    "glob.glob('data/**/c.csv', recursive=True)": ["data/deep/c.csv"],
    "tree": [("data", ["deep"], ["a.csv", "b.csv"]), ("deep", [], ["c.csv"])],
    "str(Path('data/deep/c.csv').relative_to('data'))": "deep/c.csv",
    "Path('data/a.csv').with_name('b.csv').read_text()": "x;y\n5;6\n",
}  # fmt: skip


def test_files_and_folders_of_the_project_are_read_as_python_reads_them(tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "a.csv").write_text("x;y\n1;2\n3;4\n")
    (tmp_path / "data" / "b.csv").write_text("x;y\n5;6\n")
    (tmp_path / "data" / "deep" / "c.csv").write_text("x\n")
    (tmp_path / "old.txt").write_bytes("caf\xe9".encode("latin-1"))
    made = [f"r{place} = {one}" for place, one in enumerate(OF_FILES)]
    found = modelled(tmp_path / "all.py", FILES + "\n".join(made))
    for place, (text, wanted) in enumerate(OF_FILES.items()):
        assert found[f"r{place}"] == wanted, text


def test_nothing_outside_the_project_is_listed(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("x")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)
    text = """
import glob, os
from pathlib import Path
a = glob.glob("../*.txt")
b = os.listdir("/")
c = os.listdir("link")
d = glob.glob("link/*")
e = list(Path("..").iterdir())
f = glob.glob("/etc/pass*")
"""
    found = modelled(inside / "all.py", text)
    for name in "abcdf":
        assert isinstance(found[name], Unknown), name


LOADED = """
import numpy as np
a = np.load("all.npz")
b = np.loadtxt("rows.csv", delimiter=",", skiprows=1)
c = np.genfromtxt("rows.csv", delimiter=",", skip_header=1, usecols=(0, 2), dtype="float32")
d = np.loadtxt("rows.csv", delimiter=",", skiprows=1, unpack=True, max_rows=3)
with open("rows.csv") as f:
    e = np.loadtxt(f, delimiter=",", skiprows=1, usecols=1)
names, x, y = sorted(a.files), a["x"], a["y"]
"""


def test_arrays_of_the_project_have_the_shapes_that_numpy_gives_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", x=np.zeros((5, 3), "float32"), y=np.arange(5))
    (tmp_path / "rows.csv").write_text("a,b,c\n" + "1,2,3\n" * 7)
    found = modelled(tmp_path / "all.py", LOADED)
    real = {"b": (7, 3), "c": (7, 2), "d": (3, 3), "e": (7,), "x": (5, 3), "y": (5,)}
    assert {name: found[name].shape for name in real} == real
    assert found["names"] == ["x", "y"]
    assert (found["x"].dtype, found["y"].dtype, found["c"].dtype) == ("float32", "int64", "float32")


UNREAD = """
import gzip
import json
import random
import numpy as np
import paddle
import paddle.nn as nn

pictures, labels = {data}
assert len(pictures) == len(labels)
order = list(range(len(pictures)))

def batches():
    random.shuffle(order)
    held, classes = [], []
    for place in order:
        held.append(np.reshape(pictures[place], [1, 28, 28]).astype("float32"))
        classes.append(np.reshape(labels[place], [1]).astype("int64"))
        if len(held) == 50:
            yield np.array(held), np.array(classes)
            held, classes = [], []
    if held:
        yield np.array(held), np.array(classes)

net = nn.Sequential(nn.Conv2D(1, 8, 3), nn.Flatten(), nn.Linear(8 * 26 * 26, 10))
opt = paddle.optimizer.Adam(parameters=net.parameters())
for epoch in range(3):
    for x, y in {walked}:
        loss = nn.functional.cross_entropy(net(paddle.to_tensor(x)), paddle.to_tensor(y))
        loss.backward()
        opt.step()
        opt.clear_grad()
"""
FILE = "json.load(gzip.open('digits.json.gz'))"
KNOWN = "[np.zeros(784)] * 1000, [np.zeros(1)] * 1000"


def test_batches_of_a_file_that_is_not_read_have_the_shape_that_the_script_gives_them(
    scan: Callable[..., Analysis],
) -> None:
    unread = scan(UNREAD.format(data=FILE, walked="batches()")).estimate(backend="cpu")
    known = scan(UNREAD.format(data=KNOWN, walked="batches()")).estimate(backend="cpu")
    assert unread.memory is not None
    assert known.memory is not None
    assert unread.memory.tensors_peak_mib == known.memory.tensors_peak_mib


@pytest.mark.parametrize(("walked", "peak"), [("batches()", 4425224), ("list(batches())", 7404424)])
def test_tensors_of_a_generator_as_paddle_counts_them(
    scan: Callable[..., Analysis], walked: str, peak: int
) -> None:
    text = UNREAD.format(data=KNOWN, walked=walked)
    tensors = text.replace("yield np.array(held), ", "yield paddle.to_tensor(np.array(held)), ")
    found = scan(tensors).estimate(backend="cpu")
    assert found.memory is not None
    assert found.memory.tensors_peak_mib * 2**20 == peak


@pytest.mark.parametrize(
    "walked", ["list(batches())", "[b for b in batches()]", "sorted(batches(), key=id)"]
)
def test_all_batches_of_an_unknown_number_at_once_are_unknown(
    scan: Callable[..., Analysis], walked: str
) -> None:
    text = UNREAD.format(data=FILE, walked=walked)
    arrays = scan(text).estimate(backend="cpu")
    assert arrays.memory is not None, "arrays that are held are not memory of a device"
    tensors = text.replace("yield np.array(held), ", "yield paddle.to_tensor(np.array(held)), ")
    found = scan(tensors).estimate(backend="cpu")
    assert found.memory is None
    assert not found.errors


def test_unread_data_have_no_type_until_the_script_says_one(scan: Callable[..., Analysis]) -> None:
    text = UNREAD.format(data=FILE, walked="batches()").replace('.astype("float32")', "")
    found = scan(text).estimate(backend="cpu")
    assert found.memory is None
    assert not found.errors

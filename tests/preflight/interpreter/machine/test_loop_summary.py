"""Long loops over plain data: followed for a while, the rest taken alike, and said so."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.preflight import Analysis
from tests.waiting import BOUNDED_S

Scan = Callable[..., Analysis]
ALIKE = "taken to be like them"
TRAIN = """
import random
import re
import numpy as np
import paddle
import paddle.nn as nn

{data}

net = nn.Sequential(nn.Embedding({size}, 8), nn.Linear(8, 4))
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(3):
    loss = net(paddle.to_tensor(np.zeros([{rows}, 16], "int64"))).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def found(scan: Scan, data: str, size: str = "5", rows: str = "4") -> Estimate:
    start = time.process_time()
    made = scan(TRAIN.format(data=data, size=size, rows=rows)).estimate(backend="cpu")
    assert time.process_time() - start < BOUNDED_S
    return made


def peak(estimate: Estimate) -> float:
    assert estimate.memory is not None, estimate.unknowns
    return estimate.memory.tensors_peak_mib


APPENDED = """
data = []
for i in range(30000):
    row = [random.randint(1, 50) for _ in range(10)]
    data.append((row, i % 2))
"""
COUNTED = """
counts, total = {}, 0
for i in range(50000):
    word = "w%d" % (i % 300)
    counts[word] = counts.get(word, 0) + 1
    total += 2
"""
NUMBERED = """
users = {}
for i in range(60000):
    users[str(i)] = {"id": i, "gender": i % 2, "age": random.randint(1, 56)}
"""


@pytest.mark.parametrize(
    ("data", "size", "known"),
    [
        (APPENDED, "len(data)", 30000),
        (APPENDED + "pairs = [(row[:5], label, len(row)) for row, label in data]\n", "len(pairs)",
         30000),
        (COUNTED, "len(counts)", 300),
        (COUNTED, "total", 100000),
        (NUMBERED, "len(users)", 60000),
        ("data = [[random.random() for _ in range(20)] for _ in range(20000)]", "len(data)", 20000),
    ],
)  # fmt: skip
def test_the_rest_of_a_long_loop_is_like_its_beginning(
    scan: Scan, data: str, size: str, known: int
) -> None:
    long = found(scan, data, size)
    assert any(ALIKE in note for note in long.notes)
    assert peak(long) == peak(found(scan, "", str(known)))


def test_what_grows_unevenly_is_asked_for(scan: Scan) -> None:
    data = """
words = {}
for i in range(60000):
    words["w%d" % (i * i % 30011)] = i
"""
    long = found(scan, data, "len(words)")
    assert long.memory is None
    assert long.asks


def test_a_short_loop_is_followed_to_its_end(scan: Scan) -> None:
    data = "words = {}\nfor i in range(3000):\n    words['w%d' % (i * i % 3001)] = i\n"
    short = found(scan, data, "len(words)")
    assert not any(ALIKE in note for note in short.notes)
    assert peak(short) == peak(found(scan, "", str(len({i * i % 3001 for i in range(3000)}))))


READER = """
import random
import numpy as np
import paddle
import paddle.nn as nn

corpus = list(range(100))
pairs = []
for place in range(len(corpus)):
    window = random.randint(1, 3)
    for near in range(max(0, place - window), min(len(corpus) - 1, place + window) + 1):
        pairs.append((corpus[place], corpus[near]))
{data}

def batches(size):
    left = []
    for one in pairs:
        left.append(one)
        if len(left) == size:
            yield np.array(left).astype("int64")
            left = []

net = nn.Embedding(100, 8)
opt = paddle.optimizer.Adam(parameters=net.parameters())
for batch in batches(64):
    loss = net(paddle.to_tensor(batch)).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def test_data_of_unknown_length_fill_a_batch(scan: Scan) -> None:
    unknown = scan(READER.format(data="")).estimate(backend="cpu")
    assert peak(unknown) == peak(scan(READER.format(data="pairs = [(1, 2)] * 500")).estimate(
        backend="cpu"))  # fmt: skip


@pytest.mark.parametrize("key", ["np.argmax(np.random.rand(5))", "np.array([3, 1])[0]"])
def test_numbers_of_arrays_are_keys(scan: Scan, key: str) -> None:
    data = "names = {place: str(place) for place in range(5)}\n"
    estimate = found(scan, f"{data}print(names[{key}], {key} in names)\nnames[{key}] = 'x'")
    assert not estimate.errors
    assert estimate.memory is not None


NAMES = """
names = ["".join(random.choice("abcdef") for _ in range(random.randint(3, 9))) for _ in range(500)]
numbers = {c: i + 1 for i, c in enumerate("abcdef")}

def encode(name):
    ids = [numbers[c] for c in name][:12]
    return ids + [0] * (12 - len(ids))

pairs = [(encode(name), turn) for turn in range(4) for name in names]
rest = pairs[:int(len(pairs) * 0.9)]
"""


@pytest.mark.parametrize(
    "picked",
    [
        "xs, ys = zip(*rest[i:i + 64])",
        "xs = [one[0] for one in rest[i:i + 64]]",
        "xs, ys = zip(*[(r, n) for r, n in rest[i:i + 64]])",
    ],
)
def test_windows_of_data_of_unknown_length(scan: Scan, picked: str) -> None:
    script = NAMES + f"for i in range(0, len(rest) - 63, 64):\n    {picked}\n    break\n"
    windowed = found(scan, script, "7", "np.array(xs).shape[0]")
    assert not windowed.errors
    assert peak(windowed) == peak(found(scan, "", "7", "64"))
    unknown = script.replace("range(500)", "range(len(open('names').read()))")
    assert peak(found(scan, unknown, "7", "np.array(xs).shape[0]")) == peak(windowed)


def test_labels_by_unknown_names_are_numbers(scan: Scan) -> None:
    data = """
import glob, os
files = sorted(glob.glob("data/*/*.jpg"))
classes = sorted({os.path.basename(os.path.dirname(one)) for one in files})
numbers = {name: place for place, name in enumerate(classes)}
label = numbers[os.path.basename(os.path.dirname(files[0]))]
"""
    assert peak(found(scan, data, rows="np.array([label] * 4).shape[0]")) == peak(found(scan, ""))


MAPPED = """
lines = ["a b c d e f g h"] * 9000
numbers = {word: place for place, word in enumerate("abcdefgh")}

def encode(line):
    return [numbers[word] for word in line.split()][:5]

rows = list(map(encode, lines))
"""


def test_a_long_map_has_its_whole_length(scan: Scan) -> None:
    mapped = found(scan, MAPPED, "len(rows)", "len(rows[8999])")
    assert peak(mapped) == peak(found(scan, "", "9000", "5"))
    assert any(ALIKE in one for one in mapped.notes)


PICKED = """
rows = [(1, 2, [i, i, i], 1.0) for i in range(8000)]
order = np.random.permutation(len(rows))
sizes = []
for start in range(0, 8000, 400):
    chunk = [rows[i] for i in order[start:start + 400]]
    chunk[0][2].append(0)
    users, items, seen, labels = zip(*chunk)
    sizes.append(len(seen[1]))
"""


def test_picking_from_a_long_list_takes_no_time_and_shares_no_lists(scan: Scan) -> None:
    assert peak(found(scan, PICKED, rows="len(seen) + sizes[-1]")) == peak(
        found(scan, "", rows="403")
    )


LATE = """
words = ["w%d" % i for i in range(60)]
texts = [" ".join(words[i % 7:i % 7 + 12]) for i in range(9000)] + [" ".join(words[:40])] * 2

class Table:
    def __init__(self):
        self.rows = []
    def number(self, word):
        return int(word[1:])

table = Table()
{loop}
size = max(len(one) for one in table.rows)
"""


@pytest.mark.parametrize(
    "loop",
    [
        "for text in texts:\n    table.rows.append([table.number(w) for w in text.split()])",
        "for i, text in enumerate(texts):\n    row = [table.number(w) for w in text.split()]\n"
        "    table.rows.append(row)",
        "table.rows = [[table.number(w) for w in text.split()] for text in texts]",
        "table.rows = list(map(lambda text: [table.number(w) for w in text.split()], texts))",
    ],
)
def test_the_longest_of_much_data_is_followed_wherever_it_stands(scan: Scan, loop: str) -> None:
    made = found(scan, LATE.format(loop=loop), "len(table.rows)", "size")
    assert any(ALIKE in one for one in made.notes)
    assert peak(made) == peak(found(scan, "", "9002", "40"))


def test_a_list_of_samples_is_as_long_as_its_longest(scan: Scan) -> None:
    data = """
samples = [(np.zeros(4 + i % 9, "int64"), [1] * (3 + i % 4)) for i in range(200)]
def collate(rows):
    sizes = [max(len(row) for _, row in rows)]
    return np.zeros((len(rows), sizes[0]), "int64")
batch = next(iter(paddle.io.DataLoader(samples, batch_size=4, collate_fn=collate)))
"""
    made = found(scan, data, rows="batch.shape[1]")
    assert peak(made) >= peak(found(scan, "", rows="6"))


SPANS = """
texts = [str(np.random.rand(i % 5 + 3)) for i in range(20)]
spans = []
for text in texts:
    ids = [1 for letter in text]
    begin = 0
    while True:
        span = ids[begin:begin + 6]
        spans.append(span + [0] * (6 - len(span)))
        if begin + 6 >= len(ids):
            break
        begin += 3
"""


def test_a_loop_that_data_ends_is_left(scan: Scan) -> None:
    made = found(scan, SPANS, rows="np.array([spans[i] for i in (0, 1, 2)]).shape[0]")
    assert peak(made) == peak(found(scan, "", rows="3"))
    assert found(scan, SPANS, "len(spans)").memory is None


LETTERS = """
text = "abcdefghij" * 13000
numbers = {letter: place for place, letter in enumerate(sorted(set(text)))}
data = np.array([numbers[letter] for letter in text])
"""


def test_a_long_text_is_taken_letter_by_letter(scan: Scan) -> None:
    made = found(scan, LETTERS, "len(numbers)", "len(data) // 1000")
    assert peak(made) == peak(found(scan, "", "10", "130"))


SAVED = """
import os
if not os.path.exists("cache.npz"):
    np.savez("cache.npz", x=np.zeros((30, 4)), y=np.arange(30))
saved = np.load("cache.npz")
np.save("more.npy", saved["x"][:7])
rows = len(np.load("more.npy"))
"""


def test_arrays_that_a_script_saves_are_loaded_again(scan: Scan) -> None:
    assert peak(found(scan, SAVED, rows="rows")) == peak(found(scan, "", rows="7"))


REPLAYED = """
from collections import namedtuple
Step = namedtuple("Step", "state action done")
steps = [Step(np.zeros(6, "float32"), i % 4, i % 9 == 0) for i in range(500)]
picked = np.random.choice(len(steps), 40)
batch = Step(*zip(*[steps[i] for i in picked]))
done = np.array(batch.done)
size = np.stack(batch.state).shape[0] + done.astype("float32").shape[0]
"""


def test_a_buffer_of_named_steps_is_picked_from(scan: Scan) -> None:
    assert peak(found(scan, REPLAYED, rows="size")) == peak(found(scan, "", rows="80"))

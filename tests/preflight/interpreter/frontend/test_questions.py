"""What preflight asks when it cannot know, and what answers do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.core.units import MIB
from gpuconsole.errors import UsageError
from gpuconsole.preflight import analyse, require_known
from gpuconsole.preflight.assumptions import ShapeAnswer, read_assumption, split

Write = Callable[..., Path]

TEXT = """
import json
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

def load_vocab(path):
    vocab = {{}}
    for line in open(path):
        vocab[line.strip()] = len(vocab)
    return vocab

vocab = load_vocab("vocab.txt")
vocab_size = len(vocab)
max_len = 64

class Data(paddle.io.Dataset):
    def __init__(self):
        self.items = [json.loads(line) for line in open("train.json")]
    def __getitem__(self, i):
        ids = [vocab[word] for word in self.items[i]["text"].split()]
        {pad}
        return np.array(ids, dtype="int64"), np.int64(self.items[i]["label"])
    def __len__(self):
        return len(self.items)

class Net(nn.Layer):
    def __init__(self, words):
        super().__init__()
        self.emb = nn.Embedding(words, 16)
        self.fc = nn.Linear(16, 2)
    def forward(self, x):
        return self.fc(self.emb(x).mean(axis=1))

net = Net({words})
opt = paddle.optimizer.SGD(parameters=net.parameters())
for x, y in paddle.io.DataLoader(Data(), batch_size=8{collate}):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
PADDED = "ids = ids[:max_len]; ids = ids + [0] * (max_len - len(ids))"


def text(pad: str = PADDED, words: str = "vocab_size", collate: str = "") -> str:
    return TEXT.format(pad=pad, words=words, collate=collate)


def estimate(script: Path, **answers: str) -> Estimate:
    return analyse(script, assumptions=answers).estimate(backend="cpu")


def peak(found: Estimate) -> int:
    assert found.memory is not None, (found.unknowns, found.errors)
    return round(found.memory.tensors_peak_mib * MIB)


def test_the_root_is_asked_by_the_name_it_was_given_to(write: Write) -> None:
    found = estimate(write(text()))
    assert found.memory is None, "a vocabulary read from a file is never guessed"
    (ask,) = found.asks
    assert (ask.name, ask.line) == ("vocab_size", 15)
    assert "len(vocab)" in ask.question
    assert ask.example.isdigit()


@pytest.mark.parametrize(
    "name", ["vocab_size", "len(vocab)", "len( vocab )", "train.py:15:vocab_size"]
)
def test_an_answer_makes_the_estimate_that_the_number_itself_makes(write: Write, name: str) -> None:
    known = peak(estimate(write(text(words="30000"), "known.py")))
    answered = analyse(write(text()), assumptions={name: "30000"})
    require_known(answered, answered.assumptions)
    assert peak(answered.estimate(backend="cpu")) == known


@pytest.mark.parametrize("value", ["lots", "-3", "3.5", "True", "[1, 2]"])
def test_a_length_is_answered_with_a_whole_number(value: str) -> None:
    with pytest.raises(UsageError, match="number of items"):
        read_assumption("len(vocab)", value)


def test_an_answer_for_another_place_does_not_count(write: Write) -> None:
    answers = {"train.py:3:vocab_size": "30000"}
    analysis = analyse(write(text()), assumptions=answers)
    assert analysis.estimate(backend="cpu").memory is None
    with pytest.raises(UsageError) as raised:
        require_known(analysis, answers)
    assert "vocab_size (train.py:15)" in (raised.value.hint or "")


def test_padding_cancels_an_unknown_length(write: Write) -> None:
    """Truncated, only padded, or filled up in place: the sample has max_len numbers."""
    expected = peak(estimate(write(text("ids = [0] * 64", words="90"), "known.py")))
    for pad in (
        PADDED,
        "ids = ids + [0] * (max_len - len(ids))",
        "ids += [0] * (max_len - len(ids))",
        "ids.extend([0] * (max_len - len(ids)))",
    ):
        assert peak(estimate(write(text(pad, words="90")))) == expected, pad


def test_a_cap_is_a_bound_and_flagged(write: Write) -> None:
    expected = peak(estimate(write(text("ids = [0] * 64", words="90"), "known.py")))
    collate = ", collate_fn=pad"
    capped = text("ids = ids[:max_len]", "90", collate).replace(
        "net = Net",
        "def pad(batch):\n"
        "    longest = max(len(x) for x, _ in batch)\n"
        "    xs = [list(x) + [0] * (longest - len(x)) for x, _ in batch]\n"
        "    return np.array(xs, 'int64'), np.array([y for _, y in batch])\n\n"
        "net = Net",
    )
    found = estimate(write(capped))
    assert peak(found) == expected
    assert "variable-shape" in found.flags


def test_data_that_nobody_states_is_asked_for_by_shape(write: Write) -> None:
    script = write(text("ids = np.load(self.items[i]['file'])", words="90").replace(
        'np.array(ids, dtype="int64")', "ids"
    ))  # fmt: skip
    found = estimate(script)
    (ask,) = found.asks
    assert ask.name == "x"
    assert ask.example.startswith("[N, ")
    expected = peak(estimate(write(text("ids = [0] * 128", words="90"), "known.py")))
    assert peak(estimate(script, x="[N, 128] int64")) == expected
    assert peak(estimate(script, ids="[128] int64")) == expected


def test_what_is_beside_the_memory_path_is_not_asked(write: Write) -> None:
    script = write(text(words="90") + """
seed = int(open("seed.txt").read())
paddle.seed(seed)
print(f"{seed} of {len(vocab)}")
""")  # fmt: skip
    found = estimate(script)
    assert found.memory is not None
    assert found.asks == ()


def test_three_questions_at_most_and_in_order(write: Write) -> None:
    found = estimate(write("""
        import paddle
        meta = paddle.load("meta.bin")
        import secret
        users = secret.count("users")
        items = len(open("items.txt").readlines())
        rates = secret.count("rates")
        dates = secret.count("dates")
        a = paddle.nn.Embedding(users, 8)
        b = paddle.nn.Embedding(items, 8)
        c = paddle.nn.Embedding(rates, 8)
        d = paddle.nn.Embedding(dates, 8)
        opt = paddle.optimizer.SGD(parameters=[*a.parameters(), *b.parameters()])
        for _ in range(3):
            x = paddle.zeros([4], dtype="int64")
            (a(x) + b(x) + c(x)).mean().backward()
            opt.step()
            opt.clear_grad()
    """))  # fmt: skip
    assert [ask.name for ask in found.asks] == ["users", "items", "rates"]


def test_the_worse_side_of_a_condition_is_kept_and_said(write: Write) -> None:
    body = """
        import os
        import paddle
        {test}
        if wide:
            width = 256
        else:
            width = 32
        net = paddle.nn.Linear(64, width)
        opt = paddle.optimizer.SGD(parameters=net.parameters())
        for _ in range(3):
            net(paddle.zeros([8, 64])).mean().backward()
            opt.step()
            opt.clear_grad()
    """
    wide = peak(estimate(write(body.format(test="wide = True"), "wide.py")))
    found = estimate(write(body.format(test="wide = os.path.exists('wide')")))
    assert peak(found) == wide
    assert "bound" in found.flags
    assert any("train.py:5" in note and "True" in note for note in found.notes)
    narrow = estimate(write(body.format(test="wide = os.path.exists('wide')")), wide="False")
    assert peak(narrow) < wide
    assert "bound" not in narrow.flags


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("n=3", "n", "3"),
        ("cfg.model.vocab = 3", "cfg.model.vocab", "3"),
        ("load(path, mode='r')=30000", "load(path, mode='r')", "30000"),
        ("a[x == 1]=7", "a[x == 1]", "7"),
        ("n=", "n", ""),
    ],
)
def test_names_may_be_expressions(text: str, name: str, value: str) -> None:
    assert split(text) == (name, value)


@pytest.mark.parametrize("text", ["", "=3", "n", "a b=3", "if=3", "n==3", "x\0=3", "(" * 3000])
def test_what_is_no_assumption_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        split(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("1e-3", 1e-3), ("true", True), ("False", False), ("None", None),
        ("bert", "bert"), ("'bert'", "bert"), ("[1, 2]", [1, 2]), ("30_000", 30_000),
        ("[N, 128] int64", ShapeAnswer(("N", 128), "int64")),
        ("[N,3,224,224]", ShapeAnswer(("N", 3, 224, 224), "float32")),
        ("[128] int64", ShapeAnswer((128,), "int64")),
    ],
)  # fmt: skip
def test_values(text: str, value: object) -> None:
    assert read_assumption("n", text).value == value


@pytest.mark.parametrize("text", ["", "[N, x]", "[1, 2", "3x", "[N, 3] int7", "{1: [N]}", "1+2"])
def test_values_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        read_assumption("n", text)


TUNING = """
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from functools import partial

def convert(example, vocab, max_seq_length):
    ids = [vocab.get(word, vocab.get("[UNK]")) for word in example["text"].split()]
    if len(ids) > max_seq_length:
        ids = ids[:max_seq_length]
    return ids, example["label"]

def read(path):
    data = []
    with open(path) as file:
        next(file)
        for line in file:
            text, label = line.strip().split("\\t")
            data.append({"text": text, "label": int(label)})
    return data

class Texts(paddle.io.Dataset):
    def __init__(self, path, change):
        self.data = [change(one) for one in read(path)]
    def __getitem__(self, i):
        return self.data[i]
    def __len__(self):
        return len(self.data)

def pad(batch):
    longest = max(len(ids) for ids, _ in batch)
    xs = [ids + [0] * (longest - len(ids)) for ids, _ in batch]
    return np.array(xs, dtype="int64"), np.array([label for _, label in batch], dtype="int64")

vocab = {}
for number, line in enumerate(open("vocab.txt")):
    vocab[line.rstrip()] = number
data = Texts("train.tsv", partial(convert, vocab=vocab, max_seq_length=48))
emb = nn.Embedding(len(vocab), 32)
head = nn.Linear(32, 2)
opt = paddle.optimizer.Adam(parameters=[*emb.parameters(), *head.parameters()])
for x, y in paddle.io.DataLoader(data, batch_size=8, collate_fn=pad):
    F.cross_entropy(head(emb(x).mean(axis=1)), y).backward()
    opt.step()
    opt.clear_grad()
"""


def test_a_whole_text_project_asks_for_its_vocabulary_alone(write: Write) -> None:
    script = write(TUNING)
    assert [ask.name for ask in estimate(script).asks] == ["len(vocab)"]
    found = analyse(script, assumptions={"len(vocab)": "5000"}).estimate(backend="cpu")
    fixed = TUNING.replace("len(vocab), 32", "5000, 32").replace(
        "    return ids, example", "    return [0] * 48, example"
    )
    assert peak(found) == peak(estimate(write(fixed, "fixed.py")))
    assert "variable-shape" in found.flags
    assert any("taken as True" in note for note in found.notes)


BATCHES = """
import numpy as np
import paddle

class Data(paddle.io.Dataset):
    def __getitem__(self, i):
        {sample}
    def __len__(self):
        return 1000

net = paddle.nn.Linear(64, 8)
opt = paddle.optimizer.SGD(parameters=net.parameters())
for batch in paddle.io.DataLoader(Data(), batch_size=8):
    {names} = batch
    loss = net({x}).sum()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


@pytest.mark.parametrize(
    ("sample", "names", "x", "asked"),
    [
        ("return np.load(str(i)), np.load(str(i))", "x, y", "x", "batch[0]"),
        ("return {'x': np.load(str(i)), 'y': 1}", "whole", "whole['x']", "batch['x']"),
    ],
)
def test_a_part_of_a_batch_is_answered_by_the_name_it_is_asked_by(
    write: Write, sample: str, names: str, x: str, asked: str
) -> None:
    script = write(BATCHES.format(sample=sample, names=names, x=x))
    asks = estimate(script).asks
    assert asks[0].name == asked
    answers = {asked: "[N, 64] float32"}
    analysis = analyse(script, assumptions=answers)
    require_known(analysis, answers)
    found = analysis.estimate(backend="cpu")
    assert peak(found) > 0
    assert f"Answer for {asked}: used at train.py:13." in found.notes


def test_what_is_picked_from_an_unknown_batch_is_asked_for_by_its_shape(write: Write) -> None:
    """The batch itself is a tuple: one shape for it would answer nothing."""
    loop = BATCHES.replace("import numpy", "from mydata import Data\nimport numpy", 1)
    start, _, rest = loop.partition("class Data")
    loop = start + rest[rest.index("net = ") :].replace("    {names} = batch\n", "")
    loop = loop.replace(".sum()", " - batch['label']")
    loop = loop.replace("loss.backward", "loss.sum().backward")
    script = write(loop.format(x="batch['x']"))
    (ask,) = estimate(script).asks
    assert (ask.name, ask.example) == ("batch['x']", "[N, 3, 224, 224] float32")
    answers = {"batch['x']": "[N, 64] float32"}
    (ask,) = estimate(script, **answers).asks
    assert (ask.name, ask.example) == ("batch['label']", "[N] int64")
    answers["batch['label']"] = "[N, 8] float32"
    analysis = analyse(script, assumptions=answers)
    require_known(analysis, answers)
    assert peak(analysis.estimate(backend="cpu")) > 0


BACKBONE = """
import paddle
from elsewhere import create
backbone = create("large")
head = paddle.nn.Linear(2048, 10)
opt = paddle.optimizer.Adam(parameters={trained})
BATCH = 64
for _ in range(3):
    seen = paddle.rand([BATCH, 3, 224, 224])
    found = backbone({given})
    loss = paddle.nn.functional.cross_entropy(head(found), paddle.randint(0, 10, [BATCH]))
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


@pytest.mark.parametrize("given", ["seen", "image=seen"])
@pytest.mark.parametrize("name", ["found", "backbone({})"])
def test_a_shape_does_not_tell_what_an_unknown_network_holds(
    write: Write, name: str, given: str
) -> None:
    """The head alone would fit everywhere; what the network saves is the most of it."""
    script = write(BACKBONE.format(trained="head.parameters()", given=given))
    assert estimate(script).asks == ()
    answers = {name.format(given): "[N, 2048] float32"}
    found = analyse(script, assumptions=answers).estimate(64, backend="cpu")
    assert found.memory is None
    assert any("holds beside it is not known" in one.reason for one in found.unknowns)


def test_nobody_is_asked_to_write_down_parameters(write: Write) -> None:
    script = write(BACKBONE.format(trained="backbone.parameters()", given="seen"))
    assert estimate(script).asks == ()


def test_an_answer_for_a_batch_is_not_taken_for_a_sample_of_that_name(write: Write) -> None:
    """Loops and data sets often call both `x`; only the batch has N in its shape."""
    loop = BATCHES.replace("for batch in", "for x, y in").replace("    {names} = batch\n", "")
    sample = "x = np.load(str(i)); x = np.append(x[0], x[1]); return x, np.float32(1)"
    script = write(loop.format(sample=sample, x="x"))
    assert estimate(script).asks[0].name == "x"
    found = estimate(script, x="[N, 64] float32")
    stated = "return np.zeros(64, 'float32'), np.float32(1)"
    assert peak(found) == peak(estimate(write(loop.format(sample=stated, x="x"), "known.py")))


def test_at_most_three_questions_and_none_that_nobody_could_answer(write: Write) -> None:
    text = "import spam\n" + BATCHES.format(
        sample="return np.load(str(i)), 1", names="x, y", x="spam.a(1) + spam.b(2) + spam.c"
    )
    asks = estimate(write(text)).asks
    assert 0 < len(asks) <= 3
    assert "loss.backward" not in [ask.name for ask in asks]


def test_an_answer_that_was_not_needed_is_said_to_be_so(write: Write) -> None:
    script = write(text(words="90"))
    found = analyse(script, assumptions={"train.py:3:max_len": "64"}).estimate()
    assert "Answer for train.py:3:max_len: not needed." in found.notes

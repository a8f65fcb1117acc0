"""Vocabularies of words that are drawn at random: as many words as there are to draw from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.interpreter.domain import lengths
from tests.preflight.modelled import modelled

GIVEN = """
import random, re
from collections import Counter, defaultdict
import numpy as np
words = ["good", "bad", "movie", "plot", "the"]
sent = [" ".join(random.choice(words) for _ in range(random.randint(5, 20))) for _ in range(300)]
clean = [re.sub(r"[^a-z ]", "", s.strip().lower()) for s in sent]
freq = {}
for s in clean:
    for w in s.split():
        freq[w] = freq.get(w, 0) + 1
vocab = {"<pad>": 0, "<unk>": 1}
for w, c in sorted(freq.items(), key=lambda kv: kv[1], reverse=True):
    vocab[w] = len(vocab)
counted = Counter()
for s in clean:
    counted.update(s.split(" "))
numbers = defaultdict(int)
met = {}
for s in clean:
    for w in s.split():
        numbers[w] += 1
        if w not in met:
            met[w] = len(met)
seen = set()
for s in clean:
    seen.add(s.split()[0])
tags = [random.choice(["B", "I", "O"]) for _ in range(100)]
names = np.random.choice(["cat", "dog"], size=50)
digits = random.choices("0123456789", k=500)
"""
KNOWN = [
    "len(vocab)", "len(freq)", "len(counted)", "len(numbers)", "len(set(tags))", "len(seen)",
    "len(set(w for s in clean for w in s.split()))", "len({w for s in clean for w in s.split()})",
    "sorted(set(''.join(clean)))", "sorted(set(' '.join(clean).split()))", "sorted(vocab)",
    "{t: i for i, t in enumerate(sorted(set(tags)))}", "sorted(set(digits))", "'good' in vocab",
    "random.choice(words) in vocab", "random.choice(words) in ('x', 'y')", "len(set(names))",
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the analysis makes of all expressions."""
    lines = [f"r{place} = {one}" for place, one in enumerate(KNOWN)]
    return modelled(Path(tmp_path_factory.mktemp("drawn")) / "all.py", GIVEN + "\n".join(lines))


@pytest.mark.parametrize(("place", "expression"), list(enumerate(KNOWN)), ids=str)
def test_all_words_are_there(model: dict[str, Any], place: int, expression: str) -> None:
    # So many are drawn that each of them is met.
    names: dict[str, Any] = {"__name__": "drawn"}
    exec(GIVEN, names)
    assert model[f"r{place}"] == eval(expression, names)


def test_the_number_of_a_word_is_below_their_count(tmp_path: Path) -> None:
    found = modelled(tmp_path / "one.py", GIVEN + "number = vocab[random.choice(words)]\n")
    assert found["number"].high == 6


def test_a_generator_of_its_own_draws_as_the_module(tmp_path: Path) -> None:
    text = """
import random
own = random.Random(3)
tags = {own.choice(["B", "I", "O"]) for _ in range(200)}
size = own.randint(4, 9)
codes = {"B": 1}
code = codes[random.Random(3).random()]
"""
    found = modelled(tmp_path / "one.py", text)
    assert found["tags"] == {"B", "I", "O"}
    assert found["size"].high == 9


def test_a_long_generator_ends_as_unknown_many(tmp_path: Path) -> None:
    text = """
import random
def samples(n):
    for _ in range(n):
        yield [random.choice("ab") for _ in range(30)]
found = list(samples(50000))
"""
    items = modelled(tmp_path / "one.py", text)["found"]
    assert lengths.more_in(items) is not None
    assert len(items) > 100

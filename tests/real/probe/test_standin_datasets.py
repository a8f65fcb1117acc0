"""Paddle's own data sets without their files: samples of Paddle's own shapes and types."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import pytest

from gpuconsole.preflight.tiers import probe_request
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]

ASKED = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import paddle
from gpuconsole.preflight.probe.standins import devices_and_downloads
devices_and_downloads.install(paddle)
from paddle.vision import datasets as v
from paddle.text import datasets as t

def told(value):
    size = getattr(value, "size", None)
    if isinstance(size, tuple):
        return ["picture", list(size)]
    return [str(value.dtype), list(value.shape)]

sets = {
    "mnist": v.MNIST(), "mnist cv2": v.MNIST(backend="cv2"), "fashion": v.FashionMNIST("test"),
    "mnist test": v.MNIST(mode="test"), "cifar10": v.Cifar10(backend="cv2"),
    "cifar100": v.Cifar100(mode="test"), "flowers": v.Flowers(backend="cv2"),
    "voc": v.VOC2012(backend="cv2"), "voc pil": v.VOC2012(mode="valid"),
    "housing": t.UCIHousing(mode="test"), "imdb": t.Imdb(), "ngram": t.Imikolov(window_size=5),
    "seq": t.Imikolov(data_type="SEQ"), "movies": t.Movielens(), "wmt14": t.WMT14(dict_size=900),
    "wmt16": t.WMT16(src_dict_size=300, trg_dict_size=200), "conll": t.Conll05st(),
}
found = {name: [len(one), [told(part) for part in one[0]]] for name, one in sets.items()}
found["docs"] = [len(sets["imdb"].docs), len(sets["imdb"].word_idx)]
found["dicts"] = [len(sets["wmt16"].get_dict("en")), len(sets["wmt14"].get_dict()[0]),
                  *map(len, sets["conll"].get_dict()), len(sets["seq"].word_idx)]
found["within"] = bool(max(sets["wmt16"][7][1]) < 200 and max(sets["wmt14"][7][0]) < 900)
print(json.dumps(found))
"""


def test_samples_have_paddles_own_shapes_and_types() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKED, str(probe_request.PROBE)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    one = ["int64", [1]]
    assert found == {
        "mnist": [60000, [["picture", [28, 28]], one]],
        "mnist test": [10000, [["picture", [28, 28]], one]],
        "mnist cv2": [60000, [["float32", [28, 28]], one]],
        "fashion": [60000, [["picture", [28, 28]], one]],
        "cifar10": [50000, [["float32", [32, 32, 3]], ["int64", []]]],
        "cifar100": [10000, [["picture", [32, 32]], ["int64", []]]],
        "flowers": [6149, [["float32", [500, 667, 3]], one]],
        "voc": [2913, [["float32", [375, 500, 3]], ["float32", [375, 500]]]],
        "voc pil": [1449, [["picture", [500, 375]], ["picture", [500, 375]]]],
        "housing": [102, [["float32", [13]], ["float32", [1]]]],
        "imdb": [25000, [["int64", [200]], one]],
        "ngram": [929589, [["int64", []]] * 5],
        "seq": [42068, [["int64", [17]]] * 2],
        "movies": [
            900189,
            [one, one, one, one, one, one, ["int64", [3]], ["float64", [1]]],
        ],
        "wmt14": [191155, [["int64", [24]], ["int64", [23]], ["int64", [23]]]],
        "wmt16": [29000, [["int64", [24]], ["int64", [23]], ["int64", [23]]]],
        "conll": [5267, [["int64", [20]]] * 9],
        "docs": [25000, 5147],
        "dicts": [300, 900, 44068, 3162, 59, 2074],
        "within": True,
    }

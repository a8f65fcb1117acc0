"""Numbers that a script computes with small arrays, held against the installed NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.interpreter.domain.values import Unknown
from gpuconsole.preflight.interpreter.numpy.array import Array
from tests.preflight.modelled import modelled

np: Any = pytest.importorskip("numpy", "2.0")

EXPRESSIONS = """
np.arange(4) * 4 + 4
(np.arange(4) * 4 + 4)[3]
np.array([3, 4, 5]) ** 2
np.round(np.array([15.7, 20.2]) / 8) * 8
np.round(np.array([0.5, 1.5, 2.5]))
np.round(2.675, 2)
np.cumsum([4, 4, 8])
np.power(2, np.arange(5))
np.clip(20, 0, 16)
np.minimum(8, np.array([1, 16]))
np.maximum(3, 4)
np.floor_divide(7, 2)
np.argmax([1, 5, 2])
np.array([[1, 2], [3, 4]]).sum()
-np.array([1, 2])
np.array([1.5, 2.5], "float32") * 0.1
np.array([7, -7]) // 2
np.array([7, -7]) % 3
np.array([2.7, -2.7]).astype(int)
np.unique(np.array([24, 8, 8, 16, 24, 24]), return_counts=True)[1]
np.arange(6)[1:4]
np.log(np.array([1.0, 2.0])) / np.log(2.0)
np.array([1, 2]) + np.array([3, 4])
np.array([16])[0]
np.square(np.array([3, 4]))
"""


@pytest.mark.parametrize("written", EXPRESSIONS.strip().splitlines())
def test_numbers_are_those_of_numpy(written: str, tmp_path: Path) -> None:
    names = modelled(tmp_path / "script.py", f"import numpy as np\nx = {written}\n")
    expected = eval(written, {"np": np})
    found = names["x"]
    data = found.data if isinstance(found, Array) else found
    assert np.array_equal(np.array(data), expected), f"{data} for {expected}"


@pytest.mark.parametrize(
    "change",
    ["a[0] = 9", "a[1:] = 0", "a.sort()", "a.fill(7)", "np.random.shuffle(a)", "a[:3][0] = 9"],
)
def test_numbers_that_are_overwritten_are_not_known(change: str, tmp_path: Path) -> None:
    text = f"import numpy as np\na = np.array([5, 3, 4, 1])\n{change}\nx = a[0]\nn = int(x)\n"
    names = modelled(tmp_path / "script.py", text)
    assert names["x"].data is None
    assert isinstance(names["n"], Unknown)


@pytest.mark.parametrize(
    "written",
    ["np.array([200, 100], 'uint8') * 2", "np.array([2]) ** 40", "np.array([1]) // 0",
     "np.array([1.0]) / 0", "np.exp(np.array([1000.0]))"],
)  # fmt: skip
def test_numbers_that_a_type_might_not_hold_are_not_known(written: str, tmp_path: Path) -> None:
    names = modelled(tmp_path / "script.py", f"import numpy as np\nx = {written}\n")
    assert isinstance(names["x"], Array)
    assert names["x"].data is None


def test_a_layer_takes_sizes_that_numpy_holds(tmp_path: Path) -> None:
    text = """
import numpy as np
import paddle
widths = np.unique(np.round(np.linspace(8.2, 24.1, 3) / 8).astype(int) * 8)
layers = [paddle.nn.Linear(one, 2 * one) for one in widths]
blocks = [i for one in widths for i in range(one)]
sizes = [layer.weight.shape for layer in layers]
"""
    names = modelled(tmp_path / "script.py", text)
    assert [list(one) for one in names["sizes"]] == [[8, 16], [16, 32], [24, 48]]
    assert len(names["blocks"]) == 48

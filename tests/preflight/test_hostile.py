"""Bad and hostile scripts: a clear message or an unknown, quickly, and never a traceback."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.preflight import watched
from benchmarks.preflight.watched import mishaps
from gpuconsole.errors import UsageError
from gpuconsole.preflight import Analysis, analyse
from gpuconsole.preflight.interpreter.machine import control_flow
from gpuconsole.preflight.interpreter.machine.imports import Importer
from tests.waiting import BOUNDED_S


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"def f(:\n    pass\n", ("train.py:1:7", "syntax")),
        (b"x = 1\ny = (\n", ("train.py:2:",)),
        (b"\xff\xfe\x00\x01binary", ("train.py",)),
        (b"# -*- coding: latin-9999 -*-\nx = 1\n", ("train.py",)),
        (b"x = '\x00'\n", ("train.py",)),
        (b"x = '\x80\x81'\n", ("train.py",)),
        (b"(" * 100_000, ("train.py",)),
    ],
)
def test_unreadable_scripts(tmp_path: Path, data: bytes, words: tuple[str, ...]) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        analyse(path)
    text = f"{caught.value.title} {caught.value.message}"
    assert all(word in text for word in words)
    assert caught.value.hint


def test_a_huge_script_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    with open(path, "wb") as file:
        file.truncate(50 * 2**20)
    started = time.process_time()
    with pytest.raises(UsageError, match="50 MiB"):
        analyse(path)
    assert time.process_time() - started < BOUNDED_S


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing"):
        analyse(tmp_path / "nothing.py")
    with pytest.raises(UsageError):
        analyse(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "while True:\n    x = 1",
        "x = 10 ** 10 ** 10",
        "x = 'a'\nwhile True:\n    x = x + x",
        "x = [0] * 10 ** 12",
        "x = pow(10, 10 ** 9)",
        "x = []\nwhile True:\n    x.extend(range(99999))",
        "x = (1 << 10 ** 9) * 3",
        "x = '{:>999999999}'.format(1)",
        "x = '%999999999d' % 1",
        "x = 'a' * 100000\ny = x.replace('a', x)",
        "for i in range(10 ** 15):\n    pass",
        "x = list(range(10 ** 12))",
        "x = sum(i for i in range(10 ** 12))",
        "def f(n):\n    return f(n + 1)\nf(0)",
        "f = lambda: f()\nf()",
        "def g():\n    while True:\n        yield 1\nx = list(g())",
        "x = " + "+".join(["1"] * 900),
        "x = " + "[" * 80 + "]" * 80,
        "l = []\nl.append(l)\nprint(l)\nx = l + l",
        "d = {}\nd['d'] = d\nx = str(d)",
        "class A:\n    def __getattr__(self, n):\n        return self.nope\nA().x",
        "x = ''.__class__.__mro__[1].__subclasses__()",
        "x = (lambda: 0).__globals__['__builtins__']",
        "import paddle\nx = paddle.zeros([10 ** 9, 10 ** 9, 10 ** 9])",
        "import paddle\nx = paddle.zeros([-5])",
        "import numpy as np\nx = np.zeros((3, 4)).reshape(5, -1)",
        "import train",
        "import os\nos.system('touch PWNED')\n__import__('os').system('touch PWNED')",
        "eval('1'); exec('x = 1')",
        "x: int\nmatch 3:\n    case 3:\n        pass",
        "async def f():\n    await f()\nf()",
        "raise ValueError('no')",
        "import sys\nsys.exit(3)",
        "assert 1 == 2",
    ],
)
def test_hostile_scripts_end_as_unknown_or_fault(
    scan: Callable[..., Analysis], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    started = time.process_time()
    estimate = scan(text).estimate()
    assert estimate.memory is None or estimate.errors
    assert estimate.unknowns or estimate.errors
    assert time.process_time() - started < BOUNDED_S
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_size_that_cannot_be(
    scan: Callable[..., Analysis], training: Callable[..., str], batch: int
) -> None:
    net = "class Net(nn.Linear):\n    pass"
    analysis = scan(training(net).replace("Net()", "Net(64, 10)"))
    with pytest.raises(UsageError, match="batch size"):
        analysis.estimate(batch)
    text = training(net).replace("Net()", "Net(64, 10)")
    written = scan(text.replace("batch_size=32", f"batch_size={batch}"))
    assert "batch size" in written.estimate().errors[0].message


@pytest.mark.parametrize("own", [0, -1, -4])
def test_another_batch_can_be_asked_for_where_the_default_one_cannot_be(
    write: Callable[..., Path], training: Callable[..., str], own: int
) -> None:
    text = training(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch", type=int, default=32)
        args = parser.parse_args()
        def Net():
            return nn.Sequential(nn.Conv2D(3, 16, 3), nn.Flatten(), nn.Linear(14400, 10))
        """,
        "(3, 32, 32)",
    ).replace("batch_size=32", "batch_size=args.batch")
    wrong = analyse(write(text.replace("default=32", f"default={own}")))
    assert wrong.estimate().errors
    assert wrong.estimate().memory is None
    right = analyse(write(text, "right.py"))
    found, expected = wrong.estimate(16).memory, right.estimate(16).memory
    assert found is not None
    assert expected is not None
    assert found.tensors_peak_mib == expected.tensors_peak_mib
    assert found.total_mib == pytest.approx(expected.total_mib, rel=0.01)
    assert wrong.reserved_at("gpu")(16)


def test_an_error_of_the_analysis_is_unknown_to_users_and_seen_by_tests(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise AttributeError("no such thing")

    path = write("x = 1\n")
    assert mishaps(analyse(path)) == ()
    monkeypatch.setattr(Importer, "run_script", broken)
    analysis = analyse(path)
    found = analysis.estimate()
    assert found.memory is None
    assert "does not follow this" in found.unknowns[0].reason
    assert mishaps(analysis)[0].startswith("AttributeError at test_hostile.py:")
    assert watched.read(path).startswith("CRASH AttributeError at test_hostile.py:")


def test_super_without_an_object_is_unknown(write: Callable[..., Path]) -> None:
    lines = ("import paddle.nn as nn", "class Net(nn.Layer):", "    def __init__(self):",
             "        super().__init__()", "def no_object(): pass",
             "Net.__init__(no_object)")  # fmt: skip
    assert mishaps(analyse(write("\n".join(lines)))) == ()


def test_a_loop_that_nothing_leaves_is_given_up_early(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0
    follow = control_flow._turn

    def counted(*given: Any) -> Any:
        nonlocal turns
        turns += 1
        return follow(*given)

    monkeypatch.setattr(control_flow, "_turn", counted)
    path = write("n = 0\nwhile True:\n    n = max(n, 0) + 1\n")
    assert "too long to follow" in analyse(path).estimate().unknowns[0].reason
    assert turns == control_flow.MAX_ENDLESS


def test_definitions_without_end_are_given_up(write: Callable[..., Path]) -> None:
    body = "\n".join(f"        x = [a + {one} for a in range(9) if a > 3]" for one in range(40))
    path = write(f"while True:\n    def f():\n{body}\n")
    start = time.process_time()
    assert "too long to follow" in analyse(path).estimate().unknowns[0].reason
    assert time.process_time() - start < BOUNDED_S


def test_what_comes_after_a_training_and_is_too_long_to_follow_may_need_more(
    scan: Callable[..., Analysis],
) -> None:
    """The steps that were followed do not tell how much the rest takes."""
    text = (
        "import paddle\n"
        "net = paddle.nn.Linear(4, 4)\n"
        "adam = paddle.optimizer.Adam(parameters=net.parameters())\n"
        "for step in range(10):\n"
        "    net(paddle.randn([2, 4])).sum().backward()\n"
        "    adam.step()\n"
        "    adam.clear_grad()\n"
        "rows = []\n"
        "for i in range({}):\n"
        "    for j in range(1000):\n"
        "        row = paddle.exp(paddle.ones([8]) * j)\n"
        "    rows.append(paddle.ones([1000, 1000]))\n"
        "paddle.stack(rows)\n"
    )
    assert scan(text.format(3)).estimate().memory is not None
    told = scan(text.format(3000)).estimate()
    assert told.memory is None
    assert any("too much to follow" in unknown.reason for unknown in told.unknowns)

"""Forms of source: each script is estimated like the plain script that says the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.errors import UsageError
from gpuconsole.preflight import analyse
from gpuconsole.preflight.interpreter.frontend import source
from tests.preflight.forms import DATA, HEAD, LOOP, NET, WHOLE, key

# -- notebooks


def notebook(*cells: str, **more: object) -> str:
    made = [{"cell_type": "markdown", "source": ["# Title"]}]
    made += [{"cell_type": "code", "source": one.splitlines(keepends=True)} for one in cells]
    return json.dumps({"nbformat": 4, "cells": made, "metadata": {}, **more})


def test_a_notebook_is_its_cells_in_order(
    tmp_path: Path, plain: Callable[..., tuple[object, ...]]
) -> None:
    path = tmp_path / "train.ipynb"
    text = notebook(
        "!pip install visualdl\n%matplotlib inline\n" + HEAD,
        NET,
        "%%bash\nls -l\n",
        "files = !ls\n" + DATA + "x = 7\nx = (x\n%\n3)\nprint?\n" + LOOP,
        "BATCH = 24",
        "%%time\nif True:\n    !nvidia-smi\n    fit(Net(96), BATCH)\n",
    )
    path.write_text(text)
    estimate = analyse(path).estimate(backend="cpu")
    assert key(estimate) == plain("96", 24)
    assert estimate.batch_source is not None
    assert (estimate.batch_source.file, estimate.batch_source.line) == (f"{path}[cell 5]", 1)
    note = next(one for one in estimate.notes if "magics" in one)
    assert "cell 1 line 1, cell 1 line 2, cell 3 (%%bash)" in note


def test_a_fault_in_a_notebook_names_cell_and_line(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(HEAD, NET + DATA + LOOP, "a = 1\nfit(nn.Linear(63, 10), 8)\n"))
    fault = analyse(path).estimate().errors[0]
    assert (fault.file, fault.line) == (f"{path}[cell 2]", 17 + 2)


def test_the_older_notebook_format(
    tmp_path: Path, plain: Callable[..., tuple[object, ...]]
) -> None:
    cell = {"cell_type": "code", "input": WHOLE + "fit(Net(20), 6)"}
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps({"nbformat": 3, "worksheets": [{"cells": [cell]}]}))
    assert key(analyse(path).estimate(backend="cpu")) == plain("20", 6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a notebook"),
        ("{}", "no list of cells"),
        ('{"cells": [3]}', "not a mapping"),
        ('{"cells": [{"cell_type": "code", "source": 3}]}', "no text"),
        (notebook("x = ("), "[cell 1]:1"),
        (notebook("x = 1", "\n\nx ="), "[cell 2]:3"),
        (notebook("x <- 1", metadata={"kernelspec": {"language": "R"}}), "R, not Python"),
        (notebook(*["x = 1"] * 2001), "2002 cells"),
        (notebook("#" * 3_000_000), "longer than"),
    ],
)
def test_a_broken_notebook_is_refused_with_the_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        analyse(path)
    assert words in caught.value.message
    assert caught.value.hint


def test_the_command_takes_a_notebook(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(WHOLE, "fit(Net(20), 6)"))
    command = [sys.executable, "-m", "gpuconsole", "preflight", str(path), "--offline", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["batch_size"] == 6


# -- files of a project

PACKAGE = {
    "shapes/__init__.py": "from .config import WIDTH, BATCH\nfrom .models import *\n",
    "shapes/config.py": "WIDTH = 80\nBATCH = 12\n",
    "shapes/models/__init__.py": "from .net import Net\n__all__ = ['Net', 'other']\n",
    "shapes/models/net.py": "from ..base import nn, F\nfrom .. import config\n" + NET,
    "shapes/models/other.py": "_secret = 1\nvalue = 5\n",
    "shapes/base.py": "import paddle.nn as nn\nimport paddle.nn.functional as F\n",
    "tools/common.py": HEAD + DATA + LOOP,
}


@pytest.mark.parametrize(
    "text",
    [
        "from shapes import *\nassert other.value == 5\n",
        "from shapes.models.net import Net\nfrom shapes.config import *\n",
        "import shapes\nNet, WIDTH, BATCH = shapes.Net, shapes.WIDTH, shapes.config.BATCH\n",
        "import shapes.models.net as deep, shapes.config\n"
        "Net, WIDTH = deep.Net, shapes.config.WIDTH\nBATCH = deep.config.BATCH\n",
        "import importlib\nm = importlib.import_module('shapes.' + 'models')\nNet = m.Net\n"
        "c = importlib.import_module('.config', package='shapes')\n"
        "WIDTH, BATCH = c.WIDTH, c.BATCH\n",
        "Net = getattr(__import__('shapes'), 'Net')\nfrom shapes import WIDTH, BATCH\n",
    ],
)
def test_packages(
    project: Callable[..., Path], plain: Callable[..., tuple[object, ...]], text: str
) -> None:
    for entry in ("train.py", "tools/train.py"):
        head = "import sys, os\nfrom pathlib import Path\n"
        head += "sys.path.append('tools')\n" if entry == "train.py" else (
            "sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))\n"
        )  # fmt: skip
        body = head + "from common import *\n" + text + "fit(Net(WIDTH), BATCH)\n"
        root = project({**PACKAGE, entry: body})
        estimate = analyse(root / entry, project=root).estimate(backend="cpu")
        assert key(estimate) == plain("80", 12)


@pytest.mark.parametrize(
    "line",
    [
        "sys.path.insert(0, str(Path(__file__).resolve().parents[1]))",
        "sys.path.append(str(Path(__file__).parent.parent))",
        "sys.path += ['..']",
        "sys.path.insert(0, os.path.abspath(os.path.join(__file__, '../..')))",
        "__dir__ = os.path.dirname(os.path.abspath(__file__))\n"
        "sys.path.append(os.path.abspath(os.path.join(__dir__, '..')))",
        "sys.path.append(os.getcwd())",
    ],
)
def test_ways_to_the_root_of_a_project(
    project: Callable[..., Path], plain: Callable[..., tuple[object, ...]], line: str
) -> None:
    text = f"import sys, os\nfrom pathlib import Path\n{line}\nfrom common import *\n"
    text += "from shapes import Net\nfit(Net(9), 5)\n"
    root = project({**PACKAGE, "tools/train.py": text})
    estimate = analyse(root / "tools/train.py", project=root).estimate(backend="cpu")
    assert key(estimate) == plain("9", 5)


def test_modules_that_import_each_other(
    project: Callable[..., Path], plain: Callable[..., tuple[object, ...]]
) -> None:
    root = project({
        "one.py": "A = 31\nimport two\nB = two.C + 1\n",
        "two.py": "import one\nC = one.A\ndef late():\n    return one.B\n",
        "train.py": WHOLE + "import one, two\nfit(Net(two.late()), one.A)\n",
    })  # fmt: skip
    assert key(analyse(root / "train.py").estimate(backend="cpu")) == plain("32", 31)


def test_nothing_outside_the_project_is_read(project: Callable[..., Path], tmp_path: Path) -> None:
    root = project({
        "outside/secret.py": "WIDTH = 16\n",
        "outside/secret.yaml": "width: 16\n",
        "inside/train.py": WHOLE + (
            "import sys, yaml\nsys.path += ['../outside', '{0}']\n"
            "try:\n    import {1}\nexcept ImportError:\n    pass\n"
            "w = {2}\nfit(Net(w), 8)\n"
        ),
    })  # fmt: skip
    os.symlink(root / "outside" / "secret.py", root / "inside" / "linked.py")
    os.symlink(root / "outside", root / "inside" / "folder")
    text = (root / "inside/train.py").read_text()
    for module, value in (
        ("secret", "secret.WIDTH"),
        ("linked", "linked.WIDTH"),
        ("folder.secret", "folder.secret.WIDTH"),
        ("sys", "yaml.safe_load(open('../outside/secret.yaml'))['width']"),
        ("sys", "yaml.safe_load(open('folder/secret.yaml'))['width']"),
        ("sys", f"yaml.safe_load(open('{root}/outside/secret.yaml'))['width']"),
    ):
        script = root / "inside" / "train.py"
        made = text.replace("{0}", str(root / "outside")).replace("{1}", module)
        script.write_text(made.replace("{2}", value))
        estimate = analyse(script).estimate(backend="cpu")
        assert estimate.memory is None, value
        assert not estimate.errors
        assert estimate.unknowns
    made = text.replace("{0}", str(root / "outside")).replace("{1}", "secret")
    script.write_text(made.replace("{2}", "secret.WIDTH"))
    assert key(analyse(root / "inside/../inside/train.py", project=root).estimate())[0] == 8


def test_a_module_that_is_not_in_the_project_says_so(project: Callable[..., Path]) -> None:
    root = project({"a/train.py": WHOLE + "import sys\nsys.path.append('..')\n"
                    "from helpers import Net as Other\nfit(Other(3), 8)\n"})  # fmt: skip
    estimate = analyse(root / "a/train.py").estimate()
    assert estimate.memory is None
    assert "sys.path names .., outside the project" in estimate.unknowns[0].reason


# -- other frameworks, and Paddle before 2.0


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("import paddle.fluid as fluid\nx = fluid.layers.data('x', [3])\n", 1, "before 2.0"),
        ("import paddle\n\nx = paddle.fluid.layers.fc(3, 4)\n", 3, "before 2.0"),
        ("import paddle\nfrom paddle.fluid.dygraph import Linear\nLinear(3, 4)\n", 2, "before 2.0"),
        ("import paddle.v2 as paddle\n", 1, "before 2.0"),
        ("import torch\nimport torch.nn as nn\nm = nn.Linear(3, 4)\nm(torch.zeros(2, 3))\n",
         1, "PyTorch"),
        ("import argparse\nfrom torch import nn\nraise ValueError(nn)\n", 2, "PyTorch"),
        ("import tensorflow as tf\nwith tf.GradientTape() as t:\n    pass\n", 1, "TensorFlow"),
    ],
)  # fmt: skip
def test_what_is_recognised_but_not_supported(
    project: Callable[..., Path], text: str, line: int, words: str
) -> None:
    root = project({"train.py": text})
    estimate = analyse(root / "train.py").estimate()
    assert estimate.memory is None
    assert not estimate.errors
    first = estimate.unknowns[0]
    assert first.line == line
    assert "not supported" in first.reason
    assert words in first.reason


def test_an_old_import_that_is_caught_does_no_harm(same: Callable[..., Estimate]) -> None:
    text = """
    try:
        import paddle.fluid as fluid
        WIDTH = 3
    except ImportError:
        WIDTH = 40
    import torch
    fit(Net(WIDTH), 10)
    """
    same(text, 40, 10)


# -- files of a project


def test_files_are_where_their_links_lead_and_inside_the_project(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project / "data", outside):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("a")
    (project / "near.txt").symlink_to("data/a.txt")
    (project / "far.txt").symlink_to(outside / "a.txt")
    (project / "beside").symlink_to("data")
    (project / "away").symlink_to(outside)
    files = source.Lookup(project.resolve())
    inside = (project / "data" / "a.txt").resolve()
    assert files.file(f"{project}/data/a.txt") == inside
    assert files.file(f"{project}/beside/../data/a.txt") == inside
    assert files.file(f"{project}/near.txt") == inside
    assert files.file(f"{project}/beside/a.txt") == inside
    assert files.file(f"{project}/far.txt") is None
    assert files.file(f"{project}/away/a.txt") is None
    assert files.file(f"{outside}/a.txt") is None
    assert files.file(f"{project}/data") is None
    assert files.file(f"{project}/data/missing.txt") is None
    assert files.file(f"{project}/a\0.txt") is None


def test_a_folder_is_followed_once_for_all_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"{number}.jpg").touch()
    led: list[Path] = []
    within = source.within

    def followed(root: Path, path: Path) -> Path | None:
        led.append(path)
        return within(root, path)

    monkeypatch.setattr(source, "within", followed)
    files = source.Lookup(tmp_path)
    assert all(files.file(f"{tmp_path}/{number}.jpg") for number in range(20))
    assert led == [tmp_path]

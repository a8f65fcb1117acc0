"""Modules are found as the user's Python finds them, and code that looks at code is followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Task
from gpuconsole.preflight import Analysis, analyse
from gpuconsole.session.reading.analyses import Analyses
from tests.preflight.forms import DATA, HEAD, LOOP, NET, WHOLE, key

Scan = Callable[..., Analysis]
MODEL = HEAD + NET + DATA + LOOP


@pytest.fixture
def project(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Write files below a folder and return it."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "work" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "work"

    return make


@pytest.mark.parametrize(
    ("where", "script"),
    [
        ("kit", "tools/train.py"),
        ("src/kit", "tools/train.py"),
        ("tools/kit", "tools/runs/main/train.py"),
    ],
)
def test_roots_of_an_installed_project(
    project: Callable[..., Path], scan: Scan, where: str, script: str
) -> None:
    """The project's root, its `src`, and the folder above the script's package."""
    text = "from kit.model import *\nfit(Net(), 32)\n"
    files = {f"{where}/__init__.py": "", f"{where}/model.py": MODEL, script: text}
    if where.startswith("tools"):
        files |= {"tools/runs/__init__.py": "", "tools/runs/main/__init__.py": ""}
    root = project(files)
    found = analyse(root / script, project=root).estimate()
    assert key(found) == key(scan(WHOLE + "fit(Net(), 32)\n").estimate())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.setuptools.packages.find]\nwhere = ['python']\n"),
        ("pyproject.toml", "[tool.poetry]\npackages = [{include = 'kit', from = 'python'}]\n"),
        ("setup.py", "setup(package_dir={'': 'python'}, packages=find_packages('python'))\n"),
        ("setup.py", "setup(packages=find_packages(where='python'))\n"),
        ("setup.cfg", "[options]\npackage_dir =\n    = python\n"),
        ("setup.cfg", "[options.packages.find]\nwhere = python\n"),
    ],
)
def test_packages_lie_where_the_project_declares_them(
    project: Callable[..., Path], scan: Scan, name: str, text: str
) -> None:
    entry = "from kit.model import *\nfit(Net(), 32)\n"
    root = project({name: text, "python/kit/model.py": MODEL, "tools/train.py": entry,
                    "python/kit/__init__.py": ""})  # fmt: skip
    found = analyse(root / "tools/train.py", project=root).estimate()
    assert key(found) == key(scan(WHOLE + "fit(Net(), 32)\n").estimate())


def test_a_declared_folder_outside_the_project_is_not_read(project: Callable[..., Path]) -> None:
    root = project({"kit/__init__.py": MODEL, "inner/tools/train.py": "from kit import Net, fit\n",
                    "inner/setup.py": "setup(packages=find_packages('..'))\n"})  # fmt: skip
    found = analyse(root / "inner/tools/train.py", project=root / "inner")
    assert found.estimate().memory is None
    assert not any("kit" in one for one in found.files())


def test_a_standard_module_is_not_shadowed_by_a_file_of_the_root(
    project: Callable[..., Path],
) -> None:
    root = project({
        "random.py": "raise ValueError\n",
        "tools/train.py": MODEL + "import random\nrandom.seed(1)\nfit(Net(), 32)\n",
    })  # fmt: skip
    assert key(analyse(root / "tools/train.py", project=root).estimate())


def test_the_project_to_give_is_named(project: Callable[..., Path]) -> None:
    root = project(
        {
            "kit/__init__.py": MODEL,
            "tools/train.py": "from kit import Net, fit\nfit(Net(), 32)\n",
        }
    )
    found = analyse(root / "tools/train.py").estimate()
    assert found.memory is None
    assert f"give --project {root}" in found.unknowns[0].reason


def test_the_project_to_give_is_named_for_a_package_without_a_file_of_its_own(
    project: Callable[..., Path],
) -> None:
    root = project(
        {"kit/net.py": MODEL, "tools/train.py": "from kit.net import Net, fit\nfit(Net(), 32)\n"}
    )
    found = analyse(root / "tools/train.py").estimate()
    assert f"give --project {root}" in found.unknowns[0].reason


def test_a_large_project_is_imported_whole(project: Callable[..., Path]) -> None:
    many = {f"kit/m{one}.py": f"N{one} = {one}\n" for one in range(260)}
    lines = "".join(f"from kit.m{one} import N{one}\n" for one in range(260))
    root = project({**many, "train.py": MODEL + lines + "fit(Net(N259), 32)\n"})
    assert analyse(root / "train.py").estimate().memory is not None


def test_a_submodule_does_not_rebind_a_function_of_its_name(project: Callable[..., Path]) -> None:
    root = project({
        "kit/__init__.py": "from .build import build\n",
        "kit/build.py": MODEL + "def build():\n    return Net()\n",
        "kit/other.py": "import kit.build\nfrom kit.build import fit\n",
        "train.py": "import kit, kit.build\nfrom kit.other import fit\nfit(kit.build(), 32)\n",
    })  # fmt: skip
    assert key(analyse(root / "train.py").estimate())


CODE = {
    "six classes": "import abc\nimport six\n"
    "@six.add_metaclass(abc.ABCMeta)\nclass Config:\n    width = 4\n"
    "class Wide(six.with_metaclass(abc.ABCMeta, Config)):\n    more = 5\n"
    "fit(Net(Wide().width + Wide.more), 32)\n",
    "six": "import six\nsizes = {'a': 9}\n"
    "for name, size in six.iteritems(sizes):\n"
    "    if isinstance(name, six.string_types):\n        fit(Net(size), 32)\n",
    "members": "import inspect, sys\n"
    "nets = inspect.getmembers(sys.modules['__main__'], inspect.isclass)\n"
    "fit(dict(nets)['Net'](9), 32)\n",
    "signature": "import inspect\n"
    "given = {'width': 9, 'depth': 3}\n"
    "taken = inspect.signature(Net).parameters\n"
    "fit(Net(**{name: given[name] for name in given if name in taken}), 32)\n",
    "isclass": "import inspect\n"
    "def f():\n    pass\n"
    "if not inspect.isclass(Net) or not inspect.isfunction(f) or inspect.isclass(f):\n"
    "    raise TypeError\nfit(Net(9), 32)\n",
    "full": "import inspect\n"
    "taken = inspect.getfullargspec(Net.__init__).args\n"
    "fit(Net(9) if taken == ['self', 'width', 'classes'] else Net(1), 32)\n",
    "literal": "import ast\nfit(Net(ast.literal_eval(\"{'a': [3, 9]}\")['a'][1]), 32)\n",
    "version": "import yaml\nif yaml.__version__ >= '5.1':\n    fit(Net(9), 32)\n",
    "copyreg": "import copyreg\ncopyreg.pickle(Net, None)\nfit(Net(9), 32)\n",
    "operator": "import operator\nfit(Net(operator.add(4, 5)), 32)\n",
    "bytes": "fit(Net(len(bytes('123456789', 'utf-8'))), 32)\n",
    "bytearray": "fit(Net(len(bytearray(b'123456789'))), 32)\n",
    "descriptor": "class Lazy:\n"
    "    def __init__(self, make):\n        self.make = make\n"
    "    def __get__(self, owner, kind):\n        return self.make(owner)\n"
    "class Config:\n    base = 8\n    width = Lazy(lambda one: one.base + 1)\n"
    "fit(Net(Config().width), 32)\n",
}


@pytest.mark.parametrize("code", CODE)
def test_code_that_looks_at_code(scan: Scan, code: str) -> None:
    found = scan(WHOLE + CODE[code]).estimate()
    assert key(found) == key(scan(WHOLE + "fit(Net(9), 32)\n").estimate())


UNREAD = {
    "statistics": "import statistics\nfit(Net(statistics.mode([9, 9, 4])), 32)\n",
    "typer": "import typer\ndef main(width: int = 9):\n    fit(Net(width), 32)\ntyper.run(main)\n",
    "fire": "import fire\ndef main(width=9):\n    fit(Net(width), 32)\nfire.Fire(main)\n",
}


@pytest.mark.parametrize("code", UNREAD)
def test_what_a_library_without_a_model_decides_is_unknown_and_no_fault(
    scan: Scan, code: str
) -> None:
    found = scan(WHOLE + UNREAD[code]).estimate()
    assert found.memory is None
    assert not found.errors
    assert found.unknowns


def test_a_recursion_ends_where_an_unknown_condition_decides_on_it(scan: Scan) -> None:
    """Both sides are followed once; no side has to be guessed."""
    found = scan(
        WHOLE + "import spam\ndef walk(tree):\n    for name, value in tree.items():\n"
        "        if isinstance(spam.parse(value), dict):\n            walk(tree[name])\n"
        "walk({'a': {'b': 1}, 'c': 2})\nfit(Net(9), 32)\n"
    ).estimate()
    assert key(found) == key(scan(WHOLE + "fit(Net(9), 32)\n").estimate())
    assert not any("cannot be known" in note for note in found.notes)


def test_a_module_of_a_package_has_its_full_name_however_it_is_imported(
    project: Callable[..., Path],
) -> None:
    """Packages look their own classes up in the module of their name."""
    look = "import importlib\nfrom .net import Net\n\ndef make(name):\n    " + (
        "return getattr(importlib.import_module(__name__), name)()\n"
    )
    work = project({
        "kit/__init__.py": "from . import arch\n",
        "kit/arch/__init__.py": look,
        "kit/arch/net.py": HEAD + NET,
        "train.py": "from kit import arch\n" + HEAD + DATA + LOOP + "fit(arch.make('Net'), 32)\n",
        "whole.py": WHOLE + "fit(Net(), 32)\n",
    })  # fmt: skip
    found = analyse(work / "train.py", project=work).estimate()
    assert key(found) == key(analyse(work / "whole.py", project=work).estimate())


def test_names_are_relative_to_the_folder_that_the_script_is_started_in(
    project: Callable[..., Path], scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trainer for many models, started as documented: `cd models/small; python ../../run.py`."""
    text = (
        "import argparse, os, sys, yaml\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('-m')\nargs = parser.parse_args()\n"
        "assert os.path.isfile(args.m)\n"
        "sys.path.append(os.path.dirname(os.path.abspath(args.m)))\n"
        "from net import Net, fit\nfit(Net(), yaml.safe_load(open(args.m))['batch'])\n"
    )
    root = project({
        "run.py": text, "models/small/net.py": MODEL, "models/small/config.yaml": "batch: 32\n",
        "models/other/net.py": "Net = fit = None\n", "config.yaml": "batch: 7\n",
    })  # fmt: skip
    script, start = root / "run.py", root / "models/small"
    expected = key(scan(WHOLE + "fit(Net(), 32)\n").estimate())
    found = analyse(script, ["-m", "config.yaml"], project=root, start=start)
    assert key(found.estimate()) == expected
    task = Task(name="small", script=str(script), args=("-m", "config.yaml"), project=str(root))
    analyses = Analyses()
    monkeypatch.chdir(start)
    assert key(analyses.of(task).estimate()) == expected
    monkeypatch.chdir(root)
    assert analyses.of(task).estimate().memory is None
    assert key(analyses.of(replace(task, folder="models/small")).estimate()) == expected

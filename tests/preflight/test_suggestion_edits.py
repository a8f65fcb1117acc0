"""Putting a suggestion into effect: arguments, or lines of the shipped copy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.submission.script_edits import Edit, apply_edits, diff_of
from gpuconsole.errors import UsageError
from gpuconsole.preflight import analyse
from gpuconsole.preflight.tiers import probe_request

HEAD = """
import argparse
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, TensorDataset

"""
TAIL = """
net = nn.Linear(64, 10)
opt = paddle.optimizer.SGD(parameters=net.parameters())
data = TensorDataset([paddle.randn([512, 64]), paddle.randint(0, 10, [512])])
for x, y in DataLoader(data, batch_size=SIZE):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
ARGS = """
p = argparse.ArgumentParser()
p.add_argument("--batch-size", "-b", type=int, default=32)
args = p.parse_args()
"""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((), ("--batch-size", "8")),
        (("--batch-size", "64"), ("--batch-size", "8")),
        (("--batch-size=64",), ("--batch-size=8",)),
        (("-b", "64"), ("-b", "8")),
    ],
)
def test_an_option_is_set_in_the_arguments(
    write: Callable[..., Path], given: tuple[str, ...], wanted: tuple[str, ...]
) -> None:
    path = write(HEAD + ARGS + TAIL.replace("SIZE", "args.batch_size"))
    change = analyse(path, given).set_batch(8)
    assert change.args == wanted
    assert change.edits == ()
    assert analyse(path, change.args or ()).estimate().batch_size == 8


def test_a_constant_is_edited_in_the_copy(write: Callable[..., Path]) -> None:
    text = HEAD + "größe, SIZE = 'ä', 6_4  # samples\n" + TAIL
    path = write(text)
    analysis = analyse(path)
    assert analysis.estimate().batch_size == 64
    change = analysis.set_batch(16)
    assert change.args is None
    (edit,) = change.edits
    assert edit.new == "größe, SIZE = 'ä', 16  # samples"
    assert path.read_text() == text
    path.write_text(apply_edits(text, change.edits, str(path)))
    assert analyse(path).estimate().batch_size == 16


def test_a_configuration_entry_is_edited_in_the_copy(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("data:\n  batch: 48   # a card of 16 GiB\n")
    load = "import yaml\ncfg = yaml.safe_load(open('config.yaml'))\n"
    path = write(HEAD + load + TAIL.replace("SIZE", "cfg['data']['batch']"))
    assert path.parent == tmp_path
    (edit,) = analyse(path).set_batch(24).edits
    assert (edit.line, edit.new) == (2, "  batch: 24   # a card of 16 GiB")


TOML = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of Python 3.11")
READS_YAML = "import yaml\ncfg = yaml.safe_load(open('config.yaml'))\n"
READS_JSON = "import json, types\nfrom pathlib import Path\n"


@pytest.mark.parametrize(
    ("config", "load", "size", "line"),
    [
        ("batch: 48", "import argparse\n" + READS_YAML + "a = argparse.Namespace(**cfg)\n",
         "a.batch", "batch: 24"),
        ("batch: 48", READS_YAML + "base = {'batch': 2}\nbase.update(cfg)\n",
         "base['batch']", "batch: 24"),
        ("train: {lr: 1, batch: 48}", READS_YAML, "cfg['train'].get('batch', 2)",
         "train: {lr: 1, batch: 24}"),
        ("batch: 48", ARGS.replace("args = p", "q = p").replace("batch-size", "batch") + READS_YAML
         + "p.set_defaults(**cfg)\nargs = p.parse_args()\n", "args.batch", "batch: 24"),
        ('{"t": {"batch": 48, "lr": 1}}',
         READS_JSON + "cfg = json.loads(Path('config.json').read_text())\n",
         "cfg['t']['batch']", '{"t": {"batch": 24, "lr": 1}}'),
        ('{"t": {"batch": 48, "lr": 1}}', READS_JSON + "cfg = json.load(open('config.json'), "
         "object_hook=lambda o: types.SimpleNamespace(**o))\n",
         "cfg.t.batch", '{"t": {"batch": 24, "lr": 1}}'),
    ],
    ids=["namespace", "update", "flow", "defaults", "json", "json-hook"],
)  # fmt: skip
def test_a_batch_size_of_a_configuration_is_edited_however_it_is_reached(
    write: Callable[..., Path], tmp_path: Path, config: str, load: str, size: str, line: str
) -> None:
    name = "config.json" if config.startswith("{") else "config.yaml"
    (tmp_path / name).write_text(config + "\n")
    analysis = analyse(write(HEAD + load + TAIL.replace("SIZE", size)))
    assert analysis.estimate().batch_size == 48
    (edit,) = analysis.set_batch(24).edits
    assert (Path(edit.file).name, edit.new) == (name, line)


READS_TOML = "import tomllib\nwith open('config.toml', 'rb') as f:\n    cfg = tomllib.load(f)\n"
READS_INI = "import configparser\ncfg = configparser.ConfigParser()\ncfg.read('config.ini')\n"


@pytest.mark.parametrize(
    ("name", "config", "load", "size", "line"),
    [
        pytest.param("config.toml", "batch = 48  # a card", READS_TOML, "cfg['batch']",
                     "batch = 24  # a card", marks=TOML),
        pytest.param("config.toml", "[train.data]\nlr = 1\nbatch = 4_8", READS_TOML,
                     "cfg['train']['data']['batch']", "batch = 24", marks=TOML),
        pytest.param("config.toml", "[train]\nbatch = 48",
                     "import tomli\nfrom pathlib import Path\n"
                     "cfg = tomli.loads(Path('config.toml').read_text())\n",
                     "cfg['train'].get('batch', 2)", "batch = 24", marks=TOML),
        ("config.ini", "[train]\nbatch = 48", READS_INI, "int(cfg['train']['batch'])",
         "batch = 24"),
        ("config.ini", "[a]\nbatch=2\n[train]\nBatch : 48", READS_INI,
         "cfg.getint('train', 'batch')", "Batch : 24"),
        ("config.ini", "[DEFAULT]\nbatch = 48\n[train]\nlr = 1", READS_INI,
         "cfg['train'].getint('batch', fallback=2)", "batch = 24"),
        ("config.cfg", "[train]\nbatch = 48", READS_INI.replace(".ini", ".cfg"),
         "int(cfg.get('train', 'batch'))", "batch = 24"),
    ],
    ids=["toml", "toml-table", "tomli", "ini", "ini-getint", "ini-default", "cfg"],
)  # fmt: skip
def test_a_batch_size_of_toml_and_ini_is_edited_too(
    write: Callable[..., Path], tmp_path: Path, name: str, config: str, load: str, size: str,
    line: str,
) -> None:  # fmt: skip
    (tmp_path / name).write_text(config + "\n")
    path = write(HEAD + load + TAIL.replace("SIZE", size))
    analysis = analyse(path)
    assert analysis.estimate().batch_size == 48
    (edit,) = analysis.set_batch(24).edits
    assert (Path(edit.file).name, edit.new) == (name, line)
    text = (tmp_path / name).read_text()
    (tmp_path / name).write_text(apply_edits(text, [edit], name))
    assert analyse(path).estimate().batch_size == 24


@pytest.mark.parametrize(
    ("name", "config", "load", "size"),
    [
        pytest.param("config.toml", 'note = """\nbatch = 48\n"""\nbatch = 48', READS_TOML,
                     "cfg['batch']", marks=TOML),
        pytest.param("config.toml", "[[run]]\nbatch = 48", READS_TOML, "cfg['run'][0]['batch']",
                     marks=TOML),
        ("config.ini", "[train]\nall = 48\nbatch = %(all)s", READS_INI,
         "int(cfg['train']['batch'])"),
    ],
    ids=["text-of-lines", "array-of-tables", "interpolated"],
)  # fmt: skip
def test_a_number_of_toml_or_ini_whose_place_is_not_sure_is_not_edited(
    write: Callable[..., Path], tmp_path: Path, name: str, config: str, load: str, size: str
) -> None:
    (tmp_path / name).write_text(config + "\n")
    analysis = analyse(write(HEAD + load + TAIL.replace("SIZE", size)))
    assert analysis.estimate().batch_size == 48
    assert analysis.set_batch(24).edits == ()


@pytest.mark.parametrize(
    ("config", "reads"),
    [("batch = = 3", READS_TOML), ("[train", READS_INI), ("x" * 300_000, READS_INI)],
    ids=["toml", "ini", "too-large"],
)
def test_a_configuration_that_cannot_be_read_is_not_guessed(
    write: Callable[..., Path], tmp_path: Path, config: str, reads: str
) -> None:
    for name in ("config.toml", "config.ini"):
        (tmp_path / name).write_text(config)
    size = "int(cfg['train']['batch'])"
    assert analyse(write(HEAD + reads + TAIL.replace("SIZE", size))).estimate().batch_size is None


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ("all: &n 48\nbatch: *n", "cfg['batch']"),
        ("batch: '48'", "int(cfg['batch'])"),
        ("batch: 96", "cfg['batch'] // 2"),
    ],
    ids=["anchor", "text", "half"],
)
def test_a_number_that_is_not_the_batch_size_alone_is_not_edited(
    write: Callable[..., Path], tmp_path: Path, config: str, size: str
) -> None:
    (tmp_path / "config.yaml").write_text(config + "\n")
    analysis = analyse(write(HEAD + READS_YAML + TAIL.replace("SIZE", size)))
    assert analysis.estimate().batch_size == 48
    assert analysis.set_batch(24).edits == ()


def test_edits_are_made_only_to_the_lines_they_were_made_for() -> None:
    edit = Edit("t.py", 2, "b = 2", "b = 3")
    assert apply_edits("a = 1\r\nb = 2\r\n", [edit], "t.py") == "a = 1\r\nb = 3\r\n"
    assert "-b = 2" in diff_of([edit])
    for text in ("a = 1\n", "a = 1\nb = 4\n"):
        with pytest.raises(UsageError, match="no longer"):
            apply_edits(text, [edit], "t.py")


TWO = """
import paddle
SIZE = {first}
net = paddle.nn.Linear(256, 8)
adam = paddle.optimizer.Adam(parameters=net.parameters())
rows = paddle.io.TensorDataset([paddle.randn([16000, 256])])
train, test = {loaders}
for (x,) in train:
    net(x).square().mean().backward()
    adam.step()
    adam.clear_grad()
with paddle.no_grad():
    for (x,) in test:
        y = paddle.concat([x] * 100)
"""
LOADER = "paddle.io.DataLoader(rows, batch_size={})"


@pytest.mark.parametrize(
    ("first", "sizes", "lines"),
    [
        ("64", ("64", "64"), 1),
        ("64", ("SIZE", "64"), 2),
        ("64", ("SIZE", "SIZE"), 1),
        ("64", ("SIZE", "32"), 1),
    ],
)
def test_what_is_read_is_what_is_shipped_and_what_is_measured(
    tmp_path: Path, first: str, sizes: tuple[str, str], lines: int
) -> None:
    """Of two loaders that are written as the same number."""
    script = tmp_path / "train.py"
    loaders = ", ".join(LOADER.format(one) for one in sizes)
    script.write_text(TWO.format(first=first, loaders=loaders))
    analysis = analyse(script)
    change = analysis.set_batch(8)
    assert len(change.edits) == lines
    changed = tmp_path / "changed.py"
    changed.write_text(apply_edits(script.read_text(), change.edits, str(script)))
    (reported, does) = (
        analysis.estimate(8, backend="cpu"),
        analyse(changed).estimate(backend="cpu"),
    )
    assert reported.memory is not None
    assert does.memory is not None
    assert reported.memory.tensors_peak_mib == does.memory.tensors_peak_mib
    asked = probe_request.build(analysis, script, mode="meta")["batch"]
    assert [one["line"] for one in asked["edits"]] == [one.line for one in change.edits]


def test_another_loader_does_not_follow_an_option(tmp_path: Path) -> None:
    """Setting the option to another value leaves what is written in the script."""
    script = tmp_path / "train.py"
    text = TWO.format(first="0", loaders=f"{LOADER.format('args.size')}, {LOADER.format('64')}")
    head = "import argparse\nparser = argparse.ArgumentParser()\n"
    head += "parser.add_argument('--size', type=int, default=64)\nargs = parser.parse_args()\n"
    script.write_text(head + text)
    analysis = analyse(script)
    change = analysis.set_batch(8)
    assert change.args == ("--size", "8")
    reported, does = (
        analysis.estimate(8, backend="cpu"),
        analyse(script, change.args).estimate(backend="cpu"),
    )
    assert reported.memory is not None
    assert does.memory is not None
    assert reported.memory.tensors_peak_mib == does.memory.tensors_peak_mib

"""Where options come from: command lines of every kind, documents, data classes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.preflight import analyse
from tests.preflight.forms import WHOLE, key
from tests.waiting import BOUNDED_S

Same = Callable[..., Estimate]

PARSER = """
import argparse
p = argparse.ArgumentParser()
"""


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("p.add_argument('-b', '--batch-size', dest='batch', type=int, default=1)", "-b24"),
        ("p.add_argument('--batch', type=int, choices=[8, 24])", "--batch=24"),
        ("p.add_argument('--batch', type=lambda s: int(s) * 2)", "--batch 12"),
        ("p.add_argument('batch', type=int, nargs='?', default=8)", "24"),
        ("p.add_argument('batch', type=int, nargs='?', default=24)", ""),
        ("p.add_argument('--batch', nargs='?', const=24, default=8, type=int)", "--batch"),
        ("p.add_argument('--batch', action='append', type=int)\n"
         "p.set_defaults(batch=[])", "--batch 3"),
        ("p.add_argument('-v', action='count', default=21, dest='batch')", "-vvv"),
        ("p.add_argument('--big', action='store_const', const=24, default=8, dest='batch')",
         "--big"),
        ("g = p.add_argument_group('x')\nadd = __import__('functools').partial(g.add_argument, "
         "type=int)\nadd('--batch', default=3)", "--ba 24"),
        ("e = p.add_mutually_exclusive_group()\ne.add_argument('--batch', type=int, default=24)",
         ""),
        ("up = argparse.ArgumentParser(add_help=False)\nup.add_argument('--batch', default=24)\n"
         "p = argparse.ArgumentParser(parents=[up])", ""),
        ("p.add_argument('--batch', type=int, default=9)\np.set_defaults(batch=24)", ""),
        ("p.add_argument('--batch', type=eval, default='3*8')", ""),
        ("p.add_argument('--batch', type=int, default=argparse.SUPPRESS)", "--batch 24"),
    ],
)  # fmt: skip
def test_argparse(same: Same, declared: str, words: str) -> None:
    text = (
        PARSER
        + declared
        + """
args = p.parse_args()
batch = args.batch if isinstance(args.batch, int) else 8 * args.batch[0]
fit(Net(40), batch)
"""
    )
    same(text, 40, 24, *words.split())


def test_a_flag_declared_again_replaces_the_first(same: Same) -> None:
    # argparse itself refuses this; parsers that resolve conflicts take the last.
    declared = "p.add_argument('--batch', '-b', default=3)\np.add_argument('--other')\n"
    again = "p.add_argument('--batch', type=int, default=24)\nbatch = p.parse_args().batch\n"
    same(PARSER + declared + again + "fit(Net(40), batch)\n", 40, 24)


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(10**7):\n    p.add_argument(f'--a{i}', default=i)",
        "for i in range(10**7):\n    p.add_argument('--a', default=i)",
        "for i in range(8000):\n    p.add_argument(f'--a{i}', default=i)\n"
        "for i in range(10**7):\n    p.get_default(f'a{i}')",
        "for i in range(8000):\n    p.add_argument(f'--a{i}', default=i)\n"
        "for i in range(10**7):\n    p.parse_args([])",
        "for i in range(8000):\n    p.add_argument(f'--a{i}', default=i)\n"
        "p.parse_args(['--a1', '2'] * 20000)",
    ],
)
def test_options_without_end_are_cut_short(project: Callable[..., Path], body: str) -> None:
    start = time.process_time()
    root = project({"train.py": f"{PARSER}{body}\n"})
    found = analyse(root / "train.py").estimate()
    assert time.process_time() - start < BOUNDED_S
    said = [*found.notes, *(one.reason for one in found.unknowns)]
    why = ("within the budget", "too long", "taken to be like them")
    assert any(part in one for one in said for part in why)


def test_argparse_in_a_real_shape(same: Same) -> None:
    text = (
        PARSER
        + """
def str2bool(v):
    if isinstance(v, bool):
        return v
    if v.lower() in ('yes', 'true', '1'):
        return True
    elif v.lower() in ('no', 'false', '0'):
        return False
    else:
        raise argparse.ArgumentTypeError('Boolean expected.')
p.add_argument('--wide', type=str2bool, default='no', help='%(default)s')
p.add_argument('--plain', action='store_false')
p.add_argument('--amp', action=argparse.BooleanOptionalAction, default=True)
p.add_argument('--sizes', nargs='+', type=int, default=[1, 2])
p.add_argument('--odd', type=bool, default=False)
p.add_argument('--model', choices=['a', 'b'], default='a')
sub = p.add_subparsers(dest='command')
train = sub.add_parser('train', help='x')
train.add_argument('--batch', type=int, default=3)
train.set_defaults(run=lambda a: fit(Net(a.sizes[1]), a.batch))
args, rest = p.parse_known_args()
assert rest == ['--unheard', 'of'], rest
assert args.wide and not args.plain and not args.amp and args.odd and args.model == 'b'
options = vars(args)
options.update(extra=1)
assert args.extra == 1 and 'extra' in args and not hasattr(args, 'none')
again = argparse.Namespace(**options)
again.__dict__.update(sizes=[again.sizes[0], again.sizes[1] + 1])
assert getattr(again, 'command') == 'train'
args.run(again)
"""
    )
    words = "--wide True --plain --no-amp --odd no --model b --sizes 5 39 --unheard"
    same(text, 40, 24, *words.split(), "train", "--batch", "24", "of")


def test_arguments_and_constants_of_a_module(same: Same) -> None:
    text = (
        PARSER
        + """
import const
import functools
p.add_argument('--batch', type=int, default=const.BATCH)
args = p.parse_args()
const.BATCH = args.batch
import late
fit(Net(const.WIDTH), late.batch())
"""
    )
    files = {"const.py": "BATCH = 24\nWIDTH = 40\n",
             "late.py": "import const\ndef batch():\n    return const.BATCH\n"}  # fmt: skip
    estimate = same(text, 40, 24, **files)
    assert estimate.batch_source is not None
    assert estimate.batch_source.kind == "default"


@pytest.mark.parametrize(
    ("declared", "words", "message"),
    [
        ("p.add_argument('--batch', type=int)", "--batch few", "not a number"),
        ("p.add_argument('--batch', choices=['1'])", "--batch 2", "not one of its choices"),
        ("p.add_argument('batch')", "", "required"),
        ("p.add_argument('--batch', required=True)", "", "required"),
        ("p.add_argument('--batch', type=int)", "--batch", "without its value"),
        ("p.add_argument('--batch', nargs=2)", "--batch 1", "without its value"),
        ("p.add_subparsers(dest='c').add_parser('a')", "b", "subcommands"),
        ("p.error('no such thing')", "", "no such thing"),
    ],
)
def test_a_wrong_command_line_is_a_fault(
    project: Callable[..., Path], declared: str, words: str, message: str
) -> None:
    root = project({"train.py": PARSER + declared + "\nargs = p.parse_args()\n"})
    errors = analyse(root / "train.py", words.split()).estimate().errors
    assert message in errors[0].message


FIELDS = """
from dataclasses import dataclass, field, replace, asdict, fields, is_dataclass
from typing import List, Optional

@dataclass
class Base:
    name: str
    width: int = 8
    sizes: List[int] = field(default_factory=lambda: [1, 2])

@dataclass
class Config(Base):
    batch: int = 3
    amp: bool = field(default=False, metadata={'help': 'x'})
    twice: int = field(init=False, default=0)
    def __post_init__(self):
        self.twice = 2 * self.width
    @property
    def half(self):
        return self.width // 2
    @classmethod
    def wide(cls, **more):
        return cls('wide', width=80, **more)
"""


@pytest.mark.parametrize(
    "use",
    [
        "c = Config('x', 40, batch=24)",
        "c = replace(Config('x', 40), batch=24)",
        "c = Config(**{**asdict(Config('x', 40, [3], 24)), 'sizes': []} if False else "
        "dict(name='x', width=40, batch=24))",
        "c = Config.wide(batch=24)\nc.width = c.half",
        "c = Config('x')\nc.width, c.batch = 40, 24\nassert is_dataclass(c) and c.twice == 16",
        "c = Config('x', *[40], **{'batch': 24})\nassert [f.name for f in fields(c)][:2] == "
        "['name', 'width']",
    ],
)
def test_data_classes(same: Same, use: str) -> None:
    same(FIELDS + use + "\nassert c.sizes is not Config('y').sizes\nfit(Net(c.width), c.batch)\n",
         40, 24)  # fmt: skip


@pytest.mark.parametrize(
    ("head", "made"),
    [
        ("import yaml", "yaml.safe_load(open(path))"),
        ("import yaml", "yaml.load(open(path, 'r', encoding='utf-8').read(), "
         "Loader=yaml.FullLoader)"),
        ("import json", "json.load(open(path.replace('yaml', 'json')))"),
        ("import json, pathlib", "json.loads(pathlib.Path('conf/a.json').read_text())"),
    ],
)  # fmt: skip
def test_documents(same: Same, head: str, made: str) -> None:
    text = f"""
{head}
path = os.path.join('conf', 'a.yaml') if False else 'conf/a.yaml'
with open(path) as f:
    pass
c = {made}
assert c['model']['act'] == 'relu' and c['list'] == [1, 2]
fit(Net(c['model']['width']), c['train']['batch'])
"""
    yaml = ("base: &b\n  act: relu\nmodel:\n  <<: *b\n  width: 40\ntrain: {batch: 24}\n"
            "list: [1, 2]\n")  # fmt: skip
    document = '{"model": {"act": "relu",\n"width": 40}, "n": "24",\n "train": {"batch":\n 24},'
    document += ' "list": [1, 2], "lr": 1e-3}'
    estimate = same(text, 40, 24, **{"conf/a.yaml": yaml, "conf/a.json": document})
    assert estimate.batch_source is not None
    line = 4 if "json" in head else 6
    assert estimate.batch_source.file.endswith("conf/a.json" if "json" in head else "conf/a.yaml")
    assert estimate.batch_source.line == line


def test_a_document_that_explodes_is_given_up(project: Callable[..., Path]) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    root = project({
        "train.py": "import yaml\nc = yaml.safe_load(open('bomb.yaml'))\n",
        "bomb.yaml": "\n".join(lines),
    })  # fmt: skip
    assert analyse(root / "train.py").estimate().memory is None


@pytest.mark.parametrize(
    "text",
    [
        "from easydict import EasyDict as E\nc = E(d)",
        "from attrdict import AttrDict\nc = AttrDict(d)",
        "from munch import munchify\nc = munchify(d)",
        "from omegaconf import OmegaConf\nc = OmegaConf.merge(OmegaConf.create(d), {'x': 1})",
        "from types import SimpleNamespace as S\nc = S(train=S(**d['train']), model=S(width=40))",
        "class A(dict):\n    __getattr__ = dict.get\n    __setattr__ = dict.__setitem__\n"
        "c = A({k: A(v) for k, v in d.items()})",
        "class A(dict):\n    def __getattr__(self, key):\n        return self[key]\n"
        "    def __setattr__(self, key, value):\n"
        "        self[key] = value\n"
        "def deep(x):\n    return A({k: deep(v) for k, v in x.items()}) "
        "if isinstance(x, dict) else x\nc = deep(d)",
        "class A(dict):\n    def __init__(self, *a, **k):\n        super().__init__(*a, **k)\n"
        "        self.__dict__ = self\nc = A(d)\nc.train, c.model = A(c.train), A(**c['model'])",
        "class A:\n    def __init__(self, d):\n        for k, v in d.items():\n"
        "            setattr(self, k, A(v) if isinstance(v, dict) else v)\nc = A(d)",
        "class A:\n    def __init__(self, **d):\n        self.__dict__.update(d)\n"
        "c = A(**{k: A(**v) for k, v in d.items()})",
        "from yacs.config import CfgNode as CN\n_C = CN()\n_C.train = CN()\n_C.train.batch = 1\n"
        "_C.model = CN(new_allowed=True)\n_C.model.width = 2\nc = _C.clone()\n"
        "c.merge_from_file('c.yaml')\nc.merge_from_list(['model.width', 40])\nc.freeze()",
        "from yacs.config import CfgNode as CN\nclass A:\n    def __init__(self):\n"
        "        self.held = CN(d)\n"
        "    def __getattr__(self, name):\n        return self.held.__getattr__(name)\nc = A()",
    ],
)
def test_attribute_dictionaries(same: Same, text: str) -> None:
    body = "d = {'train': {'batch': 24, 'lr': None}, 'model': {'width': 40}}\n" + text
    body += "\nassert not c.train.lr\nfit(Net(c.model.width), c.train.batch)\n"
    if "yacs" in text:
        body = body.replace("assert not c.train.lr\n", "")
    estimate_files = {"c.yaml": "train:\n  batch: 24\n"}
    same(body, 40, 24, **estimate_files)


def test_environment_and_plain_words(same: Same) -> None:
    text = """
import os, sys
os.environ['WIDTH'] = '40'
os.environ.setdefault('RANK', '0')
width = int(os.environ.get('WIDTH', 3))
batch = int(os.environ.get('BATCH', 12)) * int(os.getenv('MANY', '2'))
assert os.environ['RANK'] == '0' and 'NONE' not in os.environ
assert len(sys.argv) > 1 and sys.argv[1] == 'go'
fit(Net(width), batch)
"""
    same(text, 40, 24, "go")


def test_a_document_of_the_project_root(
    project: Callable[..., Path], plain: Callable[..., tuple[object, ...]]
) -> None:
    text = "import yaml\nfrom pathlib import Path\nROOT = Path(__file__).resolve().parent.parent\n"
    text += "a = yaml.safe_load((ROOT / 'conf' / f'{\"a\"}.yaml').open())\n"
    text += "b = yaml.safe_load(open('conf/a.yaml'))\nassert a == b\n"
    text += "n = len([l for l in open(str(ROOT / 'labels.txt')) if l.strip()])\n"
    root = project({"tools/train.py": WHOLE + text + "fit(Net(a['w']), n)\n",
                    "conf/a.yaml": "w: 40\n", "labels.txt": "a\nb\n\nc\n"})  # fmt: skip
    estimate = analyse(root / "tools/train.py", project=root).estimate(backend="cpu")
    assert key(estimate) == plain("40", 3)

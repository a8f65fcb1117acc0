"""Hand-made hostile scripts: what a careless or a malicious person could hand to preflight.

Each is a project: file names and their text, with `train.py` as the script to read. `LINKS` lists
symbolic links to make beside them. Nothing here is ever run; it is only read.
"""

# ruff: noqa: E501 - a hostile script is easier to read on one line
from __future__ import annotations

TRAINING = """
import paddle
from paddle import nn
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(10):
    x = paddle.randn([32, 8])
    loss = nn.functional.cross_entropy(net(x), paddle.randint(0, 4, [32]))
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
"""A loop that is understood; hostile lines stand before it, so that a reader must get past them."""

LINES = {
    "deep_calls": "f = " + "g(" * 90 + "1" + ")" * 90,
    "deep_lists": "x = " + "[" * 95 + "]" * 95,
    "deep_sum": "x = " + " + ".join(["1"] * 3000),
    "deep_attribute": "x = paddle" + ".nn" * 800,
    "deep_minus": "x = " + "-" * 900 + "1",
    "deep_if": "\n".join(" " * i + "if True:" for i in range(90)) + "\n" + " " * 90 + "x = 1",
    "deep_functions": "\n".join(" " * i + f"def f{i}():" for i in range(60)) + "\n" + " " * 60 + "0",
    "deep_lambda": "x = " + "lambda: " * 90 + "1",
    "deep_fstring": "y = f\"{f'{1 + 1}'}\" * 10 ** 9",
    "long_elif": "if a == 0: pass\n" + "\n".join(f"elif a == {i}: pass" for i in range(900)),
    "giant_integer": "x = 10 ** 10 ** 10\ny = 1 << (1 << 60)\nz = 7 ** 7 ** 7 ** 7",
    "giant_literal": "x = " + "9" * 4000,
    "beyond_digits": "x = " + "9" * 6000,
    "giant_string": "x = 'a' * (1 << 40)\ny = 'b'.center(1 << 40)\nz = 'c'.zfill(1 << 40)",
    "giant_format": "x = f'{1:{1 << 40}}'\ny = '%*d' % (1 << 40, 1)\nz = '{:>{}}'.format(1, 1 << 40)",
    "giant_list": "x = [0] * (1 << 50)\ny = list(range(1 << 50))\nz = [[0] * 99999] * 99999",
    "giant_range": "for i in range(1 << 62):\n    y = i * i",
    "giant_tensor": "x = paddle.zeros([1 << 40, 1 << 40, 1 << 40])\ny = x @ x",
    "negative_shape": "x = paddle.zeros([-5, 3])\ny = nn.Linear(-3, 0)(x)",
    "float_shape": "x = nn.Conv2D(1.5, float('nan'), float('inf'))",
    "giant_layer_list": "x = nn.LayerList([nn.Linear(8, 8) for _ in range(1 << 40)])",
    "many_layers": "x = nn.Sequential(*[nn.Linear(64, 64) for _ in range(200000)])",
    "exponential_comprehension": "x = [a for a in range(99) for b in range(99) for c in range(99)"
    " for d in range(99) for e in range(99) for f in range(99)]",
    "nested_comprehension": "x = " + "[" * 12 + "0" + "".join(
        f" for i{n} in range(40)]" for n in range(12)),
    "doubling_list": "x = [1]\nfor _ in range(200):\n    x = x + x",
    "doubling_text": "x = 'a'\nfor _ in range(200):\n    x += x",
    "doubling_tree": "x = ()\nfor _ in range(200):\n    x = (x, x)\ny = str(x)\nz = x == (x, x)\n{x: 1}",
    "doubling_dict": "d = {0: 0}\nfor _ in range(99):\n    d = {k + v: v for k in d for v in (1, 2, 3)}",
    "recursion": "def f(n):\n    return f(n + 1) + f(n + 2)\nf(0)",
    "ackermann": "def a(m, n):\n    return n + 1 if not m else a(m - 1, 1 if not n else a(m, n - 1))\na(4, 4)",
    "fibonacci": "def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nx = f(60)",
    "mutual_recursion": "def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\nf(1)",
    "recursive_layer": "class A(nn.Layer):\n    def __init__(self):\n        super().__init__()\n"
    "        self.a = A()\nA()",
    "recursive_forward": "class A(nn.Layer):\n    def forward(self, x):\n        return self(x)\n"
    "A()(paddle.ones([1]))",
    "recursive_property": "class A:\n    @property\n    def p(self):\n        return self.p\nA().p",
    "recursive_getattr": "class A:\n    def __getattr__(self, n):\n        return getattr(self, n + 'x')\nA().q",
    "recursive_call": "class A:\n    def __call__(self):\n        return self()\nA()()",
    "recursive_repr": "class A:\n    def __repr__(self):\n        return repr(self)\nprint(A())\nf'{A()}'",
    "recursive_eq": "class A:\n    def __eq__(self, o):\n        return o == self\nA() == A()\nA() in [A()]",
    "recursive_iter": "class A:\n    def __iter__(self):\n        return iter(self)\nlist(A())",
    "recursive_len": "class A:\n    def __len__(self):\n        return len(self)\nlen(A())\nbool(A())",
    "recursive_next": "class A:\n    def __iter__(self):\n        return self\n"
    "    def __next__(self):\n        return 1\nsum(A())\nmax(A())\nsorted(A())\ndict(zip(A(), A()))",
    "own_container": "l = []\nl.append(l)\nd = {'l': l}\nd['d'] = d\nprint(l, d)\nl == [l]\nstr(d)\n"
    "import copy\ncopy.deepcopy(d)\nsorted(l)",
    "own_class": "class A(A):\n    pass\nclass B(C):\n    pass\nclass C(B):\n    pass",
    "endless_while": "while True:\n    pass",
    "endless_while_state": "n = 0\nwhile n >= 0:\n    n += 1",
    "endless_for": "l = [1]\nfor i in l:\n    l.append(i)",
    "endless_generator": "def g():\n    while True:\n        yield 1\nx = list(g())\ny = sum(g())",
    "endless_delegation": "def g():\n    yield from g()\nlist(g())",
    "endless_itertools": "import itertools\nx = list(itertools.count())\ny = list(itertools.cycle([1]))\n"
    "z = list(itertools.product(range(999), repeat=99))\nlist(itertools.permutations(range(99)))",
    "endless_iter": "x = list(iter(lambda: 1, 2))\ny = [*map(lambda a: a, iter(int, 1))]",
    "endless_walrus": "while (n := 1):\n    x = [n for _ in range(999)]",
    "looping_decorator": "def d(f):\n    while True:\n        f = d(f)\n    return f\n@d\ndef g(): pass\ng()",
    "own_decorator": "@g\ndef g(): pass\n@(lambda f: f(f))\ndef h(f): return f(f)\nh(h)",
    "y_combinator": "x = (lambda f: f(f))(lambda f: f(f))",
    "metaclass": "class M(type):\n    def __new__(m, n, b, d):\n        return M(n, b, d)\n"
    "    def __call__(c, *a):\n        return c()\nclass A(metaclass=M): pass\nA()",
    "metaclass_layer": "class M(type):\n    def __getattr__(c, n):\n        return c\n"
    "class A(nn.Layer, metaclass=M): pass\nA.b.c.d()()",
    "descriptors": "class D:\n    def __get__(s, i, o):\n        return i.x\nclass A:\n    x = D()\nA().x",
    "subclasses": "x = ().__class__.__base__.__subclasses__()\ny = [c for c in x if 'Popen' in c.__name__]\n"
    "y[0](['touch', '/tmp/pwned'])",
    "globals": "x = (lambda: 0).__globals__['__builtins__']['__import__']('os').system('id')",
    "code_object": "f = lambda: 0\nf.__code__ = f.__code__.replace(co_code=b'x' * 99)\nf()",
    "builtins_import": "__import__('os').system('touch /tmp/pwned')\n__builtins__.exec('1')",
    "importlib": "import importlib\nimportlib.import_module('os').system('id')\n"
    "importlib.reload(paddle)",
    "eval": "eval('__import__(\"os\").system(\"id\")')\nexec('import os; os.remove(\"train.py\")')\n"
    "exec(compile('while 1: pass', 'x', 'exec'))",
    "system": "import os, subprocess\nos.system('touch /tmp/pwned')\nos.execv('/bin/sh', ['sh'])\n"
    "subprocess.run(['touch', '/tmp/pwned'])\nsubprocess.Popen('id', shell=True).communicate()",
    "fork": "import os, sys, threading, multiprocessing\nos.fork()\nos.kill(os.getpid(), 9)\nsys.exit(3)\n"
    "multiprocessing.Pool(4).map(print, [1])\nthreading.Thread(target=print).start()",
    "removal": "import os, shutil, pathlib\nos.remove('train.py')\nshutil.rmtree('/')\n"
    "pathlib.Path('train.py').unlink()\nos.makedirs('/tmp/pwned', exist_ok=True)\nos.chdir('/')",
    "writing": "open('out.txt', 'w').write('x')\nwith open('/tmp/pwned', 'ab') as f:\n    f.write(b'x')\n"
    "import pathlib\npathlib.Path('p').write_text('x')\npaddle.save({}, 'net.pdparams')\n"
    "import numpy as np\nnp.save('x.npy', np.ones(3))\nimport json\njson.dump({}, open('j', 'w'))",
    "passwd": "x = open('/etc/passwd').read()\ny = len(open('/etc/shadow').readlines())\n"
    "n = nn.Linear(8, len(x))",
    "outside": "x = open('../../../../../../etc/hostname').read()\nimport pathlib\n"
    "y = (pathlib.Path(__file__).parent / '..' / '..' / '..' / 'etc' / 'passwd').read_text()\n"
    "z = pathlib.Path('/root/.ssh/id_rsa').read_bytes()\nw = pathlib.Path.home() / '.netrc'\nw.read_text()",
    "documents": "import json, yaml\na = json.load(open('/etc/docker/daemon.json'))\n"
    "b = yaml.safe_load(open('/etc/passwd'))\nc = yaml.load(open('~/.config/x.yaml'), Loader=yaml.Loader)",
    "devices": "x = open('/dev/zero').read()\ny = open('/dev/random', 'rb').read(10)\n"
    "z = open('/proc/self/environ').read()\nfor line in open('/dev/stdin'):\n    print(line)",
    "listing": "import os, glob\nx = os.listdir('/')\ny = glob.glob('/home/**', recursive=True)\n"
    "for r, d, f in os.walk('/'):\n    print(f)\nn = nn.Linear(8, len(x))",
    "path_change": "import sys\nsys.path.insert(0, '/etc')\nsys.path.append('../..')\nimport passwd\n"
    "import hostname",
    "absolute_module": "from .......... import x\nfrom ..etc import passwd\nimport " + "a." * 300 + "b",
    "network": "import socket, urllib.request\nsocket.create_connection(('example.com', 80))\n"
    "urllib.request.urlopen('http://example.com').read()\nimport requests\nrequests.get('http://x')",
    "downloads": "from paddle.vision.datasets import MNIST, Cifar10\nx = MNIST(download=True)\n"
    "from paddle.utils.download import get_weights_path_from_url\nget_weights_path_from_url('http://x/y')\n"
    "from paddle.vision.models import resnet50\nm = resnet50(pretrained=True)\n"
    "paddle.hub.load('x/y', 'z', source='github')",
    "pickle": "import pickle\npickle.load(open('evil.pkl', 'rb'))\npaddle.load('evil.pdparams')\n"
    "import numpy as np\nnp.load('evil.npy', allow_pickle=True)",
    "environment": "import os\nx = int(os.environ['SECRET'])\nos.environ['PATH'] = ''\nnn.Linear(8, x)",
    "input": "x = input()\ny = int(input('n? '))\nimport sys\nz = sys.stdin.read()\nnn.Linear(8, y)",
    "sleep": "import time\ntime.sleep(10 ** 9)\nwhile time.time() < 10 ** 12:\n    pass",
    "shadowing": "len = range = print = super = lambda *a: None\nlen([1])\n__name__ = None\nobject = int = 3",
    "shadowed_paddle": "import json as paddle\npaddle.nn.Linear(3, 4)",
    "deleted": "del paddle, nn\nimport paddle\ndel paddle.nn\nfrom paddle import nn",
    "regular_expression": "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')\nre.compile('(' * 500)",
    "random_seed": "import random\nx = [random.random() for _ in range(10 ** 9)]\nrandom.shuffle(x)",
    "sorting": "x = sorted(range(10 ** 9), key=lambda a: -a)\ny = max(range(10 ** 12))\nz = set(range(10 ** 10))",
    "numpy_giant": "import numpy as np\nx = np.zeros((10 ** 6, 10 ** 6))\ny = np.arange(10 ** 13).tolist()\n"
    "z = np.random.rand(10 ** 8).tolist()",
    "einsum": "x = paddle.einsum(',,,->->', paddle.ones([2]))\ny = paddle.einsum('ab' * 60, paddle.ones([2, 2]))",
    "zero_division": "x = 1 / 0\ny = 1 % 0\nz = 2.0 ** 10000\nw = int(float('inf'))\nv = round(float('nan'))",
    "surrogates": "x = '\\ud800'\nprint(x)\nraise ValueError(x)\nnn.Linear(8, x)",
    "escapes": "raise RuntimeError('\\x1b[31m\\x07\\x9b2J')",
    "bad_unpacking": "a, *b, c = 1\n*a, = 3\n(a, b), c = [1, 2]\nfor a, b in 5: pass\nx = [*1, **2]"
    .replace("**2", "*2"),
    "bad_slices": "x = [1, 2, 3][::0]\ny = 'a'[1 << 70]\nz = paddle.ones([3])[..., ..., None, 5:1:0]",
    "exceptions": "try:\n    raise\nexcept* (A, 1):\n    raise 3 from 4\nfinally:\n    x".replace("except*", "except"),
    "endless_exception": "while True:\n    try:\n        raise ValueError\n    except ValueError:\n        continue\n"
    "    finally:\n        pass",
    "match": "match [1, {'a': 2}]:\n    case [x, {'a': y, **z}] if x / 0: pass\n    case A(b=1) | None: pass\n"
    "    case _: pass",
    "async": "import asyncio\nasync def f():\n    async for i in f():\n        await f()\nasyncio.run(f())\nawait_ = f()",
    "hooks": "import atexit, signal, sys\natexit.register(exit)\nsignal.alarm(1)\nsys.settrace(print)\n"
    "sys.setrecursionlimit(10 ** 9)\nsys.modules.clear()\nimport gc\ngc.collect()",
    "argparse_loop": "import argparse\np = argparse.ArgumentParser(parents=[])\n"
    "for i in range(10 ** 7):\n    p.add_argument(f'--a{i}', type=lambda s: p.parse_args())\np.parse_args()",
    "pow_modulo": "x = pow(3, 10 ** 8, 10 ** 9)\ny = 10 ** 5 ** 6\nz = (10 ** 4000) ** 4000\nimport math\n"
    "math.factorial(10 ** 8)\nmath.comb(10 ** 8, 10 ** 7)",
    "string_bomb": "x = 'ab'\nfor _ in range(40):\n    x = x.replace('a', x)\ny = x.split('b')\nz = ','.join(y * 9999)",
    "join_bomb": "x = ''.join('a' * 99999 for _ in range(99999))\ny = 'a'.join(str(i) for i in range(10 ** 9))",
    "parameters_argument": "opt = paddle.optimizer.Adam(parameters=[net for _ in iter(int, 1)])",
    "endless_dataset": "class D(paddle.io.IterableDataset):\n    def __iter__(self):\n        while True: pass\n"
    "for x in paddle.io.DataLoader(D(), batch_size=1 << 62): pass",
    "dataset_length": "class D(paddle.io.Dataset):\n    def __len__(self): return -(1 << 80)\n"
    "    def __getitem__(self, i): return self[i]\nfor x in paddle.io.DataLoader(D(), batch_size=0): pass",
    "backward_twice": "x = paddle.ones([2], stop_gradient=False)\nfor _ in range(10 ** 6):\n    x = x * 2\nx.backward()",
    "growing_graph": "x = paddle.ones([2, 2])\nx.stop_gradient = False\nkeep = []\nwhile True:\n    x = x @ x\n    keep.append(x)",
    "hooks_in_backward": "x = paddle.ones([2], stop_gradient=False)\nx.register_hook(lambda g: x.backward())\n"
    "(x * 2).sum().backward()",
    "layer_cycle": "a = nn.Layer()\na.b = nn.Layer()\na.b.a = a\na.parameters()\na.state_dict()\nprint(a)\na.apply(print)",
    "own_sublayer": "a = nn.LayerList()\na.append(a)\nlen(a.sublayers())\nfor p in a.parameters(): pass",
    "set_state": "class A(nn.Layer):\n    def __setattr__(self, k, v):\n        setattr(self, k, v)\nA().x = 1",
}  # fmt: skip

PROJECTS: dict[str, dict[str, str]] = {
    "import_cycle": {
        "train.py": "import a\n" + TRAINING,
        "a.py": "import b\nfrom b import x\n",
        "b.py": "import a\nfrom a import y\n",
    },
    "star_cycle": {
        "train.py": "from p import *\n" + TRAINING,
        "p/__init__.py": "from .q import *\nfrom . import *\n",
        "p/q.py": "from . import *\nfrom p import *\nfrom .q import q\n",
    },
    "imports_itself": {"train.py": "import train\nfrom train import net\n" + TRAINING},
    "many_modules": {
        "train.py": "import m0\n" + TRAINING,
        **{f"m{i}.py": f"import m{i + 1}\nx = [m{i + 1}] * 3\n" for i in range(150)},
    },
    "shadows_library": {
        "train.py": "import json, os, argparse\njson.loads('1')\n" + TRAINING,
        "json.py": "import os\nos.system('touch /tmp/pwned')\nloads = None\n",
        "os.py": "raise SystemExit(3)\n",
    },
    "shadows_paddle": {
        "train.py": TRAINING,
        "paddle.py": "import os\nos.system('touch /tmp/pwned')\nnn = 3\n",
        "sitecustomize.py": "raise SystemExit(3)\n",
    },
    "broken_module": {"train.py": "import broken\n" + TRAINING, "broken.py": "def f(:\n"},
    "yaml_bomb": {
        "train.py": "import yaml\nc = yaml.safe_load(open('c.yaml'))\nstr(c)\n" + TRAINING,
        "c.yaml": "a0: &a0 [x, x]\n"
        + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60)),
    },
    "yaml_objects": {
        "train.py": "import yaml\nc = yaml.load(open('c.yaml'), Loader=yaml.UnsafeLoader)\n"
        + TRAINING,
        "c.yaml": "a: !!python/object/apply:os.system ['touch /tmp/pwned']\n"
        "b: !!python/name:os.remove\n",
    },
    "yaml_cycle": {
        "train.py": "import yaml\nc = yaml.safe_load(open('c.yaml'))\nprint(c)\nd = {**c}\n"
        + TRAINING,
        "c.yaml": "&a\nx: *a\ny: [*a, *a]\n",
    },
    "json_deep": {
        "train.py": "import json\nc = json.load(open('c.json'))\nnn_ = c[0]\n" + TRAINING,
        "c.json": "[" * 100_000 + "]" * 100_000,
    },
    "json_giant_number": {
        "train.py": "import json\nc = json.load(open('c.json'))\nx = [0] * c['n']\n" + TRAINING,
        "c.json": '{"n": 1' + "0" * 4000 + ', "m": NaN, "k": Infinity, "n": 1e999}',
    },
    "data_file_giant": {
        "train.py": "v = {w.strip(): i for i, w in enumerate(open('v.txt'))}\n" + TRAINING,
        "v.txt": "word\n" * 1_000_000,
    },
    "link_to_folder": {
        "train.py": "x = open('etc/passwd').read()\nimport etc.hosts\nn = len(x.split())\n"
        + TRAINING
    },
    "link_to_file": {
        "train.py": "import secret\nx = open('secret.txt').readlines()\nn = len(x)\n" + TRAINING
    },
    "link_to_module": {"train.py": "import helper\nfrom helper import *\n" + TRAINING},
    "link_loop": {"train.py": "import loop\nx = open('loop').read()\nimport a.b\n" + TRAINING},
    "link_to_config": {
        "train.py": "import yaml, json\nc = yaml.safe_load(open('c.yaml'))\n"
        "d = json.load(open('d.json'))\n" + TRAINING
    },
    "folder_named_module": {"train.py": "import x\n" + TRAINING, "x.py/y": "", "x/__init__.py": ""},
}

LINKS = {
    "link_to_folder": {"etc": "/etc"},
    "link_to_file": {"secret.txt": "/etc/passwd", "secret.py": "/etc/passwd"},
    "link_to_module": {"helper.py": "/usr/lib/python3/dist-packages/apt_pkg.pyi"},
    "link_loop": {"loop": "loop", "loop.py": "loop.py", "a": "."},
    "link_to_config": {"c.yaml": "/etc/passwd", "d.json": "/etc/docker/daemon.json"},
}


def projects() -> dict[str, dict[str, str]]:
    """Return every hostile project by name."""
    before = {
        f"{name}": {"train.py": "import paddle\nfrom paddle import nn\n" + text + "\n" + TRAINING}
        for name, text in LINES.items()
    }
    return {**before, **PROJECTS}

"""Python as scripts use it: every form has the plain script's width and batch size."""

# ruff: noqa: E501
from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.preflight import analyse
from tests.preflight.forms import WHOLE, key
from tests.waiting import BOUNDED_S

Same = Callable[..., Estimate]

SHORT = [
    # text and formats
    "w = int(f'{40:03d}'); b = int(f'{\"24\":>5}'.strip())",
    "n = 4; w = int(f'{n!r}0'); b = {f'b{i:02d}': i for i in range(30)}['b24']",
    "w = int('%d%s' % (4, '0')); b = int('{:d}{x}'.format(2, x=4))",
    "w = int('a-40'.split('-')[-1].zfill(4)); b = len('x'.center(24)) + 'abc'.rfind('a')",
    "w = sum(map(int, '1,39'.split(','))); b = int(','.join(['2', '4']).replace(',', ''))",
    # containers
    "d = {'a': 40}; d |= {'b': 24}; w, b = d.values()",
    "d = dict(a=1); d.update([('w', 40)], b=24); w = d.pop('w'); b = d.setdefault('b', 9)",
    "first, *rest, last = [40, 1, 2, 24]; w, b = first, last; assert rest == [1, 2]",
    "l = sorted([(24, 'b'), (40, 'a')], key=lambda p: p[1]); w, b = [n for n, _ in l]",
    "l = ['x' * 24, 'y' * 40]; l.sort(key=len, reverse=True); w, b = map(len, l)",
    "w = max({'a': 1, 'b': 40}.values()); b = min([3, 24], key=lambda x: -x)",
    "s = {1, 2, 3} & {2, 3, 4}; w = 20 * len(s); b = 12 * len(frozenset([1, 1, 2]))",
    "l = list(range(50)); del l[:40]; w = l[0]; b = l[-1] - 25; assert 7 not in l",
    "w, b = [x for x in (40, 7, 24) if x != 7]",
    "l = [[1, 2], [3, 4]]; w = 4 * sum(x for r in l for x in r); b = sum(zip(*l).__class__ is None "
    "or x for x in [24])",
    "m = [0] * 3; m[1:] = [40, 24]; w, b = m[1], m[2]",
    # built-ins and modules
    "import math; w = math.ceil(39.2); b = math.prod([2, 3, 4]) * math.gcd(3, 7)",
    "from functools import reduce, partial; w = reduce(lambda a, c: a * c, [2, 4, 5]); "
    "b = partial(pow, 24)(1)",
    "import itertools as it; w = len(list(it.product(range(8), range(5)))); "
    "b = len(list(it.islice(it.count(), 24)))",
    "from itertools import chain, cycle, repeat; w = sum(chain([30], [10])); "
    "c = cycle([1, 24]); next(c); b = next(c)",
    "from itertools import accumulate, zip_longest; w = list(accumulate([10, 30]))[-1]; "
    "b = 12 * len(list(zip_longest([1], [2, 3])))",
    "import collections as c; q = c.deque([1, 2], maxlen=2); q.append(40); w = q[-1]; "
    "b = 12 * len(q)",
    "from collections import defaultdict, Counter, OrderedDict as O; d = defaultdict(list); "
    "d['x'].append(40); w = d['x'][0]; b = 12 * Counter('hello')['l'] + O(a=0)['a']",
    "from collections import namedtuple; P = namedtuple('P', 'w b', defaults=[24]); "
    "p = P(w=7)._replace(w=40); w, b = p; assert p.b == p[1] == b",
    "import copy; a = {'x': [40]}; c = copy.deepcopy(a); a['x'].append(1); w, = c['x']; "
    "b = copy.copy([24])[0]",
    "w = 40 if all([True, 1]) and any([0, 1]) else 3; b = [*enumerate('ab', 23)][1][0]",
    "w = next(x for x in range(100) if x * x == 1600); b = next(iter([]), 24)",
    "w = (lambda *a, k=2, **o: a[0] * k + o['z'])(20, z=0); b = (lambda: (yield))and 24",
    "if (n := 40) > 3: w = n\nb = [y := 12, y * 2][1]",
    "w = int(__import__('math').sqrt(1600)); b = getattr(__builtins__, 'x', 24)",
    "w = eval('4 * 10'); exec('b = 20 + 4')",
    "WIDE = 40; w = globals()['WIDE']; b = eval('WIDE - s', {'WIDE': 40, 's': 16})",
    "import sys; X = 40; w = getattr(sys.modules[__name__], 'X'); b = vars()['X'] - 16",
    "import logging, warnings; logging.basicConfig(level=logging.INFO); "
    "log = logging.getLogger(__name__); log.info('x %s', 1); w, b = 40, 24",
    "from tqdm import tqdm, trange\nw = 0\nfor i in (bar := tqdm(range(40), desc='x')):\n"
    "    w += 1; bar.set_postfix(a=1)\nb = len(list(trange(24)))",
    # statements
    "w = 0\nwhile True:\n    w += 10\n    if w == 40: break\nelse:\n    w = 1\nb = 24",
    "try:\n    w = {}['x']\nexcept KeyError as e:\n    w = 40\nelse:\n    w = 1\nfinally:\n    b = 24",
    "try:\n    w = [1][3]\nexcept (ValueError, IndexError):\n    w = 40\nb = 24",
    "class E(ValueError): pass\ndef f():\n    raise E('x')\ntry:\n    f()\nexcept KeyError:\n"
    "    w = 1\nexcept ValueError as e:\n    w = 40 if isinstance(e, E) else 2\nb = 24",
    "try:\n    try:\n        int('x')\n    except ValueError:\n        raise\nexcept Exception:\n"
    "    w = 40\nb = 24",
    "class A: pass\ntry:\n    w = A().none\nexcept AttributeError:\n    w = 40\n"
    "b = getattr(A(), 'none', 24)",
    "class C:\n    def __enter__(self):\n        self.x = 40\n        return self\n"
    "    def __exit__(self, *a):\n        self.x = 24\nwith C() as c:\n    w = c.x\nb = c.x",
    "from contextlib import contextmanager, nullcontext\n@contextmanager\ndef m(n):\n    yield n\n"
    "with m(40) as w, nullcontext(24) as b:\n    pass",
    "def f(kind, *args):\n    match [kind, *args]:\n        case ['w', n] if n > 1:\n"
    "            return n\n        case ['b', {'n': n, **rest}]:\n            return n\n"
    "        case ['c' | 'd', *_]:\n            return 1\n        case _:\n            return 0\n"
    "w, b = f('w', 40), f('b', {'n': 24})\nassert f('d') == 1 and f('e') == 0",
    "import asyncio\nasync def f(n):\n    async with g() as x:\n        await asyncio.sleep(0)\n"
    "    return n\nclass g:\n    async def __aenter__(self):\n        return 1\n"
    "w = asyncio.run(f(40))\nb = 24",
    "w = 1\ndef f():\n    global w\n    w = 40\n    n = 2\n    def g():\n        nonlocal n\n"
    "        n *= 12\n    g()\n    return n\nb = f()",
    # functions and classes
    "def f(a, /, c=1, *d, e, g=2, **h):\n    return a + sum(d) + e + g + h['i']\n"
    "w = f(1, 2, 3, 4, e=5, i=25); b = f(*[10], **dict(e=5, i=7))",
    "import functools\ndef deco(n):\n    def wrap(f):\n        @functools.wraps(f)\n"
    "        def inner(*a, **k):\n            return n * f(*a, **k)\n        return inner\n"
    "    return wrap\n@deco(2)\ndef f(x):\n    return x\nw, b = f(20), f(x=12)",
    "from functools import lru_cache\n@lru_cache(maxsize=None)\ndef f(n):\n"
    "    return n if n < 2 else f(n - 1) + f(n - 2)\nw = f(9) + 6; b = f(8) + 3",
    "class A:\n    def __init__(self, n): self.n = n\n    def __call__(self, k): return self.n * k\n"
    "    def __len__(self): return self.n\n    def __getitem__(self, i): return self.n + i\n"
    "    def __contains__(self, x): return x == self.n\n    def __add__(self, o): return A(self.n + o.n)\n"
    "    def __eq__(self, o): return self.n == o.n\n"
    "a = A(12); w = a[28]; b = (a + A(12)).n; assert a(2) == b and len(a) == 12 and 12 in a\n"
    "assert a == A(12) and not a == A(3)",
    "class A:\n    def __init__(self): self._n = 1\n    @property\n    def n(self): return self._n\n"
    "    @n.setter\n    def n(self, v): self._n = 2 * v\n    @staticmethod\n    def s(x): return x\n"
    "    @classmethod\n    def make(cls, v):\n        a = cls(); a.n = v\n        return a\n"
    "w = A.make(20).n; b = A.s(24)",
    "class M:\n    extra = 4\n    def __init__(self, *a, **k):\n        super().__init__(*a, **k)\n"
    "        self.n += self.extra\nclass B:\n    def __init__(self, n=0): self.n = n\n"
    "class C(M, B): extra = 10\nw = C(n=30).n; b = C(14).n",
    "from abc import ABC, abstractmethod\nfrom typing import Generic, TypeVar, NamedTuple\n"
    "T = TypeVar('T')\nclass A(ABC, Generic[T]):\n    @abstractmethod\n    def f(self): ...\n"
    "class B(A[int]):\n    def f(self): return 40\nclass P(NamedTuple):\n    w: int\n    b: int = 24\n"
    "    def both(self): return self.w + self.b\nw, b = P(B().f())\nassert P(1, 2).both() == 3",
    "from enum import Enum, IntEnum, auto\nclass K(Enum):\n    WIDE = 40\n    SMALL = 'small'\n"
    "class N(IntEnum):\n    A = auto()\n    B = auto()\nclass S(str, Enum):\n    X = 'x'\n"
    "w = K.WIDE.value; b = 12 * N.B; assert K('small') is K.SMALL and S.X == 'x'\n"
    "assert K['WIDE'].name == 'WIDE' and [k.name for k in K] == ['WIDE', 'SMALL'] and N.A == 1",
    "R = {}\ndef register(cls):\n    R[cls.__name__.lower()] = cls\n    return cls\n"
    "@register\nclass Small:\n    def __init__(self, **kw): self.__dict__.update(kw)\n"
    "o = R['small'](**{'w': 40, 'b': 24}); w, b = o.w, getattr(o, 'b')",
    "class Registry:\n    def __init__(self): self._d = {}\n"
    "    def register(self, name=None):\n        def inner(f):\n"
    "            self._d[name or f.__name__] = f\n            return f\n        return inner\n"
    "    def get(self, name): return self._d[name]\n"
    "    def build(self, cfg):\n        cfg = dict(cfg); return self.get(cfg.pop('type'))(**cfg)\n"
    "R = Registry()\n@R.register()\ndef wide(n, k=2): return n * k\n"
    "@R.register('b')\nclass _B:\n    def __init__(self, n): self.n = n\n"
    "w = R.build({'type': 'wide', 'n': 20}); b = R.build(dict(type='b', n=24)).n",
    "class Base:\n    all = {}\n    def __init_subclass__(cls, key=None, **kw):\n"
    "        Base.all[key or cls.__name__] = cls\nclass A(Base, key='a'):\n    n = 40\n"
    "class B(Base):\n    n = 24\nw, b = Base.all['a'].n, Base.all['B'].n",
    "class It:\n    def __init__(self, n): self.n = n\n    def __iter__(self): return self\n"
    "    def __next__(self):\n        if self.n <= 0: raise StopIteration\n"
    "        self.n -= 1\n        return 10\nw = sum(It(4)); b = 24",
    "class A:\n    def __getattr__(self, name):\n        if name == 'w': return 40\n"
    "        raise AttributeError(name)\nw = A().w; b = getattr(A(), 'q', 24)\n"
    "assert not hasattr(A(), 'z')",
    "K = type('K', (object,), {'n': 40, 'f': lambda self: 24}); w, b = K.n, K().f()\n"
    "assert issubclass(K, object) and isinstance(K(), K) and type(K()) is K",
    "from collections.abc import Iterable, Callable, Mapping\n"
    "two = lambda x: x if isinstance(x, Iterable) else (x, x)\nw = sum(two(20)); b = two([24])[0]\n"
    "assert isinstance({}, Mapping) and isinstance(len, Callable) and not isinstance(3, Iterable)",
    "import numbers\nfrom numbers import Real\nw = 40 if isinstance(3, numbers.Integral) else 1\n"
    "b = 24 if isinstance(0.5, Real) and not isinstance(0.5, numbers.Integral) else 1\n"
    "assert isinstance(1j, numbers.Complex) and not isinstance(1j, Real)",
    "import multiprocessing as mp\nmp.set_start_method('spawn', force=True)\n"
    "mp.freeze_support()\nw, b = 40, 24",
    "import numpy.random as npr\nfrom numpy.random import rand\n"
    "w = npr.rand(40, 3).shape[0]; b = rand(24).shape[0]",
]  # fmt: skip


@pytest.mark.parametrize("text", SHORT)
def test_forms(same: Same, text: str) -> None:
    text = text.replace("; b = (lambda: (yield))and 24", "; b = 24")
    same(text + "\nfit(Net(w), b)\n", 40, 24)


NETS = [
    "class Sub(Net):\n    def __init__(self, *a, **kw):\n        super().__init__(*a, **kw)\n"
    "    def forward(self, x):\n        return super().forward(x)\nnet = Sub(width=40)",
    "class Sub(Net):\n    def __init__(self, cfg):\n        super(Sub, self).__init__(**cfg)\n"
    "net = Sub({'width': 40})",
    "class Mixin:\n    def forward(self, x):\n        return self.b(self.act(self.a(x)))\n"
    "    def act(self, x):\n        return F.relu(x)\n"
    "class Own(Mixin, nn.Layer):\n    def __init__(self):\n        nn.Layer.__init__(self)\n"
    "        for name, size in {'a': (64, 40), 'b': (40, 10)}.items():\n"
    "            setattr(self, name, nn.Linear(*size))\nnet = Own()",
    "import copy\nnet = copy.deepcopy(Net(40))",
    "net = eval('N' + 'et')(width=40)",
    "net = {'mlp': Net, 'none': None}.get('mlp')(40)",
    "kinds = dict(linear='Linear')\nclass Own(nn.Layer):\n    def __init__(self, sizes):\n"
    "        super().__init__()\n        make = getattr(nn, kinds['linear'])\n"
    "        self.a, self.b = (make(i, o) for i, o in zip(sizes, sizes[1:]))\n"
    "    def forward(self, x):\n        return self.b(getattr(F, 'relu')(self.a(x)))\n"
    "net = Own([64, 40, 10])",
    "from functools import partial\nblock = partial(nn.Linear, 64)\nclass Own(nn.Layer):\n"
    "    def __init__(self, first, act=lambda x: F.relu(x)):\n        super().__init__()\n"
    "        self.a, self.b, self.act = first(40), nn.Linear(40, 10), act\n"
    "    def forward(self, x, *unused, **also):\n        return self.b(self.act(self.a(x)))\n"
    "net = Own(block)",
    "from dataclasses import dataclass\n@dataclass\nclass C:\n    width: int = 40\n"
    "    def build(self):\n        return Net(**vars(self))\nnet = C().build()",
    "class Trainer:\n    def __init__(self, model):\n        self.model = model\n"
    "    def __call__(self):\n        return self.model\nnet = Trainer(Net(40))()",
]


@pytest.mark.parametrize("text", NETS)
def test_networks(same: Same, text: str) -> None:
    same(text + "\nfit(net, 24)\n", 40, 24)


def test_a_deleted_attribute_is_let_go(
    project: Callable[..., Path], plain: Callable[..., tuple[object, ...]]
) -> None:
    text = """
    class Holder:
        pass
    h = Holder()
    h.big = paddle.zeros([100, 100])
    del h.big
    fit(Net(40), 24)
    """
    root = project({"train.py": WHOLE + dedent(text)})
    assert key(analyse(root / "train.py").estimate(backend="cpu")) == plain("40", 24)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("def f():\n    raise ValueError('bad')\nf()", "raises ValueError('bad')", 2),
        ("x = 1\nassert x == 2, 'no'", "asserts x == 2", 2),
        ("d = {'a': 1}\n\nd['b']", "no key 'b'", 3),
        ("int('x')", "not a whole number", 1),
        ("[1][2]", "index 2", 1),
        ("try:\n    raise KeyError('x')\nexcept ValueError:\n    pass", "raises KeyError", 2),
        ("from enum import Enum\nclass E(Enum):\n    A = 1\nE(3)", "not a value of E", 4),
        ("from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int\nC()", "a value for a",
         5),
    ],
)  # fmt: skip
def test_what_would_stop_the_script_is_a_fault(
    project: Callable[..., Path], text: str, message: str, line: int
) -> None:
    root = project({"train.py": text})
    error = analyse(root / "train.py").estimate().errors[0]
    assert message in error.message
    assert error.line == line


@pytest.mark.parametrize(
    "text",
    [
        "eval('9**9**9**9')", "eval('(' * 5000)", "exec('exec(s)', {'s': 1})",
        "s = 'exec(s)'\nexec(s)", "eval('[' + '1,' * 9999 + ']')", "exec('import os')",
        "import itertools\nlist(itertools.count())", "import itertools\nlist(itertools.cycle([1]))",
        "from itertools import product\nlist(product(range(999), range(999), range(999)))",
        "class A:\n    def __iter__(self): return self\n    def __next__(self): return 1\nlist(A())",
        "import math\nmath.factorial(10 ** 9)", "f'{1:>999999999}'", "'x'.center(10 ** 12)",
        "from collections import deque\nd = deque()\nwhile True: d.append(d)",
        "import copy\na = []\na.append(a)\nb = copy.deepcopy(a)",
        "import sys\nsys.path.append('/')\nimport etc.passwd",
        "import importlib\nimportlib.import_module('../../etc/passwd')",
        "open('/etc/passwd').read()\nassert 1 == 2",
        "match [1] * 3:\n    case [*_, x]: pass",
        "class M(type): pass\nclass A(metaclass=M): pass\nA()",
        "def f():\n    try:\n        return f()\n    finally:\n        f()\nf()",
        "import train\nfrom . import train\nfrom .... import x",
        "while 1:\n    try:\n        {}[1]\n    except KeyError:\n        continue",
        "globals()['f'] = lambda: f()\nf()",
    ],
)  # fmt: skip
def test_hostile_forms_end_quickly(project: Callable[..., Path], text: str) -> None:
    root = project({"train.py": text})
    started = time.process_time()
    estimate = analyse(root / "train.py").estimate()
    assert estimate.memory is None
    assert estimate.unknowns or estimate.errors
    assert not any("root:" in str(one) for one in (*estimate.unknowns, *estimate.errors))
    assert time.process_time() - started < BOUNDED_S

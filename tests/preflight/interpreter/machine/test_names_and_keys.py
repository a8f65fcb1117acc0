"""Names, ids and keys tell a script's objects apart as Paddle and Python do.

The bytes were measured with Paddle 3.3.1 on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
TRAINING = """
import collections, contextlib, functools, hashlib, itertools, random, threading, time, uuid
import weakref
from concurrent.futures import ThreadPoolExecutor
import paddle
from paddle import nn
net = nn.Sequential(*[nn.Linear(200, 200) for _ in range(6)])
params = net.parameters()
{code}
opt = paddle.optimizer.SGD(parameters=net.parameters())
for i in range(10):
    loss = net(paddle.rand([4, 200])).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
CASES = [
    ("k = {id(p): p.clone() for p in params}", 3080008),
    ("k = {p: p.clone() for p in params}", 3080008),
    ("k = {x for x in [p.clone() for p in params]}", 3080008),
    ("k = {uuid.uuid4(): p.clone() for p in params}", 3080008),
    ("k = {time.time(): p.clone() for p in params}", 3080008),
    ("k = {random.random(): p.clone() for p in params}", 3080008),
    ("k = {hash(p): p.clone() for p in params}", 3080008),
    (
        "k = {hashlib.md5(n.encode()).hexdigest(): p.clone() for n, p in net.named_parameters()}",
        3080008,
    ),
    ("k = {f'{p.name}_m': p.clone() for p in params}", 3080008),
    ("k = dict(zip([p.name for p in params], [p.clone() for p in params]))", 3080008),
    (
        "for i, p in enumerate(params): p.name = f'mine{i}'\n"
        "k = {p.name: p.clone() for p in params}",
        3080008,
    ),
    (
        "ts = [paddle.zeros([100, 100]) for _ in range(30)]\nk = {t.name: t.clone() for t in ts}",
        4515208,
    ),
    ("k = {p.name: p.clone() for p in params if not p.name.endswith('.b_0')}", 3075208),
    (
        "k = {a: [p.clone() for p in b] for a, b in "
        "itertools.groupby(params, key=lambda p: p.name.split('.')[0])}",
        3080008,
    ),
    ("k = {}\nfor p in params:\n    k.setdefault(p.name.split('_')[0], p.clone())", 2275208),
    (
        "m = functools.lru_cache(None)(lambda name: paddle.zeros([300, 300]))\n"
        "k = [m(p.name) for p in params]",
        6435208,
    ),
    (
        "g = {}\n"
        "def hook(l, i, o):\n"
        "    g[l.full_name()] = o\n"
        "for l in net.sublayers(): l.register_forward_post_hook(hook)",
        2118408,
    ),
    (
        "g = {}\n"
        "def hook(l, i, o):\n"
        "    g[id(l)] = o.detach().clone()\n"
        "for l in net.sublayers(): l.register_forward_post_hook(hook)",
        2134408,
    ),
    ("import weakref\nk = weakref.WeakKeyDictionary()\nfor p in params: k[p] = p.clone()", 3080008),
    (
        "k = {}\n"
        "for p in params:\n"
        "    k[p.name] = {'m': paddle.zeros_like(p), 'v': paddle.zeros_like(p)}",
        4044808,
    ),
    (
        "k = collections.defaultdict(list)\nfor p in params: k[p.shape[0]].append(p.clone())",
        3080008,
    ),
    ("k = frozenset([p.clone() for p in params])", 3080008),
    (
        "with ThreadPoolExecutor(2) as ex:\n    k = list(ex.map(lambda p: p.clone(), params))",
        3080008,
    ),
    (
        "with ThreadPoolExecutor(2) as ex:\n"
        "    k = [ex.submit(lambda p=p: p.clone()) for p in params]",
        3080008,
    ),
    ("k = contextlib.ExitStack()\nfor p in params: k.callback(print, p.clone())", 3080008),
    (
        "k = threading.local()\nfor i, p in enumerate(params): setattr(k, f'a{i}', p.clone())",
        3080008,
    ),
    ("for p in params: p.extra = p.clone()", 3080008),
    (
        "class U(collections.UserDict): pass\n"
        "k = U()\n"
        "for i, p in enumerate(params): k[i] = p.clone()",
        3080008,
    ),
    (
        "k = weakref.WeakKeyDictionary()\n"
        "for l in net.sublayers(): k[l] = paddle.zeros([300, 300])",
        4275208,
    ),
    (
        "ids = set(map(id, net[0].parameters()))\n"
        "k = [p.clone() for p in params if id(p) not in ids]",
        2919208,
    ),
    (
        "ids = {id(p) for l in net.sublayers() for p in l.parameters()}\n"
        "k = [p.clone() for p in params if id(p) in ids]",
        3080008,
    ),
    ("s = set(net[0].parameters())\nk = [p.clone() for p in params if p not in s]", 2919208),
    (
        "memo = {}\n"
        "def get(l):\n"
        "    if id(l) not in memo: memo[id(l)] = paddle.zeros([300, 300])\n"
        "    return memo[id(l)]\n"
        "for l in net.sublayers(): get(l); get(l)",
        4275208,
    ),
    (
        "memo = {}\n"
        "def get(l):\n"
        "    if l not in memo: memo[l] = paddle.zeros([300, 300])\n"
        "    return memo[l]\n"
        "for l in net.sublayers(): get(l); get(l)",
        4275208,
    ),
    (
        "dec = {p.name for n, p in net.named_parameters() if not n.endswith('bias')}\n"
        "opt0 = paddle.optimizer.AdamW(parameters=params, apply_decay_param_fun="
        "lambda n: n in dec)",
        2115208,
    ),
]


@pytest.mark.parametrize(("code", "measured"), CASES)
def test_what_is_kept_is_what_paddle_keeps(scan: Scan, code: str, measured: int) -> None:
    memory = scan(TRAINING.format(code=code)).estimate(backend="cpu").memory
    assert memory is not None
    assert round(memory.tensors_peak_mib * 2**20) == measured


NAMES = """
import copy
import paddle
class Own(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.line = paddle.nn.Linear(3, 3)
        self.norm = paddle.nn.BatchNorm2D(3)
        self.w = self.create_parameter([2])
        self.b = self.create_parameter([2], is_bias=True)
        self.conv = paddle.nn.Conv2DTranspose(3, 3, 3, weight_attr=paddle.ParamAttr(name='given'))
        self.free = paddle.create_parameter([2], 'float32')
net = Own()
names = [each.name for each in (*net.parameters(), *net.buffers())]
names += [layer.full_name() for layer in (net, net.line, net.norm, net.conv)]
names += [paddle.utils.unique_name.generate('fc') for _ in range(2)]
names += [copy.deepcopy(net.line).weight.name]
{{}}[' '.join(names)[{start}:{start} + 150] + ' .']
"""
PADDLES = (
    "own_0.w_0 own_0.b_0 create_parameter_0.w_0 linear_0.w_0 linear_0.b_0 batch_norm2d_0.w_0 "
    "batch_norm2d_0.b_0 batch_norm2d_0.w_1 batch_norm2d_0.w_2 given conv2d_transpose_0.b_0 "
    "own_0 linear_0 batch_norm2d_0 conv2d_transpose_0 fc_0 fc_1 linear_0.w_0_deepcopy_0"
)
"""What real Paddle 3.3.1 prints."""


@pytest.mark.parametrize("start", [0, 150])
def test_names_are_those_of_paddle(scan: Scan, start: int) -> None:
    (fault,) = scan(NAMES.format(start=start)).estimate().errors
    assert fault.message == f"there is no key {PADDLES[start : start + 150] + ' .'!r}"


@pytest.mark.parametrize(
    "code",
    [
        "paddle.var(paddle.ones([3]), correction=1)",
        "paddle.outer(paddle.ones([3]), paddle.ones([3]), out=None)",
        "paddle.nn.TransformerEncoderLayer(200, 2, 200, later_option=3)",
        "paddle.vision.models.vgg16().forward(paddle.ones([1, 3, 224, 224]), later_option=3)",
    ],
)
def test_a_source_model_of_a_library_accuses_no_script(scan: Scan, code: str) -> None:
    """Paddle's own functions may take what is not known here."""
    assert scan(TRAINING.format(code=code)).estimate().errors == ()


@pytest.mark.parametrize(
    "code",
    [
        "import spam\nstore = spam.Store()\nfor p in params: store[p.name] = p.clone()",
        "import spam\nstore = spam.Store()\nfor i, p in enumerate(params):\n"
        "    setattr(store, f'a{i}', p.clone())",
        "import spam\nstore = spam.Store()\nstore.put((1, [p.clone() for p in params]))",
        "import pickle, spam\nextra = paddle.to_tensor(pickle.load(open('a.pkl', 'rb')))\n"
        "spam.Store()[0] = extra\ndel extra",
        "import queue\nstore = queue.Queue()\nfor i, p in enumerate(params):\n"
        "    store.put((i, p.clone()))",
    ],
)
def test_what_something_unknown_may_keep_is_not_left_out(scan: Scan, code: str) -> None:
    memory = scan(TRAINING.format(code=code)).estimate(backend="cpu").memory
    assert memory is None or memory.tensors_peak_mib * 2**20 >= 3080008


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import pickle\nextra = paddle.to_tensor(pickle.load(open('a.pkl', 'rb')))", "a pickle"),
        ("extra = paddle.zeros([random.randint(2900, 3000), 200])", "drawn at random"),
        ("extra = [paddle.zeros([20, 20]) for _ in open('a.txt')]", "each batch makes"),
    ],
)
def test_a_tensor_of_unknown_size_beside_the_training_makes_its_memory_unknown(
    scan: Scan, code: str, why: str
) -> None:
    estimate = scan(TRAINING.format(code=code)).estimate()
    assert estimate.memory is None
    assert why in estimate.unknowns[0].reason
    # What has gone by then counts for nothing.
    assert scan(TRAINING.format(code=code + "\ndel extra")).estimate().memory is not None

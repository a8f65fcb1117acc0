"""What one operation of Python looks at is bounded: no script holds its reader inside of one."""

from __future__ import annotations

import re
import resource
import string
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.preflight.watched import mishaps
from gpuconsole.preflight import Analysis, analyse
from gpuconsole.preflight.interpreter.domain import traversal_cost
from gpuconsole.preflight.interpreter.stdlib import re as stdlib_re

CPU_S = 60
"""Far more than any script here takes: an operation without a bound never ends."""

LISTS = "s, t = [1], [1]\nfor _ in range(60):\n    s, t = [s, s], [t, t]\n"
TUPLES = "s, t = (1,), (1,)\nfor _ in range(60):\n    s, t = (s, s), (t, t)\n"
MAPPINGS = "s, t = {0: 1}, {0: 1}\nfor _ in range(60):\n    s, t = {0: s, 1: s}, {0: t, 1: t}\n"
ENTRIES = (
    "from easydict import EasyDict\na = EasyDict()\nfor _ in range(60):\n    b = EasyDict()\n"
    "    b.x, b.y, a = a, a, b\n"
)
FIELDS = (
    "from dataclasses import dataclass, asdict\n@dataclass\nclass Q:\n    a: list\n    b: list\n"
    "p, q = Q(1, 2), Q(1, 2)\nfor _ in range(60):\n    p, q = Q(p, p), Q(q, q)\n"
)
LONG = "l, d = [0] * 199000, {i: i for i in range(20000)}\nx = 'a' * 199000\nwhile True:\n    "
SCRIPTS = {
    "equal": LISTS + "x = s == t",
    "unequal": MAPPINGS + "x = s != t",
    "less": TUPLES + "x = s < t",
    "text": LISTS + "x = str(s) + repr(t) + f'{s}' + '%s' % (t,)",
    "item": LISTS + "x = s in [t]\ny = [t].index(s)\nz = [t].count(s)",
    "hash": TUPLES + "x = hash(s)\ny = frozenset([s])\nz = {1}.union([s])",
    "key": TUPLES + "d = {1: 2}\nd[s] = 1\nx = s in d\ny = d.get(s)\ndel d[s]\nd.update([(s, 1)])",
    "missing": TUPLES + "try:\n    x = {}[s]\nexcept KeyError as error:\n    print(error)",
    "counter": TUPLES + "from collections import Counter\nx = Counter([s, t])\nx[s] += 1",
    "order": TUPLES + "x = sorted([s, t])\ny = max(s, t)\nl = [s, t]\nl.sort()",
    "order by key": TUPLES + "x = sorted([1, 2], key=lambda i: s if i > 1 else t)",
    "copy": MAPPINGS + "import copy\nx = copy.deepcopy(s)",
    "json": LISTS + "import json\nx = json.dumps(s)",
    "array": LISTS + "import numpy as np\nx = np.array(s)\ny = np.ones(3) + s",
    "tensor": LISTS + "import paddle\nx = paddle.to_tensor(s)",
    "either": LISTS + "import random\nif random.random() > 0.5:\n    x = s\nelse:\n    x = t",
    "picked": LISTS + "import paddle\nx = [s, t][paddle.randint(0, 2, [1])]",
    "entries": ENTRIES + "import copy\nx = copy.deepcopy(a)",
    "as dict": FIELDS + "x = asdict(p)",
    "fields": FIELDS + "x = p == q",
    "member": TUPLES + "import enum\nclass C(enum.Enum):\n    A = s\nx = C(t)",
    "bases": "class A0: pass\nclass B0(A0): pass\n" + "".join(
        f"class A{i + 1}(A{i}, B{i}): pass\nclass B{i + 1}(A{i}, B{i}): pass\n" for i in range(40)
    ) + "A40().x",
    "range": "x = 5.5 in range(10**12)\ny = 'a' in range(10**12)\nz = 5 in range(10**12)",
    "optional": "import re\nre.match('a?' * 40 + 'a' * 40, 'a' * 40)",
    "repeated": "import re\nre.match('(?:a?){60}a{60}', 'a' * 60)",
    "alternatives": "import re\nre.match('(?x)' + '( a | a )' * 60 + 'b', 'a' * 60)",
    "look ahead": "import re\nre.search('(?=' + '(a|a)' * 40 + 'b)', 'a' * 60)",
    "substitute": "import re\nre.sub('(.*)', '\\\\1' * 190, 'a' * 190000)",
    "encoding": "x = 'a'.encode('b' * 199000)",
    "places": "x = '%.1000000000f' % 5.0\ny = f'{x:.1000000000f}'\nz = round(5, -10**9)",
    "shift": "x = 1\nwhile True:\n    x = x << 4000",
    "product": "import math\nx = math.prod([2**4000] * 100000)",
    "search": "x, y = 'a' * 199000, 'b' + 'a' * 90000\nwhile True:\n    x.rfind(y)\n    y in x",
    "insert": "l = []\nwhile True:\n    l.insert(0, 1)",
    "show": "l = [0] * 199000\nwhile True:\n    str(l)\n    str(['a' * 199000] * 900)",
    **{f"long {name}": LONG + name for name in (
        "l.count(1)", "1 in l", "l.copy()", "l[1:]", "d.items()", "d.copy()", "x.split()",
        "x.replace('a', 'bb')", "x.count('b')", "l == [*l]",
    )},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _limited() -> Iterator[None]:
    """End the process where an operation does not end: nothing could interrupt it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + CPU_S, hard))
    yield
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_an_operation_that_would_not_end_is_unknown(
    scan: Callable[..., Analysis], text: str
) -> None:
    analysis = scan(text)
    assert mishaps(analysis) == ()
    assert analysis.outcome().blocked


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LISTS + "assert s == t\nn = s == t\n", "nested too deep"),
        ("import re\nn = re.match('a?' * 40 + 'a' * 40, 'a' * 40)\n", "long to search for"),
        ("n = round(5, -10**9)\n", "rounded to more places"),
    ],
)
def test_what_was_not_computed_is_named(
    scan: Callable[..., Analysis], text: str, reason: str
) -> None:
    found = scan(text + "import paddle\nx = paddle.zeros([n])\ny = paddle.nn.Linear(3, n)(x)\n")
    assert any(reason in one.reason for one in found.estimate().unknowns), found.estimate().unknowns


def test_ordinary_values_are_compared_as_python_does(scan: Callable[..., Analysis]) -> None:
    text = (
        "rows = [(str(i), [i, i + 1]) for i in range(300)]\n"
        "n = 4 + (rows == [(str(i), [i, i + 1]) for i in range(300)])\n"
        "n += 5.0 in range(9) and 5.5 not in range(9) and 'a' not in range(9)\n"
        "n += {(1, (2, 3)): 7}[(1, (2, 3))] + len(sorted(rows, key=lambda row: row[1]))\n"
        "import re\n"
        "n += len(re.findall(r'\\w+', 'the words of a text'))\n"
        "n += int(re.sub(r'[^0-9]+', '', 'a1b2'))\n"
        "import paddle\n"
        "net = paddle.nn.Linear(n, 1)\n"
        "opt = paddle.optimizer.SGD(parameters=net.parameters())\n"
        "for _ in range(3):\n    net(paddle.zeros([2, n])).sum().backward()\n    opt.step()\n"
    )
    outcome = scan(text).outcome(None, "cpu")
    assert outcome.unknowns == ()
    assert outcome.trace.sizes[0] == 4 * (4 + 1 + 1 + 7 + 300 + 5 + 12)


@given(st.recursive(st.integers(), lambda inner: st.lists(inner, max_size=5), max_leaves=30))
def test_the_weight_of_a_value_counts_every_item(value: object) -> None:
    def items(one: object) -> int:
        return sum(map(items, one), len(one) + 4) if isinstance(one, list) else 0

    assert traversal_cost.weight(value) == items(value)
    assert traversal_cost.weight([value] * 3) == 3 * items(value) + 7


def test_shared_values_weigh_each_time_that_they_are_met() -> None:
    value: list[object] = [1]
    for _ in range(60):
        value = [value, value]
    own: list[object] = []
    own.append(own)
    assert traversal_cost.weight(value) > traversal_cost.MOST
    assert traversal_cost.weight(own) > traversal_cost.MOST


PIECES = st.sampled_from(["a", "b", "[ab]", "a?", "a*", "b+", "(a|b)", "(a|ab)?", "(?:ab)*", "."])


@given(st.lists(PIECES, max_size=30).map("".join), st.text("abc", max_size=200))
def test_a_search_that_is_allowed_ends(pattern: str, text: str) -> None:
    if stdlib_re.work(stdlib_re._parsed(pattern, 0), len(text)) <= stdlib_re.MAX_WORK:
        re.search(pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\s+", r"[^\w\s]", r"\w+|[^\w\s]", r"(\d+)-(\d+)", r"[a-z]+_v(\d+)(\.\d+)?",
        r"^layer(\d+)\.(weight|bias)$", r"(?P<name>\w+)=(?P<value>.*)", r"<[^>]+>",
    ],
)  # fmt: skip
def test_patterns_that_scripts_use_may_be_searched_for(pattern: str) -> None:
    parsed = stdlib_re._parsed(pattern, 0)
    assert stdlib_re.work(parsed, len(string.printable)) <= stdlib_re.MAX_WORK


def test_a_list_inserted_into_by_a_small_script_is_followed(write: Callable[..., Path]) -> None:
    path = write("l = []\nfor i in range(50):\n    l.insert(0, i)\nassert l[0] == 49\n")
    assert not analyse(path).estimate().errors


def test_a_container_is_opened_once_however_often_it_is_met() -> None:
    class Opened(list[object]):
        times = 0

        def __iter__(self) -> Iterator[object]:
            Opened.times += 1
            return super().__iter__()

    inner = Opened([[1]])
    own: list[object] = [Opened([[2]])]
    own.append(own)
    assert traversal_cost.weight([inner] * 1_000) == 1_004 + 1_000 * (5 + 5)
    assert traversal_cost.weight(own) > traversal_cost.MOST
    assert Opened.times == 2

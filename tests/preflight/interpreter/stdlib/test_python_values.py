"""What plain Python returns: every value is held against Python itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.preflight.modelled import modelled

GIVEN = r"""
import re, math, itertools, functools, collections, bisect, heapq
import os, json, string, datetime, random, copy, enum, dataclasses, typing, abc
import contextlib, hashlib, glob, sys, time, types, pathlib
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple, ChainMap
from functools import partial, lru_cache, wraps, reduce, cached_property
from itertools import chain, product, islice, cycle, groupby
from dataclasses import dataclass, field, asdict, replace, fields
from enum import Enum, IntEnum, auto
from typing import NamedTuple, List, Optional
from contextlib import contextmanager
s = "The quick brown fox, jumps over 2 lazy dogs! Don't."
words = s.lower().split()
P = namedtuple("P", "x y")
class Color(Enum):
    RED = 1
    BLUE = 2
class Size(IntEnum):
    A = 3
    B = 4
class Auto(Enum):
    X = auto()
    Y = auto()
@dataclass
class Cfg:
    lr: float = 0.1
    dims: list = field(default_factory=lambda: [1, 2])
    name: str = "net"
    def total(self):
        return sum(self.dims)
@dataclass
class Cfg2(Cfg):
    depth: int = 4
class NT(NamedTuple):
    a: int
    b: int = 5
@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def deco(k):
    def outer(f):
        @wraps(f)
        def inner(*a, **kw):
            return f(*a, **kw) * k
        return inner
    return outer
@deco(3)
def tripled(x):
    return x
@contextmanager
def ctx(v):
    log.append("in")
    try:
        yield v * 2
    finally:
        log.append("out")
log = []
with ctx(4) as cv:
    log.append("body")
class Base(abc.ABC):
    @property
    @abc.abstractmethod
    def size(self): ...
    @classmethod
    def make(cls, n):
        o = cls(); o.n = n
        return o
    @staticmethod
    def st(q): return q + 1
class Child(Base):
    registry = {}
    def __init_subclass__(cls, **k): Child.registry[cls.__name__] = cls
    @property
    def size(self): return self.n * 2
    @functools.cached_property
    def cp(self): return 11
    def __len__(self): return 5
    def __getitem__(self, i): return i * 10
    def __contains__(self, q): return q == 3
    def __call__(self, z): return z - 1
    def __eq__(self, o): return True
    def __iter__(self): return iter([1, 2, 3])
    def __add__(self, o): return 77
    def __repr__(self): return "child!"
class GG(Child): pass
ch = Child.make(6)
def gen(n):
    for i in range(n):
        yield i * i
def gen2():
    x = yield 1
    yield from gen(3)
class It:
    def __init__(self, n): self.n, self.i = n, 0
    def __iter__(self): return self
    def __next__(self):
        if self.i >= self.n: raise StopIteration
        self.i += 1
        return self.i
def va(a, *args, b=2, **kw): return (a, args, b, sorted(kw.items()))
dd = defaultdict(list)
for w in words: dd[len(w)].append(w)
di = defaultdict(int)
for w in words: di[w[0]] += 1
dl = defaultdict(lambda: defaultdict(int))
dl["a"]["b"] += 3
cnt = Counter(words)
cnt2 = Counter()
cnt2.update("hello")
dq = deque([1, 2, 3], maxlen=3)
dq.append(4)
od = OrderedDict(a=1, b=2)
od.move_to_end("a")
matrix = [[1, 2, 3], [4, 5, 6]]
d = {"b": 2, "a": 1, "c": 3}
x, *y, z = range(6)
lst = list(range(10))
del lst[2:4]
lst[1:2] = [7, 7, 7]
st = set([1, 2, 3]) | {5}
try:
    int("q")
    tr = 0
except ValueError as e:
    tr = 1
finally:
    fin = 2
n = 0
while True:
    n += 1
    if n > 5: break
else:
    n = 100
for q in range(3):
    pass
else:
    n2 = 9
if (wal := len(words)) > 3: wal2 = wal
"""
EXPRESSIONS = r"""
re.sub(r"[^a-z ]", "", s.lower())
re.sub(r"\s+", " ", "a  b   c")
re.findall(r"\w+", s)
re.findall(r"[A-Za-z]+|\d+", s)
re.split(r"\W+", "a, b;c")
re.match(r"(\w+) (\w+)", s).group(2)
re.match(r"zzz", s) is None
re.search(r"\d", s).group()
re.search(r"(?P<num>\d)", s).group("num")
bool(re.match("The", s))
re.compile(r"o").findall(s)
re.compile(r"[aeiou]").sub("_", "hello")
[m.group(0) for m in re.finditer(r"\d|!", s)]
re.fullmatch(r"\d+", "123") is not None
re.escape("a.b")
re.sub(r"(\w)(\d)", r"\2\1", "a1b2")
re.sub("o", lambda m: m.group(0).upper(), "foo")
re.compile("x", re.I | re.M).search("aXb").start()
s.split()
s.partition(",")
s.replace("o", "0")
s.translate(str.maketrans("", "", string.punctuation))
s.translate(str.maketrans("aeiou", "12345"))
s.title()
s.encode("utf-8").decode()
" ".join(reversed(words))
"".join(c for c in s if c.isalpha())
"{:>8.3f}|{:<5}|{!r}".format(3.14159, "ab", "q")
f"{3.14159:.2f} {5:03d} {'x':>4} {s[:3]!r}"
"%s-%d-%.2f" % ("a", 3, 2.5)
"a,b,c".split(",", 1)
"abc"[::-1]
sorted(words, key=len)
sorted(words, key=lambda w: (-len(w), w))
sorted(d.items(), key=lambda kv: kv[1], reverse=True)
max(d, key=d.get)
min(words, key=len)
max(words, key=len)
list(d)
list(d.keys()) + list(d.values())
dict(zip("abc", range(3)))
{k: v for k, v in sorted(d.items())}
{v: k for k, v in d.items()}
dict(d, e=5)
{**d, "z": 0}
d | {"q": 1}
list(map(lambda a, b: a + b, [1, 2], [3, 4]))
list(filter(None, [0, 1, 2]))
[a for row in matrix for a in row]
list(zip(*matrix))
[list(r) for r in zip(*matrix)]
sum(matrix, [])
any(w == "fox" for w in words)
all(len(w) > 0 for w in words)
list(enumerate("ab", 1))
sum(1 for _ in range(7))
list(chain([1], [2, 3]))
list(chain.from_iterable(matrix))
list(product([1, 2], "ab"))
list(islice(cycle([1, 2]), 5))
list(itertools.combinations(range(4), 2))
list(itertools.permutations(range(3)))
list(itertools.accumulate([1, 2, 3]))
list(itertools.zip_longest([1], [2, 3], fillvalue=0))
[(k, list(g)) for k, g in groupby("aabbb")]
list(itertools.repeat(3, 2))
list(itertools.takewhile(lambda q: q < 3, range(9)))
list(itertools.dropwhile(lambda q: q < 3, range(5)))
list(itertools.starmap(pow, [(2, 3)]))
list(itertools.compress("abc", [1, 0, 1]))
list(itertools.islice(itertools.count(5), 3))
[list(t) for t in itertools.tee([1, 2], 2)]
list(itertools.filterfalse(lambda q: q % 2, range(4)))
list(itertools.combinations_with_replacement("ab", 2))
reduce(lambda a, b: a * b, [1, 2, 3, 4])
partial(va, 1, b=3)(5)
fib(20)
tripled(4)
cnt.most_common(2)
cnt["zzz"]
sum(cnt.values())
sorted(cnt2.items())
cnt2.most_common(1)
(Counter("ab") + Counter("b"))["b"]
sorted(Counter("hello").elements())
dict(di)
dict(dd)
dl["a"]["b"]
list(dq)
dq[0]
len(dq)
list(od)
od.popitem()
P(1, 2).x
P(1, y=5)._asdict()
P._fields
tuple(P(1, 2))
Color.RED.value
Color.RED.name
Color(2).name
Color["BLUE"].value
[c.name for c in Color]
len(Color)
Color.RED == Color.RED
Color.RED is Color.BLUE
Size.A + 1
int(Size.B)
Auto.Y.value
Cfg().lr
Cfg(dims=[3, 4]).total()
asdict(Cfg())
replace(Cfg(), lr=0.5).lr
[f.name for f in fields(Cfg)]
Cfg() == Cfg()
Cfg2(depth=7).depth + Cfg2().dims[1]
NT(1).b
NT(1)._asdict()
cv
log
ch.size
ch.cp
len(ch)
ch[4]
3 in ch
ch(5)
ch + 1
list(ch)
str(ch)
Child.st(3)
sorted(Child.registry)
isinstance(ch, Base)
issubclass(GG, Child)
type(ch).__name__
ch.__class__.__name__
hasattr(ch, "n")
getattr(ch, "nope", 4)
list(gen(4))
list(gen2())
sum(gen(4))
next(gen(3))
next(iter([5, 6]))
list(It(3))
[i for i in It(2)]
va(1, 2, 3, b=4, c=5)
va(*[1, 2], **{"k": 3})
x + z
y
lst
sorted(st)
tr + fin
n
n2
wal2
matrix[1][-1]
matrix[-1][1:]
"a" if x else "b"
1 < 2 < 3
not []
[] or [1]
None or 5
0 and 1
7 // 2, -7 // 2, 7 % 3, 2 ** 10, 7 / 2
divmod(7, 2)
abs(-3)
round(3.567, 2)
round(2.5)
int("12"), float("1e-3"), str(4), bool("")
int(3.9)
int("ff", 16)
bin(5), hex(255), oct(8)
ord("a"), chr(98)
isinstance(3, (int, float))
callable(len)
list(range(10, 0, -3))
[1, 2] * 2
[0] * 3 + [1]
(1, 2) + (3,)
[1, 2, 3].index(2)
"abc".find("c")
"x" in "xyz"
sum([0.1, 0.2])
max([1, 5, 2]), min(3, 1)
max([], default=7)
len({1, 1, 2})
set("ab") & set("bc")
frozenset([1]) == frozenset([1])
{1, 2} - {2}
sorted({3, 1}, reverse=True)
[*range(3), *"ab"]
copy.deepcopy(matrix)
math.ceil(3.2), math.floor(3.8), math.sqrt(16), math.log2(8)
math.prod([2, 3])
math.gcd(12, 18)
bisect.bisect_left([1, 3, 5], 3)
bisect.bisect([1, 3, 5], 3)
heapq.nlargest(2, [1, 5, 3])
heapq.nsmallest(1, [4, 2])
os.path.join("a", "b", "c.txt")
os.path.splitext("a/b.tar")[1]
os.path.basename("a/b.txt")
os.path.dirname("a/b.txt")
str(pathlib.Path("a") / "b.txt")
pathlib.Path("a/b.txt").stem
pathlib.Path("a/b.txt").suffix
json.loads('{"a": [1, 2]}')
json.loads('[{"a": {"b": 2}}]', object_hook=lambda o: list(o.values()))
json.loads('{"a": {"b": 2}}', object_hook=lambda o: types.SimpleNamespace(**o)).a.b
json.dumps({"a": 1})
json.loads(json.dumps({"a": 1}))["a"]
string.ascii_lowercase
list(string.digits)
types.SimpleNamespace(a=1).a
list(reversed([1, 2]))
list(map(str, [1, 2]))
list(map(int, "1 2".split()))
dict([("a", 1)])
dict.fromkeys("ab", 0)
str.lower("AB")
str.join(",", ["a", "b"])
type(3) == int
type("a") is str
type([]).__name__
[i for i in range(20) if i % 3 == 0 if i % 2]
[[i * j for j in range(3)] for i in range(2)]
{i % 3 for i in range(9)}
(lambda *a, k=3: sum(a) + k)(1, 2)
eval("3 + 4")
globals()["n2"]
sum(map(len, words))
"".join(sorted("cab"))
"a-b_c".replace("-", "_").split("_")
s.count("o")
s.index("q")
"  x ".strip()
"x=1;y=2".split(";")[1].split("=")
dict(p.split("=") for p in "x=1;y=2".split(";"))
[int(v) for v in "1,2,3".split(",")]
b"abc"[0]
0x10 | 0b1
~5
1 << 4
5 & 3, 5 ^ 3
float("inf") > 1
math.isnan(float("nan"))
list(zip([1, 2], "ab", strict=True))
[1, 2, 3].copy()
[3, 1].sort()
"abc".center(7, "*")
"a\tb".expandtabs(4)
"ß".casefold()
"A" < "B"
[1, 2] < [1, 3]
(1, 2) == (1, 2)
""".strip().splitlines()


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    """Return the names as Python makes them."""
    names: dict[str, Any] = {"__name__": __name__}
    exec(GIVEN, names)
    return names


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the analysis makes of all expressions."""
    lines = [f"r{place} = {one}" for place, one in enumerate(EXPRESSIONS)]
    return modelled(tmp_path_factory.mktemp("python") / "all.py", GIVEN + "\n".join(lines))


@pytest.mark.parametrize(("place", "expression"), list(enumerate(EXPRESSIONS)), ids=str)
def test_value(model: dict[str, Any], real: dict[str, Any], place: int, expression: str) -> None:
    assert model[f"r{place}"] == eval(expression, real)

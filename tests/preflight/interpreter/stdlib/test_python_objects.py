"""Objects as keys, classes that classes make, generators: as Python has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.preflight.interpreter.domain.values import SomeInt, Unknown
from tests.preflight.modelled import modelled

GIVEN = """
import pickle
from collections import OrderedDict, deque, Counter
from enum import Enum
class Co(Enum):
    A = "a"
    B = "b"
class Node: pass
a, b = Node(), Node()
by_node = {a: 1, b: 2}
by_node[a] = 7
by_member = {Co.A: 1, Co.B: 2}
by_member[Co.A] += 5
class Ranked:
    def __init__(self, x):
        self.x = x
    def __lt__(self, other):
        return self.x < other.x
class Meta(type):
    known = {}
    def __new__(mcs, name, bases, attrs):
        made = super().__new__(mcs, name, bases, attrs)
        mcs.known[name.lower()] = made
        return made
class First(metaclass=Meta):
    size = 3
class Second(First):
    size = 4
class Listed(type):
    names = []
    def __init__(cls, name, bases, attrs):
        super().__init__(name, bases, attrs)
        cls.names.append(name)
class Third(metaclass=Listed): pass
class Single(type):
    made = {}
    def __call__(cls, *args, **kwargs):
        if cls not in cls.made:
            cls.made[cls] = super().__call__(*args, **kwargs)
        return cls.made[cls]
class Only(metaclass=Single):
    def __init__(self, n):
        self.n = n
class One:
    kept = None
    def __new__(cls, *args):
        if cls.kept is None:
            cls.kept = super().__new__(cls)
        return cls.kept
    def __init__(self, n):
        self.n = n
class Down:
    def __init__(self, n):
        self.n = n
    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n
down = Down(2)
counted = next(down), next(down), next(down, "end")
try:
    next(down)
except StopIteration:
    counted += ("over",)
def running():
    total = 0
    while True:
        x = yield total
        if x is None:
            return
        total += x
walk = running()
next(walk)
walk.send(4)
sent = walk.send(3)
ordered = OrderedDict([("a", 1), ("b", 2)])
first_out = ordered.popitem(last=False)
try:
    raise ValueError("bad thing")
except ValueError as error:
    said = str(error), f"{error}"
class Worded(Down):
    "Counts."
    def stop(self):
        '''Ends
        here.'''
class Wordless(Worded):
    def stop(self):
        return "no text"
def documented():
    "Says."
"""
EXPRESSIONS = """
by_node[a], a in by_node, len({a, b, a}), {Node: 3}[Node], {int: "i", str: "s"}[int]
by_member[Co.A], by_member.get(Co.B), Co.A in by_member, len({Co.A, Co.A})
[by_member[one] for one in Co]
{one: one.value for one in Co}[Co.B]
sorted([Ranked(3), Ranked(1), Ranked(2)])[0].x
max(Ranked(1), Ranked(5)).x, min([Ranked(4), Ranked(2)]).x
sorted(Meta.known), Meta.known["first"]().size, Meta.known["second"].size
Listed.names
Only(3).n, Only(5).n
[one.n for one in (One(3), One(5))]
counted
sent, first_out, list(ordered), deque(maxlen=3).maxlen, said
Worded.__doc__, Wordless.__doc__, Worded.stop.__doc__, Worded(1).stop.__doc__
Wordless.stop.__doc__, documented.__doc__, Down.__doc__, (lambda: 1).__doc__
Worded.stop.__module__ == documented.__module__ == Worded.__module__ == __name__
issubclass(bool, int), pow(2, 5, 7), "%(a)d-%(b)s" % {"a": 1, "b": "x"}
""".strip().splitlines()


def test_values(tmp_path: Path) -> None:
    names: dict[str, object] = {"__name__": "script"}
    exec(GIVEN, names)
    made = [f"r{place} = {one}" for place, one in enumerate(EXPRESSIONS)]
    model = modelled(tmp_path / "all.py", GIVEN + "\n".join(made))
    for place, one in enumerate(EXPRESSIONS):
        assert model[f"r{place}"] == eval(one, names), one


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hash('abc') % 100", SomeInt),
        ("abs(hash('abc'))", SomeInt),
        ("len({Same(1), Same(1)})", SomeInt),
        ("__import__('datetime').datetime.now().year", Unknown),
        ("int(__import__('hashlib').md5(b'abc').hexdigest(), 16)", Unknown),
    ],
)
def test_what_differs_from_run_to_run_is_not_told(tmp_path: Path, text: str, kind: type) -> None:
    same = """
class Same:
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return self.x == other.x
    def __hash__(self):
        return hash(self.x)
"""
    assert isinstance(modelled(tmp_path / "all.py", f"{GIVEN}{same}r = {text}")["r"], kind)


DESCRIBED = """
class Width:
    def __set_name__(self, owner, name): self.name = '_' + name
    def __get__(self, obj, cls): return self if obj is None else getattr(obj, self.name, 8)
    def __set__(self, obj, value): setattr(obj, self.name, int(value) * 2)
class Settings:
    width = Width()
settings = Settings()
before = settings.width
settings.width = '300'
after = settings.width
class Lazy(dict):
    def __missing__(self, key):
        value = self[key] = int(key) + 1
        return value
lazy = Lazy()
made = lazy['900']
there = '900' in lazy
"""


def test_descriptors_that_set_and_dictionaries_that_make_what_is_missing(tmp_path: Path) -> None:
    found = modelled(tmp_path / "all.py", DESCRIBED)
    names = ("before", "after", "made", "there")
    assert [found[name] for name in names] == [8, 600, 901, True]

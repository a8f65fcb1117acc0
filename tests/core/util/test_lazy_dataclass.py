"""Data classes made late are what `dataclasses` makes at once."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from types import FunctionType

import pytest
from pydantic import TypeAdapter

from gpuconsole.core.util.lazy_dataclass import dataclass

Decorator = Callable[..., Callable[[type], type]]
BOTH = pytest.mark.parametrize("decorator", [dataclasses.dataclass, dataclass])
"""Each of these tests holds for the standard library's too."""


@dataclass(frozen=True, slots=True)
class Host:
    """A record as the program has hundreds."""

    name: str
    devices: int = 8
    labels: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rack(Host):
    row: int = 0
    seen: float = field(default=0.0, compare=False, repr=False)


def made(decorator: Decorator, **options: bool) -> type:
    """Return a class with a field of each sort."""

    class Sorts:
        first: int
        second: str = "two"
        third: list[int] = field(default_factory=list)
        hidden: int = field(default=4, repr=False, compare=False)
        counted: int = field(init=False, default=5)
        listed: list[int] = field(init=False, default_factory=lambda: [6])

    return decorator(**options)(Sorts)


@BOTH
@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_objects_are_made_shown_and_compared(
    decorator: Decorator, slots: bool, frozen: bool
) -> None:
    kind = made(decorator, slots=slots, frozen=frozen)
    one, same, other = kind(1, third=[3]), kind(1, "two", [3], hidden=9), kind(2)
    assert repr(one).endswith("Sorts(first=1, second='two', third=[3], counted=5, listed=[6])")
    assert one == same
    assert one != other
    assert one != made(decorator, slots=slots, frozen=frozen)(1, third=[3])
    assert (one.hidden, same.hidden, other.third) == (4, 9, [])
    assert kind(1).third is not kind(1).third
    assert hasattr(one, "__dict__") is not slots


@BOTH
def test_wrong_arguments_are_refused(decorator: Decorator) -> None:
    kind = made(decorator)
    for arguments in ({}, {"first": 1, "fourth": 2}, {"first": 1, "counted": 2}):
        with pytest.raises(TypeError):
            kind(**arguments)
    with pytest.raises(TypeError, match=r"Sorts\.__init__"):
        kind()


@BOTH
def test_a_frozen_object_is_not_changed_and_has_a_hash(decorator: Decorator) -> None:
    class Point:
        x: int
        note: str = field(default="", compare=False)

    kind = decorator(frozen=True, slots=True)(Point)
    point = kind(1, "here")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert hash(point) == hash(kind(1))
    assert {point, kind(1), kind(2)} == {kind(1), kind(2)}
    assert point.x == 1


@BOTH
def test_an_object_that_may_change_has_no_hash(decorator: Decorator) -> None:
    assert made(decorator).__hash__ is None
    by_itself = decorator(eq=False)(type("Itself", (), {"__annotations__": {"x": "int"}}))
    assert by_itself(1) != by_itself(1)
    assert len({by_itself(1), by_itself(1)}) == 2


@BOTH
def test_methods_of_its_own_stay(decorator: Decorator) -> None:
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    class Begun:
        x: int

        def __init__(self) -> None:
            self.x = 8

    own, begun = decorator(frozen=True, slots=True)(Own)(1), decorator(slots=True)(Begun)()
    assert own == "anything"
    assert (hash(own), repr(own), begun.x) == (7, "own", 8)


@BOTH
def test_a_derived_class_has_the_fields_of_both(decorator: Decorator) -> None:
    class Base:
        x: int
        y: int = 2

        def __post_init__(self) -> None:
            object.__setattr__(self, "y", self.y + 10)

    frozen = decorator(frozen=True)
    base = frozen(Base)
    derived = frozen(type("Derived", (base,), {"__annotations__": {"z": "int"}, "z": 3}))
    assert [f.name for f in dataclasses.fields(derived)] == ["x", "y", "z"]
    assert derived(1) == derived(1, 2, 3)
    assert derived(1) != base(1)
    assert (derived(1).y, base(1, 3).y, derived(1, z=4).z) == (12, 13, 4)


@BOTH
def test_a_class_beyond_has_attributes_of_its_own(decorator: Decorator) -> None:
    loose = type("Loose", (made(decorator, frozen=True),), {})(1)
    loose.further = 5
    assert loose.further == 5
    del loose.further
    with pytest.raises(FrozenInstanceError):
        loose.first = 6


@BOTH
def test_fields_by_keyword_come_last(decorator: Decorator) -> None:
    kind = decorator(kw_only=True)(type("Named", (), {"__annotations__": {"x": "int"}}))
    assert kind(x=1).x == 1
    with pytest.raises(TypeError):
        kind(1)
    assert str(inspect.signature(kind)) == "(*, x: 'int') -> None"


@BOTH
def test_an_object_that_holds_itself_is_shown(decorator: Decorator) -> None:
    kind = made(decorator)
    knot = kind(1)
    knot.third = knot
    assert "third=..." in repr(knot)


@pytest.mark.parametrize("original", [Host("n1"), Rack("n2", 4, ["a100"], 3, 1.5)])
def test_records_are_copied_pickled_and_replaced(original: Host) -> None:
    for again in (pickle.loads(pickle.dumps(original)), copy.deepcopy(original)):
        assert again == original
        assert again.labels is not original.labels
    assert copy.copy(original).labels is original.labels
    changed = dataclasses.replace(original, name="n3")
    assert (changed.name, changed.devices) == ("n3", original.devices)
    assert dataclasses.asdict(original)["labels"] == original.labels
    assert type(original).__match_args__[:2] == ("name", "devices")


def test_a_record_is_read_from_a_document() -> None:
    read = TypeAdapter(Rack).validate_python({"name": "n1", "labels": ["x"], "row": "3"})
    assert read == Rack("n1", 8, ["x"], 3)


def test_what_makes_objects_is_compiled_once_it_is_looked_up() -> None:
    @dataclass(slots=True)
    class Late:
        x: int

    assert not isinstance(vars(Late)["__init__"], FunctionType)
    assert str(inspect.signature(Late)) == "(x: 'int') -> None"
    assert isinstance(vars(Late)["__init__"], FunctionType)
    assert Late.__init__ is Late.__init__
    assert Late(1).x == 1

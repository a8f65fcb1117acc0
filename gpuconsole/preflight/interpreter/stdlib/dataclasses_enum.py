"""Classes that are made of fields: data classes, enumerations, named tuples."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    UserClass,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

FIELDS = "__dataclass__"
"""The class attribute that lists a data class' own fields."""
WRITTEN_BY_PYTHON = "the text that Python writes for a class"


class Field(Native):
    """`dataclasses.field(...)`."""

    label = "Field"

    def __init__(self) -> None:
        super().__init__()
        self.default: Value = MISSING
        self.factory: Value = MISSING
        self.init_field = True

    def init(self, run: Run, *, default: Value = MISSING, default_factory: Value = MISSING,
             init: Value = True, **_: Value) -> None:  # fmt: skip
        """Keep default or factory."""
        self.default, self.factory = default, default_factory
        self.init_field = init is not False


def dataclass(run: Run, cls: Value = None, **_: Value) -> Value:
    """Stand for `@dataclass` and `@dataclass(...)`."""
    if cls is None:
        return NativeFunction(dataclass, "dataclass")
    if isinstance(cls, UserClass):
        cls.attrs[FIELDS] = list(cls.attrs.get("__annotations__", {}))
        if cls.doc is None:
            cls.doc = run.unknown(WRITTEN_BY_PYTHON)
    return cls


def is_dataclass(value: Value) -> bool:
    """Whether a value is a data class or an instance of one."""
    cls = value if isinstance(value, UserClass) else getattr(value, "cls", None)
    return isinstance(cls, UserClass) and cls.find(FIELDS) is not MISSING


_STEPS = 10
"""Steps that comparing or copying one instance takes about as long as."""


def fields_of(cls: UserClass) -> dict[str, Value]:
    """Return the fields of a data class with their defaults (`MISSING` where there is none)."""
    fields_found: dict[str, Value] = {}
    for base in reversed(cls.mro()):
        if FIELDS not in base.attrs:
            continue
        hints = base.attrs.get("__annotations__", {})
        for name in base.attrs[FIELDS]:
            if "ClassVar" not in hints.get(name, ""):
                fields_found.pop(name, None) if "KW_ONLY" in hints.get(name, "") else None
                if hints.get(name, "").split(".")[-1] != "KW_ONLY":
                    fields_found[name] = base.attrs.get(name, MISSING)
    return fields_found


def default_of(interp: Interpreter, value: Value) -> Value:
    """Return a field's default, made again where the field says how."""
    if isinstance(value, Field):
        return interp.call(value.factory, [], {}) if value.factory is not MISSING else value.default
    return value


def fill(interp: Interpreter, instance: Native, cls: UserClass, args: list[Value],
         kwargs: dict[str, Value]) -> Value:  # fmt: skip
    """Run a data class' own `__init__`; an unknown when the arguments are wrong."""
    run: Run = interp.run
    fields = fields_of(cls)
    taking = [name_ for name_, default in fields.items()
              if not (isinstance(default, Field) and not default.init_field)]  # fmt: skip
    given = dict(zip(taking, args, strict=False))
    wrong = [name for name in kwargs if name not in fields]
    if wrong or len(args) > len(taking):
        message = f"{cls.name}() has no field {wrong[0]}" if wrong else (
            f"{cls.name}() takes {len(taking)} values, {len(args)} given")  # fmt: skip
        return run.fault(message)
    given.update(kwargs)
    for name, default in fields.items():
        value = given[name] if name in given else default_of(interp, default)
        if value is MISSING:
            value = run.fault(f"{cls.name}() needs a value for {name}")
        instance.attrs[name] = value
    later = cls.find("__post_init__")
    if isinstance(later, Function):
        interp.call(interp.bind(later, instance), [], {})
    return None


def equal(interp: Interpreter, left: Value, right: Value) -> bool:
    """Whether two instances of a data class have the same fields."""
    interp.tick(_STEPS)
    kind: UserClass = left.cls
    if not isinstance(kind, UserClass) or getattr(right, "cls", None) is not kind:
        return False
    names = list(fields_of(kind))
    pairs = ((left.attrs.get(name), right.attrs.get(name)) for name in names)
    return all(interp.truth(interp.compare(ast.Eq, a, b)) is True for a, b in pairs)


def _replace(run: Run, value: Value, /, **changes: Value) -> Value:
    if isinstance(value, Unknown):
        return value
    now = {name: value.attrs[name] for name in fields_of(value.cls)}
    return run.interp.call(value.cls, [], {**now, **changes})


def _as_dict(run: Run, value: Value, **_: Value) -> Value:
    run.interp.tick(_STEPS)
    if is_dataclass(value) and not isinstance(value, UserClass):
        return {name: _as_dict(run, value.attrs[name]) for name in fields_of(value.cls)}
    if isinstance(value, dict):
        return {key: _as_dict(run, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_as_dict(run, part) for part in value)
    return value


def _fields(run: Run, value: Value) -> Value:
    cls = value if isinstance(value, UserClass) else value.cls
    fields_listed = []
    hints = {k: v for base in reversed(cls.mro())
             for k, v in base.attrs.get("__annotations__", {}).items()}  # fmt: skip
    for name, default in fields_of(cls).items():
        field = Native()
        field.attrs.update(name=name, type=hints.get(name), default=default_of(run.interp, default))
        fields_listed.append(field)
    return fields_listed


def dataclasses() -> Namespace:
    """Return `dataclasses`."""
    table: dict[str, Callable[..., Value]] = {
        "dataclass": dataclass,
        "replace": _replace,
        "asdict": _as_dict,
        "fields": _fields,
        "astuple": lambda run, instance: tuple(_as_dict(run, instance).values()),
        "is_dataclass": lambda run, instance: is_dataclass(instance),
    }
    names: dict[str, Value] = {k: NativeFunction(v, k) for k, v in table.items()}
    return Namespace(
        "dataclasses",
        {
            **names,
            "field": NativeClass(Field, "field"),
            "MISSING": None,
            "KW_ONLY": None,
            "InitVar": None,
        },
    )


# -- enumerations


class Member(Native):
    """A member of an enumeration; one of `IntEnum` or a `str` mixin equals its value."""

    label = "Enum"
    plain = False

    def equals(self, other: Value) -> bool:
        """Whether `==` holds."""
        return self is other or (self.is_plain() and bool(self.attrs["value"] == other))

    def is_plain(self) -> bool:
        """Whether the member is a number or text as well."""
        return self.plain or (self.cls is not None and any(
            getattr(base, "name", "") in ("int", "str", "IntEnum", "StrEnum", "IntFlag")
            for cls in self.cls.mro() for base in cls.bases
        ))  # fmt: skip

    def operate(
        self, interp: Interpreter, kind: type[ast.operator], other: Value, *, first: bool
    ) -> Value:
        """Compute with the value."""
        value = self.attrs["value"]
        return interp.binary(kind, value, other) if first else interp.binary(kind, other, value)


class Counter(Native):
    """`enum.auto()`."""

    label = "auto"


def enumerate_members(cls: UserClass) -> None:
    """Turn the constants of an enumeration's body into its members."""
    members: dict[str, Value] = {}
    count = 0
    for name, value in list(cls.attrs.items()):
        callable_ = isinstance(value, (Function, NativeFunction)) or hasattr(value, "function")
        if name.startswith("_") or callable_:
            continue
        count = value if isinstance(value, int) else count + 1
        member_ = Member()
        member_.cls = cls
        automatic = name.lower() if cls.native is not None and "Str" in str(cls.bases) else count
        member_.attrs.update(name=name, value=automatic if isinstance(value, Counter) else value)
        members[name] = cls.attrs[name] = member_
    cls.attrs["__members__"] = members


def members_of(cls: Value) -> dict[str, Value] | None:
    """Return the members of an enumeration, or None for another class."""
    members = cls.find("__members__") if isinstance(cls, UserClass) else MISSING
    return members if isinstance(members, dict) else None


def member(run: Run, cls: UserClass, value: Value) -> Value:
    """Stand for `Color("red")`."""
    if isinstance(value, (Unknown, Member)):
        return value
    refused = run.interp.too_much(value)
    if refused is not None:
        return refused
    for candidate in (members_of(cls) or {}).values():
        if candidate.attrs["value"] == value:
            return candidate
    return run.interp.lacking(f"{value!r} is not a value of {cls.name}"[:200], "ValueError")


def enum() -> Namespace:
    """Return `enum`."""
    names: dict[str, Value] = {
        name: NativeClass(Member, name)
        for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")
    }
    return Namespace(
        "enum",
        {
            **names,
            "auto": NativeClass(Counter, "auto"),
            "unique": NativeFunction(lambda run, cls: cls, "unique"),
        },
    )


# -- named tuples


class Record(Native):
    """An instance of a named tuple."""

    label = "tuple"
    is_its_fields = True

    def init(self, run: Run, /, *args: Value, **kwargs: Value) -> None:
        """Take the fields by place or name."""
        assert self.cls is not None
        names = names_of(self.cls)
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        for name in names:
            default = self.cls.find(name)
            if name in values:
                self.attrs[name] = values[name]
            elif default is MISSING:
                self.attrs[name] = run.fault(f"{self.cls.name}() needs a value for {name}")
            else:
                self.attrs[name] = default

    def values(self) -> list[Value]:
        """Return the values in order."""
        return [self.attrs[name] for name in names_of(self.cls)] if self.cls is not None else []

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give a field by place."""
        return key if isinstance(key, Unknown) else tuple(self.values())[key]

    def count(self, interp: Interpreter) -> int:
        """Number of fields."""
        return len(self.values())

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the fields in order."""
        yield from self.values()

    @exposed.method("_asdict")
    def do__asdict(self, run: Run) -> Value:
        """Give the fields by name."""
        return dict(self.attrs)

    @exposed.method("_replace")
    def do__replace(self, run: Run, /, **changes: Value) -> Value:
        """Give another with some fields changed."""
        return run.interp.call(self.cls, [], {**self.attrs, **changes})


def names_of(cls: UserClass) -> list[str]:
    """Return the fields of a named tuple."""
    fields = cls.find("_fields")
    return list(fields) if isinstance(fields, (list, tuple)) else []


def named_fields(cls: UserClass) -> None:
    """Give a class that derives from `typing.NamedTuple` its fields."""
    if "_fields" not in cls.attrs and cls.attrs.get("__annotations__"):
        cls.attrs["_fields"] = tuple(cls.attrs["__annotations__"])


def namedtuple(run: Run, name: Value, fields: Value, *_: Value, defaults: Value = (),
               **__: Value) -> Value:  # fmt: skip
    """Stand for `collections.namedtuple` and the call form of `typing.NamedTuple`."""
    if isinstance(fields, str):
        names = fields.replace(",", " ").split()
    elif isinstance(fields, (list, tuple)):
        names = [field if isinstance(field, str) else field[0] for field in fields]
    else:
        return run.unknown("a named tuple of unknown fields")
    cls = UserClass(str(name), (NativeClass(Record, "tuple"),), run.line)
    cls.attrs["_fields"] = tuple(names)
    given = list(defaults or ())
    cls.attrs.update(zip(names[len(names) - len(given) :], given, strict=False))
    return cls

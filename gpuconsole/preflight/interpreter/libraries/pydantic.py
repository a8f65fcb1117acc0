"""Pydantic's models: classes of fields with types, defaults and functions that check them.

What pydantic would refuse is unknown here, never a fault of the script: it converts more than is
followed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import field

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.mappings import mapping_of
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Scope,
    SomeNumber,
    Unknown,
    UserClass,
    UserRaise,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.autograd.grad_mode import innermost
from gpuconsole.preflight.interpreter.stdlib import dataclasses_enum
from gpuconsole.preflight.interpreter.stdlib.os_pathlib import Place

TYPES = "__pydantic_types__"
"""The class attribute with the types of a model's own fields, by name."""
CONTAINERS = {
    "list": list, "sequence": list, "iterable": list, "tuple": tuple, "set": set, "frozenset": set,
}  # fmt: skip
BY_NAME = ("populate_by_name", "validate_by_name", "allow_population_by_field_name")
"""Options with which a field that has an alias may be given by its own name too."""
TRUTHS = {
    **dict.fromkeys(("true", "yes", "on", "1", "y", "t"), True),
    **dict.fromkeys(("false", "no", "off", "0", "n", "f"), False),
}


@dataclass(frozen=True, slots=True)
class Type:
    """What a field's annotation says: a name, the types within it, and the script's own class."""

    name: str
    parts: tuple[Type, ...] = ()
    cls: UserClass | None = field(default=None, compare=False)


ANY = Type("any")


def type_of(node: ast.expr, scope: Scope) -> Type:
    """Read an annotation where it is written."""
    if isinstance(node, ast.Constant):
        return _of_constant(node, scope)
    if isinstance(node, ast.BinOp):
        return Type("union", (type_of(node.left, scope), type_of(node.right, scope)))
    if isinstance(node, ast.Subscript):
        return _of_parts(node, scope)
    name = ast.unparse(node)
    home = scope.find(name)
    value = home.names[name] if home is not None else None
    if isinstance(value, UserClass):
        return Type("class", cls=value)
    return Type(name.rsplit(".", 1)[-1].lower())


def _of_constant(node: ast.Constant, scope: Scope) -> Type:
    if not isinstance(node.value, str):
        return Type("none" if node.value is None else "other")
    try:
        return type_of(ast.parse(node.value, mode="eval").body, scope)
    except SyntaxError:
        return Type("other")


def _of_parts(node: ast.Subscript, scope: Scope) -> Type:
    name = ast.unparse(node.value).rsplit(".", 1)[-1].lower()
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "literal":
        return ANY
    parts = tuple(type_of(part, scope) for part in inner)
    if name in ("annotated", "final"):
        return parts[0]
    return Type("union" if name == "optional" else name, parts)


def converted(run: Run, kind: Type, value: Value) -> Value:
    """Return a value as a field of a type has it."""
    run.interp.tick()
    if value is None or isinstance(value, (Unknown, SomeNumber)) or kind.name in ("any", "literal"):
        return value
    if kind.name == "union":
        exact = [part for part in kind.parts if _fits(part, value)]
        wanted = exact or [part for part in kind.parts if part.name != "none"]
        return converted(run, wanted[0], value) if wanted else value
    if kind.cls is not None:
        return _of_class(run, kind.cls, value)
    if kind.name in CONTAINERS:
        return _contained(run, kind, value)
    entries = mapping_of(value)
    if kind.name in ("dict", "mapping", "mutablemapping") and entries is not None:
        inner = kind.parts[-1] if kind.parts else ANY
        return {key: converted(run, inner, item) for key, item in entries.items()}
    return _plain(run, kind.name, value)


def _fits(kind: Type, value: Value) -> bool:
    """Whether a value is of a type as it is."""
    if kind.cls is not None:
        return isinstance(value, Native) and value.cls is kind.cls
    names = {"bool": bool, "int": int, "float": float, "str": str, "dict": dict, **CONTAINERS}
    wanted = names.get(kind.name)
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return kind.name == "any" or (wanted is not None and isinstance(value, wanted))


def _of_class(run: Run, cls: UserClass, value: Value) -> Value:
    entries = mapping_of(value)
    if isinstance(value, Native) and (entries is None or value.cls is cls):
        return value
    if dataclasses_enum.members_of(cls) is not None:
        members = (dataclasses_enum.members_of(cls) or {}).values()
        same = [member for member in members if member.attrs["value"] == value]
        return same[0] if same else _refused(run, cls.name)
    names = list(entries or {})
    if entries is None or not all(isinstance(name, str) for name in names):
        return _refused(run, cls.name)
    return run.interp.call(cls, [], entries)


def _contained(run: Run, kind: Type, value: Value) -> Value:
    if not isinstance(value, (list, tuple, set)):
        return value if isinstance(value, Native) else _refused(run, kind.name)
    parts = [part for part in kind.parts if part.name != "other"]
    whole = kind.name == "tuple" and len(parts) == len(value)
    kinds = parts if whole else [parts[0] if parts else ANY] * len(value)
    items = [converted(run, part, item) for part, item in zip(kinds, value, strict=True)]
    return CONTAINERS[kind.name](items)


def _plain(run: Run, name: str, value: Value) -> Value:
    if name == "bool" and isinstance(value, (int, str)):
        truth = TRUTHS.get(str(value).lower())
        return _refused(run, name) if truth is None else truth
    if name == "float" and isinstance(value, int):
        return float(value)
    if name in ("int", "float") and isinstance(value, (str, float)):
        return _number(run, name, value)
    if name == "path" and isinstance(value, str):
        return run.interp.call(NativeClass(Place, "Path"), [value], {})
    same = {"int": int, "str": str, "float": float}.get(name)
    if isinstance(value, Native) or (same is not None and isinstance(value, same)):
        return value
    return _refused(run, name)


def _number(run: Run, name: str, value: str | float) -> Value:
    try:
        number = float(value)
    except ValueError:
        return _refused(run, name)
    if name == "float":
        return number
    return int(number) if number.is_integer() else _refused(run, name)


def _refused(run: Run, name: str) -> Unknown:
    return run.unknown(f"what pydantic makes of a value for a field of type {name}")


class Field(Native):
    """`Field(...)`."""

    label = "FieldInfo"

    def __init__(self) -> None:
        super().__init__()
        self.default: Value = MISSING
        self.factory: Value = MISSING
        self.alias: Value = None

    def init(self, run: Run, default: Value = MISSING, /, **more: Value) -> None:
        """Keep default or factory, and the name under which it is given."""
        default = more.get("default", default)
        self.default = MISSING if default is ... else default
        self.factory = more.get("default_factory", MISSING)
        self.alias = more.get("validation_alias", more.get("alias"))


class Check(Native):
    """A function of a model that checks or changes a field, or all of them."""

    label = "validator"

    def __init__(
        self, function: Function, fields: tuple[str, ...], mode: str, always: bool
    ) -> None:
        super().__init__()
        self.function = function
        self.fields = fields
        """Empty for one of the whole model."""
        self.mode = mode
        self.always = always

    def on(self, run: Run, cls: UserClass, first: Value, info: Native) -> Value:
        """Run it; unknown where it raises, for pydantic may have given it something else."""
        names = [argument.arg for argument in self.function.args.args]
        args: list[Value] = [cls] if self.function.owner is not None or "cls" in names[:1] else []
        if self.function.kind == "static" or (not self.fields and self.mode == "after"):
            args = []
        args.append(first)
        if len(names) > len(args):
            by_values = names[len(args)] == "values"
            args.append(info.attrs["data"] if by_values else info)
        if len(names) > len(args) or self.mode == "wrap":
            return run.unknown("a check of pydantic that is not followed")
        try:
            return run.interp.call_function(self.function, args[: len(names)], {})
        except UserRaise:
            return run.unknown(f"a check of {cls.name} refuses its values")


def _checks(of_fields: bool) -> Value:
    """Return `field_validator` and `validator`, or `model_validator` and `root_validator`."""

    def decorator(run: Run, /, *names: Value, mode: Value = "after", pre: Value = False,
                  always: Value = False, **_: Value) -> Value:  # fmt: skip
        before = "before" if pre is True else mode

        def made(run: Run, function: Value) -> Value:
            inside = innermost(function)
            if not isinstance(inside, Function):
                return run.unknown("a check of pydantic that is not followed")
            fields = tuple(str(name) for name in names) if of_fields else ()
            return Check(inside, fields, str(before), always is True)

        if not of_fields and names and isinstance(innermost(names[0]), Function):
            return made(run, names[0])
        return NativeFunction(made, "validator")

    return NativeFunction(decorator, "validator")


class Model(Native):
    """An instance of a class that derives from `BaseModel`."""

    label = "BaseModel"
    is_its_fields = True

    @staticmethod
    def derived(cls: UserClass, scope: Scope) -> None:
        """Read the types of a new class' fields."""
        hints = cls.attrs.get("__annotations__", {})
        types = {name: type_of(ast.parse(text, mode="eval").body, scope)
                 for name, text in hints.items()}  # fmt: skip
        cls.attrs[TYPES] = types

    def init(self, run: Run, /, *args: Value, **kwargs: Value) -> None:
        """Take the fields by name."""
        assert self.cls is not None
        fill(run, self, self.cls, kwargs)

    @exposed.method("model_dump", "dict")
    def do_model_dump(self, run: Run, /, *, exclude: Value = (), **_: Value) -> Value:
        """Give the fields as plain dictionaries."""
        left = exclude if isinstance(exclude, (set, list, tuple, dict)) else ()
        return {name: plain(run, value) for name, value in self.attrs.items() if name not in left}

    @exposed.method("model_dump_json", "json")
    def do_model_dump_json(self, run: Run, /, **_: Value) -> Value:
        """Give text."""
        return run.unknown("text made of a model")

    @exposed.method("model_copy", "copy")
    def do_model_copy(self, run: Run, /, *, update: Value = None, deep: Value = False) -> Value:
        """Give another with some fields changed, unchecked."""
        other = run.interp.copied(self, deep=deep is True)
        other.attrs.update(mapping_of(update) or {})
        return other

    @staticmethod
    @exposed.of_class("model_validate", "parse_obj")
    def class_model_validate(run: Run, cls: UserClass, value: Value, **_: Value) -> Value:
        """Make a model of a mapping."""
        return value if isinstance(value, Unknown) else _of_class(run, cls, value)

    @staticmethod
    @exposed.of_class("model_construct", "construct")
    def class_model_construct(run: Run, cls: UserClass, *_: Value, **given: Value) -> Value:
        """Make a model without checks."""
        return run.interp.call(cls, [], given)

    def iterate(self, interp: object) -> Sequence[Value]:
        """Give the pairs of names and values."""
        return list(self.attrs.items())


def plain(run: Run, value: Value) -> Value:
    """Return models within a value as dictionaries."""
    run.interp.tick()
    if isinstance(value, Model):
        return {name: plain(run, inner) for name, inner in value.attrs.items()}
    if isinstance(value, dict):
        return {key: plain(run, inner) for key, inner in value.items()}
    return (
        type(value)(plain(run, item) for item in value) if type(value) in (list, tuple) else value
    )


def fill(run: Run, model: Model, cls: UserClass, given: Mapping[str, Value]) -> None:
    """Give a new model its fields."""
    types, defaults, checks = _declared(cls)
    info = Native()
    info.attrs.update(data=model.attrs, context=None, mode="python", config=None)
    whole: Value = dict(given)
    for check in (each for each in checks if not each.fields and each.mode == "before"):
        whole = whole if isinstance(whole, Unknown) else check.on(run, cls, whole, info)
    entries = mapping_of(whole)
    if entries is None:
        unknown = whole if isinstance(whole, Unknown) else run.unknown("what a model is given")
        run.note_unknown(unknown)
        model.attrs.update(dict.fromkeys(types, unknown))
        return
    for name, kind in types.items():
        info.attrs["field_name"] = name
        model.attrs[name] = _value(run, cls, (name, kind, defaults[name]), entries, checks, info)
    if _configured(cls).get("extra") == "allow":
        taken = {*types, *(_key(name, default) for name, default in defaults.items())}
        model.attrs.update({key: item for key, item in entries.items() if key not in taken})
    for check in (each for each in checks if not each.fields and each.mode != "before"):
        result = check.on(run, cls, model, info)
        if isinstance(result, Unknown):
            run.note_unknown(result)
            model.attrs.update(dict.fromkeys(types, result))


def _declared(cls: UserClass) -> tuple[dict[str, Type], dict[str, Value], list[Check]]:
    """Return the types of a model's fields, their defaults, and its checks."""
    types: dict[str, Type] = {}
    defaults: dict[str, Value] = {}
    checks: dict[str, Check] = {}
    for base in reversed(cls.mro()):
        for name, kind in base.attrs.get(TYPES, {}).items():
            if not name.startswith("_") and kind.name != "classvar" and name != "model_config":
                types[name] = kind
                defaults[name] = base.attrs.get(name, MISSING)
        for name, value in base.attrs.items():
            if isinstance(value, Check):
                checks[name] = value
            elif name in types and name not in base.attrs.get(TYPES, {}):
                defaults[name] = value
    return types, defaults, list(checks.values())


def _value(
    run: Run, cls: UserClass, declared: tuple[str, Type, Value], given: Mapping[Value, Value],
    checks: Sequence[Check], info: Native,
) -> Value:  # fmt: skip
    """Return the value of a field: what is given, converted and checked, else its default."""
    name, kind, default = declared
    mine = [check for check in checks if name in check.fields or "*" in check.fields]
    key = _key(name, default)
    if key not in given and any(_configured(cls).get(option) is True for option in BY_NAME):
        key = name
    if key not in given:
        value = default_of(run, cls, name, default)
        mine = [check for check in mine if check.always]
    else:
        value = given[key]
        for check in (each for each in mine if each.mode == "before"):
            value = check.on(run, cls, value, info)
        value = converted(run, kind, value)
    for check in (each for each in mine if each.mode != "before"):
        value = value if isinstance(value, Unknown) else check.on(run, cls, value, info)
    if isinstance(value, Unknown):
        run.note_unknown(value)
    return value


def default_of(run: Run, cls: UserClass, name: str, default: Value) -> Value:
    """Return a field's default: a copy, or made again where the field says how."""
    if isinstance(default, Field):
        if default.factory is not MISSING:
            return run.interp.call(default.factory, [], {})
        default = default.default
    if default is MISSING:
        return run.unknown(f"{cls.name} is given no {name}")
    return run.interp.copied(default)


def _key(name: str, default: Value) -> str:
    """Return the name under which a field is given."""
    alias = default.alias if isinstance(default, Field) else None
    return alias if isinstance(alias, str) else name


def _configured(cls: UserClass) -> Mapping[Value, Value]:
    config, older = cls.find("model_config"), cls.find("Config")
    return older.attrs if isinstance(older, UserClass) else mapping_of(config) or {}


def namespace() -> Namespace:
    """Return `pydantic`."""
    fields, whole = _checks(True), _checks(False)
    return Namespace("pydantic", {
        "BaseModel": NativeClass(Model, "BaseModel"), "Field": NativeClass(Field, "Field"),
        "field_validator": fields, "validator": fields,
        "model_validator": whole, "root_validator": whole,
        "ConfigDict": NativeFunction(lambda run, **more: more, "ConfigDict"),
        "PrivateAttr": NativeClass(Field, "PrivateAttr"),
        **{name: NativeClass(Native, name) for name in (
            "ValidationError", "ValidationInfo", "PositiveInt", "PositiveFloat", "NonNegativeInt",
            "NonNegativeFloat", "StrictInt", "StrictStr", "StrictFloat", "StrictBool",
        )},
    })  # fmt: skip

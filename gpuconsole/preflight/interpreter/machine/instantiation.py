"""How classes of the script make instances, and metaclasses make classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    BoundMethod,
    Function,
    Native,
    NativeFunction,
    Plain,
    Unknown,
    UserClass,
    Value,
)
from gpuconsole.preflight.interpreter.stdlib import dataclasses_enum

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run


def instance(
    interp: Interpreter, cls: UserClass, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Call a class: by its metaclass where that says how."""
    of_meta = cls.meta.find("__call__") if cls.meta is not None else None
    if isinstance(of_meta, Function):
        return interp.call(BoundMethod(of_meta, cls), args, kwargs)
    return plainly(interp, cls, args, kwargs)


def plainly(
    interp: Interpreter, cls: UserClass, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Make an instance with `__new__` and `__init__`."""
    if dataclasses_enum.members_of(cls) is not None:
        return dataclasses_enum.member(interp.run, cls, args[0] if args else None)
    new = cls.find("__new__")
    if isinstance(new, Function) and cls.native is None:
        instance = interp.call_function(new, [cls, *args], kwargs)
        if not isinstance(instance, Native) or instance.cls is not cls:
            return instance
    else:
        instance = blank(interp, cls)
    init = cls.find("__init__")
    if isinstance(init, Function):
        interp.call_function(init, [instance, *args], kwargs)
    elif dataclasses_enum.is_dataclass(cls):
        dataclasses_enum.fill(interp, instance, cls, args, kwargs)
    elif cls.native is not None:
        begin(interp, instance, cls.name, args, kwargs)
    elif any(isinstance(base, NativeFunction) for each in cls.mro() for base in each.bases):
        # A list of the script's own class: what it is made of is kept, though it is not followed.
        for arg in args:
            interp.run.keep_somewhere(list(interp.iterate(arg)))
    return instance


def begin(
    interp: Interpreter, instance: Native, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Run a library's `__init__`, or what the script has put in its place."""
    patched = interp.run.patches.find(type(instance), "__init__")
    if isinstance(patched, (Function, NativeFunction)):
        return interp.call(patched, [instance, *args], kwargs)
    if patched is not MISSING:
        interp.run.block(interp.run.unknown("what makes an object is replaced"))
    return interp.guard(instance.init, name, args, kwargs)


def blank(interp: Interpreter, cls: UserClass) -> Native:
    """Return an instance before its `__init__`."""
    instance = (cls.native or Plain)()
    instance.cls = cls
    instance.attrs = {}
    prepare = getattr(instance, "prepare", None)
    if prepare is not None:
        prepare(interp.run)
    return instance


def new(run: Run, cls: Value, *_: Value, **__: Value) -> Value:
    """Stand for `object.__new__`, and for `type.__new__` while a metaclass makes a class."""
    if run.interp.making is not None:
        return run.interp.making
    if isinstance(cls, UserClass):
        return blank(run.interp, cls)
    return cls if isinstance(cls, Unknown) else run.unknown("an instance of no class")


def by_metaclass(interp: Interpreter, cls: UserClass) -> Value:
    """Run `__new__` and `__init__` of a class' metaclass, such as fill registries."""
    meta = cls.meta
    begin = meta.find("__new__") if meta is not None else None
    init = meta.find("__init__") if meta is not None else None
    if isinstance(begin, Function):
        before, interp.making = interp.making, cls
        try:
            result = interp.call_function(begin, [meta, cls.name, cls.bases, cls.attrs], {})
        finally:
            interp.making = before
        if not isinstance(result, UserClass):
            return result
    if isinstance(init, Function):
        interp.call_function(init, [cls, cls.name, cls.bases, cls.attrs], {})
    return cls

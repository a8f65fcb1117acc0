"""Attributes: reading and setting `value.name`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import exposed, keys, python_values, string_sets
from gpuconsole.preflight.interpreter.domain.mappings import Mapping, SimpleNamespace
from gpuconsole.preflight.interpreter.domain.sequences import Listed
from gpuconsole.preflight.interpreter.domain.string_sets import DrawnText
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    BoundMethod,
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Plain,
    Reshaped,
    SuperOf,
    Unknown,
    UserClass,
    UserModule,
    Value,
    Wrapped,
    plain,
)
from gpuconsole.preflight.interpreter.libraries import unsupported
from gpuconsole.preflight.interpreter.libraries.argparse import Parsed
from gpuconsole.preflight.interpreter.machine import exceptions, instantiation
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy import ufuncs_grids
from gpuconsole.preflight.interpreter.numpy.array import Array, reshaped
from gpuconsole.preflight.interpreter.numpy.array_methods import as_type
from gpuconsole.preflight.interpreter.paddle.autograd import grad_mode
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.interpreter.stdlib.no_effect import Silent

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

SETTER = "="
"""Ends the name under which a class keeps what `@name.setter` decorates."""
_MAPPINGS = ("dict", "OrderedDict")
_OF_TYPES = frozenset(["str", "list", "dict", "OrderedDict", "set", "tuple", "int", "float"])
_CALLED = ("__init__", "__call__")
_SHOWN = ("__doc__", "__module__", "__name__", "__qualname__", "__repr__", "__str__")
"""Names that have no part in memory."""
_WHOLE = (Plain, Parsed, SimpleNamespace)
"""Objects of which everything is known: a name that they lack is not there."""


def lacking(interp: Interpreter, message: str, kind: str) -> Unknown:
    """Note that a script fails here; raise where it may be prepared for that."""
    if interp.trying:
        raise exceptions.raised(interp.run, kind, message)
    return interp.run.fault(message)


def get_attr(interp: Interpreter, value: Value, name: str) -> Value:
    """Return `value.name` as the script would see it."""
    run = interp.run
    if isinstance(value, DrawnText):
        return string_sets.attribute(run, value, name)
    if isinstance(value, Reshaped) and name == "astype":
        array = Array(value.shape, "float64")
        return NativeFunction(lambda run, kind, **_: as_type(run, array, kind), "astype")
    if isinstance(value, Unknown):
        return plain(value)
    if isinstance(value, Native):
        return _instance_attr(interp, value, name)
    if isinstance(value, Namespace):
        member = value.find(name)
        if member is not MISSING:
            return member
        unsupported.refuse_gone(run, f"{value.name}.{name}")
        if value.quiet:
            return Silent()
        return run.unknown(f"{value.name}.{name} is not known to the analysis")
    if isinstance(value, UserModule):
        return _module_attr(interp, value, name)
    if isinstance(value, UserClass):
        return _class_attr(interp, value, name)
    if isinstance(value, SuperOf):
        return _super_attr(interp, value, name)
    if isinstance(value, NativeClass):
        return _native_class_attr(interp, value, name)
    if isinstance(value, (Function, BoundMethod, Wrapped, NativeFunction)):
        return _function_attr(interp, value, name)
    return python_values.attribute(interp, value, name)


def _module_attr(interp: Interpreter, value: UserModule, name: str) -> Value:
    names = value.scope.names
    if name in names:
        return names[name]
    if name == "__dict__":
        return names
    fallback = names.get("__getattr__")
    if isinstance(fallback, Function):
        return interp.call(fallback, [name], {})
    return interp.run.unknown(
        msg("module {module} has no name {name}", module=value.name, name=name)
    )


def _class_attr(interp: Interpreter, value: UserClass, name: str) -> Value:
    # Every class has a `__doc__` of its own: None where it has no text.
    member = value.attrs.get(name, MISSING) if name == "__doc__" else value.find(name)
    function = grad_mode.innermost(member)
    if isinstance(function, Function) and function.kind == "class":
        return _bound(member, function, value)
    if member is not MISSING:
        return member
    of_meta = value.meta.find(name) if value.meta is not None else MISSING
    if of_meta is not MISSING:
        function = grad_mode.innermost(of_meta)
        return _bound(of_meta, function, value) if isinstance(function, Function) else of_meta
    if name in ("__name__", "__qualname__"):
        return value.name
    if name == "__dict__":
        return value.attrs
    if name in ("__mro__", "__bases__"):
        return tuple(value.mro()) if name == "__mro__" else value.bases
    if name in ("__module__", "__doc__"):
        return value.module if name == "__module__" else value.doc
    shared = None if value.native is None else exposed.of(value.native).of_class.get(name)
    if shared is not None:
        return NativeFunction(partial(_with_class, shared, value), name)
    if value.native is not None:
        # A method of the library's class, taken from the class: `Base.__init__(self)`.
        return _native_class_attr(interp, NativeClass(value.native, value.name), name)
    return interp.run.unknown(msg("class {kind} has no {name}", kind=value.name, name=name))


def _native_class_attr(interp: Interpreter, value: NativeClass, name: str) -> Value:
    patched = interp.run.patches.find(value.type, name)
    if patched is not MISSING:
        return patched
    table = exposed.of(value.type)
    static = table.static.get(name)
    if static is not None:
        return NativeFunction(static, f"{value.name}.{name}")
    if name in ("__name__", "__qualname__"):
        return value.name
    if name == "__setattr__":
        return NativeFunction(_set_plainly, name)
    if name == "__new__":
        return NativeFunction(instantiation.new, name)
    if name in ("__init__", "__call__") or name in table.methods:
        return NativeFunction(partial(_unbound, name), f"{value.name}.{name}")
    if name.startswith("__"):
        return NativeFunction(lambda run, *args, **kwargs: None, name)
    return interp.run.unknown(f"{value.name}.{name} is not known to the analysis")


def _doc(function: Function) -> str | None:
    """Return the text that a function begins with."""
    first: ast.stmt | None = function.body[0] if function.body else None
    content = first.value if isinstance(first, ast.Expr) else None
    if isinstance(content, ast.Constant) and isinstance(content.value, str):
        return content.value
    return None


def _function_attr(interp: Interpreter, value: Value, name: str) -> Value:
    if name == "__name__":
        inner = grad_mode.innermost(value)
        inner = inner.function if isinstance(inner, BoundMethod) else inner
        return getattr(inner, "name", "")
    if isinstance(value, (Function, BoundMethod)) and name in ("__doc__", "__module__"):
        function = value.function if isinstance(value, BoundMethod) else value
        if isinstance(function, Function):
            return _doc(function) if name == "__doc__" else function.scope.module_name()
    if isinstance(value, NativeFunction) and value.name in _MAPPINGS and name != "fromkeys":
        return NativeFunction(partial(_unbound, name), f"dict.{name}")
    if isinstance(value, NativeFunction) and value.name in _OF_TYPES:
        if name == "maketrans":
            return python_values.attribute(interp, "", name)
        if name == "fromkeys":
            return NativeFunction(_from_keys, name)
        return NativeFunction(partial(_of_plain, name), f"{value.name}.{name}")
    if isinstance(value, NativeFunction) and value.name == "object" and name == "__setattr__":
        return NativeFunction(_set_plainly, name)
    if isinstance(value, NativeFunction) and value.name.startswith("np."):
        attribute = ufuncs_grids.of_ufunc(value, name)
        if attribute is not None:
            return attribute
    if name == "__self__" and isinstance(value, BoundMethod):
        return value.instance
    if name == "__wrapped__":
        return value
    if name == "__get__":
        return NativeFunction(lambda run, instance, *_: interp.bind(value, instance), name)
    return interp.run.unknown(f"{name} of a function")


def _instance_attr(interp: Interpreter, value: Native, name: str) -> Value:
    attrs = getattr(value, "attrs", None)
    if attrs is not None and name in attrs:
        return attrs[name]
    if name == "__dict__":
        return attrs if attrs is not None else {}
    if name == "__class__":
        return value.cls or NativeClass(type(value), value.label)
    if value.cls is not None:
        member = value.cls.find(name)
        if member is not MISSING:
            return interp.bind(member, value)
    patched = patched_method(interp, value, name)
    if patched is not MISSING:
        return patched
    table = exposed.of(type(value))
    getter = table.properties.get(name)
    if getter is not None:
        return interp.guard(MethodType(getter, value), value.label + "." + name)
    method = table.methods.get(name)
    if method is not None:
        return NativeFunction(MethodType(method, value), f"{value.label}.{name}")
    if name == "__call__" and hasattr(value, "call"):
        return _called(value)
    if isinstance(value, Listed) and hasattr(list, name):
        return python_values.attribute(interp, value, name)
    return _fallback(interp, value, name)


def patched_method(interp: Interpreter, value: Native, name: str) -> Value:
    """Return the method that the script has put into a library's class, or `MISSING`."""
    patch = interp.run.patches.find(type(value), name)
    if isinstance(patch, NativeFunction):
        return NativeFunction(partial(_with_self, patch, value), patch.name)
    return patch if patch is MISSING else interp.bind(patch, value)


def _called(value: Native) -> NativeFunction:
    """Return an object's `__call__`."""
    unbound = NativeFunction(partial(_unbound, "__call__"), "__call__")
    return NativeFunction(partial(_with_self, unbound, value), "__call__")


def _with_self(function: NativeFunction, instance: Value, run: Run, *args: Value,
               **kwargs: Value) -> Value:  # fmt: skip
    return run.interp.call(function, [instance, *args], kwargs)


def _fallback(interp: Interpreter, value: Native, name: str) -> Value:
    fallback = value.cls.find("__getattr__") if value.cls is not None else MISSING
    if isinstance(fallback, Function):
        return interp.call(interp.bind(fallback, value), [name], {})
    if fallback is not MISSING:
        return interp.call(fallback, [value, name], {})
    anything = getattr(value, "anything", None)
    if anything is not None:
        return anything(interp.run, name)
    if name in ("__getattr__", "__getattribute__"):
        return NativeFunction(partial(_got, value), name)
    what = msg("{what} has no {name}", what=value.label, name=name)
    if interp.trying and type(value) in _WHOLE:
        raise exceptions.raised(interp.run, "AttributeError", what)
    return interp.run.unknown(f"{what} that the analysis knows")


def bind(interp: Interpreter, value: Value, instance: Value) -> Value:
    """Make a function found on a class into a method of `instance`."""
    function = grad_mode.innermost(value)
    if isinstance(value, Native) and value.cls is not None:
        getter = value.cls.find("__get__")
        if isinstance(getter, Function):
            owner = instance.cls if isinstance(instance, Native) else instance
            return interp.call(BoundMethod(getter, value), [instance, owner], {})
    if isinstance(value, Native):
        method_of = getattr(value, "method_of", None)
        if method_of is not None:
            return method_of(interp, instance)
    if not isinstance(function, Function) or function.kind == "static":
        return value
    if function.kind == "class" and isinstance(instance, Native):
        instance = instance.cls
    bound = _bound(value, function, instance)
    if function.kind not in ("property", "cached"):
        return bound
    result = interp.call(bound, [], {})
    if function.kind == "cached" and isinstance(instance, Native):
        instance.attrs[function.name] = result
    return result


def _super_attr(interp: Interpreter, value: SuperOf, name: str) -> Value:
    instance: Value = value.instance
    cls = instance if isinstance(instance, UserClass) else getattr(instance, "cls", None)
    order = cls.mro() if cls is not None else []
    later = order[order.index(value.owner) + 1 :] if value.owner in order else []
    for base in later:
        if name in base.attrs:
            return interp.bind(base.attrs[name], instance)
    if isinstance(instance, UserClass):
        if name == "__new__":
            return NativeFunction(instantiation.new, name)
        if name == "__call__":
            return NativeFunction(partial(_made_plainly, instance), name)
        return NativeFunction(lambda run, *args, **kwargs: None, name)
    if not isinstance(instance, Native):
        return interp.run.unknown("super() where self is no object of the class")
    patched = patched_method(interp, instance, name)
    if patched is not MISSING:
        return patched
    if name == "__init__":
        return NativeFunction(instance.init, "__init__")
    if name == "__call__" and hasattr(instance, "call"):
        return _called(instance)
    if name == "__setattr__":
        return NativeFunction(partial(_set_on, instance), name)
    if name == "forward" and hasattr(instance, "forward"):
        return NativeFunction(instance.forward, "forward")
    method = exposed.of(type(instance)).methods.get(name)
    if method is not None:
        return NativeFunction(MethodType(method, instance), name)
    if isinstance(instance, Listed) and hasattr(list, name):
        return python_values.attribute(interp, instance, name)
    if name.startswith("__"):
        return NativeFunction(lambda run, *args, **kwargs: None, name)
    return interp.run.unknown(f"super().{name} is not known to the analysis")


def set_attr(interp: Interpreter, target: Value, name: str, value: Value) -> None:
    """Run `target.name = value`."""
    if isinstance(target, Tensor):
        _set_on_tensor(interp, target, name, value)
    elif isinstance(target, Unknown):
        interp.run.keep_somewhere(value)
    elif isinstance(target, Array) and name == "shape":
        target.shape = reshaped(target, value).shape
    elif isinstance(target, Native):
        _set_on_instance(interp, target, name, value)
    elif isinstance(target, UserClass):
        target.attrs[name] = value
    elif isinstance(target, NativeClass):
        _set_on_library_class(interp, target, name, value)
    elif isinstance(target, Namespace):
        if target.name == "paddle.nn.functional":
            interp.run.patches.functions.add(name)
        target.names[name] = value
    elif isinstance(target, UserModule):
        target.scope.names[name] = value
    elif isinstance(target, (Function, BoundMethod, Wrapped, NativeFunction)):
        interp.run.keep_somewhere(value)


def _set_on_tensor(interp: Interpreter, target: Tensor, name: str, value: Value) -> None:
    table = exposed.of(type(target))
    if name == "stop_gradient" and isinstance(value, bool):
        target.stop_gradient = value
    elif name == "trainable" and isinstance(value, bool):
        target.stop_gradient = not value
    elif name in ("grad", "_grad") and (value is None or isinstance(value, Tensor)):
        _set_gradient(interp, target, value)
    elif name == "name" and isinstance(value, str):
        target.name = value
    elif name in table.methods:
        interp.run.block(interp.run.unknown(f"{name} of one tensor is replaced"))
    elif name not in table.properties:
        vars(target).setdefault("attrs", {})[name] = value


def _set_gradient(interp: Interpreter, target: Tensor, value: Tensor | None) -> None:
    """Copy what is given into the gradient, into its memory where it has some."""
    if value is None:
        target.grad = None
        return
    before = target.grad
    if before is not None and before.nbytes == value.nbytes:
        before.emptied = False
        return
    storage = interp.run.storage(value.nbytes, "gradients")
    target.grad = Tensor(value.shape, value.dtype, storage)


def _set_on_library_class(
    interp: Interpreter, target: NativeClass, name: str, value: Value
) -> None:
    """Put an attribute into a class of a library; operators of its objects are not followed."""
    followed = _CALLED if target.make is None else ()
    if name.startswith("__") and name not in (*followed, *_SHOWN):
        interp.run.block(
            interp.run.unknown(msg("{kind}.{name} is replaced", kind=target.name, name=name))
        )
    interp.run.patches.put(target.type, name, value)


def _set_on_instance(interp: Interpreter, target: Native, name: str, value: Value) -> None:
    if target.cls is not None:
        own = target.cls.find(name + SETTER)
        if isinstance(own, Function):
            interp.call(BoundMethod(own, target), [value], {})
            return
        described = target.cls.find(name)
        if isinstance(described, Native) and described.cls is not None:
            setting = described.cls.find("__set__")
            if isinstance(setting, Function):
                interp.call(BoundMethod(setting, described), [target, value], {})
                return
        setter = target.cls.find("__setattr__")
        if isinstance(setter, Function) and not name.startswith("_"):
            interp.call(BoundMethod(setter, target), [name, value], {})
            return
        if isinstance(setter, NativeFunction):
            interp.call(setter, [target, name, value], {})
            return
    change = exposed.of(type(target)).setters.get(name)
    if change is not None:
        change(target, value)
    if name != "__dict__":
        target.attrs[name] = value


def _bound(value: Value, function: Function, instance: Value) -> Value:
    """Bind the function inside the contexts of `value`."""
    if not isinstance(value, Wrapped):
        return BoundMethod(function, instance)
    return Wrapped(_bound(value.function, function, instance), value.context)


def _got(value: Native, run: Run, name: Value) -> Value:
    """Stand for `value.__getattr__(name)`, as classes write that hand on what they lack."""
    return run.interp.get_attr(value, name) if isinstance(name, str) else run.unknown("a name")


def _with_class(
    function: Callable[..., Value], cls: UserClass, run: Run, *args: Value, **kwargs: Value
) -> Value:
    return function(run, cls, *args, **kwargs)


def _made_plainly(cls: UserClass, run: Run, *args: Value, **kwargs: Value) -> Value:
    return instantiation.plainly(run.interp, cls, list(args), kwargs)


def _set_on(target: Native, run: Run, name: Value, value: Value) -> None:
    if isinstance(name, str):
        change = exposed.of(type(target)).setters.get(name)
        if change is not None:
            change(target, value)
        target.attrs[name] = value


def _set_plainly(run: Run, target: Value, name: Value, value: Value) -> None:
    """Stand for `object.__setattr__(target, name, value)`."""
    if isinstance(target, Native):
        _set_on(target, run, name, value)


def _unbound(name: str, run: Run, target: Value, *args: Value, **kwargs: Value) -> Value:
    """Call a library's method that was taken from its class: `dict.get(self, name)`."""
    if name == "__init__" and isinstance(target, Native):
        return target.init(run, *args, **kwargs)
    if name == "__call__" and isinstance(target, Native):
        called = getattr(target, "call", None)
        return run.unknown(f"{name} of a class") if called is None else called(
            run.interp, *args, **kwargs)  # fmt: skip
    if isinstance(target, dict):
        target = _as_mapping(target)
    method = exposed.of(type(target)).methods.get(name) if isinstance(target, Native) else None
    if method is None:
        return run.unknown(f"{name} of a class")
    return method(target, run, *args, **kwargs)


def _of_plain(name: str, run: Run, target: Value, *args: Value, **kwargs: Value) -> Value:
    """Call a method that was taken from its type: `str.lower(text)`."""
    if isinstance(target, Listed):
        # What the script's own class has of that name calls this.
        if name == "__init__":
            return target.init(run, *args)
        plain_method = python_values.attribute(run.interp, target, name)
        return run.interp.call(plain_method, list(args), kwargs)
    return run.interp.call(run.interp.get_attr(target, name), list(args), kwargs)


def _from_keys(run: Run, names: Value, value: Value = None) -> Value:
    return {key: value for key in run.interp.iterate(names) if keys.is_key(key)}


def _as_mapping(entries: dict[Value, Value]) -> Mapping:
    mapping = Mapping()
    mapping.entries = entries
    return mapping

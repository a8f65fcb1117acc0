"""`paddle.nn`: the base class and containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuconsole.preflight.scan.run import LayerCall, Run
from gpuconsole.preflight.scan.tensors import Parameter, Tensor, as_shape
from gpuconsole.preflight.scan.values import (
    MISSING,
    BoundMethod,
    Function,
    Native,
    ShapeFault,
    Unknown,
    Value,
    first_unknown,
)


class Layer(Native):
    """`paddle.nn.Layer`: everything it owns lies in `attrs`, in the order it was set."""

    label = "Layer"
    inner: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.training = True
        self.path = ""

    def get_training(self, run: Run) -> Value:
        """Give the mode."""
        return self.training

    def set_training(self, value: Value) -> None:
        """Set the mode."""
        self.training = value is True

    def members(self) -> Iterator[tuple[str, Value]]:
        """Give what belongs to this layer by name."""
        yield from list(self.attrs.items())

    def children(self) -> list[tuple[str, Layer]]:
        """Return the direct sublayers by name, each once."""
        found: dict[int, tuple[str, Layer]] = {}
        for name, value in self.members():
            if isinstance(value, Layer):
                found.setdefault(id(value), (name, value))
        return list(found.values())

    def walk(self, seen: set[int] | None = None, prefix: str = "") -> Iterator[tuple[str, Layer]]:
        """Give this layer and all below it by name, each once."""
        seen = seen if seen is not None else set()
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, child in self.children():
            yield from child.walk(seen, f"{prefix}.{name}" if prefix else name)

    def parameters(self) -> list[tuple[str, Parameter]]:
        """Return all parameters below by name, each once."""
        found: dict[int, tuple[str, Parameter]] = {}
        for prefix, layer in self.walk():
            for name, value in layer.members():
                if isinstance(value, Parameter) and value.trainable:
                    found.setdefault(id(value), (f"{prefix}.{name}" if prefix else name, value))
        return list(found.values())

    def call(self, calls: Any, *args: Value, **kwargs: Value) -> Value:
        """Run the layer's forward."""
        run: Run = calls.run
        unknown = first_unknown(*args)
        if unknown is not None and any(isinstance(one, Unknown) for one in args):
            run.block(unknown)
            return unknown
        for one in args:
            if isinstance(one, Tensor) and one.shape and not run.loaders:
                run.found_batch(one.shape[0])
        around, flops, place = run.layer, run.flops, (run.file, run.line)
        if not around and not self.path:
            self.name_all()
        run.layer = self.path
        out = self.pass_on(calls, args, kwargs)
        run.layer = around
        self.note_call(run, place, out, run.flops - flops)
        return out

    def name_all(self) -> None:
        """Give this layer and all below it their paths; the outermost goes by its class."""
        root = self.cls.name if self.cls is not None else self.label
        for name, layer in self.walk():
            layer.path = name or root

    def note_call(self, run: Run, place: tuple[str, int], out: Value, flops: float) -> None:
        """Remember the call for the table of layers."""
        if run.moment != "forward" or not self.path:
            return
        first = out[0] if isinstance(out, (list, tuple)) and out else out
        shape = first.shape if isinstance(first, Tensor) else ()
        own = sum(one.nbytes for one in self.attrs.values() if isinstance(one, Parameter))
        kind = self.cls.name if self.cls is not None else self.label
        run.layers[self.path] = LayerCall(kind, *place, tuple(map(int, shape)), own, flops)

    def pass_on(self, calls: Any, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        """Run the forward that the script or Paddle defines."""
        run: Run = calls.run
        forward = self.cls.find("forward") if self.cls is not None else MISSING
        if isinstance(forward, Function):
            return calls.call(BoundMethod(forward, self), list(args), kwargs)
        if forward is not MISSING:
            return calls.call(calls.bind(forward, self), list(args), kwargs)
        native = getattr(self, "forward", None)
        if native is None:
            return run.unknown(f"{self.label} has no forward")
        try:
            return native(run, *args, **kwargs)
        except ShapeFault as fault:
            run.fault(fault.message, fault.shapes)
            return self.recover(run, *args)

    def recover(self, run: Run, *args: Value) -> Value:
        """Return a stand-in for the output after a fault, so that later faults are found too."""
        return run.unknown("the output of a layer whose input has a wrong shape")

    def clone(self, run: Run) -> Layer:
        """Copy with parameters of its own, as `deepcopy` does."""
        made = type(self)()
        made.cls = self.cls
        made.training = self.training
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("attrs", "cls")})
        made.attrs = {name: _clone(run, value) for name, value in self.attrs.items()}
        return made

    def do_parameters(self, run: Run, *_: Value, **__: Value) -> Value:
        """Give all parameters."""
        return [one for _, one in self.parameters()]

    def do_named_parameters(self, run: Run, *_: Value, **__: Value) -> Value:
        """Give all parameters by name."""
        return list(self.parameters())

    def do_sublayers(self, run: Run, *_: Value, include_self: bool = False, **__: Value) -> Value:
        """Give all layers below."""
        return [one for _, one in self.walk() if include_self or one is not self]

    do_modules = do_sublayers

    def do_named_sublayers(self, run: Run, *_: Value, **__: Value) -> Value:
        """Give all layers below by name."""
        return [(name, one) for name, one in self.walk() if one is not self]

    def do_children(self, run: Run) -> Value:
        """Give the direct sublayers."""
        return [one for _, one in self.children()]

    def do_named_children(self, run: Run) -> Value:
        """Give the direct sublayers by name."""
        return list(self.children())

    def do_train(self, run: Run) -> Value:
        """Switch to training."""
        for _, one in self.walk():
            one.training = True
        return self

    def do_eval(self, run: Run) -> Value:
        """Switch to evaluation."""
        for _, one in self.walk():
            one.training = False
        return self

    def do_add_sublayer(self, run: Run, name: Value, layer: Value) -> Value:
        """Add a sublayer."""
        self.attrs[name if isinstance(name, str) else f"layer{len(self.attrs)}"] = layer
        return layer

    do_add_module = do_add_sublayer

    def do_add_parameter(self, run: Run, name: Value, value: Value) -> Value:
        """Add a parameter."""
        self.attrs[str(name)] = value
        return value

    def do_register_buffer(
        self, run: Run, name: Value, value: Value, *_: Value, **__: Value
    ) -> None:
        """Add a buffer."""
        self.attrs[str(name)] = value

    def do_create_parameter(self, run: Run, shape: Value, *_: Value, dtype: Value = None,
                            **__: Value) -> Value:  # fmt: skip
        """Make a parameter."""
        unknown = first_unknown(shape)
        if unknown is not None:
            run.block(unknown)
            return unknown
        return run.parameter(as_shape(shape), dtype if isinstance(dtype, str) else "")

    def do_apply(self, run: Run, function: Value) -> Value:
        """Initialisers change no sizes."""
        return self

    def do_state_dict(self, run: Run, *_: Value, **__: Value) -> Value:
        """Give the parameters by name."""
        return dict(self.parameters())

    def do_set_state_dict(self, run: Run, *_: Value, **__: Value) -> None:
        """Load weights: no sizes change."""

    do_load_dict = do_set_dict = do_load_state_dict = do_set_state_dict
    do_clear_gradients = do_full_name = do_set_state_dict

    def do_to(self, run: Run, *_: Value, **__: Value) -> Value:
        """Move: there is one device."""
        return self

    do_cuda = do_cpu = do_float = do_to

    def weight(
        self, run: Run, name: str, shape: tuple[int, ...], attr: Value = None
    ) -> Tensor | None:
        """Make a parameter of this layer unless its attribute is False."""
        if attr is False:
            self.attrs[name] = None
            return None
        one = run.parameter(shape)
        if getattr(attr, "frozen", False):
            one.stop_gradient = True
        self.attrs[name] = one
        return one

    def tensor(self, name: str) -> Tensor | None:
        """Return a parameter or buffer by name."""
        value = self.attrs.get(name)
        return value if isinstance(value, Tensor) else None


def _clone(run: Run, value: Value) -> Value:
    if isinstance(value, Layer):
        return value.clone(run)
    if isinstance(value, Parameter):
        return run.parameter(value.shape, value.dtype, trainable=value.trainable)
    if isinstance(value, list):
        return [_clone(run, one) for one in value]
    return value


class Identity(Layer):
    """`nn.Identity`."""

    label = "Identity"

    def forward(self, run: Run, x: Tensor, *_: Value) -> Value:
        """Return the input."""
        return x


class Sequential(Layer):
    """`nn.Sequential`: layers, or (name, layer) pairs."""

    label = "Sequential"

    def init(self, run: Run, *layers: Value, **_: Value) -> None:
        """Take the layers in order."""
        if len(layers) == 1 and isinstance(layers[0], (dict, list)):
            only = layers[0]
            layers = tuple(only.items() if isinstance(only, dict) else only)
        for place, one in enumerate(layers):
            if isinstance(one, (tuple, list)):
                self.attrs[str(one[0])] = one[1]
            else:
                self.attrs[str(place)] = one

    def call(self, calls: Any, *args: Value, **kwargs: Value) -> Value:
        """Run the layers one after the other."""
        if self.cls is not None and self.cls.find("forward") is not MISSING:
            return super().call(calls, *args, **kwargs)
        (x,) = args
        for layer in list(self.attrs.values()):
            if layer is not None and not isinstance(layer, (int, str, bool, float)):
                x = calls.call(layer, [x], {})
        return x

    def item(self, calls: Any, key: Value) -> Value:
        """Index or slice."""
        layers = [one for one in self.attrs.values() if isinstance(one, Layer)]
        if isinstance(key, slice):
            made = Sequential()
            made.init(calls.run, *layers[key])
            return made
        return layers[key] if isinstance(key, int) else self.attrs[key]

    def count(self, calls: Any) -> int:
        """Number of layers."""
        return len(self.children())

    def iterate(self, calls: Any) -> Iterator[Value]:
        """Give the layers."""
        yield from [one for one in self.attrs.values() if isinstance(one, Layer)]


class LayerList(Layer):
    """`nn.LayerList` and `nn.ParameterList`."""

    label = "LayerList"

    def init(self, run: Run, layers: Value = None) -> None:
        """Take the layers in order."""
        items = getattr(layers, "items", layers) or ()
        for one in list(items) if isinstance(items, (list, tuple)) else ():
            self.do_append(run, one)

    def do_append(self, run: Run, layer: Value) -> Value:
        """Add one."""
        self.attrs[str(len(self.attrs))] = layer
        return self

    def do_extend(self, run: Run, layers: Value) -> Value:
        """Add several."""
        for one in layers:
            self.do_append(run, one)
        return self

    def item(self, calls: Any, key: Value) -> Value:
        """Index or slice."""
        found = list(self.attrs.values())[key]
        if isinstance(found, list):
            made = LayerList()
            made.init(calls.run, found)
            return made
        return found

    def count(self, calls: Any) -> int:
        """Number of layers."""
        return len(self.attrs)

    def iterate(self, calls: Any) -> Iterator[Value]:
        """Give the layers."""
        yield from list(self.attrs.values())


class LayerDict(Layer):
    """`nn.LayerDict`."""

    label = "LayerDict"

    def init(self, run: Run, layers: Value = None) -> None:
        """Take the layers by name."""
        self.attrs.update(dict(layers or {}))

    def item(self, calls: Any, key: Value) -> Value:
        """Index by name."""
        return self.attrs[key]

    def store(self, calls: Any, key: Value, value: Value) -> None:
        """Set by name."""
        self.attrs[key] = value

"""Layers that hold other layers or parameters, by place or by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import Unknown, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


class Ordered(Layer):
    """Members in order: layers of `Sequential` and `LayerList`, tensors of `ParameterList`."""

    def held(self) -> list[str]:
        """Return the names of the members, also of those that are not known."""
        kinds = (Layer, Tensor, Unknown)
        return [name for name, member in self.attrs.items() if isinstance(member, kinds)]

    def refill(self, members: list[Value]) -> None:
        """Put these in the places 0, 1, …"""
        for name in self.held():
            del self.attrs[name]
        self.attrs.update({str(place): member for place, member in enumerate(members)})

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Index, slice, or take by name."""
        if isinstance(key, str):
            return self.attrs[key]
        members = [self.attrs[name] for name in self.held()][key]
        if not isinstance(members, list):
            return members
        container = type(self)()
        container.cls = self.cls
        container.refill(members)
        return container

    def store(self, interp: Interpreter, key: Value, value: Value) -> None:
        """Replace a member."""
        self.attrs[key if isinstance(key, str) else self.held()[key]] = value

    def count(self, interp: Interpreter) -> int:
        """Return how many members there are."""
        return len(self.held())

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the members."""
        for name in self.held():
            yield self.attrs[name]

    @exposed.method("append")
    def do_append(self, run: Run, member: Value) -> Value:
        """Add one."""
        if isinstance(member, Unknown):
            run.block(member)
        self.attrs[str(len(self.held()))] = member
        return self

    @exposed.method("extend")
    def do_extend(self, run: Run, members: Value) -> Value:
        """Add several."""
        for member in run.interp.iterate(members):
            self.do_append(run, member)
        return self

    @exposed.method("insert")
    def do_insert(self, run: Run, index: int, member: Value) -> Value:
        """Add one before a place."""
        members = [self.attrs[name] for name in self.held()]
        members.insert(index, member)
        self.refill(members)
        return self

    @exposed.method("pop")
    def do_pop(self, run: Run, index: int = -1) -> Value:
        """Take one out."""
        members = [self.attrs[name] for name in self.held()]
        taken = members.pop(index)
        self.refill(members)
        return taken


class Sequential(Ordered):
    """`nn.Sequential`: layers, or (name, layer) pairs."""

    label = "Sequential"

    def init(self, run: Run, *layers: Value, **_: Value) -> None:
        """Take the layers in order."""
        if len(layers) == 1 and isinstance(layers[0], (dict, list)):
            only = layers[0]
            layers = tuple(only.items() if isinstance(only, dict) else only)
        for place, member in enumerate(layers):
            named = isinstance(member, (tuple, list))
            layer = member[1] if named else member
            if isinstance(layer, Unknown):
                run.block(layer)
            self.attrs[str(member[0]) if named else str(place)] = layer

    def built_in(
        self, interp: Interpreter, args: tuple[Value, ...], kwargs: dict[str, Value]
    ) -> Value:
        """Run the layers one after the other."""
        return self.forward(interp.run, *args)

    def forward(self, run: Run, x: Value) -> Value:
        """Run the layers one after the other."""
        for name in self.held():
            x = run.interp.call(self.attrs[name], [x], {})
        return x


class LayerList(Ordered):
    """`nn.LayerList`."""

    label = "LayerList"

    def init(self, run: Run, sublayers: Value = None) -> None:
        """Take the members in order."""
        if isinstance(sublayers, Unknown):
            run.block(sublayers)
        elif sublayers is not None:
            self.do_extend(run, sublayers)


class ParameterList(LayerList):
    """`nn.ParameterList`."""

    label = "ParameterList"

    def init(self, run: Run, parameters: Value = None) -> None:
        """Take the parameters in order."""
        super().init(run, parameters)


class LayerDict(Layer):
    """`nn.LayerDict` and `nn.ParameterDict`."""

    label = "LayerDict"

    def init(self, run: Run, members: Value = None, **named: Value) -> None:
        """Take the members by name."""
        self.do_update(run, next(iter(named.values()), None) if members is None else members)

    @exposed.method("update")
    def do_update(self, run: Run, members: Value) -> None:
        """Add from a mapping or from pairs."""
        if isinstance(members, LayerDict):
            members = members.attrs
        for name, member in dict(members or {}).items():
            self.attrs[str(name)] = member

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Take by name."""
        return self.attrs[key]

    def store(self, interp: Interpreter, key: Value, value: Value) -> None:
        """Set by name."""
        self.attrs[key] = value

    def count(self, interp: Interpreter) -> int:
        """Return how many members there are."""
        return len(self.attrs)

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the names."""
        yield from list(self.attrs)

    def contains(self, key: Value) -> bool:
        """Tell whether there is a member of this name."""
        return key in self.attrs

    @exposed.method("keys")
    def do_keys(self, run: Run) -> Value:
        """Give the names."""
        return list(self.attrs)

    @exposed.method("values")
    def do_values(self, run: Run) -> Value:
        """Give the members."""
        return list(self.attrs.values())

    @exposed.method("items")
    def do_items(self, run: Run) -> Value:
        """Give names and members."""
        return list(self.attrs.items())

    @exposed.method("pop")
    def do_pop(self, run: Run, key: Value) -> Value:
        """Take one out."""
        return self.attrs.pop(key)

    @exposed.method("clear")
    def do_clear(self, run: Run) -> None:
        """Take all out."""
        self.attrs.clear()

"""The tree that layers form: children, parameters, buffers, copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuconsole.preflight.interpreter.domain.values import Native, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Parameter, Tensor


class Branch(Native):
    """One layer in the tree: everything it owns lies in `attrs`, in the order it was set."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[Value] = []
        self.after: list[Value] = []
        self.kept: list[str] = []

    def members(self) -> Iterator[tuple[str, Value]]:
        """Give what belongs to this layer by name."""
        yield from list(self.attrs.items())

    def children(self) -> list[tuple[str, Any]]:
        """Return the direct sublayers by name, each once."""
        children: dict[int, tuple[str, Any]] = {}
        for name, value in self.members():
            if isinstance(value, Branch):
                children.setdefault(id(value), (name, value))
        return list(children.values())

    def walk(self, seen: set[int] | None = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Give this layer and all below it by name, each once."""
        seen = seen if seen is not None else set()
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, child in self.children():
            yield from child.walk(seen, f"{prefix}.{name}" if prefix else name)

    def parameters(self, below: bool = True, prefix: str = "") -> list[tuple[str, Parameter]]:
        """Return the parameters by name, each once: this layer's own and those below."""
        parameters: dict[int, tuple[str, Parameter]] = {}
        for path, layer in self.walk(prefix=prefix) if below else [(prefix, self)]:
            for name, value in layer.members():
                if isinstance(value, Parameter):
                    parameters.setdefault(id(value), (f"{path}.{name}" if path else name, value))
        return list(parameters.values())

    def buffers(self, below: bool = True, prefix: str = "") -> list[tuple[str, Tensor]]:
        """Return the buffers by name, each once."""
        buffers: dict[int, tuple[str, Tensor]] = {}
        for path, layer in self.walk(prefix=prefix) if below else [(prefix, self)]:
            for name in layer.kept:
                value = layer.attrs.get(name)
                if isinstance(value, Tensor):
                    buffers.setdefault(id(value), (f"{path}.{name}" if path else name, value))
        return list(buffers.values())

    def clone(self, run: Run, copies: dict[int, Value] | None = None) -> Any:
        """Copy with parameters of its own, as `deepcopy` does; what was shared stays shared."""
        copies = copies if copies is not None else {}
        copy = type(self)()
        copies[id(self)] = copy
        own = ("attrs", "cls", "before", "after", "kept")
        copy.__dict__.update({k: v for k, v in self.__dict__.items() if k not in own})
        copy.cls = self.cls
        copy.before, copy.after, copy.kept = list(self.before), list(self.after), list(self.kept)
        copy.attrs = {name: _clone(run, value, copies) for name, value in self.attrs.items()}
        return copy


def _clone(run: Run, value: Value, copies: dict[int, Value]) -> Value:
    if id(value) in copies:
        return copies[id(value)]
    if isinstance(value, Branch):
        return value.clone(run, copies)
    if isinstance(value, Parameter):
        copies[id(value)] = value.clone(run)
        return copies[id(value)]
    if isinstance(value, Tensor):
        return Tensor(value.shape, value.dtype, run.storage(value.nbytes, "parameters"))
    if isinstance(value, list):
        return [_clone(run, item, copies) for item in value]
    if type(value) is tuple:
        return tuple(_clone(run, item, copies) for item in value)
    if isinstance(value, dict):
        return {key: _clone(run, item, copies) for key, item in value.items()}
    return value

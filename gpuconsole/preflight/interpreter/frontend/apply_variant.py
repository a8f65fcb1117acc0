"""A variant applied to a script that does not have it: mixed precision, recomputed blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain.values import Native, NativeFunction, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.autograd.recompute import recompute
from gpuconsole.preflight.interpreter.paddle.nn.containers import LayerList, Sequential
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.interpreter.paddle.training import amp
from gpuconsole.preflight.memory.backends import terms

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


def begin(run: Run) -> None:
    """Set a run up as its variant asks."""
    variant, backend = run.setting.variant, run.setting.backend
    if not terms(backend).proven and backend != "gpu":
        run.findings.notes.append(
            msg(
                "Terms of {backend} devices are the GPU's: not compared with runs there.",
                backend=backend,
            )
        )
    run.mode.amp = amp.mixed(run)
    if variant.recompute or run.mode.amp.level == "O2":
        run.mode.around = Around(run, blocks=variant.recompute, halves=run.mode.amp.level == "O2")


class Around:
    """What is done around the first and every other call of a network's layers.

    At O2 a network's parameters become halves when it is first called, as `decorate` would have
    made them. Repeated blocks run as `recompute` runs them.
    """

    def __init__(self, run: Run, *, blocks: bool, halves: bool) -> None:
        self.wants_blocks, self.wants_halves = blocks, halves
        self.dtype = run.mode.amp.dtype
        self.known: dict[int, Layer] = {}
        self.blocks: dict[int, Layer] = {}
        self.inside = False

    def __call__(self, interp: Interpreter, target: Native, args: list[Value],
                 kwargs: dict[str, Value]) -> Value:  # fmt: skip
        """Call an object; a layer in the way that the variant asks for."""
        run: Run = interp.run
        if not isinstance(target, Layer):
            return interp.call_instance(target, args, kwargs)
        if id(target) not in self.known:
            self._meet(run, target)
        again = run.mode.grad_enabled and target.training and not self.inside
        if id(target) not in self.blocks or not again or not _flows(args, kwargs):
            return interp.call_instance(target, args, kwargs)
        self.inside = True
        try:
            once = NativeFunction(
                lambda _run, *a, **k: interp.call_instance(target, list(a), k), target.label
            )
            return recompute(run, once, *args, **kwargs)
        finally:
            self.inside = False

    def _meet(self, run: Run, root: Layer) -> None:
        if self.wants_halves:
            amp.halve(run, root, self.dtype, [])
        for name, layer in root.walk():
            if id(layer) in self.known:
                continue
            self.known[id(layer)] = layer
            if self.wants_blocks and isinstance(layer, (LayerList, Sequential)):
                self._find_blocks(run, name, layer)

    def _find_blocks(self, run: Run, name: str, container: Layer) -> None:
        """Take what a container holds two or more of and that is made of layers itself."""
        groups: dict[str, list[Layer]] = {}
        for _, child in container.children():
            if child.children():
                groups.setdefault(_kind(child), []).append(child)
        for kind, alike in groups.items():
            if len(alike) > 1:
                self.blocks.update({id(block): block for block in alike})
                run.mode.recomputed.append((name or _kind(container), kind, len(alike)))


def _flows(args: list[Value], kwargs: dict[str, Value]) -> bool:
    """Tell whether any input needs a gradient: without one Paddle trains nothing in the block."""
    given = [*args, *kwargs.values()]
    return any(isinstance(tensor, Tensor) and tensor.needs_grad for tensor in given)


def _kind(layer: Layer) -> str:
    return layer.cls.name if layer.cls is not None else layer.label

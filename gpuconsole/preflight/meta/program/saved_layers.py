"""Networks that one run saves as programs and loads again: `paddle.jit.save` and `paddle.jit.load`.

No file is written: files of a run are thrown away, and saving takes no memory of tensors beside the
network's own (measured with Paddle 3.3.1). What is loaded is a network of its own, with parameters
of its own, that runs as one program.
"""

from __future__ import annotations

import copy
import functools
import os
from typing import TYPE_CHECKING

from ..autograd import to_static
from ..state import STATE

if TYPE_CHECKING:
    from types import ModuleType

    from paddle.nn import Layer

SAVED: dict[str, Layer] = {}
"""Networks that the run has saved, by path."""


def install(paddle: ModuleType) -> None:
    """Replace Paddle's functions that save and load networks as programs."""
    load = paddle.jit.load

    def saved(layer: Layer, path: str | os.PathLike[str], *_: object, **__: object) -> None:
        SAVED[_place(path)] = layer

    @functools.wraps(load)
    def loaded(path: str | os.PathLike[str], *args: object, **kwargs: object) -> Layer:
        layer = SAVED.get(_place(path))
        return load(path, *args, **kwargs) if layer is None else _loaded(paddle, layer)

    paddle.jit.save, paddle.jit.load = saved, loaded


def _place(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(path)


def _loaded(paddle: ModuleType, saved: Layer) -> Layer:
    """Return a network like one that was saved; in evaluation it keeps nothing for a backward."""

    class TranslatedLayer(paddle.nn.Layer):  # type: ignore[misc, name-defined]
        """A network that was loaded as a program."""

        def __init__(self) -> None:
            super().__init__()
            self.saved = copy.deepcopy(getattr(saved, "__self__", saved))

        def forward(self, *inputs: object) -> object:
            """Run the program."""
            STATE.flags.add("loaded-program")
            forward = functools.partial(self.saved.forward, *inputs)
            return to_static.run(forward, self.training, by_parts=False)

    layer = TranslatedLayer()
    layer.eval()
    return layer

"""`paddle.save`: what is written lies in the host's memory first, all of it at once.

Where Paddle runs on a CPU these copies are its allocator's (measured with 3.3.1); on a device they
are none of its memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.interpreter.domain.values import Saved, Unknown, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class SavedState(Unknown):
    """What an optimizer would save: its names are not followed, its tensors are."""

    tensors: tuple[Tensor, ...] = field(default=(), compare=False)


def save(run: Run, obj: Value = None, *_: Value, **__: Value) -> None:
    """Copy each tensor for as long as the file is written; a dictionary of tensors copies one that
    it holds under two names twice, anything nested copies it once."""
    if not run.on_cpu or run.program.drafting is not None:
        return
    tensors = list(_tensors(obj))
    if not _is_flat(obj):
        tensors = list({id(tensor): tensor for tensor in tensors}.values())
    copies = [run.storage(tensor.storage.nbytes) for tensor in tensors]
    del copies


def _is_flat(obj: Value) -> bool:
    if isinstance(obj, SavedState):
        return True
    return isinstance(obj, dict) and all(isinstance(part, Tensor) for part in obj.values())


def _tensors(obj: Value) -> Iterator[Tensor]:
    if isinstance(obj, Tensor):
        yield obj
    elif isinstance(obj, SavedState):
        yield from obj.tensors
    elif isinstance(obj, dict):
        for part in obj.values():
            yield from _tensors(part)
    elif isinstance(obj, (list, tuple)):
        for part in obj:
            yield from _tensors(part)


def load(run: Run, *_: Value, return_numpy: Value = False, **__: Value) -> Unknown:
    """`paddle.load`: tensors of the network that takes them, or arrays, which are none."""
    unknown = run.unknown("what a saved file holds")
    if return_numpy is True:
        return unknown
    return Saved(unknown.file, unknown.line, unknown.reason, unknown.root)

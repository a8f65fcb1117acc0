"""What lies beside a training and has no size that is known: its memory is not known either."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import lengths
from gpuconsole.preflight.interpreter.domain.keys import SomeKey
from gpuconsole.preflight.interpreter.machine.evaluations import UNKNOWN, nbytes_of
from gpuconsole.preflight.interpreter.machine.loop_summary import containers

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


def look(interp: Interpreter) -> None:
    """Look at what is there once two steps were followed: tensors of unknown size that were made
    before the training, and containers of an unknown number of tensors."""
    run = interp.run
    for memory, unknown in run.unsized:
        if memory() is not None:
            run.give_up(unknown)
            break
    for container, _ in containers(interp.here):
        more = lengths.more_in(container)
        if more is None or any(isinstance(key, SomeKey) for key in container):
            continue
        items = container.values() if isinstance(container, dict) else container
        each = max(map(nbytes_of, islice(items, lengths.MAX_LOOKED_AT)), default=0)
        count = more.length if isinstance(more.length, int) else UNKNOWN
        run.progress.unseen = max(run.progress.unseen, each * count)

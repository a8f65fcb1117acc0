"""Work beside the screen: nothing that takes time holds up a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from gpuconsole.session.async_helpers import Work


def aside(
    node: DOMNode,
    work: Callable[[], Work[None]],
    *,
    group: str,
    exclusive: bool = False,
) -> None:
    """Run work in a worker of this node; with `exclusive` the group's earlier work is given up.

    Work is a function, for a coroutine that is given up before it began would never be awaited.
    """
    # Textual's type of work is a union in which mypy finds no result.
    node.run_worker(work, group=group, exclusive=exclusive, exit_on_error=False)  # type: ignore[arg-type]

"""A session that is opened once the console has drawn its first frame.

To import all that a session can do takes as long as to import the screens. The first frame needs
none of it, so the console draws that first and shows what is known without a session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.util.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@dataclass(frozen=True, slots=True)
class AwaitedSession:
    """How the session is made, and what is shown until then."""

    open: Callable[[], Awaitable[Session]]
    """Returns the session, not entered yet; ConsoleError where it cannot be opened."""
    snapshot: FleetSnapshot
    """The hosts, before anybody was asked."""
    read_only: bool = False

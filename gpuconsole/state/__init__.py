"""What survives the console: the journal of jobs in the state folder.

The names below are imported when they are used: what needs one file of answers does not pay for
the database.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuconsole.state.files.assumptions import Assumptions
    from gpuconsole.state.ids import new_job_id, new_nonce
    from gpuconsole.state.journal import JobMovedError, Journal
    from gpuconsole.state.journal_guard import JournalLostError
    from gpuconsole.state.tables.dispatcher_lease import STALE_AFTER_S, Role, RoleLostError
    from gpuconsole.state.tables.host_drains import Drain

__all__ = [
    "STALE_AFTER_S",
    "Assumptions",
    "Drain",
    "JobMovedError",
    "Journal",
    "JournalLostError",
    "Role",
    "RoleLostError",
    "new_job_id",
    "new_nonce",
]

_HOMES = {
    "Assumptions": "files.assumptions",
    "Drain": "tables.host_drains",
    "JobMovedError": "journal",
    "Journal": "journal",
    "JournalLostError": "journal_guard",
    "Role": "tables.dispatcher_lease",
    "RoleLostError": "tables.dispatcher_lease",
    "STALE_AFTER_S": "tables.dispatcher_lease",
    "new_job_id": "ids",
    "new_nonce": "ids",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)

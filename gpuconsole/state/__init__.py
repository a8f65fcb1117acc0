"""What survives the console: the journal of jobs in the state folder."""

from gpuconsole.state.assumptions import Assumptions
from gpuconsole.state.ids import new_job_id, new_nonce
from gpuconsole.state.journal import JobMovedError, Journal
from gpuconsole.state.role import STALE_AFTER_S, Role, RoleLostError

__all__ = [
    "STALE_AFTER_S",
    "Assumptions",
    "JobMovedError",
    "Journal",
    "Role",
    "RoleLostError",
    "new_job_id",
    "new_nonce",
]

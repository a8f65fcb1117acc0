"""One look over the board for one job: which cells would do, and what is wrong with the others.

Cells are sorted into filters; sentences are made afterwards, for those that are shown. What can
never change for a job (back end, labels, capacity) is asked before what can (leases, memory held),
so that the filter also tells whether waiting would help.
"""

from __future__ import annotations

from dataclasses import field

from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.engine.board import Board, Cell
from gpuconsole.placement.engine.job_profile import Profile
from gpuconsole.placement.engine.search import allowed, cell_code, host_code, shared_code
from gpuconsole.placement.model import Ruling


@dataclass(slots=True)
class Survey:
    """Cells of the board sorted by what holds them back from one job."""

    profile: Profile
    board: Board
    eligible: list[Cell] = field(default_factory=list)
    refused: list[tuple[Cell, str]] = field(default_factory=list)
    behind: str = ""
    """The job that none may pass, where the policy is strict; "" else."""
    ruling: Ruling | None = None
    """A rule of the lab against the job wherever it may start."""


def survey(profile: Profile, board: Board) -> Survey:
    """Sort all cells for one job."""
    result = Survey(profile, board)
    count = profile.request.devices
    for site in board.sites:
        ruled = (
            host_code(profile, board, site, profile.request.least_on_host) if profile.picky else ""
        )
        for cell in site.cells.values():
            code = profile.views[cell.kind].code or ruled or _code(profile, board, cell, count)
            if code:
                result.refused.append((cell, code))
            else:
                result.eligible.append(cell)
        for cell in site.held:
            code = (
                profile.views[cell.kind].code
                or ruled
                or cell.fault
                or _held_code(profile, board, cell)
            )
            result.refused.append((cell, code))
    result.eligible.sort(key=lambda cell: cell.order)
    return result


def _code(profile: Profile, board: Board, cell: Cell, count: int) -> str:
    if cell.fault:
        return cell.fault
    assert cell.shelf is not None
    code = cell_code(profile, cell.shelf)
    if code:
        return code
    return "" if allowed(profile, board, cell.shelf, count) else "reserved"


def _held_code(profile: Profile, board: Board, cell: Cell) -> str:
    shared = shared_code(profile, board, cell) if profile.policy.sharing else ""
    # A shared device is a last resort, and `search` looks for it: here it is not free.
    return shared or "leased"


def time_left(ends: float, now: float) -> str:
    """Return the time until `ends` in words."""
    return format_duration(max(1.0, ends - now))

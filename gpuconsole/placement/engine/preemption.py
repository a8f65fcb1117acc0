"""Which running jobs should make room: fewest devices, latest start, and only if that is enough."""

from __future__ import annotations

from gpuconsole.placement.engine.board import Board, Cell, Site
from gpuconsole.placement.engine.job_profile import Profile
from gpuconsole.placement.engine.search import cell_code, host_code


def victims(profile: Profile, board: Board) -> tuple[str, ...]:
    """Return the jobs of lower priority, able to resume, that must stop for a job to start.

    One host and one kind of device, on which they hold as little as possible. Empty when no such
    set would let the job start.
    """
    best: tuple[int, float, tuple[str, ...]] | None = None
    for site in board.sites:
        if profile.picky and host_code(profile, board, site, profile.request.devices):
            continue
        for kind, view in enumerate(profile.views):
            stopped = None if view.code else _on(profile, board, site, kind)
            if stopped is not None and (best is None or stopped < best):
                best = stopped
    return best[2] if best is not None else ()


def _on(
    profile: Profile, board: Board, site: Site, kind: int
) -> tuple[int, float, tuple[str, ...]] | None:
    """Return what must stop on one host: devices lost, run time lost (s), jobs."""
    missing = profile.request.devices - sum(
        len(cell.spots)
        for cell in site.cells.values()
        if cell.kind == kind and cell.shelf is not None and not cell_code(profile, cell.shelf)
    )
    if missing <= 0:
        return None
    stoppable: dict[str, int] = {}
    for cell in site.held:
        if cell.kind == kind and not cell.fault and _may_stop(profile, cell):
            assert cell.holder is not None
            job = cell.holder.job
            stoppable[job] = stoppable.get(job, 0) + len(cell.spots)
    if sum(stoppable.values()) < missing:
        return None
    chosen = _fewest(stoppable, missing, board)
    lost = sum(len(cell.spots) for job in chosen for cell in board.held[job])
    ran = sum(profile.now - _since(board, job) for job in chosen)
    return lost, ran, chosen


def _fewest(stoppable: dict[str, int], missing: int, board: Board) -> tuple[str, ...]:
    """Return jobs that free enough, newest first, without those that the others make needless."""
    chosen: list[str] = []
    for job in sorted(stoppable, key=lambda job: (-_since(board, job), job)):
        if sum(stoppable[victim] for victim in chosen) >= missing:
            break
        chosen.append(job)
    for job in sorted(chosen, key=lambda job: stoppable[job]):
        rest = [victim for victim in chosen if victim != job]
        if sum(stoppable[victim] for victim in rest) >= missing:
            chosen = rest
    return tuple(chosen)


def _may_stop(profile: Profile, cell: Cell) -> bool:
    holder = cell.holder
    if holder is None or cell.guest is not None or not holder.resumable:
        return False
    return holder.priority < profile.request.task.priority


def _since(board: Board, job: str) -> float:
    holder = board.held[job][0].holder
    return holder.since if holder is not None else 0.0
